//! Clearing the old contents of a device.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use rustix::{
    fs::{FallocateFlags, SeekFrom, fallocate, seek},
    io::Errno,
};
use uxfs_format::superblock::{self, Superblock};

/// Beginning and end of a device, where others look for their own signatures.
pub const SIGNATURE_BYTES: u64 = 128 << 10;
/// Ranges are given up in pieces, so that the command can be interrupted.
const PIECE_BYTES: u64 = 4 << 30;
/// Old groups of which the superblocks are wiped at most.
const MAX_OLD_GROUPS: u32 = 1 << 20;

/// Gives up a range; it reads as zeros afterwards. False where the device cannot do that.
///
/// # Errors
/// It can, but failed.
pub fn punch(file: &File, range: Range<u64>) -> io::Result<bool> {
    in_pieces(range, |at, length| {
        match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    })
}

fn in_pieces(range: Range<u64>, mut act: impl FnMut(u64, u64) -> io::Result<bool>) -> io::Result<bool> {
    let mut at = range.start;
    while at < range.end {
        let length = PIECE_BYTES.min(range.end - at);
        if !act(at, length)? {
            return Ok(false);
        }
        at += length;
    }
    Ok(true)
}

/// Makes a range read as zeros, keeping its space where that is possible.
///
/// # Errors
/// The device fails.
pub fn zero(file: &File, range: Range<u64>) -> io::Result<()> {
    if is_hole(file, &range) {
        return Ok(());
    }
    let has_zero_range = in_pieces(range.clone(), |at, length| {
        match fallocate(file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, at, length) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    })?;
    if has_zero_range || punch(file, range.clone())? {
        return Ok(());
    }
    let zeros = vec![0; 1 << 20];
    let mut at = range.start;
    while at < range.end {
        let length = (zeros.len() as u64).min(range.end - at) as usize;
        file.write_all_at(&zeros[..length], at)?;
        at += length as u64;
    }
    Ok(())
}

/// Whether a file holds no data there. A block device always does, as far as this can be asked.
fn is_hole(file: &File, range: &Range<u64>) -> bool {
    match seek(file, SeekFrom::Data(range.start)) {
        Ok(data) => data >= range.end,
        Err(Errno::NXIO) => true,
        Err(_) => false,
    }
}

/// Where the copies of an old superblock lie, counted from the beginning of the part of `file` that held its file system: what looks for a lost
/// file system must not find them.
pub fn old_superblocks(file: &File, start_bytes: u64, size_bytes: u64) -> Vec<Range<u64>> {
    let mut head = [0; 512];
    if file.read_exact_at(&mut head, start_bytes).is_err() {
        return Vec::new();
    }
    // Only its first numbers are looked at, whatever its version, and none of them is trusted.
    let Some(old) = <Superblock as uxfs_format::field_table::OnDisk>::prefix_of(&head) else {
        return Vec::new();
    };
    if old.magic.get() != superblock::MAGIC {
        return Vec::new();
    }
    let group_bytes = u64::from(old.ag_blocks.get()).saturating_mul(old.block_size_bytes.get().into());
    if group_bytes < superblock::MIN_AG_BYTES {
        return Vec::new();
    }
    let sector_bytes = u64::from(old.sector_size_bytes.get()).clamp(512, 32768);
    (1..old.ag_count.get().min(MAX_OLD_GROUPS))
        .map(|group| u64::from(group).saturating_mul(group_bytes))
        .take_while(|start| start.saturating_add(sector_bytes) <= size_bytes)
        .map(|start| start..start + sector_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_ranges_read_as_zeros_and_neighbours_stay() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 64 << 10], 0).unwrap();
        zero(&file, 4096..20000).unwrap();
        let mut bytes = vec![0; 64 << 10];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[4096..20000].iter().all(|byte| *byte == 0));
        assert!(bytes[..4096].iter().chain(&bytes[20000..]).all(|byte| *byte == 7));
    }

    #[test]
    fn absurd_old_superblocks_are_left_alone() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        let mut head = [0xff; 512];
        head[..4].copy_from_slice(b"XFSB");
        file.write_all_at(&head, 0).unwrap();
        assert!(old_superblocks(&file, 0, 1 << 30).is_empty());
        // 4 KiB × 4096 blocks: groups of 16 MiB, more of them than there is room for.
        head[4..8].copy_from_slice(&4096u32.to_be_bytes());
        head[84..88].copy_from_slice(&4096u32.to_be_bytes());
        file.write_all_at(&head, 0).unwrap();
        assert_eq!(old_superblocks(&file, 0, 1 << 30).len(), 63);
    }
}

//! Signatures of existing contents of a device.

use std::{fs::File, io, os::unix::fs::FileExt};

/// Something recognised by its magic number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// Its name.
    pub name: &'static str,
}

/// One magic number.
#[derive(Debug)]
struct Magic {
    name: &'static str,
    offset_bytes: u64,
    bytes: &'static [u8],
}

const fn magic(name: &'static str, offset_bytes: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, offset_bytes, bytes }
}

/// Magic numbers at fixed places. Formats that others contain come after them.
const MAGICS: &[Magic] = &[
    magic("an XFS file system", 0, b"XFSB"),
    magic("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    magic("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    magic(
        "a bcachefs file system or bcache device",
        4096 + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    magic(
        "a bcachefs file system",
        4096 + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    magic("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    magic("an EROFS file system", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    magic("a JFS file system", 32768, b"JFS1"),
    magic("a ReiserFS file system", 65536 + 52, b"ReIsEr"),
    magic("a Reiser4 file system", 65536, b"ReIsEr4"),
    magic("a GFS2 file system", 65536, &[0x01, 0x16, 0x19, 0x70]),
    magic("an OCFS2 file system", 2 * 4096, b"OCFSV2"),
    magic("a NILFS2 file system", 1024 + 6, &[0x34, 0x34]),
    magic("an HFS+ file system", 1024, b"H+"),
    magic("an HFS+ file system", 1024, b"HX"),
    magic("an APFS container", 32, b"NXSB"),
    magic("a squashfs file system", 0, b"hsqs"),
    magic("a cramfs file system", 0, &[0x45, 0x3d, 0xcd, 0x28]),
    magic("a romfs file system", 0, b"-rom1fs-"),
    magic("an ISO 9660 file system", 32769, b"CD001"),
    magic("a UDF file system", 32769, b"BEA01"),
    magic("a UDF file system", 32769, b"NSR0"),
    magic("an NTFS file system", 3, b"NTFS    "),
    magic("an exFAT file system", 3, b"EXFAT   "),
    magic("a FAT file system", 54, b"FAT1"),
    magic("a FAT file system", 82, b"FAT32"),
    magic("encrypted data (LUKS)", 0, b"LUKS\xba\xbe"),
    magic("encrypted data (BitLocker)", 3, b"-FVE-FS-"),
    magic("a member of a RAID (md)", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    magic("a member of a RAID (md)", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    magic("a Stratis device", 4096 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("a Ceph BlueStore device", 0, b"bluestore block device"),
    magic("swap space", 4096 - 10, b"SWAPSPACE2"),
    magic("swap space", 4096 - 10, b"SWAP-SPACE"),
    magic("swap space", 8192 - 10, b"SWAPSPACE2"),
    magic("swap space", 16384 - 10, b"SWAPSPACE2"),
    magic("swap space", 65536 - 10, b"SWAPSPACE2"),
    magic("a hibernated system", 4096 - 10, b"S1SUSPEND"),
    magic("a hibernated system", 4096 - 10, b"S2SUSPEND"),
    magic("a QCOW2 disk image", 0, b"QFI\xfb"),
    magic("a VMDK disk image", 0, b"KDMV"),
    magic("a VHDX disk image", 0, b"vhdxfile"),
    magic("a partition table (GPT)", 512, b"EFI PART"),
    magic("a partition table (GPT)", 4096, b"EFI PART"),
];

/// Enough of the beginning for all of them, and for the first label of ZFS.
const HEAD_BYTES: u64 = 256 << 10;
const SECTOR: usize = 512;

/// Looks for something known in the part of a file that begins at a byte.
///
/// # Errors
/// The device cannot be read.
pub fn find(file: &File, start_bytes: u64, size_bytes: u64) -> io::Result<Option<Signature>> {
    let mut head = vec![0; HEAD_BYTES.min(size_bytes) as usize];
    file.read_exact_at(&mut head, start_bytes)?;
    if let Some(name) = in_head(&head) {
        return Ok(Some(Signature { name }));
    }
    let raid = is_raid_at_end(file, start_bytes, size_bytes)?;
    Ok(raid.then_some(Signature { name: "a member of a RAID (md)" }))
}

fn in_head(head: &[u8]) -> Option<&'static str> {
    let holds = |magic: &&Magic| {
        let start = magic.offset_bytes as usize;
        head.get(start..start + magic.bytes.len()) == Some(magic.bytes)
    };
    if let Some(magic) = MAGICS.iter().find(holds) {
        return Some(magic.name);
    }
    if is_logical_volume(head) {
        return Some("a physical volume (LVM)");
    }
    if is_zfs(head) {
        return Some("a ZFS device");
    }
    has_partitions(head).then_some("a partition table (MBR)")
}

/// The label of LVM lies in one of the first four sectors.
fn is_logical_volume(head: &[u8]) -> bool {
    head.chunks_exact(SECTOR)
        .take(4)
        .any(|sector| sector.starts_with(b"LABELONE") && sector.get(24..32) == Some(b"LVM2 001".as_slice()))
}

/// The first label's ring of uberblocks.
fn is_zfs(head: &[u8]) -> bool {
    const UBERBLOCK: u64 = 0x00ba_b10c;
    let ring = head.get(128 << 10..).unwrap_or_default();
    ring.chunks_exact(1024).any(|block| {
        let word = block.first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes(word) == UBERBLOCK || u64::from_be_bytes(word) == UBERBLOCK
    })
}

/// A boot sector with at least one partition, and only such flags as partitions have.
fn has_partitions(head: &[u8]) -> bool {
    if head.get(510..512) != Some(&[0x55, 0xaa]) {
        return false;
    }
    let entries = head.get(446..510).unwrap_or_default().chunks_exact(16);
    let mut types = 0;
    for entry in entries {
        if entry[0] & 0x7f != 0 {
            return false;
        }
        types |= entry[4];
    }
    types != 0
}

/// Old versions of md keep their superblock near the end.
fn is_raid_at_end(file: &File, start_bytes: u64, size_bytes: u64) -> io::Result<bool> {
    const MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
    let version_1 = (size_bytes / 512).saturating_sub(16) / 8 * 8 * 512;
    let version_0 = (size_bytes & !0xffff).saturating_sub(0x1_0000);
    for offset_bytes in [version_1, version_0] {
        let mut word = [0; 4];
        if offset_bytes > 0 && offset_bytes + 4 <= size_bytes {
            file.read_exact_at(&mut word, start_bytes + offset_bytes)?;
            let swapped = [word[3], word[2], word[1], word[0]];
            if word == MAGIC || swapped == MAGIC {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(offset_bytes: u64, bytes: &[u8]) -> Option<&'static str> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(bytes, offset_bytes).unwrap();
        let name = |signature: Option<Signature>| signature.map(|signature| signature.name);
        let found = name(find(&file, 0, 1 << 20).unwrap());
        // The same in a part of a disk.
        let mut contents = vec![0; 1 << 20];
        file.read_exact_at(&mut contents, 0).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(&contents, 12345 * 512).unwrap();
        assert_eq!(name(find(&file, 12345 * 512, 1 << 20).unwrap()), found);
        assert_eq!(name(find(&file, 0, 1 << 20).unwrap()), None);
        found
    }

    #[test]
    fn each_is_found_where_it_lies() {
        for magic in MAGICS {
            assert!(found(magic.offset_bytes, magic.bytes).is_some(), "{}", magic.name);
        }
        assert_eq!(
            found(512, b"LABELONE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0LVM2 001"),
            Some("a physical volume (LVM)")
        );
        assert_eq!(found((128 << 10) + 4096, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]), Some("a ZFS device"));
        assert!(found((1 << 20) - 8192, &[0xfc, 0x4e, 0x2b, 0xa9]).is_some());
        assert!(found((1 << 20) - 65536, &[0xfc, 0x4e, 0x2b, 0xa9]).is_some());
    }

    #[test]
    fn a_boot_sector_alone_is_no_partition_table() {
        assert_eq!(found(510, &[0x55, 0xaa]), None);
        let mut table = [0; 66];
        (table[4], table[64], table[65]) = (0x83, 0x55, 0xaa);
        assert_eq!(found(446, &table), Some("a partition table (MBR)"));
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        assert_eq!(found(0, &[]), None);
        let file = tempfile::tempfile().unwrap();
        assert_eq!(find(&file, 0, 0).unwrap(), None);
    }
}

//! Carrying a repair from the stage to the device.
//!
//! | a crash | leaves |
//! |---|---|
//! | before the mark is stable | the image as it was |
//! | after it | `NEEDSREPAIR`: Linux and uxfs refuse the image until a repair has ended; each sector is as it was or as it will be |
//! | after the last write | the repaired image |

use uxfs_block::{
    device::{BlockDevice, DeviceError},
    engine::overlay::OverlayDevice,
};
use uxfs_format::{
    checksum,
    features::Incompatible,
    field_table::OnDisk,
    geometry::Geometry,
    superblock::{self, Superblock},
};

/// Bytes that are compared and written at once.
const PIECE_BYTES: usize = 1 << 20;
/// The unit of comparison: nothing is written that is the same.
const SECTOR_BYTES: usize = 512;

/// Writes all that differs. `old` is the device itself: the overlay's base. Gives how many bytes were written.
///
/// # Errors
/// The device.
pub(super) fn write(
    overlay: &OverlayDevice,
    device: &dyn BlockDevice,
    geometry: &Geometry,
) -> Result<u64, DeviceError> {
    let superblock_bytes = geometry.sector_size_bytes as usize;
    let (mut old, mut new) = (vec![0; superblock_bytes], vec![0; superblock_bytes]);
    // A superblock that cannot be read is marked in its new form.
    if device.read(0, &mut old).is_err() {
        old.fill(0);
    }
    overlay.read(0, &mut new)?;
    device.write(0, &marked(&old, &new))?;
    device.flush()?;
    let mut written = 0;
    for (start, length) in overlay.runs(0) {
        let begin = if start == 0 { superblock_bytes as u64 } else { start };
        for offset in (begin..start + length).step_by(PIECE_BYTES) {
            let piece = (start + length - offset).min(PIECE_BYTES as u64) as usize;
            written += write_piece(overlay, device, offset, piece)?;
        }
    }
    device.flush()?;
    device.write(0, &new)?;
    device.flush()?;
    Ok(written + if old == new { 0 } else { superblock_bytes as u64 })
}

/// The superblock as it was, or as it will be where it was none, with `NEEDSREPAIR`.
#[doc(alias = "XFS_SB_FEAT_INCOMPAT_NEEDSREPAIR")]
fn marked(old: &[u8], new: &[u8]) -> Vec<u8> {
    let is_sound = checksum::check(old, superblock::CHECKSUM_OFFSET_BYTES).is_ok()
        && Superblock::prefix_of(old).is_some_and(|found| found.magic.get() == superblock::MAGIC);
    let mut bytes = if is_sound { old.to_vec() } else { new.to_vec() };
    if let Some(superblock) = Superblock::prefix_of_mut(&mut bytes) {
        let bits = superblock.incompatible.get() | Incompatible::NEEDS_REPAIR.bits();
        superblock.incompatible.set(bits);
    }
    checksum::seal(&mut bytes, superblock::CHECKSUM_OFFSET_BYTES);
    bytes
}

/// Writes the sectors of a piece that differ, neighbours at once.
fn write_piece(
    overlay: &OverlayDevice,
    device: &dyn BlockDevice,
    offset: u64,
    length: usize,
) -> Result<u64, DeviceError> {
    let (mut old, mut new) = (vec![0; length], vec![0; length]);
    overlay.read(offset, &mut new)?;
    // What cannot be read is written.
    let is_known = device.read(offset, &mut old).is_ok();
    let (mut written, mut run) = (0, 0..0);
    let pairs = old.chunks(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES));
    for (start, (old, new_sector)) in (0..).step_by(SECTOR_BYTES).zip(pairs) {
        if is_known && old == new_sector {
            continue;
        }
        if run.end != start {
            written += write_run(device, offset, &new, run.clone())?;
            run.start = start;
        }
        run.end = start + new_sector.len();
    }
    Ok(written + write_run(device, offset, &new, run)?)
}

fn write_run(
    device: &dyn BlockDevice,
    offset: u64,
    new: &[u8],
    run: std::ops::Range<usize>,
) -> Result<u64, DeviceError> {
    match new.get(run.clone()).filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => device.write(offset + run.start as u64, bytes).map(|()| bytes.len() as u64),
        None => Ok(0),
    }
}

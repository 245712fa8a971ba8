//! Stale blocks ahead of the head after a crash.
//!
//! Records that were under way when the machine stopped may have been written in part, behind one that was not: they count
//! for nothing, but their blocks carry the newest cycle. Were new records written up to where they lie, and the machine
//! stopped again, the two could not be told apart. So what may be there is overwritten with empty records of the cycle
//! before, as Linux does.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::{
        MAX_RECORDS_IN_FLIGHT,
        record::{FORMAT_LITTLE_ENDIAN, MAGIC, MAX_RECORD_SIZE_BYTES, RecordHeader, cycle_of_block},
    },
    units::Lsn,
};
use zerocopy::FromZeros;

use super::find_head_tail::{CleanLog, DirtyLog};
use crate::{
    area::{BLOCK, LogArea},
    error::Result,
};

/// As many blocks as records that were under way can take.
pub(super) const STALE_BLOCKS: u32 = MAX_RECORDS_IN_FLIGHT * MAX_RECORD_SIZE_BYTES / BLOCK as u32;
/// Blocks read at once: every mount looks at them, and a small buffer stays in the processor's cache.
const READ_BLOCKS: u32 = 128;

/// Overwrites what may lie ahead of the head of the log in `area`, up to the tail, and flushes. `device` is where the log
/// lies, for writing.
///
/// # Errors
/// The device failed. Nothing that counts was changed.
#[doc(alias = "xlog_clear_stale_blocks")]
pub fn clear_stale_blocks(area: &LogArea<'_>, log: &DirtyLog, device: &dyn BlockDevice) -> Result<()> {
    clear(area, log.head, log.tail, device)
}

/// As [`clear_stale_blocks`] for a log that was closed cleanly, where that is needed: blocks of another cycle than the
/// one before the head's. Behind records that end there neither Linux nor we would find the head again.
///
/// # Errors
/// As there.
pub fn clear_ahead_of_clean(area: &LogArea<'_>, log: &CleanLog, device: &dyn BlockDevice) -> Result<()> {
    let mut buffer = vec![0; READ_BLOCKS as usize * BLOCK];
    for (first, blocks, cycle) in parts_ahead(area, log.head, log.newest) {
        let mut done = 0;
        while done < blocks {
            let count = READ_BLOCKS.min(blocks - done);
            let bytes = buffer.get_mut(..count as usize * BLOCK).unwrap_or_default();
            area.read(first + done, bytes)?;
            if bytes.chunks_exact(BLOCK).any(|block| cycle_of_block(block) != Some(cycle)) {
                return clear(area, log.head, log.newest, device);
            }
            done += count;
        }
    }
    Ok(())
}

/// The blocks ahead of the head, up to the tail, that may be stale: first block, number, and the cycle that they should have.
/// Those up to the end of the ring were last written in the cycle before the head's, those behind it in the head's.
fn parts_ahead(area: &LogArea<'_>, head: Lsn, tail: Lsn) -> [(u32, u32, u32); 2] {
    let count = STALE_BLOCKS.min(area.distance(head.block(), tail.block()));
    let to_end = (area.blocks() - head.block()).min(count);
    [(head.block(), to_end, head.cycle().wrapping_sub(1)), (0, count - to_end, head.cycle())]
}

fn clear(area: &LogArea<'_>, head: Lsn, tail: Lsn, device: &dyn BlockDevice) -> Result<()> {
    for (first, blocks, cycle) in parts_ahead(area, head, tail) {
        if blocks == 0 {
            continue;
        }
        let mut bytes = vec![0; blocks as usize * BLOCK];
        for (block, bytes) in (first..).zip(bytes.chunks_exact_mut(BLOCK)) {
            // A log that was never written round has zeros there, which say the same.
            if cycle != 0
                && let Some(target) = RecordHeader::prefix_of_mut(bytes)
            {
                *target = filler(area, cycle, block, tail);
            }
        }
        device.write(Geometry::byte_of_sector(area.sector(first)), &bytes)?;
    }
    Ok(device.flush()?)
}

/// An empty record.
#[doc(alias = "xlog_add_record")]
fn filler(area: &LogArea<'_>, cycle: u32, block: u32, tail: Lsn) -> RecordHeader {
    let mut header = RecordHeader::new_zeroed();
    header.magic = MAGIC.into();
    header.cycle = cycle.into();
    header.version = 2.into();
    header.lsn = Lsn::from_parts(cycle, block).get().into();
    header.tail_lsn = tail.get().into();
    header.format = FORMAT_LITTLE_ENDIAN.into();
    header.uuid = area.uuid();
    header
}

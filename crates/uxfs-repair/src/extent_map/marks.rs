//! Marks of extents that were never written, where extent map and reverse map contradict each other.
//!
//! The copy of the inode in the log decides, where it is as new as the inode; else the blocks: what holds data was written. Extents are
//! split where the reverse map says that a part was written and another was not.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    btree::extent_map::Extent,
    geometry::Geometry,
    inode::Fork,
    units::{FileBlock, FsBlock, InodeNumber},
};
use uxfs_journal::copies::{LogCopies, Wanted};
use uxfs_volume::{error::Result, inode::Inode, volume::Volume};

use super::{
    contradicted::extents_of_copy,
    mend::change_marks,
    rebuild::{Owned, OwnedByInode, gather, staged_inode, write_fork},
    spare::SpareBlocks,
};
use crate::repair::{action::Action, stage::Stage};

/// Bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;
/// Bytes that are read in all, in search of data: extents of a damaged image claim any number.
const MOST_READ_BYTES: u64 = 8 << 30;

/// Changes the marks of extents of these files as the witnesses say. `log`: the device with the log as it was found, where its copies may
/// be used.
///
/// # Errors
/// The device.
pub(crate) fn mend(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    log: Option<&dyn BlockDevice>,
    actions: &mut Vec<Action>,
) -> Result<()> {
    if inodes.is_empty() {
        return Ok(());
    }
    let copies = copies_of(inodes, log, volume.geometry());
    let OwnedByInode { mut forks, .. } = gather(volume, inodes);
    let mut contents = Contents { volume, left_bytes: MOST_READ_BYTES };
    for number in inodes {
        let Some(mut told) = forks.remove(&(*number, false)) else { continue };
        let Some(inode) = staged_inode(stage, *number)? else { continue };
        let Ok(map) = volume.extent_map(&inode, Fork::Data) else { continue };
        let (extents, _) = told.union();
        let logged = copies.inode(*number).and_then(|copy| extents_of_copy(volume, &inode, Fork::Data, copy));
        let witnesses = Witnesses { told: extents, logged: logged.unwrap_or_default() };
        let found: Vec<Extent> = map.iter().collect();
        let mut are_zeros = |extent: &Extent| contents.are_zeros(extent);
        let marked: Vec<Extent> =
            found.iter().flat_map(|extent| witnesses.parts_of(extent, &mut are_zeros)).collect();
        if marked != found {
            put(volume, stage, &inode, [&found, &marked], told, actions)?;
        }
    }
    Ok(())
}

fn copies_of(
    inodes: &BTreeSet<InodeNumber>,
    log: Option<&dyn BlockDevice>,
    geometry: &Geometry,
) -> LogCopies {
    let mut wanted = Wanted::default();
    inodes.iter().for_each(|inode| wanted.add_inode(*inode));
    log.and_then(|log| LogCopies::gather(log, geometry, &wanted).ok()).unwrap_or_default()
}

/// Writes other marks: in place, where no extent was split.
fn put(
    volume: &Volume,
    stage: &Stage,
    inode: &Inode,
    [found, marked]: [&[Extent]; 2],
    told: Owned,
    actions: &mut Vec<Action>,
) -> Result<()> {
    let number = inode.number;
    let marks: BTreeMap<FileBlock, bool> =
        marked.iter().map(|extent| (extent.file_block, extent.is_unwritten)).collect();
    let is_done = if found.len() == marked.len() {
        let is_wrong = |extent: &Extent| {
            marks.get(&extent.file_block).is_some_and(|is_unwritten| *is_unwritten != extent.is_unwritten)
        };
        change_marks(volume, stage, number, &is_wrong)?
    } else {
        let owned = Owned { extents: marked.to_vec(), btree_runs: told.btree_runs };
        write_fork(&SpareBlocks::new(volume), stage, inode, Fork::Data, owned, true)?.is_some()
    };
    // A part has the mark that its extent had, or another.
    let mark_of = |part: &Extent| {
        let next = found.partition_point(|extent| extent.file_block <= part.file_block);
        next.checked_sub(1).and_then(|last| found.get(last)).map(|extent| extent.is_unwritten)
    };
    let has = |is_unwritten: bool| {
        marked.iter().any(|part| part.is_unwritten == is_unwritten && mark_of(part) == Some(!is_unwritten))
    };
    if is_done && has(false) {
        actions.push(Action::ExtentsWritten { inode: number });
    }
    if is_done && has(true) {
        actions.push(Action::ExtentsUnwritten { inode: number });
    }
    Ok(())
}

/// What others say of the extents of a file, in the order of the file.
struct Witnesses {
    /// The reverse map.
    told: Vec<Extent>,
    /// The log; nothing where it has no copy.
    logged: Vec<Extent>,
}

impl Witnesses {
    /// An extent in parts with the right marks. Adjoining parts with one mark are one.
    fn parts_of(&self, extent: &Extent, are_zeros: &mut impl FnMut(&Extent) -> bool) -> Vec<Extent> {
        let mut parts: Vec<Extent> = Vec::new();
        let mut at = extent.file_block;
        let first = self.told.partition_point(|told| told.end() <= extent.file_block);
        let here = self.told.iter().skip(first).take_while(|told| told.file_block < extent.end());
        for told in here.filter(|told| shift(told) == shift(extent)) {
            let (start, end) = (told.file_block.max(at), told.end().min(extent.end()));
            add(&mut parts, part(extent, at, start, extent.is_unwritten));
            let contested = part(extent, start, end, told.is_unwritten);
            let is_unwritten = match contested {
                Some(contested) if told.is_unwritten != extent.is_unwritten => {
                    self.is_unwritten(&contested, are_zeros)
                }
                _ => extent.is_unwritten,
            };
            add(&mut parts, part(extent, start, end, is_unwritten));
            at = at.max(end);
        }
        add(&mut parts, part(extent, at, extent.end(), extent.is_unwritten));
        parts
    }

    /// Whether a part of an extent was never written, of which two say different things.
    fn is_unwritten(&self, part: &Extent, are_zeros: &mut impl FnMut(&Extent) -> bool) -> bool {
        let next = self.logged.partition_point(|logged| logged.file_block <= part.file_block);
        let logged = next.checked_sub(1).and_then(|last| self.logged.get(last));
        let logged = logged.filter(|logged| shift(logged) == shift(part) && part.end() <= logged.end());
        logged.map_or_else(|| are_zeros(part), |logged| logged.is_unwritten)
    }
}

fn shift(extent: &Extent) -> u64 {
    extent.start.get().wrapping_sub(extent.file_block.get())
}

/// The part of an extent between two blocks of the file; `None` where it has no block.
fn part(extent: &Extent, start: FileBlock, end: FileBlock, is_unwritten: bool) -> Option<Extent> {
    let length_blocks = end.get().checked_sub(start.get()).filter(|length| *length > 0)?;
    let start_block = FsBlock::new(start.get().wrapping_add(shift(extent)));
    Some(Extent { file_block: start, start: start_block, length_blocks, is_unwritten })
}

fn add(parts: &mut Vec<Extent>, part: Option<Extent>) {
    let Some(part) = part else { return };
    match parts.last_mut() {
        Some(last) if last.is_unwritten == part.is_unwritten => last.length_blocks += part.length_blocks,
        _ => parts.push(part),
    }
}

/// What blocks hold.
struct Contents<'v> {
    volume: &'v Volume,
    left_bytes: u64,
}

impl Contents<'_> {
    /// Whether all blocks of an extent hold zeros. What cannot be read may be data.
    fn are_zeros(&mut self, extent: &Extent) -> bool {
        let geometry = self.volume.geometry();
        let Some(sector) = geometry.sector_of_block(extent.start) else { return false };
        let start = Geometry::byte_of_sector(sector);
        let length_bytes = extent.length_blocks.saturating_mul(geometry.block_size() as u64);
        let Some(left_bytes) = self.left_bytes.checked_sub(length_bytes) else { return false };
        self.left_bytes = left_bytes;
        let mut buffer = vec![0; READ_BYTES.min(length_bytes) as usize];
        let mut done = 0;
        while done < length_bytes {
            let count = (length_bytes - done).min(READ_BYTES) as usize;
            let Some(bytes) = buffer.get_mut(..count) else { return false };
            let is_read = self.volume.device().read(start.saturating_add(done), bytes).is_ok();
            if !is_read || bytes.iter().any(|byte| *byte != 0) {
                return false;
            }
            done += count as u64;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(file_block: u64, start: u64, length_blocks: u64, is_unwritten: bool) -> Extent {
        let (file_block, start) = (FileBlock::new(file_block), FsBlock::new(start));
        Extent { file_block, start, length_blocks, is_unwritten }
    }

    #[test]
    fn parts_have_the_marks_of_the_log() {
        let mut are_zeros = |_: &Extent| true;
        let told = vec![extent(0, 100, 10, false), extent(10, 110, 10, true), extent(30, 500, 4, false)];
        let witnesses = Witnesses { logged: told.clone(), told };
        let parts = witnesses.parts_of(&extent(0, 100, 20, true), &mut are_zeros);
        assert_eq!(parts, [extent(0, 100, 10, false), extent(10, 110, 10, true)]);
        // Blocks that lie elsewhere tell nothing.
        let other = extent(30, 700, 4, true);
        assert_eq!(witnesses.parts_of(&other, &mut are_zeros), [other]);
        // Of a part of which nothing tells, the mark stays.
        let parts = witnesses.parts_of(&extent(5, 105, 30, true), &mut are_zeros);
        assert_eq!(parts, [extent(5, 105, 5, false), extent(10, 110, 25, true)]);
    }
}

//! Entries in the blocks of directories whose inodes are gone. A directory and its files often lie in the same inode cluster: where
//! that is gone, these entries alone name the files. The reverse map tells where the blocks are.

use std::collections::BTreeSet;

use uxfs_format::{
    btree::extent_map::Extent,
    checksum,
    directory::{
        self, EntryFormat,
        data::{DataRecord, DataRecords},
        header::DirectoryBlockHeader,
    },
    field_table::OnDisk,
    geometry::Geometry,
    units::{FsBlock, InodeNumber},
};
use uxfs_volume::volume::Volume;

use super::witnesses::SeenEntry;
use crate::extent_map::rebuild::OwnedByInode;

/// Blocks of a directory that may be damaged before its others are left.
const MOST_FAULTS: u32 = 1000;

/// What entries of lost directories say of these inodes, which are lost.
pub(super) fn entries(
    volume: &Volume,
    owned: &OwnedByInode,
    inodes: &BTreeSet<InodeNumber>,
) -> Vec<SeenEntry> {
    let mut found = Vec::new();
    let bytes = vec![0; volume.geometry().directory_block_size_bytes as usize];
    let mut block = Block { volume, directory: InodeNumber::NULL, bytes };
    for ((directory, is_attributes), owned) in &owned.forks {
        if *is_attributes || !inodes.contains(directory) {
            continue;
        }
        block.directory = *directory;
        let mut extents: Vec<&Extent> = owned.extents.iter().collect();
        extents.sort_by_key(|extent| extent.file_block);
        // A file has no such first block: its others are not read.
        if !extents.first().is_some_and(|first| block.read(first.start)) {
            continue;
        }
        block.visit(&extents, |block| block.add_entries(inodes, &mut found));
    }
    found
}

/// Room for one block of a directory.
struct Block<'v> {
    volume: &'v Volume,
    directory: InodeNumber,
    bytes: Vec<u8>,
}

impl Block<'_> {
    /// Reads a block. Gives whether it is a sound one of the directory that holds entries.
    fn read(&mut self, start: FsBlock) -> bool {
        let geometry = self.volume.geometry();
        let Some(sector) = geometry.sector_of_block(start) else { return false };
        if self.volume.device().read(Geometry::byte_of_sector(sector), &mut self.bytes).is_err() {
            return false;
        }
        let Some(header) = DirectoryBlockHeader::prefix_of(&self.bytes) else { return false };
        matches!(header.magic.get(), directory::block::MAGIC | directory::data::MAGIC)
            && header.owner.get() == self.directory.get()
            && header.sector.get() == sector.get()
            && header.uuid == geometry.metadata_uuid
            && checksum::check(&self.bytes, directory::header::CHECKSUM_OFFSET_BYTES).is_ok()
    }

    /// Visits the blocks of these extents that hold entries, until too many are none.
    fn visit(&mut self, extents: &[&Extent], mut visit: impl FnMut(&Self)) {
        let geometry = self.volume.geometry();
        let (leaf_start, step) =
            (geometry.directory_leaf_start(), geometry.blocks_per_directory_block().max(1) as usize);
        let mut faults = 0_u32;
        for extent in extents.iter().filter(|extent| extent.file_block < leaf_start) {
            let start = extent.start.get();
            for start in (start..start.saturating_add(extent.length_blocks)).step_by(step) {
                match self.read(FsBlock::new(start)) {
                    true => visit(self),
                    false => faults += 1,
                }
                if faults >= MOST_FAULTS {
                    return;
                }
            }
        }
    }

    fn add_entries(&self, inodes: &BTreeSet<InodeNumber>, found: &mut Vec<SeenEntry>) {
        let end = u32::try_from(self.bytes.len()).unwrap_or(0);
        let records = DataRecords::new(&self.bytes, end, EntryFormat::of(self.volume.geometry()));
        for record in records.map_while(Result::ok) {
            // The index at the end of a single block is no record.
            let DataRecord::Entry(entry) = record else { continue };
            let is_entry = u32::from(entry.tag) == entry.offset_bytes && entry.name != b".";
            if is_entry && inodes.contains(&entry.inode) {
                found.push(SeenEntry {
                    directory: self.directory,
                    inode: entry.inode,
                    file_type: entry.file_type(),
                    is_above: entry.name == b"..",
                });
            }
        }
    }
}

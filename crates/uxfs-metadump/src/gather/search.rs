//! Metadata that nothing sound leads to.
//!
//! Blocks of metadata say what they are, which file system they belong to, and where they lie. So they can be found by reading all blocks
//! that may hold them: in a group whose reverse map is sound those of owners other than inodes that are sound; in any other group
//! all. Blocks in free space that were metadata once are found as well.

use std::ops::ControlFlow;

use uxfs_format::{
    btree::reverse_map::{Mapping, Owner},
    checksum,
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{InodeCore, core, symlink},
    seal::{checksum_offset_of, own_sector, structure_of},
    units::{AgBlock, AgNumber},
};
use uxfs_volume::btree::BlockEvent;

use super::{Gatherer, inodes::first_inode, number_of};

/// Bytes that are read at once.
const PIECE_BYTES: u32 = 1 << 20;

impl Gatherer<'_, '_> {
    /// Searches the groups that may have metadata to which nothing leads any more.
    pub(super) fn search(&mut self) {
        if self.found.damages == 0 {
            return;
        }
        for group in self.volume.groups().with_headers() {
            if number_of(self.geometry(), group, AgBlock::new(0)) >= self.device_blocks {
                break;
            }
            if self.found.has_lost_inodes || self.found.damaged_groups.contains(&group) {
                self.search_group(group);
            }
        }
    }

    fn search_group(&mut self, group: AgNumber) {
        let Some(length_blocks) = self.geometry().group_length_blocks(group) else { return };
        match self.suspect_runs(group) {
            Some(runs) => runs.into_iter().for_each(|(start, count)| self.search_run(group, start, count)),
            None => self.search_run(group, 0, length_blocks),
        }
    }

    /// What the reverse map gives to other owners than sound inodes; `None` where it is not to be relied on.
    fn suspect_runs(&self, group: AgNumber) -> Option<Vec<(u32, u32)>> {
        let tree = self.volume.group(group).reverse_map().ok()??;
        let (mut runs, mut is_sound) = (Vec::new(), true);
        let _ = tree.visit_blocks(&mut |event| match event {
            BlockEvent::Block { view, .. } => {
                let mappings = view.records().iter().map(|record| record.get());
                let suspect = mappings.filter(|mapping| self.is_suspect(mapping));
                runs.extend(suspect.map(|mapping| (mapping.start.get(), mapping.length_blocks)));
                ControlFlow::Continue(())
            }
            BlockEvent::Damage(_) => {
                is_sound = false;
                ControlFlow::Break(())
            }
        });
        is_sound.then_some(runs)
    }

    fn is_suspect(&self, mapping: &Mapping) -> bool {
        match mapping.owner {
            Owner::Inode(number) => !self.found.sound_inodes.contains(number.get()),
            Owner::Log | Owner::CowStaging => false,
            _ => true,
        }
    }

    fn search_run(&mut self, group: AgNumber, start: u32, count: u32) {
        let geometry = self.volume.geometry();
        let group_blocks = geometry.group_length_blocks(group).unwrap_or(0);
        let on_device = self.device_blocks.saturating_sub(number_of(geometry, group, AgBlock::new(0)));
        let on_device = u32::try_from(on_device).unwrap_or(u32::MAX);
        let end = start.saturating_add(count).min(group_blocks).min(on_device);
        let piece_blocks = (PIECE_BYTES >> geometry.block_log).max(1);
        let mut bytes = vec![0; (piece_blocks as usize) << geometry.block_log];
        for first in (start..end).step_by(piece_blocks as usize) {
            let length = ((end - first).min(piece_blocks) as usize) << geometry.block_log;
            let Some(piece) = bytes.get_mut(..length) else { continue };
            let Some(sector) = geometry.sector_of_group_block(group, AgBlock::new(first)) else { continue };
            // What cannot be read cannot be dumped either.
            if self.volume.device().read(Geometry::byte_of_sector(sector), piece).is_err() {
                continue;
            }
            for (block, bytes) in (first..).zip(piece.chunks_exact(geometry.block_size().max(1))) {
                self.look_at(group, AgBlock::new(block), bytes);
            }
        }
    }

    fn look_at(&mut self, group: AgNumber, block: AgBlock, bytes: &[u8]) {
        let geometry = self.volume.geometry();
        if self.found.blocks.contains(number_of(geometry, group, block)) {
            return;
        }
        if holds_inodes(geometry, group, block, bytes) {
            return self.inode_blocks(group, block, 1);
        }
        if own_sector(bytes, geometry)
            .is_none_or(|own| geometry.sector_of_group_block(group, block) != Some(own))
        {
            return;
        }
        let blocks = self.whole_blocks(group, block, bytes);
        self.add_run(group, block, blocks.into());
    }

    /// The blocks of a structure, where all of them are its own.
    fn whole_blocks(&self, group: AgNumber, block: AgBlock, bytes: &[u8]) -> u32 {
        let geometry = self.volume.geometry();
        let Some(structure) = structure_of(bytes, geometry) else { return 1 };
        let blocks = length_blocks(structure, bytes, geometry);
        let offset = checksum_offset_of(structure);
        let (true, Some(offset), Some(sector)) =
            (blocks > 1, offset, geometry.sector_of_group_block(group, block))
        else {
            return 1;
        };
        let mut whole = vec![0; (blocks as usize) << geometry.block_log];
        let is_read = self.volume.device().read(Geometry::byte_of_sector(sector), &mut whole).is_ok();
        if is_read && checksum::check(&whole, offset).is_ok() { blocks } else { 1 }
    }
}

/// Whether an inode lies at the start of a block that says that it lies there.
pub(crate) fn holds_inodes(geometry: &Geometry, group: AgNumber, block: AgBlock, bytes: &[u8]) -> bool {
    let Some(first) = first_inode(geometry, group, block) else { return false };
    let mut inodes = (first.get()..).zip(bytes.chunks_exact(geometry.inode_size().max(1)));
    inodes.any(|(number, inode)| {
        InodeCore::prefix_of(inode).is_some_and(|inode| {
            inode.magic.get() == core::MAGIC
                && inode.number.get() == number
                && inode.uuid == geometry.metadata_uuid
        })
    })
}

/// The blocks of a structure that begins with these bytes.
pub(crate) fn length_blocks(structure: Structure, bytes: &[u8], geometry: &Geometry) -> u32 {
    match structure {
        Structure::DirectoryBlock
        | Structure::DirectoryData
        | Structure::DirectoryLeaf
        | Structure::DirectoryLeafNode
        | Structure::DirectoryNode
        | Structure::DirectoryFreeIndex => geometry.blocks_per_directory_block(),
        Structure::Symlink => {
            let header = symlink::SymlinkHeader::prefix_of(bytes);
            let length = header.map_or(0, |header| header.length_bytes.get());
            symlink::target_blocks(length.clamp(1, symlink::TARGET_END_BYTES), geometry).max(1)
        }
        _ => 1,
    }
}

//! Inode chunks, and what inodes have outside of themselves.

use std::{ops::ControlFlow, sync::Arc};

use uxfs_format::{
    btree::{
        extent_map::{Extent, ExtentMapRoot},
        inode_index::InodeChunk,
        levels::ForkRoom,
    },
    checksum,
    fault::Structure,
    geometry::Geometry,
    inode::{InodeCore, core::CHECKSUM_OFFSET_BYTES, verify_inode},
    units::{AgBlock, AgNumber, InodeNumber},
};
use uxfs_volume::{
    btree::{BlockEvent, Tree},
    inode::{FileType, Fork, ForkFormat, Inode, InodeFlags2},
};

use super::{Gatherer, MOST_SCATTERED, Warning, number_of};

impl Gatherer<'_, '_> {
    /// The blocks of a chunk, and all inodes in it.
    pub(super) fn chunk(&mut self, group: AgNumber, chunk: &InodeChunk) {
        for (start, count) in chunk.blocks(self.geometry()) {
            self.inode_blocks(group, start, count);
        }
    }

    /// Blocks of inodes.
    pub(super) fn inode_blocks(&mut self, group: AgNumber, start: AgBlock, count: u32) {
        let geometry = self.volume.geometry();
        let Some(group_blocks) = geometry.group_length_blocks(group) else { return };
        for block in start.get()..start.get().saturating_add(count).min(group_blocks) {
            let number = number_of(geometry, group, AgBlock::new(block));
            if self.found.inode_blocks.contains(number) {
                continue;
            }
            self.found.inode_blocks.insert(number);
            self.found.blocks.insert(number);
            self.inodes_of_block(group, AgBlock::new(block));
        }
    }

    fn inodes_of_block(&mut self, group: AgNumber, block: AgBlock) {
        let geometry = self.volume.geometry();
        let Some(sector) = geometry.sector_of_group_block(group, block) else { return };
        let mut bytes = vec![0; geometry.block_size()];
        if let Err(error) = self.volume.device().read(Geometry::byte_of_sector(sector), &mut bytes) {
            self.found.has_lost_inodes = true;
            return self.damaged(None, error.into());
        }
        let Some(first) = first_inode(geometry, group, block) else { return };
        let inodes = bytes.chunks_exact_mut(geometry.inode_size().max(1));
        for (index, inode) in (0_u64..).zip(inodes) {
            self.inode_at(inode, InodeNumber::new(first.get().saturating_add(index)));
        }
    }

    fn inode_at(&mut self, bytes: &mut [u8], number: InodeNumber) {
        let geometry = self.volume.geometry();
        if let Err(fault) = verify_inode(bytes, number, geometry) {
            // Damage of the core alone does not hide where the blocks are.
            checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
            self.damaged_inode(number, Structure::Inode, fault);
        }
        let Ok(core) = verify_inode(bytes, number, geometry) else { return };
        if let Some(inode) = Inode::decode(bytes, core, geometry) {
            self.inode(&inode);
        }
    }

    fn inode(&mut self, inode: &Inode) {
        let is_internal = self.is_internal(&inode.core);
        if inode.flags2().contains(InodeFlags2::METADATA) {
            self.found.internal_inodes.insert(inode.number);
        }
        let is_file = inode.file_type() == Some(FileType::Regular);
        let keeps_data = is_internal || !is_file;
        let is_sound = self.fork(inode, Fork::Data, keeps_data, is_internal && is_file)
            & self.fork(inode, Fork::Attribute, true, false);
        if is_sound {
            self.found.sound_inodes.insert(inode.number.get());
        }
    }

    /// Whether the contents of a file are metadata of the file system.
    fn is_internal(&self, core: &InodeCore) -> bool {
        let number = core.number.get();
        let is_named = number != 0 && self.volume.superblock().internal_inodes().contains(&number);
        core.flags2().contains(InodeFlags2::METADATA) || is_named
    }

    /// The btree of a fork and, where they are metadata, its extents. Gives whether all of it could be found.
    fn fork(&mut self, inode: &Inode, fork: Fork, keeps_extents: bool, is_internal: bool) -> bool {
        if fork == Fork::Data && inode.is_realtime() {
            return true;
        }
        let mut extents = Extents { inode, fork, keeps: keeps_extents, is_internal, pending: Vec::new() };
        match inode.fork_format(fork) {
            Some(ForkFormat::Extents) if keeps_extents => match self.volume.extent_map(inode, fork) {
                Ok(map) => map.iter().fold(true, |is_sound, extent| extents.add(self, &extent) & is_sound),
                Err(error) => {
                    self.found.has_lost_inodes = true;
                    self.damaged(None, error);
                    false
                }
            },
            Some(ForkFormat::Btree) => self.fork_tree(&mut extents),
            _ => true,
        }
    }

    fn fork_tree(&mut self, extents: &mut Extents<'_>) -> bool {
        let (inode, fork) = (extents.inode, extents.fork);
        let room = match fork {
            Fork::Data => ForkRoom::Data,
            Fork::Attribute => ForkRoom::Attribute,
        };
        let bytes = inode.extent_root_bytes(fork);
        let root = ExtentMapRoot::parse(bytes)
            .and_then(|root| root.verify(self.volume.geometry(), room).map(|()| root));
        let root = match root {
            Ok(root) => root,
            Err(fault) => {
                self.damaged_inode(inode.number, Structure::ExtentMap, fault);
                return false;
            }
        };
        let mut is_sound = true;
        let _ = Tree::of_inode(self.volume, inode.number, &root).visit_blocks(&mut |event| {
            match event {
                BlockEvent::Block { address, view, .. } => {
                    if let Some((group, block)) = self.volume.geometry().split_fs_block(address) {
                        self.add_run(group, block, 1);
                    }
                    for record in view.records() {
                        is_sound &= extents.add(self, &record.get());
                    }
                }
                BlockEvent::Damage(error) => {
                    is_sound = false;
                    self.found.has_lost_inodes = true;
                    self.damaged(None, error);
                }
            }
            ControlFlow::Continue(())
        });
        is_sound
    }
}

/// The number of the first inode of a block.
pub(crate) fn first_inode(geometry: &Geometry, group: AgNumber, block: AgBlock) -> Option<InodeNumber> {
    let first = u64::from(block.get()) << geometry.inodes_per_block_log;
    let first = uxfs_format::units::AgInode::new(u32::try_from(first).ok()?);
    Some(geometry.inode_number(group, first))
}

/// The extents of a fork in their order.
struct Extents<'i> {
    inode: &'i Inode,
    fork: Fork,
    /// They are metadata.
    keeps: bool,
    /// They are the contents of an internal file.
    is_internal: bool,
    /// The blocks of a directory block that began in an extent before.
    pending: Vec<u64>,
}

impl Extents<'_> {
    /// Gives whether it is sound.
    fn add(&mut self, gatherer: &mut Gatherer<'_, '_>, extent: &Extent) -> bool {
        if !self.keeps {
            return true;
        }
        if let Err(fault) = extent.verify_place(gatherer.geometry()) {
            gatherer.damaged_inode(self.inode.number, Structure::ExtentMap, fault);
            return false;
        }
        if extent.length_blocks > gatherer.most_extent_blocks {
            let (inode, length_blocks) = (self.inode.number, extent.length_blocks);
            (gatherer.tell)(Warning::ExtentTooLong { inode, length_blocks });
            return false;
        }
        gatherer.add_extent(extent);
        if self.is_internal
            && let Some(first) = gatherer.number_of_block(extent.start)
        {
            gatherer.found.internal_blocks.insert_run(first, extent.length_blocks);
        }
        let is_directory = self.inode.file_type() == Some(FileType::Directory) && self.fork == Fork::Data;
        if is_directory && gatherer.geometry().directory_block_log > 0 {
            self.note_scattered(gatherer, extent);
        }
        true
    }

    /// Remembers directory blocks that reach over the ends of extents.
    fn note_scattered(&mut self, gatherer: &mut Gatherer<'_, '_>, extent: &Extent) {
        let whole = u64::from(gatherer.geometry().blocks_per_directory_block()).max(1);
        let Some(first) = gatherer.number_of_block(extent.start) else { return };
        let mut offset = 0;
        while offset < extent.length_blocks {
            let (within, left) = ((extent.file_block.get() + offset) % whole, extent.length_blocks - offset);
            if within == 0 {
                self.pending.clear();
                if left >= whole {
                    offset += left / whole * whole;
                    continue;
                }
            }
            let count = left.min(whole - within);
            if self.pending.len() as u64 == within {
                self.pending.extend((first + offset)..(first + offset + count));
            }
            if self.pending.len() as u64 == whole {
                let pieces: Arc<[u64]> = self.pending.drain(..).collect();
                let scattered = &mut gatherer.found.scattered;
                if scattered.len() < MOST_SCATTERED {
                    scattered.extend(pieces.iter().map(|piece| (*piece, Arc::clone(&pieces))));
                }
            }
            offset += count;
        }
    }
}

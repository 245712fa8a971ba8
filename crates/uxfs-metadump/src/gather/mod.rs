//! Which blocks of a device hold metadata.
//!
//! All btrees are walked, all inodes are read, and the extents of all that is no file are noted. What is damaged costs what lies below it:
//! so after any damage blocks are also searched for, by what they say of themselves. See [`search`].

mod inodes;
mod search;

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use uxfs_format::{
    btree::{
        BtreeKind,
        block::Address,
        extent_map::Extent,
        inode_index::{InodeChunk, InodeIndexRecord},
    },
    fault::{Corruption, Location, Structure},
    geometry::Geometry,
    units::{AgBlock, AgNumber, FsBlock, InodeNumber, Sector},
};
use uxfs_volume::{
    allocation_group::damage_limit::DamageLimit,
    btree::{BlockEvent, Tree},
    error::{Error, Result},
    tolerant::Finding,
    volume::Volume,
};

use crate::blocks::NumberSet;

pub(crate) use inodes::first_inode;
pub(crate) use search::{holds_inodes, length_blocks};

/// Blocks of the data device are counted from its start, without the gaps that numbers of blocks have between groups.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// All metadata but the log.
    pub blocks: NumberSet,
    /// Those that belong to inode chunks.
    pub inode_blocks: NumberSet,
    /// Contents of internal files, such as quota records and realtime bitmaps.
    pub internal_blocks: NumberSet,
    /// Inodes of the metadata directory tree.
    pub internal_inodes: HashSet<InodeNumber>,
    /// Blocks of directory blocks that do not lie in one piece: from each to all of them.
    pub scattered: HashMap<u64, Arc<[u64]>>,
    /// Inodes of which all metadata was found.
    sound_inodes: NumberSet,
    /// Places that are damaged.
    pub damages: u64,
    /// Groups that must be searched.
    damaged_groups: HashSet<AgNumber>,
    /// Inodes were lost, whose blocks may lie anywhere.
    has_lost_inodes: bool,
}

/// Scattered directory blocks that are remembered.
const MOST_SCATTERED: usize = 1 << 20;

/// What cannot be looked at.
#[derive(Debug)]
pub enum Warning {
    /// Metadata is damaged. It is dumped as it is.
    Damaged(Error),
    /// An extent of metadata is longer than allowed.
    ExtentTooLong {
        /// The inode.
        inode: InodeNumber,
        /// Its length.
        length_blocks: u64,
    },
    /// Blocks cannot be read.
    Unreadable {
        /// The first 512 bytes of them.
        sector: Sector,
        /// Why.
        error: Error,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(error) => error.fmt(f),
            Self::ExtentTooLong { inode, length_blocks } => {
                write!(
                    f,
                    "inode {inode}: left out: an extent of {length_blocks} blocks is longer than allowed"
                )
            }
            Self::Unreadable { sector, error } => {
                write!(f, "left out: sector {sector} cannot be read: {error}")
            }
        }
    }
}

/// Told of each group that is done, and of warnings.
pub(crate) type Tell<'t> = dyn FnMut(Warning) + 't;

/// Looks for metadata.
pub(crate) struct Gatherer<'g, 't> {
    volume: &'g Volume,
    found: &'g mut Found,
    most_extent_blocks: u64,
    /// Blocks that extents may still name. Sound ones name each block once.
    extent_budget_blocks: u64,
    /// Blocks of the device, which may be shorter than the file system.
    device_blocks: u64,
    tell: &'g mut Tell<'t>,
}

/// Times that all extents together may name the whole device.
const EXTENT_BUDGET: u64 = 16;

/// Adds all metadata of a volume to `found`.
pub(crate) fn gather(volume: &Volume, most_extent_blocks: u64, found: &mut Found, tell: &mut Tell<'_>) {
    let device_blocks = volume.device().size_bytes() >> volume.geometry().block_log;
    let extent_budget_blocks = device_blocks.saturating_mul(EXTENT_BUDGET);
    let mut gatherer =
        Gatherer { volume, found, most_extent_blocks, extent_budget_blocks, device_blocks, tell };
    let mut limit = DamageLimit::default();
    for group in volume.groups().with_headers() {
        let damages = gatherer.found.damages;
        gatherer.group(group);
        limit.count(gatherer.found.damages == damages);
        if limit.is_reached() {
            break;
        }
    }
    gatherer.log();
    gatherer.passed_over();
    gatherer.search();
}

/// The number of a block counted from the start of the device.
pub(crate) fn number_of(geometry: &Geometry, group: AgNumber, block: AgBlock) -> u64 {
    u64::from(group.get()) * u64::from(geometry.ag_blocks) + u64::from(block.get())
}

/// Group and block of such a number, where there is one.
pub(crate) fn place_of(geometry: &Geometry, number: u64) -> Option<(AgNumber, AgBlock)> {
    let (group, block) =
        (number.checked_div(geometry.ag_blocks.into())?, number % u64::from(geometry.ag_blocks));
    let (group, block) =
        (AgNumber::new(u32::try_from(group).ok()?), AgBlock::new(u32::try_from(block).ok()?));
    geometry.sector_of_group_block(group, block).map(|_| (group, block))
}

impl Gatherer<'_, '_> {
    fn geometry(&self) -> &Geometry {
        self.volume.geometry()
    }

    fn group(&mut self, group: AgNumber) {
        let header_blocks = self.geometry().group_header_blocks();
        self.add_run(group, AgBlock::new(0), header_blocks.into());
        let view = self.volume.group(group);
        if let Some(_headers) = self.sound(group, view.free_space_header()) {
            self.tree(group, view.free_space_by_block().map(Some));
            self.tree(group, view.free_space_by_length().map(Some));
            self.tree(group, view.reverse_map());
            self.tree(group, view.reference_counts());
        }
        let mut chunks = Vec::new();
        if let Some(_header) = self.sound(group, view.inode_header()) {
            let damages = self.found.damages;
            self.inode_tree(group, view.inode_index().map(Some), &mut chunks);
            if self.found.damages == damages {
                self.tree(group, view.free_inode_index());
            } else {
                self.found.has_lost_inodes = true;
                self.inode_tree(group, view.free_inode_index(), &mut chunks);
            }
        } else {
            self.found.has_lost_inodes = true;
        }
        chunks.sort_by_key(|chunk| chunk.start);
        chunks.dedup_by_key(|chunk| chunk.start);
        for chunk in chunks {
            self.chunk(group, &chunk);
        }
    }

    /// What the volume itself has passed over.
    fn passed_over(&mut self) {
        let Some(findings) = self.volume.findings() else { return };
        for finding in findings.take().0 {
            if let Finding::LeftOut(error) = finding {
                self.found.has_lost_inodes = true;
                self.damaged(None, error);
            }
        }
    }

    fn log(&mut self) {
        let (start, blocks) = (self.geometry().log_start, self.geometry().log_blocks);
        if let Some((group, block)) = start.and_then(|start| self.geometry().split_fs_block(start)) {
            self.add_run(group, block, blocks.into());
        }
    }

    /// All blocks of a btree of a group.
    fn tree<K: BtreeKind>(&mut self, group: AgNumber, tree: Result<Option<Tree<'_, K>>>)
    where
        Address<K>: PlaceInGroup,
    {
        let Some(Some(tree)) = self.sound(group, tree) else { return };
        let _ = tree.visit_blocks(&mut |event| {
            match event {
                BlockEvent::Block { address, .. } => self.add_run(group, address.in_group(), 1),
                BlockEvent::Damage(error) => self.damaged(Some(group), error),
            }
            ControlFlow::Continue(())
        });
    }

    /// All blocks of a btree of inodes, and its chunks.
    fn inode_tree<K: BtreeKind<Record = InodeIndexRecord>>(
        &mut self,
        group: AgNumber,
        tree: Result<Option<Tree<'_, K>>>,
        chunks: &mut Vec<InodeChunk>,
    ) where
        Address<K>: PlaceInGroup,
    {
        let Some(Some(tree)) = self.sound(group, tree) else { return };
        let volume = self.volume;
        let _ = tree.visit_blocks(&mut |event| {
            match event {
                BlockEvent::Block { address, view, .. } => {
                    self.add_run(group, address.in_group(), 1);
                    chunks.extend(view.records().iter().map(|record| record.get(volume.geometry())));
                }
                BlockEvent::Damage(error) => self.damaged(Some(group), error),
            }
            ControlFlow::Continue(())
        });
    }

    fn sound<T>(&mut self, group: AgNumber, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.damaged(Some(group), error);
                None
            }
        }
    }

    /// Notes damage. The damaged block itself goes into the dump.
    fn damaged(&mut self, group: Option<AgNumber>, error: Error) {
        self.found.damages += 1;
        if let Some(group) = group {
            self.found.damaged_groups.insert(group);
        }
        if let Error::Corrupt(corruption) = &error
            && let Some(sector) = corruption.location.sector
            && let Some((group, block, _)) = self.geometry().block_of_sector(sector)
        {
            self.add_run(group, block, 1);
        }
        (self.tell)(Warning::Damaged(error));
    }

    fn damaged_inode(
        &mut self,
        inode: InodeNumber,
        structure: Structure,
        fault: impl Into<uxfs_format::fault::Fault>,
    ) {
        self.found.has_lost_inodes = true;
        self.damaged(None, Corruption::new(structure, Location::of_inode(inode), fault).into());
    }

    /// Adds blocks of a group, as many as it has.
    fn add_run(&mut self, group: AgNumber, start: AgBlock, length_blocks: u64) {
        let geometry = self.geometry();
        let Some(group_blocks) = geometry.group_length_blocks(group) else { return };
        let length = length_blocks.min(u64::from(group_blocks).saturating_sub(start.get().into()));
        let number = number_of(geometry, group, start);
        // What the device does not have cannot be dumped.
        let length = length.min(self.device_blocks.saturating_sub(number));
        self.found.blocks.insert_run(number, length);
    }

    /// Adds an extent, which its verifier has accepted.
    fn add_extent(&mut self, extent: &Extent) {
        let Some(left) = self.extent_budget_blocks.checked_sub(extent.length_blocks) else { return };
        self.extent_budget_blocks = left;
        if let Some((group, start)) = self.geometry().split_fs_block(extent.start) {
            self.add_run(group, start, extent.length_blocks);
        }
    }

    fn number_of_block(&self, block: FsBlock) -> Option<u64> {
        let (group, block) = self.geometry().split_fs_block(block)?;
        Some(number_of(self.geometry(), group, block))
    }
}

/// The address of a block in a btree of a group.
pub(crate) trait PlaceInGroup {
    /// The block.
    fn in_group(self) -> AgBlock;
}

impl PlaceInGroup for AgBlock {
    fn in_group(self) -> AgBlock {
        self
    }
}

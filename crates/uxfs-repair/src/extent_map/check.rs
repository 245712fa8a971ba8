//! The extents of one fork: read leaf by leaf, so that a file of any size takes no memory.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use uxfs_format::{
    btree::{
        extent_map::{Extent, ExtentMapFault, ExtentMapRoot},
        levels::ForkRoom,
        reverse_map::{Mapping, Owner},
    },
    fault::{Corruption, Fault, Location, Structure},
    inode::{FileType, Fork, InodeFlags2},
    units::{AgBlock, FileBlock, FsBlock, InodeNumber},
};
use uxfs_volume::{
    btree::Tree,
    inode::{
        ForkFormat, Inode,
        scan::{ScanEvent, ScanOptions, ScannedInode},
    },
    volume::Volume,
};

use crate::{
    btree::{TreeOwner, walk},
    check::Context,
    finding::Finding,
    inode::fields,
    memory::Memory,
    observed::{block_kinds::BlockKind, groups::SumsByGroup},
    reference_count,
    sink::Sink,
    sum::Keys,
};

/// Adds the blocks of a fork to the sums of their groups. Gives their number, those of the btree included; `None` where some could
/// not be read.
pub(crate) fn check(context: &Context<'_>, inode: &Inode, fork: Fork, sums: &mut SumsByGroup) -> Option<u64> {
    check_counting(context, inode, fork, sums, &mut 0)
}

/// As [`check`], and adds to `realtime_blocks` those that lie in the realtime section.
pub(crate) fn check_counting(
    context: &Context<'_>,
    inode: &Inode,
    fork: Fork,
    sums: &mut SumsByGroup,
    realtime_blocks: &mut u64,
) -> Option<u64> {
    let end = FileBlock::new(0);
    let mut extents =
        Extents { context, inode, fork, sums, realtime_blocks, end, count: 0, blocks: 0, is_sound: true };
    match inode.fork_format(fork) {
        Some(ForkFormat::Extents) => {
            let map = context.read(context.volume.extent_map(inode, fork))?;
            map.iter().for_each(|extent| extents.add(&extent));
        }
        Some(ForkFormat::Btree) => extents.walk_btree()?,
        Some(ForkFormat::Local | ForkFormat::Device) | None => {}
        Some(ForkFormat::MetadataBtree) if has_unknown_blocks(inode) => return None,
        Some(ForkFormat::MetadataBtree) => {}
    }
    extents.is_sound.then_some(extents.blocks)
}

/// Whether an inode has a btree of realtime metadata below its root: its blocks are not known.
pub(crate) fn has_unknown_blocks(inode: &Inode) -> bool {
    let root = inode.extent_root_bytes(Fork::Data);
    inode.fork_format(Fork::Data) == Some(ForkFormat::MetadataBtree) && root.first_chunk() != Some(&[0, 0])
}

/// Whether there are blocks whose owner is not known: those of realtime metadata below the roots of its btrees.
pub(crate) fn are_any_unknown(volume: &Volume, scan: ScanOptions) -> bool {
    if !volume.geometry().features.has_metadata_directory() || volume.geometry().realtime_blocks == 0 {
        return false;
    }
    let (_, found) = volume.scan_inodes(
        &scan,
        || false,
        |found, event| {
            if let ScanEvent::Inode(ScannedInode { bytes, core: Ok(core), .. }) = event
                && core.flags2().contains(InodeFlags2::METADATA)
            {
                let inode = Inode::decode(bytes, core, volume.geometry());
                *found |= inode.is_none_or(|inode| has_unknown_blocks(&inode));
            }
            ControlFlow::<()>::Continue(())
        },
    );
    found.contains(&true)
}

/// The blocks of a fork, those of its btree included; 0 where some cannot be read.
pub(crate) fn count_blocks(volume: &Volume, inode: &Inode, fork: Fork) -> u64 {
    blocks_or_fault(volume, inode, fork, ScanOptions::in_order()).unwrap_or(0)
}

/// The blocks of a fork, those of its btree included; `None` where the map has any fault.
pub(crate) fn blocks_or_fault(volume: &Volume, inode: &Inode, fork: Fork, scan: ScanOptions) -> Option<u64> {
    let mut forget = |_| ControlFlow::Continue(());
    let context = context_of_maps(volume, scan, &mut forget);
    let blocks = check(&context, inode, fork, &mut SumsByGroup::default());
    blocks.filter(|_| context.sink.findings() == 0)
}

/// Looks at nothing but the extent maps of these inodes, as far as they can be read.
pub(crate) fn check_some(
    volume: &Volume,
    inodes: &BTreeSet<InodeNumber>,
    scan: ScanOptions,
    take: &mut (dyn FnMut(Finding) -> ControlFlow<()> + Send),
) {
    let context = context_of_maps(volume, scan, take);
    for inode in inodes.iter().filter_map(|number| volume.inode(*number).ok()) {
        for fork in [Fork::Data, Fork::Attribute] {
            check(&context, &inode, fork, &mut SumsByGroup::default());
        }
    }
}

fn context_of_maps<'c>(
    volume: &'c Volume,
    scan: ScanOptions,
    take: &'c mut (dyn FnMut(Finding) -> ControlFlow<()> + Send),
) -> Context<'c> {
    Context {
        volume,
        keys: Keys::default(),
        sink: Sink::new(take),
        scan,
        memory: Memory::default(),
        uses: None,
        has_shared_extents: AtomicBool::default(),
        progress: None,
        see: None,
    }
}

/// Takes in the extents of a fork in their order.
struct Extents<'w, 'c> {
    context: &'w Context<'c>,
    inode: &'w Inode,
    fork: Fork,
    sums: &'w mut SumsByGroup,
    realtime_blocks: &'w mut u64,
    /// Where the extent before ends.
    end: FileBlock,
    count: u64,
    blocks: u64,
    is_sound: bool,
}

impl Extents<'_, '_> {
    fn walk_btree(&mut self) -> Option<()> {
        let (context, inode) = (self.context, self.inode);
        let room = match self.fork {
            Fork::Data => ForkRoom::Data,
            Fork::Attribute => ForkRoom::Attribute,
        };
        let root = ExtentMapRoot::parse(inode.extent_root_bytes(self.fork))
            .and_then(|root| root.verify(context.volume.geometry(), room).map(|()| root));
        let root = match root {
            Ok(root) => root,
            Err(fault) => return self.damaged(fault),
        };
        let tree = Tree::of_inode(context.volume, inode.number, &root);
        let mut blocks: Vec<FsBlock> = Vec::new();
        let found = walk(
            context,
            &tree,
            TreeOwner::Inode(inode.number),
            &mut |block| blocks.push(block),
            &mut |records| records.iter().for_each(|record| self.add(&record.get())),
        );
        blocks.iter().for_each(|block| self.add_btree_block(*block));
        self.is_sound &= found.is_complete;
        let expected = inode.extent_count(self.fork);
        if self.is_sound && self.count != expected {
            return self.damaged(ExtentMapFault::Count { found: self.count, expected });
        }
        Some(())
    }

    fn damaged(&self, fault: impl Into<Fault>) -> Option<()> {
        let corruption = Corruption::new(Structure::ExtentMap, Location::of_inode(self.inode.number), fault);
        self.context.sink.add(Finding::Damaged { corruption: Box::new(corruption) });
        None
    }

    fn add_btree_block(&mut self, block: FsBlock) {
        let mapping = |start| Mapping::of_extent_map(start, self.inode.number, self.fork == Fork::Attribute);
        self.blocks = self.blocks.saturating_add(1);
        if let Some((group, start)) = self.context.volume.geometry().split_fs_block(block) {
            let mapping = mapping(start);
            self.context.see_blocks(group, (start, 1), BlockKind::Btrees);
            self.sums.of(group).add_use(self.context, group, &mapping);
        }
    }

    fn add(&mut self, extent: &Extent) {
        self.count = self.count.saturating_add(1);
        self.blocks = self.blocks.saturating_add(extent.length_blocks);
        if extent.file_block < self.end {
            let (inode, file_block, start) = (self.inode.number, extent.file_block, extent.start);
            self.context.sink.add(Finding::ExtentOverlap { inode, fork: self.fork, file_block, start });
            self.is_sound = false;
        }
        self.end = extent.end();
        if extent.is_unwritten && self.fork == Fork::Attribute {
            let fault = ExtentMapFault::UnwrittenAttribute { file_block: extent.file_block };
            self.is_sound &= self.damaged(fault).is_some();
        }
        let (volume, core) = (self.context.volume, &self.inode.core);
        if extent.is_unwritten && self.fork == Fork::Data && !fields::may_be_unwritten(volume, core, extent) {
            let (inode, file_block) = (self.inode.number, extent.file_block);
            self.context.sink.add(Finding::UnwrittenExtent { inode, file_block });
        }
        // Those of realtime files have numbers of another section.
        if self.fork == Fork::Data && self.inode.is_realtime() {
            *self.realtime_blocks = self.realtime_blocks.saturating_add(extent.length_blocks);
            return;
        }
        self.check_shared(extent);
        let geometry = self.context.volume.geometry();
        if let Err(fault) = extent.verify_place(geometry) {
            self.is_sound &= self.damaged(fault).is_some();
            return;
        }
        let place = geometry.split_fs_block(extent.start);
        let length_blocks = u32::try_from(extent.length_blocks).ok();
        // An extent within a group has both.
        let (Some((group, start)), Some(length_blocks)) = (place, length_blocks) else { return };
        let kind = BlockKind::of_fork(self.inode.file_type(), self.fork == Fork::Attribute);
        self.context.see_blocks(group, (start, length_blocks), kind);
        let mapping = self.mapping(extent, start, length_blocks);
        self.sums.of(group).add_use(self.context, group, &mapping);
    }

    /// What is written to a file without the flag goes to its blocks in place, also where others have them.
    fn check_shared(&self, extent: &Extent) {
        let core = &self.inode.core;
        let may_share = self.fork == Fork::Attribute || core.flags2().contains(InodeFlags2::REFLINK);
        if may_share || !self.context.has_shared_extents.load(Relaxed) {
            return;
        }
        if core.file_type() == Some(FileType::Regular)
            && reference_count::check::is_shared(self.context.volume, extent)
        {
            let (inode, file_block) = (self.inode.number, extent.file_block);
            self.context.sink.add(Finding::SharedWithoutFlag { inode, file_block });
        }
    }

    fn mapping(&self, extent: &Extent, start: AgBlock, length_blocks: u32) -> Mapping {
        Mapping {
            start,
            length_blocks,
            owner: Owner::Inode(self.inode.number),
            file_block: extent.file_block,
            is_attribute_fork: self.fork == Fork::Attribute,
            is_extent_map_block: false,
            is_unwritten: extent.is_unwritten,
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;

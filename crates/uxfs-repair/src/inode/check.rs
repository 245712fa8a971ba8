//! Every inode in use: its core, its extents, the target of a symbolic link. Fills the table of inodes.

use uxfs_format::{
    fault::{Corruption, Fault, Location, Structure},
    inode::{FileType, Fork, InodeFault, InodeFlags2},
    units::{InodeNumber, SECTOR_SIZE_BYTES, Sector},
};
use uxfs_volume::inode::{
    Inode,
    scan::{ScanEvent, ScannedInode},
};

use super::{fields, gather::byte_of};
use crate::{
    check::Context,
    extent_map,
    finding::Finding,
    observed::{
        groups::{Groups, SumsByGroup},
        inodes::InodeTable,
    },
    quota::{
        self,
        usage::{ThreadUsage, Usage},
    },
    superblock, unlinked,
};

/// Observations of one thread.
#[derive(Debug, Default)]
struct Gathered {
    sums: SumsByGroup,
    usage: ThreadUsage,
    /// The realtime blocks of some inode could not be counted.
    is_usage_incomplete: bool,
    inodes: u64,
    /// Extents of some inode could not be read.
    is_incomplete: bool,
    has_attribute_forks: bool,
}

/// Sums over all inodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InodesFound {
    pub inodes: u64,
    /// The extents of all of them could be read.
    pub are_complete: bool,
}

/// Looks at all inodes; adds their blocks to the sums of their groups.
pub(crate) fn check(context: &Context<'_>, table: &InodeTable, groups: &mut Groups) -> InodesFound {
    let quota_inodes = quota::inodes(context.volume);
    let usage = Usage::new(context, &quota_inodes);
    let (summary, all) = context.volume.scan_inodes(&context.scan, Gathered::default, |gathered, event| {
        match &event {
            ScanEvent::Inode(ScannedInode { number, bytes, core: Ok(core) }) => {
                fields::check(context, *number, core);
                compare_with_log(context, *number, bytes);
            }
            // It was free before the write that was lost.
            ScanEvent::Inode(ScannedInode { number, bytes, core: Err(fault) })
                if *fault == Fault::Inode(InodeFault::FreeThoughIndexed) =>
            {
                compare_with_log(context, *number, bytes);
            }
            _ => {}
        }
        if let Some(inode) = of_event(context, event, &mut gathered.is_incomplete) {
            let realtime_blocks = check_inode(context, table, &inode, gathered);
            usage.add(&mut gathered.usage, &inode, realtime_blocks);
            context.count_visit(&mut gathered.inodes);
        }
        context.sink.flow()
    });
    let are_all_read = summary.is_clean() && table.is_complete() && !context.sink.is_stopped();
    let mut found = InodesFound { inodes: 0, are_complete: are_all_read };
    let mut is_counted = are_all_read && !usage.is_unwanted();
    let mut has_attribute_forks = false;
    for mut gathered in all {
        usage.take(&mut gathered.usage);
        is_counted &= !gathered.is_usage_incomplete;
        groups.merge(&gathered.sums);
        found.inodes = found.inodes.saturating_add(gathered.inodes);
        found.are_complete &= !gathered.is_incomplete;
        has_attribute_forks |= gathered.has_attribute_forks;
    }
    superblock::check::check_attribute_bit(context, has_attribute_forks);
    quota::check::check(context, &quota_inodes, is_counted.then_some(usage));
    found
}

/// Notes an inode that is older than its last change in the log.
pub(super) fn compare_with_log(context: &Context<'_>, inode: InodeNumber, bytes: &[u8]) {
    let geometry = context.volume.geometry();
    if let Some(comparison) = context.volume.newest_lsn().comparison()
        && let Some(offset_bytes) = byte_of(geometry, inode)
    {
        let sector = Sector::new(offset_bytes / SECTOR_SIZE_BYTES);
        comparison.compare(Structure::Inode, bytes, sector, geometry);
    }
}

/// Visits all inodes again for their extents only, which the context records.
pub(crate) fn gather_extents(context: &Context<'_>) {
    context.volume.scan_inodes(&context.scan, SumsByGroup::default, |sums, event| {
        if let Some(inode) = of_event(context, event, &mut false) {
            for fork in [Fork::Data, Fork::Attribute] {
                extent_map::check::check(context, &inode, fork, sums);
            }
        }
        context.sink.flow()
    });
}

/// Visits all inodes that can be read, once more. Faults were reported the first time.
pub(crate) fn visit<S: Send>(
    context: &Context<'_>,
    make_state: impl Fn() -> S + Sync,
    visit: impl Fn(&mut S, Inode) + Sync,
) -> Vec<S> {
    let geometry = context.volume.geometry();
    let make_state = || (make_state(), 0);
    let (_, states) = context.volume.scan_inodes(&context.scan, make_state, |(state, visited), event| {
        if let ScanEvent::Inode(ScannedInode { bytes, core: Ok(core), .. }) = event
            && let Some(inode) = Inode::decode(bytes, core, geometry)
        {
            visit(state, inode);
            context.count_visit(visited);
        }
        context.sink.flow()
    });
    states.into_iter().map(|(state, _)| state).collect()
}

/// The inode of an event, or the finding that it is.
fn of_event(context: &Context<'_>, event: ScanEvent<'_>, is_incomplete: &mut bool) -> Option<Inode> {
    match event {
        ScanEvent::Inode(ScannedInode { bytes, core: Ok(core), .. }) => {
            return Inode::decode(bytes, core, context.volume.geometry());
        }
        ScanEvent::Inode(ScannedInode { number, core: Err(fault), .. }) => {
            let corruption = Corruption::new(Structure::Inode, Location::of_inode(number), fault);
            context.sink.add(Finding::Damaged { corruption: Box::new(corruption) });
        }
        ScanEvent::UnreadableChunks { group, first, inode_count, error } => {
            context.sink.add(Finding::UnreadInodes { group, first, count: inode_count });
            context.sink.add_error(error);
        }
        // The pass over the inode index has reported it.
        ScanEvent::UnreadableIndex { .. } => {}
    }
    *is_incomplete = true;
    None
}

/// Gives the blocks that lie in the realtime section.
fn check_inode(context: &Context<'_>, table: &InodeTable, inode: &Inode, gathered: &mut Gathered) -> u64 {
    if let Some(ordinal) = table.find(context.volume.geometry(), inode.number) {
        if let Some(file_type) = inode.file_type() {
            table.set(ordinal, file_type, inode.link_count());
            if inode.flags2().contains(InodeFlags2::METADATA) {
                table.set_metadata(ordinal);
            }
        }
        unlinked::check::check_inode(context, table, ordinal, inode);
    }
    gathered.has_attribute_forks |= inode.attribute.is_some();
    let forks = [Fork::Data, Fork::Attribute];
    let mut realtime_blocks = 0;
    let blocks = forks.map(|fork| {
        let sums = &mut gathered.sums;
        extent_map::check::check_counting(context, inode, fork, sums, &mut realtime_blocks)
    });
    match blocks {
        [Some(data), Some(attribute)] => {
            let (found, expected) = (inode.blocks(), data.saturating_add(attribute));
            if found != expected {
                context.sink.add(Finding::InodeBlocks { inode: inode.number, found, expected });
            }
        }
        _ => {
            gathered.is_incomplete = true;
            gathered.is_usage_incomplete |= inode.is_realtime();
        }
    }
    match inode.file_type() {
        Some(FileType::SymbolicLink) => {
            check_symlink_blocks(context, inode, blocks[0]);
            if let Err(error) = context.volume.read_symlink(inode) {
                context.sink.add_error_of(inode.number, error);
            }
        }
        _ if fields::has_useless_size(&inode.core, inode.number, context.volume.superblock()) => {
            let (inode, size_bytes) = (inode.number, inode.size_bytes());
            context.sink.add(Finding::SizeOfSpecialFile { inode, size_bytes });
        }
        _ => {}
    }
    realtime_blocks
}

fn check_symlink_blocks(context: &Context<'_>, inode: &Inode, found: Option<u64>) {
    let is_remote = inode.has_extents(Fork::Data);
    let (Some(found), true) = (found, is_remote) else { return };
    let expected = fields::symlink_blocks(inode.size_bytes(), context.volume.geometry());
    // Links without a name are being deleted, and lose their blocks first.
    if expected.is_some_and(|expected| expected != found) && inode.link_count() != 0 {
        let (inode, expected) = (inode.number, expected.unwrap_or(0));
        context.sink.add(Finding::SymlinkBlocks { inode, found, expected });
    }
}

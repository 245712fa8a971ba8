//! Comparison of each inode with all entries that name it.

use uxfs_format::{inode::FileType, units::InodeNumber};

use crate::{
    check::Context,
    finding::Finding,
    metadata_directory,
    observed::inodes::{InodeTable, Ordinal, ParentWitness},
};

/// Before directories are read: inodes that the superblock names.
pub(crate) fn begin(context: &Context<'_>, table: &InodeTable) {
    let superblock = context.volume.superblock();
    let metadata_root = metadata_directory::root(context.volume);
    for root in [context.volume.geometry().root_inode].into_iter().chain(metadata_root) {
        if let Some(ordinal) = find(context, table, root) {
            // The root is its own parent.
            table.note_parent(ordinal, ordinal, ParentWitness::Entry);
            table.reach(ordinal);
            check_metadata_root(context, root);
        }
    }
    if metadata_root.is_some() {
        return;
    }
    let quota = [superblock.user_quota_inode, superblock.group_quota_inode, superblock.project_quota_inode];
    let internal = [superblock.realtime_bitmap_inode, superblock.realtime_summary_inode];
    let numbers = quota.into_iter().chain(internal).map(|number| number.get());
    let mut numbers: Vec<u64> = numbers.filter(|number| *number != 0 && *number != u64::MAX).collect();
    // One inode may hold the quota of groups and of projects.
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers {
        if let Some(ordinal) = find(context, table, InodeNumber::new(number)) {
            // Of a directory, which no such inode is, the table keeps the parent there.
            if table.file_type(ordinal) != Some(FileType::Directory) {
                table.add_name(ordinal);
            }
        }
    }
}

/// An inode that cannot be read has a finding.
fn check_metadata_root(context: &Context<'_>, inode: InodeNumber) {
    let is_root = metadata_directory::root(context.volume) == Some(inode);
    let found = is_root.then(|| context.volume.inode(inode).ok()).flatten();
    if found.is_some_and(|found| !metadata_directory::is_directory(&found)) {
        context.sink.add(Finding::MetadataRoot { inode });
    }
}

fn find(context: &Context<'_>, table: &InodeTable, inode: InodeNumber) -> Option<Ordinal> {
    let geometry = context.volume.geometry();
    let found = table.find(geometry, inode);
    if found.is_none() && !table.is_unknown(geometry, inode) {
        context.sink.add(Finding::InternalInodeMissing { inode });
    }
    found
}

/// After all directories were read; `are_directories_complete` where all of their entries were. Else missing names prove nothing.
pub(crate) fn check(context: &Context<'_>, table: &InodeTable, are_directories_complete: bool) {
    for ordinal in table.iter() {
        if context.sink.is_stopped() {
            return;
        }
        match table.file_type(ordinal) {
            None => {}
            Some(FileType::Directory) => check_directory(context, table, ordinal, are_directories_complete),
            Some(_) => check_file(context, table, ordinal, are_directories_complete),
        }
    }
}

fn check_directory(context: &Context<'_>, table: &InodeTable, ordinal: Ordinal, is_complete: bool) {
    let number = |ordinal| table.number(context.volume.geometry(), ordinal);
    if !table.is_named(ordinal) {
        if is_complete {
            context.sink.add(Finding::NoName { inode: number(ordinal) });
        }
    } else if let Some(cycle) = table.follow(ordinal) {
        context.sink.add(Finding::Cycle { inode: number(cycle) });
    }
}

fn check_file(context: &Context<'_>, table: &InodeTable, ordinal: Ordinal, is_complete: bool) {
    let missing = table.missing_names(ordinal);
    if missing == 0 {
        return;
    }
    let number = table.number(context.volume.geometry(), ordinal);
    let Some(inode) = context.read(context.volume.inode(number)) else { return };
    let (found, expected) = (inode.link_count(), inode.link_count().wrapping_sub(missing));
    if expected == 0 && is_complete {
        context.sink.add(Finding::NoName { inode: number });
    } else if is_complete || expected > found {
        context.sink.add(Finding::LinkCount { inode: number, found, expected });
    }
}

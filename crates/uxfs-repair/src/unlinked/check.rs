//! The lists of unlinked inodes of a group: an inode is in one of them if and only if its link count is 0.
//!
//! An inode is followed once only, so that lists which lead into each other or into a circle end. The table must have the chunks of
//! the group.

use uxfs_format::{
    allocation_group::inode_header::InodeHeader,
    units::{AgInode, AgNumber},
};
use uxfs_volume::{
    error::{Error, OperationError},
    inode::Inode,
};

use crate::{
    check::Context,
    finding::Finding,
    observed::inodes::{InodeTable, Ordinal},
};

/// Follows all lists of a group, and notes their inodes in the table.
pub(crate) fn check_lists(
    context: &Context<'_>,
    group: AgNumber,
    header: &InodeHeader,
    inodes: &mut InodeTable,
) {
    for (bucket, head) in (0..).zip(&header.unlinked) {
        let head = Some(AgInode::new(head.get())).filter(|head| !head.is_null());
        if let Some(head) = head {
            let inode = context.volume.geometry().inode_number(group, head);
            context.sink.add(Finding::Unlinked { group, bucket, inode });
        }
        let mut next = head;
        while let Some(inode) = next
            && !context.sink.is_stopped()
        {
            next = follow(context, group, bucket, inode, inodes);
        }
    }
}

/// Looks at one inode of a list; gives the next one.
fn follow(
    context: &Context<'_>,
    group: AgNumber,
    bucket: u32,
    inode: AgInode,
    inodes: &mut InodeTable,
) -> Option<AgInode> {
    let geometry = context.volume.geometry();
    let number = geometry.inode_number(group, inode);
    let ordinal = inodes.find(geometry, number);
    match ordinal.map(|ordinal| inodes.note_unlinked(ordinal)) {
        Some(Some(false)) => {
            context.sink.add(Finding::UnlinkedTwice { group, bucket, inode: number });
            return None;
        }
        Some(Some(true)) => {}
        // It is not in the table, so that a second time would not be noticed: the list ends here.
        None | Some(None) => inodes.miss_unlinked(group),
    }
    match context.volume.inode(number) {
        Ok(inode) => {
            if inode.link_count() > 0 {
                let links = inode.link_count();
                context.sink.add(Finding::UnlinkedWithLinks { group, bucket, inode: number, links });
            }
            ordinal.and_then(|_| inode.next_unlinked())
        }
        Err(Error::Operation(OperationError::NoSuchInode)) => {
            context.sink.add(Finding::UnlinkedFree { group, bucket, inode: number });
            inodes.miss_unlinked(group);
            None
        }
        Err(error) => {
            context.sink.add_error(error);
            inodes.miss_unlinked(group);
            None
        }
    }
}

/// An inode in use must be in a list where it has no links, and may name a next inode only where it is in one. Both hold only
/// where all lists of its group could be read.
pub(crate) fn check_inode(context: &Context<'_>, table: &InodeTable, ordinal: Ordinal, inode: &Inode) {
    let group = context.volume.geometry().split_inode_number(inode.number).map(|(group, _)| group);
    if group.is_none_or(|group| table.may_be_unlinked(group, ordinal)) {
        return;
    }
    if inode.link_count() == 0 {
        context.sink.add(Finding::NotUnlinked { inode: inode.number });
    }
    if let Some(next) = inode.next_unlinked() {
        context.sink.add(Finding::NextUnlinked { inode: inode.number, next });
    }
}

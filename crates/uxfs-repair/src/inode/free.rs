//! Free inodes: an allocation takes them as they lie, so each must pass the verifier.

use uxfs_format::{
    btree::inode_index::InodeChunk,
    field_table::OnDisk,
    geometry::INODES_PER_CHUNK,
    inode::{InodeCore, InodeFault, core, verify_inode},
    units::{AgInode, AgNumber, InodeNumber},
};

use super::{check::compare_with_log, fields, gather::byte_of};
use crate::{check::Context, finding::Finding};

/// Looks at the inodes of a chunk that the index calls free.
pub(crate) fn check(context: &Context<'_>, group: AgNumber, chunk: &InodeChunk) {
    let geometry = context.volume.geometry();
    let inode_bytes = geometry.inode_size().max(1);
    let mut free =
        (0..INODES_PER_CHUNK).filter(|index| chunk.exists(*index) && !chunk.is_allocated(*index)).peekable();
    // Neighbours are read together.
    while let Some(first) = free.next() {
        let mut count = 1;
        while free.next_if_eq(&(first + count)).is_some() {
            count += 1;
        }
        let mut bytes = vec![0; inode_bytes * count as usize];
        let inode = geometry.inode_number(group, chunk.inode(first));
        let is_read = byte_of(geometry, inode)
            .is_some_and(|offset_bytes| context.volume.device().read(offset_bytes, &mut bytes).is_ok());
        if !is_read {
            // An inode in use beside them tells that the device fails.
            continue;
        }
        for (index, bytes) in (first..).zip(bytes.chunks_exact(inode_bytes)) {
            check_inode(context, geometry.inode_number(group, chunk.inode(index)), bytes);
        }
    }
}

fn check_inode(context: &Context<'_>, inode: InodeNumber, bytes: &[u8]) {
    let Some(core) = InodeCore::prefix_of(bytes) else { return };
    if core.number.get() == inode.get() && verify_inode(bytes, inode, context.volume.geometry()).is_ok() {
        compare_with_log(context, inode, bytes);
    }
    if core.magic.get() == core::MAGIC && !core.is_free() {
        context.sink.add(Finding::FreeInodeInUse { inode });
        return;
    }
    match judge(context, inode, bytes) {
        Ok(core) => fields::check(context, inode, core),
        Err(fault) => context.sink.add(Finding::FreeInode { inode, fault }),
    }
}

fn judge<'b>(
    context: &Context<'_>,
    inode: InodeNumber,
    bytes: &'b [u8],
) -> Result<&'b InodeCore, InodeFault> {
    let geometry = context.volume.geometry();
    let core = verify_inode(bytes, inode, geometry)?;
    let next = AgInode::new(core.next_unlinked.get());
    let group = geometry.split_inode_number(inode).map(|(group, _)| group).unwrap_or_default();
    if !next.is_null() && !geometry.group_may_hold_inode(group, next) {
        return Err(InodeFault::NextUnlinked { index: 0, found: next.get() });
    }
    Ok(core)
}

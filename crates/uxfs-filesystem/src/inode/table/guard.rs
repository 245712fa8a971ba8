//! The exclusive lock of an inode, which undoes changes that were not stored (invariant 7).

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Weak,
};

use parking_lot::RwLockWriteGuard;
use uxfs_block::lock_order::Ordered;

use super::Slot;
use uxfs_engine::inode::edit::EditInode;
use uxfs_volume::cause;

/// An exclusive lock on an inode. A change that is not stored when the guard goes is undone.
pub struct InodeWriteGuard<'a> {
    inode: Ordered<RwLockWriteGuard<'a, EditInode>>,
    slot: &'a Slot,
}

impl<'a> InodeWriteGuard<'a> {
    #[inline]
    pub(super) fn new(inode: Ordered<RwLockWriteGuard<'a, EditInode>>, slot: &'a Slot) -> Self {
        Self { inode, slot }
    }
}

impl Deref for InodeWriteGuard<'_> {
    type Target = EditInode;

    #[inline]
    fn deref(&self) -> &EditInode {
        &self.inode
    }
}

impl DerefMut for InodeWriteGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut EditInode {
        &mut self.inode
    }
}

impl Drop for InodeWriteGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // The number differs only if a caller replaced the inode as a whole.
        if self.inode.is_changed() || self.inode.number != self.slot.number {
            restore(&mut self.inode, self.slot);
        }
    }
}

impl fmt::Debug for InodeWriteGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.inode, f)
    }
}

/// Reads an inode anew from its cluster.
#[cold]
fn restore(inode: &mut EditInode, slot: &Slot) {
    // Bulk mode: after an error the image is abandoned.
    let Some(engine) = slot.queues.0.engine.get().and_then(Weak::upgrade) else { return };
    match cause::aside(|| engine.load_edit_inode(slot.number)) {
        Ok(stored) => *inode = stored,
        Err(_) => inode.forget(),
    }
}

//! The lock of an inode that is to be changed, which leaves no half change behind (invariant 7).

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

/// The inode, for its only holder. A change stays in memory only if it has been stored when the guard goes.
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
        // Another inode can only have been put in its place.
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

/// Brings an inode back to what is stored of it.
#[cold]
fn restore(inode: &mut EditInode, slot: &Slot) {
    // Without a journal an image is abandoned after an error.
    let Some(engine) = slot.queues.0.engine.get().and_then(Weak::upgrade) else { return };
    match cause::aside(|| engine.load_edit_inode(slot.number)) {
        Ok(stored) => *inode = stored,
        Err(_) => inode.forget(),
    }
}

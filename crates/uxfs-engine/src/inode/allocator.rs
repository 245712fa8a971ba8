//! Allocates, makes and frees inodes. A view of the transaction that makes the changes.

use crate::transaction::Transaction;

/// Allocates, makes and frees inodes.
#[derive(Debug)]
pub struct InodeAllocator<'t, 'fs> {
    pub(crate) transaction: &'t mut Transaction<'fs>,
}

impl<'fs> Transaction<'fs> {
    /// To allocate and free inodes.
    #[inline]
    pub fn inodes(&mut self) -> InodeAllocator<'_, 'fs> {
        InodeAllocator { transaction: self }
    }
}

//! Adds, removes and replaces directory entries. A view of the transaction that makes the changes.

use crate::transaction::Transaction;

/// Adds, removes and replaces directory entries.
#[derive(Debug)]
pub struct DirectoryEditor<'t, 'fs> {
    pub(crate) transaction: &'t mut Transaction<'fs>,
}

impl<'fs> Transaction<'fs> {
    /// To change directories.
    #[inline]
    pub fn directories(&mut self) -> DirectoryEditor<'_, 'fs> {
        DirectoryEditor { transaction: self }
    }
}

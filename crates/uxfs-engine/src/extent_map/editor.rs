//! Changes where the contents of forks lie. A view of the transaction that makes the changes.

use crate::transaction::Transaction;

/// Changes where the contents of forks lie.
#[derive(Debug)]
pub struct ExtentMapEditor<'t, 'fs> {
    pub(crate) transaction: &'t mut Transaction<'fs>,
}

impl<'fs> Transaction<'fs> {
    /// To change extent maps.
    #[inline]
    pub fn extent_maps(&mut self) -> ExtentMapEditor<'_, 'fs> {
        ExtentMapEditor { transaction: self }
    }
}

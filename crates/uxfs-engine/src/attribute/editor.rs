//! Changes extended attributes and access control lists. A view of the transaction that makes the changes.

use crate::transaction::Transaction;

/// Changes extended attributes and access control lists.
#[derive(Debug)]
pub struct AttributeEditor<'t, 'fs> {
    pub(crate) transaction: &'t mut Transaction<'fs>,
}

impl<'fs> Transaction<'fs> {
    /// To change extended attributes.
    #[inline]
    pub fn attributes(&mut self) -> AttributeEditor<'_, 'fs> {
        AttributeEditor { transaction: self }
    }
}

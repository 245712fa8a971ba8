//! Filling an image: one thread, one transaction, inodes held by the caller.
//!
//! | module | holds |
//! |---|---|
//! | [`create`] | new files and further names |
//! | [`remove`] | taking names away |

pub mod create;
pub mod remove;

use crate::transaction::Transaction;

/// Makes and removes whole files while an image is filled.
#[derive(Debug)]
pub struct BulkFiles<'t, 'fs> {
    pub(crate) transaction: &'t mut Transaction<'fs>,
}

impl<'fs> Transaction<'fs> {
    /// To make and remove whole files while an image is filled.
    #[inline]
    pub fn files(&mut self) -> BulkFiles<'_, 'fs> {
        BulkFiles { transaction: self }
    }
}

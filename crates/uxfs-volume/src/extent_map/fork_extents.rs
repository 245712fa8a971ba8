//! The extents of a fork, however its inode is held.

use std::{ops::Deref, sync::Arc};

use super::ExtentMap;

/// The extents of a fork.
#[derive(Debug, Clone)]
pub enum ForkExtents<'a> {
    /// Of an inode that was read.
    Map(Arc<ExtentMap>),
    /// Of an inode that is open and locked.
    Open(&'a ExtentMap),
}

impl Deref for ForkExtents<'_> {
    type Target = ExtentMap;

    #[inline]
    fn deref(&self) -> &ExtentMap {
        match self {
            Self::Map(map) => map,
            Self::Open(map) => map,
        }
    }
}

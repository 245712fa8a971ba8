//! Hints about an inode's extents: the place of the last change of its extent btrees, and the extents that were found to be
//! its own.

use uxfs_format::{btree::extent_map::ExtentMap, inode::Fork};

use super::own_blocks::OwnExtents;
use crate::btree::CursorHint;

/// The way that the last cursor in a btree of the inode went, so that the next change close by need not go down from the
/// root. There is one for both forks: whatever else a damaged image says of their blocks, nothing has changed since.
#[derive(Debug, Clone, Default)]
pub struct ExtentHint {
    /// Most inodes have no such btree.
    last: Option<Box<(Fork, CursorHint<ExtentMap>)>>,
    /// Extents of the data that may be written in place.
    pub own: OwnExtents,
}

impl ExtentHint {
    /// The hint of a fork, which knows nothing if the last cursor was in the other one.
    pub fn of(&mut self, fork: Fork) -> &mut CursorHint<ExtentMap> {
        let (last, hint) = &mut **self.last.get_or_insert_with(|| Box::new((fork, CursorHint::default())));
        if *last != fork {
            *last = fork;
            hint.forget();
        }
        hint
    }

    /// A btree has come or gone.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

//! Shared extents of a group.
//!
//! | module | holds |
//! |---|---|
//! | [`group`] | counts in a group that is being changed |
//! | [`edit`] | counting owners; setting blocks aside for a copy-on-write |

pub(crate) mod edit;
mod group;

use uxfs_format::{
    btree::reference_count::{ReferenceCount, SharedExtent},
    units::{AgBlock, AgNumber},
};

use crate::{btree::Tree, error::Result, filesystem::FileSystem};

impl FileSystem {
    /// The tree of a group's shared extents; `None` where the file system has none.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`](crate::error::OperationError::NoSuchGroup); damage of the header; the device.
    pub fn reference_counts(&self, group: AgNumber) -> Result<Option<Tree<'_, ReferenceCount>>> {
        let header = self.free_space_header(group)?;
        if !self.geometry().features.has_reflink() {
            return Ok(None);
        }
        let root = AgBlock::new(header.reference_count_root.get());
        Ok(Some(Tree::of_group(self, group, root, header.reference_count_levels.get())))
    }

    /// All shared extents of a group in order, behind them those set aside for a copy-on-write; none where the file
    /// system has no such trees.
    ///
    /// # Errors
    /// As [`reference_counts`](Self::reference_counts).
    pub fn shared_extents(
        &self,
        group: AgNumber,
    ) -> Result<impl Iterator<Item = Result<SharedExtent>> + use<'_>> {
        let records = self.reference_counts(group)?.map(|tree| tree.records());
        Ok(records.into_iter().flatten().map(|record| record.map(|record| record.get())))
    }

    /// As [`shared_extents`](Self::shared_extents), of a file system that is being changed, by nobody else meanwhile: where
    /// the tree begins may be known in memory only.
    pub(crate) fn shared_extents_in_memory(
        &self,
        group: AgNumber,
    ) -> Result<impl Iterator<Item = Result<SharedExtent>> + use<'_>> {
        let mut state = self.group_state(group)?.lock();
        if !state.is_loaded() {
            state.load(self)?;
        }
        let header = state.headers()?.free_space;
        let root = AgBlock::new(header.reference_count_root.get());
        let has_tree = self.geometry().features.has_reflink();
        let tree = has_tree.then(|| {
            Tree::<ReferenceCount>::of_group(self, group, root, header.reference_count_levels.get())
        });
        let records = tree.map(|tree| tree.records());
        Ok(records.into_iter().flatten().map(|record| record.map(|record| record.get())))
    }
}

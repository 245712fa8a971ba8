//! Who owns the blocks of a group.

use uxfs_format::{
    btree::reverse_map::{Mapping, ReverseMap},
    units::{AgBlock, AgNumber},
};

use crate::{btree::Tree, error::Result, volume::Volume};

impl Volume {
    /// The tree of owners of a group; `None` where the file system has none.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`](crate::error::OperationError::NoSuchGroup); damage of the header; the device.
    pub fn reverse_map(&self, group: AgNumber) -> Result<Option<Tree<'_, ReverseMap>>> {
        let header = self.free_space_header(group)?;
        if !self.geometry().features.has_reverse_map() {
            return Ok(None);
        }
        let root = AgBlock::new(header.reverse_map_root.get());
        Ok(Some(Tree::of_group(self, group, root, header.reverse_map_levels.get())))
    }

    /// All mappings of a group in order; none where the file system has no such trees.
    ///
    /// # Errors
    /// As [`reverse_map`](Self::reverse_map).
    pub fn reverse_mappings(
        &self,
        group: AgNumber,
    ) -> Result<impl Iterator<Item = Result<Mapping>> + use<'_>> {
        let records = self.reverse_map(group)?.map(|tree| tree.records());
        Ok(records.into_iter().flatten().map(|record| record.map(|record| record.get())))
    }
}

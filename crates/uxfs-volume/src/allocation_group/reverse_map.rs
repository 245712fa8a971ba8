//! Who owns the blocks of a group.

use uxfs_format::{
    btree::reverse_map::{Mapping, ReverseMap},
    units::AgBlock,
};

use super::reader::GroupReader;
use crate::{btree::Tree, error::Result};

impl<'v> GroupReader<'v> {
    /// The tree of owners of a group; `None` where the file system has none.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`](crate::error::OperationError::NoSuchGroup); damage of the header; the device.
    pub fn reverse_map(self) -> Result<Option<Tree<'v, ReverseMap>>> {
        let header = self.free_space_header()?;
        if !self.volume.geometry().features.has_reverse_map() {
            return Ok(None);
        }
        let root = AgBlock::new(header.reverse_map_root.get());
        Ok(Some(Tree::of_group(self.volume, self.group, root, header.reverse_map_levels.get())))
    }

    /// All mappings of a group in order; none where the file system has no such trees.
    ///
    /// # Errors
    /// As [`reverse_map`](Self::reverse_map).
    pub fn reverse_mappings(self) -> Result<impl Iterator<Item = Result<Mapping>> + use<'v>> {
        let records = self.reverse_map()?.map(|tree| tree.records());
        Ok(records.into_iter().flatten().map(|record| record.map(|record| record.get())))
    }
}

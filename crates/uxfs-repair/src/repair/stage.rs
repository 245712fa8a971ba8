//! Where changes are kept until all of them have been checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_format::{
    fault::Structure,
    geometry::Geometry,
    seal::{own_sector, structure_of},
    units::{AgBlock, AgNumber, FsBlock, Sector},
};
use uxfs_volume::error::{OperationError, Result};

/// A device over the image that keeps all writes in memory, or in a temporary file where they are many.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    overlay: Arc<OverlayDevice>,
    geometry: Geometry,
    trees: Arc<StagedTrees>,
}

/// Blocks of btrees that were staged.
#[derive(Debug, Default)]
pub(crate) struct StagedTrees {
    /// Those that were staged last for each group. They lie where nothing was known to be: what turns out to lie there later must still
    /// be there.
    of_groups: Mutex<BTreeMap<AgNumber, Vec<AgBlock>>>,
    /// Free blocks that became blocks of extent maps: free space btrees of groups that are not rebuilt yet still have them.
    of_maps: Mutex<BTreeSet<FsBlock>>,
}

impl Stage {
    /// Over the image, of which a superblock gave the geometry.
    pub fn new(overlay: Arc<OverlayDevice>, geometry: Geometry, trees: Arc<StagedTrees>) -> Self {
        Self { overlay, geometry, trees }
    }

    /// The btrees of a group will lie in these blocks. Blocks in which they were staged before get back what lies on the device, but for
    /// those that something else was staged in since.
    ///
    /// # Errors
    /// The device.
    pub fn begin_trees(&self, group: AgNumber, blocks: Vec<AgBlock>) -> Result<()> {
        let mut trees = self.trees.of_groups.lock().unwrap_or_else(PoisonError::into_inner);
        let before = trees.insert(group, blocks).unwrap_or_default();
        let mut bytes = vec![0; self.geometry.block_size()];
        for block in before {
            let sector = self.sector_of(group, block)?;
            self.read_at(sector, &mut bytes)?;
            let is_tree = structure_of(&bytes, &self.geometry).is_some_and(Structure::is_group_btree);
            if is_tree && own_sector(&bytes, &self.geometry) == Some(sector) {
                self.overlay.base().read(Geometry::byte_of_sector(sector), &mut bytes)?;
                self.write_at(sector, &bytes)?;
            }
        }
        Ok(())
    }

    /// Takes a free block for an extent map. Returns whether no other map has taken it.
    pub fn take_for_map(&self, block: FsBlock) -> bool {
        self.trees.of_maps.lock().unwrap_or_else(PoisonError::into_inner).insert(block)
    }

    /// Sizes of the file system.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The image as it will be.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::<OverlayDevice>::clone(&self.overlay)
    }

    /// Where a block of a group lies.
    ///
    /// # Errors
    /// Nowhere.
    pub fn sector_of(&self, group: AgNumber, block: AgBlock) -> Result<Sector> {
        Ok(self.geometry.sector_of_group_block(group, block).ok_or(OperationError::NoSuchGroup)?)
    }

    /// Writes whole sectors.
    ///
    /// # Errors
    /// The device, or the temporary file.
    pub fn write_at(&self, sector: Sector, bytes: &[u8]) -> Result<()> {
        Ok(self.overlay.write(Geometry::byte_of_sector(sector), bytes)?)
    }

    /// What the device had there when it was found.
    ///
    /// # Errors
    /// The device.
    pub fn read_found_at(&self, sector: Sector, bytes: &mut [u8]) -> Result<()> {
        Ok(self.overlay.base().read(Geometry::byte_of_sector(sector), bytes)?)
    }

    /// Reads from the image as it will be.
    ///
    /// # Errors
    /// The device.
    pub fn read_at(&self, sector: Sector, bytes: &mut [u8]) -> Result<()> {
        Ok(self.overlay.read(Geometry::byte_of_sector(sector), bytes)?)
    }
}

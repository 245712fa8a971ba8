//! Where changes are kept until all of them have been checked.

use std::sync::Arc;

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_format::{
    geometry::Geometry,
    units::{AgBlock, AgNumber, Sector},
};
use uxfs_volume::error::{OperationError, Result};

/// A device over the image that keeps all writes in memory, or in a temporary file where they are many.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    overlay: Arc<OverlayDevice>,
    geometry: Geometry,
}

impl Stage {
    /// Over the image, of which a superblock gave the geometry.
    pub fn new(overlay: Arc<OverlayDevice>, geometry: Geometry) -> Self {
        Self { overlay, geometry }
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

    /// Reads from the image as it will be.
    ///
    /// # Errors
    /// The device.
    pub fn read_at(&self, sector: Sector, bytes: &mut [u8]) -> Result<()> {
        Ok(self.overlay.read(Geometry::byte_of_sector(sector), bytes)?)
    }
}

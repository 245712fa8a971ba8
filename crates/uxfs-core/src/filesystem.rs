//! The file system object. Everything is reached through `&FileSystem`, from as many threads as the caller has.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::{Corruption, Location, Structure},
    geometry::Geometry,
    superblock::Superblock,
    units::Sector,
    verify::{self, VerifyContext},
};

use crate::{error::Result, mount::MountOptions};

/// A mounted file system.
#[derive(Debug)]
pub struct FileSystem {
    device: Arc<dyn BlockDevice>,
    geometry: Geometry,
    superblock: Superblock,
    options: MountOptions,
}

/// Verified metadata, one or several blocks of it.
#[derive(Debug, Clone)]
pub struct MetadataBuffer {
    bytes: Arc<[u8]>,
    sector: Sector,
}

impl MetadataBuffer {
    /// First sector of the (first piece of the) buffer.
    pub fn sector(&self) -> Sector {
        self.sector
    }
}

impl std::ops::Deref for MetadataBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl FileSystem {
    pub(crate) fn new(
        device: Arc<dyn BlockDevice>,
        geometry: Geometry,
        superblock: Superblock,
        options: MountOptions,
    ) -> Self {
        Self { device, geometry, superblock, options }
    }

    /// Sizes and address conversions.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The primary superblock as it was at mount.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// How it was mounted.
    pub fn options(&self) -> MountOptions {
        self.options
    }

    /// Reads metadata that lies in one piece and verifies it as `structure`.
    ///
    /// # Errors
    /// The device failed or the bytes are damaged.
    pub fn read_metadata(
        &self,
        structure: Structure,
        sector: Sector,
        length_bytes: u32,
    ) -> Result<MetadataBuffer> {
        self.read_metadata_pieces(structure, &[(sector, length_bytes)])
    }

    /// Reads metadata that lies in several pieces (a directory block over several extents) as one buffer.
    ///
    /// # Errors
    /// As [`read_metadata`](Self::read_metadata).
    pub fn read_metadata_pieces(
        &self,
        structure: Structure,
        pieces: &[(Sector, u32)],
    ) -> Result<MetadataBuffer> {
        let length: usize = pieces.iter().map(|(_, length_bytes)| *length_bytes as usize).sum();
        let mut bytes = vec![0; length];
        let mut rest = bytes.as_mut_slice();
        for (sector, length_bytes) in pieces {
            let (piece, after) = rest.split_at_mut(*length_bytes as usize);
            self.device.read(Geometry::byte_of_sector(*sector), piece)?;
            rest = after;
        }
        let sector = pieces.first().map_or(Sector::NULL, |(sector, _)| *sector);
        let context = VerifyContext { geometry: &self.geometry, sector };
        verify::verify(structure, &bytes, &context)
            .map_err(|fault| Corruption::new(structure, Location::at_sector(sector), fault))?;
        Ok(MetadataBuffer { bytes: bytes.into(), sector })
    }
}

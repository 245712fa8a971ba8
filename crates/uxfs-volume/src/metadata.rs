//! What the buffer cache is told about XFS: how to verify a buffer.

use uxfs_block::cache::{BufferVerifier, Piece};
use uxfs_format::{
    fault::{Corruption, Location, Structure},
    geometry::Geometry,
    seal::seal,
    units::{SECTOR_SIZE_BYTES, Sector},
    verify::{self, VerifyContext},
};

/// Lets the cache verify metadata, and says where it is damaged.
#[derive(Debug, Clone, Copy)]
pub struct StructureVerifier<'a> {
    /// What the bytes are to be.
    pub structure: Structure,
    /// Of which file system.
    pub geometry: &'a Geometry,
}

impl BufferVerifier for StructureVerifier<'_> {
    type Error = Box<Corruption>;

    #[inline]
    fn kind(&self) -> u16 {
        self.structure as u16
    }

    fn verify(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), Box<Corruption>> {
        verify_at(self.structure, bytes, offset_bytes, self.geometry)
    }

    fn seal(&self, bytes: &mut [u8]) {
        seal(bytes, None, self.geometry);
    }
}

/// Verifies bytes that lie at a place of the device as `structure`.
///
/// # Errors
/// What the verifier of the structure says against them.
pub fn verify_at(
    structure: Structure,
    bytes: &[u8],
    offset_bytes: u64,
    geometry: &Geometry,
) -> Result<(), Box<Corruption>> {
    let sector = sector_of_byte(offset_bytes);
    let context = VerifyContext { geometry, sector };
    verify::verify(structure, bytes, &context)
        .map_err(|fault| Box::new(Corruption::new(structure, Location::at_sector(sector), fault)))
}

/// The sector that a byte of the device lies in.
pub fn sector_of_byte(offset_bytes: u64) -> Sector {
    Sector::new(offset_bytes / SECTOR_SIZE_BYTES)
}

/// A run of bytes as the cache names it.
pub fn piece((sector, length_bytes): (Sector, u32)) -> Piece {
    Piece { offset_bytes: Geometry::byte_of_sector(sector), length_bytes }
}

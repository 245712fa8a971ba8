//! How changed metadata is made fit to be written.

use uxfs_block::{cache::BufferSealer, device::DeviceError};
use uxfs_format::{
    edit::{DIRTY_RUN_BYTES, DirtyMap},
    fault::{Corruption, HeaderFault, Location, Structure},
    geometry::Geometry,
    seal::{seal, structure_of},
    units::Lsn,
};
pub use uxfs_volume::metadata::{NewestLsn, StructureVerifier, piece, sector_of_byte};
use uxfs_volume::metadata::{verify_at, verify_changes_at};

use crate::{error::JournalError, journal::items::inode::InodeChange};

/// Stamps the log sequence number and the checksum into changed metadata, and verifies it before it is written.
#[derive(Debug, Clone, Copy)]
pub struct StructureSealer<'a> {
    /// Of which file system.
    pub geometry: &'a Geometry,
    /// The number that says which checkpoint the bytes are from; `None` leaves what is there.
    pub lsn: Option<Lsn>,
}

impl BufferSealer for StructureSealer<'_> {
    type Error = Box<Corruption>;

    fn seal(&self, bytes: &mut [u8], offset_bytes: u64, changes: &DirtyMap) -> Result<(), Box<Corruption>> {
        let structure = match structure_of(bytes, self.geometry) {
            Some(Structure::InodeCluster) => {
                self.seal_cluster(bytes, changes);
                Some(Structure::InodeCluster)
            }
            _ => seal(bytes, self.lsn, self.geometry),
        };
        match structure {
            Some(structure) => verify_at(structure, bytes, offset_bytes, self.geometry),
            None => Err(unknown_structure(bytes, offset_bytes)),
        }
    }
}

impl StructureSealer<'_> {
    /// Verifies the `changes` of a buffer all of which was verified before, without sealing it.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify_changes(
        &self,
        bytes: &[u8],
        offset_bytes: u64,
        changes: &DirtyMap,
    ) -> Result<(), Box<Corruption>> {
        match structure_of(bytes, self.geometry) {
            Some(structure) => verify_changes_at(structure, bytes, offset_bytes, self.geometry, changes),
            None => Err(unknown_structure(bytes, offset_bytes)),
        }
    }

    /// Only inodes that have changed are touched: one that is damaged must not get a checksum that is right because its
    /// neighbour has changed. Changes are marked in an inode's first four runs, of new ones anywhere.
    fn seal_cluster(&self, bytes: &mut [u8], changes: &DirtyMap) {
        let size = self.geometry.inode_size().max(1);
        for (first, inode) in (0_u32..).step_by(size).zip(bytes.chunks_exact_mut(size)) {
            let run = first / DIRTY_RUN_BYTES;
            if (run..run + InodeChange::COUNT).any(|run| changes.is_dirty(run)) {
                seal(inode, self.lsn, self.geometry);
            }
        }
    }
}

#[cold]
fn unknown_structure(bytes: &[u8], offset_bytes: u64) -> Box<Corruption> {
    let found = bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let location = Location::at_sector(sector_of_byte(offset_bytes));
    let fault = HeaderFault::BadMagic { found, expected: 0 };
    Box::new(Corruption::new(Structure::Superblock, location, fault))
}

impl From<uxfs_block::cache::ReadError<Box<Corruption>>> for JournalError {
    fn from(error: uxfs_block::cache::ReadError<Box<Corruption>>) -> Self {
        match error {
            uxfs_block::cache::ReadError::Device(error) => Self::Io(error),
            uxfs_block::cache::ReadError::Verify(corruption) => Self::Corrupt(corruption),
        }
    }
}

/// The result of what can only fail because of the device.
pub type DeviceResult<T> = Result<T, DeviceError>;

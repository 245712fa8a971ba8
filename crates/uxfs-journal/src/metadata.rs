//! What the buffer cache is told about XFS: how to judge a buffer, and how to make a changed one fit to be written.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

use uxfs_block::{
    cache::{BufferSealer, BufferVerifier, Piece},
    device::DeviceError,
};
use uxfs_format::{
    edit::{DIRTY_RUN_BYTES, DirtyMap},
    fault::{Corruption, HeaderFault, Location, Structure},
    geometry::Geometry,
    seal::{lsn_ahead_of, seal, structure_of},
    units::{Lsn, SECTOR_SIZE_BYTES, Sector},
    verify::{self, VerifyContext},
};

use crate::{error::JournalError, journal::items::inode::InodeChange};

/// Where the log ends, of a file system that is open for changes: no metadata has a log sequence number ahead of it. What had one
/// would be taken by recovery for newer than changes that were made to it later, and those would be lost.
#[derive(Debug)]
pub struct NewestLsn(AtomicU64);

impl Default for NewestLsn {
    fn default() -> Self {
        Self(AtomicU64::new(Lsn::NULL.get()))
    }
}

impl NewestLsn {
    /// `None` while there is no log that anything could be compared with: the file system is only read, or filled.
    pub fn get(&self) -> Option<Lsn> {
        Some(Lsn::new(self.0.load(Acquire))).filter(|lsn| *lsn != Lsn::NULL)
    }

    /// The log has been written up to here.
    pub fn set(&self, head: Lsn) {
        self.0.store(head.get(), Release);
    }

    /// That `bytes`, verified metadata, are not from behind the end of the log.
    ///
    /// # Errors
    /// They are.
    #[doc(alias = "xfs_log_check_lsn")]
    pub fn check(
        &self,
        structure: Structure,
        bytes: &[u8],
        sector: Sector,
        geometry: &Geometry,
    ) -> Result<(), Box<Corruption>> {
        let Some(head) = self.get() else { return Ok(()) };
        let Some(found) = lsn_ahead_of(head, structure, bytes, geometry) else { return Ok(()) };
        let fault = HeaderFault::AheadOfLog { found, head };
        Err(Box::new(Corruption::new(structure, Location::at_sector(sector), fault)))
    }
}

/// Lets the cache verify metadata, and says where it is damaged.
#[derive(Debug, Clone, Copy)]
pub struct StructureVerifier<'a> {
    /// What the bytes are to be.
    pub structure: Structure,
    /// Of which file system.
    pub geometry: &'a Geometry,
    /// Where its log ends; `None` where nothing is logged.
    pub newest: Option<&'a NewestLsn>,
}

impl BufferVerifier for StructureVerifier<'_> {
    type Error = Box<Corruption>;

    #[inline]
    fn kind(&self) -> u16 {
        self.structure as u16
    }

    fn verify(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), Box<Corruption>> {
        verify_at(self.structure, bytes, offset_bytes, self.geometry)?;
        let Some(newest) = self.newest else { return Ok(()) };
        newest.check(self.structure, bytes, sector_of_byte(offset_bytes), self.geometry)
    }

    fn seal(&self, bytes: &mut [u8]) {
        seal(bytes, None, self.geometry);
    }
}

/// Stamps log sequence number and checksum into changed metadata, and judges it a last time before it is written.
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
            None => {
                let found = bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                let location = Location::at_sector(sector_of_byte(offset_bytes));
                let fault = HeaderFault::BadMagic { found, expected: 0 };
                Err(Box::new(Corruption::new(Structure::Superblock, location, fault)))
            }
        }
    }
}

impl StructureSealer<'_> {
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

fn verify_at(
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

impl From<uxfs_block::cache::ReadError<Box<Corruption>>> for JournalError {
    fn from(error: uxfs_block::cache::ReadError<Box<Corruption>>) -> Self {
        match error {
            uxfs_block::cache::ReadError::Device(error) => Self::Io(error),
            uxfs_block::cache::ReadError::Verify(corruption) => Self::Corrupt(corruption),
        }
    }
}

/// The sector that a byte of the device lies in.
pub fn sector_of_byte(offset_bytes: u64) -> Sector {
    Sector::new(offset_bytes / SECTOR_SIZE_BYTES)
}

/// A run of bytes as the cache names it.
pub fn piece((sector, length_bytes): (Sector, u32)) -> Piece {
    Piece { offset_bytes: Geometry::byte_of_sector(sector), length_bytes }
}

/// The result of what can only fail because of the device.
pub type DeviceResult<T> = Result<T, DeviceError>;

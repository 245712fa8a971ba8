//! The verifiers that the buffer cache calls.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
};

use uxfs_block::cache::{BufferVerifier, Piece};
use uxfs_format::{
    edit::DirtyMap,
    fault::{Corruption, HeaderFault, Location, Structure},
    geometry::Geometry,
    seal::{lsn_ahead_of, seal},
    units::{AgNumber, InodeNumber, Lsn, SECTOR_SIZE_BYTES, Sector},
    verify::{self, VerifyContext},
};

/// Where the log ends, of a file system that is open for changes: no metadata has a log sequence number ahead of it. What had one
/// would be taken by recovery for newer than changes that were made to it later, and those would be lost.
///
/// A check also compares what is read with its last change in the log: see [`compare_with`](Self::compare_with).
pub struct NewestLsn {
    newest: AtomicU64,
    comparison: OnceLock<Arc<dyn CompareMetadata>>,
}

impl Default for NewestLsn {
    fn default() -> Self {
        Self { newest: AtomicU64::new(Lsn::NULL.get()), comparison: OnceLock::new() }
    }
}

impl fmt::Debug for NewestLsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NewestLsn").field(&self.get()).finish()
    }
}

impl NewestLsn {
    /// `None` while there is no log that anything could be compared with: the file system is only read, or filled.
    pub fn get(&self) -> Option<Lsn> {
        Some(Lsn::new(self.newest.load(Acquire))).filter(|lsn| *lsn != Lsn::NULL)
    }

    /// The log has been written up to here.
    pub fn set(&self, head: Lsn) {
        self.newest.store(head.get(), Release);
    }

    /// From now on metadata that is read from the device is compared. Only the first call of this has an effect.
    pub fn compare_with(&self, comparison: Arc<dyn CompareMetadata>) {
        let _ = self.comparison.set(comparison);
    }

    /// What metadata is compared by.
    pub fn comparison(&self) -> Option<&dyn CompareMetadata> {
        self.comparison.get().map(Arc::as_ref)
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
        if let Some(comparison) = self.comparison() {
            comparison.compare(structure, bytes, sector, geometry);
        }
        let Some(head) = self.get() else { return Ok(()) };
        let Some(found) = lsn_ahead_of(head, structure, bytes, geometry) else { return Ok(()) };
        let fault = HeaderFault::AheadOfLog { found, head };
        Err(Box::new(Corruption::new(structure, Location::at_sector(sector), fault)))
    }
}

/// Owner of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataOwner {
    /// The inode that it is, or whose it is.
    Inode(InodeNumber),
    /// A header or a btree block of an allocation group.
    Group(AgNumber),
}

/// Metadata that is older than its last change in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OlderMetadata {
    /// What it is.
    pub structure: Structure,
    /// Its owner.
    pub owner: MetadataOwner,
    /// Where it begins; of an inode, where the inode begins.
    pub sector: Sector,
    /// Its log sequence number.
    pub found: Lsn,
    /// That of its last change.
    pub logged: Lsn,
}

/// An inode that says something else than its last change in the log, under the same log sequence number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContradictedInode {
    /// The inode.
    pub inode: InodeNumber,
    /// What differs, in words.
    pub facts: Vec<&'static str>,
}

/// Compares metadata with what is known of its last change. Blocks are shown once they have passed their verifier, and again
/// after the cache gave them up.
pub trait CompareMetadata: Send + Sync {
    /// The bytes of a structure that begins at `sector`, and its log sequence number.
    fn compare(&self, structure: Structure, bytes: &[u8], sector: Sector, geometry: &Geometry);

    /// All that was older, each once.
    fn take_older(&self) -> Vec<OlderMetadata>;

    /// All inodes that the log contradicts, each once.
    fn take_contradicted(&self) -> Vec<ContradictedInode>;
}

/// Lets the cache verify metadata, and says where it is damaged.
#[derive(Debug, Clone, Copy)]
pub struct StructureVerifier<'a> {
    /// The structure that the buffer must hold.
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

/// Verifies bytes that lie at a place of the device as `structure`.
///
/// # Errors
/// Verifies the bytes of a structure.
pub fn verify_at(
    structure: Structure,
    bytes: &[u8],
    offset_bytes: u64,
    geometry: &Geometry,
) -> Result<(), Box<Corruption>> {
    verify_in(structure, bytes, &VerifyContext::new(geometry, sector_of_byte(offset_bytes)))
}

/// Verifies what `changes` marks in a block all of which was verified before; its checksum is not set yet.
///
/// # Errors
/// The first check that fails.
pub fn verify_changes_at(
    structure: Structure,
    bytes: &[u8],
    offset_bytes: u64,
    geometry: &Geometry,
    changes: &DirtyMap,
) -> Result<(), Box<Corruption>> {
    verify_in(structure, bytes, &VerifyContext::of_changes(geometry, sector_of_byte(offset_bytes), changes))
}

fn verify_in(structure: Structure, bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), Box<Corruption>> {
    verify::verify(structure, bytes, context)
        .map_err(|fault| Box::new(Corruption::new(structure, Location::at_sector(context.sector), fault)))
}

/// The sector that a byte of the device lies in.
pub fn sector_of_byte(offset_bytes: u64) -> Sector {
    Sector::new(offset_bytes / SECTOR_SIZE_BYTES)
}

/// A run of bytes as the cache names it.
pub fn piece((sector, length_bytes): (Sector, u32)) -> Piece {
    Piece { offset_bytes: Geometry::byte_of_sector(sector), length_bytes }
}

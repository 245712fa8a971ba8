//! Verifies changed metadata before it is logged.
//!
//! A buffer is verified when it is read and when it is written back. Between the two an edit may carry a wrong number from
//! one structure into another, on an image that lies with right checksums. If such a buffer were logged, its checkpoint
//! could not be replayed, and the image could no longer be changed. So every buffer of a checkpoint is verified before the
//! record that commits the checkpoint is written: a fault shuts the journal down, recovery discards the whole checkpoint,
//! and the image stays as the last stable checkpoint left it.
//!
//! To be verified, a buffer is sealed with the checkpoint's log sequence number. If the newest version is sealed in the cache,
//! write-back need not seal and verify it again. A buffer with changes of an older checkpoint that are not written back will
//! change again soon, where each new file is followed by an fsync: of it only the changes are verified, and it is not sealed.

use uxfs_block::cache::{
    BufferSealer,
    logged::{SealableBytes, TakenBytes},
};
use uxfs_format::{fault::Corruption, geometry::Geometry, units::Lsn};

use crate::metadata::StructureSealer;

/// Seals and verifies the buffers of one checkpoint.
#[derive(Debug)]
pub(super) struct ChangeVerifier<'j> {
    geometry: &'j Geometry,
    /// Where the checkpoint begins.
    lsn: Lsn,
    /// Memory for buffers that must not be sealed in the cache; kept between checkpoints.
    copy: Vec<u8>,
}

impl<'j> ChangeVerifier<'j> {
    pub fn new(geometry: &'j Geometry, lsn: Lsn, copy: Vec<u8>) -> Self {
        Self { geometry, lsn, copy }
    }

    /// Verifies one buffer as its checkpoint left it.
    ///
    /// # Errors
    /// The fault that write-back would find in the buffer.
    pub fn verify(&mut self, taken: TakenBytes<'_>) -> Result<(), Box<Corruption>> {
        let sealer = StructureSealer { geometry: self.geometry, lsn: Some(self.lsn) };
        let bytes = match taken.bytes {
            SealableBytes::ChangedAgain(bytes) => {
                return sealer.verify_changes(bytes, taken.offset_bytes, &taken.changes);
            }
            SealableBytes::InCache(bytes) => bytes,
            SealableBytes::InCopy(bytes) => {
                self.copy.clear();
                self.copy.extend_from_slice(bytes);
                &mut self.copy
            }
        };
        sealer.seal(bytes, taken.offset_bytes, &taken.changes)
    }

    /// Gives the memory back for the next checkpoint.
    pub fn into_memory(self) -> Vec<u8> {
        self.copy
    }
}

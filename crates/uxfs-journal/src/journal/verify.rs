//! Verifies changed metadata before it is logged.
//!
//! A buffer is verified when it is read and when it is written back. Between the two an edit may carry a wrong number from
//! one structure into another, on an image that lies with right checksums. If such a buffer were logged, its checkpoint
//! could not be replayed, and the image could no longer be changed. So every buffer of a checkpoint is verified before the
//! record that commits the checkpoint is written: a fault shuts the journal down, recovery discards the whole checkpoint,
//! and the image stays as the last stable checkpoint left it. What was verified so is not verified again when it is written
//! back; buffers that are written without being logged are verified then.

use uxfs_block::cache::{BufferSealer, logged::LoggedChange};
use uxfs_format::{fault::Corruption, geometry::Geometry};

use crate::metadata::StructureSealer;

/// Verifies changes in a copy, because the checksum of a cached buffer is stale until the buffer is written back.
#[derive(Debug)]
pub(super) struct ChangeVerifier<'j> {
    geometry: &'j Geometry,
    /// Memory for the copy; kept between checkpoints.
    copy: Vec<u8>,
}

impl<'j> ChangeVerifier<'j> {
    pub fn new(geometry: &'j Geometry, copy: Vec<u8>) -> Self {
        Self { geometry, copy }
    }

    /// Verifies one buffer as its checkpoint left it.
    ///
    /// # Errors
    /// The fault that write-back would find in the buffer.
    pub fn verify(&mut self, change: &LoggedChange<'_>) -> Result<(), Box<Corruption>> {
        let offset_bytes = change.pieces.first().map_or(0, |piece| piece.offset_bytes);
        self.copy.clear();
        self.copy.extend_from_slice(change.bytes);
        let sealer = StructureSealer { geometry: self.geometry, lsn: None, is_verified: false };
        sealer.seal(&mut self.copy, offset_bytes, &change.changes)
    }

    /// Gives the memory back for the next checkpoint.
    pub fn into_memory(self) -> Vec<u8> {
        self.copy
    }
}

//! The buffers that a transaction changes.
//!
//! [`TransactionBuffers`] is the only way by which metadata buffers are changed. It hands out buffers to edit, which
//! remember the ranges that change; a logged transaction formats exactly those ranges into the journal when it
//! commits. In bulk mode (an image that no one can see before it is finished) nothing is recorded.

use uxfs_block::cache::{Cache, EditBuffer, Piece};
use uxfs_format::{fault::Structure, geometry::Geometry, units::Sector};

use crate::{
    error::Result,
    metadata::{StructureVerifier, piece},
};

/// How changes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Not at all before the end: nothing is logged, buffers go home whenever memory is wanted, and until the last
    /// write the image says that it is unfinished.
    Bulk,
}

/// The buffers that one transaction changes.
#[derive(Debug)]
pub struct TransactionBuffers<'fs> {
    cache: &'fs Cache,
    geometry: &'fs Geometry,
    mode: Mode,
}

impl<'fs> TransactionBuffers<'fs> {
    /// Of a new transaction.
    pub fn new(cache: &'fs Cache, geometry: &'fs Geometry, mode: Mode) -> Self {
        Self { cache, geometry, mode }
    }

    /// How changes become durable.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sizes of the file system.
    pub fn geometry(&self) -> &'fs Geometry {
        self.geometry
    }

    /// Metadata in one piece, to be changed: verified as `structure`.
    ///
    /// # Errors
    /// The device failed or the bytes are damaged.
    #[inline]
    pub fn edit(&mut self, structure: Structure, sector: Sector, length_bytes: u32) -> Result<EditBuffer> {
        let verifier = StructureVerifier { structure, geometry: self.geometry };
        Ok(self.cache.edit(&[piece((sector, length_bytes))], &verifier)?)
    }

    /// Metadata in several pieces (a directory block over several extents) as one buffer, to be changed.
    ///
    /// # Errors
    /// As [`edit`](Self::edit).
    pub fn edit_pieces(&mut self, structure: Structure, pieces: &[(Sector, u32)]) -> Result<EditBuffer> {
        if let [(sector, length_bytes)] = pieces {
            return self.edit(structure, *sector, *length_bytes);
        }
        let pieces: Vec<Piece> = pieces.iter().copied().map(piece).collect();
        let verifier = StructureVerifier { structure, geometry: self.geometry };
        Ok(self.cache.edit(&pieces, &verifier)?)
    }

    /// New metadata: zeros, whatever lies on the device.
    ///
    /// # Errors
    /// No such place on the device; no memory.
    pub fn create(&mut self, structure: Structure, sector: Sector, length_bytes: u32) -> Result<EditBuffer> {
        Ok(self.cache.create(&[piece((sector, length_bytes))], structure as u16)?)
    }

    /// New metadata in several pieces.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_pieces(&mut self, structure: Structure, pieces: &[(Sector, u32)]) -> Result<EditBuffer> {
        let pieces: Vec<Piece> = pieces.iter().copied().map(piece).collect();
        Ok(self.cache.create(&pieces, structure as u16)?)
    }

    /// Says that a buffer has turned into another structure (a directory's only block into its first data block).
    pub fn convert(&mut self, buffer: &mut EditBuffer, structure: Structure) {
        buffer.set_kind(structure as u16);
    }

    /// Metadata that has been freed: what is in memory must never be written over what comes to lie there.
    pub fn invalidate(&mut self, pieces: &[(Sector, u32)]) {
        match pieces {
            [one] => self.cache.invalidate(&[piece(*one)]),
            _ => {
                let pieces: Vec<Piece> = pieces.iter().copied().map(piece).collect();
                self.cache.invalidate(&pieces);
            }
        }
    }
}

//! The buffers that a transaction changes.
//!
//! [`TransactionBuffers`] is the only way by which metadata buffers are changed. It hands out buffers to edit, which
//! remember the ranges that change; of a logged transaction exactly those ranges go into the journal. In bulk mode (an
//! image that no one can see before it is finished) nothing is recorded.

use uxfs_block::{
    cache::{Cache, EditBuffer, Piece},
    self_check,
};
use uxfs_format::{fault::Structure, geometry::Geometry, units::Sector};

use crate::{
    error::Result,
    journal::{Ticket, items::buffer::is_ordered},
    metadata::{NewestLsn, StructureVerifier, piece},
};

/// The recording of the ranges that change.
#[derive(Debug)]
enum Recording<'fs> {
    /// Bulk mode: nothing is logged. Buffers are written back whenever memory is wanted, and until the last write the image
    /// says that it is unfinished. Metadata ahead of `newest` is refused, where there is a log that goes on.
    Nothing { newest: &'fs NewestLsn },
    /// They go into the checkpoint of this ticket.
    Logged(Ticket<'fs>),
    /// Logged mode, before a step of the transaction has begun or after it has committed: nothing may be changed.
    Closed,
}

/// The buffers that one transaction changes.
#[derive(Debug)]
pub struct TransactionBuffers<'fs> {
    cache: &'fs Cache,
    geometry: &'fs Geometry,
    recording: Recording<'fs>,
}

impl<'fs> TransactionBuffers<'fs> {
    /// Of a transaction in bulk mode. `newest`: where the log ends, if that is known.
    pub fn bulk(cache: &'fs Cache, geometry: &'fs Geometry, newest: &'fs NewestLsn) -> Self {
        Self { cache, geometry, recording: Recording::Nothing { newest } }
    }

    /// Of a transaction through the log, before [`set_ticket`](Self::set_ticket).
    pub fn logged(cache: &'fs Cache, geometry: &'fs Geometry) -> Self {
        Self { cache, geometry, recording: Recording::Closed }
    }

    /// Sizes of the file system.
    pub fn geometry(&self) -> &'fs Geometry {
        self.geometry
    }

    /// The place in the journal; `None` in bulk mode.
    pub fn ticket(&mut self) -> Option<&mut Ticket<'fs>> {
        match &mut self.recording {
            Recording::Logged(ticket) => Some(ticket),
            Recording::Nothing { .. } | Recording::Closed => None,
        }
    }

    /// Whether anything was changed, in logged mode, that a checkpoint would hold.
    pub fn have_changed(&self) -> bool {
        matches!(&self.recording, Recording::Logged(ticket) if ticket.has_changed())
    }

    /// Takes the place in the journal away, to commit it.
    pub fn take_ticket(&mut self) -> Option<Ticket<'fs>> {
        match std::mem::replace(&mut self.recording, Recording::Closed) {
            Recording::Logged(ticket) => Some(ticket),
            other => {
                self.recording = other;
                None
            }
        }
    }

    /// A place in the journal for the next step.
    pub fn set_ticket(&mut self, ticket: Ticket<'fs>) {
        self.recording = Recording::Logged(ticket);
    }

    /// Metadata in one piece, to be changed: verified as `structure`.
    ///
    /// # Errors
    /// The device failed or the bytes are damaged.
    #[inline]
    pub fn edit(&mut self, structure: Structure, sector: Sector, length_bytes: u32) -> Result<EditBuffer> {
        self.edit_cached(structure, &[piece((sector, length_bytes))])
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
        self.edit_cached(structure, &pieces)
    }

    #[inline]
    fn edit_cached(&self, structure: Structure, pieces: &[Piece]) -> Result<EditBuffer> {
        let Recording::Logged(ticket) = &self.recording else {
            self.assert_open();
            let newest = match &self.recording {
                Recording::Nothing { newest } => Some(*newest),
                _ => None,
            };
            let verifier = StructureVerifier { structure, geometry: self.geometry, newest };
            return Ok(self.cache.edit(pieces, &verifier)?);
        };
        let newest = Some(ticket.journal().newest());
        let verifier = StructureVerifier { structure, geometry: self.geometry, newest };
        let mut buffer = self.cache.edit_logged(pieces, &verifier, ticket.edits())?;
        if structure == Structure::InodeCluster {
            // The code that marks an inode reserves what that takes.
            buffer.set_run_log_bytes(0);
        }
        Ok(buffer)
    }

    /// New metadata: zeros, whatever lies on the device.
    ///
    /// # Errors
    /// No such place on the device; no memory.
    pub fn create(&mut self, structure: Structure, sector: Sector, length_bytes: u32) -> Result<EditBuffer> {
        self.create_cached(structure, &[piece((sector, length_bytes))])
    }

    /// New metadata in several pieces.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_pieces(&mut self, structure: Structure, pieces: &[(Sector, u32)]) -> Result<EditBuffer> {
        let pieces: Vec<Piece> = pieces.iter().copied().map(piece).collect();
        self.create_cached(structure, &pieces)
    }

    /// A change that is made while nothing may be changed would be in no checkpoint.
    #[inline]
    fn assert_open(&self) {
        self_check!(
            !matches!(self.recording, Recording::Closed),
            "a change after the commit is in no checkpoint"
        );
    }

    fn create_cached(&mut self, structure: Structure, pieces: &[Piece]) -> Result<EditBuffer> {
        let Recording::Logged(ticket) = &mut self.recording else {
            self.assert_open();
            return Ok(self.cache.create(pieces, structure as u16)?);
        };
        let journal = ticket.journal();
        let hold = |sequence| journal.hold(sequence);
        let (mut buffer, held) = self.cache.create_logged(pieces, structure as u16, ticket.edits(), &hold)?;
        ticket.release_later(held);
        pieces.iter().for_each(|piece| ticket.created(*piece));
        if is_ordered(structure) {
            buffer.set_run_log_bytes(0);
        }
        Ok(buffer)
    }

    /// Says that a buffer has turned into another structure (a directory's only block into its first data block).
    pub fn convert(&mut self, buffer: &mut EditBuffer, structure: Structure) {
        buffer.set_kind(structure as u16);
    }

    /// Metadata that has been freed: what is in memory must never be written over what comes to lie there, and what is in
    /// the log must never be replayed over it.
    pub fn invalidate(&mut self, pieces: &[(Sector, u32)]) {
        match pieces {
            [one] => self.invalidate_cached(&[piece(*one)]),
            _ => {
                let pieces: Vec<Piece> = pieces.iter().copied().map(piece).collect();
                self.invalidate_cached(&pieces);
            }
        }
    }

    /// As [`invalidate`](Self::invalidate), for what is written without being logged (values of attributes): there is
    /// nothing in the log that could be replayed over it.
    pub fn forget(&mut self, extent: (Sector, u32)) {
        self.drop_cached(&[piece(extent)]);
    }

    fn invalidate_cached(&mut self, pieces: &[Piece]) {
        self.drop_cached(pieces);
        if let Recording::Logged(ticket) = &mut self.recording {
            pieces.iter().for_each(|piece| ticket.cancel(*piece));
        }
    }

    fn drop_cached(&mut self, pieces: &[Piece]) {
        match &mut self.recording {
            Recording::Nothing { .. } | Recording::Closed => self.cache.invalidate(pieces),
            Recording::Logged(ticket) => {
                let journal = ticket.journal();
                let hold = |sequence| journal.hold(sequence);
                let held = self.cache.invalidate_logged(pieces, ticket.sequence(), &hold);
                ticket.release_later(held);
            }
        }
    }
}

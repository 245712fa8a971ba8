//! The buffers that a transaction changes.
//!
//! [`TransactionBuffers`] is the only way by which metadata buffers are changed. It hands out buffers to edit, which
//! remember the ranges that change; of a logged transaction exactly those ranges go into the journal. In bulk mode (an
//! image that no one can see before it is finished) nothing is recorded.

use uxfs_block::cache::{Cache, EditBuffer, Piece};
use uxfs_format::{fault::Structure, geometry::Geometry, units::Sector};

use crate::{
    error::Result,
    journal::{Ticket, items::buffer::is_ordered},
    metadata::{StructureVerifier, piece},
};

/// How changes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Not at all before the end: nothing is logged, buffers go home whenever memory is wanted, and until the last
    /// write the image says that it is unfinished.
    Bulk,
    /// Transactions gather in memory; one checkpoint writes many to the log.
    #[doc(alias = "delaylog")]
    Delayed,
    /// Every step of every transaction is a checkpoint of its own, and stable when it has ended: to compare with, and to
    /// have every intent in the log.
    Immediate,
}

impl Mode {
    /// Whether changes go through the log.
    pub fn is_logged(self) -> bool {
        self != Self::Bulk
    }
}

/// The buffers that one transaction changes.
#[derive(Debug)]
pub struct TransactionBuffers<'fs> {
    cache: &'fs Cache,
    geometry: &'fs Geometry,
    mode: Mode,
    /// Only in logged mode, and there as long as something may be changed.
    ticket: Option<Ticket<'fs>>,
}

impl<'fs> TransactionBuffers<'fs> {
    /// Of a new transaction. `ticket` is for logged mode.
    pub fn new(cache: &'fs Cache, geometry: &'fs Geometry, mode: Mode, ticket: Option<Ticket<'fs>>) -> Self {
        Self { cache, geometry, mode, ticket }
    }

    /// How changes become durable.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sizes of the file system.
    pub fn geometry(&self) -> &'fs Geometry {
        self.geometry
    }

    /// The place in the journal, in logged mode.
    pub fn ticket(&mut self) -> Option<&mut Ticket<'fs>> {
        self.ticket.as_mut()
    }

    /// Whether anything was changed, in logged mode, that a checkpoint would hold.
    pub fn have_changed(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::has_changed)
    }

    /// Takes the place in the journal away, to commit it.
    pub fn take_ticket(&mut self) -> Option<Ticket<'fs>> {
        self.ticket.take()
    }

    /// A place in the journal for the next step.
    pub fn set_ticket(&mut self, ticket: Ticket<'fs>) {
        self.ticket = Some(ticket);
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
        let newest = self.ticket.as_ref().map(|ticket| ticket.journal().newest());
        let verifier = StructureVerifier { structure, geometry: self.geometry, newest };
        let Some(ticket) = &self.ticket else {
            debug_assert!(!self.mode.is_logged(), "what is changed after the commit is in no checkpoint");
            return Ok(self.cache.edit(pieces, &verifier)?);
        };
        let mut buffer = self.cache.edit_logged(pieces, &verifier, ticket.edits())?;
        if structure == Structure::InodeCluster {
            // Who marks an inode reserves what that takes.
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

    fn create_cached(&mut self, structure: Structure, pieces: &[Piece]) -> Result<EditBuffer> {
        let Some(ticket) = &mut self.ticket else {
            debug_assert!(!self.mode.is_logged(), "what is made after the commit is in no checkpoint");
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
        if let Some(ticket) = &mut self.ticket {
            pieces.iter().for_each(|piece| ticket.cancel(*piece));
        }
    }

    fn drop_cached(&mut self, pieces: &[Piece]) {
        match &mut self.ticket {
            None => self.cache.invalidate(pieces),
            Some(ticket) => {
                let journal = ticket.journal();
                let hold = |sequence| journal.hold(sequence);
                let held = self.cache.invalidate_logged(pieces, ticket.sequence(), &hold);
                ticket.release_later(held);
            }
        }
    }
}

//! The context of a verifier beside the bytes.

use crate::{
    checksum::{self, Mismatch},
    convert::low_u32,
    convert::to_u64,
    edit::{DIRTY_RUN_BYTES, DirtyMap},
    geometry::Geometry,
    units::Sector,
};

/// The context of a verifier: the geometry, where the block lies, and how much of it is verified.
#[derive(Debug, Clone, Copy)]
pub struct VerifyContext<'a> {
    /// The file system's sizes, uuid and features.
    pub geometry: &'a Geometry,
    /// First sector from which the bytes were read: blocks say where they belong.
    pub sector: Sector,
    /// What changed since the whole block was verified; `None` where the whole block is verified, with its checksum.
    changes: Option<&'a DirtyMap>,
}

impl<'a> VerifyContext<'a> {
    /// To verify a whole block.
    pub const fn new(geometry: &'a Geometry, sector: Sector) -> Self {
        Self { geometry, sector, changes: None }
    }

    /// To verify what `changes` marks in a block all of which was verified before. Its checksum is not set yet. A verifier may look
    /// at more.
    pub const fn of_changes(geometry: &'a Geometry, sector: Sector, changes: &'a DirtyMap) -> Self {
        Self { geometry, sector, changes: Some(changes) }
    }

    /// Compares the checksum of a block, if it is set.
    ///
    /// # Errors
    /// It is another.
    pub fn check_checksum(&self, bytes: &[u8], offset_bytes: u32) -> Result<(), Mismatch> {
        match self.changes {
            Some(_) => Ok(()),
            None => checksum::check(bytes, offset_bytes),
        }
    }

    /// Whether bytes of this range have to be verified.
    pub fn may_have_changed(&self, offset_bytes: usize, length_bytes: usize) -> bool {
        let Some(changes) = self.changes else { return true };
        let run = |byte: usize| low_u32(to_u64(byte)) / DIRTY_RUN_BYTES;
        let last = offset_bytes.saturating_add(length_bytes.saturating_sub(1));
        (run(offset_bytes)..=run(last)).any(|run| changes.is_dirty(run))
    }
}

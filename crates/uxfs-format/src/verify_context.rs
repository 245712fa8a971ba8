//! The context of a verifier beside the bytes.

use crate::{geometry::Geometry, units::Sector};

/// The context of a verifier: the geometry, and where the block lies.
#[derive(Debug, Clone, Copy)]
pub struct VerifyContext<'a> {
    /// The file system's sizes, uuid and features.
    pub geometry: &'a Geometry,
    /// First sector from which the bytes were read: blocks say where they belong.
    pub sector: Sector,
}

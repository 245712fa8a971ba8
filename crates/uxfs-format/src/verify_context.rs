//! What a verifier knows beside the bytes.

use crate::{geometry::Geometry, units::Sector};

/// What a verifier may know beside the bytes.
#[derive(Debug, Clone, Copy)]
pub struct VerifyContext<'a> {
    /// The file system's sizes, uuid and features.
    pub geometry: &'a Geometry,
    /// First sector from which the bytes were read: blocks say where they belong.
    pub sector: Sector,
}

//! How many extents one step of an operation changes.

/// Extents that one step of a long operation changes.
pub const STEP_EXTENTS: usize = 64;
/// Operations that touch no more extents are one step.
pub const ATOMIC_EXTENTS: usize = 256;

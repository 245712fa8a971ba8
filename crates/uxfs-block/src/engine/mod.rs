//! Implementations of [`BlockDevice`](crate::device::BlockDevice).

pub mod memory;
pub mod sync;

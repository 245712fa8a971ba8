//! The reverse map of a group: the owners of its blocks.
//!
//! | module | holds |
//! |---|---|
//! | [`change`] | which records a change takes away and what takes their place |
//! | [`group`] | owners in a group that is being changed |
//! | [`pending`] | new owners that are noted together |
//! | [`edit`] | finding them, with and without other owners of the same blocks |

pub mod change;
pub mod edit;
mod group;
mod pending;

pub use pending::PendingReverseMap;

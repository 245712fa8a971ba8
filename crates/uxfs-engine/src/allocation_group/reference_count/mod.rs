//! Shared extents of a group.
//!
//! | module | holds |
//! |---|---|
//! | [`group`] | counts in a group that is being changed |
//! | [`edit`] | counting owners; setting blocks aside for a copy-on-write |

pub mod edit;
mod group;

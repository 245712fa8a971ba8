//! The blocks of a group: each is free or used, and used as often as its reference count says.
//!
//! | module | holds |
//! |---|---|
//! | [`list`] | extents of some groups, gathered to be compared |
//! | [`edges`] | where extents begin and end, sorted within a bound of memory |
//! | [`compare`] | what exactly is wrong in groups whose sums are not zero |
//! | [`sweep`] | the extents of one group against each other |

pub(crate) mod compare;
pub(crate) mod edges;
pub(crate) mod list;
pub(crate) mod sweep;

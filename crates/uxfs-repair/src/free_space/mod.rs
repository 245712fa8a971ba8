//! Free space of an allocation group: two btrees that hold the same extents.

pub(crate) mod check;
pub(crate) mod rebuild;

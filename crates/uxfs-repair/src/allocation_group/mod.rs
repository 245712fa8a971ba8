//! The headers of an allocation group, and all structures that they lead to.

pub(crate) mod check;
pub(crate) mod rebuild;
pub(crate) mod sweep;

//! Patterns that names, paths and targets of links are compared with. All are about bytes, as in the C locale: names of an image have no
//! encoding.
//!
//! | module | holds |
//! |---|---|
//! | [`glob`] | shell patterns |
//! | [`regular`] | regular expressions in the syntaxes of POSIX and find |

pub mod glob;
pub mod regular;

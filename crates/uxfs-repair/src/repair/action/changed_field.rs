//! A field of an inode that gets another value.

use std::fmt;

/// A field that gets another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedField {
    /// Its name: owner, group, project, type, permissions, flags, flags2, generation or size.
    pub name: &'static str,
    /// Before.
    pub found: u64,
    /// Now.
    pub now: u64,
}

impl fmt::Display for ChangedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, found, now } = self;
        match *name {
            "type" | "permissions" => write!(f, "{name} {now:04o} instead of {found:04o}"),
            "flags" | "flags2" => write!(f, "{name} {now:#x} instead of {found:#x}"),
            _ => write!(f, "{name} {now} instead of {found}"),
        }
    }
}

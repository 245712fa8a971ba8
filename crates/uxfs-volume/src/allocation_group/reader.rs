//! Views of a volume that read its allocation groups.

use uxfs_format::units::AgNumber;

use crate::volume::Volume;

/// Reads one allocation group of a volume: headers, free space, inode chunks, owners and reference counts.
#[derive(Debug, Clone, Copy)]
pub struct GroupReader<'v> {
    pub(super) volume: &'v Volume,
    pub(super) group: AgNumber,
}

/// Reads the allocation groups of a volume where the caller names no group.
#[derive(Debug, Clone, Copy)]
pub struct GroupsReader<'v> {
    pub(super) volume: &'v Volume,
}

impl Volume {
    /// To read one allocation group. If the number is too large, each read returns an error.
    #[inline]
    pub fn group(&self, group: AgNumber) -> GroupReader<'_> {
        GroupReader { volume: self, group }
    }

    /// To read all allocation groups, or the one that an inode lies in.
    #[inline]
    pub fn groups(&self) -> GroupsReader<'_> {
        GroupsReader { volume: self }
    }
}

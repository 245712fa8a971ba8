//! Where a structure lies on the device.

use std::fmt;

use crate::units::{AgBlock, AgNumber, FileBlock, InodeNumber, Sector};

/// Where a structure lies, as far as the reader knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Location {
    /// First 512-byte unit of the device region that was read.
    pub sector: Option<Sector>,
    /// The allocation group.
    pub group: Option<AgNumber>,
    /// Block in that group.
    pub group_block: Option<AgBlock>,
    /// The inode that it is or belongs to.
    pub inode: Option<InodeNumber>,
    /// Block in the inode's fork.
    pub file_block: Option<FileBlock>,
    /// Byte in the structure.
    pub offset_bytes: Option<u32>,
}

impl Location {
    /// A place on the device.
    pub const fn at_sector(sector: Sector) -> Self {
        Self {
            sector: Some(sector),
            group: None,
            group_block: None,
            inode: None,
            file_block: None,
            offset_bytes: None,
        }
    }

    /// An inode.
    pub const fn of_inode(inode: InodeNumber) -> Self {
        Self {
            sector: None,
            group: None,
            group_block: None,
            inode: Some(inode),
            file_block: None,
            offset_bytes: None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut part = |f: &mut fmt::Formatter<'_>, name: &str, value: Option<u64>| -> fmt::Result {
            if let Some(value) = value {
                write!(f, "{separator}{name} {value}")?;
                separator = ", ";
            }
            Ok(())
        };
        part(f, "inode", self.inode.map(InodeNumber::get))?;
        part(f, "file block", self.file_block.map(FileBlock::get))?;
        part(f, "group", self.group.map(|group| group.get().into()))?;
        part(f, "block", self.group_block.map(|block| block.get().into()))?;
        part(f, "sector", self.sector.map(Sector::get))?;
        part(f, "offset", self.offset_bytes.map(u64::from))
    }
}

//! The forks of an inode: its data, and its extended attributes. The fork offset divides the bytes behind the core.

use crate::{
    convert::to_usize,
    geometry::INODE_CORE_SIZE_BYTES,
    inode::{core::InodeCore, flags::InodeFlags2},
};

/// Bytes of one packed extent record.
pub const EXTENT_RECORD_SIZE_BYTES: u32 = 16;

/// Which fork of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fork {
    /// Contents: file data, directory blocks, the target of a symbolic link.
    Data,
    /// Extended attributes.
    Attribute,
}

impl Fork {
    /// For messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data fork",
            Self::Attribute => "attribute fork",
        }
    }
}

impl std::fmt::Display for Fork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The format of a fork.
#[doc(alias = "xfs_dinode_fmt")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ForkFormat {
    /// 0: a device number (data fork of device files, fifos and sockets).
    Device,
    /// 1: the contents themselves.
    Local,
    /// 2: packed extent records.
    Extents,
    /// 3: root of an extent map btree.
    Btree,
    /// 5: root of a btree of realtime metadata.
    MetadataBtree,
}

impl ForkFormat {
    /// The format that a code says.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Device,
            1 => Self::Local,
            2 => Self::Extents,
            3 => Self::Btree,
            5 => Self::MetadataBtree,
            _ => return None,
        })
    }

    /// The code on disk.
    pub const fn code(self) -> u8 {
        match self {
            Self::Device => 0,
            Self::Local => 1,
            Self::Extents => 2,
            Self::Btree => 3,
            Self::MetadataBtree => 5,
        }
    }

    /// The name in `xfs_db`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "dev",
            Self::Local => "local",
            Self::Extents => "extents",
            Self::Btree => "btree",
            Self::MetadataBtree => "meta_btree",
        }
    }
}

impl InodeCore {
    /// Whether there is an attribute fork.
    #[inline]
    pub const fn has_attribute_fork(&self) -> bool {
        self.fork_offset != 0
    }

    /// Bytes of the data fork before the attribute fork.
    #[inline]
    pub fn fork_offset_bytes(&self) -> u32 {
        u32::from(self.fork_offset).wrapping_shl(3)
    }

    /// Format of a fork; `None` for an unknown code and for an attribute fork that does not exist.
    #[inline]
    pub fn fork_format(&self, fork: Fork) -> Option<ForkFormat> {
        match fork {
            Fork::Data => ForkFormat::from_code(self.format),
            Fork::Attribute if self.has_attribute_fork() => ForkFormat::from_code(self.attribute_format),
            Fork::Attribute => None,
        }
    }

    /// Bytes that a fork has in an inode of `inode_size_bytes`; 0 for an attribute fork that does not exist.
    #[inline]
    pub fn fork_size_bytes(&self, fork: Fork, inode_size_bytes: u32) -> u32 {
        let literal = inode_size_bytes.saturating_sub(INODE_CORE_SIZE_BYTES);
        match fork {
            Fork::Data if self.has_attribute_fork() => self.fork_offset_bytes().min(literal),
            Fork::Data => literal,
            Fork::Attribute if self.has_attribute_fork() => literal.saturating_sub(self.fork_offset_bytes()),
            Fork::Attribute => 0,
        }
    }

    /// Extents of a fork. 0 for local and device forks.
    #[inline]
    pub fn extent_count(&self, fork: Fork) -> u64 {
        let is_large = self.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
        match (fork, is_large) {
            (Fork::Data, true) => self.large_extent_count.get(),
            (Fork::Data, false) => self.extent_count.get().into(),
            (Fork::Attribute, true) => self.extent_count.get().into(),
            (Fork::Attribute, false) => self.attribute_extent_count.get().into(),
        }
    }

    /// The most extents that a fork's counter may say.
    #[doc(alias = "XFS_MAX_EXTCNT_DATA_FORK_LARGE")]
    pub fn extent_count_max(&self, fork: Fork) -> u64 {
        let is_large = self.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
        match (fork, is_large) {
            (Fork::Data, true) => (1 << 48) - 1,
            (Fork::Data, false) => (1 << 31) - 1,
            (Fork::Attribute, true) => (1 << 32) - 1,
            (Fork::Attribute, false) => (1 << 15) - 1,
        }
    }
}

/// The bytes of a fork within the bytes of one inode; `None` where the fork does not exist or lies outside.
#[inline]
pub fn fork_bytes(inode: &[u8], fork: Fork) -> Option<&[u8]> {
    use crate::field_table::OnDisk;
    let core = InodeCore::prefix_of(inode)?;
    let literal = inode.get(to_usize(INODE_CORE_SIZE_BYTES)..)?;
    let offset = to_usize(core.fork_offset_bytes());
    match (fork, core.has_attribute_fork()) {
        (Fork::Data, false) => Some(literal),
        (Fork::Data, true) => literal.get(..offset),
        (Fork::Attribute, true) => literal.get(offset..),
        (Fork::Attribute, false) => None,
    }
}

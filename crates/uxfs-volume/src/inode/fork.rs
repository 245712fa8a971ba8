//! A fork of an inode in memory.

use std::sync::OnceLock;

use uxfs_format::{
    btree::extent_map::{ExtentMapRoot, ExtentRecord},
    inode::ForkFormat,
    units::FsBlock,
};

use crate::extent_map::ExtentMap;

/// Header of a btree root in an inode.
const ROOT_HEADER_BYTES: u32 = 4;
/// Key and pointer.
const ROOT_ENTRY_BYTES: u32 = 16;

/// One fork.
#[doc(alias = "xfs_ifork")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InodeFork {
    /// A device number as encoded on disk.
    Device(u32),
    /// The contents themselves. In the data fork exactly the file's size.
    Local(Vec<u8>),
    /// Blocks elsewhere.
    Extents(ForkExtents),
}

/// The extents of a fork and, where they do not fit the inode, the root of the btree that holds them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForkExtents {
    /// In order of file blocks. Of an inode that was read to look at it they may be unread, and then this map is empty: readers
    /// ask [`Volume::extent_map`](crate::volume::Volume::extent_map).
    pub extents: ExtentMap,
    /// The btree, in step with `extents`, while there is one.
    pub root: Option<ExtentRoot>,
    unread: Option<Box<UnreadExtents>>,
}

/// Root of an extent btree, inside the inode.
#[doc(alias = "xfs_bmdr_block")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtentRoot {
    /// At least 1: the level above the leaves.
    pub level: u16,
    /// First file block below each child.
    pub keys: Vec<u64>,
    /// The children.
    pub pointers: Vec<FsBlock>,
}

/// Extents that are read when a reader wants them first: those of a btree, and damaged ones, whose reader gets the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadExtents {
    pub format: ForkFormat,
    /// As the inode counts them.
    pub count: u64,
    /// All bytes that the fork has in the inode.
    pub bytes: Box<[u8]>,
    pub read: OnceLock<ExtentMap>,
}

impl InodeFork {
    /// Without contents.
    pub fn empty() -> Self {
        Self::Extents(ForkExtents::default())
    }

    /// The format on disk.
    pub fn format(&self) -> ForkFormat {
        match self {
            Self::Device(_) => ForkFormat::Device,
            Self::Local(_) => ForkFormat::Local,
            Self::Extents(extents) => extents.format(),
        }
    }

    /// How many extents there are.
    pub fn extent_count(&self) -> u64 {
        match self {
            Self::Extents(extents) => extents.count(),
            Self::Device(_) | Self::Local(_) => 0,
        }
    }

    /// Bytes that the contents take in the inode as they are.
    pub fn used_bytes(&self) -> u32 {
        let narrow = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        match self {
            Self::Device(_) => 4,
            Self::Local(bytes) => narrow(bytes.len()),
            Self::Extents(ForkExtents { root: Some(root), .. }) => root.size_bytes(),
            Self::Extents(extents) => narrow(extents.extents.len().saturating_mul(size_of::<ExtentRecord>())),
        }
    }
}

impl ForkExtents {
    /// These extents, and the root of the btree that holds them if there is one.
    pub fn new(extents: ExtentMap, root: Option<ExtentRoot>) -> Self {
        Self { extents, root, unread: None }
    }

    /// Extents to be read when a reader wants them.
    pub(crate) fn of_unread(unread: UnreadExtents) -> Self {
        Self { unread: Some(Box::new(unread)), ..Self::default() }
    }

    pub(crate) fn unread(&self) -> Option<&UnreadExtents> {
        self.unread.as_deref()
    }

    fn format(&self) -> ForkFormat {
        match (&self.unread, &self.root) {
            (Some(unread), _) => unread.format,
            (None, Some(_)) => ForkFormat::Btree,
            (None, None) => ForkFormat::Extents,
        }
    }

    fn count(&self) -> u64 {
        self.unread.as_ref().map_or(self.extents.len() as u64, |unread| unread.count)
    }

    /// Makes the extents that were read the ones to change.
    pub(crate) fn take_read(&mut self) {
        let Some(unread) = self.unread.take() else { return };
        let UnreadExtents { format, bytes, read, .. } = *unread;
        self.root = if format == ForkFormat::Btree { ExtentRoot::decode(&bytes) } else { None };
        self.extents = read.into_inner().unwrap_or_default();
    }
}

impl ExtentRoot {
    /// From the bytes of a fork that has been verified.
    pub fn decode(fork: &[u8]) -> Option<Self> {
        let root = ExtentMapRoot::parse(fork).ok()?;
        let keys = root.keys().iter().map(|key| key.file_block.get()).collect();
        let pointers = root.pointers().iter().map(|pointer| FsBlock::new(pointer.get())).collect();
        Some(Self { level: root.level(), keys, pointers })
    }

    /// Bytes that the root needs at least.
    pub fn size_bytes(&self) -> u32 {
        u32::try_from(self.keys.len())
            .unwrap_or(u32::MAX)
            .saturating_mul(ROOT_ENTRY_BYTES)
            .saturating_add(ROOT_HEADER_BYTES)
    }
}

//! An inode that is being changed.
//!
//! [`EditInode`] is the whole inode taken apart: the core, and each fork as what it holds. Which format a fork has on disk
//! follows from its contents and is decided when the inode is stored, so that a fork in memory cannot contradict its
//! format. Who changes a fork keeps it within its room, as the functions of
//! [`extent_map::edit`](crate::extent_map) do; contents that do not fit are refused when the inode is stored.
//!
//! | module | holds |
//! |---|---|
//! | here | the inode taken apart |
//! | `room` | how the bytes behind the core are divided |
//! | `extent_root` | the root of an extent btree, as the btree code changes it |
//! | `load` | from the disk |
//! | `store` | to the disk |
//! | [`commit_sequences`] | which checkpoints hold its changes |
//! | `log_reservation` | what it takes of the log |

pub mod commit_sequences;
mod extent_root;
mod load;
mod log_reservation;
pub mod room;
mod store;

pub use self::commit_sequences::CommitSequences;
pub use log_reservation::InodeLogReservation;
pub use store::next_unlinked_of;

use uxfs_format::{
    geometry::Geometry,
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFlags2, Timestamp, timestamp::DiskTimestamp},
    units::{FsBlock, InodeNumber},
};
use uxfs_volume::inode::{InodeView, OpenFork};
use zerocopy::big_endian::{U16, U32, U64};

use crate::{attribute::hint::AttributeHint, directory::hint::DirectoryHint, extent_map::hint::ExtentHint};
use uxfs_volume::extent_map::ExtentMap;

static NO_EXTENTS: ExtentMap = ExtentMap::EMPTY;

/// An inode that only its holder may change.
#[derive(Debug, Clone)]
pub struct EditInode {
    /// Its number.
    pub number: InodeNumber,
    /// The fixed part. Formats, extent counts and the offset of the attribute fork are brought up to date when the
    /// inode is stored: [`attribute_offset_bytes`](Self::attribute_offset_bytes) holds the latter.
    pub core: InodeCore,
    /// Contents.
    pub data: EditFork,
    /// Extended attributes; `None` without such a fork.
    pub attribute: Option<EditFork>,
    /// Where the attribute fork begins behind the core, a multiple of 8; 0 without one.
    pub attribute_offset_bytes: u32,
    /// Of directories: where the last name found room.
    pub directory_hint: DirectoryHint,
    /// Where attributes lie in leaves: the one that was used last.
    pub attribute_hint: AttributeHint,
    /// Where extents lie in btrees: the way to those that were changed last.
    pub extent_hint: ExtentHint,
    /// The log space that has been reserved for it.
    pub log_reservation: InodeLogReservation,
    /// Which checkpoints hold its changes.
    pub commits: CommitSequences,
}

/// One fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditFork {
    /// A device number as encoded on disk.
    Device(u32),
    /// The contents themselves.
    Local(Vec<u8>),
    /// Blocks elsewhere.
    Extents(EditExtents),
}

/// The extents of a fork and, where they do not fit the inode, the root of the btree that holds them.
#[doc(alias = "xfs_ifork")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EditExtents {
    /// In order of file blocks.
    pub extents: ExtentMap,
    /// The btree, kept in step with `extents` while there is one.
    pub root: Option<ExtentRoot>,
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

/// The times of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeKind {
    /// Last access.
    Access,
    /// Last change of contents.
    Modification,
    /// Last change of anything.
    Change,
    /// When the inode was made.
    Creation,
}

impl EditFork {
    /// Without contents.
    pub fn empty() -> Self {
        Self::Extents(EditExtents::default())
    }

    /// The format on disk.
    pub fn format(&self) -> ForkFormat {
        match self {
            Self::Device(_) => ForkFormat::Device,
            Self::Local(_) => ForkFormat::Local,
            Self::Extents(EditExtents { root: None, .. }) => ForkFormat::Extents,
            Self::Extents(EditExtents { root: Some(_), .. }) => ForkFormat::Btree,
        }
    }

    /// Extents, none for other contents.
    pub fn extents(&self) -> &ExtentMap {
        match self {
            Self::Extents(extents) => &extents.extents,
            Self::Device(_) | Self::Local(_) => &NO_EXTENTS,
        }
    }

    fn extent_count(&self) -> u64 {
        self.extents().len() as u64
    }
}

impl<'a> From<&'a EditInode> for InodeView<'a> {
    #[inline]
    fn from(inode: &'a EditInode) -> Self {
        let open = |fork: &'a EditFork| match fork {
            EditFork::Device(_) => OpenFork::None,
            EditFork::Local(bytes) => OpenFork::Local(bytes),
            EditFork::Extents(extents) => OpenFork::Extents(&extents.extents),
        };
        let attribute = inode.attribute.as_ref().map_or(OpenFork::None, open);
        Self::of_open(inode.number, inode.file_type(), inode.size_bytes(), open(&inode.data), attribute)
    }
}

impl EditInode {
    /// What lies in the inode itself, with no more extents than those: for who tries whether something would fit.
    pub fn sketch(&self) -> Self {
        let sketch = |fork: &EditFork| match fork {
            // One says that there are some.
            EditFork::Extents(EditExtents { extents, root: Some(root) }) => EditFork::Extents(EditExtents {
                extents: ExtentMap::of(extents.first()).unwrap_or_default(),
                root: Some(root.clone()),
            }),
            other => other.clone(),
        };
        Self {
            number: self.number,
            core: self.core,
            data: sketch(&self.data),
            attribute: self.attribute.as_ref().map(sketch),
            attribute_offset_bytes: self.attribute_offset_bytes,
            directory_hint: self.directory_hint,
            attribute_hint: AttributeHint::default(),
            extent_hint: ExtentHint::default(),
            log_reservation: self.log_reservation,
            commits: self.commits,
        }
    }

    /// Makes it an inode that is not in use: it cannot be said any more what it is.
    pub fn forget(&mut self) {
        self.core.mode = U16::new(0);
        (self.data, self.attribute, self.attribute_offset_bytes) = (EditFork::empty(), None, 0);
        self.directory_hint = DirectoryHint::default();
        self.attribute_hint = AttributeHint::default();
    }

    /// A fork.
    pub fn fork(&self, fork: Fork) -> Option<&EditFork> {
        match fork {
            Fork::Data => Some(&self.data),
            Fork::Attribute => self.attribute.as_ref(),
        }
    }

    /// A fork, to be changed.
    pub fn fork_mut(&mut self, fork: Fork) -> Option<&mut EditFork> {
        match fork {
            Fork::Data => Some(&mut self.data),
            Fork::Attribute => self.attribute.as_mut(),
        }
    }

    /// Extents of a fork; none where there is no fork, or one with other contents.
    pub fn extents(&self, fork: Fork) -> &ExtentMap {
        self.fork(fork).map_or(&NO_EXTENTS, EditFork::extents)
    }

    /// Bytes that a fork may take in the inode; 0 for an attribute fork that does not exist.
    pub fn fork_room_bytes(&self, fork: Fork, geometry: &Geometry) -> u32 {
        let literal = geometry.literal_size_bytes();
        match (fork, self.attribute_offset_bytes) {
            (Fork::Data, 0) => literal,
            (Fork::Data, offset) => offset.min(literal),
            (Fork::Attribute, 0) => 0,
            (Fork::Attribute, offset) => literal.saturating_sub(offset),
        }
    }

    /// Kind of file; `None` for an inode that is not in use.
    pub fn file_type(&self) -> Option<FileType> {
        self.core.file_type()
    }

    /// Size of the file in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.core.size_bytes.get()
    }

    /// Sets the size of the file, and nothing else: see
    /// `FileEdit::set_size` of the layer above.
    pub fn set_size_bytes(&mut self, size_bytes: u64) {
        self.core.size_bytes = U64::new(size_bytes);
    }

    /// Names that the inode has; for directories 2 more than its directories.
    pub fn link_count(&self) -> u32 {
        self.core.link_count.get()
    }

    /// Sets the number of names.
    pub fn set_link_count(&mut self, count: u32) {
        self.core.link_count = U32::new(count);
    }

    /// Adds to the blocks that the inode counts, or takes away.
    pub fn add_blocks(&mut self, change: i64) {
        self.core.blocks = U64::new(self.core.blocks.get().saturating_add_signed(change));
    }

    /// Blocks of both forks, btree blocks included.
    pub fn blocks(&self) -> u64 {
        self.core.blocks.get()
    }

    /// Whether extents of its data may be shared.
    pub fn may_share_extents(&self) -> bool {
        self.core.flags2().contains(InodeFlags2::REFLINK)
    }

    /// Sets a time, or the nearest one that the inode can hold.
    pub fn set_time(&mut self, kind: TimeKind, time: Timestamp) {
        let is_big = self.core.flags2().contains(InodeFlags2::BIG_TIME);
        let time = DiskTimestamp::encode_clamped(time, is_big);
        match kind {
            TimeKind::Access => self.core.access_time = time,
            TimeKind::Modification => self.core.modification_time = time,
            TimeKind::Change => self.core.change_time = time,
            TimeKind::Creation => self.core.creation_time = time,
        }
    }

    /// Counts one more change.
    pub fn count_change(&mut self) {
        self.core.change_count = U64::new(self.core.change_count.get().wrapping_add(1));
    }

    /// Brings the fields of the core that follow from the forks up to date.
    pub(crate) fn update_core(&mut self) {
        let is_large = self.core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
        let data = self.data.extent_count();
        let attribute = self.attribute.as_ref().map_or(0, EditFork::extent_count);
        let narrow = |count: u64| U32::new(u32::try_from(count).unwrap_or(u32::MAX));
        self.core.format = self.data.format().code();
        self.core.attribute_format =
            self.attribute.as_ref().map_or(ForkFormat::Extents.code(), |fork| fork.format().code());
        self.core.fork_offset = u8::try_from(self.attribute_offset_bytes / 8).unwrap_or(0);
        if is_large {
            self.core.large_extent_count = U64::new(data);
            self.core.extent_count = narrow(attribute);
            self.core.attribute_extent_count = U16::new(0);
        } else {
            self.core.large_extent_count = U64::new(0);
            self.core.extent_count = narrow(data);
            self.core.attribute_extent_count = U16::new(u16::try_from(attribute).unwrap_or(u16::MAX));
        }
    }
}

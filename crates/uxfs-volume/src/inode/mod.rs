//! Inodes in memory.
//!
//! [`Volume::inode`](crate::volume::Volume::inode) gives a decoded [`Inode`] that has passed every check
//! of the format. It keeps the bytes of its forks, and the extent map of a fork once someone has asked for it.
//!
//! | module | holds |
//! |---|---|
//! | here | the decoded inode |
//! | `read` | from a number to an inode |
//! | [`scan`] | every inode in use, from many threads |
//! | [`set`] | sets of inode numbers |
//! | `view` | what readers need of an inode, however it is held |

pub mod read;
pub mod scan;
pub mod set;
mod view;

pub use view::{InodeView, OpenFork};

use std::sync::{Arc, OnceLock};

pub use uxfs_format::inode::{DeviceNumber, FileType, Fork, ForkFormat, InodeFlags, InodeFlags2, Timestamp};
use uxfs_format::{
    convert::long_to_usize,
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::InodeCore,
    units::{AgInode, InodeNumber},
};

use crate::extent_map::ExtentMap;

/// A decoded, verified inode in use.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inode {
    /// Its number.
    pub number: InodeNumber,
    /// Tells apart the successive files that had this number.
    pub generation: u32,
    /// File type and permissions as one word, as `stat` gives it.
    pub mode: u16,
    /// File type.
    pub file_type: FileType,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project id.
    pub project_id: u32,
    /// Names that the inode has; for directories 2 more than its directories.
    pub link_count: u32,
    /// Length of the file.
    pub size_bytes: u64,
    /// Blocks of both forks, btree blocks included.
    pub blocks: u64,
    /// Last access.
    pub access_time: Timestamp,
    /// Last change of contents.
    pub modification_time: Timestamp,
    /// Last change of anything.
    pub change_time: Timestamp,
    /// When it was made.
    pub creation_time: Timestamp,
    /// First word of flags.
    pub flags: InodeFlags,
    /// Second word of flags.
    pub flags2: InodeFlags2,
    /// Extent size hint.
    pub extent_size_blocks: u32,
    /// Extent size hint for copies on write.
    pub cow_extent_size_blocks: u32,
    /// Counts changes.
    pub change_count: u64,
    /// Next inode in the list of those without a name.
    pub next_unlinked: Option<AgInode>,
    /// What a file of the metadata directory tree holds.
    pub metadata_type: u16,
    /// Everything behind the core.
    literal: Box<[u8]>,
    data_size_bytes: usize,
    data: ForkState,
    attribute: Option<ForkState>,
}

/// One fork of an inode in memory.
#[derive(Debug)]
pub(crate) struct ForkState {
    format: ForkFormat,
    extent_count: u64,
    pub(crate) extent_map: OnceLock<Arc<ExtentMap>>,
}

/// What a fork holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkView<'a> {
    /// There is no such fork: only attribute forks can be missing.
    Missing,
    /// Nothing: no extents.
    Empty,
    /// The contents themselves. In the data fork exactly the file's size; in the attribute fork all bytes of the fork.
    Local(&'a [u8]),
    /// Extents in the inode: read them by [`extent_map`](crate::volume::Volume::extent_map).
    Extents,
    /// Extents in a btree: read them by [`extent_map`](crate::volume::Volume::extent_map).
    Btree,
    /// A btree of realtime metadata.
    MetadataBtree,
    /// A device number; fifos and sockets have 0.
    Device(DeviceNumber),
}

impl Inode {
    /// Decodes one inode that [`verify_inode`](uxfs_format::inode::verify_inode) accepted. `None` for a free one.
    pub fn decode(bytes: &[u8], core: &InodeCore, geometry: &Geometry) -> Option<Self> {
        let file_type = core.file_type()?;
        let literal = bytes.get(INODE_CORE_SIZE_BYTES as usize..geometry.inode_size())?;
        let fork = |fork| {
            Some(ForkState {
                format: core.fork_format(fork)?,
                extent_count: core.extent_count(fork),
                extent_map: OnceLock::new(),
            })
        };
        let next_unlinked = AgInode::new(core.next_unlinked.get());
        Some(Self {
            number: core.inode_number(),
            generation: core.generation.get(),
            mode: core.mode.get(),
            file_type,
            uid: core.uid.get(),
            gid: core.gid.get(),
            project_id: core.project_id(),
            link_count: core.link_count.get(),
            size_bytes: core.size_bytes.get(),
            blocks: core.blocks.get(),
            access_time: core.time(core.access_time),
            modification_time: core.time(core.modification_time),
            change_time: core.time(core.change_time),
            creation_time: core.time(core.creation_time),
            flags: core.flags(),
            flags2: core.flags2(),
            extent_size_blocks: core.extent_size_blocks.get(),
            cow_extent_size_blocks: core.cow_extent_size_blocks.get(),
            change_count: core.change_count.get(),
            next_unlinked: (!next_unlinked.is_null()).then_some(next_unlinked),
            metadata_type: core.metadata_type.get(),
            literal: literal.into(),
            data_size_bytes: core.fork_size_bytes(Fork::Data, geometry.inode_size_bytes) as usize,
            data: fork(Fork::Data)?,
            attribute: fork(Fork::Attribute),
        })
    }

    /// Permissions with set-id bits and the sticky bit.
    pub fn permissions(&self) -> u16 {
        self.mode & uxfs_format::inode::file_type::MODE_PERMISSION_MASK
    }

    /// Whether its data lies in the realtime section.
    pub fn is_realtime(&self) -> bool {
        self.flags.contains(InodeFlags::REALTIME)
    }

    /// What a fork holds.
    pub fn fork(&self, fork: Fork) -> ForkView<'_> {
        let Some(state) = self.fork_state(fork) else { return ForkView::Missing };
        match state.format {
            ForkFormat::Device => ForkView::Device(self.device_number()),
            ForkFormat::Local => ForkView::Local(self.local_bytes(fork)),
            ForkFormat::Extents if state.extent_count == 0 => ForkView::Empty,
            ForkFormat::Extents => ForkView::Extents,
            ForkFormat::Btree => ForkView::Btree,
            ForkFormat::MetadataBtree => ForkView::MetadataBtree,
        }
    }

    /// All bytes that a fork has in the inode; none for a fork that is missing.
    pub fn fork_bytes(&self, fork: Fork) -> &[u8] {
        let split = match fork {
            Fork::Data => self.literal.get(..self.data_size_bytes),
            Fork::Attribute if self.attribute.is_some() => self.literal.get(self.data_size_bytes..),
            Fork::Attribute => None,
        };
        split.unwrap_or_default()
    }

    /// The format of a fork, or `None` where it is missing.
    pub fn fork_format(&self, fork: Fork) -> Option<ForkFormat> {
        self.fork_state(fork).map(|state| state.format)
    }

    /// Extents of a fork, as the inode counts them.
    pub fn extent_count(&self, fork: Fork) -> u64 {
        self.fork_state(fork).map_or(0, |state| state.extent_count)
    }

    /// The device number of a device file; 0:0 for all others.
    pub fn device_number(&self) -> DeviceNumber {
        let word = self.literal.get(..4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
        match word {
            Some(word) if self.data.format == ForkFormat::Device => DeviceNumber::decode(word),
            _ => DeviceNumber::default(),
        }
    }

    pub(crate) fn fork_state(&self, fork: Fork) -> Option<&ForkState> {
        match fork {
            Fork::Data => Some(&self.data),
            Fork::Attribute => self.attribute.as_ref(),
        }
    }

    fn local_bytes(&self, fork: Fork) -> &[u8] {
        let bytes = self.fork_bytes(fork);
        match fork {
            Fork::Data => bytes.get(..long_to_usize(self.size_bytes)).unwrap_or(bytes),
            Fork::Attribute => bytes,
        }
    }
}

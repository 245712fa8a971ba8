//! An inode that is being changed.
//!
//! [`EditInode`] is an [`Inode`] with all that its forks hold in memory, and what its editors keep about it. It lends the inode
//! to all readers. Which format a fork has on disk follows from its contents and is decided when the inode is stored, so that a
//! fork in memory cannot contradict its format. The functions of [`extent_map`](crate::extent_map) keep a
//! fork within its room; contents that do not fit are refused when the inode is stored.
//!
//! | module | holds |
//! |---|---|
//! | here | the inode, and changes of its core |
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

use std::ops::{Deref, DerefMut};

use uxfs_format::inode::{Fork, ForkFormat, InodeFlags2, Timestamp, timestamp::DiskTimestamp};
use uxfs_volume::extent_map::ExtentMap;
pub use uxfs_volume::inode::{ExtentRoot, ForkExtents, Inode, InodeFork};
use zerocopy::big_endian::{U16, U32, U64};

use crate::{attribute::hint::AttributeHint, directory::hint::DirectoryHint, extent_map::hint::ExtentHint};

static NO_EXTENTS: ExtentMap = ExtentMap::EMPTY;

/// An inode that only its holder may change. The extents of all its forks are at hand.
#[derive(Debug, Clone)]
pub struct EditInode {
    inode: Inode,
    /// The inode differs from what was stored of it last, or may.
    is_changed: bool,
    /// Of directories: where the last name found room.
    pub directory_hint: DirectoryHint,
    /// Where attributes lie in leaves: the one that was used last.
    pub attribute_hint: AttributeHint,
    /// Where extents lie in btrees: the way to those that were changed last.
    pub extent_hint: ExtentHint,
    /// The log space that has been reserved for it.
    pub log_reservation: InodeLogReservation,
    /// The checkpoints that hold its changes.
    pub commits: CommitSequences,
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

impl Deref for EditInode {
    type Target = Inode;

    #[inline]
    fn deref(&self) -> &Inode {
        &self.inode
    }
}

impl DerefMut for EditInode {
    #[inline]
    fn deref_mut(&mut self) -> &mut Inode {
        self.is_changed = true;
        &mut self.inode
    }
}

impl EditInode {
    /// Of an inode whose forks are in memory. Where it `is_stored` it lies on the device, or in the buffer of its cluster, as it
    /// is.
    pub(crate) fn of(inode: Inode, is_stored: bool, commits: CommitSequences) -> Self {
        Self {
            inode,
            is_changed: !is_stored,
            directory_hint: DirectoryHint::default(),
            attribute_hint: AttributeHint::default(),
            extent_hint: ExtentHint::default(),
            log_reservation: InodeLogReservation::default(),
            commits,
        }
    }

    /// A copy of what lies in the inode itself, to try on it whether a change would fit.
    pub fn sketch(&self) -> Self {
        let sketch = |fork: &InodeFork| match fork {
            // One says that there are some.
            InodeFork::Extents(ForkExtents { extents, root: Some(root), .. }) => {
                let first = ExtentMap::of(extents.first()).unwrap_or_default();
                InodeFork::Extents(ForkExtents::new(first, Some(root.clone())))
            }
            other => other.clone(),
        };
        let (data, attribute) = (sketch(&self.data), self.attribute.as_ref().map(sketch));
        Self {
            inode: Inode::new(self.core, data, attribute, self.attribute_offset_bytes),
            is_changed: true,
            directory_hint: self.directory_hint,
            attribute_hint: AttributeHint::default(),
            extent_hint: ExtentHint::default(),
            log_reservation: self.log_reservation,
            commits: self.commits,
        }
    }

    /// Whether the inode has been changed since it was stored last.
    #[inline]
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Notes that the buffer of the inode's cluster holds it as it is.
    pub(crate) fn note_stored(&mut self) {
        self.is_changed = false;
    }

    /// Makes it an inode that is not in use, after its contents became unknown.
    pub fn forget(&mut self) {
        self.core.mode = U16::new(0);
        self.data = InodeFork::empty();
        (self.attribute, self.attribute_offset_bytes) = (None, 0);
        self.directory_hint = DirectoryHint::default();
        self.attribute_hint = AttributeHint::default();
    }

    /// A fork, to be changed.
    pub fn fork_mut(&mut self, fork: Fork) -> Option<&mut InodeFork> {
        match fork {
            Fork::Data => Some(&mut self.data),
            Fork::Attribute => self.attribute.as_mut(),
        }
    }

    /// Extents of a fork; none where there is no fork, or one with other contents.
    pub fn extents(&self, fork: Fork) -> &ExtentMap {
        match self.fork(fork) {
            Some(InodeFork::Extents(extents)) => &extents.extents,
            _ => &NO_EXTENTS,
        }
    }

    /// Sets the size of the file, and nothing else: see
    /// `FileEdit::set_size` of the layer above.
    pub fn set_size_bytes(&mut self, size_bytes: u64) {
        self.core.size_bytes = U64::new(size_bytes);
    }

    /// Sets the number of names.
    pub fn set_link_count(&mut self, count: u32) {
        self.core.link_count = U32::new(count);
    }

    /// Adds to the blocks that the inode counts, or takes away.
    pub fn add_blocks(&mut self, change: i64) {
        self.core.blocks = U64::new(self.core.blocks.get().saturating_add_signed(change));
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
        let (data, attribute) = (self.extent_count(Fork::Data), self.extent_count(Fork::Attribute));
        let attribute_format = self.fork_format(Fork::Attribute).unwrap_or(ForkFormat::Extents);
        let (format, offset_bytes) = (self.data.format(), self.attribute_offset_bytes);
        let narrow = |count: u64| U32::new(u32::try_from(count).unwrap_or(u32::MAX));
        let core = &mut self.inode.core;
        core.format = format.code();
        core.attribute_format = attribute_format.code();
        core.fork_offset = u8::try_from(offset_bytes / 8).unwrap_or(0);
        if core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS) {
            core.large_extent_count = U64::new(data);
            core.extent_count = narrow(attribute);
            core.attribute_extent_count = U16::new(0);
        } else {
            core.large_extent_count = U64::new(0);
            core.extent_count = narrow(data);
            core.attribute_extent_count = U16::new(u16::try_from(attribute).unwrap_or(u16::MAX));
        }
    }
}

//! Inodes in memory.
//!
//! [`Inode`] is the one type for an inode in memory: its core, and what each fork holds. All readers of the volume (names,
//! attributes, targets of links, contents) take it by reference.
//! [`Volume::inode`](crate::volume::Volume::inode) gives one that has passed every check of the format. The layer above changes
//! inodes through its `EditInode`, which has an `Inode` inside and lends it to the same readers.
//!
//! | module | holds |
//! |---|---|
//! | here | the inode and its fields |
//! | `fork` | what a fork holds |
//! | `decode` | from bytes to an inode |
//! | `read` | from a number to an inode |
//! | [`scan`] | every inode in use, from many threads |
//! | [`set`] | sets of inode numbers |
//!
//! Invariants:
//! 1. The forks say what they hold. Formats, extent counts and the offset of the attribute fork in the core may be out of date
//!    while an inode is changed: [`fork_format`](Inode::fork_format) and [`extent_count`](Inode::extent_count) ask the forks.
//! 2. The extents of a fork are at hand, or they are read at most once, by
//!    [`Volume::extent_map`](crate::volume::Volume::extent_map). Those of an inode that is open to be changed are at hand:
//!    [`Volume::read_forks`](crate::volume::Volume::read_forks) reads them first.
//! 3. What lies in an inode that is open to be changed has been verified. In all others each reader verifies it.

mod decode;
pub mod fork;
pub mod read;
pub mod scan;
pub mod set;

pub use self::fork::{ExtentRoot, ForkExtents, InodeFork};
pub use uxfs_format::inode::{DeviceNumber, FileType, Fork, ForkFormat, InodeFlags, InodeFlags2, Timestamp};
use uxfs_format::{
    attribute::{
        flags::{AttributeFlags, Namespace},
        shortform::Shortform,
    },
    geometry::Geometry,
    inode::InodeCore,
    units::{AgInode, InodeNumber},
};

/// An inode in memory.
#[derive(Debug, Clone)]
pub struct Inode {
    /// Its number.
    pub number: InodeNumber,
    /// The fixed part. What follows from the forks is brought up to date when the inode is stored (invariant 1).
    pub core: InodeCore,
    /// Contents.
    pub data: InodeFork,
    /// Extended attributes; `None` without such a fork.
    pub attribute: Option<InodeFork>,
    /// Where the attribute fork begins behind the core, a multiple of 8; 0 without one.
    pub attribute_offset_bytes: u32,
    /// The contents in the inode itself have been verified (invariant 3).
    is_verified: bool,
}

impl Inode {
    /// An inode that does not lie on the device yet.
    pub fn new(
        core: InodeCore,
        data: InodeFork,
        attribute: Option<InodeFork>,
        attribute_offset_bytes: u32,
    ) -> Self {
        let number = core.inode_number();
        Self { number, core, data, attribute, attribute_offset_bytes, is_verified: true }
    }

    /// A fork; `None` for an attribute fork that does not exist.
    #[inline]
    pub fn fork(&self, fork: Fork) -> Option<&InodeFork> {
        match fork {
            Fork::Data => Some(&self.data),
            Fork::Attribute => self.attribute.as_ref(),
        }
    }

    /// The format of a fork, or `None` where it is missing.
    pub fn fork_format(&self, fork: Fork) -> Option<ForkFormat> {
        self.fork(fork).map(InodeFork::format)
    }

    /// Extents of a fork.
    pub fn extent_count(&self, fork: Fork) -> u64 {
        self.fork(fork).map_or(0, InodeFork::extent_count)
    }

    /// Whether a fork has extents, in the inode or in a btree.
    pub fn has_extents(&self, fork: Fork) -> bool {
        match self.fork_format(fork) {
            Some(ForkFormat::Extents) => self.extent_count(fork) != 0,
            format => format == Some(ForkFormat::Btree),
        }
    }

    /// Whether a fork has extents in a btree.
    pub fn has_extent_tree(&self, fork: Fork) -> bool {
        self.fork_format(fork) == Some(ForkFormat::Btree)
    }

    /// The bytes of the fork whose extents lie in a btree, from its root on; none where the extents have been taken in to be
    /// changed, or lie elsewhere.
    pub fn extent_root_bytes(&self, fork: Fork) -> &[u8] {
        match self.fork(fork) {
            Some(InodeFork::Extents(extents)) => extents.unread().map_or(&[], |unread| &unread.bytes),
            _ => &[],
        }
    }

    /// The contents of a fork that lie in the inode itself; `None` where they lie elsewhere or there is no such fork.
    #[inline]
    pub fn local_fork(&self, fork: Fork) -> Option<&[u8]> {
        match self.fork(fork) {
            Some(InodeFork::Local(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Whether the contents that lie in the inode have been verified already.
    #[inline]
    pub fn is_local_fork_verified(&self) -> bool {
        self.is_verified
    }

    /// Whether there may be an extended attribute that is no parent pointer: where all attributes lie in the inode they are looked at.
    pub fn may_have_attributes(&self) -> bool {
        match &self.attribute {
            None => false,
            Some(InodeFork::Extents(_)) => self.extent_count(Fork::Attribute) > 0,
            Some(InodeFork::Device(_)) => true,
            // A fault is found by reading them.
            Some(InodeFork::Local(bytes)) => !Shortform::parse(bytes).is_ok_and(|list| {
                let is_parent = |flags: AttributeFlags| flags.namespace() == Some(Namespace::Parent);
                list.attributes().all(|attribute| attribute.is_ok_and(|attribute| is_parent(attribute.flags)))
            }),
        }
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

    /// The device number of a device file; 0:0 for all others.
    pub fn device_number(&self) -> DeviceNumber {
        match self.data {
            InodeFork::Device(word) => DeviceNumber::decode(word),
            InodeFork::Local(_) | InodeFork::Extents(_) => DeviceNumber::default(),
        }
    }
}

/// The fields of the core.
impl Inode {
    /// Tells apart the successive files that had this number.
    pub fn generation(&self) -> u32 {
        self.core.generation.get()
    }

    /// File type and permissions as one word, as `stat` gives it.
    pub fn mode(&self) -> u16 {
        self.core.mode.get()
    }

    /// File type; `None` for an inode that is not in use.
    #[inline]
    pub fn file_type(&self) -> Option<FileType> {
        self.core.file_type()
    }

    /// Permissions with set-id bits and the sticky bit.
    pub fn permissions(&self) -> u16 {
        self.core.permissions()
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.core.uid.get()
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        self.core.gid.get()
    }

    /// Project id.
    pub fn project_id(&self) -> u32 {
        self.core.project_id()
    }

    /// Names that the inode has; for directories 2 more than its directories.
    #[inline]
    pub fn link_count(&self) -> u32 {
        self.core.link_count.get()
    }

    /// Length of the file.
    #[inline]
    pub fn size_bytes(&self) -> u64 {
        self.core.size_bytes.get()
    }

    /// Blocks of both forks, btree blocks included.
    pub fn blocks(&self) -> u64 {
        self.core.blocks.get()
    }

    /// Last access.
    pub fn access_time(&self) -> Timestamp {
        self.core.time(self.core.access_time)
    }

    /// Last change of contents.
    pub fn modification_time(&self) -> Timestamp {
        self.core.time(self.core.modification_time)
    }

    /// Last change of anything.
    pub fn change_time(&self) -> Timestamp {
        self.core.time(self.core.change_time)
    }

    /// When it was made.
    pub fn creation_time(&self) -> Timestamp {
        self.core.time(self.core.creation_time)
    }

    /// First word of flags.
    pub fn flags(&self) -> InodeFlags {
        self.core.flags()
    }

    /// Second word of flags.
    pub fn flags2(&self) -> InodeFlags2 {
        self.core.flags2()
    }

    /// Extent size hint.
    pub fn extent_size_blocks(&self) -> u32 {
        self.core.extent_size_blocks.get()
    }

    /// Extent size hint for copies on write.
    pub fn cow_extent_size_blocks(&self) -> u32 {
        self.core.cow_extent_size_blocks.get()
    }

    /// Counts changes.
    pub fn change_count(&self) -> u64 {
        self.core.change_count.get()
    }

    /// The type of a file in the metadata directory tree.
    pub fn metadata_type(&self) -> u16 {
        self.core.metadata_type.get()
    }

    /// Next inode in the list of those without a name, as it was when the inode was read.
    pub fn next_unlinked(&self) -> Option<AgInode> {
        Some(AgInode::new(self.core.next_unlinked.get())).filter(|next| !next.is_null())
    }

    /// Whether its data lies in the realtime section.
    pub fn is_realtime(&self) -> bool {
        self.flags().contains(InodeFlags::REALTIME)
    }

    /// Whether extents of its data may be shared.
    pub fn may_share_extents(&self) -> bool {
        self.flags2().contains(InodeFlags2::REFLINK)
    }
}

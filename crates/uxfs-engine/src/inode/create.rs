//! Inodes as Linux makes them.

use uxfs_format::{
    features::Incompatible,
    geometry::Geometry,
    inode::{
        DeviceNumber, FileType, InodeCore, InodeFlags, InodeFlags2, Timestamp,
        core::{MAGIC, VERSION},
        timestamp::DiskTimestamp,
    },
    units::{AgInode, InodeNumber},
};
use zerocopy::{
    FromZeros,
    big_endian::{U16, U32, U64},
};

use super::edit::{CommitSequences, EditInode, Inode, InodeFork, room::default_attribute_offset_bytes};
use crate::inode::allocator::InodeAllocator;
use uxfs_volume::error::{OperationError, Result};

/// The properties of a new inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewInode {
    /// File type and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project id.
    pub project_id: u32,
    /// Of device files; 0:0 for all others.
    pub device: DeviceNumber,
    /// Last access.
    pub access_time: Timestamp,
    /// Last change of contents.
    pub modification_time: Timestamp,
    /// Last change of anything.
    pub change_time: Timestamp,
    /// When the inode was made.
    pub creation_time: Timestamp,
    /// First word of flags.
    pub flags: InodeFlags,
    /// Flags of the second word that are not decided by the file system: a hint for copies on write, direct access.
    pub flags2: InodeFlags2,
    /// Extent size hint, in use where [`flags`](Self::flags) say so.
    pub extent_size_blocks: u32,
    /// Extent size hint for copies on write, in use where [`flags2`](Self::flags2) say so.
    pub cow_extent_size_blocks: u32,
    /// Make an attribute fork at once, because attributes will come. File systems with parent pointers always do.
    pub with_attributes: bool,
}

/// Flags that new inodes inherit from their directory: Linux has switches for the others, which are off.
const INHERITED: InodeFlags = InodeFlags::NO_ACCESS_TIME
    .union(InodeFlags::NO_DUMP)
    .union(InodeFlags::SYNCHRONOUS)
    .union(InodeFlags::NO_DEFRAGMENT)
    .union(InodeFlags::FILE_STREAM);

impl NewInode {
    /// An inode that belongs to root and is made at `now`.
    pub fn new(mode: u16, now: Timestamp) -> Self {
        Self {
            mode,
            uid: 0,
            gid: 0,
            project_id: 0,
            device: DeviceNumber::default(),
            access_time: now,
            modification_time: now,
            change_time: now,
            creation_time: now,
            flags: InodeFlags::empty(),
            flags2: InodeFlags2::empty(),
            extent_size_blocks: 0,
            cow_extent_size_blocks: 0,
            with_attributes: false,
        }
    }

    /// Inherits project, flags and hints from `directory`. The caller sets the group. The realtime flag is not inherited: uxfs does not
    /// allocate realtime extents, and Linux allows files in the data section below such a directory.
    #[doc(alias = "xfs_inode_inherit_flags")]
    pub fn inherit(mut self, directory: &InodeCore, geometry: &Geometry) -> Self {
        let flags = directory.flags();
        if flags.contains(InodeFlags::PROJECT_INHERIT) {
            self.project_id = directory.project_id();
        }
        let kind = FileType::from_mode(self.mode);
        if !matches!(kind, Some(FileType::Regular | FileType::Directory)) {
            return self;
        }
        let is_directory = kind == Some(FileType::Directory);
        self.flags |= flags & INHERITED;
        if is_directory {
            self.flags |= flags & (InodeFlags::REALTIME_INHERIT | InodeFlags::PROJECT_INHERIT);
        }
        let hint = directory.extent_size_blocks.get();
        let is_possible = |blocks: u32| blocks != 0 && blocks <= geometry.ag_blocks / 2;
        if flags.contains(InodeFlags::EXTENT_SIZE_INHERIT) && is_possible(hint) {
            self.extent_size_blocks = hint;
            self.flags |=
                if is_directory { InodeFlags::EXTENT_SIZE_INHERIT } else { InodeFlags::EXTENT_SIZE };
        }
        let hint = directory.cow_extent_size_blocks.get();
        let has = |flag| directory.flags2().contains(flag);
        if has(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE) && is_possible(hint) {
            self.cow_extent_size_blocks = hint;
            self.flags2 |= InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE;
        }
        if has(InodeFlags2::DAX) {
            self.flags2 |= InodeFlags2::DAX;
        }
        self
    }
}

/// Flags that new inodes have because the file system has the features.
#[doc(alias = "new_diflags2")]
pub fn feature_flags2(geometry: &Geometry) -> InodeFlags2 {
    let has = |feature| geometry.features.incompatible.contains(feature);
    let mut flags = InodeFlags2::empty();
    flags.set(InodeFlags2::BIG_TIME, has(Incompatible::BIG_TIME));
    flags.set(InodeFlags2::LARGE_EXTENT_COUNTS, has(Incompatible::LARGE_EXTENT_COUNTS));
    flags
}

/// The core of an inode that has never been in use: what a chunk is full of when it is made.
pub fn unused_core(number: InodeNumber, generation: u32, geometry: &Geometry) -> InodeCore {
    let mut core = InodeCore::new_zeroed();
    core.magic = U16::new(MAGIC);
    core.version = VERSION;
    core.generation = U32::new(generation);
    core.next_unlinked = U32::new(AgInode::NULL.get());
    core.number = U64::new(number.get());
    core.uuid = geometry.metadata_uuid;
    core
}

impl EditInode {
    /// A new inode with one link (two for a directory) and no contents. Directories and symbolic links must get theirs
    /// before they are stored.
    ///
    /// # Errors
    /// A mode without a file type; a device number that does not fit.
    #[doc(alias = "xfs_inode_init")]
    pub fn new(number: InodeNumber, generation: u32, new: &NewInode, geometry: &Geometry) -> Result<Self> {
        let kind = FileType::from_mode(new.mode).ok_or(OperationError::WrongFileType)?;
        let flags2 = feature_flags2(geometry) | new.flags2;
        let time = |time| DiskTimestamp::encode_clamped(time, flags2.contains(InodeFlags2::BIG_TIME));
        let mut core = unused_core(number, generation, geometry);
        core.mode = U16::new(new.mode);
        core.uid = U32::new(new.uid);
        core.gid = U32::new(new.gid);
        core.link_count = U32::new(if kind == FileType::Directory { 2 } else { 1 });
        core.project_id_low = U16::new(new.project_id as u16);
        core.project_id_high = U16::new((new.project_id >> 16) as u16);
        core.access_time = time(new.access_time);
        core.modification_time = time(new.modification_time);
        core.change_time = time(new.change_time);
        core.creation_time = time(new.creation_time);
        core.extent_size_blocks = U32::new(new.extent_size_blocks);
        core.cow_extent_size_blocks = U32::new(new.cow_extent_size_blocks);
        core.flags = U16::new(new.flags.bits());
        core.flags2 = U64::new(flags2.bits());
        core.change_count = U64::new(1);
        let data = if kind.is_special() {
            InodeFork::Device(new.device.encode().ok_or(OperationError::DeviceNumberTooLarge)?)
        } else {
            InodeFork::empty()
        };
        let has_attributes = new.with_attributes || geometry.features.has_parent_pointers();
        let attribute = has_attributes.then(InodeFork::empty);
        let attribute_offset_bytes =
            if has_attributes { default_attribute_offset_bytes(Some(kind)) } else { 0 };
        let inode = Inode::new(core, data, attribute, attribute_offset_bytes);
        Ok(Self::of(inode, false, CommitSequences::default()))
    }
}

impl InodeAllocator<'_, '_> {
    /// Takes an inode near `parent` and makes it what `new` says. It has no name yet and its place on disk still says
    /// that it is free: [`store_inode`](crate::transaction::Transaction::store_inode) changes that.
    ///
    /// # Errors
    /// No space for inodes; as for [`EditInode::new`]; damage; the device.
    #[doc(alias = "xfs_dialloc")]
    pub fn create_inode(&mut self, parent: InodeNumber, new: &NewInode) -> Result<EditInode> {
        let is_directory = FileType::from_mode(new.mode) == Some(FileType::Directory);
        let number = self.allocate_inode(parent, is_directory)?;
        self.new_inode(number, new)
    }

    /// Makes an inode that has been taken what `new` says.
    ///
    /// # Errors
    /// As for [`EditInode::new`].
    pub fn new_inode(&mut self, number: InodeNumber, new: &NewInode) -> Result<EditInode> {
        let engine = self.transaction.engine();
        EditInode::new(number, engine.new_generation(), new, engine.geometry())
    }
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;

//! The fields of a file that its inode holds.

use rustix::fs::{Statx, StatxTimestamp};
use uxfs_volume::inode::{DeviceNumber, FileType, Inode, InodeFlags, InodeFlags2, Timestamp};

use super::{
    both::Both,
    field::{Field, Fields},
};

/// Flags that chattr and xfs_io change. The others say how something is stored.
const FLAGS: InodeFlags = InodeFlags::IMMUTABLE
    .union(InodeFlags::APPEND)
    .union(InodeFlags::SYNCHRONOUS)
    .union(InodeFlags::NO_ACCESS_TIME)
    .union(InodeFlags::NO_DUMP)
    .union(InodeFlags::REALTIME_INHERIT)
    .union(InodeFlags::PROJECT_INHERIT)
    .union(InodeFlags::NO_SYMLINKS)
    .union(InodeFlags::EXTENT_SIZE)
    .union(InodeFlags::EXTENT_SIZE_INHERIT)
    .union(InodeFlags::NO_DEFRAGMENT)
    .union(InodeFlags::FILE_STREAM);
/// As [`FLAGS`], of the second word.
const FLAGS_2: InodeFlags2 = InodeFlags2::DAX.union(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE);

/// What an inode says, without what it leads to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// `None` for a type that there is no name for.
    pub file_type: Option<FileType>,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub size_bytes: u64,
    pub link_count: u32,
    pub device: (u32, u32),
    pub modification_time: Timestamp,
    pub access_time: Timestamp,
    pub change_time: Timestamp,
    /// Of a file in an image only, as what follows.
    pub in_image: Option<InImage>,
}

/// What the host does not tell of its files, or what means something else there.
#[derive(Debug, Clone, Copy)]
pub(super) struct InImage {
    pub creation_time: Timestamp,
    pub project_id: u32,
    pub flags: (InodeFlags, InodeFlags2),
}

impl Facts {
    pub fn of_inode(inode: &Inode) -> Self {
        let is_device = matches!(inode.file_type(), Some(FileType::CharacterDevice | FileType::BlockDevice));
        let DeviceNumber { major, minor } = inode.device_number();
        Self {
            file_type: inode.file_type(),
            permissions: inode.permissions(),
            uid: inode.uid(),
            gid: inode.gid(),
            size_bytes: inode.size_bytes(),
            link_count: inode.link_count(),
            device: if is_device { (major, minor) } else { (0, 0) },
            modification_time: inode.modification_time(),
            access_time: inode.access_time(),
            change_time: inode.change_time(),
            in_image: Some(InImage {
                creation_time: inode.creation_time(),
                project_id: inode.project_id(),
                flags: (inode.flags() & FLAGS, inode.flags2() & FLAGS_2),
            }),
        }
    }

    pub fn of_host(found: &Statx) -> Self {
        let time = |time: StatxTimestamp| Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec };
        let file_type = match found.stx_mode & 0o170_000 {
            0o040_000 => Some(FileType::Directory),
            0o120_000 => Some(FileType::SymbolicLink),
            0o020_000 => Some(FileType::CharacterDevice),
            0o060_000 => Some(FileType::BlockDevice),
            0o010_000 => Some(FileType::Fifo),
            0o140_000 => Some(FileType::Socket),
            0o100_000 => Some(FileType::Regular),
            _ => None,
        };
        Self {
            file_type,
            permissions: found.stx_mode & 0o7777,
            uid: found.stx_uid,
            gid: found.stx_gid,
            size_bytes: found.stx_size,
            link_count: found.stx_nlink,
            device: (found.stx_rdev_major, found.stx_rdev_minor),
            modification_time: time(found.stx_mtime),
            access_time: time(found.stx_atime),
            change_time: time(found.stx_ctime),
            in_image: None,
        }
    }

    pub fn is_directory(&self) -> bool {
        self.file_type == Some(FileType::Directory)
    }

    /// The names of flags that are set.
    pub fn flag_names(&self) -> Vec<String> {
        let Some(InImage { flags: (first, second), .. }) = self.in_image else { return Vec::new() };
        let first = first.iter_names().map(|(name, _): (&str, InodeFlags)| name);
        let second = second.iter_names().map(|(name, _): (&str, InodeFlags2)| name);
        first.chain(second).map(str::to_ascii_lowercase).collect()
    }
}

impl Both<Facts> {
    /// The fields in which two files of one type differ, as far as their inodes tell.
    pub fn differing(&self) -> Fields {
        let Self { first: one, second: two } = self;
        let in_image = one.in_image.zip(two.in_image);
        let is_other_there = |differs: fn(&InImage, &InImage) -> bool| {
            in_image.as_ref().is_some_and(|(one, two)| differs(one, two))
        };
        let is_regular = one.file_type == Some(FileType::Regular);
        let differences = [
            (Field::Size, is_regular && one.size_bytes != two.size_bytes),
            // What differs in length differs in its bytes.
            (Field::Contents, is_regular && one.size_bytes != two.size_bytes),
            (Field::Device, one.device != two.device),
            (Field::Mode, one.permissions != two.permissions),
            (Field::Owner, one.uid != two.uid),
            (Field::Group, one.gid != two.gid),
            (Field::Mtime, one.modification_time != two.modification_time),
            (Field::Atime, one.access_time != two.access_time),
            (Field::Ctime, one.change_time != two.change_time),
            (Field::Btime, is_other_there(|one, two| one.creation_time != two.creation_time)),
            (Field::Project, is_other_there(|one, two| one.project_id != two.project_id)),
            (Field::Flags, is_other_there(|one, two| one.flags != two.flags)),
        ];
        differences.into_iter().filter(|(_, differs)| *differs).map(|(field, _)| field).collect()
    }
}

//! Metadata of a file.

use std::time::{Duration, SystemTime};

use uxfs_filesystem::operations::live::Status;
use uxfs_format::inode::{DeviceNumber, FileType as InternalFileType, Timestamp as InternalTimestamp};
use uxfs_volume::inode::Inode;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    SymbolicLink,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

/// The number of a device file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Device {
    /// Which driver.
    pub major: u32,
    /// Which device of it.
    pub minor: u32,
}

/// A point in time, in universal time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Since 1970, negative before.
    pub seconds: i64,
    /// Always below one thousand million.
    pub nanoseconds: u32,
}

/// Metadata of a file, as `stat` gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The inode number.
    pub inode: u64,
    /// Tells apart the successive files that had this number.
    pub generation: u32,
    /// Its kind.
    pub file_type: FileType,
    /// Permissions with set-id bits and the sticky bit.
    pub permissions: u16,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Project.
    pub project: u32,
    /// How many names it has; of a directory 2 more than its directories.
    pub links: u32,
    /// Length.
    pub size_bytes: u64,
    /// Space that it takes in the image, in bytes.
    pub allocated_bytes: u64,
    /// Of device files.
    pub device: Device,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of contents.
    pub modified: Timestamp,
    /// Last change of anything.
    pub changed: Timestamp,
    /// When it was made.
    pub created: Timestamp,
}

impl Metadata {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type == FileType::Regular
    }

    /// Whether it is a symbolic link.
    pub fn is_symbolic_link(&self) -> bool {
        self.file_type == FileType::SymbolicLink
    }

    /// `None` for an inode that is not in use.
    pub(crate) fn of_inode(inode: &Inode, block_bytes: u32) -> Option<Self> {
        Some(Self {
            inode: inode.number.get(),
            generation: inode.generation(),
            file_type: inode.file_type()?.into(),
            permissions: inode.permissions(),
            user: inode.uid(),
            group: inode.gid(),
            project: inode.project_id(),
            links: inode.link_count(),
            size_bytes: inode.size_bytes(),
            allocated_bytes: inode.blocks().saturating_mul(block_bytes.into()),
            device: inode.device_number().into(),
            accessed: inode.access_time().into(),
            modified: inode.modification_time().into(),
            changed: inode.change_time().into(),
            created: inode.creation_time().into(),
        })
    }

    pub(crate) fn of_status(status: &Status, block_bytes: u32) -> Self {
        Self {
            inode: status.number.get(),
            generation: status.generation,
            file_type: status.file_type.into(),
            permissions: status.mode & 0o7777,
            user: status.uid,
            group: status.gid,
            project: status.project_id,
            links: status.link_count,
            size_bytes: status.size_bytes,
            allocated_bytes: status.blocks.saturating_mul(block_bytes.into()),
            device: status.device.into(),
            accessed: status.access_time.into(),
            modified: status.modification_time.into(),
            changed: status.change_time.into(),
            created: status.creation_time.into(),
        }
    }
}

impl From<InternalFileType> for FileType {
    fn from(file_type: InternalFileType) -> Self {
        match file_type {
            InternalFileType::Regular => Self::Regular,
            InternalFileType::Directory => Self::Directory,
            InternalFileType::SymbolicLink => Self::SymbolicLink,
            InternalFileType::CharacterDevice => Self::CharacterDevice,
            InternalFileType::BlockDevice => Self::BlockDevice,
            InternalFileType::Fifo => Self::Fifo,
            InternalFileType::Socket => Self::Socket,
        }
    }
}

impl From<FileType> for InternalFileType {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Regular => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::SymbolicLink => Self::SymbolicLink,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
        }
    }
}

impl From<DeviceNumber> for Device {
    fn from(DeviceNumber { major, minor }: DeviceNumber) -> Self {
        Self { major, minor }
    }
}

impl From<InternalTimestamp> for Timestamp {
    fn from(InternalTimestamp { seconds, nanoseconds }: InternalTimestamp) -> Self {
        Self { seconds, nanoseconds }
    }
}

impl From<Timestamp> for InternalTimestamp {
    fn from(Timestamp { seconds, nanoseconds }: Timestamp) -> Self {
        Self { seconds, nanoseconds }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => {
                let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
                Self { seconds, nanoseconds: since.subsec_nanos() }
            }
            Err(before) => {
                let before = before.duration();
                let borrowed = i64::from(before.subsec_nanos() > 0);
                let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                let nanoseconds = if borrowed == 1 { 1_000_000_000 - before.subsec_nanos() } else { 0 };
                Self { seconds: seconds.saturating_neg().saturating_sub(borrowed), nanoseconds }
            }
        }
    }
}

impl Timestamp {
    /// As the standard library has it; `None` where that cannot hold it.
    pub fn to_system_time(self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.seconds.unsigned_abs());
        let whole = if self.seconds < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(seconds)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(seconds)
        };
        whole?.checked_add(Duration::from_nanos(self.nanoseconds.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_survive_the_standard_library() {
        for (seconds, nanoseconds) in [(0, 0), (1, 5), (-1, 999_999_999), (-2, 0), (-2_000_000_000, 1)] {
            let time = Timestamp { seconds, nanoseconds };
            assert_eq!(time.to_system_time().map(Timestamp::from), Some(time));
        }
    }
}

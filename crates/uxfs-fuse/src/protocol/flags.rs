//! Bits of requests and replies. Bits that this protocol does not have are kept, so that a server can refuse them.
//!
//! Flags of open(2) are rustix's [`OFlags`], whose numbers are those of the processor.

use rustix::fs::OFlags;

bitflags::bitflags! {
    /// Attributes that SETATTR changes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[doc(alias = "FATTR_MODE")]
    pub struct AttributeChanges: u32 {
        /// Mode, with its file type.
        const MODE = 1;
        /// Owner.
        const USER = 1 << 1;
        /// Group.
        const GROUP = 1 << 2;
        /// Size.
        const SIZE = 1 << 3;
        /// Last access.
        const ACCESS_TIME = 1 << 4;
        /// Last change of the contents.
        const MODIFICATION_TIME = 1 << 5;
        /// There is an open file.
        const HANDLE = 1 << 6;
        /// Last access is now.
        const ACCESS_NOW = 1 << 7;
        /// Last change of the contents is now.
        const MODIFICATION_NOW = 1 << 8;
        /// There is an owner of locks.
        const LOCK_OWNER = 1 << 9;
        /// Last change of the inode.
        const CHANGE_TIME = 1 << 10;
        /// Clear set-user-id, and set-group-id of a file that the group may execute.
        const KILL_SET_ID = 1 << 11;
    }

    /// Of GETATTR and STATX.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct GetAttributesFlags: u32 {
        /// There is an open file.
        #[doc(alias = "FUSE_GETATTR_FH")]
        const HANDLE = 1;
    }

    /// Of the attributes in a reply.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct AttributeFlags: u32 {
        /// A mount point within the server's file system.
        #[doc(alias = "FUSE_ATTR_SUBMOUNT")]
        const SUBMOUNT = 1;
        /// Map the file without the page cache.
        #[doc(alias = "FUSE_ATTR_DAX")]
        const DAX = 1 << 1;
    }

    /// Of OPEN, OPENDIR, CREATE and TMPFILE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct OpenRequestFlags: u32 {
        /// Truncation clears set-user-id, and set-group-id of a file that the group may execute.
        #[doc(alias = "FUSE_OPEN_KILL_SUIDGID")]
        const KILL_SET_ID = 1;
    }

    /// Of an open file, in the reply.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct OpenReplyFlags: u32 {
        /// Bypass the page cache.
        #[doc(alias = "FOPEN_DIRECT_IO")]
        const DIRECT_IO = 1;
        /// Keep cached pages from before.
        #[doc(alias = "FOPEN_KEEP_CACHE")]
        const KEEP_CACHE = 1 << 1;
        /// The file has no position that could be changed.
        #[doc(alias = "FOPEN_NONSEEKABLE")]
        const NOT_SEEKABLE = 1 << 2;
        /// Keep the records of this directory in the page cache.
        #[doc(alias = "FOPEN_CACHE_DIR")]
        const CACHE_DIRECTORY = 1 << 3;
        /// The file has no position.
        #[doc(alias = "FOPEN_STREAM")]
        const STREAM = 1 << 4;
        /// Closing writes nothing back.
        #[doc(alias = "FOPEN_NOFLUSH")]
        const NO_FLUSH = 1 << 5;
        /// Direct writes may run at the same time.
        #[doc(alias = "FOPEN_PARALLEL_DIRECT_WRITES")]
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        /// The kernel reads and writes a backing file.
        #[doc(alias = "FOPEN_PASSTHROUGH")]
        const PASSTHROUGH = 1 << 7;
    }

    /// Of READ.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ReadFlags: u32 {
        /// There is an owner of locks.
        #[doc(alias = "FUSE_READ_LOCKOWNER")]
        const LOCK_OWNER = 1 << 1;
    }

    /// Of WRITE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct WriteFlags: u32 {
        /// From the page cache: the open file is any one of the inode, and the caller is not known.
        #[doc(alias = "FUSE_WRITE_CACHE")]
        const CACHE = 1;
        /// There is an owner of locks.
        #[doc(alias = "FUSE_WRITE_LOCKOWNER")]
        const LOCK_OWNER = 1 << 1;
        /// Clear set-user-id, and set-group-id of a file that the group may execute.
        #[doc(alias = "FUSE_WRITE_KILL_SUIDGID")]
        const KILL_SET_ID = 1 << 2;
    }

    /// Of RELEASE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ReleaseFlags: u32 {
        /// As FLUSH; the kernel does not set it.
        #[doc(alias = "FUSE_RELEASE_FLUSH")]
        const FLUSH = 1;
        /// Release the lock that flock(2) took.
        #[doc(alias = "FUSE_RELEASE_FLOCK_UNLOCK")]
        const UNLOCK = 1 << 1;
    }

    /// Of FSYNC.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct FsyncFlags: u32 {
        /// As fdatasync(2).
        #[doc(alias = "FUSE_FSYNC_FDATASYNC")]
        const DATA_ONLY = 1;
    }

    /// Of FALLOCATE. None allocates and extends the file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct FallocateMode: u32 {
        /// The size stays.
        #[doc(alias = "FALLOC_FL_KEEP_SIZE")]
        const KEEP_SIZE = 1;
        /// Free the range.
        #[doc(alias = "FALLOC_FL_PUNCH_HOLE")]
        const PUNCH_HOLE = 1 << 1;
        /// Cut the range out.
        #[doc(alias = "FALLOC_FL_COLLAPSE_RANGE")]
        const COLLAPSE_RANGE = 1 << 3;
        /// Turn the range into zeros.
        #[doc(alias = "FALLOC_FL_ZERO_RANGE")]
        const ZERO_RANGE = 1 << 4;
        /// Insert a hole.
        #[doc(alias = "FALLOC_FL_INSERT_RANGE")]
        const INSERT_RANGE = 1 << 5;
        /// Give the file blocks of its own.
        #[doc(alias = "FALLOC_FL_UNSHARE_RANGE")]
        const UNSHARE_RANGE = 1 << 6;
    }

    /// Of RENAME2.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct RenameFlags: u32 {
        /// The new name must not exist.
        #[doc(alias = "RENAME_NOREPLACE")]
        const NO_REPLACE = 1;
        /// Both names exist, and change places.
        #[doc(alias = "RENAME_EXCHANGE")]
        const EXCHANGE = 1 << 1;
        /// A whiteout takes the old name.
        #[doc(alias = "RENAME_WHITEOUT")]
        const WHITEOUT = 1 << 2;
    }

    /// Of setxattr(2). None sets in either case.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct SetExtendedAttributeMode: u32 {
        /// The attribute must not exist.
        #[doc(alias = "XATTR_CREATE")]
        const CREATE = 1;
        /// The attribute must exist.
        #[doc(alias = "XATTR_REPLACE")]
        const REPLACE = 1 << 1;
    }

    /// Of SETXATTR.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct SetExtendedAttributeFlags: u32 {
        /// An access ACL is set by a caller outside the group: clear set-group-id.
        #[doc(alias = "FUSE_SETXATTR_ACL_KILL_SGID")]
        const KILL_SET_GROUP_ID = 1;
    }

    /// Of ACCESS. None asks whether the file exists.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct AccessMask: u32 {
        /// May execute, or search.
        #[doc(alias = "X_OK")]
        const EXECUTE = 1;
        /// May write.
        #[doc(alias = "W_OK")]
        const WRITE = 1 << 1;
        /// May read.
        #[doc(alias = "R_OK")]
        const READ = 1 << 2;
    }

    /// Of GETLK, SETLK and SETLKW.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct LockFlags: u32 {
        /// A lock of flock(2).
        #[doc(alias = "FUSE_LK_FLOCK")]
        const WHOLE_FILE = 1;
    }

    /// Of IOCTL.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct IoctlFlags: u32 {
        /// A 32-bit caller on a 64-bit kernel.
        #[doc(alias = "FUSE_IOCTL_COMPAT")]
        const COMPAT = 1;
        /// The server may ask for any memory; CUSE only.
        #[doc(alias = "FUSE_IOCTL_UNRESTRICTED")]
        const UNRESTRICTED = 1 << 1;
        /// Send again with other memory.
        #[doc(alias = "FUSE_IOCTL_RETRY")]
        const RETRY = 1 << 2;
        /// A 32-bit caller.
        #[doc(alias = "FUSE_IOCTL_32BIT")]
        const BITS_32 = 1 << 3;
        /// Of a directory.
        #[doc(alias = "FUSE_IOCTL_DIR")]
        const DIRECTORY = 1 << 4;
        /// An x32 caller.
        #[doc(alias = "FUSE_IOCTL_COMPAT_X32")]
        const COMPAT_X32 = 1 << 5;
    }

    /// Of POLL.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct PollFlags: u32 {
        /// The caller waits: notify it.
        #[doc(alias = "FUSE_POLL_SCHEDULE_NOTIFY")]
        const SCHEDULE_NOTIFY = 1;
    }

    /// Of a notification that drops a name.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct InvalidateEntryFlags: u32 {
        /// The name's time is over; the name stays until it is looked up.
        #[doc(alias = "FUSE_EXPIRE_ONLY")]
        const EXPIRE_ONLY = 1;
    }
}

/// What an open file may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// Reading.
    #[doc(alias = "O_RDONLY")]
    Read,
    /// Writing.
    #[doc(alias = "O_WRONLY")]
    Write,
    /// Both.
    #[doc(alias = "O_RDWR")]
    ReadWrite,
}

impl AccessMode {
    /// The mode within the flags of open(2). The value 3, which Linux opens for ioctls only, counts as both.
    pub fn of(flags: OFlags) -> Self {
        let mode = flags & OFlags::RWMODE;
        if mode == OFlags::RDONLY {
            Self::Read
        } else if mode == OFlags::WRONLY {
            Self::Write
        } else {
            Self::ReadWrite
        }
    }

    /// Whether the file may be read.
    pub const fn can_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether the file may be written.
    pub const fn can_write(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_modes_are_found_among_other_flags() {
        assert_eq!(AccessMode::of(OFlags::RDONLY | OFlags::APPEND), AccessMode::Read);
        assert_eq!(AccessMode::of(OFlags::WRONLY | OFlags::TRUNC), AccessMode::Write);
        assert_eq!(AccessMode::of(OFlags::RDWR), AccessMode::ReadWrite);
        assert_eq!(AccessMode::of(OFlags::from_bits_retain(3)), AccessMode::ReadWrite);
        assert!(AccessMode::Read.can_read() && !AccessMode::Read.can_write());
        assert!(!AccessMode::Write.can_read() && AccessMode::Write.can_write());
    }
}

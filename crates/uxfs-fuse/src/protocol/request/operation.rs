//! Operations and their values.

use rustix::fs::OFlags;
use uxfs_format::inode::{DeviceNumber, Timestamp};

use super::{extension::Extensions, forget::ForgetList};
use crate::protocol::{
    flags::{
        AccessMask, AttributeChanges, FallocateMode, FsyncFlags, IoctlFlags, LockFlags, OpenRequestFlags,
        PollFlags, ReleaseFlags, RenameFlags, SetExtendedAttributeFlags, SetExtendedAttributeMode,
        WriteFlags,
    },
    initialization::InitRequest,
    opcode::Opcode,
};

/// What a request asks for. Names are at least one byte long, and those of directory entries hold no slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// LOOKUP of this name in the node.
    Lookup(&'a [u8]),
    /// FORGET: so many lookups of the node are dropped. No reply.
    Forget(u64),
    /// BATCH_FORGET; the request is about no node. No reply.
    BatchForget(ForgetList<'a>),
    /// GETATTR, of an open file where there is one.
    GetAttributes(Option<u64>),
    /// SETATTR.
    SetAttributes(SetAttributes),
    /// STATX.
    Statx(Statx),
    /// READLINK.
    ReadLink,
    /// SYMLINK.
    SymbolicLink(SymbolicLink<'a>),
    /// MKNOD.
    MakeNode(MakeNode<'a>),
    /// MKDIR.
    MakeDirectory(MakeDirectory<'a>),
    /// UNLINK.
    Unlink(&'a [u8]),
    /// RMDIR.
    RemoveDirectory(&'a [u8]),
    /// RENAME.
    Rename(Rename<'a>),
    /// RENAME2.
    Rename2(Rename<'a>),
    /// LINK; the node is the new parent.
    Link(Link<'a>),
    /// OPEN.
    Open(Open),
    /// CREATE.
    Create(Create<'a>),
    /// TMPFILE; its name means nothing.
    TemporaryFile(Create<'a>),
    /// READ.
    Read(Read),
    /// WRITE.
    Write(Write<'a>),
    /// STATFS.
    StatFileSystem,
    /// RELEASE.
    Release(Release),
    /// FLUSH.
    Flush(Flush),
    /// FSYNC.
    Fsync(Fsync),
    /// FALLOCATE.
    Fallocate(Fallocate),
    /// LSEEK.
    Seek(Seek),
    /// COPY_FILE_RANGE: the reply has 32 bits.
    CopyFileRange(CopyFileRange),
    /// COPY_FILE_RANGE_64: the reply has 64 bits.
    CopyFileRange64(CopyFileRange),
    /// BMAP.
    BlockMap(BlockMap),
    /// SETXATTR.
    SetExtendedAttribute(SetExtendedAttribute<'a>),
    /// GETXATTR.
    GetExtendedAttribute(GetExtendedAttribute<'a>),
    /// LISTXATTR, with the room that the caller has; 0 asks for the size.
    ListExtendedAttributes(u32),
    /// REMOVEXATTR.
    RemoveExtendedAttribute(&'a [u8]),
    /// OPENDIR.
    OpenDirectory(Open),
    /// READDIR: the offset is a cookie.
    ReadDirectory(Read),
    /// READDIRPLUS: the offset is a cookie.
    ReadDirectoryPlus(Read),
    /// RELEASEDIR.
    ReleaseDirectory(Release),
    /// FSYNCDIR.
    FsyncDirectory(Fsync),
    /// SYNCFS.
    SyncFileSystem,
    /// GETLK.
    GetLock(LockRequest),
    /// SETLK.
    SetLock(LockRequest),
    /// SETLKW.
    SetLockWait(LockRequest),
    /// ACCESS.
    Access(AccessMask),
    /// IOCTL.
    Ioctl(Ioctl<'a>),
    /// POLL.
    Poll(Poll),
    /// INTERRUPT of this request. No reply, unless it is unknown.
    Interrupt(u64),
    /// INIT.
    Initialize(InitRequest),
    /// DESTROY.
    Destroy,
    /// NOTIFY_REPLY: the header names the notification. No reply.
    NotifyReply(NotifyReply<'a>),
    /// An operation that this server does not have, with what follows the header.
    Unknown(Opcode, &'a [u8]),
}

/// A new time of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeChange {
    /// The time of the server.
    Now,
    /// This time.
    At(Timestamp),
}

/// SETATTR. With nothing to change it is still answered with attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// What changes, as the kernel says it.
    pub changes: AttributeChanges,
    /// Open file.
    pub handle: Option<u64>,
    /// File type and permissions.
    pub mode: Option<u32>,
    /// Owner.
    pub user_id: Option<u32>,
    /// Group.
    pub group_id: Option<u32>,
    /// Size.
    pub size_bytes: Option<u64>,
    /// Last access.
    pub access: Option<TimeChange>,
    /// Last change of the contents.
    pub modification: Option<TimeChange>,
    /// Last change of the inode.
    pub change: Option<Timestamp>,
    /// Owner of locks.
    pub lock_owner: Option<u64>,
}

/// STATX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statx {
    /// Open file.
    pub handle: Option<u64>,
    /// Flags of statx(2).
    pub flags: u32,
    /// Attributes that the caller wants.
    pub mask: u32,
}

/// SYMLINK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolicLink<'a> {
    /// Name of the link.
    pub name: &'a [u8],
    /// Where it points.
    pub target: &'a [u8],
    /// Extensions.
    pub extensions: Extensions<'a>,
}

/// MKNOD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MakeNode<'a> {
    /// Name of the inode.
    pub name: &'a [u8],
    /// File type and permissions.
    pub mode: u32,
    /// Umask of the caller.
    pub umask: u32,
    /// Of a device file.
    pub device: DeviceNumber,
    /// Extensions.
    pub extensions: Extensions<'a>,
}

/// MKDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MakeDirectory<'a> {
    /// Name of the directory.
    pub name: &'a [u8],
    /// Permissions.
    pub mode: u32,
    /// Umask of the caller.
    pub umask: u32,
    /// Extensions.
    pub extensions: Extensions<'a>,
}

/// RENAME and RENAME2; the node is the old parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rename<'a> {
    /// Name in the old parent.
    pub name: &'a [u8],
    /// The new parent.
    pub new_parent: u64,
    /// Name in the new parent.
    pub new_name: &'a [u8],
    /// None with RENAME.
    pub flags: RenameFlags,
}

/// LINK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    /// The inode that gets another name.
    pub old_node_id: u64,
    /// The name.
    pub new_name: &'a [u8],
}

/// OPEN and OPENDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Flags of open(2).
    pub flags: OFlags,
    /// Of the kernel.
    pub request_flags: OpenRequestFlags,
}

/// CREATE and TMPFILE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Create<'a> {
    /// Name of the file.
    pub name: &'a [u8],
    /// Flags of open(2).
    pub flags: OFlags,
    /// Of the kernel.
    pub request_flags: OpenRequestFlags,
    /// File type and permissions.
    pub mode: u32,
    /// Umask of the caller.
    pub umask: u32,
    /// Extensions.
    pub extensions: Extensions<'a>,
}

/// READ, READDIR and READDIRPLUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Open file.
    pub handle: u64,
    /// First byte; the cookie of a directory record.
    pub offset_bytes: u64,
    /// Most bytes of the reply.
    pub size_bytes: u32,
    /// Owner of locks.
    pub lock_owner: Option<u64>,
    /// Flags of open(2).
    pub flags: OFlags,
}

/// WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    /// Open file.
    pub handle: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// The bytes.
    pub data: &'a [u8],
    /// Of the kernel.
    pub write_flags: WriteFlags,
    /// Owner of locks.
    pub lock_owner: Option<u64>,
    /// Flags of open(2).
    pub flags: OFlags,
}

/// RELEASE and RELEASEDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Open file.
    pub handle: u64,
    /// Flags of open(2).
    pub flags: OFlags,
    /// Of the kernel.
    pub release_flags: ReleaseFlags,
    /// Owner of locks.
    pub lock_owner: u64,
}

/// FLUSH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    /// Open file.
    pub handle: u64,
    /// Owner of locks.
    pub lock_owner: u64,
}

/// FSYNC and FSYNCDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fsync {
    /// Open file.
    pub handle: u64,
    /// Of the kernel.
    pub flags: FsyncFlags,
}

/// FALLOCATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fallocate {
    /// Open file.
    pub handle: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// Bytes of the range.
    pub size_bytes: u64,
    /// What happens to it.
    pub mode: FallocateMode,
}

/// What LSEEK looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekTarget {
    /// The next byte of data.
    #[doc(alias = "SEEK_DATA")]
    Data,
    /// The next byte of a hole; the end of the file is one.
    #[doc(alias = "SEEK_HOLE")]
    Hole,
}

/// LSEEK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seek {
    /// Open file.
    pub handle: u64,
    /// Where the search begins.
    pub offset_bytes: u64,
    /// What it looks for.
    pub target: SeekTarget,
}

/// COPY_FILE_RANGE and COPY_FILE_RANGE_64; the node is the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyFileRange {
    /// Open source file.
    pub source_handle: u64,
    /// First byte of the source.
    pub source_offset_bytes: u64,
    /// The target node.
    pub target_node_id: u64,
    /// Open target file.
    pub target_handle: u64,
    /// First byte of the target.
    pub target_offset_bytes: u64,
    /// Bytes to copy; it may be far more than the source has.
    pub size_bytes: u64,
    /// Flags of copy_file_range(2).
    pub flags: u64,
}

/// BMAP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockMap {
    /// Block of the file.
    pub block: u64,
    /// Size of a block.
    pub block_size_bytes: u32,
}

/// SETXATTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetExtendedAttribute<'a> {
    /// Name, with its prefix.
    pub name: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// Whether the attribute may or must exist.
    pub mode: SetExtendedAttributeMode,
    /// Of the kernel.
    pub flags: SetExtendedAttributeFlags,
}

/// GETXATTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetExtendedAttribute<'a> {
    /// Name, with its prefix.
    pub name: &'a [u8],
    /// Room that the caller has; 0 asks for the size.
    pub size_bytes: u32,
}

/// What a lock does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Shared.
    #[doc(alias = "F_RDLCK")]
    Read,
    /// Exclusive.
    #[doc(alias = "F_WRLCK")]
    Write,
    /// None: it is released.
    #[doc(alias = "F_UNLCK")]
    Unlock,
}

impl LockKind {
    const READ: u32 = 0;
    const WRITE: u32 = 1;
    const UNLOCK: u32 = 2;

    /// The kind with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            Self::READ => Self::Read,
            Self::WRITE => Self::Write,
            Self::UNLOCK => Self::Unlock,
            _ => return None,
        })
    }

    /// The number in a lock.
    pub const fn number(self) -> u32 {
        match self {
            Self::Read => Self::READ,
            Self::Write => Self::WRITE,
            Self::Unlock => Self::UNLOCK,
        }
    }
}

/// A lock of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// First byte.
    pub start_bytes: u64,
    /// Last byte.
    pub last_bytes: u64,
    /// What it does.
    pub kind: LockKind,
    /// Process that holds it.
    pub process_id: u32,
}

/// GETLK, SETLK and SETLKW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRequest {
    /// Open file.
    pub handle: u64,
    /// Owner of the lock.
    pub owner: u64,
    /// The lock.
    pub lock: Lock,
    /// Of the kernel.
    pub flags: LockFlags,
}

/// IOCTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ioctl<'a> {
    /// Open file.
    pub handle: u64,
    /// Of the kernel.
    pub flags: IoctlFlags,
    /// Number of the ioctl.
    pub command: u32,
    /// Argument of ioctl(2): an address of the caller, or a number.
    pub argument: u64,
    /// Input.
    pub input: &'a [u8],
    /// Most bytes of output.
    pub output_bytes: u32,
}

/// POLL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Open file.
    pub handle: u64,
    /// Names the wait in a notification.
    pub poll_handle: u64,
    /// Of the kernel.
    pub flags: PollFlags,
    /// Events of poll(2).
    pub events: u32,
}

/// NOTIFY_REPLY: data of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotifyReply<'a> {
    /// First byte.
    pub offset_bytes: u64,
    /// The data.
    pub data: &'a [u8],
}

//! Facts of one file that are known before its data is read, in terms that any sink understands.

/// A point in time. `seconds` counts from 1970 and may be negative; `nanoseconds` always counts forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timestamp {
    /// Whole seconds since 1970, rounded down.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// Identity, owner, permissions and times: what every kind of file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metadata {
    /// Inode number: the same for all names of a file.
    pub inode: u64,
    /// How many names the file says it has.
    pub link_count: u32,
    /// The low twelve bits of the mode: permissions, set-ID bits, sticky bit.
    pub permissions: u16,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of the contents.
    pub modified: Timestamp,
    /// Last change of the inode. Archives carry it; nothing can set it.
    pub changed: Timestamp,
    /// Has flags such as immutable or append-only, or a project, which are not carried over.
    pub has_inode_flags: bool,
}

/// An extended attribute under the name that `getxattr` takes: `user.a`, `security.selinux`,
/// `system.posix_acl_access`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// With its prefix.
    pub name: Vec<u8>,
    /// As `getxattr` gives it.
    pub value: Vec<u8>,
}

/// Name of the access list in the VFS.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of a directory's default list in the VFS.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// A device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Device {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

/// A special file that has no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Character device.
    CharacterDevice(Device),
    /// Block device.
    BlockDevice(Device),
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

/// Type of the file, with the facts that only this type has.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// Its entries follow, until [`Encoder::end_directory`](crate::sink::Encoder::end_directory).
    Directory,
    /// Its data follows, until [`Encoder::end_file`](crate::sink::Encoder::end_file).
    File(&'a crate::layout::FileLayout),
    /// Its target.
    Symlink(&'a [u8]),
    /// Another name of what was given before under this path.
    HardLink {
        /// The earlier path.
        target: &'a [u8],
        /// The file is a device node, which may have been impossible to make.
        is_device: bool,
    },
    /// Device, fifo or socket.
    Special(Special),
}

/// One file, directory or other object on its way to a sink.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Path below the place of extraction: components joined by `/`, none of them empty, `.` or `..`. Empty for the
    /// place itself.
    pub path: &'a [u8],
    /// Owner, permissions, times.
    pub metadata: &'a Metadata,
    /// Extended attributes and ACLs.
    pub attributes: &'a [Attribute],
    /// Kind and contents.
    pub body: Body<'a>,
}

impl Entry<'_> {
    /// The last component of the path.
    pub fn name(&self) -> &[u8] {
        last_component(self.path)
    }
}

/// The part of `path` behind its last `/`.
pub fn last_component(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Whether `name` can be one component of a path. The others would lead out of the directory, or be cut short by C.
pub fn is_safe_component(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

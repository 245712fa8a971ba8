//! One file as sources describe it.

use crate::content::Content;

/// Names a directory within its source, each with a number of its own, 0 for the root. A directory of the host is numbered
/// in the order in which entries are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub u64);

impl DirectoryId {
    /// The top of the tree.
    pub const ROOT: Self = Self(0);
}

/// Seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Negative before 1970.
    pub seconds: i64,
    /// Always forward from the second, below one thousand million.
    pub nanoseconds: u32,
}

/// The times of a file. What a source does not say is the modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Last read.
    pub access: Timestamp,
    /// Last change of the content.
    pub modification: Timestamp,
    /// Last change of anything.
    pub change: Timestamp,
    /// Made; where the source knows.
    pub creation: Option<Timestamp>,
}

impl Times {
    /// All the same; the creation time unknown.
    pub fn all(time: Timestamp) -> Self {
        Self { access: time, modification: time, change: time, creation: None }
    }
}

/// An extended attribute. POSIX ACLs are attributes too, in the form in which the kernel's calls take them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attribute {
    /// With its namespace: `user.mime_type`, `security.capability`, `system.posix_acl_access`.
    pub name: Box<[u8]>,
    /// Any bytes.
    pub value: Box<[u8]>,
}

/// Attribute that holds the access ACL.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Attribute that holds the ACL that new files in a directory get.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";
/// Attribute that holds the SELinux label, with a NUL at its end.
pub const SELINUX_LABEL: &[u8] = b"security.selinux";

/// Which file a name belongs to, where it may have more names. Two entries with the same device and inode are the same
/// file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkIdentity {
    /// The file system of the host.
    pub device: u64,
    /// The inode there.
    pub inode: u64,
    /// How many names it has there; some of them may lie outside the tree.
    pub links: u32,
}

/// Metadata that every file has, whatever its type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// The lower twelve bits: permissions, set-ID, sticky.
    pub mode: u16,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Times.
    pub times: Times,
    /// Extended attributes in byte order of their names, each name once.
    pub attributes: Vec<Attribute>,
    /// Where the source tells of more names than one.
    pub link: Option<LinkIdentity>,
}

impl Metadata {
    /// The attribute of this name.
    pub fn attribute(&self, name: &[u8]) -> Option<&[u8]> {
        self.attributes.iter().find(|attribute| &*attribute.name == name).map(|attribute| &*attribute.value)
    }

    /// Adds an attribute, or replaces the one of this name.
    pub fn set_attribute(&mut self, name: &[u8], value: &[u8]) {
        match self.attributes.binary_search_by(|attribute| (*attribute.name).cmp(name)) {
            Ok(found) => {
                if let Some(attribute) = self.attributes.get_mut(found) {
                    attribute.value = value.into();
                }
            }
            Err(place) => self.attributes.insert(place, Attribute { name: name.into(), value: value.into() }),
        }
    }

    /// Gives the mode the permissions that the access ACL has, as the kernel does when an ACL is set: the group's bits are
    /// the mask. Some archives (bsdtar's) and manifests say something else.
    pub fn follow_acl(&mut self) {
        if let Some(permissions) = self.attribute(ACL_ACCESS).and_then(acl_permissions) {
            self.mode = (self.mode & 0o7000) | permissions;
        }
    }

    /// Sets the mode as `chmod` does: an access ACL goes with it.
    pub fn change_mode(&mut self, mode: u16) {
        self.mode = mode & 0o7777;
        let acl = self.attributes.iter_mut().find(|attribute| &*attribute.name == ACL_ACCESS);
        let Some(entries) = acl.and_then(|acl| acl.value.get_mut(4..)) else { return };
        let has_mask = entries.chunks_exact(8).any(|entry| entry.starts_with(&[0x10, 0]));
        for entry in entries.chunks_exact_mut(8) {
            let bits = match entry {
                [0x01, 0, ..] => mode >> 6,
                [0x04, 0, ..] if !has_mask => mode >> 3,
                [0x10, 0, ..] => mode >> 3,
                [0x20, 0, ..] => mode,
                _ => continue,
            };
            if let Some(permissions) = entry.get_mut(2..4) {
                permissions.copy_from_slice(&(bits & 7).to_le_bytes());
            }
        }
    }

    /// Takes away the attribute of this name.
    pub fn remove_attribute(&mut self, name: &[u8]) {
        self.attributes.retain(|attribute| &*attribute.name != name);
    }
}

/// Permissions of owner, mask or group, and others in the value of an access ACL; `None` where it is none.
fn acl_permissions(value: &[u8]) -> Option<u16> {
    let (version, entries) = value.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != 2 {
        return None;
    }
    let (mut owner, mut group, mut mask, mut other) = (None, None, None, None);
    for entry in entries.chunks_exact(8) {
        let (tag, rest) = entry.split_first_chunk::<2>()?;
        let bits = Some(u16::from_le_bytes(*rest.first_chunk::<2>()?) & 7);
        match u16::from_le_bytes(*tag) {
            0x01 => owner = bits,
            0x04 => group = bits,
            0x10 => mask = bits,
            0x20 => other = bits,
            _ => {}
        }
    }
    Some(owner? << 6 | mask.or(group)? << 3 | other?)
}

/// Major and minor number of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct DeviceNumber {
    /// Driver.
    pub major: u32,
    /// Device of the driver.
    pub minor: u32,
}

/// Type of an entry, with the facts that only this type has.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A directory. In a tree its entries follow in a batch of their own, always at least one, even if empty.
    Directory(DirectoryId),
    /// A regular file.
    Regular {
        /// Its size, holes included.
        size_bytes: u64,
        /// Where its bytes are.
        content: Content,
    },
    /// A symbolic link.
    Symlink {
        /// Not interpreted; at most 4095 bytes where the host made it.
        target: Box<[u8]>,
    },
    /// A character device.
    CharacterDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A named pipe.
    Fifo,
    /// A socket's name.
    Socket,
    /// Another name of a file that came earlier: its cleaned path. Only streams have these; trees tell a
    /// [`LinkIdentity`]. The metadata beside it is what the archive says, usually the same as the file's.
    HardLink {
        /// As in [`StreamEntry::path`](crate::stream::StreamEntry::path).
        target: Box<[u8]>,
    },
}

impl Kind {
    /// A word for messages.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Directory(_) => "directory",
            Self::Regular { .. } => "regular file",
            Self::Symlink { .. } => "symbolic link",
            Self::CharacterDevice(_) => "character device",
            Self::BlockDevice(_) => "block device",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::HardLink { .. } => "hard link",
        }
    }
}

/// One name in a directory of a tree.
#[derive(Debug, Clone)]
pub struct Entry {
    /// One component, without slashes, not `.` or `..`.
    pub name: Box<[u8]>,
    /// Owner, mode, times, attributes.
    pub metadata: Metadata,
    /// Its type.
    pub kind: Kind,
}

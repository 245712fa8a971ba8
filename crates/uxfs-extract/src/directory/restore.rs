//! Owner, attributes, mode and times of what has been made.

use std::{
    fmt,
    fs::{File, Permissions},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::{PermissionsExt, fchown},
    },
};

use rustix::{
    fs::{
        AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, fchmod,
        fgetxattr_query, fremovexattr, fsetxattr, futimens, openat, removexattr, setxattr, utimensat,
    },
    io::Errno,
};

use uxfs_block::preload;

use super::create::OutputName;
use crate::{
    entry::{ACL_ACCESS, ACL_DEFAULT, Attribute, Metadata, Timestamp},
    report::{Aspect, Observer, Problem, Severity},
};

const SET_ID: u16 = 0o6000;

/// How to reach what has been made.
#[derive(Debug)]
pub enum Handle<'a> {
    /// A file or directory, open.
    Open(BorrowedFd<'a>),
    /// A symbolic link or special file, which must not be opened; and its path by descriptor, for those calls that
    /// take nothing else.
    Named { place: OutputName<'a>, reference: OwnedFd, path: String, is_symlink: bool },
}

impl<'a> Handle<'a> {
    /// Of something that must not be opened.
    pub fn named(place: OutputName<'a>, is_symlink: bool) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let reference = openat(place.directory, place.name, flags, Mode::empty())?;
        // The kernel leads this path to the very inode, even of a symbolic link.
        let path = format!("/proc/self/fd/{}", reference.as_raw_fd());
        Ok(Self::Named { place, reference, path, is_symlink })
    }

    fn set_owner(&self, metadata: &Metadata) -> Result<(), Errno> {
        // All ones stand for "as it is" in the call; no file has such an owner.
        let user = (metadata.user != u32::MAX).then(|| Uid::from_raw(metadata.user));
        let group = (metadata.group != u32::MAX).then(|| Gid::from_raw(metadata.group));
        match self {
            // Not rustix's, which asks the system itself: fakeroot and pseudo must hear of it.
            Self::Open(descriptor) => {
                let (user, group) = (user.map(Uid::as_raw), group.map(Gid::as_raw));
                fchown(descriptor, user, group).map_err(errno)
            }
            Self::Named { reference, .. } => {
                chownat(reference, c"", user, group, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)
            }
        }
    }

    fn set_attribute(&self, attribute: &Attribute) -> Result<(), Errno> {
        let (name, value) = (attribute.name.as_slice(), attribute.value.as_slice());
        match self {
            Self::Open(descriptor) => fsetxattr(descriptor, name, value, XattrFlags::empty()),
            Self::Named { path, .. } => setxattr(path.as_str(), name, value, XattrFlags::empty()),
        }
    }

    fn remove_attribute(&self, name: &[u8]) {
        // Failing means that there was none.
        let _ = match self {
            Self::Open(descriptor) => fremovexattr(descriptor, name),
            Self::Named { path, .. } => removexattr(path.as_str(), name),
        };
    }

    fn set_mode(&self, permissions: u16) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(u32::from(permissions));
        match self {
            Self::Open(descriptor) if preload::is_loaded() => {
                let file = File::from(descriptor.try_clone_to_owned().map_err(errno)?);
                file.set_permissions(Permissions::from_mode(permissions.into())).map_err(errno)
            }
            Self::Open(descriptor) => fchmod(descriptor, mode),
            Self::Named { is_symlink: true, .. } => Ok(()),
            Self::Named { path, .. } => chmod(path.as_str(), mode),
        }
    }

    fn set_times(&self, metadata: &Metadata) -> Result<(), Errno> {
        let times = Timestamps {
            last_access: timespec(metadata.accessed),
            last_modification: timespec(metadata.modified),
        };
        match self {
            Self::Open(descriptor) => futimens(descriptor, &times),
            Self::Named { place, .. } => {
                utimensat(place.directory, place.name, &times, AtFlags::SYMLINK_NOFOLLOW)
            }
        }
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn timespec(time: Timestamp) -> Timespec {
    Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() }
}

/// Whether files made in `directory` inherit an ACL, which must be taken from them again.
pub fn has_default_acl(directory: BorrowedFd<'_>) -> bool {
    fgetxattr_query(directory, ACL_DEFAULT).is_ok_and(|length| length > 0)
}

/// The metadata to restore.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// For messages.
    pub path: &'a [u8],
    pub metadata: &'a Metadata,
    pub attributes: &'a [Attribute],
    pub is_directory: bool,
    /// The directory above has given it a list that is not its own.
    pub inherited_acl: bool,
}

/// Sets everything that is wanted on what `handle` reaches, in the order that loses nothing: a new owner clears set-ID
/// bits and capabilities, and read-only files take no attributes. Tells the observer what could not be set.
pub fn restore(handle: &Handle<'_>, wanted: &Wanted<'_>, observer: &mut dyn Observer) {
    let mut tell = |aspect: Aspect, reason: &dyn fmt::Display| {
        observer.problem(Problem::new(wanted.path, Severity::NotRestored, aspect, reason));
    };
    let metadata = wanted.metadata;
    let mut permissions = metadata.permissions;
    if let Err(error) = handle.set_owner(metadata) {
        let owner = format!("{}:{}: {}", metadata.user, metadata.group, io::Error::from(error));
        tell(Aspect::Owner, &owner);
        if permissions & SET_ID != 0 && !wanted.is_directory {
            permissions &= !SET_ID;
            tell(Aspect::SetId, &"the owner is another one");
        }
    }
    if wanted.inherited_acl {
        handle.remove_attribute(ACL_ACCESS);
        handle.remove_attribute(ACL_DEFAULT);
    }
    for attribute in wanted.attributes {
        if let Err(error) = handle.set_attribute(attribute) {
            let is_acl = matches!(attribute.name.as_slice(), ACL_ACCESS | ACL_DEFAULT);
            let aspect = if is_acl { Aspect::Acl } else { Aspect::Attribute };
            let name = String::from_utf8_lossy(&attribute.name);
            tell(aspect, &format!("{name}: {}", io::Error::from(error)));
        }
    }
    if let Err(error) = handle.set_mode(permissions) {
        tell(Aspect::Mode, &io::Error::from(error));
    }
    if let Err(error) = handle.set_times(metadata) {
        tell(Aspect::Times, &io::Error::from(error));
    }
    if metadata.has_inode_flags {
        tell(Aspect::InodeFlags, &"not carried over");
    }
}

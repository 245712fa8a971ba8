//! The options of a mount as mount(2) and fusermount3 take them.

use std::{
    ffi::{CString, OsStr, OsString},
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
};

use rustix::{
    mount::MountFlags,
    process::{Gid, Uid},
};

use super::{AccessTimes, FuseMountOptions, list::escaped};
use crate::transport::lending::MOST_LENT_BYTES;

/// The type bits of a directory's mode, which the kernel wants to know before it can ask for the root.
const ROOT_MODE: u32 = 0o040_000;
/// The block size of a mounted device: the kernel's default is 512 bytes.
const DEVICE_BLOCK_BYTES: u32 = 4096;

/// What the data of mount(2) names besides the options.
#[derive(Debug, Clone, Copy)]
pub struct MountOwner {
    /// The user that mounts.
    pub user: Uid,
    /// The group of that user.
    pub group: Gid,
}

impl MountOwner {
    /// The user and the group of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self { user: rustix::process::getuid(), group: rustix::process::getgid() }
    }
}

impl FuseMountOptions {
    /// The flags for mount(2).
    #[must_use]
    pub fn mount_flags(&self) -> MountFlags {
        let times = match self.access_times {
            AccessTimes::Never => MountFlags::NOATIME,
            AccessTimes::Relative => MountFlags::RELATIME,
            AccessTimes::Always => MountFlags::STRICTATIME,
        };
        let mut flags = times;
        for (is_set, flag) in [
            (self.is_read_only, MountFlags::RDONLY),
            (!self.allows_set_user_id, MountFlags::NOSUID),
            (!self.allows_devices, MountFlags::NODEV),
            (!self.allows_programs, MountFlags::NOEXEC),
            (!self.has_directory_access_times, MountFlags::NODIRATIME),
            (self.has_lazy_times, MountFlags::LAZYTIME),
            (self.is_synchronous, MountFlags::SYNCHRONOUS),
            (self.has_synchronous_directories, MountFlags::DIRSYNC),
        ] {
            flags.set(flag, is_set);
        }
        flags
    }

    /// The data for mount(2). It holds numbers and flags only, and fits any kernel's limit.
    #[must_use]
    pub fn kernel_data(&self, device: BorrowedFd<'_>, owner: MountOwner, is_block_device: bool) -> CString {
        let mut data = format!(
            "fd={},rootmode={ROOT_MODE:o},user_id={},group_id={},default_permissions",
            device.as_raw_fd(),
            owner.user.as_raw(),
            owner.group.as_raw()
        );
        if self.allows_other_users.unwrap_or(true) {
            data.push_str(",allow_other");
        }
        data.push_str(&format!(",max_read={}", self.longest_read_bytes()));
        if is_block_device {
            data.push_str(&format!(",blksize={DEVICE_BLOCK_BYTES}"));
        }
        // No NUL is among them.
        CString::new(data).unwrap_or_default()
    }

    /// Longer reads could not be lent.
    fn longest_read_bytes(&self) -> u32 {
        self.max_read_bytes.unwrap_or(MOST_LENT_BYTES)
    }

    /// The type for mount(2).
    #[must_use]
    pub fn file_system_type(&self, is_block_device: bool) -> String {
        format!("{}.{}", if is_block_device { "fuseblk" } else { "fuse" }, self.subtype)
    }

    /// The source that the table of mounts names for an image.
    #[must_use]
    pub fn source_text(&self, image: &OsStr) -> OsString {
        match &self.source_name {
            Some(name) => name.into(),
            None if image.is_empty() => self.subtype.clone().into(),
            None => image.to_owned(),
        }
    }

    /// The list for `fusermount3 -o`. It takes fewer words than mount(2) has flags, and sets `nosuid` and `nodev` itself.
    #[must_use]
    pub fn fusermount_list(&self, image: &OsStr) -> OsString {
        let mut list = b"default_permissions".to_vec();
        for (is_set, word) in [
            (self.is_read_only, "ro"),
            (self.allows_set_user_id, "suid"),
            (self.allows_devices, "dev"),
            (!self.allows_programs, "noexec"),
            (self.access_times == AccessTimes::Never, "noatime"),
            (self.is_synchronous, "sync"),
            (self.has_synchronous_directories, "dirsync"),
            (self.allows_other_users == Some(true), "allow_other"),
        ] {
            if is_set {
                list.push(b',');
                list.extend_from_slice(word.as_bytes());
            }
        }
        list.extend_from_slice(format!(",max_read={}", self.longest_read_bytes()).as_bytes());
        list.extend_from_slice(b",subtype=");
        list.extend(escaped(self.subtype.as_bytes()));
        list.extend_from_slice(b",fsname=");
        list.extend(escaped(self.source_text(image).as_bytes()));
        OsString::from_vec(list)
    }
}

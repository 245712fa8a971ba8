//! The kernel's table of mounts, `/proc/self/mountinfo`.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::{self, File},
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::makedev,
    io::Errno,
    mount::MountFlags,
};

const PATH: &str = "/proc/self/mountinfo";

/// Number of the device that a file system shows: a real one, or one that the kernel made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// The major number; 0 where the kernel made it up.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
}

impl DeviceNumber {
    fn parse(text: &[u8]) -> Option<Self> {
        let (major, minor) = std::str::from_utf8(text).ok()?.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// As stat(2) has it.
    #[must_use]
    pub fn number(self) -> u64 {
        makedev(self.major, self.minor)
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.major, self.minor)
    }
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// The kernel's number of the mount.
    pub id: u64,
    /// The number of the mount that it lies on.
    pub parent_id: u64,
    /// The device number of the file system.
    pub device: DeviceNumber,
    /// Which directory of the file system is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Options of the mount: `rw,nosuid,relatime`.
    pub mount_options: String,
    /// Type of the file system: `fuse.uxfs`.
    pub file_system_type: String,
    /// The device, or a text that stands for it.
    pub source: OsString,
    /// Options of the file system: `rw,user_id=0`.
    pub file_system_options: String,
}

impl MountEntry {
    /// A line of the table; `None` if it is none.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut next = || fields.next().map(unescape);
        let (id, parent_id) = (number(&next()?)?, number(&next()?)?);
        let device = DeviceNumber::parse(&next()?)?;
        let (root, mount_point, mount_options) = (next()?, next()?, next()?);
        // Optional fields follow, and a dash that ends them.
        while next()? != b"-" {}
        let (file_system_type, source, file_system_options) = (next()?, next()?, next()?);
        Some(Self {
            id,
            parent_id,
            device,
            root: OsString::from_vec(root).into(),
            mount_point: OsString::from_vec(mount_point).into(),
            mount_options: text(&mount_options),
            file_system_type: text(&file_system_type),
            source: OsString::from_vec(source),
            file_system_options: text(&file_system_options),
        })
    }

    /// Whether another look at the table shows the same mount, with whatever options. The kernel gives the numbers of a mount
    /// that has gone to the next one, of any type.
    #[must_use]
    pub fn is_same_mount(&self, other: &Self) -> bool {
        let key = |entry: &Self| (entry.id, entry.device);
        key(self) == key(other)
            && self.mount_point == other.mount_point
            && self.file_system_type == other.file_system_type
            && self.source == other.source
    }

    /// Whether a FUSE server stands behind it.
    #[must_use]
    pub fn is_fuse(&self) -> bool {
        let kind = self.file_system_type.split('.').next();
        matches!(kind, Some("fuse" | "fuseblk"))
    }

    /// The user that mounted it, where a FUSE server stands behind it.
    #[must_use]
    pub fn user_id(&self) -> Option<u32> {
        let mut options = self.file_system_options.split(',');
        options.find_map(|option| option.strip_prefix("user_id=")?.parse().ok())
    }

    /// Whether the kernel refuses changes, for this mount or for the whole file system.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        let mut options = self.mount_options.split(',').chain(self.file_system_options.split(','));
        options.any(|option| option == "ro")
    }

    /// The options as flags of mount(2), for a remount that is to keep them.
    #[must_use]
    pub fn flags(&self) -> MountFlags {
        let mut flags = MountFlags::empty();
        for option in self.mount_options.split(',').chain(self.file_system_options.split(',')) {
            flags |= match option {
                "ro" => MountFlags::RDONLY,
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                "sync" => MountFlags::SYNCHRONOUS,
                "dirsync" => MountFlags::DIRSYNC,
                "lazytime" => MountFlags::LAZYTIME,
                _ => MountFlags::empty(),
            };
        }
        // The table has no word for it.
        if !flags.intersects(MountFlags::NOATIME | MountFlags::RELATIME) {
            flags |= MountFlags::STRICTATIME;
        }
        flags
    }
}

/// All mounts that this process sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountTable(Vec<MountEntry>);

impl MountTable {
    /// The table as it is now.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&fs::read(PATH)?))
    }

    /// A table from its text. Lines that are none are left out.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(MountEntry::parse).collect())
    }

    /// The mounts, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &MountEntry> {
        self.0.iter()
    }

    /// The mount at a canonical path that is seen there: the uppermost, where several lie on each other.
    #[must_use]
    pub fn at(&self, mount_point: &Path) -> Option<&MountEntry> {
        let at_path = || self.0.iter().filter(|entry| entry.mount_point == mount_point);
        let is_covered = |entry: &MountEntry| at_path().any(|above| above.parent_id == entry.id);
        at_path().rfind(|entry| !is_covered(entry))
    }

    /// Whether a mount is still there, also below others.
    #[must_use]
    pub fn holds(&self, mount: &MountEntry) -> bool {
        self.0.iter().any(|entry| entry.is_same_mount(mount))
    }
}

/// Waits until a mount has gone. Gives whether that happened within `limit`.
///
/// A lazy unmount takes a mount out of the table at once, though programs may still use it.
///
/// # Errors
/// The table cannot be read.
pub fn wait_until_gone(mount: &MountEntry, limit: Option<Duration>) -> io::Result<bool> {
    // A limit beyond the end of time is none.
    let end = limit.and_then(|limit| Instant::now().checked_add(limit));
    // Opened before the table is read: a change between the two wakes the first wait.
    let watched = File::open(PATH)?;
    loop {
        if !MountTable::read()?.holds(mount) {
            return Ok(true);
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(false);
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&watched, PollFlags::PRI)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Blanks, tabs, newlines and backslashes are octal in the table: `\040`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        match after.split_first_chunk::<3>() {
            Some((digits, behind)) if *byte == b'\\' && octal(digits).is_some() => {
                bytes.extend(octal(digits));
                rest = behind;
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    bytes
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    let digit = |digit: &u8| matches!(digit, b'0'..=b'7');
    let text = digits.iter().all(digit).then(|| std::str::from_utf8(digits).ok())?;
    u8::from_str_radix(text?, 8).ok()
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn text(field: &[u8]) -> String {
    OsStr::from_bytes(field).to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "mount_table_tests.rs"]
mod tests;

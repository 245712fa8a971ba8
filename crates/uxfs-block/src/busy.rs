//! Whether a device is in use: mounted, as swap space, or through a loop device.

use std::{
    fs,
    ops::Range,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use crate::loop_devices::{LoopDevice, device_number, linked_devices, parse_device, sysfs_folder};

/// How something is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// Mounted there.
    Mounted(PathBuf),
    /// As swap space.
    Swap,
    /// A loop device is attached to it for writing.
    Attached(PathBuf),
}

/// Which file or device is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    File { device: u64, inode: u64 },
    Block { device: u64 },
}

impl Identity {
    /// The identity of the file that `metadata` describes.
    pub fn of(metadata: &fs::Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::Block { device: metadata.rdev() }
        } else {
            Self::File { device: metadata.dev(), inode: metadata.ino() }
        }
    }

    /// The identity of the file at `path`.
    pub fn at(path: &Path) -> Option<Self> {
        Some(Self::of(&fs::metadata(path).ok()?))
    }
}

/// Finds swap space or a mount on a file or device, also through loop devices and volumes on it.
///
/// Without `/proc` or `/sys` an image counts as not in use: a block device is opened exclusively
/// besides. `own_mount`: the number of a FUSE mount that does not count.
pub(crate) fn find(identity: Identity, loops: &[LoopDevice], own_mount: Option<u64>) -> Option<Use> {
    if is_swap(identity) {
        return Some(Use::Swap);
    }
    let devices = devices_on(identity, loops);
    if devices.is_empty() { None } else { find_mount(&devices, own_mount).map(Use::Mounted) }
}

/// The loop devices other than `own` that are attached to some of these bytes of a file or device.
pub(crate) fn loop_devices_on<'a>(
    identity: Identity,
    range: &Range<u64>,
    own: Option<u64>,
    loops: &'a [LoopDevice],
) -> impl Iterator<Item = &'a LoopDevice> {
    let Range { start, end } = *range;
    loops.iter().filter(move |found| {
        found.backing == identity
            && Some(found.device) != own
            && found.range.start < end
            && start < found.range.end
    })
}

/// The device itself, the loop devices on it with their partitions, what holds it (a volume, a RAID), and those on them.
fn devices_on(target: Identity, loops: &[LoopDevice]) -> Vec<u64> {
    let mut devices = Vec::new();
    let mut pending = vec![target];
    while let Some(identity) = pending.pop() {
        if let Identity::Block { device } = identity {
            if devices.contains(&device) {
                continue;
            }
            devices.push(device);
            let holders = linked_devices(device, "holders").into_iter();
            pending.extend(holders.map(|device| Identity::Block { device }));
        }
        for found in loops.iter().filter(|found| found.backing == identity) {
            let all = found.partitions.iter().chain([&found.device]);
            pending.extend(all.map(|device| Identity::Block { device: *device }));
        }
    }
    devices
}

fn is_swap(identity: Identity) -> bool {
    let list = fs::read_to_string("/proc/swaps").unwrap_or_default();
    list.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .any(|path| Identity::at(Path::new(&unescape(path))) == Some(identity))
}

/// Where one of `devices`, or a partition of one, is mounted.
fn find_mount(devices: &[u64], own_mount: Option<u64>) -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (number, place) = (fields.get(2)?, fields.get(4)?);
        let dash = fields.iter().position(|field| *field == "-")?;
        if own_mount.is_some()
            && parse_device(number) == own_mount
            && fields.get(dash + 1)?.starts_with("fuse")
        {
            return None;
        }
        // Some file systems (btrfs) have numbers of their own; the source then names the device.
        let source = fields.get(dash + 2);
        let by_source = || match Identity::at(Path::new(&unescape(source?))) {
            Some(Identity::Block { device }) => Some(device),
            _ => None,
        };
        let is_used =
            |device: u64| devices.iter().any(|target| *target == device || is_part(*target, device));
        let is_ours = parse_device(number).is_some_and(is_used) || by_source().is_some_and(is_used);
        is_ours.then(|| PathBuf::from(unescape(place)))
    })
}

/// Whether `device` is a partition of `whole`.
fn is_part(whole: u64, device: u64) -> bool {
    let folder = sysfs_folder(device);
    if !folder.join("partition").exists() {
        return false;
    }
    let parent = fs::canonicalize(folder).ok().and_then(|path| path.parent().map(Path::to_path_buf));
    parent.and_then(|parent| device_number(&parent)) == Some(whole)
}

/// The tables of the kernel write blanks as `\040`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) if *byte == b'\\' => {
                bytes.push(value);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_come_back() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescape("/plain\\"), "/plain\\");
    }

    #[test]
    fn a_file_of_nobody_is_not_in_use() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let identity = Identity::of(&file.as_file().metadata().unwrap());
        assert_eq!(find(identity, &crate::loop_devices::attached(), None), None);
    }
}

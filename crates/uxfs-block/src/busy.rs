//! Whether somebody uses a device: mounted, as swap space, or through a loop device that is.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{major, minor};

/// How something is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// Mounted there.
    Mounted(PathBuf),
    /// As swap space.
    Swap,
}

/// Which file or device is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    File { device: u64, inode: u64 },
    Block { device: u64 },
}

/// Finds a use of the file or device that `metadata` belongs to.
///
/// What the system does not tell (no `/proc`, no `/sys`) counts as no use: a block device is opened exclusively
/// besides.
pub fn find(metadata: &fs::Metadata) -> Option<Use> {
    let identity = if metadata.file_type().is_block_device() {
        Identity::Block { device: metadata.rdev() }
    } else {
        Identity::File { device: metadata.dev(), inode: metadata.ino() }
    };
    if is_swap(identity) {
        return Some(Use::Swap);
    }
    let devices = devices_on(identity);
    if devices.is_empty() { None } else { find_mount(&devices).map(Use::Mounted) }
}

/// The device itself, the loop devices on it with their partitions, what holds it (a volume, a RAID), and those on them.
fn devices_on(target: Identity) -> Vec<u64> {
    let mut devices = Vec::new();
    let mut pending = vec![target];
    while let Some(identity) = pending.pop() {
        if let Identity::Block { device } = identity {
            if devices.contains(&device) {
                continue;
            }
            devices.push(device);
            pending.extend(holders(device).into_iter().map(|device| Identity::Block { device }));
        }
        pending.extend(loop_devices(identity).into_iter().map(|device| Identity::Block { device }));
    }
    devices
}

fn identity_of(path: &Path) -> Option<Identity> {
    let metadata = fs::metadata(path).ok()?;
    Some(if metadata.file_type().is_block_device() {
        Identity::Block { device: metadata.rdev() }
    } else {
        Identity::File { device: metadata.dev(), inode: metadata.ino() }
    })
}

fn is_swap(identity: Identity) -> bool {
    let list = fs::read_to_string("/proc/swaps").unwrap_or_default();
    list.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .any(|path| identity_of(Path::new(&unescape(path))) == Some(identity))
}

/// Devices that are made of this one.
fn holders(device: u64) -> Vec<u64> {
    let folder = PathBuf::from(format!("/sys/dev/block/{}:{}/holders", major(device), minor(device)));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| device_number(&entry.path())).collect()
}

/// The loop devices on a file or device, with their partitions.
fn loop_devices(backing: Identity) -> Vec<u64> {
    let mut devices = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let folder = entry.path();
        let Ok(path) = fs::read_to_string(folder.join("loop/backing_file")) else { continue };
        if identity_of(Path::new(path.trim_end_matches('\n'))) != Some(backing) {
            continue;
        }
        devices.extend(device_number(&folder));
        let partitions = fs::read_dir(&folder).into_iter().flatten().flatten();
        devices.extend(
            partitions
                .map(|entry| entry.path())
                .filter(|path| path.join("partition").exists())
                .filter_map(|path| device_number(&path)),
        );
    }
    devices
}

fn device_number(sysfs_folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(sysfs_folder.join("dev")).ok()?;
    parse_device(text.trim())
}

fn parse_device(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Where one of `devices`, or a partition of one, is mounted.
fn find_mount(devices: &[u64]) -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (number, place) = (fields.get(2)?, fields.get(4)?);
        // Some file systems (btrfs) have numbers of their own; the source then names the device.
        let source = fields.iter().position(|field| *field == "-").and_then(|dash| fields.get(dash + 2));
        let by_source = || match identity_of(Path::new(&unescape(source?))) {
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
    let folder = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
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
        assert_eq!(find(&file.as_file().metadata().unwrap()), None);
    }
}

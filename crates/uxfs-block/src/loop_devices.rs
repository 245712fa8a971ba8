//! Loop devices: which there are, what each lies on, and what lies below a block device.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use rustix::fs::{major, makedev, minor};

use crate::{busy::Identity, loop_status::status};

/// A loop device that is attached to a file or block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoopDevice {
    /// Its number.
    pub device: u64,
    /// Under `/dev`.
    pub path: PathBuf,
    /// The backing file or device.
    pub backing: Identity,
    /// Where that was last found; gone if it has been removed, or belongs to another mount namespace.
    pub backing_path: PathBuf,
    /// Bytes of the backing file.
    pub range: Range<u64>,
    /// Nothing can be written through it.
    pub is_read_only: bool,
    /// Detaches itself when its last user closes it.
    pub detaches_itself: bool,
    /// Its partitions.
    pub partitions: Vec<u64>,
}

/// One layer below a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layer {
    /// A file or another block device.
    pub identity: Identity,
    /// Bytes of it that the device covers.
    pub range: Range<u64>,
    /// The device that lies on it.
    pub above: u64,
    /// Where it can be opened, if the layer above is a loop device: the kernel keeps no other user away from such a layer.
    pub path: Option<PathBuf>,
}

/// The deepest stack of block devices that is followed.
const DEPTH_MAX: usize = 32;

/// All loop devices that are attached.
pub(crate) fn attached() -> Vec<LoopDevice> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries.filter_map(|entry| loop_device(&entry.path())).collect()
}

fn loop_device(folder: &Path) -> Option<LoopDevice> {
    let says = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| says(name).and_then(|text| text.trim().parse().ok()).unwrap_or(0_u64);
    let backing_path = PathBuf::from(says("loop/backing_file")?.trim_end_matches('\n'));
    let path = Path::new("/dev").join(folder.file_name()?);
    let backing = status(&path).or_else(|| Identity::at(&backing_path))?;
    let (start, length) = (number("loop/offset"), number("loop/sizelimit"));
    let end = if length == 0 { u64::MAX } else { start.saturating_add(length) };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    Some(LoopDevice {
        device: device_number(folder)?,
        path,
        backing,
        backing_path,
        range: start..end,
        is_read_only: number("ro") == 1,
        detaches_itself: number("loop/autoclear") == 1,
        partitions: entries
            .filter(|path| path.join("partition").exists())
            .filter_map(|path| device_number(&path))
            .collect(),
    })
}

/// The layers below a block device, from the top down: the disk of a partition, the file of a loop device, the devices that a
/// volume is made of.
pub(crate) fn layers_below(device: u64, loops: &[LoopDevice]) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut pending = vec![(device, 0..u64::MAX)];
    while let Some((above, range)) = pending.pop() {
        if layers.len() >= DEPTH_MAX {
            break;
        }
        let below = if let Some((disk, start)) = disk_of_partition(above) {
            vec![(Identity::Block { device: disk }, shifted(&range, &start), None)]
        } else if let Some(found) = loops.iter().find(|found| found.device == above) {
            vec![(found.backing, shifted(&range, &found.range), Some(found.backing_path.clone()))]
        } else {
            let parts = linked_devices(above, "slaves").into_iter();
            parts.map(|device| (Identity::Block { device }, 0..u64::MAX, None)).collect()
        };
        for (identity, range, path) in below {
            if let Identity::Block { device } = identity {
                pending.push((device, range.clone()));
            }
            layers.push(Layer { identity, range, above, path });
        }
    }
    layers
}

/// A range of what begins and ends there.
fn shifted(range: &Range<u64>, within: &Range<u64>) -> Range<u64> {
    let shift = |offset: u64| within.start.saturating_add(offset).min(within.end);
    shift(range.start)..shift(range.end)
}

/// The disk of a partition, and which bytes of it the partition has.
fn disk_of_partition(device: u64) -> Option<(u64, Range<u64>)> {
    let folder = sysfs_folder(device);
    if !folder.join("partition").exists() {
        return None;
    }
    let sectors = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let start = sectors("start")?.saturating_mul(512);
    let end = start.saturating_add(sectors("size")?.saturating_mul(512));
    let disk = fs::canonicalize(&folder).ok()?.parent().and_then(device_number)?;
    Some((disk, start..end))
}

/// Devices that are made of this one (`holders`), or of which it is made (`slaves`).
pub(crate) fn linked_devices(device: u64, relation: &str) -> Vec<u64> {
    let entries = fs::read_dir(sysfs_folder(device).join(relation)).into_iter().flatten().flatten();
    entries.filter_map(|entry| device_number(&entry.path())).collect()
}

/// The sysfs folder of a block device.
pub(crate) fn sysfs_folder(device: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)))
}

/// The number of the device that a folder of sysfs belongs to.
pub(crate) fn device_number(sysfs_folder: &Path) -> Option<u64> {
    parse_device(fs::read_to_string(sysfs_folder.join("dev")).ok()?.trim())
}

/// Reads `major:minor`.
pub(crate) fn parse_device(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_read() {
        assert_eq!(parse_device("259:70000"), Some(makedev(259, 70_000)));
        assert_eq!(parse_device("259"), None);
    }

    #[test]
    fn ranges_are_those_of_the_layer_below() {
        assert_eq!(shifted(&(0..u64::MAX), &(512..4096)), 512..4096);
        assert_eq!(shifted(&(1024..2048), &(512..u64::MAX)), 1536..2560);
        assert_eq!(shifted(&(1024..u64::MAX), &(512..1024)), 1024..1024);
    }
}

//! The kernel's information about a block device.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{major, minor};

use crate::layout::{DeviceFacts, DeviceKind};

/// Facts of the block device that `metadata` belongs to.
pub fn facts(metadata: &fs::Metadata, size_bytes: u64) -> DeviceFacts {
    let mut facts = DeviceFacts::file(size_bytes);
    let queue = queue_folder(metadata.rdev());
    let number = |name: &str| read_number(&queue, name);
    // Where nothing is said, the disk turns: the older and more careful geometry.
    facts.kind = DeviceKind::Block { is_rotational: number("rotational").unwrap_or(1) != 0 };
    let sector = |name| number(name).and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(512).max(512);
    facts.logical_sector_bytes = sector("logical_block_size");
    facts.physical_sector_bytes = sector("physical_block_size").max(facts.logical_sector_bytes);
    let unit_bytes = number("minimum_io_size").unwrap_or(0);
    let width_bytes = number("optimal_io_size").unwrap_or(0);
    // A unit of one sector is no stripe.
    let sector_bytes = u64::from(facts.physical_sector_bytes);
    if unit_bytes > sector_bytes && width_bytes > sector_bytes {
        (facts.stripe_unit_bytes, facts.stripe_width_bytes) = (unit_bytes, width_bytes);
    }
    facts
}

/// A partition has the queue of its disk.
fn queue_folder(device: u64) -> PathBuf {
    let folder = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    let own = folder.join("queue");
    if own.exists() { own } else { folder.join("../queue") }
}

fn read_number(folder: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
}

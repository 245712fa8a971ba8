//! Files around an image: partition tables, qcow2 disks, compressed files.

use std::{path::Path, sync::Arc};

use uxfs_block::{device::BlockDevice, engine::memory::MemoryDevice};
use uxfs_image::{
    form::Form,
    open::{Opened, Options, open},
    qcow2::BackingFiles,
};
use uxfs_partition::{
    file_system::XfsIdentity,
    selection::Selector,
    table::{MOST_PARTITIONS, PartitionTable},
};

/// The targets whose kept inputs are their first inputs as well.
pub const NAMES: [&str; 3] = ["partition_table", "qcow2", "packed"];
/// Longest input that makes sense.
pub const INPUT_BYTES_MAX: usize = 128 << 10;
/// Read at once of what was opened.
const READ_BYTES: u64 = 256 << 10;
/// Memory for what was decompressed last.
const CACHE_BYTES: u64 = 8 << 20;

/// Runs one disk: each partition lies within it.
pub fn partition_table(bytes: &[u8]) {
    let device = MemoryDevice::new(bytes.to_vec());
    for sector_bytes in [512, 4096] {
        let Ok(Some(table)) = PartitionTable::read(&device, sector_bytes) else { continue };
        assert!(table.partitions.len() <= MOST_PARTITIONS, "too many partitions");
        for partition in &table.partitions {
            let range = partition.range();
            assert!(
                range.start < range.end && range.end <= device.size_bytes(),
                "a partition outside of the disk"
            );
            let _ = XfsIdentity::read(&device, partition);
            let _ = table.overlapping(partition);
            let _ = table.select(&device, &Selector::Number(partition.number));
            let _ = table.select(&device, &Selector::Any(partition.name.clone()));
        }
    }
}

/// Runs one qcow2 disk; the magic number is put right.
pub fn qcow2(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let magic = bytes.len().min(4);
    bytes[..magic].copy_from_slice(&b"QFI\xfb"[..magic]);
    read(Form::Qcow2, bytes);
}

/// Runs one file that is compressed in the form that its beginning tells.
pub fn packed(bytes: &[u8]) {
    if let Some(form @ (Form::Zstd | Form::Xz | Form::Gzip)) = Form::of_beginning(bytes) {
        read(form, bytes.to_vec());
    }
}

/// Opens it, and reads at its beginning, at its end and in between.
fn read(form: Form, bytes: Vec<u8>) {
    let place = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    let file: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    let options = Options { files: BackingFiles::Refused, cache_bytes: CACHE_BYTES };
    let device = match open(form, &file, Path::new("input"), options) {
        Ok(Opened::Device(device)) => device,
        Ok(Opened::Stream(stream)) => stream.forward(),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let size_bytes = device.size_bytes();
    let mut buffer = vec![0; size_bytes.min(READ_BYTES) as usize];
    let last = size_bytes - buffer.len() as u64;
    for start in [0, place % (last + 1), last, 0] {
        let _ = device.read(start, &mut buffer);
    }
}

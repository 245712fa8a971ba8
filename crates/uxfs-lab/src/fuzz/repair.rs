//! Check and repair of an image with several damages; undo files; dumps of metadata.

use std::{
    io::Write,
    sync::{Arc, LazyLock},
};

use uxfs_block::{
    device::BlockDevice,
    engine::{memory::MemoryDevice, overlay::OverlayDevice},
};
use uxfs_format::units::Uuid;
use uxfs_metadump::restore::{RestoreError, Target, information, restore};
use uxfs_repair::commit::{self, About, Existing, UndoFile, UndoOptions};
use uxfs_testkit::golden::GoldenImage;

use crate::{
    crash::image::Image,
    repair_fuzz::{Fixture, Promises, check_only},
};

static BASE: LazyLock<(Fixture, Image)> = LazyLock::new(|| {
    let path = GoldenImage::named("block-1k").and_then(|image| image.unpacked()).expect("the golden image");
    (Fixture::load(&path).expect("a sound image"), Image::load(&path).expect("an image"))
});

/// Runs one input: checks a damaged image.
///
/// # Panics
/// The golden image cannot be unpacked.
pub fn check(bytes: &[u8]) {
    if let Ok(damaged) = BASE.0.damaged(bytes) {
        check_only(&damaged.device());
    }
}

/// Runs one input: repairs a damaged image, and edits it where that succeeds.
///
/// # Panics
/// A promise is broken; the golden image cannot be unpacked.
pub fn repair(bytes: &[u8]) {
    let Ok(damaged) = BASE.0.damaged(bytes) else { return };
    let (words, image) = (damaged.damages.join("; "), damaged.image_from(&BASE.1));
    let seed = bytes.iter().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add((*byte).into()));
    let promises = Promises { edits: true, ..Promises::default() };
    if let Err(why) = promises.try_on(&damaged.device(), || image, seed) {
        panic!("{why}; damaged: {words}");
    }
}

/// The device that undo files are for.
const DEVICE_BYTES: usize = 64 << 10;

/// An undo file of a few sectors, and the device before it.
static CHANGES: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let mut old = vec![0; DEVICE_BYTES];
    BASE.1.read(0, &mut old).expect("the image is longer");
    let base: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(old.clone()));
    let new = OverlayDevice::new(Arc::clone(&base));
    for offset in [2048, 9 << 10, 40 << 10] {
        new.write(offset, &[7; 1024]).expect("in memory");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let about = About {
        path: folder.path().join("undo"),
        filesystem_uuid: Uuid([7; 16]),
        start_bytes: 0,
        existing: Existing::Refuse,
    };
    let whole = std::iter::once(0..DEVICE_BYTES as u64).collect::<Vec<_>>();
    commit::prepare(base.as_ref(), &new, &whole, &about).expect("it can be made").expect("changes");
    (std::fs::read(&about.path).expect("it can be read"), old)
});

/// A sound undo file.
pub fn undo_file_seed() -> Vec<u8> {
    let mut seed = vec![0];
    seed.extend_from_slice(&CHANGES.0);
    seed
}

/// Runs one input: an undo file, used forward and back. Where the first byte is odd, all of its checksums are made right first.
///
/// # Panics
/// An undo that succeeds comes to other bytes than those that the file holds; no temporary file can be made.
pub fn undo_file(bytes: &[u8]) {
    let Some((first, contents)) = bytes.split_first() else { return };
    let mut contents = contents.to_vec();
    if first % 2 == 1 {
        seal(&mut contents);
    }
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&contents).expect("it can be written");
    let Ok(changes) = UndoFile::open(file.path()) else { return };
    let device = MemoryDevice::new(CHANGES.1.clone());
    let _ = commit::state_of(&changes, &device);
    if commit::apply(&changes, &device).is_ok() {
        commit::undo(&changes, &device, UndoOptions::default()).expect("what was applied can be taken back");
        let mut found = vec![0; DEVICE_BYTES];
        device.read(0, &mut found).expect("in memory");
        // One that was sealed may say other old bytes.
        assert!(first % 2 == 1 || found == CHANGES.1, "an undo came to other bytes");
    }
    let _ = commit::undo(&changes, &device, UndoOptions { force: true });
}

const HEADER_BYTES: usize = 128;
const RECORD_HEADER_BYTES: usize = 16;

/// Makes all checksums right, as far as records follow each other.
fn seal(contents: &mut [u8]) {
    let Some((header, records)) = contents.split_at_mut_checked(HEADER_BYTES) else { return };
    let mut at = 0;
    while let Some(record) = records.get_mut(at..at + RECORD_HEADER_BYTES) {
        let length = record[8..12].iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
        record[12..16].fill(0);
        let end = at.saturating_add(RECORD_HEADER_BYTES).saturating_add(length.saturating_mul(2));
        let Some(whole) = records.get_mut(at..end) else { break };
        let checksum = crc32c::crc32c(whole);
        whole[12..16].copy_from_slice(&checksum.to_le_bytes());
        at = end;
    }
    header[100..104].copy_from_slice(&crc32c::crc32c(records).to_le_bytes());
    header[12..16].fill(0);
    let checksum = crc32c::crc32c(header);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
}

/// Holds writes to its size, and keeps nothing.
#[derive(Default)]
struct Nothing(u64);

impl Target for Nothing {
    fn prepare(&mut self, size_bytes: u64) -> Result<(), RestoreError> {
        self.0 = size_bytes;
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), RestoreError> {
        assert!(offset_bytes.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.0), "outside");
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        Ok(())
    }
}

/// The beginning of a sound dump.
///
/// # Panics
/// The golden image cannot be dumped.
pub fn dump_seed() -> Vec<u8> {
    let device: Arc<dyn BlockDevice> = Arc::new(BASE.0.sound());
    let mut bytes = Vec::new();
    uxfs_metadump::dump::dump(&device, &uxfs_metadump::dump::DumpOptions::default(), &mut bytes, &mut |_| {})
        .expect("it can be dumped");
    bytes.truncate(16 << 10);
    bytes
}

/// Runs one input: restores a dump.
///
/// # Panics
/// Something is written outside the file system.
pub fn restore_dump(mut bytes: &[u8]) {
    let mut again = bytes;
    let _ = information(&mut again);
    let _ = restore(&mut bytes, &mut Nothing::default(), &mut |_| {});
}

//! Sound images have no findings: the golden ones, and fresh ones that the kernel fills and changes.

use std::{
    fs,
    num::NonZeroUsize,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation, ReadSegment},
    device_wrapper::DeviceWrapper,
    engine::sync::SyncDevice,
};
use uxfs_repair::{
    CheckOptions, CheckSummary, Finding, check,
    check::all,
    repair::{RepairOptions, repair},
};
use uxfs_testkit::{
    golden::GoldenImage,
    image,
    judges::Judge,
    manifest::FileKind,
    mount::{Access, LoopMount},
    populate::Recipe,
    require,
    shapes::Shape,
    verdict::repair_is_silent,
};
use uxfs_volume::{
    inode::scan::ScanOptions,
    volume::{Volume, VolumeOptions},
};

fn in_order() -> CheckOptions {
    CheckOptions { scan: ScanOptions::in_order(), ..CheckOptions::default() }
}

fn findings_of(image: &Path, options: &CheckOptions) -> (Vec<Finding>, CheckSummary) {
    let device = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
    let mut findings = Vec::new();
    let summary = check(&volume, options, &mut all(&mut findings));
    (findings, summary)
}

#[track_caller]
fn must_be_sound(name: &str, image: &Path, options: &CheckOptions) -> CheckSummary {
    let (findings, summary) = findings_of(image, options);
    let shown: Vec<String> = findings.iter().take(20).map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{name}: {} findings: {shown:#?}", findings.len());
    assert_eq!((summary.findings, summary.is_stopped), (0, false), "{name}");
    summary
}

#[test]
fn golden_images_have_no_findings() {
    let threads = ScanOptions { threads: NonZeroUsize::new(3).unwrap(), helpers: 1 };
    for golden in GoldenImage::all().unwrap() {
        let image = golden.unpacked().unwrap();
        let summary = must_be_sound(golden.name(), &image, &in_order());
        let with_threads =
            must_be_sound(golden.name(), &image, &CheckOptions { scan: threads, ..CheckOptions::default() });
        assert_eq!(summary, with_threads, "{}", golden.name());
        let manifest = golden.manifest().unwrap();
        let names = manifest.entries.iter().filter(|entry| entry.kind != FileKind::Directory).count();
        assert!(summary.inodes > 2 && names > 0, "{}: {summary:?}", golden.name());
        eprintln!("{}: {summary:?}", golden.name());
    }
}

#[test]
fn images_that_the_kernel_fills_and_thins_out_have_no_findings() {
    require!(Judge::Mkfs, Judge::Kernel, Judge::XfsIo, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(image::memory_folder()).unwrap();
    for name in ["default", "plain", "block-1k-directory-8k"] {
        let image = folder.path().join(name);
        let options: Vec<&str> = Shape::named(name).words().collect();
        image::make(&image, 320 << 20, &options).unwrap();
        let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
        recipe(name).populate(mount.path()).unwrap();
        mount.unmount().unwrap();
        must_be_sound(name, &image, &in_order());
        repair_is_silent(&image).unwrap();
        let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
        let removed = remove_every_other(mount.path(), &mut 0);
        mount.unmount().unwrap();
        assert!(removed > 100, "{name}: {removed}");
        must_be_sound(name, &image, &in_order());
        repair_is_silent(&image).unwrap();
        fs::remove_file(&image).unwrap();
    }
}

fn recipe(name: &str) -> Recipe {
    let is_small = name.starts_with("block-1k");
    Recipe {
        block_size_bytes: if is_small { 1024 } else { 4096 },
        directory_block_size_bytes: if is_small { 8192 } else { 4096 },
        inode_size_bytes: 512,
        has_reflink: Shape::named(name).has_shared_blocks(),
        has_sparse_inodes: false,
        has_bigtime: true,
        is_plain_tree: false,
        many_names: 0,
    }
}

/// Removes every other file. Gives their number.
fn remove_every_other(directory: &Path, count: &mut u32) -> u32 {
    let mut removed = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            removed += remove_every_other(&entry.path(), count);
            continue;
        }
        *count += 1;
        // Some are immutable.
        removed += u32::from(count.is_multiple_of(2) && fs::remove_file(entry.path()).is_ok());
    }
    removed
}

/// Some reads of it fail for want of memory.
#[derive(Debug)]
struct ShortOfMemory {
    inner: SyncDevice,
    reads: AtomicU64,
    failing: std::ops::Range<u64>,
}

impl DeviceWrapper for ShortOfMemory {
    type Inner = SyncDevice;

    fn inner(&self) -> &SyncDevice {
        &self.inner
    }

    fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        if !self.failing.contains(&self.reads.fetch_add(1, Relaxed)) {
            return Ok(());
        }
        Err(DeviceError {
            operation: DeviceOperation::Read,
            offset_bytes: segments.first().map_or(0, |segment| segment.offset_bytes),
            length_bytes: 512,
            source: rustix::io::Errno::NOMEM.into(),
        })
    }
}

/// What this machine could not read is not damaged: a repair ends without a result.
#[test]
fn a_machine_that_fails_is_not_taken_for_damage() {
    let golden = GoldenImage::lean("default").unwrap();
    let image = golden.unpacked().unwrap();
    let options = RepairOptions { scan: ScanOptions::in_order(), ..RepairOptions::default() };
    let repair_with = |failing: std::ops::Range<u64>| {
        let inner = SyncDevice::open_read_only(&image, 0).unwrap();
        let device = Arc::new(ShortOfMemory { inner, reads: AtomicU64::new(0), failing });
        let staged = repair(&(Arc::clone(&device) as Arc<dyn BlockDevice>), &options);
        (staged, device.reads.load(Relaxed))
    };
    let (staged, reads) = repair_with(0..0);
    assert!(staged.unwrap().is_clean());
    for part in 0..10 {
        let first = reads * part / 10;
        let (staged, _) = repair_with(first..first + 4);
        let staged = staged.map(|staged| (staged.actions, staged.remaining));
        let is_of_host = matches!(&staged, Err(uxfs_volume::error::Error::Io(error)) if error.is_of_host());
        assert!(is_of_host, "read {first} of {reads}: {staged:?}");
    }
}

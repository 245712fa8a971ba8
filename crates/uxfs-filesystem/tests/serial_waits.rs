//! How often work waits for the device: what is read ahead comes in batches, and helpers wait beside each other.

use std::{
    num::NonZeroUsize,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use uxfs_block::{
    clock::SystemClock,
    device::{BlockDevice, DeviceError, ReadSegment},
    engine::{
        counting::CountingDevice,
        throttled::{Limits, ThrottledDevice},
    },
};
use uxfs_engine::{
    attribute::SetMode,
    bulk::create::NewKind,
    options::{LogOptions, MountOptions},
};
use uxfs_filesystem::{
    filesystem::FileSystem, mount::open_volume, operations::create::NewFile, recovery::recover,
};
use uxfs_lab::crash::image::{Image, ImageDevice};
use uxfs_testkit::{
    image::{TestImage, mount_options},
    judges::{Judge, judged},
    require,
};
use uxfs_volume::inode::scan::ScanOptions;

type Counted = CountingDevice<Arc<ImageDevice>>;

/// What `change` makes of an empty image; closed or cut off.
fn image_after(change: impl FnOnce(&Arc<FileSystem>), is_closed: bool) -> Image {
    let image = TestImage::new("serial waits", 320, &[], 0);
    let device = Arc::new(ImageDevice::new(Image::load(&image.path).unwrap()));
    let options = MountOptions { log: LogOptions::default(), ..mount_options(64 << 20) };
    let file_system = FileSystem::mount_logged(device.clone(), &options).unwrap();
    change(&file_system);
    match is_closed {
        true => file_system.close().unwrap(),
        false => file_system.force().unwrap(),
    }
    device.image()
}

fn counted(image: Image) -> Arc<Counted> {
    Arc::new(CountingDevice::new(Arc::new(ImageDevice::read_only(image))))
}

fn make_files(file_system: &Arc<FileSystem>, directories: usize, files: usize) {
    let root = file_system.open_root().unwrap();
    for directory in 0..directories {
        let new = NewFile::new(NewKind::Directory, 0o755);
        let directory = file_system.create(&root, format!("d{directory}").as_bytes(), &new).unwrap();
        for file in 0..files {
            let new = NewFile::new(NewKind::Regular, 0o644);
            file_system.create(&directory, format!("file-{file}").as_bytes(), &new).unwrap();
        }
    }
}

#[test]
fn attributes_are_read_in_batches() {
    require!(Judge::Mkfs);
    const COUNT: usize = 6000;
    let image = image_after(
        |file_system| {
            let root = file_system.open_root().unwrap();
            let file = file_system.create(&root, b"file", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
            for number in 0..COUNT {
                let name = format!("user.attribute-{number}");
                file_system.set_xattr(&file, name.as_bytes(), &[7; 60], SetMode::Upsert).unwrap();
            }
        },
        true,
    );
    let device = counted(image);
    // Reads that take no time are over before the thread that reads ahead has run.
    let limits = Limits { latency: Duration::from_millis(2), ..Limits::NONE };
    let slow = ThrottledDevice::new(device.clone(), limits, Arc::new(SystemClock::default()));
    let volume = open_volume(Arc::new(slow), &mount_options(64 << 20)).unwrap();
    let file = volume.resolve(b"/file", true).unwrap();
    let (before, misses) = (device.counters(), volume.cache().counters());
    let mut count = 0;
    volume
        .attributes(&file)
        .unwrap()
        .visit(|attribute| {
            count += usize::from(attribute.name.starts_with(b"attribute-"));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    assert_eq!(count, COUNT);
    let batches = device.counters().read_batches - before.read_batches;
    let counters = volume.cache().counters();
    let buffers = counters.misses + counters.prefetched - misses.misses - misses.prefetched;
    assert!(buffers > 100, "a tree of many leaves: {buffers}");
    assert!(batches * 8 < buffers, "{buffers} buffers in {batches} batches");
    judged("counting device", &format!("{buffers} blocks of attributes in {batches} batches"));
}

#[test]
fn replay_reads_what_it_changes_in_batches() {
    require!(Judge::Mkfs);
    let image = image_after(|file_system| make_files(file_system, 200, 20), false);
    let device = counted(image);
    let as_device: Arc<dyn BlockDevice> = device.clone();
    let recovered = recover(&as_device, &mount_options(64 << 20), &mut ()).unwrap().expect("a dirty log");
    let replay = recovered.report().replay;
    let batches = device.counters().read_batches;
    assert!(replay.written_buffers > 300, "{replay:?}");
    assert!(batches * 4 < replay.written_buffers, "{} buffers in {batches} batches", replay.written_buffers);
    judged(
        "counting device",
        &format!("{} buffers replayed, {batches} batches in all", replay.written_buffers),
    );
}

/// Counts how many reads are under way at once, at most.
#[derive(Debug)]
struct InFlight<D> {
    inner: D,
    now: AtomicUsize,
    most: Arc<AtomicUsize>,
}

impl<D> InFlight<D> {
    fn count<T>(&self, read: impl FnOnce(&D) -> T) -> T {
        self.most.fetch_max(self.now.fetch_add(1, SeqCst) + 1, SeqCst);
        let done = read(&self.inner);
        self.now.fetch_sub(1, SeqCst);
        done
    }
}

impl<D: BlockDevice> BlockDevice for InFlight<D> {
    fn engine(&self) -> &'static str {
        "in flight"
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.count(|inner| inner.read(offset_bytes, buffer))
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        self.count(|inner| inner.read_batch(segments))
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inner.write(offset_bytes, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset_bytes, length_bytes)
    }
}

#[test]
fn a_scan_waits_for_several_reads_at_once() {
    require!(Judge::Mkfs);
    let image = image_after(|file_system| make_files(file_system, 20, 2000), true);
    let scan = |helpers| {
        let limits = Limits { latency: Duration::from_millis(25), queue_depth: 1, ..Limits::NONE };
        let slow = ThrottledDevice::new(counted(image.clone()), limits, Arc::new(SystemClock::default()));
        let most = Arc::new(AtomicUsize::new(0));
        let device = InFlight { inner: slow, now: AtomicUsize::new(0), most: Arc::clone(&most) };
        let volume = open_volume(Arc::new(device), &mount_options(64 << 20)).unwrap();
        let options = ScanOptions { threads: NonZeroUsize::MIN, helpers };
        let (summary, counts) = volume.scan_inodes(
            &options,
            || 0_u64,
            |count, _| {
                *count += 1;
                ControlFlow::Continue(())
            },
        );
        assert!(summary.is_clean());
        assert_eq!(counts.iter().sum::<u64>(), summary.inodes);
        (summary.inodes, most.load(SeqCst))
    };
    let (alone, with_helpers) = (scan(0), scan(8));
    assert_eq!(alone.0, with_helpers.0);
    assert!(alone.0 > 40_000);
    assert_eq!(alone.1, 1);
    assert!(with_helpers.1 > 1, "reads were under way one at a time");
    judged("throttled device", &format!("{} inodes: {} reads at once with helpers", alone.0, with_helpers.1));
}

//! `fsync` and `fdatasync` of one file, and the checkpoint timer.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use uxfs_block::{
    device::BlockDevice,
    engine::{
        counting::{CountingDevice, DeviceCounters},
        memory::MemoryDevice,
    },
};
use uxfs_engine::{
    bulk::create::NewKind,
    options::{LogOptions, MountOptions},
};
use uxfs_filesystem::{
    file::Touch,
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, set_attributes::AttributeChanges},
};
use uxfs_format::inode::Timestamp;
use uxfs_testkit::{
    image::{TestImage, mount_options},
    judges::Judge,
    require,
};

type Device = CountingDevice<MemoryDevice>;

const FILE: NewFile<'static> = NewFile::new(NewKind::Regular, 0o600);
const DIRECTORY: NewFile<'static> = NewFile::new(NewKind::Directory, 0o700);
const CONTENTS: [u8; 5000] = [7; 5000];

/// A device with the file system of `mkfs.xfs`.
fn new_device() -> Arc<Device> {
    let image = TestImage::new("sync", 64, &[], 0);
    Arc::new(CountingDevice::new(MemoryDevice::new(fs::read(&image.path).unwrap())))
}

fn mount(device: &Arc<Device>, log: LogOptions) -> Arc<FileSystem> {
    let options = MountOptions { log, ..mount_options(16 << 20) };
    FileSystem::mount_logged(Arc::clone(device) as Arc<dyn BlockDevice>, &options).unwrap()
}

/// The file system that a crash at this moment leaves, after recovery.
fn after_crash(device: &Device) -> Arc<FileSystem> {
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read(0, &mut bytes).unwrap();
    mount(&Arc::new(CountingDevice::new(MemoryDevice::new(bytes))), LogOptions::default())
}

fn contents(file_system: &FileSystem, name: &[u8]) -> Option<Vec<u8>> {
    let root = file_system.open_root().unwrap();
    let file = file_system.find(&root, name).ok()?;
    let mut bytes = vec![0; 2 * CONTENTS.len()];
    let length = file_system.read(&file, 0, &mut bytes).unwrap();
    bytes.truncate(length);
    Some(bytes)
}

/// Writes and flushes that `work` causes.
fn cost(device: &Device, work: impl FnOnce()) -> (u64, u64) {
    let DeviceCounters { write_requests, flushes, .. } = device.counters();
    work();
    let after = device.counters();
    (after.write_requests - write_requests, after.flushes - flushes)
}

fn write(file_system: &FileSystem, file: &InodeHandle) {
    let touch = Touch::at(Timestamp { seconds: 1_800_000_000, nanoseconds: 0 });
    assert_eq!(file_system.write(file, 0, &CONTENTS, touch).unwrap(), CONTENTS.len());
}

#[test]
fn a_clean_file_costs_nothing_while_others_have_changes() {
    require!(Judge::Mkfs);
    let device = new_device();
    let file_system = mount(&device, LogOptions::default());
    let root = file_system.open_root().unwrap();
    let clean = file_system.create(&root, b"clean", &FILE).unwrap();
    let empty = file_system.create(&root, b"directory", &DIRECTORY).unwrap();
    write(&file_system, &clean);
    assert_ne!(cost(&device, || file_system.sync_file(&clean).unwrap()), (0, 0), "it has changes");
    file_system.sync_file(&empty).unwrap();

    let busy = file_system.create(&root, b"busy", &FILE).unwrap();
    write(&file_system, &busy);
    for file in [&clean, &empty] {
        assert_eq!(cost(&device, || file_system.sync_file(file).unwrap()), (0, 0));
        assert_eq!(cost(&device, || file_system.sync_file_data(file).unwrap()), (0, 0));
    }
    assert_eq!(contents(&after_crash(&device), b"busy"), None, "no fsync has asked for it");

    assert_ne!(cost(&device, || file_system.sync_file(&busy).unwrap()), (0, 0));
    assert_eq!(contents(&after_crash(&device), b"busy").as_deref(), Some(&CONTENTS[..]));
    assert_eq!(cost(&device, || file_system.sync_file(&busy).unwrap()), (0, 0), "it is durable already");
    assert_eq!(cost(&device, || file_system.sync_file(&root).unwrap()), (0, 0), "with its directory");
}

/// The commit sequences of a file go with its slot: then the buffer of its cluster says what is not in the log.
#[test]
fn a_file_that_was_opened_anew_keeps_its_debts() {
    require!(Judge::Mkfs);
    const MORE_THAN_STAY_OPEN: usize = 600;
    let device = new_device();
    let file_system = mount(&device, LogOptions::default());
    let root = file_system.open_root().unwrap();
    drop(file_system.create(&root, b"clean", &FILE).unwrap());
    file_system.force().unwrap();
    let checkpoints = file_system.journal_counters().checkpoints;
    drop(file_system.create(&root, b"changed", &FILE).unwrap());
    for index in 0..MORE_THAN_STAY_OPEN {
        drop(file_system.create(&root, format!("{index}").as_bytes(), &FILE).unwrap());
    }
    assert!(file_system.inodes_in_memory() < MORE_THAN_STAY_OPEN);
    assert_eq!(file_system.journal_counters().checkpoints, checkpoints, "nothing has been written");

    let clean = file_system.find(&root, b"clean").unwrap();
    assert_eq!(cost(&device, || file_system.sync_file(&clean).unwrap()), (0, 0));
    let changed = file_system.find(&root, b"changed").unwrap();
    assert_ne!(cost(&device, || file_system.sync_file(&changed).unwrap()), (0, 0));
    assert_eq!(contents(&after_crash(&device), b"changed").as_deref(), Some(&[][..]));
}

#[test]
fn times_alone_do_not_concern_fdatasync() {
    require!(Judge::Mkfs);
    let device = new_device();
    let file_system = mount(&device, LogOptions::default());
    let root = file_system.open_root().unwrap();
    let file = file_system.create(&root, b"file", &FILE).unwrap();
    write(&file_system, &file);
    file_system.sync_file(&file).unwrap();

    let time = Timestamp { seconds: 1_900_000_000, nanoseconds: 0 };
    let times = AttributeChanges { modification_time: Some(time), ..AttributeChanges::default() };
    file_system.set_attributes(&file, &times).unwrap();
    assert_eq!(cost(&device, || file_system.sync_file_data(&file).unwrap()), (0, 0));
    assert_ne!(cost(&device, || file_system.sync_file(&file).unwrap()), (0, 0));

    // Overwritten in place: contents and times, no metadata that they need.
    write(&file_system, &file);
    assert_eq!(cost(&device, || file_system.sync_file_data(&file).unwrap()), (0, 1), "a flush of the device");
    assert_eq!(cost(&device, || file_system.sync_file_data(&file).unwrap()), (0, 0));
    assert_ne!(cost(&device, || file_system.sync_file(&file).unwrap()), (0, 0));

    let permissions = AttributeChanges { permissions: Some(0o400), ..AttributeChanges::default() };
    file_system.set_attributes(&file, &permissions).unwrap();
    assert_ne!(cost(&device, || file_system.sync_file_data(&file).unwrap()), (0, 0));
    let recovered = after_crash(&device);
    let found = recovered.find(&recovered.open_root().unwrap(), b"file").unwrap();
    assert_eq!(found.read().core.mode.get() & 0o777, 0o400);
}

#[test]
fn a_directory_waits_for_its_names() {
    require!(Judge::Mkfs);
    let device = new_device();
    let file_system = mount(&device, LogOptions::default());
    let root = file_system.open_root().unwrap();
    let [first, second] =
        [b"first", b"other"].map(|name| file_system.create(&root, name, &DIRECTORY).unwrap());
    file_system.force().unwrap();
    file_system.create(&first, b"name", &FILE).unwrap();
    assert_eq!(cost(&device, || file_system.sync_file(&second).unwrap()), (0, 0));
    assert_ne!(
        cost(&device, || file_system.sync_file_data(&first).unwrap()),
        (0, 0),
        "names are its contents"
    );
    let recovered = after_crash(&device);
    let directory = recovered.find(&recovered.open_root().unwrap(), b"first").unwrap();
    recovered.find(&directory, b"name").unwrap();
}

/// Creates a file and says whether a checkpoint follows within `patience`, without being asked for.
fn is_written_in_time(interval: Option<Duration>, patience: Duration) -> bool {
    let device = new_device();
    let log = LogOptions { has_background: true, checkpoint_interval: interval, ..LogOptions::default() };
    let file_system = mount(&device, log);
    let root = file_system.open_root().unwrap();
    let before = file_system.journal_counters().checkpoints;
    drop(file_system.create(&root, b"late", &FILE).unwrap());
    let created = Instant::now();
    while created.elapsed() < patience {
        if file_system.journal_counters().checkpoints > before {
            return contents(&after_crash(&device), b"late").is_some();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(contents(&after_crash(&device), b"late"), None);
    false
}

#[test]
fn what_nobody_asks_for_is_written_after_the_interval() {
    require!(Judge::Mkfs);
    assert!(is_written_in_time(Some(Duration::from_millis(20)), Duration::from_secs(30)));
    for never in [None, Some(Duration::ZERO)] {
        assert!(!is_written_in_time(never, Duration::from_millis(300)));
    }
}

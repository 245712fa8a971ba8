//! Operations on large directories, files and attributes with a small log: no transaction exceeds its log reservation (a self-check
//! panics if one does), and after a crash Linux and uxfs recover the same file system.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_engine::{
    attribute::SetMode,
    bulk::create::NewKind,
    options::{LogOptions, MountOptions},
};
use uxfs_filesystem::mount;
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions},
};
use uxfs_lab::{
    crash::{
        consistency,
        geometry::Shape,
        image::{Image, ImageDevice},
        recording::{Event, RecordingDevice},
        tree::Tree,
        volume::mount_options,
    },
    linux_logs::{
        Tally,
        compare::{Author, compare},
    },
};
use uxfs_testkit::{
    judges::{Judge, judged},
    require, sparse,
    verdict::repair_is_silent,
};

const SHAPES: [(&str, u64); 5] = [
    ("default", 2500),
    ("block-1k", 9000),
    ("plain", 2500),
    ("smallest-log", 2500),
    ("log-stripe-64k", 2500),
];

/// Crashes of each workload.
const STATES: usize = 3;

/// A file system with something large in it.
struct Large {
    file_system: Arc<FileSystem>,
}

impl Large {
    fn new(device: Arc<dyn BlockDevice>, is_immediate: bool) -> Self {
        let log = LogOptions { has_background: false, is_immediate, ..LogOptions::default() };
        let options = MountOptions { log, ..mount_options(8) };
        Self { file_system: FileSystem::mount_logged(device, &options).unwrap() }
    }

    fn make(&self, name: &str, kind: NewKind<'_>) -> InodeHandle {
        let root = self.file_system.open_root().unwrap();
        self.file_system.create(&root, name.as_bytes(), &NewFile::new(kind, 0o700)).unwrap()
    }

    fn remove(&self, name: &str) {
        let root = self.file_system.open_root().unwrap();
        self.file_system.unlink(&root, name.as_bytes()).unwrap();
    }

    /// Two files of very many extents.
    fn make_files(&self, extents: u64) -> [InodeHandle; 2] {
        let block = self.file_system.geometry().block_size() as u64;
        let files = ["one", "other"].map(|name| self.make(name, NewKind::Regular));
        for number in 0..extents {
            for (file, byte) in files.iter().zip([1, 2]) {
                let bytes = vec![byte + (number % 100) as u8 * 2; block as usize];
                self.file_system.write(file, 2 * number * block, &bytes, Touch::NOTHING).unwrap();
            }
        }
        files
    }

    /// Operations on them, and on a clone of one.
    fn change_files(&self, files: [InodeHandle; 2], extents: u64) {
        let (file_system, touch) = (&self.file_system, Touch::NOTHING);
        let block = file_system.geometry().block_size() as u64;
        let [one, other] = &files;
        let end = 2 * extents * block;
        file_system.insert_range(one, 5 * block, 3 * block, touch).unwrap();
        file_system.collapse_range(one, 7 * block, 9 * block, touch).unwrap();
        file_system.zero_range(other, 3, extents * block / 2, SizeChange::Keep, touch).unwrap();
        file_system.allocate_range(other, extents * block, 200 * block, SizeChange::Keep, touch).unwrap();
        let has_reflink = file_system.geometry().features.has_reflink();
        if has_reflink {
            self.change_clone(&files, extents * block);
        }
        file_system.set_size(one, end / 3, touch).unwrap();
        file_system.punch_range(other, 0, end / 4, touch).unwrap();
        self.remove("one");
        drop(files);
        file_system.inactivate_pending().unwrap();
        self.remove("other");
        if has_reflink {
            self.remove("copy");
        }
    }

    fn change_clone(&self, [one, other]: &[InodeHandle; 2], half_bytes: u64) {
        let (file_system, touch) = (&self.file_system, Touch::NOTHING);
        let block = file_system.geometry().block_size();
        let copy = self.make("copy", NewKind::Regular);
        let all = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
        file_system.clone_range(one, &copy, &all, touch).unwrap();
        file_system.write(&copy, half_bytes, &vec![9; 300 * block], touch).unwrap();
        file_system.punch_range(&copy, block as u64, half_bytes / 2, touch).unwrap();
        let range = ExchangeRange { length_bytes: half_bytes, ..ExchangeRange::default() };
        file_system.exchange_files(one, other, &range, touch).unwrap();
        file_system.set_size(&copy, half_bytes + 5, touch).unwrap();
        file_system.unshare_range(&copy, 0, half_bytes, SizeChange::Keep, touch).unwrap();
    }

    /// Very many attributes of one file, most of them larger than what is kept beside their names.
    fn change_attributes(&self, count: usize) {
        let file_system = &self.file_system;
        let file = self.make("file", NewKind::Regular);
        let set = |number: usize, value: Vec<u8>| {
            let name = format!("trusted.name-{number:0>60}");
            file_system.set_xattr(&file, name.as_bytes(), &value, SetMode::Upsert).unwrap();
        };
        (0..count).for_each(|number| set(number, vec![number as u8; 500 + number % 50 * 200]));
        (0..count).step_by(3).for_each(|number| set(number, vec![number as u8; 500 + number % 40 * 300]));
        for number in (0..count).step_by(5) {
            let name = format!("trusted.name-{number:0>60}");
            file_system.remove_xattr(&file, name.as_bytes()).unwrap();
        }
        drop(file);
        self.remove("file");
    }

    /// Very many long names in two directories.
    fn change_names(&self, count: u64) {
        let file_system = &self.file_system;
        let [one, other] = ["one", "two"].map(|name| self.make(name, NewKind::Directory));
        let file = self.make("file", NewKind::Regular);
        let name = |number: u64| format!("{number:0>240}");
        for number in 0..count {
            file_system.link(&file, &one, name(number * 7919 % count).as_bytes()).unwrap();
        }
        let exchange = RenameOptions { exchange: true, ..RenameOptions::default() };
        for number in 0..count / 2 {
            let old = name(number * 2);
            let options = RenameOptions::default();
            file_system.rename(&one, old.as_bytes(), &other, old.as_bytes(), &options).unwrap();
            if number % 10 == 0 {
                let new = name(number * 2 + 1);
                file_system.rename(&one, new.as_bytes(), &other, old.as_bytes(), &exchange).unwrap();
            }
        }
        for (directory, shift) in [(&one, 1), (&other, 0)] {
            for number in 0..count / 2 {
                file_system.unlink(directory, name(number * 2 + shift).as_bytes()).unwrap();
            }
        }
        drop((file, one, other));
        self.remove("file");
    }
}

/// All is sound after `change`, and no claim was too small.
fn changed(shape: &str, change: impl Fn(&Large)) {
    let device = Arc::new(ImageDevice::new(Shape::named(shape).unwrap().make().unwrap()));
    let large = Large::new(device.clone(), false);
    change(&large);
    assert_eq!(large.file_system.journal_counters().overruns, 0, "{shape}");
    large.file_system.close().unwrap();
    let image = device.image();
    let read =
        mount::open_volume(Arc::new(ImageDevice::read_only(image.clone())), &mount_options(8)).unwrap();
    consistency::check(&read, &Tree::read(&read).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    image.save(&path).unwrap();
    repair_is_silent(&path).unwrap();
}

/// Linux and we make the same of so many of the states that a crash in `change` leaves: in half of them one write is lost that
/// was not flushed. Each transaction is a checkpoint, so that intents are found without their ends.
fn crashed<T>(
    shape: &str,
    states: usize,
    prepare: impl FnOnce(&Large) -> T,
    change: impl FnOnce(&Large, T),
) -> u64 {
    let device = Arc::new(RecordingDevice::new(Shape::named(shape).unwrap().make().unwrap()));
    let large = Large::new(device.clone(), true);
    let prepared = prepare(&large);
    large.file_system.force().unwrap();
    device.begin_again();
    change(&large, prepared);
    drop(large);
    let history = device.history();
    let (mut image, mut done) = (history.base.clone(), 0);
    let mut tally = Tally::default();
    for state in 0..states {
        // Not always right behind the same kind of write.
        let end = (state + 1) * history.events.len() / (states + 1) + state;
        let flushed = history.events[..end].iter().rposition(|event| matches!(event, Event::Flush));
        let unflushed = flushed.unwrap_or(0)..end;
        let lost = (state % 2 == 1).then(|| unflushed.start + unflushed.len() / 2);
        history.events[done..unflushed.start].iter().for_each(|event| event.apply(&mut image));
        done = unflushed.start;
        let mut crashed = image.clone();
        for index in unflushed.filter(|index| Some(*index) != lost) {
            history.events[index].apply(&mut crashed);
        }
        both_recover(&crashed, &format!("{shape}, {end} of {} events", history.events.len()), &mut tally);
    }
    tally.logs
}

fn both_recover(image: &Image, what: &str, tally: &mut Tally) {
    let folder = tempfile::tempdir().unwrap();
    let [kernels, ours] = ["kernels", "ours"].map(|name| folder.path().join(name));
    image.save(&kernels).unwrap();
    sparse::copy(&kernels, &ours).unwrap();
    compare(&kernels, &ours, Author::Uxfs(&[]), tally).unwrap_or_else(|error| panic!("{what}: {error:#}"));
}

#[test]
fn files_of_very_many_extents() {
    require!(Judge::XfsRepair);
    for (shape, extents) in SHAPES {
        changed(shape, |large| large.change_files(large.make_files(extents), extents));
    }
}

#[test]
fn files_of_very_many_large_attributes() {
    require!(Judge::XfsRepair);
    for (shape, _) in SHAPES {
        changed(shape, |large| large.change_attributes(2000));
    }
}

#[test]
fn directories_of_very_many_names() {
    require!(Judge::XfsRepair);
    for (shape, _) in SHAPES {
        changed(shape, |large| large.change_names(20_000));
    }
}

#[test]
fn linux_recovers_crashes_in_what_is_large() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let mut logs = 0;
    for shape in ["default", "block-1k", "log-stripe-64k"] {
        let of_files = |large: &Large, files| large.change_files(files, 1000);
        logs += crashed(shape, STATES, |large| large.make_files(1000), of_files);
        logs += crashed(shape, STATES, |_| (), |large, ()| large.change_attributes(300));
        logs += crashed(shape, STATES, |_| (), |large, ()| large.change_names(1000));
    }
    assert!(logs > 20, "otherwise this tests less than it says: {logs}");
    judged("kernel", &format!("{logs} states of crashes in what is large"));
}

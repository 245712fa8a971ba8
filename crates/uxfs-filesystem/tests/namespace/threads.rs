//! Many threads at once, in the same directories and in different ones. Their results must agree: the number of creates and
//! removals of a name says whether it exists; and no reader sees a directory half changed.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::{
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions, set_attributes::AttributeChanges},
};
use uxfs_lab::crash::geometry::Shape;
use uxfs_testkit::{
    judges,
    seeds::{Random, Seed},
};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::{DeviceNumber, FileType},
};

use super::images::{How, Volume};

const THREADS: usize = 4;
const DIRECTORIES: usize = 6;
/// Names that stay, in each directory.
const STABLE: usize = 40;

/// What a thread was told of names: how many times each came, less how many times it went.
type Balance = BTreeMap<(usize, Vec<u8>), i64>;

struct Shared<'fs> {
    file_system: &'fs FileSystem,
    directories: Vec<InodeHandle>,
    is_done: AtomicBool,
    balance: Mutex<Balance>,
    done: AtomicUsize,
    refused: AtomicUsize,
}

fn stable(number: usize) -> Vec<u8> {
    format!("stable-{number}").into_bytes()
}

fn regular() -> NewFile<'static> {
    NewFile::new(NewKind::Regular, 0o644)
}

impl<'fs> Shared<'fs> {
    fn new(file_system: &'fs FileSystem) -> Self {
        let root = file_system.open_root().unwrap();
        let make = |number: usize| {
            let name = format!("directory-{number}").into_bytes();
            let new = NewFile::new(NewKind::Directory, 0o755);
            let directory = file_system.create(&root, &name, &new).unwrap();
            for number in 0..STABLE {
                file_system.create(&directory, &stable(number), &regular()).unwrap();
            }
            directory
        };
        Self {
            file_system,
            directories: (0..DIRECTORIES).map(make).collect(),
            is_done: AtomicBool::new(false),
            balance: Mutex::default(),
            done: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }

    /// Notes what became of an operation: these names came and went if it was done.
    fn note(&self, own: &mut Balance, result: Result<()>, changes: &[(usize, &[u8], i64)]) {
        match result {
            Ok(()) => {
                self.done.fetch_add(1, Relaxed);
                for (directory, name, change) in changes {
                    *own.entry((*directory, name.to_vec())).or_default() += change;
                }
            }
            Err(Error::Operation(
                OperationError::Exists
                | OperationError::NotFound
                | OperationError::IsADirectory
                | OperationError::NotADirectory
                | OperationError::NotPermitted
                | OperationError::NotEmpty
                | OperationError::IntoItself,
            )) => {
                self.refused.fetch_add(1, Relaxed);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn change(&self, own: &mut Balance, random: &mut Random) {
        let fs = self.file_system;
        let (from, to) =
            (random.below(DIRECTORIES as u64) as usize, random.below(DIRECTORIES as u64) as usize);
        let (one, other) = (&self.directories[from], &self.directories[to]);
        let length = if random.below(4) == 0 { 60 } else { 2 };
        let name = |random: &mut Random| vec![b'a' + random.below(20) as u8; length];
        let (old, new) = (name(random), name(random));
        let no_replace = RenameOptions { no_replace: true, ..RenameOptions::default() };
        match random.below(12) {
            0..3 => self.note(own, fs.create(one, &old, &regular()).map(drop), &[(from, &old, 1)]),
            3 => {
                let directory = NewFile::new(NewKind::Directory, 0o755);
                self.note(own, fs.create(one, &old, &directory).map(drop), &[(from, &old, 1)]);
            }
            4..6 => self.note(own, fs.unlink(one, &old), &[(from, &old, -1)]),
            6 => self.note(own, fs.remove_directory(one, &old), &[(from, &old, -1)]),
            7 => {
                let result = fs.find(one, &old).and_then(|file| fs.link(&file, other, &new));
                self.note(own, result, &[(to, &new, 1)]);
            }
            8 => {
                let result = fs.rename(one, &old, other, &new, &no_replace);
                self.note(own, result, &[(from, &old, -1), (to, &new, 1)]);
            }
            9 => {
                let exchange = RenameOptions { exchange: true, ..RenameOptions::default() };
                self.note(own, fs.rename(one, &old, other, &new, &exchange), &[]);
            }
            10 => {
                let file = fs.create_temporary(one, &regular(), true).unwrap();
                let result = if random.below(2) == 0 { fs.link(&file, other, &new) } else { return };
                self.note(own, result, &[(to, &new, 1)]);
            }
            _ => {
                let changes = AttributeChanges { permissions: Some(0o600), ..AttributeChanges::default() };
                let result = fs.find(one, &old).and_then(|file| fs.set_attributes(&file, &changes));
                // Between finding and changing it may have gone: the handle keeps it.
                self.note(own, result, &[]);
            }
        }
    }

    /// Reads all directories, again and again.
    fn watch(&self, random: &mut Random) {
        let mut seen = Vec::new();
        while !self.is_done.load(Relaxed) {
            let directory = &self.directories[random.below(DIRECTORIES as u64) as usize];
            seen.clear();
            let visit = |entry: uxfs_volume::directory::DirectoryEntry<'_>| {
                seen.push(entry.name.to_vec());
                ControlFlow::Continue(())
            };
            self.file_system.read_entries(directory, 0, visit).unwrap();
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), count, "a name was seen twice");
            let kept = seen.iter().filter(|name| name.starts_with(b"stable-")).count();
            assert_eq!(kept, STABLE);
            let number = random.below(STABLE as u64) as usize;
            let found = self.file_system.find(directory, &stable(number)).unwrap();
            assert_eq!(self.file_system.stat(&found).unwrap().link_count, 1);
        }
    }

    fn check_balance(&self) {
        let balance = self.balance.lock().unwrap();
        for ((directory, name), sum) in balance.iter() {
            let found = self.file_system.find(&self.directories[*directory], name);
            assert_eq!(i64::from(found.is_ok()), *sum, "{directory}: {}", name.escape_ascii());
        }
    }
}

fn run(shape: &str, how: How, seed: u64, operations: usize) {
    let volume = Volume::new(&Shape::named(shape).unwrap(), how);
    let shared = Shared::new(&volume.file_system);
    let mut random = Random::new(seed);
    let seeds: Vec<u64> = (0..=THREADS).map(|_| random.next_u64()).collect();
    thread::scope(|scope| {
        let watcher = seeds[THREADS];
        let shared = &shared;
        scope.spawn(move || shared.watch(&mut Random::new(watcher)));
        let changers: Vec<_> = seeds[..THREADS]
            .iter()
            .map(|seed| {
                scope.spawn(move || {
                    let (mut own, mut random) = (Balance::new(), Random::new(*seed));
                    (0..operations).for_each(|_| shared.change(&mut own, &mut random));
                    let mut balance = shared.balance.lock().unwrap();
                    own.into_iter().for_each(|(name, sum)| *balance.entry(name).or_default() += sum);
                })
            })
            .collect();
        let ends: Vec<_> = changers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        shared.is_done.store(true, Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    shared.check_balance();
    let (done, refused) = (shared.done.load(Relaxed), shared.refused.load(Relaxed));
    drop(shared);
    let files = volume.judge("threads");
    judges::judged(
        "xfs_repair and the kernel",
        &format!(
            "{THREADS} threads, {shape}, {how:?}: {done} operations done, {refused} refused, {files} files"
        ),
    );
}

#[test]
fn what_threads_are_told_fits_together() {
    let mut random = Seed::from_environment("what_threads_are_told_fits_together", 3).random();
    for (shape, how) in [
        ("default", How::Logged),
        ("default", How::Bulk),
        ("no-parent", How::Logged),
        ("block-1k-directory-8k", How::Logged),
        ("plain", How::Bulk),
    ] {
        run(shape, how, random.next_u64(), 3000);
    }
}

/// Directories are moved below each other by all threads at once: no circle comes of it.
#[test]
fn directories_that_are_moved_stay_a_tree() {
    let volume = Volume::new(&Shape::named("default").unwrap(), How::Logged);
    let fs = &*volume.file_system;
    let root = fs.open_root().unwrap();
    let name = |number: usize| format!("d{number}").into_bytes();
    let new = NewFile::new(NewKind::Directory, 0o755);
    let directories: Vec<InodeHandle> =
        (0..8).map(|number| fs.create(&root, &name(number), &new).unwrap()).collect();
    let moved = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (directories, root, moved) = (&directories, &root, &moved);
            scope.spawn(move || {
                let mut random = Random::new(thread + 77);
                for _ in 0..1500 {
                    let which = random.below(8) as usize;
                    // Any thread may have moved it: the search covers all directories.
                    let to = match random.below(9) as usize {
                        8 => root,
                        other => &directories[other],
                    };
                    let exchange = random.below(4) == 0;
                    let options = RenameOptions { exchange, ..RenameOptions::default() };
                    let other = name(random.below(8) as usize);
                    for from in directories.iter().chain([root]) {
                        let target = if exchange { &other } else { &name(which) };
                        match fs.rename(from, &name(which), to, target, &options) {
                            Ok(()) => moved.fetch_add(1, Relaxed),
                            Err(Error::Operation(
                                OperationError::NotFound
                                | OperationError::IntoItself
                                | OperationError::NotEmpty
                                | OperationError::Exists,
                            )) => continue,
                            Err(error) => panic!("{error}"),
                        };
                        break;
                    }
                }
            });
        }
    });
    // Each is found by going up.
    for directory in &directories {
        let mut at = directory.clone();
        for _ in 0..10 {
            at = fs.find(&at, b"..").unwrap();
        }
        assert!(at.is_same(&root) || fs.stat(&at).unwrap().link_count == 0);
    }
    let moved = moved.into_inner();
    drop((directories, root));
    volume.judge("directories_that_are_moved_stay_a_tree");
    judges::judged("xfs_repair and the kernel", &format!("{moved} directories moved by {THREADS} threads"));
}

/// A file that is open outlives its names; what is put in its place meanwhile is another file.
#[test]
fn open_files_outlive_their_names() {
    for how in [How::Logged, How::Bulk] {
        let volume = Volume::new(&Shape::named("default").unwrap(), how);
        let fs = &*volume.file_system;
        let root = fs.open_root().unwrap();
        let kinds = [
            NewKind::Regular,
            NewKind::Symlink(&[b't'; 900]),
            NewKind::Special(FileType::Fifo, DeviceNumber::default()),
            NewKind::Directory,
        ];
        for kind in kinds {
            let new = NewFile::new(kind, 0o755);
            let file = fs.create(&root, b"name", &new).unwrap();
            let status = fs.stat(&file).unwrap();
            let again = fs.open_handle(status.number, status.generation).unwrap();
            assert!(again.is_same(&file));
            drop(again);
            match kind {
                NewKind::Directory => fs.remove_directory(&root, b"name").unwrap(),
                _ => fs.unlink(&root, b"name").unwrap(),
            }
            let left = fs.stat(&file).unwrap();
            assert_eq!((left.number, left.link_count, left.mode), (status.number, 0, status.mode));
            if let NewKind::Symlink(target) = kind {
                assert_eq!(fs.read_link(&file).unwrap(), target);
            }
            if let NewKind::Directory = kind {
                let made = fs.create(&file, b"below", &regular());
                assert!(matches!(made, Err(Error::Operation(OperationError::NotFound))));
            }
            assert!(fs.link(&file, &root, b"again").is_err());
            let other = fs.create(&root, b"name", &new).unwrap();
            assert_ne!(other.number(), file.number());
            drop(file);
            fs.inactivate_pending().unwrap();
            let stale = fs.open_handle(status.number, status.generation);
            assert!(matches!(stale, Err(Error::Operation(OperationError::Stale))), "{stale:?}");
            match kind {
                NewKind::Directory => fs.remove_directory(&root, b"name").unwrap(),
                _ => fs.unlink(&root, b"name").unwrap(),
            }
            drop(other);
            fs.inactivate_pending().unwrap();
        }
        let temporary = fs.create_temporary(&root, &regular(), true).unwrap();
        let secret = fs.create_temporary(&root, &regular(), false).unwrap();
        assert!(matches!(
            fs.link(&secret, &root, b"secret"),
            Err(Error::Operation(OperationError::NotFound))
        ));
        fs.link(&temporary, &root, b"temporary").unwrap();
        assert_eq!(fs.stat(&temporary).unwrap().link_count, 1);
        // Still open when the file system is closed: it goes all the same.
        let forgotten = fs.create_temporary(&root, &regular(), true).unwrap();
        drop((temporary, secret, root));
        fs.inactivate_pending().unwrap();
        assert_eq!(volume.judge("open_files_outlive_their_names"), 2);
        drop(forgotten);
    }
}

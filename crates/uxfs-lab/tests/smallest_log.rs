//! Many threads on file systems whose logs are as small as they may be: each waits for room that others hold, none for ever,
//! and none takes more than it has claimed.

use std::sync::Arc;

use uxfs_engine::{attribute::SetMode, bulk::create::NewKind, options::LogOptions};
use uxfs_filesystem::{
    file::{Touch, share::CloneRange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions},
};
use uxfs_testkit::{
    image::{TestImage, memory_folder},
    judges::{Judge, judged},
    require,
    seeds::{Random, Seed},
};
use uxfs_volume::error::{Error, OperationError, Result};

const THREADS: u64 = 6;
const OPERATIONS: u64 = 2000;

const GEOMETRIES: [(&str, u64, &[&str]); 6] = [
    ("default", 64, &["-d", "agcount=4"]),
    ("block-1k", 64, &["-b", "size=1k", "-d", "agcount=4"]),
    ("block-1k-directory-64k", 96, &["-b", "size=1k", "-n", "size=64k", "-d", "agcount=2"]),
    ("block-64k", 400, &["-b", "size=64k", "-d", "agcount=2"]),
    ("inode-2k-stripe", 128, &["-i", "size=2048", "-d", "agcount=2", "-l", "su=256k"]),
    (
        "plain",
        64,
        &[
            "-m",
            "rmapbt=0,reflink=0,finobt=0,inobtcount=0",
            "-n",
            "parent=0",
            "-i",
            "sparse=0,nrext64=0",
            "-d",
            "agcount=4",
        ],
    ),
];

/// The smallest log that `mkfs.xfs` allows, in blocks.
fn smallest_log(size_mebibytes: u64, options: &[&str]) -> u64 {
    let file = tempfile::NamedTempFile::new_in(memory_folder()).unwrap();
    file.as_file().set_len(size_mebibytes << 20).unwrap();
    // Small, and not so small that it says something else.
    let words = ["size=512b", "size=2m", "size=33m"].map(|size| {
        let mut command = Judge::Mkfs.command();
        command.args(["-N", "-f", "--unsupported"]).args(options).args(["-l", size]).arg(file.path());
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    });
    let minimum = |words: &String| {
        let behind = words.split("minimum size is ").nth(1)?.split(' ').next()?;
        behind.parse().ok()
    };
    words.iter().find_map(minimum).unwrap_or_else(|| panic!("{options:?}: {}", words.concat()))
}

struct Worker<'fs> {
    file_system: &'fs FileSystem,
    directories: &'fs [InodeHandle],
    random: Random,
    number: u64,
}

impl Worker<'_> {
    fn name(&mut self) -> Vec<u8> {
        let mut name = format!("{}-{}-", self.number, self.random.below(40)).into_bytes();
        name.resize(20 + self.random.below(3) as usize * 100, b'n');
        name
    }

    fn directory(&mut self) -> &InodeHandle {
        let index = self.random.below(self.directories.len() as u64) as usize;
        &self.directories[index]
    }

    fn step(&mut self) -> Result<()> {
        let file_system = self.file_system;
        let (name, other) = (self.name(), self.name());
        let (from, to) = (self.directory().clone(), self.directory().clone());
        let touch = Touch::at(file_system.now());
        let new = NewFile::new(NewKind::Regular, 0o644);
        match self.random.below(12) {
            0..=3 => file_system.create(&from, &name, &new).map(drop),
            4 => file_system.unlink(&from, &name),
            5 => file_system.rename(&from, &name, &to, &other, &RenameOptions::default()),
            6 => file_system.link(&file_system.find(&from, &name)?, &to, &other),
            7 | 8 => {
                let value = vec![7; [10, 200, 3000, 60_000][self.random.below(4) as usize]];
                let attribute = format!("user.{}", self.random.below(20));
                let file = file_system.find(&from, &name).unwrap_or(from);
                file_system.set_xattr(&file, attribute.as_bytes(), &value, SetMode::Upsert)
            }
            9 => {
                let file = file_system.find(&from, &name)?;
                let length = 1 + self.random.below(30_000) as usize;
                file_system.write(&file, self.random.below(1 << 20), &vec![1; length], touch).map(drop)
            }
            10 => {
                let (file, source) = (file_system.find(&from, &name)?, file_system.find(&to, &other)?);
                let range = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
                file_system.set_size(&file, 0, touch)?;
                file_system.clone_range(&source, &file, &range, touch).map(drop)
            }
            _ => {
                let file = file_system.find(&from, &name)?;
                file_system.punch_range(&file, self.random.below(1 << 20), 9000, touch)
            }
        }
    }
}

fn run(name: &str, size_mebibytes: u64, options: &[&str], seed: u64) -> u64 {
    let log = format!("size={}b", smallest_log(size_mebibytes, options));
    let options: Vec<&str> = options.iter().copied().chain(["-l", &log]).collect();
    let image = TestImage::new(name, size_mebibytes, &options, 0);
    let log = LogOptions { has_background: true, ..LogOptions::default() };
    let file_system: Arc<FileSystem> = image.mount_logged(log);
    let root = file_system.open_root().unwrap();
    let new = NewFile::new(NewKind::Directory, 0o755);
    let make = |number: u32| file_system.create(&root, format!("d{number}").as_bytes(), &new).unwrap();
    let directories: Vec<InodeHandle> = (0..4).map(make).collect();
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (file_system, directories) = (&*file_system, &*directories);
            scope.spawn(move || {
                let random = Random::new(seed + number);
                let mut worker = Worker { file_system, directories, random, number: number / 2 };
                for step in 0..OPERATIONS {
                    match worker.step() {
                        Err(error @ Error::Operation(OperationError::LogTooSmall)) => panic!("{error}"),
                        Ok(()) | Err(Error::Operation(_)) => {}
                        Err(error) => panic!("{name}, step {step}: {error}"),
                    }
                }
            });
        }
    });
    drop((directories, root));
    let counters = file_system.journal_counters();
    assert_eq!(counters.overruns, 0, "{name}");
    file_system.close().unwrap();
    drop(file_system);
    image.must_be_sound();
    counters.transactions
}

#[test]
fn many_threads_share_the_smallest_log() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let seed = Seed::from_environment("many_threads_share_the_smallest_log", 3);
    let mut random = seed.random();
    for (name, size_mebibytes, options) in GEOMETRIES {
        let transactions = run(name, size_mebibytes, options, random.next_u64() >> 32);
        judged(
            "xfs_repair",
            &format!("{THREADS} threads, {transactions} transactions, smallest log, {name}"),
        );
    }
}

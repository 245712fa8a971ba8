//! Work that is measured: with the programs that people use, or with threads that do one thing.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use uxfs_testkit::seeds::Random;

use super::contenders::Mount;
use crate::{bench::measure::median, process::run};

const MEBIBYTE: usize = 1 << 20;
/// Directories over which files are made.
const DIRECTORIES: u32 = 1000;
/// Files of the archive that is unpacked.
const ARCHIVE_FILES: u32 = 80_000;
/// How often one run mounts.
const MOUNTS: u32 = 11;
/// How long rates are measured.
const RATE_TIME: Duration = Duration::from_secs(4);
/// Requests at a time.
const DEPTH: usize = 16;
const PAGE_BYTES: usize = 4096;
const DBENCH_SECONDS: u32 = 10;
const DBENCH_CLIENTS: u32 = 4;

/// One kind of work.
#[derive(Debug, Clone)]
pub enum Work {
    /// An empty file system is mounted.
    Mount,
    /// Files of so many MiB are written by several threads, and synced.
    Write { mebibytes: u64, jobs: u64 },
    /// The same is read, from nothing cached.
    Read { mebibytes: u64, jobs: u64 },
    /// Empty files are made by two threads.
    Create { files: u32 },
    /// A program runs over so many empty files.
    Tree { name: &'static str, program: &'static [&'static str], files: u32, is_cold: bool },
    /// An archive is unpacked.
    Unpack { archive: PathBuf },
    /// Pages are read at random places, past the page cache.
    RandomRead { mebibytes: u64 },
    /// Eight threads append a little and sync.
    Fsync,
    /// What four clients of a file server do, by dbench: its rate, or the longest call.
    Dbench { is_longest_call: bool },
}

impl Work {
    /// All of them.
    pub fn all(files: u32, mebibytes: u64, archive: &Path) -> Vec<Self> {
        let tree = |name, program, is_cold| Self::Tree { name, program, files, is_cold };
        vec![
            Self::Mount,
            Self::Write { mebibytes, jobs: 1 },
            Self::Write { mebibytes, jobs: 2 },
            Self::Read { mebibytes, jobs: 1 },
            Self::Read { mebibytes, jobs: 2 },
            Self::Create { files },
            tree("ls -lR, cold", &["ls", "-lR"], true),
            tree("ls -lR, warm", &["ls", "-lR"], false),
            tree("find, cold", &["find"], true),
            tree("rm -r, cold", &["rm", "-r"], true),
            Self::Unpack { archive: archive.to_owned() },
            Self::RandomRead { mebibytes },
            Self::Fsync,
            Self::Dbench { is_longest_call: false },
            Self::Dbench { is_longest_call: true },
        ]
    }

    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Self::Mount => "mount".to_owned(),
            Self::Write { mebibytes, jobs } => format!("write {mebibytes} MiB, {jobs} jobs"),
            Self::Read { mebibytes, jobs } => format!("read {mebibytes} MiB, {jobs} jobs"),
            Self::Create { files } => format!("create {files} files, 2 jobs"),
            Self::Tree { name, .. } => (*name).to_owned(),
            Self::Unpack { .. } => format!("unpack {ARCHIVE_FILES} files"),
            Self::RandomRead { .. } => format!("random 4 KiB O_DIRECT, depth {DEPTH}"),
            Self::Fsync => "append and fsync, 8 jobs".to_owned(),
            Self::Dbench { is_longest_call: false } => "dbench, 4 clients".to_owned(),
            Self::Dbench { is_longest_call: true } => "dbench, longest call".to_owned(),
        }
    }

    /// Whether more is better.
    pub fn is_rate(&self) -> bool {
        let is_time = matches!(
            self,
            Self::Mount | Self::Tree { .. } | Self::Unpack { .. } | Self::Dbench { is_longest_call: true }
        );
        !is_time
    }

    /// Of its figure.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Write { .. } | Self::Read { .. } => "MiB/s",
            Self::Create { .. } => "k/s",
            Self::Mount
            | Self::Tree { .. }
            | Self::Unpack { .. }
            | Self::Dbench { is_longest_call: true } => "ms",
            Self::Dbench { .. } => "MB/s",
            Self::RandomRead { .. } | Self::Fsync => "/s",
        }
    }

    /// Whether it is mounted again between preparation and work.
    pub fn wants_cold_caches(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::RandomRead { .. } | Self::Tree { is_cold: true, .. })
    }

    /// Makes the files that the work needs. Their time does not count.
    pub fn prepare(&self, root: &Path) -> Result<()> {
        match self {
            Self::Read { mebibytes, jobs } => write(root, *mebibytes, *jobs).map(drop),
            Self::RandomRead { mebibytes } => write(root, *mebibytes, 1).map(drop),
            Self::Create { .. } => make_directories(root),
            Self::Tree { program, files, is_cold, .. } => {
                make_directories(root)?;
                create(root, *files)?;
                match is_cold {
                    true => Ok(()),
                    false => over(root, program).map(drop),
                }
            }
            Self::Mount | Self::Write { .. } | Self::Unpack { .. } | Self::Fsync | Self::Dbench { .. } => {
                Ok(())
            }
        }
    }

    /// Does it, and gives its figure.
    pub fn run(&self, mount: &mut Mount<'_>) -> Result<f64> {
        let root = &mount.path().to_owned();
        match self {
            Self::Mount => mounts(mount),
            Self::Write { mebibytes, jobs } => write(root, *mebibytes, *jobs),
            Self::Read { mebibytes, jobs } => read(root, *mebibytes, *jobs),
            Self::Create { files } => create(root, *files),
            Self::Tree { program, .. } => over(root, program),
            Self::Unpack { archive } => {
                let begun = Instant::now();
                run(Command::new("tar").arg("-C").arg(root).arg("-xf").arg(archive))?;
                Ok(begun.elapsed().as_secs_f64() * 1e3)
            }
            Self::RandomRead { .. } => random_reads(root),
            Self::Fsync => appends(root),
            Self::Dbench { is_longest_call } => dbench(root, *is_longest_call),
        }
    }
}

/// Milliseconds of the median.
fn mounts(mount: &mut Mount<'_>) -> Result<f64> {
    let times = (0..MOUNTS).map(|_| Ok(mount.anew()?.as_secs_f64() * 1e3)).collect::<Result<_>>()?;
    Ok(median(times))
}

/// Runs a program over the tree, without its output; gives milliseconds.
fn over(root: &Path, program: &[&str]) -> Result<f64> {
    let (name, arguments) = program.split_first().context("no program")?;
    let begun = Instant::now();
    let mut command = Command::new(name);
    run(command.args(arguments).arg(root.join("tree")).stdout(Stdio::null()))?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

fn part(root: &Path, job: u64) -> PathBuf {
    root.join(format!("part-{job}"))
}

/// Runs a job in each thread.
fn in_threads<T: Send>(jobs: u64, job: impl Fn(u64) -> Result<T> + Sync) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let running: Vec<_> = (0..jobs)
            .map(|number| {
                let job = &job;
                scope.spawn(move || job(number))
            })
            .collect();
        running.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a job panicked"))?).collect()
    })
}

/// MiB per second.
fn write(root: &Path, mebibytes: u64, jobs: u64) -> Result<f64> {
    let begun = Instant::now();
    in_threads(jobs, |job| {
        let mut bytes = vec![0; MEBIBYTE];
        Random::new(job).fill(&mut bytes);
        let mut file = File::create(part(root, job))?;
        for _ in 0..mebibytes / jobs {
            file.write_all(&bytes)?;
        }
        Ok(file.sync_all()?)
    })?;
    Ok(mebibytes as f64 / begun.elapsed().as_secs_f64())
}

/// MiB per second.
fn read(root: &Path, mebibytes: u64, jobs: u64) -> Result<f64> {
    let begun = Instant::now();
    in_threads(jobs, |job| {
        let mut bytes = vec![0; MEBIBYTE];
        let mut file = File::open(part(root, job))?;
        for _ in 0..mebibytes / jobs {
            file.read_exact(&mut bytes)?;
        }
        Ok(())
    })?;
    Ok(mebibytes as f64 / begun.elapsed().as_secs_f64())
}

fn directory(root: &Path, number: u32) -> PathBuf {
    root.join("tree").join(format!("d{number:04}"))
}

fn make_directories(root: &Path) -> Result<()> {
    for number in 0..DIRECTORIES {
        fs::create_dir_all(directory(root, number))?;
    }
    Ok(())
}

/// Thousands per second.
fn create(root: &Path, files: u32) -> Result<f64> {
    let begun = Instant::now();
    in_threads(2, |job| {
        for file in (0..files).filter(|file| u64::from(file % 2) == job) {
            File::create(directory(root, file / 2 % DIRECTORIES).join(format!("file-{file:07}")))?;
        }
        Ok(())
    })?;
    Ok(f64::from(files) / 1e3 / begun.elapsed().as_secs_f64())
}

/// Memory at an address that O_DIRECT takes.
fn aligned(bytes: &mut [u8]) -> &mut [u8] {
    let start = bytes.as_ptr().align_offset(PAGE_BYTES);
    bytes.get_mut(start..start + PAGE_BYTES).unwrap_or_default()
}

/// Reads per second.
fn random_reads(root: &Path) -> Result<f64> {
    let path = part(root, 0);
    let pages = fs::metadata(&path)?.len() / PAGE_BYTES as u64;
    let done = AtomicU64::new(0);
    let begun = Instant::now();
    in_threads(DEPTH as u64, |job| {
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).custom_flags(direct).open(&path)?;
        let (mut random, mut bytes) = (Random::new(job), vec![0; 2 * PAGE_BYTES]);
        while begun.elapsed() < RATE_TIME {
            file.read_exact_at(aligned(&mut bytes), random.below(pages) * PAGE_BYTES as u64)?;
            done.fetch_add(1, Relaxed);
        }
        Ok(())
    })?;
    Ok(done.into_inner() as f64 / begun.elapsed().as_secs_f64())
}

/// Appends with their sync per second.
fn appends(root: &Path) -> Result<f64> {
    let done = AtomicU64::new(0);
    let begun = Instant::now();
    in_threads(8, |job| {
        let mut file = File::create(part(root, job))?;
        while begun.elapsed() < RATE_TIME {
            file.write_all(&[7; 200])?;
            file.sync_data()?;
            done.fetch_add(1, Relaxed);
        }
        Ok(())
    })?;
    Ok(done.into_inner() as f64 / begun.elapsed().as_secs_f64())
}

/// MB per second, or milliseconds of the longest call.
fn dbench(root: &Path, is_longest_call: bool) -> Result<f64> {
    let seconds = DBENCH_SECONDS.to_string();
    let mut command = Command::new("dbench");
    command.args(["-t", &seconds, "-D"]).arg(root).arg(DBENCH_CLIENTS.to_string());
    let output = command.stderr(Stdio::inherit()).output().context("dbench (package dbench)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line =
        text.lines().rev().find(|line| line.starts_with("Throughput")).context("no result of dbench")?;
    let number = match is_longest_call {
        false => line.split_whitespace().nth(1),
        true => line.split("max_latency=").nth(1).and_then(|rest| rest.split_whitespace().next()),
    };
    number.and_then(|number| number.parse().ok()).with_context(|| format!("dbench says {line}"))
}

/// An archive of many small files, made once.
pub fn source_archive(folder: &Path) -> Result<PathBuf> {
    let (archive, tree) = (folder.join("source.tar"), folder.join("source"));
    let mut random = Random::new(1);
    for number in 0..ARCHIVE_FILES {
        let directory = tree.join(format!("d{:02}/d{:02}", number / 1600 % 50, number / 80 % 20));
        if number % 80 == 0 {
            fs::create_dir_all(&directory)?;
        }
        let mut bytes = vec![0; 200 + random.below(12_000) as usize];
        random.fill(&mut bytes);
        fs::write(directory.join(format!("file-{number}.c")), bytes)?;
    }
    run(Command::new("tar").arg("-C").arg(folder).arg("-cf").arg(&archive).arg("source"))?;
    fs::remove_dir_all(&tree)?;
    Ok(archive)
}

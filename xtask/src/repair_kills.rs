//! `cargo xtask repair-kills`: the process of `uxfs repair`, and that of `uxfs undo`, killed at random moments, many times.
//!
//! After each kill the repair is run again, which must lead to the bytes of a repair that was not killed. From the same state it is taken
//! back, which must lead to the bytes before; and that is killed as well. Every case ends with `xfs_repair -n`'s word on the repaired
//! image.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Signal, kill_process};
use uxfs_lab::{
    field_fuzz::{small, sparse_device::SparseImage},
    repair_fuzz::{Damaged, Fixture},
};
use uxfs_testkit::{
    golden::GoldenImage, image::memory_folder, judges::workspace_directory, seeds::Random, sparse,
    verdict::repair_is_silent,
};

use crate::bench;

/// Kill repairs at random moments, run them again, and compare the bytes (a few seconds for each image and half a second for each kill)
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Golden images, in turn; with small- those whose names have few hard links
    #[arg(long, default_values_t = ["small-default", "small-block-1k", "small-no-rmapbt", "small-no-parent", "groups-16"].map(String::from))]
    image: Vec<String>,
    /// Damaged images of each
    #[arg(long, default_value_t = 2)]
    damaged: u64,
    /// Kills of each damaged image: two thirds of them kill a repair, the others an undo
    #[arg(long, default_value_t = 30)]
    kills: u64,
    /// Seed; random unless given
    #[arg(long)]
    seed: Option<u64>,
    /// The uxfs binary; built if there is none
    #[arg(long)]
    uxfs: Option<PathBuf>,
}

/// Cases of a damaged image that are tried until one can be repaired.
const TRIES: u64 = 20;

/// What kills met.
#[derive(Debug, Default)]
struct Counts {
    kills: u64,
    /// The process had ended before.
    too_late: u64,
    /// Nothing was written yet.
    before_writes: u64,
    /// Some bytes were old and some new.
    in_between: u64,
    /// All bytes were written.
    behind_writes: u64,
}

/// Runs them.
///
/// # Errors
/// Other bytes; a command failed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs(),
    };
    println!("--seed {seed}");
    let program = arguments.uxfs.clone().map_or_else(bench::build, Ok)?;
    let folder = tempfile::tempdir_in(memory_folder())?;
    let (mut repairs, mut undos, started) = (Counts::default(), Counts::default(), Instant::now());
    for name in &arguments.image {
        let path = match name.strip_prefix(small::PREFIX) {
            None => GoldenImage::named(name)?.unpacked()?,
            Some(golden) => {
                small::make(&GoldenImage::named(golden)?, &workspace_directory().join("target/small-images"))?
            }
        };
        let base = SparseImage::load(&path)?;
        let fixture = Fixture::of(std::sync::Arc::clone(&base))?;
        for number in 0..arguments.damaged {
            let mut random = Random::new(seed.wrapping_add(number));
            let place = folder.path().join("image");
            let bench = Bench::new(&program, &place, &base, &fixture, &mut random)?;
            let what = format!("{name}, damaged image {number} ({} damages)", bench.damages);
            for _ in 0..arguments.kills {
                let (counts, result) = match random.below(3) {
                    0 => (&mut undos, bench.kill_undo(&mut random)),
                    _ => (&mut repairs, bench.kill_repair(&mut random)),
                };
                counts.add(&result.with_context(|| what.clone())?);
            }
            println!(
                "{what}: a repair takes {:.2} s and writes {} bytes",
                bench.takes.as_secs_f64(),
                bench.changed
            );
        }
    }
    println!(
        "{:<8}{:>8}{:>10}{:>16}{:>12}{:>16}",
        "killed", "kills", "too late", "nothing written", "in between", "all written"
    );
    for (name, counts) in [("repair", &repairs), ("undo", &undos)] {
        let Counts { kills, too_late, before_writes, in_between, behind_writes } = counts;
        println!("{name:<8}{kills:>8}{too_late:>10}{before_writes:>16}{in_between:>12}{behind_writes:>16}");
    }
    println!(
        "{} repairs and {} undos killed, {} of them with part of their writes; the same bytes after each; {:.0} s",
        repairs.kills,
        undos.kills,
        repairs.in_between + undos.in_between,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// What was found after one kill.
struct Met {
    was_running: bool,
    state: Left,
}

/// What a kill has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// The bytes before.
    Old,
    /// Some of both.
    Between,
    /// All that was to be written.
    New,
}

impl Counts {
    fn add(&mut self, met: &Met) {
        self.kills += 1;
        self.too_late += u64::from(!met.was_running);
        *match met.state {
            Left::Old => &mut self.before_writes,
            Left::Between => &mut self.in_between,
            Left::New => &mut self.behind_writes,
        } += 1;
    }
}

/// Where the data of an image lies, and what it is.
#[derive(Clone, PartialEq, Eq)]
struct Contents(Vec<(u64, Vec<u8>)>);

impl Contents {
    fn read(path: &Path) -> Result<Self> {
        const PIECE_BYTES: usize = 64 << 10;
        let file = File::open(path)?;
        let size_bytes = file.metadata()?.len();
        let mut pieces = Vec::new();
        let mut next = 0;
        for (start, length) in sparse::data_runs(&file)? {
            let first = (start - start % PIECE_BYTES as u64).max(next);
            for at in (first..start + length).step_by(PIECE_BYTES) {
                let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(size_bytes - at)?)];
                file.read_exact_at(&mut piece, at)?;
                next = at + PIECE_BYTES as u64;
                if piece.iter().any(|byte| *byte != 0) {
                    pieces.push((at, piece));
                }
            }
        }
        Ok(Self(pieces))
    }

    /// Puts these bytes back where the file has others.
    fn restore(&self, path: &Path) -> Result<()> {
        let found = Self::read(path)?;
        let file = OpenOptions::new().write(true).open(path)?;
        let zeros = found.0.iter().filter(|(at, _)| self.0.binary_search_by_key(at, |(at, _)| *at).is_err());
        for (at, piece) in zeros {
            file.write_all_at(&vec![0; piece.len()], *at)?;
        }
        for (at, piece) in self.0.iter().filter(|piece| !found.0.contains(piece)) {
            file.write_all_at(piece, *at)?;
        }
        Ok(())
    }
}

/// A damaged image that can be repaired.
struct Bench<'b> {
    program: &'b Path,
    image: &'b Path,
    undo: PathBuf,
    damages: usize,
    before: Contents,
    after: Contents,
    takes: Duration,
    changed: u64,
}

impl<'b> Bench<'b> {
    fn new(
        program: &'b Path,
        image: &'b Path,
        base: &SparseImage,
        fixture: &Fixture,
        random: &mut Random,
    ) -> Result<Self> {
        let undo = PathBuf::from(format!("{}.uxfs-undo", image.display()));
        for _ in 0..TRIES {
            let count = 4 << random.below(5);
            let damaged = fixture.damaged(&fixture.case(count, random))?;
            put(base, &damaged, image)?;
            let _ = fs::remove_file(&undo);
            let before = Contents::read(image)?;
            let started = Instant::now();
            let code = status(program, &["repair", "-q"], image)?;
            let (takes, after) = (started.elapsed(), Contents::read(image)?);
            if code == Some(0) && after != before {
                repair_is_silent(image)?;
                let changed = fs::metadata(&undo)?.len() / 2;
                return Ok(Self { program, image, undo, damages: count, before, after, takes, changed });
            }
        }
        bail!("none of {TRIES} damaged images can be repaired")
    }

    /// Kills a repair. From the bytes that it leaves, runs it again, and takes it back.
    fn kill_repair(&self, random: &mut Random) -> Result<Met> {
        self.before.restore(self.image)?;
        let _ = fs::remove_file(&self.undo);
        let was_running = self.kill(&["repair", "-q"], random)?;
        let left = Contents::read(self.image)?;
        self.must(&["repair", "-q"], &self.after, "a repair that was killed, and run again")?;
        if left != self.before {
            left.restore(self.image)?;
            self.must(&["undo"], &self.before, "a repair that was killed, and taken back")?;
        }
        Ok(Met { was_running, state: self.state(&left, &self.before, &self.after) })
    }

    /// Kills an undo. From the bytes that it leaves, runs the undo again, and the repair.
    fn kill_undo(&self, random: &mut Random) -> Result<Met> {
        self.before.restore(self.image)?;
        let _ = fs::remove_file(&self.undo);
        self.must(&["repair", "-q"], &self.after, "a repair")?;
        let was_running = self.kill(&["undo"], random)?;
        let left = Contents::read(self.image)?;
        self.must(&["undo"], &self.before, "an undo that was killed, and run again")?;
        left.restore(self.image)?;
        self.must(&["repair", "-q"], &self.after, "an undo that was killed, and repaired again")?;
        Ok(Met { was_running, state: self.state(&left, &self.after, &self.before) })
    }

    fn state(&self, left: &Contents, old: &Contents, new: &Contents) -> Left {
        match (left == old, left == new) {
            (true, _) => Left::Old,
            (_, true) => Left::New,
            _ => Left::Between,
        }
    }

    fn must(&self, arguments: &[&str], expected: &Contents, what: &str) -> Result<()> {
        let code = status(self.program, arguments, self.image)?;
        ensure!(code == Some(0), "{what}: exit code {code:?}");
        ensure!(Contents::read(self.image)? == *expected, "{what}: other bytes");
        Ok(())
    }

    /// Starts a command and kills it: at any moment, or soon after the undo file is begun or complete, or the image changes.
    fn kill(&self, arguments: &[&str], random: &mut Random) -> Result<bool> {
        let is_undo = arguments.first() == Some(&"undo");
        let part = PathBuf::from(format!("{}.part", self.undo.display()));
        let changed_at = fs::metadata(self.image)?.modified()?;
        let mut child = command(self.program, arguments, self.image).spawn()?;
        let deadline = Instant::now() + self.takes * 4;
        let mut wait_for = |is_there: &dyn Fn() -> bool| -> Result<()> {
            while !is_there() && Instant::now() < deadline && child.try_wait()?.is_none() {
                std::hint::spin_loop();
            }
            Ok(())
        };
        let is_changed =
            || fs::metadata(self.image).and_then(|found| found.modified()).is_ok_and(|at| at != changed_at);
        match random.below(4) {
            0 if is_undo => thread::sleep(Duration::from_micros(random.below(20_000))),
            0 => thread::sleep(self.takes * u32::try_from(random.below(105))? / 100),
            1 if !is_undo => wait_for(&|| part.exists())?,
            2 if !is_undo => wait_for(&|| self.undo.exists())?,
            _ => wait_for(&is_changed)?,
        }
        let most_microseconds = 1 << random.below(13);
        thread::sleep(Duration::from_micros(random.below(most_microseconds)));
        let was_running = child.try_wait()?.is_none();
        if was_running {
            kill_process(rustix::process::Pid::from_child(&child), Signal::KILL)?;
        }
        child.wait()?;
        Ok(was_running)
    }
}

fn put(base: &SparseImage, damaged: &Damaged, image: &Path) -> Result<()> {
    let file = base.save(image)?;
    for (offset, bytes) in damaged.image.patches() {
        file.write_all_at(bytes, *offset)?;
    }
    Ok(())
}

fn command(program: &Path, arguments: &[&str], image: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(image).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn status(program: &Path, arguments: &[&str], image: &Path) -> Result<Option<i32>> {
    Ok(command(program, arguments, image).status()?.code())
}

//! `cargo xtask bench journal`: operations through the journal, beside the kernel's XFS on a loop-mounted image.
//!
//! Both do the same workload of `uxfs bench`, by system calls there and in process here, on images in memory. Each comparison
//! is run several times in turn; medians count, of ratios those of the pairs.
//!
//! In a virtual machine, memory that was idle for some seconds may be back with the host, and getting a page again takes longer
//! than making four files. The runs of uxfs therefore use a cache that is no larger than they need (`--files-cache`), so that
//! this is not what is measured.

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
};
use wait4::Wait4;

use super::read::build;
use crate::process;

/// Arguments of `cargo xtask bench journal`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder for the images, in memory so that the disk is not measured
    #[arg(long, default_value = "/dev/shm/uxfs-bench")]
    directory: PathBuf,
    /// Runs of each comparison
    #[arg(long, default_value_t = 3)]
    pub(super) runs: u32,
    /// Files of each of the two threads
    #[arg(long, default_value_t = 500_000)]
    files: u64,
    /// Attributes on one inode
    #[arg(long, default_value_t = 1_000_000)]
    attributes: u64,
    /// Attributes of the run that measures further millions; 0 skips it
    #[arg(long, default_value_t = 10_000_000)]
    many_attributes: u64,
    /// MiB of cache of that run
    #[arg(long, default_value_t = 1024)]
    cache: u64,
    /// MiB of cache of uxfs for creating and deleting files
    #[arg(long, default_value_t = 64)]
    files_cache: u64,
    /// Run only comparisons whose names contain this
    #[arg(long, default_value = "")]
    only: String,
}

/// Runs all comparisons.
pub fn run(arguments: &Arguments) -> Result<()> {
    let bench = Bench { uxfs: build()?, arguments, processor: None };
    fs::create_dir_all(&arguments.directory)?;
    let parts: [(&str, &dyn Fn() -> Result<()>); 9] = [
        ("files", &|| bench.files()),
        ("creates", &|| bench.creates()),
        ("many creates", &|| bench.many_creates()),
        ("parent pointers", &|| bench.parent_pointers()),
        ("delayed logging", &|| bench.delayed_logging()),
        ("threads", &|| bench.threads()),
        ("directory sync", &|| bench.directory_sync()),
        ("attributes", &|| bench.attributes()),
        ("many attributes", &|| bench.many_attributes()),
    ];
    for (name, part) in parts.into_iter().filter(|(name, _)| name.contains(&arguments.only)) {
        println!("# {name}");
        part().with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// The program and how it is to be run.
pub(super) struct Bench<'a> {
    uxfs: PathBuf,
    pub(super) arguments: &'a Arguments,
    /// Run uxfs on this processor only.
    processor: Option<u32>,
}

/// The result of one run of uxfs or of a rival.
pub(super) struct Run {
    documents: Vec<Value>,
    peak_memory_bytes: u64,
}

impl Run {
    /// A number somewhere in a document, as in `iterations/0/files_per_second`.
    pub(super) fn number(&self, document: usize, path: &str) -> Result<f64> {
        let found = self.documents.get(document).and_then(|document| document.pointer(&format!("/{path}")));
        found.and_then(Value::as_f64).with_context(|| format!("no {path} in {:?}", self.documents))
    }

    fn of_phase(&self, phase: &str, path: &str) -> Result<Vec<f64>> {
        let steps = self.documents.iter().filter(|document| document["phase"] == phase);
        let numbers = steps.map(|document| document[path].as_f64());
        numbers.collect::<Option<Vec<_>>>().with_context(|| format!("no {path}"))
    }
}

/// The same figure of two rivals, once for each run.
#[derive(Default)]
pub(super) struct Figures {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Figures {
    pub(super) fn add(&mut self, ours: f64, theirs: f64) {
        self.ours.push(ours);
        self.theirs.push(theirs);
    }

    /// Prints medians and their ratio, ours to theirs or the other way round where less is better.
    pub(super) fn report(&self, name: &str, rival: &str, unit: &str, less_is_better: bool, target: f64) {
        let (ours, theirs) = (median(&self.ours), median(&self.theirs));
        let ratio = if less_is_better { 1.0 / self.ratio() } else { self.ratio() };
        let verdict = if ratio >= target { "reached" } else { "MISSED" };
        let note = format!("  target {target}x {verdict}");
        line((name, ours), (rival, theirs), unit, ratio, &note);
    }

    /// Prints medians and ours to theirs, where there is no target.
    pub(super) fn tell(&self, name: &str, rival: &str, unit: &str) {
        let (ours, theirs) = (median(&self.ours), median(&self.theirs));
        line((name, ours), (rival, theirs), unit, self.ratio(), "");
    }

    /// Ours to theirs, pair by pair: what drifts between pairs does not count.
    fn ratio(&self) -> f64 {
        let ratios: Vec<f64> =
            self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect();
        median(&ratios)
    }
}

fn line((name, ours): (&str, f64), (rival, theirs): (&str, f64), unit: &str, ratio: f64, note: &str) {
    println!("{name:<34} {ours:>12.3} {unit:<8} {rival:<26} {theirs:>12.3} {unit:<8} {ratio:>7.2}x{note}");
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Subdirectories for a thousand files each.
fn subdirectories(files: u64) -> String {
    files.div_ceil(1000).max(1).to_string()
}

impl Bench<'_> {
    fn files_cache(&self) -> String {
        format!("{}M", self.arguments.files_cache)
    }

    fn image(&self, name: &str) -> PathBuf {
        self.arguments.directory.join(format!("journal-{name}.img"))
    }

    /// A workload, with its figures.
    fn uxfs_bench(&self, words: impl IntoIterator<Item = OsString>) -> Result<Run> {
        let mut command = match self.processor {
            Some(processor) => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", &processor.to_string()]).arg(&self.uxfs);
                command
            }
            None => Command::new(&self.uxfs),
        };
        let output = tempfile::tempfile()?;
        command.args(["--json", "bench"]).args(words).stdin(Stdio::null()).stdout(output.try_clone()?);
        let used = command.spawn()?.wait4()?;
        ensure!(used.status.success(), "{command:?}: {}", used.status);
        let text = {
            use std::io::{Read, Seek};
            let (mut output, mut text) = (output, String::new());
            output.rewind()?;
            output.read_to_string(&mut text)?;
            text
        };
        let documents = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(Run { documents, peak_memory_bytes: used.rusage.maxrss })
    }

    /// In process, on a new image that is removed afterwards.
    pub(super) fn ours(&self, workload: &[&str], size: &str, more: &[&str]) -> Result<Run> {
        let image = self.image(
            &self.processor.map_or_else(|| "ours".to_owned(), |processor| format!("ours-{processor}")),
        );
        let words = workload.iter().chain(more).map(OsString::from);
        let target = ["--image".into(), image.clone().into(), "--size".into(), size.into()];
        let run = self.uxfs_bench(words.chain(target));
        fs::remove_file(&image)?;
        run
    }

    /// By system calls on a new image that the kernel has mounted.
    pub(super) fn theirs<T>(&self, size_bytes: u64, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let image = self.image("theirs");
        File::create(&image)?.set_len(size_bytes)?;
        process::run(
            Judge::Mkfs.command().args(["-q", "-f", "-K", "-m", "rmapbt=1", "-n", "parent=1"]).arg(&image),
        )?;
        let mount = LoopMount::new(&image, Access::ReadWrite)?;
        let result = work(mount.path());
        mount.unmount()?;
        fs::remove_file(&image)?;
        result
    }

    pub(super) fn theirs_on(&self, mount: &Path, workload: &[&str], directories: &[&str]) -> Result<Run> {
        let words = workload.iter().map(OsString::from);
        let directories =
            directories.iter().flat_map(|name| ["-d".into(), mount.join(name).into_os_string()]);
        self.uxfs_bench(words.chain(directories))
    }

    /// Empty files over a thousand directories, and all of them deleted.
    fn files(&self) -> Result<()> {
        let (files, subdirectories) =
            (self.arguments.files.to_string(), subdirectories(self.arguments.files));
        let workload =
            ["fsmark", "-t", "2", "-s", "0", "-S", "0", "-D", &subdirectories, "-N", "1000", "-n", &files];
        let (mut creates, mut deletes) = (Figures::default(), Figures::default());
        for _ in 0..self.arguments.runs {
            let (their_creates, their_deletes) = self.theirs(16 << 30, |mount| {
                let run = self.theirs_on(mount, &[&workload[..], &["-k"]].concat(), &["a", "b"])?;
                let deletes = remove_in_parallel(&[mount.join("a"), mount.join("b")])?;
                Ok((run.number(0, "iterations/0/files_per_second")?, deletes))
            })?;
            let ours =
                self.ours(&workload, "16G", &["-d", "/a", "-d", "/b", "--cache", &self.files_cache()])?;
            creates.add(ours.number(0, "iterations/0/files_per_second")? / 1e3, their_creates / 1e3);
            let their_deletes = 2.0 * self.arguments.files as f64 / their_deletes;
            deletes.add(ours.number(0, "delete/files_per_second")? / 1e3, their_deletes / 1e3);
        }
        creates.report("create, 2 threads, parent=1", "kernel XFS", "k/s", false, 10.0);
        deletes.report("delete, 2 threads, parent=1", "kernel XFS, rm -r", "k/s", false, 10.0);
        Ok(())
    }

    /// Our creates and deletes in a configuration, in thousands a second.
    fn our_files(&self, threads: u64, files: u64, more: &[&str]) -> Result<(f64, f64)> {
        let (number, subdirectories) = (files.to_string(), subdirectories(files));
        let threads = threads.to_string();
        let workload = [
            "fsmark",
            "-s",
            "0",
            "-S",
            "0",
            "-N",
            "1000",
            "-D",
            &subdirectories,
            "-n",
            &number,
            "-t",
            &threads,
        ];
        let cache = self.files_cache();
        let run = self.ours(&workload, "16G", &[&["--cache", &cache], more].concat())?;
        let rate = |path| Ok::<f64, anyhow::Error>(run.number(0, path)? / 1e3);
        Ok((rate("iterations/0/files_per_second")?, rate("delete/files_per_second")?))
    }

    /// Two of ours beside each other.
    fn beside(
        &self,
        first: impl Fn(&Self) -> Result<(f64, f64)>,
        second: impl Fn(&Self) -> Result<(f64, f64)>,
    ) -> Result<[Figures; 2]> {
        let mut figures = [Figures::default(), Figures::default()];
        for _ in 0..self.arguments.runs {
            let ((creates, deletes), (other_creates, other_deletes)) = (first(self)?, second(self)?);
            let [of_creates, of_deletes] = &mut figures;
            of_creates.add(creates, other_creates);
            of_deletes.add(deletes, other_deletes);
        }
        Ok(figures)
    }

    fn parent_pointers(&self) -> Result<()> {
        const TWO: [&str; 4] = ["-d", "/a", "-d", "/b"];
        let files = self.arguments.files;
        let with = |options: &'static str| {
            move |bench: &Self| bench.our_files(2, files, &[&TWO[..], &["--mkfs", options]].concat())
        };
        let [creates, deletes] = self.beside(with("-n parent=1"), with("-n parent=0"))?;
        creates.report("create, parent=1", "create, parent=0", "k/s", false, 0.97);
        deletes.report("delete, parent=1", "delete, parent=0", "k/s", false, 0.95);
        Ok(())
    }

    fn delayed_logging(&self) -> Result<()> {
        let files = (self.arguments.files / 10).max(1000);
        let with = |mode: &'static str| {
            move |bench: &Self| bench.our_files(2, files, &["-d", "/a", "-d", "/b", "--log-mode", mode])
        };
        let [creates, deletes] = self.beside(with("delayed"), with("immediate"))?;
        creates.report("create, delayed", "create, immediate", "k/s", false, 10.0);
        deletes.report("delete, delayed", "delete, immediate", "k/s", false, 10.0);
        Ok(())
    }

    /// Two threads on two processors beside one on one: the journal's own thread would have a processor to itself beside one
    /// worker, and must share with two. The machine's own limit is reported as well: two processes that share nothing, each on a
    /// processor of its own, are the most that two threads could do.
    fn threads(&self) -> Result<()> {
        let files = self.arguments.files;
        let one = |processor: u32| {
            let alone =
                Bench { uxfs: self.uxfs.clone(), arguments: self.arguments, processor: Some(processor) };
            alone.our_files(1, files, &["-d", "/a"])
        };
        let two = || self.our_files(2, files, &["-d", "/a", "-d", "/b"]);
        let apart = || {
            thread::scope(|scope| {
                let other = scope.spawn(|| one(1));
                let (creates, deletes) = one(0)?;
                let other =
                    other.join().map_err(|_| anyhow::anyhow!("a thread of the benchmark panicked"))??;
                Ok::<_, anyhow::Error>((creates + other.0, deletes + other.1))
            })
        };
        let mut figures: [[Figures; 2]; 2] = Default::default();
        for run in 0..self.arguments.runs {
            let (alone, together, apart) = (one(run % 2)?, two()?, apart()?);
            for (rival, of_rival) in [alone, apart].into_iter().zip(&mut figures) {
                let [creates, deletes] = of_rival;
                creates.add(together.0, rival.0);
                deletes.add(together.1, rival.1);
            }
        }
        let [[creates, deletes], [creates_apart, deletes_apart]] = figures;
        creates.report("create, 2 threads, 2 processors", "1 thread, 1 processor", "k/s", false, 1.8);
        deletes.report("delete, 2 threads, 2 processors", "1 thread, 1 processor", "k/s", false, 1.8);
        creates_apart.tell("create, 2 threads, 2 processors", "2 processes, an image each", "k/s");
        deletes_apart.tell("delete, 2 threads, 2 processors", "2 processes, an image each", "k/s");
        Ok(())
    }

    fn directory_sync(&self) -> Result<()> {
        let mut fsync = Figures::default();
        let mut log_bytes = Figures::default();
        for _ in 0..self.arguments.runs {
            let both = |run: &Run| -> Result<f64> {
                Ok((run.number(0, "fsync_seconds")? + run.number(1, "fsync_seconds")?) * 1e3)
            };
            let theirs =
                self.theirs(2 << 30, |mount| both(&self.theirs_on(mount, &["dirsync"], &["a"])?))?;
            let ours = self.ours(&["dirsync"], "2G", &["-d", "/a"])?;
            fsync.add(both(&ours)?, theirs);
            let of_both =
                |path| Ok::<f64, anyhow::Error>((ours.number(0, path)? + ours.number(1, path)?) / 1e3);
            log_bytes.add(of_both("journal/log_bytes")?, of_both("journal/changed_bytes")?);
        }
        fsync.report("fsync of a directory, 200 times", "kernel XFS", "ms", true, 2.0);
        let (log, changed) = (median(&log_bytes.ours), median(&log_bytes.theirs));
        let verdict = if log <= 1.2 * changed { "reached" } else { "MISSED" };
        let note = format!("  target at most 1.2x {verdict}");
        line(("bytes of the log", log), ("bytes that had changed", changed), "kB", log / changed, &note);
        Ok(())
    }

    fn attributes(&self) -> Result<()> {
        let case = format!("n{}-40-d100", self.arguments.attributes);
        let (mut inserts, mut deletes) = (Figures::default(), Figures::default());
        let sum =
            |run: &Run, phase| Ok::<f64, anyhow::Error>(run.of_phase(phase, "elapsed_seconds")?.iter().sum());
        for _ in 0..self.arguments.runs {
            let theirs = self.theirs(8 << 30, |mount| self.theirs_on(mount, &["xattr", &case], &["a"]))?;
            let ours = self.ours(&["xattr", &case], "8G", &[])?;
            inserts.add(sum(&ours, "insert")?, sum(&theirs, "insert")?);
            deletes.add(sum(&ours, "delete")?, sum(&theirs, "delete")?);
        }
        inserts.report("insert attributes on one inode", "kernel XFS", "s", true, 6.0);
        deletes.report("delete them", "kernel XFS", "s", true, 6.0);
        Ok(())
    }

    fn many_attributes(&self) -> Result<()> {
        let Arguments { many_attributes, cache, .. } = self.arguments;
        if *many_attributes == 0 {
            return Ok(());
        }
        let case = format!("n{many_attributes}-40-d100");
        let run = self.ours(&["xattr", &case], "16G", &["--cache", &format!("{cache}M")])?;
        for phase in ["insert", "delete"] {
            let costs = run.of_phase(phase, "seconds_per_million")?;
            let (Some(first), Some(last)) = (costs.first(), costs.last()) else { continue };
            let share = last / first;
            let verdict = if share <= 1.2 { "reached" } else { "MISSED" };
            println!(
                "{:<34} first {first:.3} s, last {last:.3} s: {share:.2}x  target at most 1.2x {verdict}",
                format!("{phase}, each million of {many_attributes}")
            );
            // Names of every second million have as many equal hashes: those are alike but for the size of the tree.
            if let ([first, second, ..], [.., last_but_one, last]) = (&costs[..], &costs[..]) {
                println!(
                    "{:<34} last two to the first two of their kind: {:.2}x, {:.2}x",
                    "",
                    last_but_one / first,
                    last / second
                );
            }
        }
        println!("{:<34} {} MiB resident, a cache of {cache} MiB", "", run.peak_memory_bytes >> 20);
        Ok(())
    }
}

/// `rm -r` of each directory in a process of its own, all at once; gives seconds.
fn remove_in_parallel(directories: &[PathBuf]) -> Result<f64> {
    let started = Instant::now();
    let children: Vec<_> = directories
        .iter()
        .map(|directory| Command::new("rm").arg("-r").arg(directory).spawn())
        .collect::<Result<_, _>>()?;
    for mut child in children {
        ensure!(child.wait()?.success(), "rm -r failed");
    }
    Ok(started.elapsed().as_secs_f64())
}

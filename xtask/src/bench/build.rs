//! `cargo xtask bench build`: making images, beside `mkfs.xfs` and `tar`.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use uxfs_testkit::judges::Judge;

use super::{
    fixtures,
    measure::{Pairs, Run, measure},
    read::build,
};

/// Memory that a command may take besides its cache of 256 MiB.
const ALLOWANCE_MEBIBYTES: u64 = 64;
const DEFAULT_CACHE_MEBIBYTES: u64 = 256;
const SMALL_CACHE_MEBIBYTES: u64 = 16;

/// Arguments of `cargo xtask bench build`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder for sources and images, in memory so that the disk is not measured
    #[arg(long, default_value = "/dev/shm/uxfs-bench")]
    directory: PathBuf,
    /// Runs of each command
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Files of the tree
    #[arg(long, default_value_t = 150_000)]
    files: u32,
    /// MiB of contents of the tree
    #[arg(long, default_value_t = 5120)]
    mebibytes: u64,
    /// Empty files
    #[arg(long, default_value_t = 1_000_000)]
    empty: u32,
}

/// Runs all comparisons.
pub fn run(arguments: &Arguments) -> Result<()> {
    let bench = Bench { uxfs: build()?, arguments };
    bench.tree()?;
    bench.empty_files()?;
    bench.empty_image()
}

struct Bench<'a> {
    uxfs: PathBuf,
    arguments: &'a Arguments,
}

impl Bench<'_> {
    fn tree(&self) -> Result<()> {
        let Arguments { directory, files, mebibytes, runs, .. } = self.arguments;
        let source = fixtures::tree(directory, *files, mebibytes << 20)?;
        let size = format!("{}m", mebibytes * 3 / 2 + 1024);
        let beside_mkfs =
            Pairs::run(*runs, || self.ours(&source, &size, None), || self.mkfs(&source, &size))?;
        beside_mkfs.report("uxfs mkfs --from TREE", "mkfs.xfs -p TREE", 5.0);
        let beside_tar = Pairs::run(*runs, || self.ours(&source, &size, None), || self.tar(&source))?;
        beside_tar.report("uxfs mkfs --from TREE", "tar cf", 1.0 / 1.3);
        let memory = self.ours(&source, &size, Some(SMALL_CACHE_MEBIBYTES))?;
        report_memory("tree", beside_mkfs.peak_memory_bytes(), DEFAULT_CACHE_MEBIBYTES);
        report_memory("tree", memory.peak_memory_bytes, SMALL_CACHE_MEBIBYTES);
        Ok(())
    }

    fn empty_files(&self) -> Result<()> {
        let Arguments { directory, empty, runs, .. } = self.arguments;
        let source = fixtures::empty_files(directory, *empty)?;
        let size = "4g";
        let pairs = Pairs::run(*runs, || self.ours(&source, size, None), || self.mkfs(&source, size))?;
        pairs.report("uxfs mkfs --from EMPTY FILES", "mkfs.xfs -p EMPTY FILES", 5.0);
        let (ours, theirs) = pairs.medians();
        let rate = |seconds: f64| f64::from(*empty) / seconds / 1e3;
        println!("{:<28} {:>8.0} k files/s (target 500){:>37.0} k files/s", "", rate(ours), rate(theirs));
        let memory = self.ours(&source, size, Some(SMALL_CACHE_MEBIBYTES))?;
        report_memory("empty files", pairs.peak_memory_bytes(), DEFAULT_CACHE_MEBIBYTES);
        report_memory("empty files", memory.peak_memory_bytes, SMALL_CACHE_MEBIBYTES);
        Ok(())
    }

    fn empty_image(&self) -> Result<()> {
        let runs = self.arguments.runs;
        let (image, rivals) = (self.image("ours"), self.image("theirs"));
        let pairs = Pairs::run(
            runs,
            || {
                fresh_file(&image, "1t")?;
                measure(Command::new(&self.uxfs).args(["mkfs", "-q", "-f"]).arg(&image))
            },
            || {
                fresh_file(&rivals, "1t")?;
                measure(Judge::Mkfs.command().args(["-q", "-f", "-K"]).arg(&rivals))
            },
        )?;
        pairs.report("uxfs mkfs, empty, 1 TiB", "mkfs.xfs, empty, 1 TiB", 1.0);
        let blocks = |path: &Path| -> Result<u64> { Ok(fs::metadata(path)?.blocks() / 8) };
        let (ours, theirs) = (blocks(&image)?, blocks(&rivals)?);
        let verdict = if ours <= theirs && pairs.medians().0 <= 0.05 { "reached" } else { "MISSED" };
        println!(
            "{:<28} {:>8.1} ms (target 50), {ours} blocks of 4 KiB in the file, mkfs.xfs {theirs}: {verdict}",
            "",
            pairs.medians().0 * 1e3
        );
        fs::remove_file(&image)?;
        Ok(fs::remove_file(&rivals)?)
    }

    fn ours(&self, source: &Path, size: &str, cache_mebibytes: Option<u64>) -> Result<Run> {
        let image = self.image("ours");
        fresh_file(&image, size)?;
        let mut command = Command::new(&self.uxfs);
        command.args(["mkfs", "-q", "-f", "--from"]).arg(source);
        if let Some(mebibytes) = cache_mebibytes {
            command.args(["--cache-size", &format!("{mebibytes}M")]);
        }
        let run = measure(command.arg(&image))?;
        fs::remove_file(&image)?;
        Ok(run)
    }

    fn mkfs(&self, source: &Path, size: &str) -> Result<Run> {
        let image = self.image("theirs");
        fresh_file(&image, size)?;
        let run = measure(Judge::Mkfs.command().args(["-q", "-f", "-p"]).arg(source).arg(&image))?;
        fs::remove_file(&image)?;
        Ok(run)
    }

    fn tar(&self, source: &Path) -> Result<Run> {
        let archive = self.image("tar");
        let run = measure(Command::new("tar").arg("cf").arg(&archive).arg("-C").arg(source).arg("."))?;
        fs::remove_file(&archive)?;
        Ok(run)
    }

    fn image(&self, name: &str) -> PathBuf {
        self.arguments.directory.join(format!("build-{name}.img"))
    }
}

fn report_memory(name: &str, peak_bytes: u64, cache_mebibytes: u64) {
    let (peak, limit) = (peak_bytes >> 20, cache_mebibytes + ALLOWANCE_MEBIBYTES);
    let verdict = if peak <= limit { "reached" } else { "MISSED" };
    println!(
        "{name:<28} {peak:>5} MiB resident with a cache of {cache_mebibytes} MiB, target {limit} {verdict}"
    );
}

/// An empty file of a size like `4g`, replacing an existing one.
fn fresh_file(path: &Path, size: &str) -> Result<()> {
    let (number, unit) = size.split_at(size.len() - 1);
    let shift = match unit {
        "m" => 20,
        "g" => 30,
        _ => 40,
    };
    let bytes = number.parse::<u64>()? << shift;
    Ok(fs::File::create(path)?.set_len(bytes)?)
}

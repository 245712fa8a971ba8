//! `--demo`: this source tree in an image, its root directory and a third of its other directories destroyed, repaired by each,
//! and both trees beside what was there.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use uxfs_lab::field_fuzz::sparse_device::{DamagedImage, SparseImage};
use uxfs_testkit::judges::workspace_directory;

use super::{
    case::{Bench, Ending},
    catalogue,
    contents::Contents,
    damage::{Change, Damage, Scene},
    objects::Objects,
    repairers::Repairer,
    sample::Sample,
    survival::{Survival, Tree},
};

const SIZE_BYTES: u64 = 512 << 20;
/// Paths that are shown of those that are not as before.
const EXAMPLES: usize = 4;

/// Runs it and prints both trees side by side.
pub fn run(work: &Path, repairers: &[Repairer], seed: u64, built: Duration) -> Result<()> {
    let started = Instant::now();
    let sample = Sample::fresh(work, "source tree", SIZE_BYTES, copy_source_tree)?;
    let device = DamagedImage::sound(SparseImage::load(&sample.image)?);
    let objects = Objects::locate(&device)?;
    let contents = Contents::locate(&sample.image)?;
    let scene = Scene { device: &device, older: None, objects: &objects };
    let mut damage = Damage::new(&scene, seed);
    let lost = catalogue::third_of_directories(&mut damage, &scene, Change::Random)?;
    println!(
        "An image with this source tree: {} files and directories.\n\
         Overwritten with random bytes: the inodes of the root directory and of {} of {} other directories.\n",
        sample.truth.len(),
        lost - 1,
        objects.of("directory-inode").len(),
    );
    let bench = Bench {
        sample: &sample,
        scene: &scene,
        contents: &contents,
        repairers,
        work,
        seed,
        keep: None,
        work_every: 0,
        judge: None,
    };
    let mut endings = Vec::new();
    for repairer in repairers {
        endings.push(bench.repair(repairer, &damage.patches, None)?);
    }
    print!("{}", comparison(&sample.truth, &endings));
    let (seconds, built) = (started.elapsed().as_secs_f64(), built.as_secs_f64());
    println!(
        "\n{seconds:.0} s for making the image, both repairs and both comparisons; {built:.0} s before that for building uxfs"
    );
    Ok(())
}

/// How a repair ended, and the tree as it is now.
type Found = (Ending, Option<Tree>);
/// Of a row.
type Count = fn(&Survival) -> usize;

fn comparison(truth: &Tree, endings: &[Found]) -> String {
    let mut text = String::new();
    let mut line = |title: &str, cell: &dyn Fn(&Found) -> String| {
        let cells: String = endings.iter().map(|ending| format!("{:>30}", cell(ending))).collect();
        text.push_str(format!("{title:<34}{cells}\n").trim_end());
        text.push('\n');
    };
    line("", &|(ending, _)| ending.repairer.clone());
    line("time", &|(ending, _)| format!("{:.1} s", ending.seconds));
    line("xfs_repair -n afterwards", &|(ending, _)| {
        if ending.fault.is_none() { "clean".to_owned() } else { "complains".to_owned() }
    });
    line("at their path, as they were", &|(ending, _)| {
        let intact = ending.survival.as_ref().map_or(0, |survival| survival.intact);
        format!("{intact} ({:.1} %)", 100.0 * intact as f64 / truth.len() as f64)
    });
    let counts: [(&str, Count); 4] = [
        ("at their path, times differ", |survival| survival.only_times),
        ("at their path, more differs", |survival| survival.changed - survival.only_times),
        ("only in lost+found", |survival| survival.moved),
        ("lost", |survival| survival.lost),
    ];
    for (title, count) in counts {
        line(title, &|(ending, _)| {
            ending.survival.as_ref().map_or("-".to_owned(), |found| count(found).to_string())
        });
    }
    line("", &|_| String::new());
    line("as they were, of", &|_| String::new());
    let tops: BTreeSet<&[u8]> = truth.paths().map(top_of).collect();
    for top in tops {
        let below: Vec<&[u8]> = truth.paths().filter(|path| top_of(path) == top).collect();
        let title = format!("  {} ({})", top.escape_ascii(), below.len());
        line(&title, &|(_, found)| {
            let same = |path: &&&[u8]| found.as_ref().is_some_and(|found| truth.is_same_in(found, path));
            below.iter().filter(same).count().to_string()
        });
    }
    for (ending, _) in endings {
        let examples =
            ending.survival.as_ref().map(|survival| survival.examples.as_slice()).unwrap_or_default();
        let shown: Vec<&str> = examples.iter().take(EXAMPLES).map(String::as_str).collect();
        if !shown.is_empty() {
            text.push_str(&format!("\nnot as before, {}: {}\n", ending.repairer, shown.join("; ")));
        }
    }
    text
}

/// The directory in the root through which a path leads; the root itself for what lies in it.
fn top_of(path: &[u8]) -> &[u8] {
    let end = path.iter().skip(1).position(|byte| *byte == b'/');
    end.and_then(|end| path.get(..=end)).unwrap_or(b"/")
}

/// The files that git knows.
fn copy_source_tree(root: &Path) -> Result<()> {
    let source = workspace_directory();
    let output = Command::new("git").arg("-C").arg(&source).args(["ls-files", "-z"]).output()?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    for name in output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = PathBuf::from(OsStr::from_bytes(name));
        let (from, to) = (source.join(&name), root.join(&name));
        // Git may know files that are not there.
        if from.is_file() {
            fs::create_dir_all(to.parent().context("a file without a directory")?)?;
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_by_the_directory_in_the_root() {
        assert_eq!(top_of(b"/"), b"/");
        assert_eq!(top_of(b"/README.md"), b"/");
        assert_eq!(top_of(b"/docs/repair.md"), b"/docs");
        assert_eq!(top_of(b"/crates/uxfs/src"), b"/crates");
    }
}

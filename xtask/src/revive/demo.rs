//! `--demo`: this source tree in an image, its root directory and a third of its other directories destroyed, and repaired.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use uxfs_lab::field_fuzz::sparse_device::{DamagedImage, SparseImage};
use uxfs_testkit::judges::workspace_directory;

use super::{
    case::{Bench, Ending},
    catalogue,
    damage::{Change, Damage, Scene},
    objects::Objects,
    repairers::Repairer,
    sample::Sample,
};

const SIZE_BYTES: u64 = 512 << 20;

/// Runs it and prints a few lines.
pub fn run(work: &Path, repairers: &[Repairer], seed: u64) -> Result<()> {
    let sample = Sample::fresh(work, "source tree", SIZE_BYTES, copy_source_tree)?;
    let device = DamagedImage::sound(SparseImage::load(&sample.image)?);
    let objects = Objects::locate(&device)?;
    let scene = Scene { device: &device, older: None, objects: &objects };
    let mut damage = Damage::new(&scene, seed);
    let lost = catalogue::third_of_directories(&mut damage, &scene, Change::Random)?;
    println!(
        "{} files and directories of this source tree; the inodes of the root and of {} of {} other directories overwritten",
        sample.truth.len(),
        lost - 1,
        objects.of("directory-inode").len(),
    );
    let bench = Bench { sample: &sample, scene: &scene, repairers, work, seed, keep: None };
    for repairer in repairers {
        let ending = bench.repair(repairer, &damage.patches)?;
        println!("{}", words(&ending, sample.truth.len()));
    }
    Ok(())
}

fn words(ending: &Ending, entries: usize) -> String {
    let start = format!("{:<12} {:>5.1} s: ", ending.repairer, ending.seconds);
    let Some(survival) = &ending.survival else {
        let fault = ending.fault.as_deref().unwrap_or_default();
        return format!("{start}not repaired: {fault}");
    };
    let percent = 100.0 * survival.intact as f64 / entries as f64;
    let (intact, moved, changed, lost) = (survival.intact, survival.moved, survival.changed, survival.lost);
    format!(
        "{start}{intact} of {entries} as they were ({percent:.1} %), {moved} only in lost+found, {changed} changed \
         ({} in times alone, {} with wrong contents), {lost} lost",
        survival.only_times, survival.wrong_bytes
    )
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

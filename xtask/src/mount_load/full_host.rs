//! A sparse image on a host that becomes full.
//!
//! Whatever fsync acknowledged must stay, and an fsync that succeeds after the host is full must be true as well. Once there is room, the
//! image is mounted again and is sound.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use uxfs_testkit::seeds::Random;

use super::{Stage, place::Place, program};

const LONGEST: Duration = Duration::from_secs(300);
/// Errors that are enough.
const ERRORS: u64 = 60;
/// The host before and after room is made.
const HOST: &str = "size=96m";
const ROOMY_HOST: &str = "size=900m";

/// A tmpfs of limited size; unmounted whatever happens.
struct Host(PathBuf);

impl Host {
    fn new(directory: PathBuf) -> Result<Self> {
        fs::create_dir(&directory)?;
        let options = std::ffi::CString::new(HOST)?;
        mount("tmpfs", &directory, "tmpfs", MountFlags::empty(), options.as_c_str())?;
        Ok(Self(directory))
    }

    fn make_room(&self) -> Result<()> {
        let mut command = Command::new("mount");
        command.args(["-o", &format!("remount,{ROOMY_HOST}")]).arg(&self.0);
        program::run(&mut command, LONGEST).map(drop)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// What was acknowledged, and what went wrong.
#[derive(Default)]
struct Told {
    durable: Vec<u64>,
    /// Syncs that failed.
    failed_syncs: u64,
    /// Other calls that failed.
    failed_calls: u64,
    /// Words of the first errors.
    words: Vec<String>,
}

/// Runs it.
pub fn load(stage: &Stage) -> Result<String> {
    let folder = stage.folder()?;
    let host = Host::new(folder.path().join("host"))?;
    let image = host.0.join("image");
    let place = Place::with_image(stage, folder, image, "1G", LONGEST)?;
    place.mount()?;
    let told = fill(place.path(), stage.seed)?;
    ensure!(told.failed_syncs + told.failed_calls > 0, "a full host gave no error");
    // What the cache holds need not be read from the image.
    must_hold(place.path(), &told).context("on the full host")?;
    host.make_room()?;
    // What was written and not synced may be lost: unmounting may tell so.
    let unmounted = place.unmount();
    if unmounted.is_err() {
        place.kill().context("after uxfs umount had failed")?;
    }
    place.mount().context("with room again")?;
    must_hold(place.path(), &told).context("mounted again")?;
    let file = new_file(&place.join("after"), u64::MAX);
    ensure!(file.is_ok(), "with room again a file cannot be made: {file:?}");
    let said = stage.words_of_mounts();
    let Told { durable, failed_syncs, failed_calls, words } = told;
    let paths = place.finish()?;
    Ok(format!(
        "{} files acknowledged, {failed_syncs} syncs and {failed_calls} other calls failed ({}), unmount {}, the mount said: {}; {paths} paths",
        durable.len(),
        words.join("; "),
        if unmounted.is_ok() { "succeeded" } else { "failed" },
        said.first().map_or("nothing", |line| line.trim())
    ))
}

/// Makes files until enough errors have come.
fn fill(root: &Path, seed: u64) -> Result<Told> {
    let (mut random, mut told, begun) = (Random::new(seed), Told::default(), Instant::now());
    let mut number = 0;
    while told.failed_syncs + told.failed_calls < ERRORS {
        ensure!(begun.elapsed() < LONGEST, "{number} files, and the host is not full");
        let directory = root.join(format!("d{}", number / 50));
        let made = fs::create_dir_all(&directory);
        let path = directory.join(format!("f{number}"));
        let written = made.and_then(|()| written(&path, number));
        match written {
            Err(error) => {
                told.failed_calls += 1;
                told.tell(&error);
            }
            // Some are not synced: they are written back when the kernel wants to.
            Ok(_) if random.below(3) == 0 => {}
            Ok(file) => match file.sync_all().and_then(|()| File::open(&directory)?.sync_all()) {
                Ok(()) => told.durable.push(number),
                Err(error) => {
                    told.failed_syncs += 1;
                    told.tell(&error);
                }
            },
        }
        number += 1;
    }
    Ok(told)
}

impl Told {
    fn tell(&mut self, error: &std::io::Error) {
        let words = error.to_string();
        if !self.words.contains(&words) {
            self.words.push(words);
        }
    }
}

fn written(path: &Path, number: u64) -> std::io::Result<File> {
    let mut file = File::create(path)?;
    file.write_all(&contents(number))?;
    Ok(file)
}

fn new_file(path: &Path, number: u64) -> std::io::Result<()> {
    written(path, number)?.sync_all()
}

fn contents(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut bytes = vec![0; 1000 + random.below(400_000) as usize];
    random.fill(&mut bytes);
    bytes
}

fn must_hold(root: &Path, told: &Told) -> Result<()> {
    for number in &told.durable {
        let path = root.join(format!("d{}", number / 50)).join(format!("f{number}"));
        let bytes = fs::read(&path).with_context(|| format!("file {number}, which fsync acknowledged"))?;
        ensure!(bytes == contents(*number), "file {number}, which fsync acknowledged, has other bytes");
    }
    Ok(())
}

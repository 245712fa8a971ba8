//! Images of which every seventh structure is damaged: use goes on around the damage.
//!
//! Objects that need what is damaged give an error, EUCLEAN as a rule. Others keep their contents. Nothing panics or hangs, and the mount
//! ends without an error, or says what kept the last changes from the image. An image that cannot be mounted at all must be refused by a message.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use uxfs_block::engine::{OpenOptions as EngineOptions, open};
use uxfs_testkit::{
    seeds::Random,
    structures::{self, Instance, Owner},
};

use super::{Stage, place::Place, processes, program};

const LONGEST: Duration = Duration::from_secs(300);
/// One structure in so many is damaged, a different one in each round.
const EVERY: usize = 7;
const FILES: u64 = 600;

/// What calls on a damaged image gave.
#[derive(Default)]
struct Seen {
    refused: u64,
    shut_down: u64,
    right: u64,
    errors: BTreeMap<i32, u64>,
    changes: u64,
}

/// Runs it: seven rounds damage every structure once, first those of inodes alone, then all.
pub fn load(stage: &Stage) -> Result<String> {
    let mut seen = Seen::default();
    for (round, only_inodes) in (0..EVERY).flat_map(|round| [(round, true), (round, false)]) {
        let what = || format!("round {round}, {}", if only_inodes { "inodes" } else { "all structures" });
        one(stage, round, only_inodes, &mut seen).with_context(what)?;
    }
    let errors: Vec<_> =
        seen.errors.iter().map(|(code, count)| format!("{count} × {}", name(*code))).collect();
    Ok(format!(
        "{} images, {} mounts refused, {} shut down and told so; {} objects whole, errors: {}; {} changes done",
        2 * EVERY,
        seen.refused,
        seen.shut_down,
        seen.right,
        errors.join(", "),
        seen.changes
    ))
}

fn name(code: i32) -> String {
    match Errno::from_raw_os_error(code) {
        Errno::UCLEAN => "EUCLEAN".into(),
        Errno::IO => "EIO".into(),
        Errno::NOENT => "ENOENT".into(),
        Errno::ROFS => "EROFS".into(),
        _ => format!("errno {code}"),
    }
}

fn one(stage: &Stage, round: usize, only_inodes: bool, seen: &mut Seen) -> Result<()> {
    let place = Place::mounted(stage, "400M", LONGEST)?;
    let expected = fill(place.path(), stage.seed)?;
    place.unmount()?;
    place.is_sound()?;
    damage(place.image(), round, only_inodes, stage.seed)?;
    if !is_mounted(&place, seen)? {
        return Ok(());
    }
    read_all(place.path(), &expected, seen)?;
    change(place.path(), seen);
    // The second look finds the damage in the caches.
    read_all(place.path(), &expected, seen)?;
    end(stage, &place, seen)?;
    // What a change that met damage left in the log is recovered, or refused.
    if is_mounted(&place, seen)? {
        read_all(place.path(), &expected, seen)?;
        end(stage, &place, seen)?;
    }
    let said = stage.words_of_mounts();
    ensure!(!said.iter().any(|line| line.contains("panicked")), "the mount said: {said:?}");
    // The check must still be able to read the file system.
    let mut check = Command::new(&stage.uxfs);
    let checked = program::attempt(check.arg("check").arg(place.image()), LONGEST)?;
    ensure!(checked.status.code() == Some(3), "uxfs check: {}", checked.status);
    Ok(())
}

/// Mounts it. Gives whether it is mounted: a refusal is a message, and neither a panic nor a signal.
fn is_mounted(place: &Place<'_>, seen: &mut Seen) -> Result<bool> {
    let Err(error) = place.mount() else { return Ok(true) };
    let words = format!("{error:#}");
    let is_crash = ["panicked", "signal", "ended after"].iter().any(|word| words.contains(word));
    ensure!(!is_crash, "the mount: {words}");
    seen.refused += 1;
    Ok(false)
}

/// Unmounts it: well, or with the damage that kept the last changes from the image.
fn end(stage: &Stage, place: &Place<'_>, seen: &mut Seen) -> Result<()> {
    let alive = processes::of(place.image());
    ensure!(alive.len() == 2, "of the mount's processes these are left: {alive:?}");
    let mut unmount = Command::new(&stage.uxfs);
    let ended = program::attempt(unmount.arg("umount").arg(place.path()), Duration::from_secs(60))?;
    if !ended.status.success() {
        let is_told = ended.words.contains("unmounted, but the last changes did not reach the image");
        ensure!(is_told, "uxfs umount: {}", ended.words);
        seen.shut_down += 1;
    }
    processes::wait_for_the_end(place.image(), Duration::from_secs(20))
}

/// Files of all kinds; gives the contents of the regular ones.
fn fill(root: &Path, seed: u64) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let (mut random, mut all) = (Random::new(seed), BTreeMap::new());
    for number in 0..FILES {
        let directory = root.join(format!("d{}", number % 13)).join(format!("e{}", number % 31));
        fs::create_dir_all(&directory)?;
        let path = directory.join(format!("file-{number}"));
        let most = 1 << (4 + random.below(13));
        let mut bytes = vec![0; random.below(most) as usize];
        random.fill(&mut bytes);
        let file = File::create(&path)?;
        for (index, piece) in (0..).zip(bytes.chunks(8192)) {
            // Files in pieces, some with holes between.
            file.write_all_at(piece, index * 8192 * (1 + number % 2))?;
        }
        match number % 5 {
            0 => std::os::unix::fs::symlink(
                "target/".repeat(1 + number as usize / 5),
                path.with_extension("link"),
            )?,
            1 => fs::hard_link(&path, path.with_extension("hard"))?,
            2 => {
                let value = vec![7; number as usize * 5];
                rustix::fs::setxattr(&path, "user.value", &value, rustix::fs::XattrFlags::empty())?;
            }
            _ => {}
        }
        all.insert(path.clone(), fs::read(&path)?);
    }
    // A directory of several blocks with an index.
    let large = root.join("large");
    fs::create_dir(&large)?;
    for number in 0..2000 {
        File::create(large.join(format!("a-name-that-takes-some-room-{number:06}")))?;
    }
    Ok(all)
}

/// Flips bits of every seventh structure, so that its checksum is wrong. The first superblock stays.
fn damage(image: &Path, round: usize, only_inodes: bool, seed: u64) -> Result<()> {
    let device = open(image, &EngineOptions::default())?;
    let (_, all) = structures::list(&*device)?;
    drop(device);
    let is_asked = |instance: &&Instance| {
        let is_first = instance.pieces.first().is_none_or(|(offset, _)| *offset == 0);
        !is_first && (!only_inodes || matches!(instance.owner, Owner::Inode(_)))
    };
    let file = OpenOptions::new().read(true).write(true).open(image)?;
    let mut random = Random::new(seed.wrapping_add(round as u64));
    let mut count = 0;
    for instance in all.iter().filter(is_asked).skip(round).step_by(EVERY) {
        for (offset, length) in &instance.pieces {
            let at = offset + random.below(u64::from(*length));
            let mut byte = [0];
            file.read_exact_at(&mut byte, at)?;
            file.write_all_at(&[byte[0] ^ (1 << random.below(8))], at)?;
            count += 1;
        }
    }
    ensure!(count > 0, "there is nothing to damage");
    Ok(())
}

/// Every file gives an error, or what it held.
fn read_all(root: &Path, expected: &BTreeMap<PathBuf, Vec<u8>>, seen: &mut Seen) -> Result<()> {
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        let Some(entries) = seen.of(fs::read_dir(&directory)) else { continue };
        for entry in entries {
            let Some(entry) = seen.of(entry) else { break };
            let path = entry.path();
            let Some(metadata) = seen.of(fs::symlink_metadata(&path)) else { continue };
            if metadata.is_dir() {
                left.push(path);
            } else if metadata.is_symlink() {
                seen.of(fs::read_link(&path));
            } else if let Some(bytes) = seen.of(fs::read(&path)) {
                let is_right = expected.get(&path).is_none_or(|held| *held == bytes);
                ensure!(is_right, "{} has other bytes, without an error", path.display());
                let mut value = vec![0; 1 << 16];
                seen.of(rustix::fs::getxattr(&path, "user.value", &mut value[..]).map_err(Into::into));
            }
        }
    }
    // By name, also where the directory cannot be listed.
    for (path, held) in expected {
        if let Some(bytes) = seen.of(fs::read(path)) {
            ensure!(bytes == *held, "{} has other bytes, without an error", path.display());
        }
    }
    Ok(())
}

impl Seen {
    fn of<T>(&mut self, outcome: std::io::Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.right += 1;
                Some(value)
            }
            // A file without the attribute was made without it.
            Err(error) if error.raw_os_error() == Some(Errno::NODATA.raw_os_error()) => None,
            Err(error) => {
                *self.errors.entry(error.raw_os_error().unwrap_or(0)).or_default() += 1;
                None
            }
        }
    }
}

/// Changes everywhere. Each may fail, and none may hang.
fn change(root: &Path, seen: &mut Seen) {
    for number in 0..FILES {
        let directory = root.join(format!("d{}", number % 13)).join(format!("e{}", number % 31));
        let (new, moved) =
            (directory.join(format!("new-{number}")), directory.join(format!("moved-{number}")));
        let old = directory.join(format!("file-{number}"));
        let outcomes = match number % 6 {
            0 => fs::write(&new, "new").and_then(|()| File::open(&new)?.sync_all()),
            1 => fs::write(&new, vec![9; 100_000]).and_then(|()| fs::rename(&new, &moved)),
            2 => fs::create_dir(&new).and_then(|()| fs::remove_dir(&new)),
            3 => fs::hard_link(&old, &new).and_then(|()| fs::remove_file(&new)),
            4 => File::create(root.join("large").join(format!("more-{number}"))).map(drop),
            _ => fs::write(&new, "new").and_then(|()| fs::remove_file(&new)),
        };
        match outcomes {
            Ok(()) => seen.changes += 1,
            Err(error) => *seen.errors.entry(error.raw_os_error().unwrap_or(0)).or_default() += 1,
        }
    }
}

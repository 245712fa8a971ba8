//! Edits of an image with a damaged structure, and what must be as it was afterwards.
//!
//! Whatever the damage, an edit may be refused. It must not take with it what it did not name, and it must not lock the image:
//! 1. What could be read before reads the same, but for the victims that the edits named, and for files whose blocks a lying
//!    extent of another inode covers where nothing could know it ([`unknowable`](super::unknowable)).
//! 2. An image that could be opened for reading can be; one that could be opened for changes, too; a dirty log is recovered.
//!
//! Each victim is edited in a mount of its own, which goes on after refusals. Where a failure in the middle of a change has shut
//! the file system down, the mount is dropped as by a crash, and the next one recovers.

use std::{collections::HashSet, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_engine::options::{Clock, Generations, LogOptions, MountOptions};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::inode::Timestamp;
use uxfs_volume::error::{Error, Result};

use super::{
    edits::{EDITS, Target, Victim},
    holdings::{Holding, Holdings, May},
    plan::Damage,
    sparse_device::{DamagedImage, EditableImage},
    unknowable::FileBlocks,
};
use uxfs_testkit::{seeds::Random, structures::Owner};

const CACHE_BYTES: u64 = 16 << 20;
/// Victims beside what the damaged structure belongs to.
const MORE_VICTIMS: usize = 3;

/// How edits went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It cannot be opened for changes.
    Refused,
    /// So many edits were made, were refused, and failed in the middle.
    Edited {
        /// Made.
        made: u32,
        /// Refused.
        refused: u32,
        /// Failed in the middle: the file system was shut down.
        shut_down: u32,
    },
    /// A promise was broken.
    Broken(String),
}

/// Facts of the sound image.
#[derive(Debug)]
pub struct Sound {
    holdings: Holdings,
    blocks: FileBlocks,
}

impl Sound {
    /// Looks at a sound image.
    ///
    /// # Errors
    /// It is not sound.
    pub fn of(image: DamagedImage) -> Result<Self> {
        let device: Arc<dyn BlockDevice> = Arc::new(image);
        let holdings = Holdings::read(&device)?;
        let blocks = FileBlocks::of(&device, holdings.paths.values().map(|holding| holding.inode))?;
        Ok(Self { holdings, blocks })
    }

    /// A path of the inode that the structure belongs to, and a few others.
    pub fn victims(&self, owner: Owner, random: &mut Random) -> Vec<Victim> {
        let all: Vec<_> = self.holdings.paths.iter().collect();
        let mut victims: Vec<Victim> = Vec::new();
        if let Owner::Inode(number) = owner {
            let own = all.iter().filter(|(_, holding)| holding.inode == number).take(1);
            victims.extend(own.map(|(path, _)| (*path).clone()));
        }
        for _ in 0..if all.is_empty() { 0 } else { MORE_VICTIMS } {
            let (path, _) = all[random.below(all.len() as u64) as usize];
            if !victims.contains(path) {
                victims.push(path.clone());
            }
        }
        victims
    }
}

/// Mounts as the test does: alone, with times and numbers that are the same each time.
fn mount(device: &Arc<dyn BlockDevice>) -> Result<Arc<FileSystem>> {
    let options = MountOptions {
        cache_budget_bytes: Some(CACHE_BYTES),
        generations: Generations::REPRODUCIBLE,
        clock: Clock::Fixed(Timestamp { seconds: 1_700_000_000, nanoseconds: 7 }),
        log: LogOptions { has_background: false, ..LogOptions::default() },
        ..MountOptions::default()
    };
    FileSystem::mount_logged(Arc::clone(device), &options)
}

/// Edits a damaged image, and compares what it holds before and after.
pub fn edit(
    image: DamagedImage,
    damage: &Damage<'_>,
    sound: &Sound,
    seed: u64,
    tell: &mut dyn FnMut(&str),
) -> Verdict {
    let device: Arc<dyn BlockDevice> = Arc::new(EditableImage::new(image));
    let Ok(before) = Holdings::read(&device) else { return Verdict::Refused };
    let victims = sound.victims(damage.instance.owner, &mut Random::new(seed));
    let covered = sound.blocks.below(&device, damage.instance.owner);
    let mut counts = [0; 3];
    for (number, victim) in victims.iter().enumerate() {
        if let Err(verdict) = edit_one(&device, (number, victim), &mut counts, tell) {
            return verdict;
        }
        if let Some(broken) = compare(&device, &before, sound, (&victims, &covered)) {
            return Verdict::Broken(format!("after {}: {broken}", victim.escape_ascii()));
        }
    }
    let [made, refused, shut_down] = counts;
    Verdict::Edited { made, refused, shut_down }
}

fn edit_one(
    device: &Arc<dyn BlockDevice>,
    (number, victim): (usize, &Victim),
    counts: &mut [u32; 3],
    tell: &mut dyn FnMut(&str),
) -> std::result::Result<(), Verdict> {
    let mut filesystem = match mount(device) {
        Ok(filesystem) => filesystem,
        Err(error) if number == 0 => {
            tell(&format!("cannot be opened for changes: {error}"));
            return Err(Verdict::Refused);
        }
        Err(error) => return Err(Verdict::Broken(format!("locked after edits were closed: {error}"))),
    };
    for (what, edit) in EDITS {
        let done = edit(&filesystem, &Target { path: victim, number });
        let is_shut_down = filesystem.journal().is_some_and(|journal| journal.check().is_err());
        match &done {
            Ok(()) => tell(&format!("{}: {what}: done", victim.escape_ascii())),
            Err(error) => tell(&format!("{}: {what}: {error}", victim.escape_ascii())),
        }
        counts[if is_shut_down { 2 } else { usize::from(done.is_err()) }] += 1;
        if is_shut_down {
            drop(filesystem);
            let locked = |error: Error| Verdict::Broken(format!("locked after \"{what}\": {error}"));
            filesystem = mount(device).map_err(locked)?;
        }
    }
    if let Err(error) = filesystem.close() {
        tell(&format!("not closed: {error}"));
    }
    Ok(())
}

fn compare(
    device: &Arc<dyn BlockDevice>,
    before: &Holdings,
    sound: &Sound,
    (victims, covered): (&[Victim], &HashSet<u64>),
) -> Option<String> {
    let after = match Holdings::read_after(device) {
        Ok(after) => after,
        Err(error) => return Some(format!("locked for reading: {error}")),
    };
    // All that a victim is, however it is reached; and what lies below one that was a directory.
    let mut inodes = covered.clone();
    for holdings in [&sound.holdings, before] {
        inodes
            .extend(victims.iter().filter_map(|path| holdings.paths.get(path)).map(|holding| holding.inode));
    }
    // What a directory held goes with the blocks of the directory, when a lie was believed that lies over them.
    let is_covered = |holding: &&Holding| covered.contains(&holding.inode);
    let lost: Vec<&Victim> = sound
        .holdings
        .paths
        .iter()
        .filter(|(_, holding)| is_covered(holding))
        .map(|(path, _)| path)
        .collect();
    let may = |path: &[u8], inode: u64| {
        let is_below =
            |victim: &Victim| path.strip_prefix(victim.as_slice()).is_some_and(|rest| rest.starts_with(b"/"));
        if inodes.contains(&inode) || lost.iter().any(|directory| is_below(directory)) {
            May::Change
        } else if victims.iter().any(is_below) {
            May::Move
        } else {
            May::Nothing
        }
    };
    before.lost_in(&after, may)
}

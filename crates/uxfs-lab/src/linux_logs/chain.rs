//! uxfs and the kernel in turn on one file system: each is cut off at work, both recover what is left, and the other goes on.
//!
//! ```text
//!        ┌─ uxfs works, several threads ─▶ crash ─┬─▶ uxfs recovers ─┐
//!        │                                        └─▶ the kernel recovers ─▶ equal? ─┐
//!        │                                                                           ▼
//!        └── equal? ◀─┬─ uxfs recovers ◀────────────────────────────── crash ◀─ the kernel works
//!                     └─ the kernel recovers ◀─┘
//! ```

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use uxfs_block::device::BlockDevice;
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle, recovery::mount_recovered};
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
};

use super::{
    Tally, both_recover,
    compare::{Author, Recovery, findings_of, sound_as},
    kept,
    load::leave_log,
    shapes::Shape,
};
use crate::{
    crash::{
        consistency,
        image::Image,
        recording::{Event, History, RecordingDevice},
        tree::Tree,
        volume::mount_options,
        workload::OperationKind,
    },
    crowd::Crowd,
};
use uxfs_testkit::seeds::Random;

/// Operations of each thread, if it is not cut off before.
const OPERATIONS: usize = 3000;

/// `rounds` times uxfs and the kernel in turn on one file system.
///
/// # Errors
/// Recoveries differ, a promise was broken, a judge finds something, or a tool fails.
pub fn run(seed: u64, rounds: u32, keep: Option<&Path>, tally: &mut Tally) -> Result<()> {
    let mut random = Random::new(seed);
    let shape = Shape::any(&mut random);
    let work = tempfile::Builder::new().prefix("uxfs-linux-log-").tempdir()?;
    let [image, dirty, recovered] = ["image", "dirty", "recovered"].map(|name| work.path().join(name));
    shape.make(&image, &mut random)?;
    let first = random.below(2) as u32;
    for round in 0..rounds {
        let is_ours = round % 2 == first;
        let before = tally.logs;
        let found = findings_of(&image)?;
        let author = if is_ours { Author::Uxfs(&found) } else { Author::Linux };
        let left = match is_ours {
            true => leave_own_log(&image, &shape, round, &mut random, tally),
            false => leave_log(&image, &shape, &mut random, tally),
        };
        let result = left.and_then(|()| {
            let outcome = both_recover(&image, &dirty, &recovered, author, tally)?;
            if is_ours && outcome == Recovery::RefusedByLinux {
                return Err(anyhow!("Linux refuses what uxfs left"));
            }
            if is_ours {
                sound_as(&image, &recovered, author, false).context("what Linux recovered of ours")?;
            }
            Ok(outcome)
        });
        *tally.shapes.entry(shape.name).or_default() += tally.logs - before;
        let who = if is_ours { "uxfs" } else { "Linux" };
        let outcome = result.with_context(|| {
            let name = format!("chain-{seed}-round-{round}.img");
            let bad = if dirty.exists() { &dirty } else { &image };
            format!("chain on {shape}, seed {seed}, round {round} by {who}{}", kept(keep, bad, &name))
        })?;
        // The other one goes on with what it recovered.
        if !is_ours || outcome == Recovery::RefusedByLinux {
            fs::rename(&recovered, &image)?;
        }
    }
    Ok(())
}

/// uxfs works on `image` with several threads, until it is cut off.
fn leave_own_log(
    image: &Path,
    shape: &Shape,
    round: u32,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<()> {
    let mut clock = Instant::now();
    let device = Arc::new(RecordingDevice::new(Image::load(image)?));
    let log = LogOptions {
        is_immediate: random.below(5) == 0,
        record_size_bytes: [0, 64 << 10, 256 << 10][random.below(3) as usize],
        has_background: random.below(4) != 0,
        checkpoint_interval: None,
    };
    let options = MountOptions { log, ..mount_options(8) };
    let file_system = FileSystem::mount_logged(device.clone(), &options).context("mounting")?;
    let is_supported = |kind| match kind {
        OperationKind::Clone => shape.has_sharing(),
        OperationKind::Exchange => shape.has_exchange(),
        _ => true,
    };
    if random.below(2) == 0 {
        remove_older(&file_system, random)?;
    }
    let name = format!("uxfs-{round}-");
    let (seed, threads) = (random.next_u64(), 1 + random.below(4) as usize);
    let mut crowd = match Crowd::found(&file_system, &name, seed, threads, is_supported) {
        Err(error) if is_full(&error) => return device.image().save(image),
        crowd => crowd?,
    };
    device.begin_again();
    let spell = Duration::from_millis(5 + random.below(300));
    let is_over = AtomicBool::new(false);
    let worked = crowd.work(&file_system, OPERATIONS, &is_over, |watch| {
        let begin = Instant::now();
        while watch.is_running() && begin.elapsed() < spell {
            thread::sleep(Duration::from_millis(1));
        }
        let cut = watch.moment(|| device.history().events.len());
        is_over.store(true, Ordering::SeqCst);
        cut
    });
    let (done, (moment, events)) = worked?;
    tally.own_operations += done.own + done.shared;
    let history = device.history();
    drop(file_system);
    let crashed = what_is_left(&history, events, random);
    crashed.save(image)?;
    let device: Arc<dyn BlockDevice> = Arc::new(crate::crash::image::ImageDevice::read_only(crashed));
    let (recovered, _) =
        mount_recovered(&device, &mount_options(8)).context("our own recovery of our own log")?;
    // Linux may have left an attribute half set in an earlier round.
    consistency::check_of_linux(&recovered, &Tree::read(&recovered)?)?;
    crowd.check_crash(&recovered, &moment)?;
    tally.spend("our work", &mut clock);
    Ok(())
}

fn is_full(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Operation(OperationError::NoSpace)))
}

/// Contents of a device after a loss of power behind so many events: of the writes that were not flushed some are lost.
fn what_is_left(history: &History, events: usize, random: &mut Random) -> Image {
    let happened = &history.events[..events];
    let flushed = happened.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
    let lost_of_eight = [0, 1, 4][random.below(3) as usize];
    let mut image = history.base.clone();
    for (number, event) in happened.iter().enumerate() {
        if number < flushed || random.below(8) >= lost_of_eight {
            event.apply(&mut image);
        }
    }
    image
}

/// Removes what an earlier round left, so that there is space.
fn remove_older(file_system: &FileSystem, random: &mut Random) -> Result<()> {
    let root = file_system.open_root()?;
    for (name, kind) in names_in(file_system, &root)? {
        if kind == FileType::Directory && random.below(2) == 0 {
            match remove_tree(file_system, &root, &name) {
                // The kernel's workload made a file immutable.
                Ok(()) | Err(Error::Operation(_)) => {}
                Err(error) => return Err(error).context("removing a tree"),
            }
        }
    }
    Ok(())
}

fn names_in(file_system: &FileSystem, directory: &InodeHandle) -> Result<Vec<(Vec<u8>, FileType)>, Error> {
    let mut names = Vec::new();
    file_system.read_entries(directory, 0, |entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push((entry.name.to_vec(), entry.file_type.unwrap_or(FileType::Regular)));
        }
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(names)
}

fn remove_tree(file_system: &FileSystem, parent: &InodeHandle, name: &[u8]) -> Result<(), Error> {
    let directory = file_system.find(parent, name)?;
    for (name, kind) in names_in(file_system, &directory)? {
        match kind {
            FileType::Directory => remove_tree(file_system, &directory, &name)?,
            _ => file_system.unlink(&directory, &name)?,
        }
    }
    drop(directory);
    file_system.remove_directory(parent, name)
}

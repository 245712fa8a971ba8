//! The kernel at work, until it is cut off.

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

use anyhow::{Result, anyhow, ensure};

use super::{Tally, shapes::Shape, work};
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    seeds::Random,
};

/// How long the kernel works, in milliseconds: from, and up to how much longer.
const SPELLS: [(u64, u64); 5] = [(5, 50), (20, 130), (20, 130), (100, 200), (300, 500)];

/// The same where files are large.
const LARGE_SPELL: (u64, u64) = (200, 2000);

/// Mounts `image`, has threads change it, and cuts it off in the middle.
///
/// # Errors
/// It cannot be mounted, cut off or unmounted.
pub fn leave_log(image: &Path, shape: &Shape, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let mut clock = Instant::now();
    let options = shape.mount_options(random);
    let mount = LoopMount::with_options(image, Access::ReadWrite, &options)?;
    let is_gone = Arc::<AtomicBool>::default();
    // What is large takes its time.
    let is_large = random.below(5) == 0;
    // Half of the time all threads have the same names.
    let (count, is_shared) = (1 + random.below(4), random.below(2) == 0);
    let threads: Vec<_> = (0..count)
        .map(|thread| {
            let folder = if is_shared { "shared".to_owned() } else { format!("t{thread}") };
            let (root, seed) = (mount.join(folder), random.next_u64());
            let is_gone = Arc::clone(&is_gone);
            thread::spawn(move || work::operate(&root, seed, is_large, &is_gone))
        })
        .collect();
    let (root, seed) = (mount.path().to_path_buf(), random.next_u64());
    let pause = Duration::from_millis([2, 15, 100, 2000][random.below(4) as usize]);
    let forces = thread::spawn(move || work::force_log(&root, seed, pause));
    let (least, more) =
        if is_large { LARGE_SPELL } else { SPELLS[random.below(SPELLS.len() as u64) as usize] };
    thread::sleep(Duration::from_micros(1000 * least + random.below(1000 * more)));
    let command = if random.below(2) == 0 { "shutdown" } else { "shutdown -f" };
    let output = Judge::XfsIo.command().args(["-x", "-c", command]).arg(mount.path()).output()?;
    is_gone.store(true, Ordering::Relaxed);
    let leftovers: Vec<_> = threads.into_iter().map(thread::JoinHandle::join).collect();
    forces.join().map_err(|_| anyhow!("forcing the log panicked"))?;
    if !output.status.success() {
        // Linux shuts a file system down by itself when an error comes in the middle of a change. It leaves a log all the same.
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(is_shut_down(mount.path()), "xfs_io: {words}");
        tally.shutdowns_by_linux += 1;
    }
    // Files that are open without names stay so until here.
    for leftover in leftovers {
        drop(leftover.map_err(|_| anyhow!("a worker panicked"))?);
    }
    mount.unmount()?;
    tally.spend("work", &mut clock);
    Ok(())
}

/// Whether a mounted file system is shut down: it then answers everything with this error.
fn is_shut_down(mounted: &Path) -> bool {
    fs::metadata(mounted).is_err_and(|error| work::is_over(&error))
}

//! Crashes while we recover: whatever of our writes came to the device, recovery comes to the same again.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use anyhow::{Context, Result, ensure};
use uxfs_block::device::BlockDevice;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::mount;
use uxfs_filesystem::recovery::{mount_recovered, recover};
use uxfs_volume::volume::Volume;

use crate::crash::{
    consistency,
    image::{Image, ImageDevice, hash, mix},
    recording::RecordingDevice,
    states::{self, CrashState, Plan},
    tree::Tree,
};
use uxfs_testkit::verdict;

/// One state in so many is recovered onto the image, too, not only in an overlay.
const WRITTEN_STATES: u64 = 6;
/// One state in so many is judged by `xfs_repair`, too.
const JUDGED_STATES: u64 = 60;

/// States that were tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrashTally {
    /// In all.
    pub states: u64,
    /// Recovered onto the image.
    pub written: u64,
    /// Of these, judged by `xfs_repair`.
    pub judged: u64,
    /// Logs that end while Linux frees an inode: its fields contradict each other, and recovery leaves it.
    pub half_freed: u64,
}

/// What recovery must come to.
#[derive(Debug, Clone, Copy)]
struct Expected {
    digest: u64,
    /// See [`CrashTally::half_freed`].
    is_half_freed: bool,
}

/// Digest of a file system with all contents, which is sound where no inode is half freed.
fn digest(file_system: &Volume, is_half_freed: bool) -> Result<u64> {
    let tree = Tree::read(file_system)?;
    if !is_half_freed {
        consistency::check_of_linux(file_system, &tree)?;
    }
    let contents = tree.files.iter().map(|(number, found)| mix(hash(&found.contents) ^ mix(*number)));
    Ok(contents.fold(tree.digest, u64::wrapping_add))
}

/// Recovers the image at `path` while every write is recorded, and then what crashes in between leave, up to about `most` states.
///
/// # Errors
/// Recovery comes to something else, or to something unsound.
pub fn during_recovery(path: &Path, most: u64, seed: u64, tally: &mut CrashTally) -> Result<()> {
    let base = Image::load(path)?;
    let recording = Arc::new(RecordingDevice::new(base));
    let device: Arc<dyn BlockDevice> = recording.clone();
    let Some(recovered) = recover(&device, &MountOptions::default(), &mut ())? else { return Ok(()) };
    let is_half_freed = recovered.report().broken_lists > 0;
    let digest = digest(&recovered.mount(&MountOptions::default())?, is_half_freed)?;
    let expected = Expected { digest, is_half_freed };
    recovered.write()?;
    let history = recording.history();
    let plan = Plan { subsets: 8, ..Plan::new(seed) };
    let mut count = 0;
    let _ = states::visit(&history, &plan, &mut |_| {
        count += 1;
        ControlFlow::Continue(())
    });
    let stride = (count / most.max(1)).max(1);
    let mut result = Ok(());
    let _ = states::visit(&history, &plan, &mut |state| {
        if state.number % stride != seed % stride {
            return ControlFlow::Continue(());
        }
        let (number, kind) = (state.number, state.kind);
        result = check(state, expected, path, tally)
            .with_context(|| format!("crash state {number} of {count} ({kind:?}) of a recovery"));
        if result.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    result
}

fn check(state: CrashState, expected: Expected, beside: &Path, tally: &mut CrashTally) -> Result<()> {
    let options = MountOptions::default();
    let image = Arc::new(ImageDevice::new(state.image));
    let device: Arc<dyn BlockDevice> = image.clone();
    let Expected { digest: expected, is_half_freed } = expected;
    let found = digest(&mount_recovered(&device, &options)?.0, is_half_freed)?;
    ensure!(found == expected, "the overlay holds something else");
    tally.states += 1;
    tally.half_freed += u64::from(is_half_freed);
    if !tally.states.is_multiple_of(WRITTEN_STATES) {
        return Ok(());
    }
    if let Some(recovered) = recover(&device, &options, &mut ())? {
        recovered.write()?;
    }
    let found = digest(&mount::open_volume(device, &options)?, is_half_freed)?;
    ensure!(found == expected, "the image holds something else");
    tally.written += 1;
    if tally.states.is_multiple_of(JUDGED_STATES) && !is_half_freed {
        let saved = beside.with_extension("judged");
        image.image().save(&saved)?;
        let findings = verdict::repair_findings(&saved)?;
        let is_half_written = |finding: &String| finding.contains("is INCOMPLETE");
        ensure!(findings.iter().all(is_half_written), "xfs_repair -n:\n{}", findings.join("\n"));
        tally.judged += 1;
    }
    Ok(())
}

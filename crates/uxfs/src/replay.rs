//! Replaying a dirty log.

use std::path::Path;

use uxfs_block::{
    claim::Lock,
    engine::{self, OpenOptions},
};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery;

use crate::{Result, error::About};

/// Counts of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// Records of the log that were replayed.
    pub records: u32,
    /// Operations that were begun, and were finished.
    pub finished_operations: u64,
    /// Files without a name that were freed.
    pub freed_inodes: u64,
    /// Damage kept some work undone: the file system needs a repair.
    pub needs_repair: bool,
}

/// Replays the log of the image at `path`, which is then as if its file system had been unmounted cleanly. `None` where the log
/// is clean already. A crash in between does no harm: replay again.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("disk.img");
/// # uxfs::Maker::new().size(300 << 20).make(&path)?;
/// let editor = uxfs::Editor::open(&path)?;
/// editor.write("/kept", b"by the log alone")?;
/// editor.sync()?;
/// drop(editor); // Not closed: as after a crash.
/// assert!(uxfs::replay(&path)?.is_some());
/// assert!(uxfs::replay(&path)?.is_none());
/// assert!(uxfs::Image::open(&path)?.find("/kept").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A log that cannot be replayed: the image then stays as it was. The image is in use; the device.
pub fn replay(path: impl AsRef<Path>) -> Result<Option<Replayed>> {
    let path = path.as_ref();
    try_replay(path).about(path.display())
}

fn try_replay(path: &Path) -> Result<Option<Replayed>> {
    let options = OpenOptions { writable: true, lock: Lock::Exclusive, ..OpenOptions::default() };
    let device = engine::open(path, &options)?;
    let Some(recovered) = recovery::recover(&device, &MountOptions::default(), &mut ())? else {
        return Ok(None);
    };
    let report = recovered.write()?;
    Ok(Some(Replayed {
        records: report.log.records,
        finished_operations: report.intents.len() as u64,
        freed_inodes: report.freed_inodes,
        needs_repair: report.has_found_damage(),
    }))
}

//! Devices that cannot read some ranges until they are written, and devices that fail at the n-th write or flush.

use std::{collections::BTreeSet, io, path::Path, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation, ReadSegment, WriteSegment},
    device_wrapper::DeviceWrapper,
};
use uxfs_repair::{
    commit::{self, About, CommitError, Existing, State, UndoFile, UndoOptions},
    repair::{RepairOptions, Staged, repair},
};
use uxfs_volume::inode::scan::ScanOptions;

use super::promises;
use crate::crash::{
    flaky::{Failure, FlakyDevice},
    image::{Image, ImageDevice},
};

const SECTOR_BYTES: u64 = 512;

/// Cannot read some sectors until they are written.
#[derive(Debug)]
pub struct BadSectors {
    inner: ImageDevice,
    bad: Mutex<BTreeSet<u64>>,
    /// Sectors that fail once.
    heals_itself: bool,
}

impl BadSectors {
    /// A device that holds `image`, and cannot read these sectors; with `heals_itself`, the first time.
    pub fn new(image: Image, bad: BTreeSet<u64>, heals_itself: bool) -> Self {
        Self { inner: ImageDevice::new(image), bad: Mutex::new(bad), heals_itself }
    }

    /// The contents now.
    pub fn image(&self) -> Image {
        self.inner.image()
    }
}

fn sectors(offset_bytes: u64, length: usize) -> std::ops::Range<u64> {
    offset_bytes / SECTOR_BYTES..(offset_bytes + length as u64).div_ceil(SECTOR_BYTES)
}

impl DeviceWrapper for BadSectors {
    type Inner = ImageDevice;

    fn inner(&self) -> &ImageDevice {
        &self.inner
    }

    fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        let mut bad = self.bad.lock();
        for segment in segments {
            let hit = bad.range(sectors(segment.offset_bytes, segment.buffer.len())).next().copied();
            let Some(sector) = hit else { continue };
            if self.heals_itself {
                bad.remove(&sector);
            }
            return Err(DeviceError {
                operation: DeviceOperation::Read,
                offset_bytes: segment.offset_bytes,
                length_bytes: segment.buffer.len() as u64,
                source: io::Error::from_raw_os_error(5),
            });
        }
        Ok(())
    }

    fn before_write(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        let mut bad = self.bad.lock();
        for segment in segments {
            sectors(segment.offset_bytes, segment.bytes.len()).for_each(|sector| {
                bad.remove(&sector);
            });
        }
        Ok(())
    }
}

/// How a repair on a failing device ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Nothing had to be done.
    Nothing,
    /// Refused, with an error; nothing was written.
    Refused,
    /// Findings would have been left; nothing was written.
    Left,
    /// Repaired: no metadata is unreadable any more, and all of it is sound.
    Repaired,
}

fn stage(device: &Arc<dyn BlockDevice>) -> Result<Staged, uxfs_volume::error::Error> {
    let options = RepairOptions {
        cache_budget_bytes: Some(16 << 20),
        scan: ScanOptions::in_order(),
        ..RepairOptions::default()
    };
    repair(device, &options)
}

fn about(staged: &Staged, path: &Path) -> Result<About> {
    let filesystem_uuid = staged.uuid()?;
    Ok(About { path: path.into(), filesystem_uuid, start_bytes: 0, existing: Existing::Replace })
}

/// Checks and repairs a device that cannot read these sectors.
///
/// # Errors
/// Something was written although the repair was refused; the result is not sound; undo does not restore what could be read.
pub fn unreadable(image: &Image, bad: &BTreeSet<u64>, heals_itself: bool, folder: &Path) -> Result<Fate> {
    let faulty = Arc::new(BadSectors::new(image.clone(), bad.clone(), heals_itself));
    let device: Arc<dyn BlockDevice> = Arc::<BadSectors>::clone(&faulty);
    promises::check_only(&device);
    // What healed in the check fails once more.
    *faulty.bad.lock() = bad.clone();
    let staged = match stage(&device) {
        Ok(staged) if staged.is_clean() => return Ok(Fate::Nothing),
        Ok(staged) => staged,
        Err(_) => {
            ensure!(faulty.image().digest() == image.digest(), "refused, and yet written");
            return Ok(Fate::Refused);
        }
    };
    if !staged.remaining.is_empty() {
        return Ok(Fate::Left);
    }
    let path = folder.join("undo");
    staged.write(device.as_ref(), Some(&about(&staged, &path)?)).context("writing")?;
    promises::must_be_sound(&device, "unsound").map_err(anyhow::Error::msg)?;
    // On another disk, without bad sectors.
    let copy: Arc<dyn BlockDevice> = Arc::new(ImageDevice::new(faulty.image()));
    promises::must_be_sound(&copy, "unsound on a copy").map_err(anyhow::Error::msg)?;
    let file = UndoFile::open(&path)?;
    ensure!(commit::state_of(&file, device.as_ref())? == State::Applied, "not applied");
    commit::undo(&file, device.as_ref(), UndoOptions::default()).context("undo")?;
    let undone = faulty.image();
    if undone.digest() != image.digest() {
        let differs = must_differ_in(&undone, image, bad)?;
        ensure!(differs, "undo restored other bytes in sectors that could be read");
    }
    Ok(Fate::Repaired)
}

/// Whether two images differ in some of these sectors, and nowhere else.
fn must_differ_in(found: &Image, wanted: &Image, bad: &BTreeSet<u64>) -> Result<bool> {
    let mut found = found.clone();
    for sector in bad {
        let mut bytes = [0; SECTOR_BYTES as usize];
        wanted.read(sector * SECTOR_BYTES, &mut bytes)?;
        found.write(sector * SECTOR_BYTES, &bytes)?;
    }
    Ok(found.digest() == wanted.digest())
}

/// Lets the n-th write or flush of a repair fail, each once, and goes on from its undo file, forward and back. Gives how many failed;
/// `None` where the image cannot be repaired.
///
/// # Errors
/// An error is not told; one of both ways does not lead out.
pub fn failing_writes(image: &Image, folder: &Path) -> Result<Option<u64>> {
    let at_rest: Arc<dyn BlockDevice> = Arc::new(ImageDevice::new(image.clone()));
    let staged = stage(&at_rest)?;
    if staged.is_clean() || !staged.remaining.is_empty() {
        return Ok(None);
    }
    let whole = ImageDevice::new(image.clone());
    staged.write(&whole, None)?;
    let path = folder.join("undo");
    let mut failed = 0;
    for operation in [DeviceOperation::Write, DeviceOperation::Flush] {
        for request in 0.. {
            let failure = Failure { operation, request, stays: request % 2 == 0 };
            let device = FlakyDevice::new(ImageDevice::new(image.clone()), Some(failure));
            let result = staged.write(&device, Some(&about(&staged, &path)?));
            if device.failed() == 0 {
                result.context("no request failed")?;
                break;
            }
            failed += 1;
            match result {
                Err(CommitError::Device(_)) => {}
                Err(error) => bail!("{operation} {request} fails, and it is told: {error}"),
                Ok(_) => bail!("{operation} {request} fails, and nothing is told"),
            }
            let (file, left) = (UndoFile::open(&path)?, device.inner().image());
            let forward = ImageDevice::new(left.clone());
            commit::apply(&file, &forward)?;
            ensure!(forward.image().digest() == whole.image().digest(), "{operation} {request}: forward");
            let back = ImageDevice::new(left);
            commit::undo(&file, &back, UndoOptions::default())?;
            ensure!(back.image().digest() == image.digest(), "{operation} {request}: back");
        }
    }
    Ok(Some(failed))
}

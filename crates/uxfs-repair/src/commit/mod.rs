//! Carrying a finished repair to the device, so that a kill leaves nothing half done for good, and so that it can be taken
//! back.
//!
//! An *undo file* beside the image holds the old and the new bytes of all that changes. It is complete and durable before the
//! image is touched. From it a repair that was cut off is done again ([`apply`]), and a repair that was a mistake is taken back
//! ([`undo`]).
//!
//! ```text
//! prepare:  old ─┬─ compare, sector by sector ─▶ PATH.part ─ fsync ─▶ PATH ─ fsync of its folder
//!           new ─┘
//! apply:    marked superblock │ flush │ all other new bytes │ flush │ new superblock │ flush
//! undo:     marked superblock │ flush │ all other old bytes │ flush │ old superblock │ flush
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `undo_file` | [`UndoFile`]: opening, verifying and reading one |
//! | `create` | [`prepare`]: writing one |
//! | `differences` | the sectors in which two devices differ |
//! | [`error`] | [`CommitError`] |
//! | `head` | the superblock: old, new, and marked as in need of repair |
//! | `header` | the first bytes of an undo file, and those of each record |
//! | `order` | the three steps of writing |
//! | [`plan`] | what a repair would write, kept for later |
//! | `room` | whether the host has room for an undo file |
//! | `survey` | which of both contents a device holds |
//!
//! Invariants:
//! 1. While the device holds some old and some new bytes, its first superblock has `NEEDSREPAIR` set: Linux does not mount it.
//! 2. Each sector of 512 bytes holds its old or its new bytes at every moment (the first superblock also the marked ones), so
//!    that both [`apply`] and [`undo`] can begin again after any kill and come to the same bytes.
//! 3. An undo file is verified as a whole before the first write, and each record again when it is written.
//! 4. A device that holds other bytes than the old and the new ones is not written, unless an undo is forced.
//! 5. What is written into holes of an image file has room on the host before the first write, so that a full host leaves nothing half
//!    done.
//! 6. Memory is bounded by some 3 MiB, whatever the file and the device hold; the list of ranges is the caller's.

mod create;
mod differences;
pub mod error;
mod head;
mod header;
mod order;
pub mod plan;
mod room;
mod survey;
mod undo_file;

use std::{
    ffi::OsString,
    ops::Range,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_format::units::Uuid;

pub use self::{
    create::prepare,
    error::{CommitError, FileFault, FileKind},
    header::PLAN_MAGIC,
    plan::{PlanFacts, Planned, write_plan},
    survey::{State, state_of},
    undo_file::{Facts, UndoFile},
};
use self::{differences::Differences, head::Head, order::in_order};

/// What devices write as a whole, in bytes: a kill leaves each sector with its old or its new bytes.
pub const SECTOR_BYTES: usize = 512;
/// What is read and written at once, in bytes.
const PIECE_BYTES: u32 = 1 << 20;
/// What the usual name of an undo file has behind the name of its image.
pub const SUFFIX: &str = ".uxfs-undo";

type Result<T> = std::result::Result<T, CommitError>;

/// Where an undo file is made, and what it says about its image.
#[derive(Debug, Clone)]
pub struct About {
    /// Its path; see [`default_path`].
    pub path: PathBuf,
    /// Uuid of the file system.
    pub filesystem_uuid: Uuid,
    /// Where in the image the file system begins.
    pub start_bytes: u64,
    /// What happens to a file that has this path already.
    pub existing: Existing,
}

/// What happens to a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It stays, and [`prepare`] fails: it may be the only way back to an earlier state.
    #[default]
    Refuse,
    /// It is replaced once the new one is complete.
    Replace,
}

/// How to take a repair back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UndoOptions {
    /// Restore also where the image was changed since: later changes of the same sectors are lost, others stay, and the file
    /// system may contradict itself.
    pub force: bool,
}

/// What [`undo`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undone {
    /// What the device held before. Where that is [`State::NotApplied`], nothing was written.
    pub found: State,
    /// Bytes that differ between old and new, in whole sectors.
    pub changed_bytes: u64,
    /// Ranges that they form.
    pub ranges: u64,
}

/// The path of the undo file of an image: beside it, with [`SUFFIX`] behind its name.
///
/// # Errors
/// The image is a block device: what lies in its folder does not outlive the machine.
pub fn default_path(image: &Path) -> Result<PathBuf> {
    if std::fs::metadata(image).is_ok_and(|found| found.file_type().is_block_device()) {
        return Err(CommitError::NoDefaultPath);
    }
    Ok(with_suffix(image, SUFFIX))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Carries the new bytes of `file` to the device, from the beginning or where a kill cut that off; gives what the device held
/// before. A device that holds all of them already is not written.
///
/// # Errors
/// Before the first write: the file is damaged; the device holds other bytes than the old and the new ones, or has another
/// size; the host has no room for what would be written into holes of an image file. Later: the device fails, or the file cannot be read again; then call it again.
pub fn apply(file: &UndoFile, device: &dyn BlockDevice) -> Result<State> {
    let head = file.verify()?;
    file.must_fit(device)?;
    let found = survey::survey(file, &head, device)?.refuse_foreign()?;
    if found != State::Applied {
        in_order(device, &head, &head.new, |placer| {
            let mut records = file.records_behind_head()?;
            while let Some(record) = records.next()? {
                placer.place(record.offset_bytes, record.new)?;
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Carries the old bytes of `file` back to the device. A device that holds all of them already is not written.
///
/// # Errors
/// As for [`apply`]; with [`UndoOptions::force`] only a device that is too small is refused.
pub fn undo(file: &UndoFile, device: &dyn BlockDevice, options: UndoOptions) -> Result<Undone> {
    let head = file.verify()?;
    let fit = file.must_fit(device);
    if !options.force || device.size_bytes() < file.facts().device_size_bytes {
        fit?;
    }
    let survey = survey::survey(file, &head, device)?;
    let found = if options.force { survey.state() } else { survey.refuse_foreign()? };
    if found != State::NotApplied {
        in_order(device, &head, &head.old, |placer| {
            let mut records = file.records_behind_head()?;
            while let Some(record) = records.next()? {
                placer.place(record.offset_bytes, record.old)?;
            }
            Ok(())
        })?;
    }
    let Facts { changed_bytes, ranges, .. } = *file.facts();
    Ok(Undone { found, changed_bytes, ranges })
}

/// Carries to `device`, which holds what `old` does, the bytes in `ranges` that `new` has, in the order of [`apply`]; gives how
/// many bytes changed, in whole sectors. After a kill the device is marked and holds some of both; there is no way back.
///
/// # Errors
/// Before the first write: neither old nor new is a superblock; the host has no room for what would be written into holes of an image
/// file. A device fails.
pub fn apply_without_file(
    old: &dyn BlockDevice,
    new: &dyn BlockDevice,
    ranges: &[Range<u64>],
    device: &dyn BlockDevice,
) -> Result<u64> {
    let head = Head::read(old, new)?;
    let mut changed_bytes = head.changed_bytes();
    let is_same =
        changed_bytes == 0 && Differences::new(old, new, ranges, head.length_bytes())?.next()?.is_none();
    if is_same {
        return Ok(0);
    }
    in_order(device, &head, &head.new, |placer| {
        changed_bytes = head.changed_bytes();
        let mut differences = Differences::new(old, new, ranges, head.length_bytes())?;
        while let Some(difference) = differences.next()? {
            placer.place(difference.offset_bytes, difference.new)?;
            changed_bytes = changed_bytes.saturating_add(difference.new.len() as u64);
        }
        Ok(())
    })?;
    Ok(changed_bytes)
}

/// Carries what is in the lowest layer of `overlay` to the device that lies below it, from an undo file that is made first; directly where
/// there is none. Returns the number of bytes changed.
///
/// # Errors
/// The host has no room for the undo file or for holes of the image file: then nothing was written. The device: the image is marked as
/// needing repair then.
pub(crate) fn carry_over(
    device: &dyn BlockDevice,
    overlay: &OverlayDevice,
    undo_file: Option<&About>,
) -> Result<u64> {
    let ranges = written_to(overlay);
    let Some(about) = undo_file else {
        return apply_without_file(device, overlay, &ranges, device);
    };
    make_room(device, overlay, &ranges)?;
    let Some(file) = prepare(device, overlay, &ranges, about)? else {
        return Ok(0);
    };
    match apply(&file, device) {
        // The undo file took the room, on a host that gives none ahead. Nothing is to be taken back with it.
        Err(error @ CommitError::ImageRoom(_)) => {
            let _ = std::fs::remove_file(&about.path);
            Err(error)
        }
        applied => applied.map(|_| file.facts().changed_bytes),
    }
}

/// Where the lowest layer of an overlay has pages.
pub(crate) fn written_to(overlay: &OverlayDevice) -> Vec<Range<u64>> {
    overlay.runs(0).into_iter().map(|(start, length)| start..start + length).collect()
}

/// Gives room to the holes of the image file behind `device` that would be written to, before an undo file takes the room that there is.
/// No byte changes.
///
/// # Errors
/// The host has no room for them; neither old nor new is a superblock; a device fails.
pub fn make_room(device: &dyn BlockDevice, new: &dyn BlockDevice, ranges: &[Range<u64>]) -> Result<()> {
    let head = Head::read(device, new)?;
    order::make_room(device, &head, &head.new, |placer| {
        let mut differences = Differences::new(device, new, ranges, head.length_bytes())?;
        while let Some(difference) = differences.next()? {
            placer.place(difference.offset_bytes, difference.new)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;

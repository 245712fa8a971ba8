//! A repair that is cut off at each write and flush.
//!
//! With an undo file: from each state the way forward ends with the bytes of a repair that was not cut off, and the way back with those
//! before it. Without one: a repair from the beginning ends with a sound image.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use uxfs_block::device::BlockDevice;
use uxfs_repair::{
    commit::{self, About, Existing, State, UndoFile, UndoOptions},
    repair::{RepairOptions, Staged, repair},
};
use uxfs_testkit::seeds::Random;
use uxfs_volume::inode::scan::ScanOptions;

use crate::{
    crash::{
        image::{Image, ImageDevice},
        recording::{Event, History, RecordingDevice},
    },
    field_fuzz::holdings::{Holdings, May},
};

const SECTOR_BYTES: usize = 512;

/// What a cut leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// A kill: all writes before it.
    Clean,
    /// A kill in a write: of this one some sectors.
    Torn,
    /// A loss of power: of all writes since the last flush some sectors.
    Power,
}

impl Cut {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Clean, Self::Torn, Self::Power];
}

/// Counts of the cuts of one repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cuts {
    /// Writes and flushes of the whole repair.
    pub requests: usize,
    /// States that were tried.
    pub states: u64,
    /// Of those after which a repair from the beginning had other results than the whole one: all are sound.
    pub other_results: u64,
    /// Paths that such a repair had lost, over all states.
    pub lost_paths: u64,
}

fn options() -> RepairOptions {
    RepairOptions { cache_budget_bytes: Some(16 << 20), scan: ScanOptions::in_order(), ..Default::default() }
}

fn device_of(image: &Image) -> Arc<ImageDevice> {
    Arc::new(ImageDevice::new(image.clone()))
}

fn stage(image: &Image) -> Result<Staged> {
    let device: Arc<dyn BlockDevice> = device_of(image);
    Ok(repair(&device, &options())?)
}

/// Repairs an image while all that is written is recorded; `None` where it cannot be repaired.
fn recorded(image: &Image, undo_file: Option<&Path>) -> Result<Option<(Image, History)>> {
    let recording = RecordingDevice::new(image.clone());
    let staged = stage(image)?;
    if staged.is_clean() || !staged.remaining.is_empty() {
        return Ok(None);
    }
    let about = match undo_file {
        None => None,
        Some(path) => Some(About {
            path: path.into(),
            filesystem_uuid: staged.uuid()?,
            start_bytes: 0,
            existing: Existing::Replace,
        }),
    };
    staged.write(&recording, about.as_ref())?;
    Ok(Some((recording.image(), recording.history())))
}

/// The device after the request with this number is cut off.
fn remains(history: &History, at: usize, cut: Cut, random: &mut Random) -> Image {
    let mut image = history.base.clone();
    let durable = match cut {
        Cut::Power => history.events[..at]
            .iter()
            .rposition(|event| matches!(event, Event::Flush))
            .map_or(0, |flush| flush),
        Cut::Clean | Cut::Torn => at,
    };
    history.events[..durable].iter().for_each(|event| event.apply(&mut image));
    let torn = match cut {
        Cut::Clean => &[],
        Cut::Torn => &history.events[at..=at],
        Cut::Power => &history.events[durable..=at],
    };
    for event in torn {
        let Event::Write { offset_bytes, bytes } = event else { continue };
        for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            if random.below(2) == 0 {
                // It was written there before.
                let _ = image.write(offset_bytes + (index * SECTOR_BYTES) as u64, sector);
            }
        }
    }
    image
}

/// Cuts a repair with an undo file at each write and flush. `None` where the image cannot be repaired.
///
/// # Errors
/// From some state one of both ways does not lead out.
pub fn with_undo_file(image: &Image, folder: &Path, seed: u64) -> Result<Option<Cuts>> {
    let path = folder.join("undo");
    let Some((whole, history)) = recorded(image, Some(&path))? else { return Ok(None) };
    let file = UndoFile::open(&path)?;
    let mut random = Random::new(seed);
    let mut cuts = Cuts { requests: history.events.len(), ..Cuts::default() };
    for at in 0..history.events.len() {
        for cut in Cut::ALL {
            let what = || format!("{cut:?} cut at {at} of {}", cuts.requests);
            let remains = remains(&history, at, cut, &mut random);
            forward(&file, &remains, &whole).with_context(what)?;
            let back = device_of(&remains);
            commit::undo(&file, back.as_ref(), UndoOptions::default()).with_context(what)?;
            must_be(&back.image(), image).with_context(what)?;
            cuts.states += 1;
        }
    }
    Ok(Some(cuts))
}

/// As `uxfs repair` goes on where one was cut off.
fn forward(file: &UndoFile, remains: &Image, whole: &Image) -> Result<()> {
    let device = device_of(remains);
    match commit::state_of(file, device.as_ref())? {
        State::Partly => {
            commit::apply(file, device.as_ref())?;
        }
        State::NotApplied => {
            let staged = stage(remains)?;
            ensure!(staged.remaining.is_empty(), "a repair from the same bytes leaves something");
            staged.write(device.as_ref(), None)?;
        }
        State::Applied => {}
        State::Other => bail!("the device holds other bytes than the undo file"),
    }
    must_be(&device.image(), whole)
}

fn must_be(found: &Image, wanted: &Image) -> Result<()> {
    match found.digest() == wanted.digest() {
        true => Ok(()),
        false => bail!("other bytes, from {:?}", found.first_difference(wanted, &(0..0))),
    }
}

/// Cuts a repair without an undo file at each `step`th write or flush. `None` where the image cannot be repaired.
///
/// # Errors
/// From some state a repair does not lead to a sound image.
pub fn without_undo_file(image: &Image, step: usize, seed: u64) -> Result<Option<Cuts>> {
    let Some((whole, history)) = recorded(image, None)? else { return Ok(None) };
    let mut random = Random::new(seed);
    let mut cuts = Cuts { requests: history.events.len(), ..Cuts::default() };
    let expected = Holdings::read(&(device_of(&whole) as Arc<dyn BlockDevice>))?;
    for at in (0..history.events.len()).step_by(step.max(1)) {
        for cut in Cut::ALL {
            let what = || format!("{cut:?} cut at {at} of {}", cuts.requests);
            let remains = remains(&history, at, cut, &mut random);
            cuts.states += 1;
            let result = again(&remains).with_context(what)?;
            if result.digest() != whole.digest() {
                cuts.other_results += 1;
                let found =
                    Holdings::read(&(device_of(&result) as Arc<dyn BlockDevice>)).with_context(what)?;
                let is_lost = |path: &&Vec<u8>| !found.paths.contains_key(*path);
                cuts.lost_paths += expected.paths.keys().filter(is_lost).count() as u64;
            }
        }
    }
    Ok(Some(cuts))
}

/// A repair from the beginning, of what a cut has left.
fn again(remains: &Image) -> Result<Image> {
    let staged = stage(remains)?;
    if let Some(left) = staged.remaining.first() {
        bail!("a repair from the beginning leaves {left}");
    }
    let device = device_of(remains);
    staged.write(device.as_ref(), None)?;
    let after = stage(&device.image())?;
    ensure!(after.is_clean(), "a second repair does {:?}", after.actions.first());
    Ok(device.image())
}

/// Whether what `found` holds is what `expected` holds.
///
/// # Errors
/// An image cannot be read.
pub fn loss(expected: &Image, found: &Image) -> Result<Option<String>> {
    let read = |image: &Image| Holdings::read(&(device_of(image) as Arc<dyn BlockDevice>));
    Ok(read(expected)?.lost_in(&read(found)?, |_, _| May::Nothing))
}

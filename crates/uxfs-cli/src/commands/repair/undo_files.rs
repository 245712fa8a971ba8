//! The undo files beside an image: of each repair one, the newest with the highest number.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::OFlags;
use uxfs_block::device::BlockDevice;
use uxfs_format::units::Uuid;
use uxfs_repair::commit::{self, CommitError, State, UndoFile, default_path};

use crate::{
    commands::undo::failure,
    failure::Failure,
    kind::{Kind, Note},
    output::notice,
};

/// So many repairs of one image can be taken back.
const MOST_FILES: u32 = 100;
/// What an undo file begins with.
const MAGIC: &[u8] = b"UXFSundo";

/// A device, and where in the image it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'d> {
    pub device: &'d dyn BlockDevice,
    pub start_bytes: u64,
}

/// The name with this number: `IMAGE.uxfs-undo`, `IMAGE.uxfs-undo.1` …
fn numbered(first: &Path, number: u32) -> PathBuf {
    match number {
        0 => first.to_owned(),
        _ => {
            let mut name = OsString::from(first);
            name.push(format!(".{number}"));
            name.into()
        }
    }
}

/// The numbers of those that are there, the newest first.
fn numbers(first: &Path) -> Vec<u32> {
    let is_there = |number: &u32| fs::symlink_metadata(numbered(first, *number)).is_ok();
    (0..MOST_FILES).rev().filter(is_there).collect()
}

/// Whether this is a name of an undo file that `uxfs undo IMAGE` finds.
pub(crate) fn is_beside(image: &Path, path: &Path) -> bool {
    default_path(image).is_ok_and(|first| (0..MOST_FILES).any(|number| numbered(&first, number) == path))
}

/// Which contents the image holds. A file of another partition, or of an image of another size, tells nothing.
fn state_of(file: &UndoFile, target: Target<'_>) -> Result<State, CommitError> {
    if file.facts().start_bytes != target.start_bytes {
        return Ok(State::Other);
    }
    match commit::state_of(file, target.device) {
        Err(CommitError::OtherSize { .. }) => Ok(State::Other),
        state => state,
    }
}

/// Finishes a repair that was cut off, from the newest undo file, and gives a name for the next: no file that can take a repair back is
/// replaced.
pub(super) fn next(first: &Path, target: Target<'_>) -> Result<PathBuf, Failure> {
    let mut next = 0;
    for number in numbers(first) {
        let path = numbered(first, number);
        match finish(&path, target)? {
            State::NotApplied => {}
            // Those below are older.
            _ => {
                next = number + 1;
                break;
            }
        }
    }
    if next >= MOST_FILES {
        let failure =
            Failure::refused(Kind::TooLarge, format!("there are {MOST_FILES} undo files beside the image"));
        return Err(failure.with_remedy("nothing was changed; remove those that are not needed any more"));
    }
    Ok(numbered(first, next))
}

/// Finishes a repair that was cut off, from a file that was named. What else the file holds is replaced where something is written: gives
/// what it is then told by.
pub(super) fn take_named(path: &Path, target: Target<'_>) -> Result<Option<Uuid>, Failure> {
    let is_worth_telling = fs::symlink_metadata(path).is_ok() && finish(path, target)? != State::NotApplied;
    Ok(if is_worth_telling { id_of(path) } else { None })
}

/// Says that the undo file with this id is no longer there, where another has taken its place.
pub(super) fn tell_replaced(path: &Path, earlier: Uuid) {
    if id_of(path).is_some_and(|id| id != earlier) {
        notice!(Note::UndoFile, "{}: the undo file of an earlier repair is replaced", path.display());
    }
}

fn id_of(path: &Path) -> Option<Uuid> {
    UndoFile::open(path).ok().map(|file| file.facts().id)
}

/// What the image holds, after a repair that was cut off has been finished.
fn finish(path: &Path, target: Target<'_>) -> Result<State, Failure> {
    let file = UndoFile::open(path).map_err(blocked)?;
    let state = state_of(&file, target).map_err(blocked)?;
    if state != State::Partly {
        return Ok(state);
    }
    commit::apply(&file, target.device).map_err(failure)?;
    notice!(Note::UndoFile, "finished an earlier repair, which was cut off, from {}", path.display());
    Ok(State::Applied)
}

/// A file in the place of the undo file that is none, or is damaged.
fn blocked(error: CommitError) -> Failure {
    match &error {
        CommitError::Unusable { path, .. } => {
            let remedy = format!(
                "nothing was changed; remove {} if no repair is to be taken back with it, or put the undo file elsewhere: uxfs repair --undo \
                 FILE",
                path.display()
            );
            Failure::caused_by(&error).with_remedy(&remedy)
        }
        _ => failure(error),
    }
}

/// The newest undo file beside an image that can take a repair back; else one that tells why there is none. `open` gives the device that a
/// file is about.
pub(crate) fn newest(
    image: &Path,
    open: impl Fn(&UndoFile) -> Result<Arc<dyn BlockDevice>, Failure>,
) -> Result<PathBuf, Failure> {
    let first = default_path(image).map_err(failure)?;
    let numbers = numbers(&first);
    let newest = numbered(&first, numbers.first().copied().unwrap_or(0));
    if numbers.len() < 2 {
        return Ok(newest);
    }
    let state = |path: &Path| {
        let file = UndoFile::open(path).ok()?;
        commit::state_of(&file, &*open(&file).ok()?).ok()
    };
    // A file that cannot be used does not stand in the way of an older one.
    let paths = numbers.into_iter().map(|number| numbered(&first, number));
    let found: Vec<_> = paths.filter_map(|path| Some((state(&path)?, path))).collect();
    let fitting = found.iter().find(|(state, _)| matches!(state, State::Applied | State::Partly));
    let fitting = fitting.or_else(|| found.iter().find(|(state, _)| *state == State::NotApplied));
    Ok(fitting.map_or(newest, |(_, path)| path.clone()))
}

/// Gives an undo file the owner of its image, where root repairs the image of another user. It stays closed to all others.
pub(super) fn give_owner(path: &Path, image: &Path) {
    let given = || -> std::io::Result<()> {
        let wanted = fs::metadata(image)?;
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if !wanted.is_file() || (found.uid(), found.gid()) == (wanted.uid(), wanted.gid()) {
            return Ok(());
        }
        // Others may put another file into its place, whose owner they would become.
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic)?;
        let is_ours = found.uid() == rustix::process::geteuid().as_raw();
        if found.is_file() && found.nlink() == 1 && is_ours && magic == MAGIC {
            fchown(&file, Some(wanted.uid()), Some(wanted.gid()))?;
        }
        Ok(())
    };
    if let Err(error) = given()
        && error.kind() != std::io::ErrorKind::PermissionDenied
    {
        notice!(Note::UndoFile, "{}: cannot get the owner of the image: {error}", path.display());
    }
}

//! Images that something else on this machine uses.

use std::{fs, io, path::Path};

use uxfs_block::device::DeviceError;
use uxfs_fuse::mounting::mount_table::MountTable;
use uxfs_volume::error::Error;

use crate::{failure::Failure, remedy, text::shell_path};

/// Why an image could not be opened. Where it is mounted through FUSE, that is told.
pub(crate) fn not_opened(error: DeviceError, image: &Path) -> Failure {
    let is_busy = error.source.kind() == io::ErrorKind::ResourceBusy;
    let error = Error::from(error);
    let failure = remedy::add_to(Failure::from(&error), &error);
    match mount_points(image).filter(|_| is_busy) {
        Some(places) => failure
            .with_remedy(&format!("it is mounted on {places}; uxfs umount {} ends that", shell_path(image))),
        None => failure,
    }
}

/// As [`not_opened`], for a reader, which need not be kept away.
pub(crate) fn not_opened_to_read(error: DeviceError, image: &Path) -> Failure {
    let is_busy = error.source.kind() == io::ErrorKind::ResourceBusy;
    let failure = not_opened(error, image);
    if is_busy { failure.with_remedy("use --no-lock to read it anyway") } else { failure }
}

/// Where it is mounted; `None` if nowhere that this process sees.
pub(crate) fn mount_points(image: &Path) -> Option<String> {
    let image = fs::canonicalize(image).ok()?;
    let table = MountTable::read().ok()?;
    let places: Vec<_> = table
        .entries()
        .filter(|entry| entry.is_fuse() && entry.source == image)
        .map(|entry| entry.mount_point.display().to_string())
        .collect();
    (!places.is_empty()).then(|| places.join(" and "))
}

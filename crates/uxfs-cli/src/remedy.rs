//! Advice for images that cannot be opened, by error and by purpose of the command.
//!
//! A remedy never destroys data: `uxfs rescue` does not suggest mkfs.

use std::{io, sync::OnceLock};

use uxfs_block::device::DeviceError;
use uxfs_format::features::Unsupported;
use uxfs_volume::error::Error;

use crate::failure::Failure;

/// The purpose of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Purpose {
    /// Show the contents of a file system.
    #[default]
    Read,
    /// Change it.
    Change,
    /// Mount it.
    Mount,
    /// Find or repair damage.
    Mend,
    /// Save files.
    Rescue,
}

static PURPOSE: OnceLock<Purpose> = OnceLock::new();

/// Sets the purpose of the command.
pub(crate) fn set_purpose(purpose: Purpose) {
    let _ = PURPOSE.set(purpose);
}

fn purpose() -> Purpose {
    PURPOSE.get().copied().unwrap_or_default()
}

/// Adds the remedy for the error to the failure.
pub(crate) fn add_to(failure: Failure, error: &Error) -> Failure {
    match remedy(error, purpose()) {
        Some(remedy) => failure.with_remedy(remedy),
        None => failure,
    }
}

fn remedy(error: &Error, purpose: Purpose) -> Option<&'static str> {
    match error {
        Error::Unsupported(feature) => of_feature(feature, purpose),
        Error::Io(error) => of_device(error, purpose),
        _ => None,
    }
}

fn of_feature(feature: &Unsupported, purpose: Purpose) -> Option<&'static str> {
    use Purpose as P;
    Some(match (feature, purpose) {
        (Unsupported::OldVersion { .. }, P::Mend) => "xfs_repair finds and mends damage of version 4",
        (Unsupported::OldVersion { .. }, P::Rescue) => {
            "Linux built with XFS_SUPPORT_V4 mounts version 4: mount -o ro,norecovery shows the files; \
             make a copy before xfs_repair changes anything"
        }
        (Unsupported::OldVersion { .. }, _) => "Linux built with XFS_SUPPORT_V4 mounts version 4",
        (Unsupported::NeedsRepair, P::Read) => {
            "uxfs repair completes it; --repaired shows the files as it would leave them"
        }
        (Unsupported::NeedsRepair, P::Change | P::Mount) => "uxfs repair completes it",
        (Unsupported::ExternalLog, P::Read) => {
            "--ignore-log shows it without the changes that only the log has"
        }
        (Unsupported::ExternalLog, P::Mount) => {
            "-o ro,norecovery shows it without the changes that only the log has; Linux mounts it with -o logdev="
        }
        (Unsupported::ExternalLog, P::Change) => "Linux mounts it with -o logdev=",
        (Unsupported::ExternalLog, P::Mend) => {
            "xfs_repair -l mends it; --ignore-log shows the files to commands that read"
        }
        (Unsupported::UnknownIncompatible { .. }, _) => "a newer uxfs may know them, and so may Linux",
        (Unsupported::UnknownRoCompatible { .. }, P::Mount) => "-o ro mounts it",
        (Unsupported::UnknownLogIncompatible { .. }, P::Mount) => {
            "-o ro mounts it where its log is clean, -o ro,norecovery without the changes that only the log has"
        }
        _ => return None,
    })
}

/// The device or its file system is read-only, or this user may not write to it.
fn of_device(error: &DeviceError, purpose: Purpose) -> Option<&'static str> {
    let is_protected = error.source.kind() == io::ErrorKind::ReadOnlyFilesystem;
    let is_refused = is_protected || error.source.kind() == io::ErrorKind::PermissionDenied;
    match purpose {
        Purpose::Mount if is_refused => Some("-r mounts it for reading only"),
        Purpose::Mend if is_protected => {
            Some("uxfs repair --dry-run tells what it would do; a repair needs a copy of it")
        }
        Purpose::Change if is_protected => Some("uxfs copy makes a copy that can be changed"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_remedy_destroys_what_is_there() {
        let features = [
            Unsupported::OldVersion { version: 4 },
            Unsupported::UnknownIncompatible { bits: 1 },
            Unsupported::UnknownRoCompatible { bits: 1 },
            Unsupported::UnknownLogIncompatible { bits: 1 },
            Unsupported::NeedsRepair,
            Unsupported::RealtimeData,
            Unsupported::ZonedData,
            Unsupported::ExternalLog,
        ];
        let purposes = [Purpose::Read, Purpose::Change, Purpose::Mount, Purpose::Mend, Purpose::Rescue];
        for (feature, purpose) in
            features.iter().flat_map(|feature| purposes.map(|purpose| (feature, purpose)))
        {
            let words = format!("{feature}; {}", of_feature(feature, purpose).unwrap_or_default());
            for destructive in ["mkfs", "setrw", "xfs_repair -L"] {
                assert!(!words.contains(destructive), "{purpose:?}: {words}");
            }
        }
    }
}

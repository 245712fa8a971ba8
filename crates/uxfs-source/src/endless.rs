//! What has no end and holds no archive: devices, and streams of zeros.

use std::{
    fs::Metadata,
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use rustix::fs::FileType;

use crate::error::{ArchiveFault, Shown, SourceError};

/// So many zeros in front of the first member: more than any padding, and soon read.
pub(crate) const MAX_ZEROS_BYTES: u64 = 256 << 20;

/// Major numbers of tapes: SCSI, OnStream.
const TAPES: [u32; 2] = [9, 206];
/// Major numbers of terminals, where a serial line is one.
const TERMINALS: [u32; 13] = [4, 5, 136, 137, 138, 139, 140, 141, 142, 143, 166, 188, 204];
/// `/dev/null`, which is empty.
const NULL: (u32, u32) = (1, 3);

/// Refuses a device from which no archive comes, such as `/dev/zero`.
///
/// # Errors
/// It is one.
pub(crate) fn refuse_device(path: &Path, found: &Metadata) -> Result<(), SourceError> {
    refuse(found.file_type().is_char_device(), found.rdev(), path.as_os_str().as_encoded_bytes())
}

/// As [`refuse_device`], of standard input.
///
/// # Errors
/// As there.
pub(crate) fn refuse_device_on_standard_input() -> Result<(), SourceError> {
    let name = b"standard input";
    let found = rustix::fs::fstat(io::stdin()).map_err(|error| SourceError::io(name, "read", error))?;
    let is_device = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
    refuse(is_device, found.st_rdev, name)
}

fn refuse(is_device: bool, number: u64, name: &[u8]) -> Result<(), SourceError> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let may_hold_one = TAPES.contains(&major) || TERMINALS.contains(&major) || (major, minor) == NULL;
    if !is_device || may_hold_one {
        return Ok(());
    }
    Err(SourceError::Archive { archive: Shown::from(name), offset: 0, fault: ArchiveFault::Device })
}

//! Asking a mount for its counters.
#![allow(unsafe_code)]

use std::{fs::File, io, path::Path};

use rustix::{
    io::Errno,
    ioctl::{Getter, NoArg, Opcode, ioctl, opcode},
};

use super::snapshot::{MOST_BYTES, Snapshot};

/// The number of the ioctl: of this program alone. Linux has none in this group.
pub const STATISTICS: Opcode = opcode::read::<[u8; MOST_BYTES]>(0xf5, 0x01);

/// The number of the ioctl that tells a mount that the kernel lets nothing be changed any more.
pub const REST: Opcode = opcode::none(0xf5, 0x02);
/// The number of the ioctl that tells it that changes may come again.
pub const GO_ON: Opcode = opcode::none(0xf5, 0x03);

/// Tells the mount that has this directory whether changes may come. Where none do, its log is clean when this returns.
///
/// # Errors
/// It is no mount of this program; the image. Where it was mounted for reading, and is to take changes: `EROFS`, its server cannot write the
/// image; `EOPNOTSUPP`, it was mounted without its log; `EUCLEAN`, it is damaged; `EBUSY`, others use the image; `ESTALE`, others may have
/// changed it; `EPROTONOSUPPORT`, it has unknown features; `EIO`.
pub fn set_resting(directory: &Path, is_resting: bool) -> io::Result<()> {
    let directory = File::open(directory)?;
    // SAFETY: neither has an argument.
    let told = unsafe {
        match is_resting {
            true => ioctl(&directory, NoArg::<REST>::new()),
            false => ioctl(&directory, NoArg::<GO_ON>::new()),
        }
    };
    Ok(told?)
}

/// Asks the mount that has this directory. Waits for the process that serves.
///
/// # Errors
/// It is no mount of this program (`ENOTTY`), or of another version of it (`EPROTO`), or the directory cannot be opened.
pub fn of_directory(directory: &Path) -> io::Result<Snapshot> {
    let directory = File::open(directory)?;
    // SAFETY: the kernel fills as many bytes as the number of the ioctl says: those of the array.
    let bytes: [u8; MOST_BYTES] = unsafe { ioctl(&directory, Getter::<STATISTICS, _>::new()) }?;
    Snapshot::decode(&bytes).ok_or_else(|| Errno::PROTO.into())
}

//! Into an unlinked temporary file with holes where the image is zero. It disappears when the command ends.
//!
//! A packed file of 100 KB may unpack to gigabytes. So the superblock is checked before anything else is unpacked, and nothing is kept
//! behind the end of the file system that it describes. Where no sound superblock is at its beginning, only that is unpacked, or
//! for commands on damaged images all of it: other structures tell where the file system ends. Some space is left free in the directory.
//!
//! What follows the file system is unpacked all the same, because the checksum of a packed stream comes last in it.

use std::{
    env,
    fs::File,
    io::{self, Read},
};

use uxfs_block::{
    spill::sparse_file::{HOLE_BYTES, SparseFile},
    window::Part,
};
use uxfs_format::{
    geometry::Geometry,
    superblock::{Copy, MAX_SECTOR_SIZE_BYTES, Superblock},
};

use super::read_piece;
use crate::{
    error::{ImageError, Result},
    form::Form,
};

/// Unpacked at once; also all that is unpacked of a file without a file system.
const PIECE_BYTES: usize = 64 << 10;

const _: () = assert!(MAX_SECTOR_SIZE_BYTES <= PIECE_BYTES && PIECE_BYTES.is_multiple_of(HOLE_BYTES));

/// How much is unpacked where no sound superblock is at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutSuperblock {
    /// The beginning: nothing can be read without a superblock.
    Beginning,
    /// All of it: the file system is damaged.
    Everything,
}

/// Unpacks the file system in a part of the image.
pub(super) fn unpack(
    stream: &mut impl Read,
    part: Part,
    otherwise: WithoutSuperblock,
    target: &mut Unpacked,
) -> Result<()> {
    let form = target.form;
    let failed = |source| ImageError::Unpack { form, source };
    // What lies in front of the file system is not looked at.
    io::copy(&mut stream.by_ref().take(part.start_bytes), &mut io::sink()).map_err(failed)?;
    let mut part = stream.by_ref().take(part.length_bytes.unwrap_or(u64::MAX));
    let mut piece = vec![0; PIECE_BYTES];
    let mut length = read_piece(&mut part, &mut piece).map_err(failed)?;
    let size_bytes = piece.get(..length).and_then(size_of_file_system);
    let is_beginning_enough = size_bytes.is_none() && otherwise == WithoutSuperblock::Beginning;
    let size_bytes = size_bytes.unwrap_or(if is_beginning_enough { PIECE_BYTES as u64 } else { u64::MAX });
    while length > 0 && target.file.end_bytes() < size_bytes {
        target.add(piece.get(..length).unwrap_or_default())?;
        length = read_piece(&mut part, &mut piece).map_err(failed)?;
    }
    if !is_beginning_enough {
        io::copy(stream, &mut io::sink()).map_err(failed)?;
    }
    Ok(())
}

/// Bytes in the file system that begins with these bytes. `None` where they begin none that can be mounted.
fn size_of_file_system(start: &[u8]) -> Option<u64> {
    let (superblock, sector) = Superblock::parse(start).ok()?;
    superblock.verify(sector, Copy::Primary).ok()?;
    Some(Geometry::new(superblock).data_size_bytes())
}

/// The file that is unpacked into.
pub(super) struct Unpacked {
    form: Form,
    file: SparseFile,
}

impl Unpacked {
    pub fn new(form: Form) -> Result<Self> {
        let failed = |source| ImageError::NoDirectory { directory: env::temp_dir(), source };
        Ok(Self { form, file: SparseFile::new().map_err(failed)? })
    }

    /// As long as what was unpacked.
    pub fn into_file(self) -> Result<File> {
        self.file.into_file().map_err(|source| ImageError::Unpack { form: self.form, source })
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes).map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull => ImageError::NoRoom(env::temp_dir()),
            _ => ImageError::Unpack { form: self.form, source },
        })
    }
}

#[cfg(test)]
#[path = "unpack_tests.rs"]
mod tests;

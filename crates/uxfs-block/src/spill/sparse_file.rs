//! A stream in a temporary file, with holes where it is zero: an unpacked stream may be a thousand times as long as the packed one.

use std::{fs::File, io, os::unix::fs::FileExt};

use rustix::io::Errno;

use crate::zeros::is_zero;

/// Zeros of this size, where they lie aligned, become holes.
pub const HOLE_BYTES: usize = 4 << 10;

/// A file without a name that a stream is written to. It leaves a sixteenth of the free space to other programs.
#[derive(Debug)]
pub struct SparseFile {
    file: File,
    end_bytes: u64,
    room_bytes: u64,
}

impl SparseFile {
    /// An empty one.
    ///
    /// # Errors
    /// The directory for temporary files takes none.
    pub fn new() -> io::Result<Self> {
        let file = tempfile::tempfile()?;
        let status = rustix::fs::fstatvfs(&file)?;
        let free_bytes = status.f_bavail.saturating_mul(status.f_frsize);
        Ok(Self { file, end_bytes: 0, room_bytes: free_bytes - free_bytes / 16 })
    }

    /// An empty one that takes so much space at most.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_room(room_bytes: u64) -> io::Result<Self> {
        Ok(Self { room_bytes, ..Self::new()? })
    }

    /// Bytes so far.
    pub fn end_bytes(&self) -> u64 {
        self.end_bytes
    }

    /// Appends bytes: a multiple of [`HOLE_BYTES`], but for the last ones.
    ///
    /// # Errors
    /// [`StorageFull`](io::ErrorKind::StorageFull) where no more is to be taken; the host.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = length_of_run(rest);
            let (run, others) = rest.split_at(length);
            if !is_zero(run.get(..HOLE_BYTES.min(run.len())).unwrap_or_default()) {
                let room_bytes = self.room_bytes.checked_sub(length as u64);
                self.room_bytes = room_bytes.ok_or(Errno::NOSPC)?;
                self.file.write_all_at(run, self.end_bytes)?;
            }
            self.end_bytes += length as u64;
            rest = others;
        }
        Ok(())
    }

    /// The file, as long as what was appended.
    ///
    /// # Errors
    /// The host.
    pub fn into_file(self) -> io::Result<File> {
        self.file.set_len(self.end_bytes)?;
        Ok(self.file)
    }
}

/// How many bytes at the beginning are blocks of zeros, or blocks that are not.
fn length_of_run(bytes: &[u8]) -> usize {
    let mut blocks = bytes.chunks(HOLE_BYTES);
    let Some(first) = blocks.next() else { return 0 };
    let is_hole = is_zero(first);
    let others = blocks.take_while(|block| is_zero(block) == is_hole);
    first.len() + others.map(<[u8]>::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Seek},
        os::unix::fs::MetadataExt,
    };

    use super::*;

    #[test]
    fn zeros_are_holes_and_all_is_as_it_was() {
        let mut bytes = vec![0; 5 << 20];
        (bytes[3], bytes[2 << 20], bytes[(5 << 20) - 1]) = (1, 2, 3);
        bytes.extend_from_slice(&[7; 100]);
        let mut sparse = SparseFile::new().unwrap();
        bytes.chunks(64 << 10).for_each(|piece| sparse.append(piece).unwrap());
        assert_eq!(sparse.end_bytes(), bytes.len() as u64);
        let mut file = sparse.into_file().unwrap();
        assert!(file.metadata().unwrap().blocks() * 512 < 1 << 20);
        let mut read = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut read).unwrap();
        assert!(read == bytes);
    }

    #[test]
    fn only_bytes_take_room() {
        let mut sparse = SparseFile::with_room(2 * HOLE_BYTES as u64).unwrap();
        sparse.append(&[0; 1 << 20]).unwrap();
        sparse.append(&[1; 2 * HOLE_BYTES]).unwrap();
        assert_eq!(sparse.append(&[1]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}

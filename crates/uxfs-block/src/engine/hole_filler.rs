//! Holes of an image file: writing into them takes room of the host, which may lack it.
//!
//! A program that must not fail in the middle of its writes gives them room before the first one. `fallocate` does that without a change
//! of the contents: holes still read as zeros.

use std::{fs::File, io, ops::Range};

use rustix::{
    fs::{self as system, FallocateFlags, SeekFrom},
    io::{Errno, retry_on_intr},
    process::{Resource, getrlimit},
};
use thiserror::Error;

use super::open_file::OpenFile;
use crate::words::in_words;

/// Why the host would not take what is to be written.
#[derive(Debug, Error)]
pub enum Shortage {
    /// Its file system is full.
    #[error(
        "what is written into holes of the image file takes {needed_bytes} bytes of the host, and there is room for {free_bytes}: \
         {missing_bytes} bytes are missing"
    )]
    Room {
        /// Bytes of holes that have no room yet, in blocks of the host.
        needed_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
        /// The difference.
        missing_bytes: u64,
    },
    /// The host refuses although there seems to be room: a quota, for example.
    #[error(
        "what is written into holes of the image file takes {needed_bytes} bytes of the host, which refuses them: {}",
        in_words(.source)
    )]
    Refused {
        /// Bytes of holes that have no room yet, in blocks of the host.
        needed_bytes: u64,
        /// The host's error.
        source: io::Error,
    },
    /// The process may not write so far into a file.
    #[error(
        "the process may write the first {limit_bytes} bytes of a file (ulimit -f), and writes here up to byte {end_bytes}"
    )]
    Limit {
        /// Bytes that a file may have.
        limit_bytes: u64,
        /// Where in the file the last write ends.
        end_bytes: u64,
    },
}

/// Gives room to ranges of an image file, one after the other.
///
/// Where the host lacks room, what got some until then keeps it: it reads as zeros as before.
#[derive(Debug)]
pub struct HoleFiller<'f> {
    file: &'f File,
    start_bytes: u64,
    block_bytes: u64,
    /// Bytes of holes that have no room yet.
    needed_bytes: u64,
    /// Where in the file the last block ends that was counted.
    counted_end: u64,
    /// Why the host gave no room. Since then holes are counted only.
    refusal: Option<Errno>,
    /// Bytes that a file of this process may have.
    limit_bytes: Option<u64>,
    /// Where in the file the last range ends.
    end_bytes: u64,
}

impl<'f> HoleFiller<'f> {
    /// For a regular file that may lack room; `None` for others, and for files without holes.
    pub(super) fn of(open: &'f OpenFile) -> Option<Self> {
        open.identity.inode?;
        let file = &open.file;
        let end_bytes = open.start_bytes.saturating_add(open.size_bytes);
        let limit_bytes = getrlimit(Resource::Fsize).current.filter(|limit| *limit < end_bytes);
        let has_holes = !holes(file, open.start_bytes..end_bytes, 1).is_empty();
        let status = system::fstatvfs(file).ok()?;
        (has_holes || limit_bytes.is_some()).then_some(Self {
            file,
            start_bytes: open.start_bytes,
            block_bytes: status.f_frsize.max(1),
            needed_bytes: 0,
            counted_end: 0,
            refusal: None,
            limit_bytes,
            end_bytes: 0,
        })
    }

    /// The same for a part of the device that begins at this byte.
    #[must_use]
    pub(crate) fn moved_to(self, start_bytes: u64) -> Self {
        Self { start_bytes: self.start_bytes.saturating_add(start_bytes), ..self }
    }

    /// Gives room to the holes in a range of the device. Ranges come in ascending order; one that comes again counts once.
    pub fn fill(&mut self, range: Range<u64>) {
        let in_file = |offset: u64| self.start_bytes.saturating_add(offset);
        let range = in_file(range.start)..in_file(range.end);
        self.end_bytes = self.end_bytes.max(range.end);
        for hole in holes(self.file, range, usize::MAX) {
            if self.refusal.is_none() {
                // With the size kept: a block of the host may end behind the file.
                let (flags, length) = (FallocateFlags::KEEP_SIZE, hole.end - hole.start);
                let given = retry_on_intr(|| system::fallocate(self.file, flags, hole.start, length));
                self.refusal = given.err();
            }
            if self.refusal.is_some() {
                self.count(&hole);
            }
        }
    }

    /// Adds the blocks of a hole that were not counted yet.
    fn count(&mut self, hole: &Range<u64>) {
        let start = (hole.start - hole.start % self.block_bytes).max(self.counted_end);
        let end = hole.end.checked_next_multiple_of(self.block_bytes).unwrap_or(u64::MAX);
        self.needed_bytes = self.needed_bytes.saturating_add(end.saturating_sub(start));
        self.counted_end = self.counted_end.max(end);
    }

    /// Says whether all ranges can be written.
    ///
    /// # Errors
    /// The host lacks room for some of them, or the process may not write so far.
    pub fn finish(self) -> Result<(), Shortage> {
        let Self { needed_bytes, end_bytes, .. } = self;
        if let Some(limit_bytes) = self.limit_bytes.filter(|limit| *limit < end_bytes) {
            return Err(Shortage::Limit { limit_bytes, end_bytes });
        }
        let Some(refusal) = self.refusal else { return Ok(()) };
        let is_lack = refusal == Errno::NOSPC;
        let free = system::fstatvfs(self.file).map(|status| status.f_bavail.saturating_mul(status.f_frsize));
        match free {
            Ok(free_bytes) if free_bytes < needed_bytes && refusal != Errno::DQUOT => {
                Err(Shortage::Room { needed_bytes, free_bytes, missing_bytes: needed_bytes - free_bytes })
            }
            _ if is_lack || refusal == Errno::DQUOT => {
                Err(Shortage::Refused { needed_bytes, source: refusal.into() })
            }
            // A file system that gives no room ahead, and has enough of it.
            _ => Ok(()),
        }
    }
}

/// The first holes in a range of a file. A file system that does not tell has none.
fn holes(file: &File, range: Range<u64>, most: usize) -> Vec<Range<u64>> {
    let mut holes = Vec::new();
    let mut position = range.start;
    while position < range.end && holes.len() < most {
        let Ok(start) = system::seek(file, SeekFrom::Hole(position)) else { break };
        if start >= range.end {
            break;
        }
        // Behind the last data there is none.
        let data = system::seek(file, SeekFrom::Data(start));
        let end = data.unwrap_or(range.end).clamp(start, range.end);
        if end == start {
            break;
        }
        holes.push(start..end);
        position = end;
    }
    holes
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;
    use crate::{
        device::BlockDevice,
        engine::{OpenOptions, sync::SyncDevice},
    };

    fn device(file: &tempfile::NamedTempFile, start_bytes: u64) -> SyncDevice {
        let options = OpenOptions { start_bytes, writable: true, ..OpenOptions::default() };
        SyncDevice::open(file.path(), &options).unwrap()
    }

    #[test]
    fn holes_get_room_and_keep_their_zeros() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        file.as_file().write_all_at(&[7; 65536], 65536).unwrap();
        assert_eq!(holes(file.as_file(), 0..1 << 20, usize::MAX), [0..65536, 131_072..1 << 20]);
        assert_eq!(
            holes(file.as_file(), 60_000..70_000, usize::MAX).as_slice(),
            std::slice::from_ref(&(60_000..65536))
        );
        let blocks = || file.as_file().metadata().unwrap().blocks() * 512;
        let before = blocks();
        let device = device(&file, 512);
        let mut filler = device.hole_filler().unwrap();
        // The second lies in data.
        for range in [100..200, 70_000..80_000, 200_000..300_000] {
            filler.fill(range);
        }
        filler.finish().unwrap();
        assert!((before + 4096 + 100_000..1 << 19).contains(&blocks()), "{before}, then {}", blocks());
        let mut found = vec![1; 300_000];
        file.as_file().read_exact_at(&mut found, 131_072).unwrap();
        assert!(found.iter().all(|byte| *byte == 0));
        assert_eq!(file.as_file().metadata().unwrap().len(), 1 << 20);
    }

    #[test]
    fn a_file_without_holes_needs_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&[7; 65536], 0).unwrap();
        assert!(device(&file, 0).hole_filler().is_none());
    }

    #[test]
    fn a_host_that_gives_no_room_ahead_is_asked_for_its_free_space() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let device = device(&file, 0);
        for (taken_bytes, is_enough) in [(0, true), (1 << 62, false)] {
            let mut filler = device.hole_filler().unwrap();
            (filler.refusal, filler.needed_bytes) = (Some(Errno::OPNOTSUPP), taken_bytes);
            filler.fill(0..4096);
            assert_eq!(filler.finish().is_ok(), is_enough, "{taken_bytes}");
        }
    }

    #[test]
    fn blocks_are_counted_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let device = device(&file, 0);
        let mut filler = device.hole_filler().unwrap();
        (filler.block_bytes, filler.refusal) = (4096, Some(Errno::NOSPC));
        for range in [0..512, 1024..1536, 4096..4608, 0..512, 12_000..12_800] {
            filler.fill(range);
        }
        assert_eq!(filler.needed_bytes, 4 * 4096);
        // There is room here, and yet the host refused.
        let told = filler.finish().unwrap_err().to_string();
        assert!(
            told.ends_with("takes 16384 bytes of the host, which refuses them: No space left on device"),
            "{told}"
        );
    }
}

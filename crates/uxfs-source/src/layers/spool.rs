//! Records that are written one after the other and read in any order: in memory up to a bound, behind it in a temporary
//! file that has no name.

use std::{fs::File, io::Write, os::fd::AsFd};

use crate::{content::read_full, error::SourceError};

/// Records of a million files, unless they carry much.
const MEMORY_BYTES: usize = 64 << 20;
/// Written to the file at once.
const PENDING_BYTES: usize = 1 << 20;
/// What reading a record from the file begins with: most are no longer.
const FIRST_BYTES: usize = 512;
/// The length before each record.
const LENGTH_BYTES: usize = 4;

pub(super) struct Spool {
    memory: Vec<u8>,
    memory_limit: usize,
    file: Option<File>,
    /// For the end of the file.
    pending: Vec<u8>,
    length_bytes: u64,
}

fn failed(action: &'static str) -> impl Fn(std::io::Error) -> SourceError {
    move |error| SourceError::io(b"temporary file", action, error)
}

impl Spool {
    pub(super) fn new() -> Self {
        Self::with_memory(MEMORY_BYTES)
    }

    fn with_memory(memory_limit: usize) -> Self {
        Self { memory: Vec::new(), memory_limit, file: None, pending: Vec::new(), length_bytes: 0 }
    }

    /// Keeps a record; gives its place.
    pub(super) fn append(&mut self, record: &[u8]) -> Result<u64, SourceError> {
        let length = u32::try_from(record.len())
            .map_err(|_| failed("write")(std::io::Error::other("a record of more than 4 GiB")))?;
        let place = self.length_bytes;
        let whole_bytes = LENGTH_BYTES + record.len();
        let is_in_memory = self.file.is_none() && self.memory.len() + whole_bytes <= self.memory_limit;
        if !is_in_memory && self.file.is_none() {
            self.file = Some(tempfile::tempfile().map_err(failed("make"))?);
        }
        let target = if is_in_memory { &mut self.memory } else { &mut self.pending };
        target.extend_from_slice(&length.to_le_bytes());
        target.extend_from_slice(record);
        self.length_bytes += whole_bytes as u64;
        if self.pending.len() >= PENDING_BYTES {
            self.flush()?;
        }
        Ok(place)
    }

    fn flush(&mut self) -> Result<(), SourceError> {
        if let Some(file) = &mut self.file {
            file.write_all(&self.pending).map_err(failed("write"))?;
        }
        self.pending.clear();
        Ok(())
    }

    /// Before the first record is read.
    pub(super) fn seal(&mut self) -> Result<(), SourceError> {
        self.flush()?;
        self.pending = Vec::new();
        self.memory.shrink_to_fit();
        Ok(())
    }

    /// The record at a place.
    pub(super) fn read<'a>(&'a self, place: u64, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], SourceError> {
        let in_memory = usize::try_from(place).ok().and_then(|place| self.memory.get(place..));
        if let Some(bytes) = in_memory.filter(|bytes| !bytes.is_empty()) {
            let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or_else(damaged)?;
            return rest.get(..u32::from_le_bytes(*length) as usize).ok_or_else(damaged);
        }
        let file = self.file.as_ref().ok_or_else(damaged)?;
        let at = place.saturating_sub(self.memory.len() as u64);
        let read = |bytes: &mut [u8], at| {
            read_full(file.as_fd(), bytes, at).map_err(|error| failed("read")(error.into()))
        };
        scratch.resize(FIRST_BYTES, 0);
        let found = read(scratch, at)?;
        let start = scratch.get(..found).unwrap_or_default();
        let (length, _) = start.split_first_chunk::<LENGTH_BYTES>().ok_or_else(damaged)?;
        let length = u32::from_le_bytes(*length) as usize;
        if LENGTH_BYTES + length > found {
            // Compared with what there is before room is made for it.
            if (LENGTH_BYTES + length) as u64 > self.length_bytes.saturating_sub(place) {
                return Err(damaged());
            }
            scratch.resize(LENGTH_BYTES + length, 0);
            if read(scratch, at)? < LENGTH_BYTES + length {
                return Err(damaged());
            }
        }
        scratch.get(LENGTH_BYTES..LENGTH_BYTES + length).ok_or_else(damaged)
    }
}

/// A record is not what was written: somebody else's fault, and no reason to panic.
pub(super) fn damaged() -> SourceError {
    failed("read back")(std::io::Error::other("what was written there is gone"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_from_memory_and_file() {
        let records: Vec<Vec<u8>> =
            (0..300_usize).map(|number| vec![number as u8; number * number % 2000]).collect();
        for memory in [0, 10_000, 1 << 20] {
            let mut spool = Spool::with_memory(memory);
            let places: Vec<u64> = records.iter().map(|record| spool.append(record).unwrap()).collect();
            spool.seal().unwrap();
            assert_eq!(spool.file.is_some(), memory < 1 << 20);
            let mut scratch = Vec::new();
            for (place, record) in places.iter().zip(&records).rev() {
                assert_eq!(spool.read(*place, &mut scratch).unwrap(), record);
            }
            assert!(spool.read(spool.length_bytes, &mut scratch).is_err());
        }
    }
}

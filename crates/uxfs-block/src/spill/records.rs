//! Records that are appended and read at any place: in memory up to a bound, behind it in a temporary file.

use super::{SpillError, TemporaryFile};

/// Written to the file at once.
const PENDING_BYTES: usize = 256 << 10;
/// Bytes of the first read of a record from the file: most records are no longer.
const FIRST_BYTES: usize = 512;
/// The length before each record.
const LENGTH_BYTES: usize = 4;

/// Records, known by their places.
#[derive(Debug)]
pub struct Records {
    memory: Vec<u8>,
    memory_limit: usize,
    file: Option<TemporaryFile>,
    /// For the end of the file.
    pending: Vec<u8>,
    length_bytes: u64,
}

impl Records {
    /// No records, of which `memory_limit` bytes will be kept in memory.
    pub fn new(memory_limit: usize) -> Self {
        Self { memory: Vec::new(), memory_limit, file: None, pending: Vec::new(), length_bytes: 0 }
    }

    /// Keeps a record; gives its place.
    ///
    /// # Errors
    /// The temporary file cannot be made or written.
    pub fn append(&mut self, record: &[u8]) -> Result<u64, SpillError> {
        let length = u32::try_from(record.len())
            .map_err(|_| SpillError::new("write")(std::io::Error::other("a record of more than 4 GiB")))?;
        let place = self.length_bytes;
        let whole_bytes = LENGTH_BYTES + record.len();
        let is_in_memory = self.file.is_none() && self.memory.len() + whole_bytes <= self.memory_limit;
        if !is_in_memory && self.file.is_none() {
            self.file = Some(TemporaryFile::create()?);
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

    fn flush(&mut self) -> Result<(), SpillError> {
        if let Some(file) = &self.file {
            let written = self.length_bytes - (self.memory.len() + self.pending.len()) as u64;
            file.write(&self.pending, written)?;
        }
        self.pending.clear();
        Ok(())
    }

    /// Gives back the memory that only appending needs. More may be appended later.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn seal(&mut self) -> Result<(), SpillError> {
        self.flush()?;
        self.pending = Vec::new();
        self.memory.shrink_to_fit();
        Ok(())
    }

    /// The place of the first record, where there is one.
    pub fn first_place(&self) -> Option<u64> {
        (self.length_bytes > 0).then_some(0)
    }

    /// The place behind a record, where another one begins.
    pub fn place_after(&self, place: u64, record: &[u8]) -> Option<u64> {
        let next = place.saturating_add((LENGTH_BYTES + record.len()) as u64);
        (next < self.length_bytes).then_some(next)
    }

    /// The record at a place.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn read<'a>(&'a self, place: u64, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], SpillError> {
        let length_bytes = self.length_bytes;
        let file_bytes = length_bytes.saturating_sub((self.memory.len() + self.pending.len()) as u64);
        let of_slice = |bytes: &'a [u8], at: u64| {
            let bytes = usize::try_from(at).ok().and_then(|at| bytes.get(at..))?;
            let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
            rest.get(..u32::from_le_bytes(*length) as usize)
        };
        let Some(at) = place.checked_sub(self.memory.len() as u64) else {
            return of_slice(&self.memory, place).ok_or_else(SpillError::damaged);
        };
        if let Some(at) = at.checked_sub(file_bytes) {
            return of_slice(&self.pending, at).ok_or_else(SpillError::damaged);
        }
        let file = self.file.as_ref().ok_or_else(SpillError::damaged)?;
        scratch.resize(FIRST_BYTES, 0);
        let found = file.read(scratch, at)?;
        let start = scratch.get(..found).unwrap_or_default();
        let (length, _) = start.split_first_chunk::<LENGTH_BYTES>().ok_or_else(SpillError::damaged)?;
        let length = u32::from_le_bytes(*length) as usize;
        if LENGTH_BYTES + length > found {
            // Compared with what there is before room is made for it.
            if (LENGTH_BYTES + length) as u64 > length_bytes.saturating_sub(place) {
                return Err(SpillError::damaged());
            }
            scratch.resize(LENGTH_BYTES + length, 0);
            if file.read(scratch, at)? < LENGTH_BYTES + length {
                return Err(SpillError::damaged());
            }
        }
        scratch.get(LENGTH_BYTES..LENGTH_BYTES + length).ok_or_else(SpillError::damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_from_memory_and_file() {
        let records: Vec<Vec<u8>> =
            (0..300_usize).map(|number| vec![number as u8; number * number % 2000]).collect();
        for memory in [0, 10_000, 1 << 20] {
            let mut kept = Records::new(memory);
            let mut places = Vec::new();
            let mut scratch = Vec::new();
            for record in &records {
                places.push(kept.append(record).unwrap());
                // Also while more are appended.
                assert_eq!(kept.read(places[0], &mut scratch).unwrap(), records[0]);
                assert_eq!(kept.read(*places.last().unwrap(), &mut scratch).unwrap(), record);
            }
            kept.seal().unwrap();
            assert_eq!(kept.file.is_some(), memory < 1 << 20);
            for (place, record) in places.iter().zip(&records).rev() {
                assert_eq!(kept.read(*place, &mut scratch).unwrap(), record);
            }
            assert!(kept.read(kept.length_bytes, &mut scratch).is_err());
        }
    }
}

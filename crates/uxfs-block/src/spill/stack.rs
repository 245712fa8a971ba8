//! A stack of records of one length: the lower part in memory up to a bound, the rest in a temporary file.
//!
//! 1. Records lie, from the bottom up, in memory, in the file, and in the buffer for the end of the file. A part is only used
//!    while the parts below it are full.

use super::{SpillError, TemporaryFile};

/// Records that are written to the file at once.
const PENDING_RECORDS: usize = 4096;

/// Records of `N` bytes.
#[derive(Debug)]
pub struct SpillStack<const N: usize> {
    most_in_memory: u64,
    memory: Vec<[u8; N]>,
    file: Option<TemporaryFile>,
    in_file: u64,
    /// For the end of the file.
    pending: Vec<[u8; N]>,
}

impl<const N: usize> SpillStack<N> {
    /// No records, of which about `memory_limit` bytes will be kept in memory.
    pub fn new(memory_limit: usize) -> Self {
        let most_in_memory = (memory_limit / N.max(1)) as u64;
        Self { most_in_memory, memory: Vec::new(), file: None, in_file: 0, pending: Vec::new() }
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.memory.len() as u64 + self.in_file + self.pending.len() as u64
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a record on top.
    ///
    /// # Errors
    /// The temporary file cannot be made or written.
    pub fn push(&mut self, record: [u8; N]) -> Result<(), SpillError> {
        if self.len() < self.most_in_memory {
            self.memory.push(record);
            return Ok(());
        }
        self.pending.push(record);
        if self.pending.len() < PENDING_RECORDS {
            return Ok(());
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => TemporaryFile::create()?,
        };
        file.write(self.pending.as_flattened(), self.in_file * N as u64)?;
        self.file = Some(file);
        self.in_file += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// A record by its number from the bottom.
    ///
    /// # Errors
    /// The temporary file cannot be read; there is no such record.
    pub fn get(&self, index: u64) -> Result<[u8; N], SpillError> {
        let in_slice = |records: &[[u8; N]], index: u64| {
            let record = usize::try_from(index).ok().and_then(|index| records.get(index));
            record.copied().ok_or_else(SpillError::damaged)
        };
        let Some(above) = index.checked_sub(self.memory.len() as u64) else {
            return in_slice(&self.memory, index);
        };
        if let Some(pending) = above.checked_sub(self.in_file) {
            return in_slice(&self.pending, pending);
        }
        let file = self.file.as_ref().ok_or_else(SpillError::damaged)?;
        let mut record = [0; N];
        match file.read(&mut record, above * N as u64)? {
            read if read == N => Ok(record),
            _ => Err(SpillError::damaged()),
        }
    }

    /// Takes records away from the top until no more than `length` are left.
    pub fn truncate(&mut self, length: u64) {
        let in_memory = self.memory.len() as u64;
        let above = length.saturating_sub(in_memory);
        let pending = above.saturating_sub(self.in_file);
        self.pending.truncate(usize::try_from(pending).unwrap_or(usize::MAX));
        self.in_file = self.in_file.min(above);
        self.memory.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
        #[test]
        fn records_are_where_they_were_put(
            most in 0..6000_usize,
            steps in prop::collection::vec((0..9000_u64, 0..20_000_u64), 1..8),
        ) {
            let mut stack = SpillStack::<5>::new(most * 5);
            let mut model: Vec<[u8; 5]> = Vec::new();
            for (number, (pushed, length)) in (0_u8..).zip(steps) {
                for index in 0..pushed {
                    let [a, b, c, d, ..] = index.to_le_bytes();
                    stack.push([number, a, b, c, d]).unwrap();
                    model.push([number, a, b, c, d]);
                }
                prop_assert_eq!(stack.len(), model.len() as u64);
                for index in (0..model.len()).step_by(37).chain(model.len().checked_sub(1)) {
                    prop_assert_eq!(stack.get(index as u64).unwrap(), model[index]);
                }
                prop_assert!(stack.get(model.len() as u64).is_err());
                stack.truncate(length);
                model.truncate(length as usize);
            }
        }
    }
}

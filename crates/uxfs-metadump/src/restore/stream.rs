//! Reading a dump.

use std::io::{self, Read};

use super::RestoreError;

/// A dump that is being read.
pub(super) struct Stream<'s> {
    source: &'s mut dyn Read,
}

impl<'s> Stream<'s> {
    pub(super) fn new(source: &'s mut dyn Read) -> Self {
        Self { source }
    }

    /// Fills `bytes`, a part of `what`.
    pub(super) fn fill(&mut self, bytes: &mut [u8], what: &'static str) -> Result<(), RestoreError> {
        self.source.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => RestoreError::CutOff(what),
            _ => RestoreError::Read(error),
        })
    }

    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], RestoreError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    /// As [`array`](Self::array); `None` where the dump ends before it.
    pub(super) fn next_array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<[u8; N]>, RestoreError> {
        let mut bytes = [0; N];
        let (first, rest) = bytes.split_at_mut(1);
        loop {
            match self.source.read(first) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RestoreError::Read(error)),
            }
        }
        self.fill(rest, what)?;
        Ok(Some(bytes))
    }
}

//! The members of a gzip stream, one after the other.
//!
//! As in gzip(1), zeros may follow the last member, as padding; anything else there belongs to no member, and is counted.

use std::{
    io::{self, BufRead, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use flate2::bufread::GzDecoder;

use super::fill;

/// First bytes of a member.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What follows the last member and is none.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    start_bytes: AtomicU64,
    length_bytes: AtomicU64,
}

impl Behind {
    /// Where it begins in the packed stream, and its length in bytes; known once the stream has been read to its end.
    pub(crate) fn found(&self) -> Option<(u64, u64)> {
        let length_bytes = self.length_bytes.load(Relaxed);
        (length_bytes > 0).then(|| (self.start_bytes.load(Relaxed), length_bytes))
    }
}

/// Unpacks all members.
pub(super) struct Members<R> {
    decoder: Option<GzDecoder<Packed<R>>>,
    behind: Arc<Behind>,
}

impl<R: BufRead> Members<R> {
    /// Of a stream that begins with one.
    pub(super) fn new(stream: R) -> Self {
        let packed = Packed { stream, position_bytes: 0, held: [0], is_held: false };
        Self { decoder: Some(GzDecoder::new(packed)), behind: Arc::default() }
    }

    pub(super) fn behind(&self) -> Arc<Behind> {
        Arc::clone(&self.behind)
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = self.decoder.as_mut().filter(|_| !buffer.is_empty()) {
            match decoder.read(buffer)? {
                // The sum and the length at the end of the member are right.
                0 => {
                    let packed = self.decoder.take().map(GzDecoder::into_inner);
                    self.decoder = packed.map(|packed| next(packed, &self.behind)).transpose()?.flatten();
                }
                read => return Ok(read),
            }
        }
        Ok(0)
    }
}

/// The next member, unless there is none.
fn next<R: BufRead>(mut packed: Packed<R>, behind: &Behind) -> io::Result<Option<GzDecoder<Packed<R>>>> {
    let Some(start_bytes) = packed.skip_zeros()? else { return Ok(None) };
    if packed.begins_member()? {
        return Ok(Some(GzDecoder::new(packed)));
    }
    let end_bytes = packed.skip_all()?;
    behind.start_bytes.store(start_bytes, Relaxed);
    behind.length_bytes.store(end_bytes - start_bytes, Relaxed);
    Ok(None)
}

/// A packed stream that counts what is read, and takes one byte back.
struct Packed<R> {
    stream: R,
    position_bytes: u64,
    held: [u8; 1],
    is_held: bool,
}

impl<R: BufRead> Packed<R> {
    /// Passes over zeros; gives the place of the first other byte, where there is one.
    fn skip_zeros(&mut self) -> io::Result<Option<u64>> {
        loop {
            let filled = fill(self)?;
            if filled.is_empty() {
                return Ok(None);
            }
            let zeros = filled.iter().position(|byte| *byte != 0);
            let length = zeros.unwrap_or(filled.len());
            self.consume(length);
            if zeros.is_some() {
                return Ok(Some(self.position_bytes));
            }
        }
    }

    /// Whether a member begins here. The buffer below may end between its first two bytes.
    fn begins_member(&mut self) -> io::Result<bool> {
        let [first, second] = MAGIC;
        if fill(self)?.first() != Some(&first) {
            return Ok(false);
        }
        self.consume(1);
        let is_member = fill(self)?.first() == Some(&second);
        (self.held, self.is_held) = ([first], true);
        self.position_bytes -= 1;
        Ok(is_member)
    }

    /// Passes over the rest; gives the length of the whole in bytes.
    fn skip_all(&mut self) -> io::Result<u64> {
        loop {
            let length = fill(self)?.len();
            if length == 0 {
                return Ok(self.position_bytes);
            }
            self.consume(length);
        }
    }
}

impl<R: BufRead> Read for Packed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let filled = self.fill_buf()?;
        let length = filled.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), filled.get(..length)) {
            to.copy_from_slice(from);
        }
        self.consume(length);
        Ok(length)
    }
}

impl<R: BufRead> BufRead for Packed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.is_held { Ok(&self.held) } else { self.stream.fill_buf() }
    }

    fn consume(&mut self, length: usize) {
        self.position_bytes += length as u64;
        if self.is_held {
            self.is_held = length == 0;
        } else {
            self.stream.consume(length);
        }
    }
}

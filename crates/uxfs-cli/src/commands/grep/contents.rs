//! Contents of a file as a stream, in which a hole takes one byte where its zeros tell nothing more.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, Read},
    rc::Rc,
};

use uxfs_volume::file_data::reader::{FilePiece, FileReader};

/// Bytes at the beginning that decide whether a file is text.
const BEGINNING_BYTES: usize = 32 << 10;

/// The searcher asks for no place that lies further behind what it has read: its buffer holds a line at most, which is half as long.
const LOOK_BACK_BYTES: u64 = 128 << 20;

/// Zeros that a stream leaves out.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Where in the stream, and how many.
    places: VecDeque<(u64, u64)>,
    /// Those before the place that was last asked for.
    before: u64,
    /// All.
    pub total: u64,
}

impl LeftOut {
    /// Zeros that were left out before a place in the stream. Places come in order.
    pub fn before(&mut self, stream_bytes: u64) -> u64 {
        while let Some((_, count)) = self.places.front().copied().filter(|(at, _)| *at < stream_bytes) {
            self.before = self.before.saturating_add(count);
            self.places.pop_front();
        }
        self.before
    }
}

/// Reads a file.
#[derive(Debug)]
pub struct Contents<'a> {
    reader: FileReader<'a>,
    /// Holes are one byte each.
    skips_holes: bool,
    left_out: Rc<RefCell<LeftOut>>,
    /// Data that was read, and how much of it has been given.
    data: Vec<u8>,
    given: usize,
    zeros: u64,
    position: u64,
}

impl<'a> Contents<'a> {
    /// From its beginning.
    pub fn new(reader: FileReader<'a>, skips_holes: bool, left_out: Rc<RefCell<LeftOut>>) -> Self {
        Self { reader, skips_holes, left_out, data: Vec::new(), given: 0, zeros: 0, position: 0 }
    }

    /// Whether a zero lies at the beginning. What is read by it comes again.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn begins_with_zero(&mut self) -> io::Result<bool> {
        if self.zeros == 0 && self.given == self.data.len() && !self.advance()? {
            return Ok(false);
        }
        let data = self.data.get(self.given..).unwrap_or_default();
        let begin = data.get(..BEGINNING_BYTES).unwrap_or(data);
        Ok(self.zeros > 0 || begin.contains(&0))
    }

    /// Takes the next piece; whether there was one.
    fn advance(&mut self) -> io::Result<bool> {
        let piece = self.reader.next_piece().map_err(io::Error::other)?;
        match piece {
            None => return Ok(false),
            Some(FilePiece::Data { bytes, .. }) => {
                self.data.clear();
                self.data.extend_from_slice(bytes);
                self.given = 0;
            }
            Some(FilePiece::Hole { length_bytes, .. }) if self.skips_holes && length_bytes > 1 => {
                let mut left_out = self.left_out.borrow_mut();
                left_out.places.push_back((self.position, length_bytes - 1));
                left_out.total = left_out.total.saturating_add(length_bytes - 1);
                // A file can have millions of holes, and no line that is printed.
                left_out.before(self.position.saturating_sub(LOOK_BACK_BYTES));
                self.zeros = 1;
            }
            Some(FilePiece::Hole { length_bytes, .. }) => self.zeros = length_bytes,
        }
        Ok(true)
    }
}

impl Read for Contents<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.zeros == 0 && self.given == self.data.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let length = if self.zeros > 0 {
            let length = usize::try_from(self.zeros).map_or(buffer.len(), |zeros| zeros.min(buffer.len()));
            buffer[..length].fill(0);
            self.zeros -= length as u64;
            length
        } else {
            let rest = &self.data[self.given..];
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            self.given += length;
            length
        };
        self.position += length as u64;
        Ok(length)
    }
}

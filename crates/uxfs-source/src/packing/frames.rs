//! The frames of a zstd stream, one after the other. Zeros may follow them, as padding.

use std::io::{self, BufRead, Read};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Unpacks all frames.
pub(super) struct Frames<R> {
    stream: R,
    decoder: Decoder<'static>,
    /// A frame has begun and not ended.
    is_within: bool,
}

impl<R: BufRead> Frames<R> {
    /// Of a stream that begins with one.
    ///
    /// # Errors
    /// No memory for it.
    pub(super) fn new(stream: R) -> io::Result<Self> {
        Ok(Self { stream, decoder: Decoder::new()?, is_within: false })
    }

    /// Passes over padding; whether anything follows.
    fn goes_on(&mut self) -> io::Result<bool> {
        loop {
            let filled = super::fill(&mut self.stream)?;
            let zeros = filled.iter().take_while(|byte| **byte == 0).count();
            if zeros == 0 {
                return Ok(!filled.is_empty());
            }
            self.stream.consume(zeros);
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_within && !self.goes_on()? {
                return Ok(0);
            }
            let packed = super::fill(&mut self.stream)?;
            let is_over = packed.is_empty();
            let (mut from, mut to) = (InBuffer::around(packed), OutBuffer::around(&mut *buffer));
            // At the end of a frame its checksum is compared.
            let missing = self.decoder.run(&mut from, &mut to)?;
            let (read, written) = (from.pos(), to.pos());
            self.stream.consume(read);
            self.is_within = missing > 0;
            if written > 0 {
                return Ok(written);
            }
            if is_over && self.is_within {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "incomplete frame"));
            }
        }
    }
}

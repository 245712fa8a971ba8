//! The archive as a stream of bytes.

use std::io::{self, Write};

use super::{encoder::TarEncoder, header::BLOCK_BYTES};
use crate::{
    chunk::Chunk,
    report::Observer,
    sink::{Sink, SinkError},
};

/// Archives are padded to this, as tape drives wanted it and other tars still do.
const RECORD_BYTES: u64 = 20 * BLOCK_BYTES as u64;

/// Writes a pax archive to a file, a pipe or anything else. Chunks are large, so the writer needs no buffer.
#[derive(Debug)]
pub struct TarSink<W> {
    writer: W,
    written_bytes: u64,
}

impl<W: Write> TarSink<W> {
    /// An archive that goes to `writer`.
    pub fn new(writer: W) -> Self {
        Self { writer, written_bytes: 0 }
    }

    /// The writer.
    pub fn into_inner(self) -> W {
        self.writer
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written_bytes += bytes.len() as u64;
        self.writer.write_all(bytes)
    }
}

fn archive_error(source: io::Error) -> SinkError {
    SinkError { path: b"archive".to_vec(), source }
}

impl<W: Write> Sink for TarSink<W> {
    type Record = ();
    type Encoder = TarEncoder;

    fn encoder(&self) -> TarEncoder {
        TarEncoder::new()
    }

    fn write(&mut self, chunk: &Chunk<()>, observer: &mut dyn Observer) -> Result<(), SinkError> {
        self.put(chunk.bytes.filled()).map_err(archive_error)?;
        observer.progress(&chunk.counts);
        Ok(())
    }

    fn finish(&mut self, _: &mut dyn Observer) -> Result<(), SinkError> {
        let end = self.written_bytes + 2 * BLOCK_BYTES as u64;
        let padding = end.next_multiple_of(RECORD_BYTES) - self.written_bytes;
        match self.put(&vec![0; padding as usize]).and_then(|()| self.writer.flush()) {
            // Some readers stop at the end mark.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(archive_error),
        }
    }
}

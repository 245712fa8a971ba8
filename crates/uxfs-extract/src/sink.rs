//! Where files go. A sink has two halves: the encoder works on many threads at once and in any order, each on its own
//! chunk; the sink itself takes the chunks one after the other, in tree order.

use std::{io, ops::Range};

use thiserror::Error;
use uxfs_block::words::in_words;

use crate::{chunk::Chunk, entry::Entry, report::Observer};

/// An error that ends an extraction early: going on would fail for every further file.
#[derive(Debug, Error)]
#[error("cannot write {}: {}", String::from_utf8_lossy(.path), in_words(source))]
pub struct SinkError {
    /// The path that was being written.
    pub path: Vec<u8>,
    /// Why it failed.
    pub source: io::Error,
}

impl SinkError {
    /// The threads that fill the chunks cannot be started.
    pub(crate) fn no_thread(error: io::Error) -> Self {
        let source = io::Error::new(error.kind(), format!("cannot start a thread: {error}"));
        Self { path: b"the output".to_vec(), source }
    }
}

/// Turns entries into the contents of chunks. One for each worker thread.
pub trait Encoder: Send {
    /// Messages to the sink beside bytes.
    type Record: Send;

    /// An entry begins. A directory's contents follow, and so does a file's data; the other kinds are complete.
    fn entry(&mut self, entry: &Entry<'_>, chunk: &mut Chunk<Self::Record>);

    /// A piece of the data of the file that was begun last: from `offset_bytes` on, read into `span` of the chunk's
    /// bytes before the sink sees it. Ascending; pieces of one range adjoin.
    fn data(&mut self, offset_bytes: u64, span: Range<usize>, chunk: &mut Chunk<Self::Record>);

    /// The file is complete: `data_bytes` were given in all.
    fn end_file(&mut self, data_bytes: u64, chunk: &mut Chunk<Self::Record>);

    /// The directory begun last and not ended yet is complete.
    fn end_directory(&mut self, chunk: &mut Chunk<Self::Record>);
}

/// Takes chunks in tree order.
pub trait Sink {
    /// As the encoder's.
    type Record: Send;
    /// The encoder that belongs to it.
    type Encoder: Encoder<Record = Self::Record>;

    /// A new encoder.
    fn encoder(&self) -> Self::Encoder;

    /// Writes what the chunk holds and tells the observer what it came to. (The chunk's problems are not the sink's to tell.)
    ///
    /// # Errors
    /// Only what makes it pointless to go on. Other problems go to the observer.
    fn write(&mut self, chunk: &Chunk<Self::Record>, observer: &mut dyn Observer) -> Result<(), SinkError>;

    /// Writes what comes last.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn finish(&mut self, observer: &mut dyn Observer) -> Result<(), SinkError>;
}

//! Sources that tell one file after the other, in an order of their own.

use crate::{
    entry::{Kind, Metadata},
    error::{Problem, SourceError},
    tree::Reading,
};

/// Longest path that a stream gives.
pub const MAX_PATH_BYTES: usize = 4096;

/// One file of a stream.
#[derive(Debug, Clone)]
pub struct StreamEntry {
    /// Below the root: components joined by single slashes, none of them empty, `.` or `..`; empty for the root itself.
    /// Components longer than a name may be are the consumer's to refuse.
    pub path: Box<[u8]>,
    /// Owner, mode, times, attributes.
    pub metadata: Metadata,
    /// Its type.
    pub kind: Kind,
}

/// An item of a stream.
#[derive(Debug, Clone)]
pub enum StreamItem {
    /// A file. A later one of the same path replaces an earlier one, as when an archive is unpacked; a directory keeps
    /// its entries.
    Entry(StreamEntry),
    /// The file or tree of this path, from an earlier layer, is gone.
    Whiteout(Box<[u8]>),
    /// The entries that earlier layers put into this directory are gone.
    Opaque(Box<[u8]>),
}

/// A stream of files. Parents need not come before their entries, and some may not come at all.
pub trait StreamSource: Send {
    /// The next item, or `None` at the end. Content of the last one that was not read is passed over.
    ///
    /// # Errors
    /// Damage and I/O. After an error there is nothing more.
    fn next_item(&mut self) -> Result<Option<StreamItem>, SourceError>;

    /// Reads on in the data of the last entry, if its content is [`Content::Stream`](crate::content::Content::Stream):
    /// the bytes of its ranges one after the other, without the holes. 0 at the end.
    ///
    /// # Errors
    /// Damage and I/O.
    fn read_data(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError>;

    /// Begins again, where the stream can: not where it is a pipe. For [`Reading::Metadata`] no content can be read from the
    /// stream.
    ///
    /// # Errors
    /// [`SourceError::CannotRestart`], or the beginning can no longer be read.
    fn restart(&mut self, reading: Reading) -> Result<(), SourceError>;

    /// Finds faults of a source that is in memory, and begins anew: for a caller that must know of them before it changes
    /// anything.
    ///
    /// # Errors
    /// The first fault: of the text, or of a file that it names.
    fn check(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Takes the problems since the last call, without which the source went on.
    fn take_problems(&mut self) -> Vec<Problem>;
}

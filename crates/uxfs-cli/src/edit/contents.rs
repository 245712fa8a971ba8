//! Bytes of files into the image.
//!
//! New contents are written to a file without a name first; then both files exchange their contents, in one
//! transaction. So when space runs out, or the source cannot be read to its end, the old contents are still there, and a
//! crash finds the old ones or the new ones. That holds for empty files, too. Where the file system has no exchange intents and
//! both files together have more extents than one transaction changes, replacing is refused: `mv` of a new file over the old
//! one is a single transaction.

use std::io::{self, Read};

use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange, handles::Seek, share::CloneRange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, set_attributes::AttributeChanges},
};
use uxfs_source::content::{Content, OpenFile};
use uxfs_volume::error::{Error, OperationError};

use crate::{edit::session::explained, failure::Failure, kind::Kind, progress};

/// Bytes that are read and written at once.
const PIECE_BYTES: usize = 1 << 20;

/// File capabilities: new contents must not inherit them.
const CAPABILITY: &[u8] = b"security.capability";

/// The source of contents.
#[derive(Debug)]
pub enum Source<'a> {
    /// A file of the host, or of a tree of the host.
    Host(OpenFile),
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// A stream that is read to its end.
    Stream(io::StdinLock<'static>),
    /// A file of the image.
    Image(InodeHandle),
    /// A file of the image, whose blocks are to be shared.
    Clone(InodeHandle),
}

impl<'a> Source<'a> {
    /// Opens the contents of an entry of a source.
    ///
    /// # Errors
    /// It cannot be opened, or is of a kind that directories do not deliver.
    pub fn of(content: &'a Content) -> Result<Self, Failure> {
        match content {
            Content::Hole => Ok(Self::Bytes(&[])),
            Content::Inline(bytes) => Ok(Self::Bytes(bytes)),
            Content::File(file) => file.open().map(Self::Host).map_err(|error| Failure::caused_by(&error)),
            Content::Stream(_) | Content::Later { .. } => {
                Err(Failure::failed("the source's contents come as a stream"))
            }
        }
    }
}

/// Fills an empty file. Holes stay holes. The times of the file are the current time.
///
/// # Errors
/// No space; the source cannot be read; damage; the device.
pub fn fill(
    filesystem: &FileSystem,
    file: &InodeHandle,
    source: &mut Source<'_>,
    size_bytes: u64,
) -> Result<(), Failure> {
    let mut writer = Writer { filesystem, file, buffer: Vec::new() };
    match source {
        Source::Clone(from) => return clone(filesystem, from, file),
        Source::Stream(stream) => return writer.stream(stream),
        Source::Bytes(bytes) => {
            for (index, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
                writer.write((index * PIECE_BYTES) as u64, piece)?;
            }
        }
        Source::Host(open) => {
            let mut from = 0;
            while let Some(range) = open.next_data(from).map_err(of_source)? {
                from = range.offset_bytes + range.length_bytes;
                writer.copy(range.offset_bytes, from, |buffer, offset| {
                    match open.read_at(buffer, offset).map_err(of_source)? {
                        0 => Ok(()),
                        _ => Err(Failure::refused(
                            Kind::Changed,
                            "the source became shorter while it was read",
                        )),
                    }
                })?;
            }
        }
        Source::Image(other) => {
            let mut from = 0;
            while let Some((begin, end)) = next_data(filesystem, other, from)? {
                from = end;
                writer.copy(begin, end, |buffer, offset| {
                    let read = filesystem.read(other, offset, buffer)?;
                    if read == buffer.len() {
                        Ok(())
                    } else {
                        Err(Failure::failed("the file cannot be read completely"))
                    }
                })?;
            }
        }
    }
    if filesystem.stat(file)?.size_bytes != size_bytes {
        filesystem.set_size(file, size_bytes, now(filesystem)).map_err(explained)?;
    }
    Ok(filesystem.free_preallocation(file)?)
}

/// Replaces the contents of a file; its inode, names, owner and permissions stay.
///
/// # Errors
/// As [`fill`]; both contents together are in very many extents, and the file system has no exchange intents. The old contents
/// are then still there.
pub fn replace(
    filesystem: &FileSystem,
    near: &InodeHandle,
    file: &InodeHandle,
    source: &mut Source<'_>,
    size_bytes: u64,
) -> Result<(), Failure> {
    let new = NewFile::new(NewKind::Regular, 0o600);
    let fresh = filesystem.create_temporary(near, &new, false).map_err(explained)?;
    fill(filesystem, &fresh, source, size_bytes)?;
    // Damaged attributes are met before the contents change.
    let has_capability = match filesystem.get_xattr(file, CAPABILITY) {
        Ok(_) => true,
        Err(Error::Operation(OperationError::NoSuchAttribute | OperationError::UnknownNamespace)) => false,
        Err(error) => return Err(error.into()),
    };
    swap(filesystem, &fresh, file)?;
    if filesystem.stat(file)?.size_bytes == 0 {
        // Exchanging two empty files changes nothing, but O_TRUNC sets the times.
        let modification_time = now(filesystem).time;
        let changes = AttributeChanges { modification_time, ..AttributeChanges::default() };
        filesystem.set_attributes(file, &changes).map_err(explained)?;
    }
    if has_capability {
        filesystem.remove_xattr(file, CAPABILITY)?;
    }
    Ok(())
}

/// Gives `file` the contents of `fresh`, which is not used afterwards.
fn swap(filesystem: &FileSystem, fresh: &InodeHandle, file: &InodeHandle) -> Result<(), Failure> {
    let all = ExchangeRange { to_end: true, without_intents: true, ..ExchangeRange::default() };
    match filesystem.exchange_files(fresh, file, &all, now(filesystem)) {
        Err(Error::Operation(OperationError::CannotExchange)) => Err(Failure::failed(
            "the old and the new contents have too many extents to change places in one transaction, and the file system has \
             no exchange intents; the old contents are still there",
        )
        .with_remedy("put the new contents into another file, and move that over this one")),
        done => done.map_err(explained),
    }
}

/// Whether files can share blocks.
pub fn shares(filesystem: &FileSystem) -> bool {
    filesystem.geometry().features.has_reflink()
}

fn clone(filesystem: &FileSystem, from: &InodeHandle, to: &InodeHandle) -> Result<(), Failure> {
    let size_bytes = filesystem.stat(from)?.size_bytes;
    if size_bytes == 0 {
        return Ok(());
    }
    let all = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
    let shared_bytes = filesystem.clone_range(from, to, &all, now(filesystem)).map_err(explained)?;
    if shared_bytes < size_bytes {
        return Err(explained(OperationError::NoSpace.into()));
    }
    Ok(())
}

/// The next data of a file.
fn next_data(filesystem: &FileSystem, file: &InodeHandle, from: u64) -> Result<Option<(u64, u64)>, Failure> {
    match filesystem.seek(file, from, Seek::Data) {
        Ok(begin) => Ok(Some((begin, filesystem.seek(file, begin, Seek::Hole)?))),
        Err(Error::Operation(OperationError::NoSuchOffset)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Inode changes that come with new contents.
pub fn now(filesystem: &FileSystem) -> Touch {
    Touch::at(filesystem.now())
}

fn of_source(error: uxfs_source::error::SourceError) -> Failure {
    Failure::caused_by(&error)
}

struct Writer<'w> {
    filesystem: &'w FileSystem,
    file: &'w InodeHandle,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), Failure> {
        let touch = now(self.filesystem);
        let written = self.filesystem.write(self.file, offset_bytes, bytes, touch).map_err(explained)?;
        progress::count_bytes(written as u64);
        if written < bytes.len() {
            let end = offset_bytes.saturating_add(written as u64);
            let is_large = end >= self.filesystem.largest_file_bytes();
            let error = if is_large { OperationError::FileTooLarge } else { OperationError::NoSpace };
            return Err(explained(error.into()));
        }
        Ok(())
    }

    fn copy(
        &mut self,
        begin: u64,
        end: u64,
        mut read: impl FnMut(&mut [u8], u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(PIECE_BYTES, 0);
        let mut offset = begin;
        while offset < end {
            let length = usize::try_from(end - offset).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let piece = &mut buffer[..length];
            read(piece, offset)?;
            self.write(offset, piece)?;
            offset += length as u64;
        }
        self.buffer = buffer;
        Ok(())
    }

    fn stream(&mut self, stream: &mut impl Read) -> Result<(), Failure> {
        let mut buffer = vec![0; PIECE_BYTES];
        let mut offset = 0;
        loop {
            let mut length = 0;
            while length < buffer.len() {
                match stream.read(&mut buffer[length..]) {
                    Ok(0) => break,
                    Ok(read) => length += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Failure::caused_by(&error).about("cannot read the source")),
                }
            }
            self.write(offset, &buffer[..length])?;
            offset += length as u64;
            if length < buffer.len() {
                return Ok(self.filesystem.free_preallocation(self.file)?);
            }
        }
    }
}

//! Where the bytes of a regular file are.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{CWD, Mode, OFlags, SeekFrom, fstat, openat},
    io::Errno,
};

use crate::{
    directory::{FileInTree, Slot},
    error::{Problem, Reason, Shown, SourceError},
};

/// Part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// In the file.
    pub offset_bytes: u64,
    /// Never 0.
    pub length_bytes: u64,
}

/// Part of a file that has data, and where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataRange {
    /// In the file.
    pub offset_bytes: u64,
    /// Never 0.
    pub length_bytes: u64,
    /// In what [`OpenFile::descriptor`] gives. The same as in the file, unless it lies in an archive.
    pub source_bytes: u64,
}

impl DataRange {
    fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }
}

/// Content of a regular file.
#[derive(Debug, Clone)]
pub enum Content {
    /// No data: the file is empty, or one hole.
    Hole,
    /// All of it; no holes are known.
    Inline(Box<[u8]>),
    /// To be opened and read, by any thread.
    File(Arc<FileContent>),
    /// The next data of the stream, see [`StreamSource::read_data`](crate::stream::StreamSource::read_data). Between
    /// the ranges, which are in order, are holes.
    Stream(Box<[ByteRange]>),
    /// Data in these ranges that a tree gives after all files, see
    /// [`TreeSource::next_content`](crate::tree::TreeSource::next_content): those of packed archives come in an order of
    /// their own.
    Later {
        /// Says of which file it is.
        token: u32,
        /// In order; between them are holes.
        ranges: Box<[ByteRange]>,
    },
}

/// A regular file to be read from the host.
#[derive(Debug)]
pub struct FileContent {
    pub(crate) place: ContentLocation,
    /// Size when it was listed; what is read is this long, whatever happens to the file.
    pub(crate) size_bytes: u64,
    /// Whether it has fewer blocks than bytes.
    pub(crate) may_have_holes: bool,
}

#[derive(Debug)]
pub(crate) enum ContentLocation {
    /// Below the root of a directory source.
    Tree(FileInTree),
    /// A file that a manifest names.
    Host(PathBuf),
    /// Part of an archive that is not packed.
    Region { archive: Arc<File>, name: Shown, ranges: Box<[DataRange]> },
}

impl Content {
    /// The content of a file of the host, which is named by its path, through symbolic links too; with its size.
    ///
    /// # Errors
    /// It cannot be opened, or is no regular file.
    pub fn of_host_file(path: &Path) -> Result<(u64, Self), SourceError> {
        let failed = |error: io::Error| SourceError::host(path, "open", error);
        // Looked at first: opening a pipe would wait for a program that writes.
        let found = std::fs::metadata(path).map_err(failed)?;
        if !found.is_file() {
            return Err(failed(io::Error::other("not a regular file")));
        }
        File::open(path).map_err(failed)?;
        let size_bytes = found.len();
        let may_have_holes = found.blocks().saturating_mul(512) < size_bytes;
        let content =
            FileContent { place: ContentLocation::Host(path.to_path_buf()), size_bytes, may_have_holes };
        Ok((size_bytes, if size_bytes == 0 { Self::Hole } else { Self::File(Arc::new(content)) }))
    }

    /// Parts of an archive that is not packed, in order of their place in the file; between them are holes.
    pub fn of_archive(archive: &Arc<File>, name: Shown, size_bytes: u64, ranges: Box<[DataRange]>) -> Self {
        if ranges.is_empty() {
            return Self::Hole;
        }
        let data_bytes: u64 = ranges.iter().map(|range| range.length_bytes).sum();
        let may_have_holes = data_bytes < size_bytes;
        let place = ContentLocation::Region { archive: Arc::clone(archive), name, ranges };
        Self::File(Arc::new(FileContent { place, size_bytes, may_have_holes }))
    }
}

impl FileContent {
    /// How many bytes it is to have.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether the file has fewer blocks than bytes: only then is there a reason to open it for the sake of its holes.
    pub fn may_have_holes(&self) -> bool {
        self.may_have_holes
    }

    /// Opens the file, if it is still the same.
    ///
    /// # Errors
    /// It is gone, replaced, or cannot be read.
    pub fn open(self: &Arc<Self>) -> Result<OpenFile, SourceError> {
        let descriptor = match &self.place {
            ContentLocation::Tree(file) => file.open()?,
            ContentLocation::Host(path) => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
                let opened = openat(CWD, path, flags, Mode::empty());
                let fd = opened.map_err(|error| SourceError::host(path, "open", error))?;
                Arc::new(Descriptor::Own { fd, _slot: None })
            }
            ContentLocation::Region { archive, .. } => Arc::new(Descriptor::Archive(Arc::clone(archive))),
        };
        Ok(OpenFile { content: Arc::clone(self), descriptor })
    }

    /// A problem with this file, under its path, or the name of the archive that holds it.
    pub fn problem(&self, reason: Reason) -> Problem {
        Problem { path: self.path(), reason }
    }

    fn path(&self) -> Shown {
        match &self.place {
            ContentLocation::Tree(file) => file.path(),
            ContentLocation::Host(path) => path.as_os_str().as_encoded_bytes().into(),
            ContentLocation::Region { name, .. } => name.clone(),
        }
    }

    fn error(&self, action: &'static str, source: impl Into<io::Error>) -> SourceError {
        SourceError::Io { path: self.path(), action, source: source.into() }
    }
}

/// An open file, counted while one of the few that a source keeps open.
#[derive(Debug)]
pub(crate) enum Descriptor {
    Own { fd: OwnedFd, _slot: Option<Slot> },
    Archive(Arc<File>),
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own { fd, .. } => fd.as_fd(),
            Self::Archive(file) => file.as_fd(),
        }
    }
}

/// A file that is being read. It may change under the reader's hands; see [`OpenFile::read_at`].
#[derive(Debug, Clone)]
pub struct OpenFile {
    content: Arc<FileContent>,
    descriptor: Arc<Descriptor>,
}

impl OpenFile {
    /// How many bytes it is to have.
    pub fn size_bytes(&self) -> u64 {
        self.content.size_bytes
    }

    /// The descriptor for `copy_file_range` or a reflink call, with [`DataRange::source_bytes`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The first data at or after `from`, cut there; `None` where only a hole follows. The file is asked only where its
    /// blocks are fewer than its bytes.
    ///
    /// # Errors
    /// The file cannot be asked.
    pub fn next_data(&self, from: u64) -> Result<Option<DataRange>, SourceError> {
        let size = self.content.size_bytes;
        if from >= size {
            return Ok(None);
        }
        if let ContentLocation::Region { ranges, .. } = &self.content.place {
            let next = ranges.partition_point(|range| range.end_bytes() <= from);
            return Ok(ranges.get(next).map(|range| {
                let cut = from.saturating_sub(range.offset_bytes);
                DataRange {
                    offset_bytes: range.offset_bytes + cut,
                    length_bytes: range.length_bytes - cut,
                    source_bytes: range.source_bytes + cut,
                }
            }));
        }
        if !self.content.may_have_holes {
            return Ok(Some(same_place(from, size)));
        }
        let found = next_data(self.descriptor(), from, size);
        found.map_err(|error| self.content.error("find the holes of", error))
    }

    /// All ranges with data, in order.
    ///
    /// # Errors
    /// The file cannot be asked.
    pub fn data_ranges(&self) -> Result<Vec<DataRange>, SourceError> {
        let mut ranges = Vec::new();
        let mut from = 0;
        while let Some(range) = self.next_data(from)? {
            from = range.end_bytes();
            ranges.push(range);
        }
        Ok(ranges)
    }

    /// Fills `buffer` from `offset` on and tells how many bytes of it the file no longer had: those are zeros, as in the
    /// archives of tar. A caller that gets another number than 0 reports it to its user. Holes are zeros too.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, SourceError> {
        let read = match &self.content.place {
            ContentLocation::Region { ranges, .. } => read_region(self.descriptor(), ranges, buffer, offset),
            ContentLocation::Tree(_) | ContentLocation::Host(_) => {
                read_full(self.descriptor(), buffer, offset)
            }
        };
        let read = read.map_err(|error| self.content.error("read", error))?;
        let missing = buffer.get_mut(read..).unwrap_or_default();
        missing.fill(0);
        Ok(missing.len())
    }

    /// Whether the size or the modification time are no longer what they were when the file was listed.
    ///
    /// # Errors
    /// The file cannot be asked.
    pub fn has_changed(&self) -> Result<bool, SourceError> {
        match (&self.content.place, &*self.descriptor) {
            (ContentLocation::Tree(file), Descriptor::Own { fd, .. }) => {
                let found = fstat(fd).map_err(|error| self.content.error("examine", error))?;
                Ok(u64::try_from(found.st_size) != Ok(self.content.size_bytes)
                    || (found.st_mtime, found.st_mtime_nsec as u32) != file.modification())
            }
            _ => Ok(false),
        }
    }
}

fn same_place(from: u64, end: u64) -> DataRange {
    DataRange { offset_bytes: from, length_bytes: end - from, source_bytes: from }
}

/// As [`OpenFile::next_data`], of a file that is asked.
pub(crate) fn next_data(fd: BorrowedFd<'_>, from: u64, size: u64) -> Result<Option<DataRange>, Errno> {
    if from >= size {
        return Ok(None);
    }
    let start = match rustix::fs::seek(fd, SeekFrom::Data(from)) {
        Ok(start) => start.max(from),
        // Nothing but a hole up to the end.
        Err(Errno::NXIO) => return Ok(None),
        // File systems that know of no holes.
        Err(Errno::INVAL) => return Ok(Some(same_place(from, size))),
        Err(error) => return Err(error),
    };
    if start >= size {
        return Ok(None);
    }
    let end = match rustix::fs::seek(fd, SeekFrom::Hole(start)) {
        Ok(end) => end,
        // Cut short in between.
        Err(Errno::NXIO) => size,
        Err(error) => return Err(error),
    };
    // A file system that says that the hole begins at once has changed its mind: the rest is taken for data.
    let end = if end <= start { size } else { end.min(size) };
    Ok(Some(same_place(start, end)))
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_full(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(fd, rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads over holes; gives how much of the buffer is true.
fn read_region(
    fd: BorrowedFd<'_>,
    ranges: &[DataRange],
    buffer: &mut [u8],
    offset: u64,
) -> Result<usize, Errno> {
    let end = offset.saturating_add(buffer.len() as u64);
    let first = ranges.partition_point(|range| range.end_bytes() <= offset);
    let mut filled = 0;
    for range in ranges.get(first..).unwrap_or_default() {
        if range.offset_bytes >= end {
            break;
        }
        let from = range.offset_bytes.max(offset);
        let to = range.end_bytes().min(end);
        let (at, upto) = ((from - offset) as usize, (to - offset) as usize);
        if let Some(hole) = buffer.get_mut(filled..at) {
            hole.fill(0);
        }
        let Some(part) = buffer.get_mut(at..upto) else { break };
        let read = read_full(fd, part, range.source_bytes + (from - range.offset_bytes))?;
        if read < part.len() {
            return Ok(at + read);
        }
        filled = upto;
    }
    if let Some(hole) = buffer.get_mut(filled..) {
        hole.fill(0);
    }
    Ok(buffer.len())
}

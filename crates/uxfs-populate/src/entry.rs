//! One entry of a source into one inode of the image.

use std::sync::Arc;

use uxfs_block::spill::{SpillError, map::SpillMap};
use uxfs_engine::{
    attribute::SetMode,
    bulk::create::{FileAttributes, NewKind},
    directory::NameCheck,
    extent_map::map::{Mapped, Mapping},
    inode::edit::EditInode,
    transaction::Transaction,
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::{
    geometry::Geometry,
    units::{FileBlock, FsBlock, InodeNumber},
};
use uxfs_source::{
    content::{ByteRange, Content, FileContent},
    entry::{Kind, Metadata, Times},
    error::SourceError,
    stream::StreamSource,
    tree::LaterContent,
};
use uxfs_volume::{
    error::{Error, OperationError},
    extent_map::Extent,
    inode::{DeviceNumber, FileType, Fork, Timestamp},
};

use crate::{
    Options,
    data::{DataPool, Job, JobContent, Run},
    error::{Impossible, PopulateError},
    report::Progress,
    tree::joined,
};

/// Largest part of a file that one thread copies in one go.
const JOB_BYTES: u64 = 16 << 20;
/// Bytes of a stream that are handed on together.
const STREAM_BYTES: u64 = 1 << 20;
/// Longest target of a symbolic link.
#[doc(alias = "XFS_SYMLINK_MAXLEN")]
const MAX_TARGET_BYTES: usize = 1024;
const MAX_FILE_SIZE_BYTES: u64 = i64::MAX as u64;

/// Why one entry could not be made; the path comes later.
#[derive(Debug)]
pub enum Failure {
    /// The image.
    Image(Error),
    /// The source.
    Source(SourceError),
    /// XFS cannot hold it.
    Impossible(Impossible),
    /// The copying threads have stopped.
    Copying(PopulateError),
}

impl Failure {
    /// With the place where it happened.
    pub fn at(self, path: &[u8], name: &[u8]) -> PopulateError {
        let path = || joined(path, name);
        match self {
            Self::Image(error) => PopulateError::At { path: path(), error },
            Self::Source(error) => PopulateError::Source(error),
            Self::Impossible(problem) => PopulateError::Impossible { path: path(), problem },
            Self::Copying(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Image(error)
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl From<SpillError> for Failure {
    fn from(error: SpillError) -> Self {
        Self::Source(error.into())
    }
}

impl From<Impossible> for Failure {
    fn from(problem: Impossible) -> Self {
        Self::Impossible(problem)
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// A file that has been made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// Its inode.
    pub inode: InodeNumber,
    /// File type.
    pub file_type: FileType,
}

/// Makes files.
#[derive(Debug)]
pub struct Builder<'fs> {
    geometry: &'fs Geometry,
    options: Options,
    /// When the image is made.
    now: Timestamp,
    /// None where contents are only given room.
    pool: Option<DataPool>,
    /// Behind the contents of the last file: where the next one's should begin, so that files lie as they come.
    next_block: Option<FsBlock>,
    /// Inodes of files whose content comes later, by its token.
    later: SpillMap,
}

impl<'fs> Builder<'fs> {
    /// Starts the threads that write contents, unless contents are only to be given room.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(
        file_system: &'fs FileSystem,
        options: &Options,
        progress: &Progress,
    ) -> std::result::Result<Self, PopulateError> {
        let start = || {
            let (device, data) = (file_system.device().clone(), progress.data.clone());
            DataPool::start(device, options.threads, data)
        };
        Ok(Self {
            geometry: file_system.geometry(),
            options: *options,
            now: file_system.now(),
            pool: options.writes_contents.then(start).transpose()?,
            next_block: None,
            later: SpillMap::new(options.map_bytes()),
        })
    }

    /// Waits until all contents are written.
    ///
    /// # Errors
    /// The error of a copying thread, or contents that the source announced and did not deliver.
    pub fn finish(self) -> std::result::Result<(), PopulateError> {
        if self.awaits_content() {
            return Err(PopulateError::MissingContents(self.later.len()));
        }
        self.pool.map_or(Ok(()), DataPool::finish)
    }

    /// A new file with everything that the source says of it, but for its name in the directory: the caller adds that.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn create(
        &mut self,
        transaction: &mut Transaction<'fs>,
        parent: &mut EditInode,
        name: &[u8],
        metadata: &Metadata,
        kind: Kind,
        stream: Option<&mut dyn StreamSource>,
    ) -> Result<Made> {
        if name.is_empty() || name.len() > 255 || name.contains(&b'/') || name.contains(&0) {
            return Err(Impossible::Name.into());
        }
        let new = new_kind(&kind)?;
        let file_type = new.file_type();
        let mut inode =
            transaction.files().create_child(parent, name, &new, &self.attributes_of(metadata))?;
        self.set_attributes(transaction, &mut inode, metadata)?;
        if let Kind::Regular { size_bytes, content } = kind {
            self.contents(transaction, &mut inode, size_bytes, content, stream)?;
        }
        transaction.store_inode(&mut inode)?;
        Ok(Made { inode: inode.number, file_type })
    }

    /// A further name of a file.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn link(
        &mut self,
        transaction: &mut Transaction<'fs>,
        parent: &mut EditInode,
        name: &[u8],
        number: InodeNumber,
        check: NameCheck,
    ) -> Result<()> {
        let mut inode = transaction.load_inode(number)?;
        transaction.files().link(parent, name, &mut inode, check)?;
        Ok(transaction.store_inode(&mut inode)?)
    }

    /// Owner, permissions, times and attributes of an inode that is there.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn set_metadata(
        &mut self,
        transaction: &mut Transaction<'fs>,
        inode: &mut EditInode,
        metadata: &Metadata,
    ) -> Result<()> {
        self.attributes_of(metadata).apply(inode);
        self.set_attributes(transaction, inode, metadata)
    }

    /// Only what the source's owner can set decides about the image, unless more is asked for: when its inodes were
    /// made, changed and read says more about the host than about the tree.
    fn attributes_of(&self, metadata: &Metadata) -> FileAttributes {
        let Times { access, modification, .. } = metadata.times;
        let time = |time: uxfs_source::entry::Timestamp| Timestamp {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
        };
        FileAttributes {
            permissions: metadata.mode,
            uid: metadata.user,
            gid: metadata.group,
            project_id: 0,
            access_time: if self.options.keeps_access_times { time(access) } else { self.now },
            modification_time: time(modification),
            change_time: self.now,
            creation_time: self.now,
        }
    }

    fn set_attributes(
        &mut self,
        transaction: &mut Transaction<'fs>,
        inode: &mut EditInode,
        metadata: &Metadata,
    ) -> Result<()> {
        for attribute in &metadata.attributes {
            let set =
                transaction.attributes().set_xattr(inode, &attribute.name, &attribute.value, SetMode::Upsert);
            set.map_err(|error| attribute_failure(error, &attribute.name))?;
        }
        Ok(())
    }

    /// Gives the content room, and hands it to the threads that write.
    fn contents(
        &mut self,
        transaction: &mut Transaction<'fs>,
        inode: &mut EditInode,
        size_bytes: u64,
        content: Content,
        stream: Option<&mut dyn StreamSource>,
    ) -> Result<()> {
        if size_bytes > MAX_FILE_SIZE_BYTES {
            return Err(Impossible::Size(size_bytes).into());
        }
        inode.set_size_bytes(size_bytes);
        match content {
            Content::Hole => Ok(()),
            Content::Inline(bytes) => {
                let mapped = self.map(transaction, inode, 0, bytes.len() as u64)?;
                self.write_memory(&mapped, bytes, 0, size_bytes)
            }
            Content::File(file) => self.file(transaction, inode, size_bytes, &file),
            Content::Stream(ranges) => match stream {
                Some(stream) => self.stream(transaction, inode, size_bytes, &ranges, stream),
                None => Ok(()),
            },
            Content::Later { token, ranges } => {
                for (begin, end) in whole_blocks(&ranges, self.geometry.block_size_bytes) {
                    self.map(transaction, inode, begin, end - begin)?;
                }
                if self.pool.is_some() {
                    self.later.insert((token.into(), 0), (inode.number.get(), 0))?;
                }
                Ok(())
            }
        }
    }

    fn file(
        &mut self,
        transaction: &mut Transaction<'fs>,
        inode: &mut EditInode,
        size_bytes: u64,
        content: &Arc<FileContent>,
    ) -> Result<()> {
        if !content.may_have_holes() {
            let mapped = self.map(transaction, inode, 0, size_bytes)?;
            return self.copy(&mapped, content, size_bytes);
        }
        let open = content.open()?;
        let block = u64::from(self.geometry.block_size_bytes);
        let mut done = 0;
        while let Some(range) = open.next_data(done)? {
            // Whole blocks: what is a hole in the source's smaller grain reads as zeros there.
            let (begin, mut end) = whole(range.offset_bytes, range.length_bytes, block);
            let begin = begin.max(done);
            // What follows in the same or the next block lies together, in whatever pieces a source tells it.
            while let Some(next) = open.next_data(end)? {
                let (from, to) = whole(next.offset_bytes, next.length_bytes, block);
                if from > end {
                    break;
                }
                end = to;
            }
            let mapped = self.map(transaction, inode, begin, end.saturating_sub(begin))?;
            self.copy(&mapped, content, size_bytes)?;
            done = end;
        }
        Ok(())
    }

    /// Whether content is still to come that was given room only.
    pub fn awaits_content(&self) -> bool {
        !self.later.is_empty()
    }

    /// Writes the contents of a file that come after all files. `read` gives the bytes of its ranges one after the other,
    /// unless they are in memory.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn content(
        &mut self,
        transaction: &mut Transaction<'fs>,
        content: LaterContent,
        read: &mut dyn FnMut(&mut [u8]) -> std::result::Result<usize, SourceError>,
    ) -> Result<()> {
        // An unknown token: the source delivers contents that it did not announce.
        let Some((number, _)) = self.later.remove((content.token.into(), 0))? else {
            return Err(Failure::Image(OperationError::NotFound.into()));
        };
        let inode = transaction.load_inode(InodeNumber::new(number))?;
        let mapped = inode.extents(Fork::Data).to_vec();
        let size_bytes = inode.size_bytes();
        match content.content {
            Content::Inline(bytes) => self.write_memory(&mapped, bytes, 0, size_bytes),
            Content::Stream(ranges) => {
                self.pass_on(&mapped, &mut ranges.iter().copied().peekable(), size_bytes, read)
            }
            _ => Ok(()),
        }
    }

    /// Maps blocks for `length_bytes` bytes from `begin_bytes`, a multiple of the block size.
    fn map(
        &mut self,
        transaction: &mut Transaction<'fs>,
        inode: &mut EditInode,
        begin_bytes: u64,
        length_bytes: u64,
    ) -> Result<Mapped> {
        let block = u64::from(self.geometry.block_size_bytes);
        let (first, blocks) = (FileBlock::new(begin_bytes / block), length_bytes.div_ceil(block));
        let hint = self.next_block.filter(|_| begin_bytes == 0);
        let mapping = Mapping { hint, is_unwritten: false };
        let mapped = transaction.extent_maps().map_blocks(inode, Fork::Data, first, blocks, mapping)?;
        self.next_block = mapped.last().and_then(|extent| extent.start.checked_add(extent.length_blocks));
        Ok(mapped)
    }

    fn run_of(&self, extent: &Extent) -> Result<Run> {
        let sector = self.geometry.sector_of_block(extent.start);
        let sector = sector.ok_or(Failure::Image(OperationError::NoSpace.into()))?;
        Ok(Run {
            file_bytes: extent.file_block.get() << self.geometry.block_log,
            device_bytes: Geometry::byte_of_sector(sector),
            length_bytes: extent.length_blocks << self.geometry.block_log,
        })
    }

    fn write_memory(
        &mut self,
        mapped: &[Extent],
        bytes: Box<[u8]>,
        start: u64,
        size_bytes: u64,
    ) -> Result<()> {
        let Some(pool) = &self.pool else { return Ok(()) };
        let Some((first, rest)) = mapped.split_first() else { return Ok(()) };
        let first = self.run_of(first)?;
        let more = rest.iter().map(|extent| self.run_of(extent)).collect::<Result<_>>()?;
        let content = JobContent::Memory { bytes, start };
        pool.push(Job { first, more, size_bytes, content }).map_err(Failure::Copying)
    }

    fn copy(&mut self, mapped: &[Extent], file: &Arc<FileContent>, size_bytes: u64) -> Result<()> {
        let Some(pool) = &self.pool else { return Ok(()) };
        for extent in mapped {
            let run = self.run_of(extent)?;
            for first in parts(run, JOB_BYTES) {
                let content = JobContent::File(Arc::clone(file));
                pool.push(Job { first, more: Vec::new(), size_bytes, content }).map_err(Failure::Copying)?;
            }
        }
        Ok(())
    }

    /// Maps and reads what a stream has of a file, in its own order, which is that of the file.
    fn stream(
        &mut self,
        transaction: &mut Transaction<'fs>,
        inode: &mut EditInode,
        size_bytes: u64,
        ranges: &[ByteRange],
        stream: &mut dyn StreamSource,
    ) -> Result<()> {
        let mut data = ranges.iter().copied().peekable();
        for (begin, end) in whole_blocks(ranges, self.geometry.block_size_bytes) {
            let mapped = self.map(transaction, inode, begin, end - begin)?;
            self.pass_on(&mapped, &mut data, size_bytes, &mut |buffer| stream.read_data(buffer))?;
        }
        Ok(())
    }

    /// Reads what belongs into these extents, in order, and hands it on.
    fn pass_on(
        &self,
        mapped: &[Extent],
        data: &mut std::iter::Peekable<impl Iterator<Item = ByteRange>>,
        size_bytes: u64,
        read: &mut dyn FnMut(&mut [u8]) -> std::result::Result<usize, SourceError>,
    ) -> Result<()> {
        for extent in mapped {
            for run in parts(self.run_of(extent)?, STREAM_BYTES) {
                let bytes = read_part(read, data, run)?;
                let Some(pool) = &self.pool else { continue };
                let content = JobContent::Memory { bytes, start: run.file_bytes };
                let job = Job { first: run, more: Vec::new(), size_bytes, content };
                pool.push(job).map_err(Failure::Copying)?;
            }
        }
        Ok(())
    }
}

/// A run in parts of at most `most_bytes`, a multiple of any block size.
fn parts(run: Run, most_bytes: u64) -> impl Iterator<Item = Run> {
    (0..run.length_bytes).step_by(most_bytes as usize).map(move |done| Run {
        file_bytes: run.file_bytes + done,
        device_bytes: run.device_bytes + done,
        length_bytes: (run.length_bytes - done).min(most_bytes),
    })
}

/// The blocks that a range touches: begin and end in bytes.
fn whole(offset_bytes: u64, length_bytes: u64, block: u64) -> (u64, u64) {
    let end = offset_bytes.saturating_add(length_bytes).div_ceil(block).saturating_mul(block);
    (offset_bytes / block * block, end)
}

/// The blocks that ranges touch, joined where they touch the same or the next one: begin and end in bytes.
fn whole_blocks(ranges: &[ByteRange], block_size_bytes: u32) -> Vec<(u64, u64)> {
    let block = u64::from(block_size_bytes);
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for range in ranges {
        let (begin, end) = whole(range.offset_bytes, range.length_bytes, block);
        match spans.last_mut() {
            Some(last) if last.1 >= begin => last.1 = last.1.max(end),
            _ => spans.push((begin, end)),
        }
    }
    spans
}

/// The bytes of a run, read from a stream that gives those of `data` one after the other; zeros between.
fn read_part(
    read: &mut dyn FnMut(&mut [u8]) -> std::result::Result<usize, SourceError>,
    data: &mut std::iter::Peekable<impl Iterator<Item = ByteRange>>,
    run: Run,
) -> Result<Box<[u8]>> {
    let mut bytes = vec![0; run.length_bytes as usize];
    let run_end = run.file_bytes + run.length_bytes;
    while let Some(range) = data.peek_mut() {
        let end = range.offset_bytes.saturating_add(range.length_bytes).min(run_end);
        if range.offset_bytes >= run_end {
            break;
        }
        let (from, to) = ((range.offset_bytes - run.file_bytes) as usize, (end - run.file_bytes) as usize);
        let mut target = bytes.get_mut(from..to).unwrap_or_default();
        while !target.is_empty() {
            match read(target)? {
                // The source reports truncation itself; the missing bytes stay zero.
                0 => break,
                read => target = target.get_mut(read..).unwrap_or_default(),
            }
        }
        range.length_bytes -= end - range.offset_bytes;
        range.offset_bytes = end;
        if range.length_bytes == 0 {
            data.next();
        }
    }
    Ok(bytes.into())
}

fn new_kind(kind: &Kind) -> Result<NewKind<'_>> {
    let device = |number: &uxfs_source::entry::DeviceNumber| {
        let (major, minor) = (number.major, number.minor);
        let device = DeviceNumber { major, minor };
        device.encode().map(|_| device).ok_or(Impossible::Device { major, minor })
    };
    Ok(match kind {
        Kind::Directory(_) => NewKind::Directory,
        Kind::Regular { .. } => NewKind::Regular,
        Kind::Symlink { target } if (1..MAX_TARGET_BYTES).contains(&target.len()) => NewKind::Symlink(target),
        Kind::Symlink { target } => return Err(Impossible::Target(target.len()).into()),
        Kind::CharacterDevice(number) => NewKind::Special(FileType::CharacterDevice, device(number)?),
        Kind::BlockDevice(number) => NewKind::Special(FileType::BlockDevice, device(number)?),
        Kind::Fifo => NewKind::Special(FileType::Fifo, DeviceNumber::default()),
        Kind::Socket => NewKind::Special(FileType::Socket, DeviceNumber::default()),
        Kind::HardLink { target } => return Err(Impossible::Link((&**target).into()).into()),
    })
}

fn attribute_failure(error: Error, name: &[u8]) -> Failure {
    let problem = match &error {
        Error::Operation(OperationError::UnknownNamespace) => "XFS has no such kind of attribute",
        Error::Operation(OperationError::NameTooLong) => "its name is longer than 255 bytes",
        Error::Operation(OperationError::ValueTooLong) => "its value is longer than 65536 bytes",
        _ => return Failure::Image(error),
    };
    Impossible::Attribute { name: name.into(), problem }.into()
}

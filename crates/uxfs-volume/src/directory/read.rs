//! All entries of a directory, in the order and with the cookies of Linux's `readdir`.
//!
//! A cookie is where an entry lies in the directory's data space, in units of 8 bytes. It stays the same as long as the
//! entry does, whatever form the directory takes meanwhile.

use std::{ops::ControlFlow, ops::Range};

use uxfs_format::{
    directory::{
        DataPointer, EntryFormat,
        block::SingleBlock,
        data::{DataRecord, record_at},
        file_type::FileType,
        shortform::{Shortform, ShortformPosition},
    },
    fault::Structure,
    name_tree::{TreeKind, fault::NameTreeFault},
    units::{FileBlock, InodeNumber},
};

use super::{
    DirectoryEntry, Form, cookie_of,
    damaged_block::{DamagedBlock, MOST_LOOKUPS},
    form_of, local_of, shortform_corruption,
};
use crate::{
    error::{Error, Result},
    inode::{Fork, Inode},
    name_tree::ForkBlocks,
    volume::{MetadataBuffer, Volume},
};

/// Name and cookie of the entry for the directory itself.
pub(super) const DOT: (&[u8], u64) = (b".", 8);
/// Name and cookie of the entry for the directory above.
pub(super) const DOT_DOT: (&[u8], u64) = (b"..", 10);
/// Directory blocks that are read ahead together, in bytes.
const READAHEAD_BYTES: u32 = 256 << 10;

impl Volume {
    /// Opens a directory to read its entries from `cookie` on: 0 for all, or a cookie of an entry.
    ///
    /// # Errors
    /// [`NotADirectory`](crate::error::OperationError::NotADirectory); damage; the device.
    pub fn open_directory<'a>(&'a self, directory: &'a Inode, cookie: u64) -> Result<DirectoryReader<'a>> {
        let walk = DirectoryWalk::begin(self, directory, cookie)?;
        Ok(DirectoryReader { volume: self, directory, walk })
    }

    /// Calls `visit` for the entries of a directory from `cookie` on, "." and ".." included, until it breaks.
    ///
    /// # Errors
    /// As [`open_directory`](Self::open_directory).
    pub fn read_directory(
        &self,
        directory: &Inode,
        cookie: u64,
        mut visit: impl FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut reader = self.open_directory(directory, cookie)?;
        while let Some(entry) = reader.next_entry()? {
            if visit(entry).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Reads the entries of a directory one by one. Holds one directory block at a time.
#[derive(Debug)]
pub struct DirectoryReader<'a> {
    volume: &'a Volume,
    directory: &'a Inode,
    walk: DirectoryWalk,
}

/// How far the entries of a directory have been read: for a caller that keeps the directory itself.
#[derive(Debug)]
pub struct DirectoryWalk {
    /// Smallest cookie to give.
    start: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Shortform(ShortformWalk),
    Blocks(BlockWalk),
}

/// How far the entries of a shortform directory have been read.
#[derive(Debug)]
struct ShortformWalk {
    step: ShortformStep,
    position: ShortformPosition,
    /// How many entries are given; `None` for all. Of a damaged directory these are the ones before the fault.
    most_entries: Option<u32>,
}

/// The next entry of a shortform directory, which does not store "." and "..".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShortformStep {
    Dot,
    DotDot,
    Entries,
}

/// An entry whose name is a range of the current bytes.
struct RawEntry {
    name: Name,
    inode: InodeNumber,
    file_type: Option<FileType>,
    cookie: u64,
    next_cookie: u64,
}

enum Name {
    Fixed(&'static [u8]),
    /// Bytes of the inode's fork, or of the current block.
    Stored(Range<usize>),
}

impl DirectoryReader<'_> {
    /// The next entry, or `None` behind the last. After an error reading can go on: behind the damaged block.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn next_entry(&mut self) -> Result<Option<DirectoryEntry<'_>>> {
        self.walk.next_entry(self.volume, self.directory)
    }
}

impl DirectoryWalk {
    /// Begins at `cookie`: 0 for all entries, or a cookie of an entry.
    ///
    /// # Errors
    /// As [`Volume::open_directory`].
    pub fn begin(volume: &Volume, directory: &Inode, cookie: u64) -> Result<Self> {
        let state = match local_of(directory)? {
            Some(bytes) => State::Shortform(ShortformWalk::begin(volume, directory, bytes)?),
            None => State::Blocks(BlockWalk::new(volume, directory, cookie)?),
        };
        Ok(Self { start: cookie, state })
    }

    /// Begins behind the directory block that an error of an earlier walk names. Gives the block there, too: `last` is that of the walk before,
    /// and no walk begins there or before it again. `None` where that would be so, or where the error names no block.
    #[must_use]
    pub fn begin_behind(
        volume: &Volume,
        directory: &Inode,
        error: &Error,
        last: Option<FileBlock>,
    ) -> Option<(Self, FileBlock)> {
        let Error::Corrupt(corruption) = error else { return None };
        let block = corruption.location.file_block?;
        let geometry = volume.geometry();
        let per_block = u64::from(geometry.blocks_per_directory_block());
        let next = FileBlock::new((block.get() / per_block).saturating_add(1).saturating_mul(per_block));
        if next >= geometry.directory_leaf_start() || last.is_some_and(|last| next <= last) {
            return None;
        }
        let cookie = (next.get() << geometry.block_log) >> 3;
        Some((Self::begin(volume, directory, cookie).ok()?, next))
    }

    /// The next entry of the directory that the walk was begun with, or `None` behind the last. After an error reading can go
    /// on: behind the damaged block.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn next_entry<'w>(
        &'w mut self,
        volume: &Volume,
        directory: &'w Inode,
    ) -> Result<Option<DirectoryEntry<'w>>> {
        let found = loop {
            let found = match &mut self.state {
                State::Shortform(walk) => walk.next(volume, directory)?,
                State::Blocks(walk) => match walk.next(volume, directory) {
                    Ok(found) => found,
                    // The walk stands behind the damaged block already.
                    Err(error) => {
                        volume.leave_out(error)?;
                        continue;
                    }
                },
            };
            match found {
                None => return Ok(None),
                Some(found) if found.cookie >= self.start => break found,
                Some(_) => {}
            }
        };
        let name = match found.name {
            Name::Fixed(name) => name,
            Name::Stored(range) => self.bytes(directory).get(range).unwrap_or_default(),
        };
        let RawEntry { inode, file_type, cookie, next_cookie, .. } = found;
        Ok(Some(DirectoryEntry { name, inode, file_type, cookie, next_cookie }))
    }

    fn bytes<'w>(&'w self, directory: &'w Inode) -> &'w [u8] {
        match &self.state {
            State::Shortform(..) => directory.local_fork(Fork::Data).unwrap_or_default(),
            State::Blocks(walk) => {
                walk.current.as_ref().map(|current| current.contents.bytes()).unwrap_or_default()
            }
        }
    }
}

impl ShortformWalk {
    fn begin(volume: &Volume, directory: &Inode, bytes: &[u8]) -> Result<Self> {
        let geometry = volume.geometry();
        let corrupt = |fault| shortform_corruption(directory, fault);
        let shortform = Shortform::parse(bytes, geometry).map_err(corrupt)?;
        let mut most_entries = None;
        if !directory.is_local_fork_verified()
            && let Err(fault) = Shortform::verify(bytes, geometry)
        {
            volume.leave_out(corrupt(fault))?;
            most_entries = Some(shortform.sound_entries(geometry));
        }
        Ok(Self { step: ShortformStep::Dot, position: shortform.entries().position(), most_entries })
    }

    fn next(&mut self, volume: &Volume, inode: &Inode) -> Result<Option<RawEntry>> {
        let Some(bytes) = inode.local_fork(Fork::Data) else { return Ok(None) };
        let geometry = volume.geometry();
        let shortform =
            Shortform::parse(bytes, geometry).map_err(|fault| shortform_corruption(inode, fault))?;
        let fixed = |(name, cookie): (&'static [u8], u64), inode, next_cookie| {
            let file_type = Some(FileType::Directory);
            Ok(Some(RawEntry { name: Name::Fixed(name), inode, file_type, cookie, next_cookie }))
        };
        if self.step == ShortformStep::Dot {
            self.step = ShortformStep::DotDot;
            return fixed(DOT, inode.number, DOT_DOT.1);
        }
        if self.step == ShortformStep::DotDot {
            self.step = ShortformStep::Entries;
            // A damaged directory may name a parent that cannot be.
            if self.most_entries.is_none() || shortform.has_plausible_parent(geometry) {
                return fixed(DOT_DOT, shortform.parent, DOT_DOT.1 + 2);
            }
        }
        if self.most_entries.is_some_and(|most| self.position.index() >= most) {
            return Ok(None);
        }
        let mut entries = shortform.entries_from(self.position);
        let Some(entry) = entries.next() else { return Ok(None) };
        self.position = entries.position();
        let entry = entry.map_err(|fault| shortform_corruption(inode, fault))?;
        // Name length and place in the later block come before the name.
        let begin = entry.offset_bytes as usize + 3;
        let length = u8::try_from(entry.name.len()).unwrap_or(u8::MAX);
        let size_bytes = EntryFormat::of(geometry).entry_size_bytes(length);
        let cookie = cookie_of(entry.pointer());
        Ok(Some(RawEntry {
            name: Name::Stored(begin..begin + entry.name.len()),
            inode: entry.inode,
            file_type: entry.file_type(),
            cookie,
            next_cookie: cookie + u64::from(size_bytes >> 3),
        }))
    }
}

/// Walks the data blocks of a directory.
#[derive(Debug)]
struct BlockWalk {
    /// [`Structure::DirectoryBlock`] or [`Structure::DirectoryData`].
    structure: Structure,
    format: EntryFormat,
    current: Option<Current>,
    /// Where to look for the next data block.
    next: FileBlock,
    prefetched: FileBlock,
    remaining_blocks: u64,
    /// Entries of damaged blocks that may still be looked up in the index.
    remaining_lookups: u32,
}

/// The source of a walk's entries.
#[derive(Debug)]
enum Contents {
    Verified(MetadataBuffer),
    Damaged(DamagedBlock),
}

impl Contents {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Verified(buffer) => buffer,
            Self::Damaged(block) => &block.bytes,
        }
    }
}

#[derive(Debug)]
struct Current {
    contents: Contents,
    block: FileBlock,
    /// Byte of the data space at which it begins.
    base_bytes: u64,
    next_offset_bytes: u32,
    end_bytes: u32,
}

impl BlockWalk {
    fn new(volume: &Volume, directory: &Inode, cookie: u64) -> Result<Self> {
        let blocks = ForkBlocks::new(volume, directory, TreeKind::Directory)?;
        let geometry = blocks.geometry();
        let structure = match form_of(directory, &blocks)? {
            Form::Block => Structure::DirectoryBlock,
            Form::Indexed => Structure::DirectoryData,
        };
        let pointer = DataPointer::new(u32::try_from(cookie).unwrap_or(u32::MAX));
        let (data_block, _) = pointer.split(geometry);
        let next = uxfs_format::directory::data_block_start(geometry, data_block);
        Ok(Self {
            structure,
            format: EntryFormat::of(geometry),
            current: None,
            next,
            prefetched: FileBlock::new(0),
            remaining_blocks: blocks.most_blocks(),
            remaining_lookups: MOST_LOOKUPS,
        })
    }

    fn next(&mut self, volume: &Volume, directory: &Inode) -> Result<Option<RawEntry>> {
        loop {
            if self.current.is_none()
                && !self.load_next_block(
                    &ForkBlocks::new(volume, directory, TreeKind::Directory)?,
                    directory.number,
                )?
            {
                return Ok(None);
            }
            let Some(current) = &mut self.current else { continue };
            if let Contents::Damaged(block) = &mut current.contents {
                current.next_offset_bytes = block.entries.next().unwrap_or(current.end_bytes);
            }
            if current.next_offset_bytes >= current.end_bytes {
                self.current = None;
                continue;
            }
            let (offset, end) = (current.next_offset_bytes, current.end_bytes);
            let (record, next_offset) = match record_at(current.contents.bytes(), offset, end, self.format) {
                Ok(record) => record,
                Err(fault) => {
                    let block = current.block;
                    self.current = None;
                    let blocks = ForkBlocks::new(volume, directory, TreeKind::Directory)?;
                    return Err(blocks.corruption(self.structure, block, None, fault));
                }
            };
            current.next_offset_bytes = next_offset;
            let DataRecord::Entry(entry) = record else { continue };
            // Inode number and name length come before the name.
            let begin = offset as usize + 9;
            return Ok(Some(RawEntry {
                name: Name::Stored(begin..begin + entry.name.len()),
                inode: entry.inode,
                file_type: entry.file_type(),
                cookie: (current.base_bytes + u64::from(offset)) >> 3,
                next_cookie: (current.base_bytes + u64::from(next_offset)) >> 3,
            }));
        }
    }

    /// Reads the next data block that exists. `false` behind the last.
    fn load_next_block(&mut self, blocks: &ForkBlocks<'_>, directory: InodeNumber) -> Result<bool> {
        let geometry = blocks.geometry();
        let leaf_start = geometry.directory_leaf_start();
        let Some(extent) = blocks.map.next_at_or_after(self.next) else { return Ok(false) };
        let per_block = u64::from(geometry.blocks_per_directory_block());
        let first = extent.file_block.max(self.next).get();
        // A directory block that begins in a hole is damaged; reading it says so.
        let block = FileBlock::new(first / per_block * per_block);
        if block >= leaf_start {
            return Ok(false);
        }
        // Set before anything can fail, so that a second try finds the next block.
        self.next = FileBlock::new(block.get() + per_block);
        let Some(remaining_blocks) = self.remaining_blocks.checked_sub(per_block) else {
            self.next = leaf_start;
            let fault = NameTreeFault::TooManyBlocks { most: blocks.most_blocks() };
            return Err(blocks.corruption(self.structure, block, None, fault));
        };
        self.remaining_blocks = remaining_blocks;
        self.prefetch(blocks, block);
        let buffer = match blocks.read_directory_block(self.structure, block) {
            Ok(buffer) => buffer,
            Err(error) => {
                self.current = self.damaged_block(blocks, directory, block, error)?;
                return Ok(true);
            }
        };
        let end_bytes = match self.structure {
            Structure::DirectoryBlock => SingleBlock::parse(&buffer, geometry)
                .map_err(|fault| blocks.corruption(self.structure, block, Some(buffer.sector()), fault))?
                .data_end_bytes(),
            _ => geometry.directory_block_size_bytes,
        };
        let next_offset_bytes = uxfs_format::directory::DATA_HEADER_BYTES;
        let base_bytes = block.get() << geometry.block_log;
        let contents = Contents::Verified(buffer);
        self.current = Some(Current { contents, block, base_bytes, next_offset_bytes, end_bytes });
        Ok(true)
    }

    /// In a tolerant volume the entries of a damaged block that can be read.
    #[cold]
    fn damaged_block(
        &mut self,
        blocks: &ForkBlocks<'_>,
        directory: InodeNumber,
        block: FileBlock,
        error: Error,
    ) -> Result<Option<Current>> {
        blocks.volume.leave_out(error)?;
        let found = DamagedBlock::read(blocks, directory, self.structure, block, &mut self.remaining_lookups);
        let geometry = blocks.geometry();
        Ok(found.map(|found| Current {
            contents: Contents::Damaged(found),
            block,
            base_bytes: block.get() << geometry.block_log,
            next_offset_bytes: 0,
            end_bytes: geometry.directory_block_size_bytes,
        }))
    }

    /// Asks for the blocks from `block` on that lie in one piece, a window at a time.
    fn prefetch(&mut self, blocks: &ForkBlocks<'_>, block: FileBlock) {
        if self.structure == Structure::DirectoryBlock || block < self.prefetched {
            return;
        }
        let geometry = blocks.geometry();
        let (size_bytes, leaf_start) =
            (geometry.directory_block_size_bytes, geometry.directory_leaf_start().get());
        let per_block = u64::from(geometry.blocks_per_directory_block());
        let count = u64::from(READAHEAD_BYTES / size_bytes).max(2);
        let end = (block.get() + count * per_block).min(leaf_start);
        self.prefetched = FileBlock::new(end);
        let mut requests = Vec::new();
        for extent in blocks.map.from(block).take_while(|extent| extent.file_block.get() < end) {
            let first = extent.file_block.get().max(block.get()).next_multiple_of(per_block);
            let last = extent.end().get().min(end);
            let mut next = first;
            while next + per_block <= last && !extent.is_unwritten {
                let start = extent.start.checked_add(next - extent.file_block.get());
                if let Some(sector) = start.and_then(|start| geometry.sector_of_block(start)) {
                    requests.push((self.structure, sector, size_bytes));
                }
                next += per_block;
            }
        }
        if requests.len() > 1 {
            blocks.volume.metadata().prefetch(&requests);
        }
    }
}

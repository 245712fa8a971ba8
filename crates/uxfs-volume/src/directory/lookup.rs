//! From a name to an inode number, by the hash of the name.

use std::ops::ControlFlow;

use uxfs_format::{
    directory::{
        DataPointer, MAX_NAME_BYTES,
        block::SingleBlock,
        data::{DataBlock, DataEntry},
        data_block_start,
        leaf::{self, LeafBlock},
        name_hash::NameRule,
        shortform::Shortform,
    },
    fault::Structure,
    geometry::Geometry,
    inode::FileType,
    name_tree::{TreeKind, header::magic_of},
    units::{FileBlock, InodeNumber},
};

use super::{Form, FoundEntry, cookie_of, form_of, local_of, shortform_corruption};
use crate::{
    error::{Error, OperationError, Result},
    inode::Inode,
    name_tree::{
        ForkBlocks,
        leaf_walk::{LeafWalk, Start},
    },
    volume::{MetadataBuffer, Volume},
};

impl Volume {
    /// Finds `name` in a directory, "." and ".." included. Where the file system disregards case, an entry with
    /// exactly this name goes before others. Where the way to it is damaged, a tolerant volume looks at all entries that can be
    /// read.
    ///
    /// # Errors
    /// [`OperationError::NotADirectory`], [`OperationError::NameTooLong`]; damage; the device.
    pub fn lookup(&self, directory: &Inode, name: &[u8]) -> Result<Option<FoundEntry>> {
        self.lookup_with_hint(directory, name).map(|(found, _)| found)
    }

    /// As [`lookup`](Self::lookup), and also the leaf of the index in which the search ended, if there was one.
    ///
    /// # Errors
    /// As there.
    pub fn lookup_with_hint(
        &self,
        directory: &Inode,
        name: &[u8],
    ) -> Result<(Option<FoundEntry>, Option<FileBlock>)> {
        let mut wanted = Wanted::new(name, self.geometry())?;
        let found = match lookup_in(self, directory, &mut wanted) {
            Err(error) if self.may_pass_over(&error) => {
                lookup_among_all(self, directory, &mut wanted, error)?
            }
            found => found?,
        };
        Ok((found, wanted.leaf))
    }

    /// As [`lookup`](Self::lookup), but only by the hash, also in a tolerant volume: for callers that look up many names, since the
    /// other way reads the whole directory for each.
    ///
    /// # Errors
    /// As there.
    pub fn lookup_by_hash(&self, directory: &Inode, name: &[u8]) -> Result<Option<FoundEntry>> {
        lookup_in(self, directory, &mut Wanted::new(name, self.geometry())?)
    }
}

/// Finds a name among all entries of a damaged directory that can be read. `error` is the fault on the way by its hash.
#[cold]
fn lookup_among_all(
    volume: &Volume,
    directory: &Inode,
    wanted: &mut Wanted<'_>,
    error: Error,
) -> Result<Option<FoundEntry>> {
    let mut found = None;
    let read = volume.read_directory(directory, 0, |entry| {
        let pointer = DataPointer::new(u32::try_from(entry.cookie).unwrap_or(u32::MAX));
        found = wanted.consider(entry.name, entry.inode, entry.file_type, pointer);
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match (read, found.or(wanted.folded.take())) {
        (_, None) | (Err(_), _) => Err(error),
        (Ok(()), found) => volume.leave_out(error).map(|()| found),
    }
}

fn lookup_in(volume: &Volume, directory: &Inode, wanted: &mut Wanted<'_>) -> Result<Option<FoundEntry>> {
    let found = match local_of(directory)? {
        Some(bytes) => lookup_shortform(volume, directory, bytes, wanted)?,
        None => {
            let blocks = ForkBlocks::new(volume, directory, TreeKind::Directory)?;
            match form_of(directory, &blocks)? {
                Form::Block => lookup_block(&blocks, wanted)?,
                Form::Indexed => lookup_indexed(&blocks, wanted)?,
            }
        }
    };
    Ok(found.or(wanted.folded.take()))
}

fn lookup_shortform(
    volume: &Volume,
    directory: &Inode,
    bytes: &[u8],
    wanted: &mut Wanted<'_>,
) -> Result<Option<FoundEntry>> {
    let corrupt = |fault| shortform_corruption(directory, fault);
    if !directory.is_local_fork_verified() {
        Shortform::verify(bytes, volume.geometry()).map_err(corrupt)?;
    }
    let shortform = Shortform::parse(bytes, volume.geometry()).map_err(corrupt)?;
    let dots = [(super::read::DOT, directory.number), (super::read::DOT_DOT, shortform.parent)];
    for ((name, cookie), inode) in dots {
        if wanted.name == name {
            let file_type = Some(FileType::Directory);
            return Ok(Some(FoundEntry { inode, file_type, cookie, stored_name: None }));
        }
    }
    for entry in shortform.entries() {
        let entry = entry.map_err(&corrupt)?;
        let found = wanted.consider(entry.name, entry.inode, entry.file_type(), entry.pointer());
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The name that is looked for, and the best match so far.
pub(super) struct Wanted<'a> {
    name: &'a [u8],
    rule: NameRule,
    /// The first entry that differs in case only.
    folded: Option<FoundEntry>,
    /// The leaf of a tree in which the search ended.
    pub(super) leaf: Option<FileBlock>,
}

impl<'a> Wanted<'a> {
    /// # Errors
    /// [`OperationError::NameTooLong`].
    pub(super) fn new(name: &'a [u8], geometry: &Geometry) -> Result<Self> {
        if name.len() > MAX_NAME_BYTES {
            return Err(OperationError::NameTooLong.into());
        }
        Ok(Self { name, rule: NameRule::of(geometry), folded: None, leaf: None })
    }

    pub(super) fn hash(&self) -> u32 {
        self.rule.hash(self.name)
    }

    /// Compares an entry. Gives it only if the name is exactly the same.
    fn consider(
        &mut self,
        name: &[u8],
        inode: InodeNumber,
        file_type: Option<FileType>,
        pointer: DataPointer,
    ) -> Option<FoundEntry> {
        let cookie = cookie_of(pointer);
        if name == self.name {
            return Some(FoundEntry { inode, file_type, cookie, stored_name: None });
        }
        if self.folded.is_none() && self.rule.matches(name, self.name) {
            self.folded = Some(FoundEntry { inode, file_type, cookie, stored_name: Some(name.into()) });
        }
        None
    }

    pub(super) fn consider_entry(
        &mut self,
        entry: &DataEntry<'_>,
        pointer: DataPointer,
    ) -> Option<FoundEntry> {
        self.consider(entry.name, entry.inode, entry.file_type(), pointer)
    }
}

fn lookup_block(blocks: &ForkBlocks<'_>, wanted: &mut Wanted<'_>) -> Result<Option<FoundEntry>> {
    let (structure, place) = (Structure::DirectoryBlock, FileBlock::new(0));
    let buffer = blocks.read_directory_block(structure, place)?;
    let block = SingleBlock::parse(&buffer, blocks.geometry())
        .map_err(|fault| blocks.corruption(structure, place, Some(buffer.sector()), fault))?;
    for pointer in block.pointers_of(wanted.hash()) {
        let (_, offset_bytes) = pointer.split(blocks.geometry());
        let entry = block
            .entry_at(offset_bytes)
            .map_err(|fault| blocks.corruption(structure, place, Some(buffer.sector()), fault))?;
        let found = wanted.consider_entry(&entry, pointer);
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn lookup_indexed(blocks: &ForkBlocks<'_>, wanted: &mut Wanted<'_>) -> Result<Option<FoundEntry>> {
    let geometry = blocks.geometry();
    let hash = wanted.hash();
    let mut search = DataSearch { blocks, last: None };
    let root = blocks.read_tree_block(geometry.directory_leaf_start())?;
    if magic_of(&root) == Some(leaf::SINGLE_MAGIC) {
        return search.leaf(&root, geometry.directory_leaf_start(), hash, wanted).map(|(found, _)| found);
    }
    let Some(mut walk) = LeafWalk::descend(blocks, root, Start::Hash(hash))? else { return Ok(None) };
    loop {
        wanted.leaf = Some(walk.block);
        let (found, last_hash) = search.leaf(&walk.leaf, walk.block, hash, wanted)?;
        // Equal hashes may go on in the next leaf. An empty leaf (all were removed) says nothing.
        if found.is_some() || last_hash.is_some_and(|last| last > hash) || !walk.next(last_hash)? {
            return Ok(found);
        }
    }
}

/// Follows index entries into data blocks, and keeps the last one: equal hashes often lie together.
struct DataSearch<'a, 'fs> {
    blocks: &'a ForkBlocks<'fs>,
    last: Option<(u32, MetadataBuffer)>,
}

impl DataSearch<'_, '_> {
    /// Compares all entries of a leaf with this hash. Gives a match, and the leaf's last hash.
    fn leaf(
        &mut self,
        buffer: &MetadataBuffer,
        place: FileBlock,
        hash: u32,
        wanted: &mut Wanted<'_>,
    ) -> Result<(Option<FoundEntry>, Option<u32>)> {
        let leaf = LeafBlock::parse(buffer, self.blocks.geometry()).map_err(|fault| {
            self.blocks.corruption(self.blocks.index_structure(), place, Some(buffer.sector()), fault)
        })?;
        for pointer in leaf.pointers_of(hash) {
            let found = self.entry(pointer, wanted)?;
            if found.is_some() {
                return Ok((found, leaf.last_hash()));
            }
        }
        Ok((None, leaf.last_hash()))
    }

    fn entry(&mut self, pointer: DataPointer, wanted: &mut Wanted<'_>) -> Result<Option<FoundEntry>> {
        let geometry = self.blocks.geometry();
        let (data_block, offset_bytes) = pointer.split(geometry);
        let (structure, place) = (Structure::DirectoryData, data_block_start(geometry, data_block));
        let buffer = match self.last.take() {
            Some((last, buffer)) if last == data_block => buffer,
            _ => self.blocks.read_directory_block(structure, place)?,
        };
        let entry = DataBlock::parse(&buffer, geometry)
            .and_then(|data| data.entry_at(offset_bytes))
            .map_err(|fault| self.blocks.corruption(structure, place, Some(buffer.sector()), fault))?;
        let found = wanted.consider_entry(&entry, pointer);
        self.last = Some((data_block, buffer));
        Ok(found)
    }
}

//! Changing directories inside their inode.
//!
//! Entries keep the place that they would have in a block, which is their cookie, for as long as they exist: what is
//! removed leaves a hole among the places, and a new entry takes the first hole that is large enough.

use super::{
    EntryFormat,
    data::DataEntry,
    data_edit::{NewEntry, name_length},
    shortform::{
        DirectoryShortformFault, MAX_SHORT_INODE, Shortform, ShortformEntry, ShortformEntryHead,
        ShortformHeader, ShortformLargeHeader,
    },
};
use crate::{
    convert::{low_u16, low_u32, to_u64, to_usize},
    field_table::OnDisk,
    geometry::Geometry,
    units::InodeNumber,
};

/// Where the number of large inode numbers lies.
const LARGE_COUNT_OFFSET: usize = 1;
/// Where the parent lies.
const PARENT_OFFSET: usize = 2;
/// Index entries of "." and "..", and the tail, once the directory is a block; 8 bytes each.
const FIXED_INDEX_ENTRIES: u32 = 3;

/// A directory inside its inode that is being changed.
#[derive(Debug)]
pub struct ShortformEdit<'a> {
    bytes: &'a mut Vec<u8>,
    geometry: &'a Geometry,
    format: EntryFormat,
}

/// Where a new entry goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InsertPosition {
    /// In the fork, before the entries are widened.
    index: u8,
    data_offset: u32,
}

/// Whether an inode number needs 8 bytes.
pub const fn is_large(inode: InodeNumber) -> bool {
    inode.get() > MAX_SHORT_INODE
}

/// The bytes of a directory without entries.
pub fn empty(parent: InodeNumber) -> Vec<u8> {
    let large = is_large(parent);
    let mut bytes = vec![0, u8::from(large)];
    put_inode(&mut bytes, parent, large);
    bytes
}

fn put_inode(bytes: &mut Vec<u8>, inode: InodeNumber, is_large: bool) {
    let [high @ .., a, b, c, d] = inode.get().to_be_bytes();
    if is_large {
        bytes.extend_from_slice(&high);
    }
    bytes.extend_from_slice(&[a, b, c, d]);
}

/// The bytes of a directory with entries that lay in a block: at most 255. They keep their places.
pub fn from_entries(parent: InodeNumber, entries: &[DataEntry<'_>], format: EntryFormat) -> Vec<u8> {
    let large = entries.iter().filter(|entry| is_large(entry.inode)).count();
    let large = large.saturating_add(usize::from(is_large(parent)));
    let number = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
    let mut bytes = vec![number(entries.len()), number(large)];
    put_inode(&mut bytes, parent, large > 0);
    for entry in entries {
        bytes.push(name_length(entry.name));
        bytes.extend_from_slice(&low_u16(entry.offset_bytes.into()).to_be_bytes());
        bytes.extend_from_slice(entry.name);
        if format.has_file_type {
            bytes.push(entry.file_type_code);
        }
        put_inode(&mut bytes, entry.inode, large > 0);
    }
    bytes
}

/// Bytes of a directory with names of `name_bytes` bytes together.
pub fn size_bytes(format: EntryFormat, count: u32, name_bytes: u32, has_large: bool) -> u32 {
    let (header, inode) = if has_large {
        (ShortformLargeHeader::SIZE_BYTES, size_of::<u64>())
    } else {
        (ShortformHeader::SIZE_BYTES, size_of::<u32>())
    };
    let number = |size: usize| low_u32(to_u64(size));
    let fixed = number(ShortformEntryHead::SIZE_BYTES)
        .saturating_add(format.has_file_type.into())
        .saturating_add(number(inode));
    number(header).saturating_add(count.saturating_mul(fixed)).saturating_add(name_bytes)
}

impl<'a> ShortformEdit<'a> {
    /// `bytes` are a directory already.
    pub fn new(bytes: &'a mut Vec<u8>, geometry: &'a Geometry) -> Self {
        Self { bytes, geometry, format: EntryFormat::of(geometry) }
    }

    /// To read it.
    ///
    /// # Errors
    /// Shorter than the header.
    pub fn view(&self) -> Result<Shortform<'_>, DirectoryShortformFault> {
        Shortform::parse(self.bytes, self.geometry)
    }

    /// Adds an entry, if the directory takes at most `room_bytes` then and would still fit one block. `false` where it
    /// would not.
    ///
    /// # Errors
    /// The directory is damaged.
    pub fn insert(&mut self, entry: &NewEntry<'_>, room_bytes: u32) -> Result<bool, DirectoryShortformFault> {
        let view = self.view()?;
        let large = view.large_count;
        let needs_large = is_large(entry.inode);
        let Some(place) = self.place_for(name_length(entry.name))? else { return Ok(false) };
        let size = self.size_with(needs_large, Some(entry.name))?;
        if size > room_bytes {
            return Ok(false);
        }
        if needs_large && large == 0 {
            self.rewrite(1)?;
        } else {
            self.set_large_count(large.saturating_add(needs_large.into()));
        }
        let at = self.offset_of(place.index)?;
        let mut encoded = Vec::with_capacity(entry.name.len().saturating_add(12));
        encoded.push(name_length(entry.name));
        encoded.extend_from_slice(&low_u16(place.data_offset.into()).to_be_bytes());
        encoded.extend_from_slice(entry.name);
        if self.format.has_file_type {
            encoded.push(entry.file_type_code);
        }
        put_inode(&mut encoded, entry.inode, self.large_count() != 0);
        let at = at.min(self.bytes.len());
        self.bytes.splice(at..at, encoded);
        if let Some(count) = self.bytes.first_mut() {
            *count = count.saturating_add(1);
        }
        Ok(true)
    }

    /// The first hole among the places that fits such a name, or behind the last; `None` where as a block the directory
    /// would not fit.
    fn place_for(&self, name_length: u8) -> Result<Option<InsertPosition>, DirectoryShortformFault> {
        let view = self.view()?;
        let size = self.format.entry_size_bytes(name_length);
        let Some(count) = view.count.checked_add(1) else { return Ok(None) };
        let (mut hole, mut next, mut index) = (None, self.format.first_offset_bytes(), 0_u8);
        for entry in view.entries() {
            let entry = entry?;
            let offset = u32::from(entry.data_offset);
            if hole.is_none() && next.saturating_add(size) <= offset {
                hole = Some(InsertPosition { index, data_offset: next });
            }
            next = offset.saturating_add(self.entry_size(&entry));
            index = index.saturating_add(1);
        }
        let place = hole.unwrap_or(InsertPosition { index, data_offset: next });
        let end = if hole.is_some() { next } else { next.saturating_add(size) };
        let index_bytes = u32::from(count).saturating_add(FIXED_INDEX_ENTRIES).saturating_mul(8);
        let fits = end.saturating_add(index_bytes) <= self.geometry.directory_block_size_bytes;
        Ok(fits.then_some(place))
    }

    fn entry_size(&self, entry: &ShortformEntry<'_>) -> u32 {
        self.format.entry_size_bytes(name_length(entry.name))
    }

    /// Bytes of the directory with one more name, or as it is, if another large inode number comes.
    fn size_with(&self, needs_large: bool, name: Option<&[u8]>) -> Result<u32, DirectoryShortformFault> {
        let view = self.view()?;
        let (count, has_large) = (u32::from(view.count), view.large_count != 0);
        let current = low_u32(to_u64(self.bytes.len()));
        let names = current.saturating_sub(size_bytes(self.format, count, 0, has_large));
        let more = name.map_or(0, |name| u32::from(name_length(name)));
        let count = count.saturating_add(name.is_some().into());
        Ok(size_bytes(self.format, count, names.saturating_add(more), has_large || needs_large))
    }

    /// Takes the entry at `index` out.
    ///
    /// # Errors
    /// The directory is damaged.
    pub fn remove(&mut self, index: u8) -> Result<(), DirectoryShortformFault> {
        let (start, end) = (self.offset_of(index)?, self.offset_of(index.saturating_add(1))?);
        let was_large = self.entry(index)?.is_some_and(is_large);
        if start >= end || end > self.bytes.len() {
            return Ok(());
        }
        self.bytes.drain(start..end);
        if let Some(count) = self.bytes.first_mut() {
            *count = count.saturating_sub(1);
        }
        self.drop_large(was_large)
    }

    /// Lets the entry at `index` lead to another inode. `false` where the directory would take more than `room_bytes`.
    ///
    /// # Errors
    /// The directory is damaged.
    pub fn replace(
        &mut self,
        index: u8,
        inode: InodeNumber,
        file_type_code: u8,
        room_bytes: u32,
    ) -> Result<bool, DirectoryShortformFault> {
        let was_large = self.entry(index)?.is_some_and(is_large);
        if !self.prepare_large(inode, room_bytes)? {
            return Ok(false);
        }
        let end = self.offset_of(index.saturating_add(1))?;
        let length = self.inode_length();
        let at = end.saturating_sub(length);
        self.overwrite_inode(at, inode);
        if self.format.has_file_type
            && let Some(code) = self.bytes.get_mut(at.saturating_sub(1))
        {
            *code = file_type_code;
        }
        self.drop_large(was_large)?;
        Ok(true)
    }

    /// Says which directory is above. `false` where the directory would take more than `room_bytes`.
    ///
    /// # Errors
    /// The directory is damaged.
    pub fn set_parent(
        &mut self,
        parent: InodeNumber,
        room_bytes: u32,
    ) -> Result<bool, DirectoryShortformFault> {
        let was_large = is_large(self.view()?.parent);
        if !self.prepare_large(parent, room_bytes)? {
            return Ok(false);
        }
        self.overwrite_inode(PARENT_OFFSET, parent);
        self.drop_large(was_large)?;
        Ok(true)
    }

    /// Counts an inode number that is to come, and widens all where it is the first large one.
    fn prepare_large(
        &mut self,
        inode: InodeNumber,
        room_bytes: u32,
    ) -> Result<bool, DirectoryShortformFault> {
        if !is_large(inode) {
            return Ok(true);
        }
        let large = self.large_count();
        if large == 0 {
            if self.size_with(true, None)? > room_bytes {
                return Ok(false);
            }
            self.rewrite(1)?;
        } else {
            self.set_large_count(large.saturating_add(1));
        }
        Ok(true)
    }

    /// Counts an inode number that is gone, and narrows all where it was the last large one.
    fn drop_large(&mut self, was_large: bool) -> Result<(), DirectoryShortformFault> {
        match (was_large, self.large_count()) {
            (true, 1) => self.rewrite(0),
            (true, large) => {
                self.set_large_count(large.saturating_sub(1));
                Ok(())
            }
            (false, _) => Ok(()),
        }
    }

    fn large_count(&self) -> u8 {
        self.bytes.get(LARGE_COUNT_OFFSET).copied().unwrap_or(0)
    }

    fn set_large_count(&mut self, count: u8) {
        if let Some(byte) = self.bytes.get_mut(LARGE_COUNT_OFFSET) {
            *byte = count;
        }
    }

    fn inode_length(&self) -> usize {
        if self.large_count() == 0 { size_of::<u32>() } else { size_of::<u64>() }
    }

    fn overwrite_inode(&mut self, at: usize, inode: InodeNumber) {
        let length = self.inode_length();
        let bytes = inode.get().to_be_bytes();
        let skipped = bytes.len().saturating_sub(length);
        let target = self.bytes.get_mut(at..at.saturating_add(length));
        if let (Some(target), Some(source)) = (target, bytes.get(skipped..)) {
            target.copy_from_slice(source);
        }
    }

    fn entry(&self, index: u8) -> Result<Option<InodeNumber>, DirectoryShortformFault> {
        let entry = self.view()?.entries().nth(index.into()).transpose()?;
        Ok(entry.map(|entry| entry.inode))
    }

    /// Where the entry at `index` begins, or behind the last one the directory ends.
    fn offset_of(&self, index: u8) -> Result<usize, DirectoryShortformFault> {
        let entry = self.view()?.entries().nth(index.into()).transpose()?;
        Ok(entry.map_or(self.bytes.len(), |entry| to_usize(entry.offset_bytes)))
    }

    /// Writes everything anew, with inode numbers as wide as `large_count` says.
    fn rewrite(&mut self, large_count: u8) -> Result<(), DirectoryShortformFault> {
        let view = self.view()?;
        let is_large = large_count != 0;
        let mut bytes = Vec::with_capacity(self.bytes.len().saturating_mul(2));
        bytes.extend_from_slice(&[view.count, large_count]);
        put_inode(&mut bytes, view.parent, is_large);
        for entry in view.entries() {
            let entry = entry?;
            bytes.push(name_length(entry.name));
            bytes.extend_from_slice(&entry.data_offset.to_be_bytes());
            bytes.extend_from_slice(entry.name);
            if self.format.has_file_type {
                bytes.push(entry.file_type_code);
            }
            put_inode(&mut bytes, entry.inode, is_large);
        }
        *self.bytes = bytes;
        Ok(())
    }
}

#[cfg(test)]
#[path = "shortform_edit_tests.rs"]
mod tests;

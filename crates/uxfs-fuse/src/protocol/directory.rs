//! Records of READDIR and READDIRPLUS, one after the other in a buffer of the caller.
//!
//! ```text
//! READDIR      inode │ next offset │ name size │ type │ name │ padding to 8 bytes
//! READDIRPLUS  entry │ the same
//! ```
//!
//! A record is never split: the kernel stops at one that is not whole. An empty reply is the end of the directory.

use thiserror::Error;
use uxfs_format::inode::{FileType, file_type::MODE_TYPE_MASK};
use zerocopy::{FromBytes, IntoBytes};

use super::{
    reply::attributes::EntryReply,
    wire::{
        directories::{DirectoryPlusRecord, DirectoryRecord},
        names::EntryOut,
    },
};

/// Bytes of the longest name that the kernel takes.
#[doc(alias = "FUSE_NAME_MAX")]
pub const NAME_BYTES_MAX: usize = 4095;
/// Records are padded to this.
const ALIGNMENT_BYTES: usize = 8;
/// The type of a record is the upper part of a mode.
const MODE_TYPE_SHIFT: u32 = MODE_TYPE_MASK.trailing_zeros();

/// A directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// Name, without a NUL.
    pub name: &'a [u8],
    /// Inode number.
    pub inode: u64,
    /// File type; `None` where it is unknown.
    pub file_type: Option<FileType>,
    /// Cookie from which the kernel reads on after this entry; it fits an `i64`.
    pub next_offset: u64,
}

/// A record that was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordRefused {
    /// The buffer is full. This entry is the first of the next reply.
    #[error("a record of {needed_bytes} bytes, but only {left_bytes} bytes are left")]
    Full {
        /// Size of the record.
        needed_bytes: usize,
        /// Bytes that are left.
        left_bytes: usize,
    },
    /// The kernel would refuse the whole reply.
    #[error("a name that is empty, holds a slash or is longer than {NAME_BYTES_MAX} bytes")]
    BadName,
    /// The kernel would refuse the offset.
    #[error("an offset of {next_offset}, which is no file offset")]
    BadOffset {
        /// The offset.
        next_offset: u64,
    },
}

/// The nodes that a reply to READDIRPLUS names, each as often as it does.
pub fn nodes_of(mut reply: &[u8]) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        loop {
            let (record, _) = DirectoryPlusRecord::read_from_prefix(reply).ok()?;
            let name_bytes = usize::try_from(record.record.name_bytes).ok()?;
            let bytes = size_of::<DirectoryPlusRecord>().checked_add(name_bytes)?;
            reply = reply.get(bytes.checked_next_multiple_of(ALIGNMENT_BYTES)?..)?;
            if record.entry.node_id != 0 {
                return Some(record.entry.node_id);
            }
        }
    })
}

/// A reply to READDIR or READDIRPLUS.
#[derive(Debug)]
pub struct DirectoryBuffer<'b> {
    bytes: &'b mut [u8],
    used_bytes: usize,
}

impl<'b> DirectoryBuffer<'b> {
    /// An empty reply in `bytes`, which are as many as the kernel asked for, or fewer.
    pub fn new(bytes: &'b mut [u8]) -> Self {
        Self { bytes, used_bytes: 0 }
    }

    /// Whether there is room for a record of READDIRPLUS with such a name: before the inode is read.
    pub fn has_room_plus(&self, name_bytes: usize) -> bool {
        record_bytes(size_of::<DirectoryPlusRecord>(), name_bytes) <= self.left_bytes()
    }

    /// Adds a record of READDIR.
    ///
    /// # Errors
    /// The record was not added.
    pub fn push(&mut self, entry: &DirectoryEntry<'_>) -> Result<(), RecordRefused> {
        let record = encode(entry)?;
        self.append(record.as_bytes(), entry.name)
    }

    /// Adds a record of READDIRPLUS; `found` is the inode, where it is known. Gives whether the kernel counts a lookup of it: it does not
    /// for `.` and `..`, whose records hold no node.
    ///
    /// # Errors
    /// The record was not added, and no lookup counts.
    pub fn push_plus(
        &mut self,
        entry: &DirectoryEntry<'_>,
        found: Option<&EntryReply>,
    ) -> Result<bool, RecordRefused> {
        let found = found.filter(|_| !is_dot_or_dot_dot(entry.name));
        let found = found.map_or_else(EntryOut::default, EntryReply::encode);
        let record = DirectoryPlusRecord { entry: found, record: encode(entry)? };
        self.append(record.as_bytes(), entry.name)?;
        Ok(found.node_id != 0)
    }

    /// The records so far.
    pub fn filled(&self) -> &[u8] {
        self.bytes.get(..self.used_bytes).unwrap_or_default()
    }

    /// Bytes of the records so far.
    pub const fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Whether there are no records.
    pub const fn is_empty(&self) -> bool {
        self.used_bytes == 0
    }

    const fn left_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(self.used_bytes)
    }

    fn append(&mut self, header: &[u8], name: &[u8]) -> Result<(), RecordRefused> {
        let needed_bytes = record_bytes(header.len(), name.len());
        let full = RecordRefused::Full { needed_bytes, left_bytes: self.left_bytes() };
        let end = self.used_bytes.checked_add(needed_bytes).ok_or(full)?;
        let place = self.bytes.get_mut(self.used_bytes..end).ok_or(full)?;
        let (header_place, rest) = place.split_at_mut_checked(header.len()).ok_or(full)?;
        let (name_place, padding) = rest.split_at_mut_checked(name.len()).ok_or(full)?;
        header_place.copy_from_slice(header);
        name_place.copy_from_slice(name);
        padding.fill(0);
        self.used_bytes = end;
        Ok(())
    }
}

fn encode(entry: &DirectoryEntry<'_>) -> Result<DirectoryRecord, RecordRefused> {
    let is_size_good = (1..=NAME_BYTES_MAX).contains(&entry.name.len());
    let name_bytes = u32::try_from(entry.name.len()).ok().filter(|_| is_size_good);
    let name_bytes = name_bytes.filter(|_| !entry.name.contains(&b'/')).ok_or(RecordRefused::BadName)?;
    if i64::try_from(entry.next_offset).is_err() {
        return Err(RecordRefused::BadOffset { next_offset: entry.next_offset });
    }
    let kind = entry.file_type.map_or(0, |kind| u32::from(kind.mode_bits()) >> MODE_TYPE_SHIFT);
    Ok(DirectoryRecord { inode: entry.inode, next_offset: entry.next_offset, name_bytes, kind })
}

fn is_dot_or_dot_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// Bytes of a record with its padding.
const fn record_bytes(header_bytes: usize, name_bytes: usize) -> usize {
    header_bytes.saturating_add(name_bytes).saturating_add(ALIGNMENT_BYTES - 1) & !(ALIGNMENT_BYTES - 1)
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;

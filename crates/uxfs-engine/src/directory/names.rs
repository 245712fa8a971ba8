//! Names as callers give and get them.

use uxfs_format::{
    directory::{DataPointer, data_edit::NewEntry, name_hash::NameRule},
    units::{FileBlock, InodeNumber},
};

use uxfs_volume::{directory::FoundEntry, volume::Volume};

use crate::inode::edit::EditInode;
use uxfs_volume::{error::Result, inode::FileType};

/// One of many names to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewName<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The inode.
    pub inode: InodeNumber,
    /// The type of the inode.
    pub file_type: FileType,
}

/// Whether a name may be in the directory already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCheck {
    /// It may: look first.
    Check,
    /// The caller knows that it is not.
    KnownToBeNew,
}

/// An entry that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameTarget {
    /// The inode.
    pub inode: InodeNumber,
    /// The type of the inode, if the entry has it.
    pub file_type: Option<FileType>,
}

impl<'a> NewName<'a> {
    pub(super) fn entry(&self) -> NewEntry<'a> {
        NewEntry { name: self.name, inode: self.inode, file_type_code: self.file_type.directory_code() }
    }
}

/// Finds a name in a directory that the caller has open and locked: first where it is expected
/// ([`expect_name`]). Gives also the leaf in which the search ended, if there was one.
///
/// # Errors
/// As for [`Volume::lookup`].
pub fn lookup_open(
    volume: &Volume,
    directory: &EditInode,
    name: &[u8],
) -> Result<(Option<FoundEntry>, Option<FileBlock>)> {
    let hint = &directory.directory_hint;
    if hint.entry != DataPointer::NULL
        && let Some((pointer, near)) = hint.expected(NameRule::of(volume.geometry()).hash(name))
        && let Some((found, leaf)) = volume.lookup_expected(directory, name, pointer, near)
    {
        return Ok((Some(found), Some(leaf)));
    }
    volume.lookup_with_hint(directory, name)
}

/// Finds a name that is about to be added or removed: the directory remembers where the search ended.
///
/// # Errors
/// As for [`Volume::lookup`].
pub fn lookup_to_change(
    volume: &Volume,
    directory: &mut EditInode,
    name: &[u8],
) -> Result<Option<FoundEntry>> {
    let (found, leaf) = lookup_open(volume, directory, name)?;
    let entry = found.as_ref().and_then(|found| u32::try_from(found.cookie).ok()).map(DataPointer::new);
    let hash = if entry.is_some() { NameRule::of(volume.geometry()).hash(name) } else { 0 };
    directory.directory_hint.note_lookup(hash, leaf, entry);
    Ok(found)
}

/// Says that `name`, which was just read from a directory as an entry with this cookie, is looked for next. A lookup that
/// does not find it there looks everywhere, as without.
pub fn expect_name(volume: &Volume, directory: &mut EditInode, name: &[u8], cookie: u64) {
    let Ok(cookie) = u32::try_from(cookie) else { return };
    let hash = NameRule::of(volume.geometry()).hash(name);
    directory.directory_hint.note_lookup(hash, None, Some(DataPointer::new(cookie)));
}

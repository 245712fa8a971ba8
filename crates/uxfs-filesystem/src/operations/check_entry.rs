//! Whether a directory entry and its inode agree, before the entry goes or leads elsewhere.
//!
//! On a damaged image an entry may name the inode of another entry. Removing it would take the link, and with the last link
//! the file, from the other one. Inodes with parent pointers say themselves which entries they have. Without parent
//! pointers only directories do, by `..`; of other inodes nothing but the file type and the link count can be compared.

use uxfs_format::{
    directory::entry_fault::EntryFault,
    fault::{Corruption, Location, Structure},
    units::InodeNumber,
};

use uxfs_engine::{
    bulk::create::pointer_to, directory::lookup_open, extent_map::refuse_realtime_blocks,
    inode::edit::EditInode,
};
use uxfs_volume::{
    directory::FoundEntry,
    error::{Error, Result},
    inode::FileType,
    parent_pointer::ParentPointer,
};

use super::check::is_directory;
use crate::filesystem::FileSystem;

/// An entry that is about to go, or to lead elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryToChange<'a> {
    /// The directory.
    pub parent: &'a EditInode,
    /// Its name there.
    pub name: &'a [u8],
    /// The directory entry.
    pub found: &'a FoundEntry,
    /// The inode that it names.
    pub inode: &'a EditInode,
}

fn damaged(directory: &EditInode, fault: EntryFault) -> Error {
    Corruption::new(Structure::DirectoryAnyData, Location::of_inode(directory.number), fault).into()
}

/// The error for a directory that `..` leads back to.
#[cold]
pub(super) fn above_itself(inode: InodeNumber) -> Error {
    let fault = EntryFault::AboveItself { inode };
    Corruption::new(Structure::DirectoryAnyData, Location::of_inode(inode), fault).into()
}

/// Compares the file type in an entry of `directory` with that of its inode.
///
/// # Errors
/// They differ.
pub(super) fn check_file_type(
    directory: InodeNumber,
    in_entry: Option<FileType>,
    inode: &EditInode,
) -> Result<()> {
    match (in_entry, inode.file_type()) {
        (Some(expected), Some(found)) if expected != found => {
            let fault = EntryFault::FileType { inode: inode.number, found, expected };
            Err(Corruption::new(Structure::DirectoryAnyData, Location::of_inode(directory), fault).into())
        }
        _ => Ok(()),
    }
}

/// Compares an entry with its inode.
///
/// # Errors
/// The first check that fails; damage; the device.
pub(super) fn check_entry(file_system: &FileSystem, entry: &EntryToChange<'_>) -> Result<()> {
    let EntryToChange { parent, inode, found, .. } = *entry;
    let (number, directory) = (inode.number, parent.number);
    let links = inode.link_count();
    check_file_type(parent.number, found.file_type, inode)?;
    if links < if is_directory(inode) { 2 } else { 1 } {
        return Err(damaged(parent, EntryFault::LinkCount { inode: number, links }));
    }
    if is_directory(inode) {
        check_dot_dot(file_system, parent.number, inode)?;
    }
    match file_system.has_parent_pointer(inode, pointer_to(parent, entry.name))? {
        Some(false) => Err(damaged(parent, EntryFault::NoParentPointer { inode: number, directory })),
        Some(true) | None => Ok(()),
    }
}

/// As above, for an entry whose inode is to lose a link: with its last one all that it holds goes.
///
/// # Errors
/// As there; with the last link, blocks of the realtime section, which cannot be freed.
pub(super) fn check_entry_to_remove(file_system: &FileSystem, entry: &EntryToChange<'_>) -> Result<()> {
    check_entry(file_system, entry)?;
    let EntryToChange { parent, inode, .. } = *entry;
    let (number, links) = (inode.number, inode.link_count());
    if links == 1 {
        refuse_realtime_blocks(inode)?;
    }
    if is_directory(inode) {
        // An empty directory has no subdirectory that names it, and its own directory has its link.
        if links != 2 {
            return Err(damaged(parent, EntryFault::LinkCount { inode: number, links }));
        }
        check_loses_subdirectory(parent)?;
    }
    if (links == 1 || is_directory(inode)) && file_system.has_several_parent_pointers(inode)? {
        return Err(damaged(parent, EntryFault::MoreParentPointers { inode: number, links }));
    }
    Ok(())
}

/// A directory loses a subdirectory, and the link of its `..`.
///
/// # Errors
/// It has none of its subdirectories.
pub(super) fn check_loses_subdirectory(parent: &EditInode) -> Result<()> {
    let links = parent.link_count();
    if links < 3 {
        return Err(damaged(parent, EntryFault::DirectoryLinks { inode: parent.number, links }));
    }
    Ok(())
}

/// An inode is to get an entry that the directory does not have: it must not have the parent pointer already.
///
/// # Errors
/// It has; damage; the device.
pub(super) fn check_new_entry(
    file_system: &FileSystem,
    parent: &EditInode,
    name: &[u8],
    inode: &EditInode,
) -> Result<()> {
    if file_system.has_parent_pointer(inode, pointer_to(parent, name))? == Some(true) {
        let (inode, directory) = (inode.number, parent.number);
        return Err(damaged(parent, EntryFault::ParentPointerExists { inode, directory }));
    }
    Ok(())
}

/// Compares an inode with an entry of a directory that is not locked: `..` of a directory, and the parent pointer.
///
/// # Errors
/// They do not agree; damage; the device.
pub(super) fn check_leads_back(
    file_system: &FileSystem,
    (directory, generation): (InodeNumber, u32),
    name: &[u8],
    inode: &EditInode,
) -> Result<()> {
    if is_directory(inode) {
        check_dot_dot(file_system, directory, inode)?;
    }
    let pointer = ParentPointer { name, parent: directory, generation };
    match file_system.has_parent_pointer(inode, pointer)? {
        Some(false) => Err(damaged(inode, EntryFault::NoParentPointer { inode: inode.number, directory })),
        Some(true) | None => Ok(()),
    }
}

fn check_dot_dot(file_system: &FileSystem, expected: InodeNumber, inode: &EditInode) -> Result<()> {
    let above = lookup_open(file_system, inode, b"..")?.0.map(|found| found.inode);
    let found = above.unwrap_or_default();
    if found != expected {
        return Err(damaged(inode, EntryFault::DotDot { inode: inode.number, found, expected }));
    }
    Ok(())
}

//! `unlink` and `rmdir` in a live file system.

use super::{
    check::{check_may_remove, check_name, is_directory, is_dot, touch, touch_directory},
    check_entry::EntryToChange,
};
use crate::operations::{check::open_entry, check_entry::check_entry_to_remove};
use crate::{
    filesystem::FileSystem,
    inode::table::{InodeHandle, InodeTable, InodeWriteGuard, lock_in_order},
};
use uxfs_engine::directory::lookup_open;
use uxfs_engine::{
    bulk::create::pointer_to,
    directory::lookup_to_change,
    inode::destroy::is_freed_at_once,
    inode::edit::{EditInode, TimeKind},
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::directory::FoundEntry;
use uxfs_volume::error::{OperationError, Result};

/// The kind of file that the caller removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removal {
    File,
    Directory,
}

/// The state of an inode after it lost a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has other links.
    Named,
    /// It has no links and is on the AGI unlinked list.
    Unlinked,
    /// It is freed.
    Freed,
}

impl FileSystem {
    /// Takes a name of a file away. The file goes with its last name, or else with its last handle.
    ///
    /// # Errors
    /// No such name; a directory; not permitted by flags; damage; the device.
    #[doc(alias = "xfs_remove")]
    pub fn unlink(&self, directory: &InodeHandle, name: &[u8]) -> Result<()> {
        if is_dot(name) {
            return Err(OperationError::IsADirectory.into());
        }
        remove_entry(self, directory, name, Removal::File)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// No such name; not a directory, or not an empty one; not permitted by flags; damage; the device.
    #[doc(alias = "xfs_remove")]
    pub fn remove_directory(&self, directory: &InodeHandle, name: &[u8]) -> Result<()> {
        match name {
            b"." => return Err(OperationError::InvalidName.into()),
            b".." => return Err(OperationError::NotEmpty.into()),
            _ => {}
        }
        remove_entry(self, directory, name, Removal::Directory)
    }
}

/// Drops the link of an inode in `parent` (all links of a directory). A small inode without further links or handles is freed
/// at once; a larger or open one goes on the AGI unlinked list. The caller stores the inode unless it is freed.
#[doc(alias = "xfs_droplink")]
pub(super) fn drop_name(
    tx: &mut Transaction<'_>,
    table: &InodeTable,
    parent: &EditInode,
    name: &[u8],
    handle: &InodeHandle,
    inode: &mut EditInode,
) -> Result<Fate> {
    let links = if is_directory(inode) { 0 } else { inode.link_count().saturating_sub(1) };
    inode.set_link_count(links);
    if links == 0 && is_freed_at_once(inode) && table.begin_free(handle) {
        tx.inodes().destroy(inode)?;
        return Ok(Fate::Freed);
    }
    tx.parent_pointers().remove_parent_pointer(inode, pointer_to(parent, name))?;
    if links > 0 {
        return Ok(Fate::Named);
    }
    // `next_unlinked` lies in the cluster; storing the inode does not overwrite it.
    tx.unlinked_inodes().add_unlinked(inode.number)?;
    Ok(Fate::Unlinked)
}

/// As above, waiting for both. `false` where the name leads elsewhere by now.
#[cold]
fn remove_in_order(
    file_system: &FileSystem,
    directory: &InodeHandle,
    name: &[u8],
    child: &InodeHandle,
    removal: Removal,
) -> Result<bool> {
    let [Some(mut parent), inode] = lock_in_order([Some(directory), Some(child)]) else {
        return Ok(false);
    };
    // A directory that has itself as a name.
    let mut inode: InodeWriteGuard<'_> = inode.ok_or(OperationError::NotEmpty)?;
    let found = lookup_to_change(file_system, &mut parent, name)?.ok_or(OperationError::NotFound)?;
    if found.inode != child.number() {
        return Ok(false);
    }
    remove_locked(file_system, &mut parent, (name, &found), child, &mut inode, removal)?;
    Ok(true)
}

/// The target of a name in a directory that the caller has locked.
pub(super) fn open_name(file_system: &FileSystem, directory: &EditInode, name: &[u8]) -> Result<InodeHandle> {
    let found = lookup_open(file_system, directory, name)?.0.ok_or(OperationError::NotFound)?;
    open_entry(file_system, directory.number, found.inode)
}

fn remove_locked(
    file_system: &FileSystem,
    parent: &mut EditInode,
    (name, found): (&[u8], &FoundEntry),
    child: &InodeHandle,
    inode: &mut EditInode,
    removal: Removal,
) -> Result<()> {
    // Where case is disregarded, the entry's own name: parent pointers have that.
    let name = found.stored_name.as_deref().unwrap_or(name);
    check_may_remove(parent, inode)?;
    match (removal, is_directory(inode)) {
        (Removal::File, true) => return Err(OperationError::IsADirectory.into()),
        (Removal::Directory, false) => return Err(OperationError::NotADirectory.into()),
        (Removal::Directory, true) if !is_open_directory_empty(file_system, inode)? => {
            return Err(OperationError::NotEmpty.into());
        }
        _ => {}
    }
    check_entry_to_remove(file_system, &EntryToChange { parent, name, found, inode })?;
    let mut transaction = Transaction::begin_for(file_system, Operation::Remove)?;
    let now = file_system.now();
    transaction.directories().remove_name(parent, name)?;
    if removal == Removal::Directory {
        parent.set_link_count(parent.link_count().saturating_sub(1));
    }
    touch_directory(parent, now);
    transaction.store_inode(parent)?;
    let fate = drop_name(&mut transaction, file_system.inode_table(), parent, name, child, inode)?;
    if fate != Fate::Freed {
        touch(inode, now, &[TimeKind::Change]);
        transaction.store_inode(inode)?;
    }
    transaction.commit()?;
    record_fate(file_system, child, fate);
    Ok(())
}

/// Whether a directory that the caller has locked has no names but "." and "..".
pub(super) fn is_open_directory_empty(file_system: &FileSystem, directory: &EditInode) -> Result<bool> {
    let mut reader = file_system.open_directory(directory, 0)?;
    while let Some(entry) = reader.next_entry()? {
        if !entry.is_dot_of(directory.number)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tells the table the state of an inode after the commit.
pub(super) fn record_fate(file_system: &FileSystem, handle: &InodeHandle, fate: Fate) {
    match fate {
        Fate::Named => {}
        Fate::Unlinked => {
            handle.set_may_get_name(false);
            handle.set_unlinked(true);
        }
        Fate::Freed => file_system.inode_table().end_free(handle, true),
    }
}

fn remove_entry(
    file_system: &FileSystem,
    directory: &InodeHandle,
    name: &[u8],
    removal: Removal,
) -> Result<()> {
    check_name(name)?;
    loop {
        let mut parent = directory.write();
        let found = lookup_to_change(file_system, &mut parent, name)?.ok_or(OperationError::NotFound)?;
        let child = open_entry(file_system, parent.number, found.inode)?;
        // The usual case: no other thread uses it. The lock is only tried, so that the order of locks does not matter.
        let done = match child.try_write() {
            Some(mut inode) => {
                remove_locked(file_system, &mut parent, (name, &found), &child, &mut inode, removal)?;
                true
            }
            None => {
                drop(parent);
                remove_in_order(file_system, directory, name, &child, removal)?
            }
        };
        if done {
            break;
        }
    }
    file_system.inactivate_pending()
}

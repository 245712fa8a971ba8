//! Freeing unlinked inodes without handles.
//!
//! The transaction that drops the last link puts an inode on its AGI's unlinked list. Its contents are freed in several
//! transactions; after a crash between two of them recovery continues. A small inode is freed in the transaction that drops
//! its last link, and is never on the list.

use crate::file::handles::free_preallocation_of_closed;
use uxfs_format::{
    btree::extent_map::MAX_FILE_BLOCKS,
    units::{AgNumber, FileBlock},
};

use super::{check::is_directory, unlink::is_open_directory_empty};
use crate::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_engine::{
    directory::lookup_open,
    inode::{
        destroy::{STEP_BLOCKS, STEP_EXTENTS, has_many_extents},
        edit::EditInode,
    },
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::extent_map::ExtentMap;
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::Fork,
};

/// Parent pointers that are compared of an unlinked inode. A sound one has none.
const MOST_POINTERS: usize = 64;

impl FileSystem {
    /// Frees the unlinked inodes whose last handle is gone. [`close`](Self::close) and operations that drop links call it;
    /// a caller that drops the last handle of an unlinked inode may.
    ///
    /// # Errors
    /// Damage; the device. The inode stays on the unlinked list, where recovery finds it.
    #[doc(alias = "xfs_inodegc_worker")]
    pub fn inactivate_pending(&self) -> Result<()> {
        while self.inode_table().has_unlinked()
            && let Some(handle) = self.inode_table().next_unlinked()
        {
            let result = inactivate(self, &handle);
            self.inode_table().end_free(&handle, true);
            result?;
        }
        free_preallocation_of_closed(self)
    }

    /// Frees all inodes on the unlinked lists: after a replay those that the crash left, at closing those that are still open,
    /// whose handles are invalid afterwards. Returns their number.
    ///
    /// # Errors
    /// Damage; the device.
    #[doc(alias = "xlog_recover_process_iunlinks")]
    pub fn inactivate_unlinked(&self) -> Result<u64> {
        self.inactivate_pending()?;
        self.geometry().groups().try_fold(0, |sum, group| Ok(sum + inactivate_unlinked_of(self, group)?))
    }
}

/// First block of the last extents of a fork that one transaction frees: at most `most_blocks` blocks.
fn step_start(extents: &ExtentMap, most_blocks: u64) -> FileBlock {
    let mut start = FileBlock::new(0);
    let mut left = most_blocks;
    for extent in extents.iter().rev().take(STEP_EXTENTS) {
        let taken = extent.length_blocks.min(left);
        start = FileBlock::new(extent.end().get().saturating_sub(taken));
        left -= taken;
        if left == 0 {
            break;
        }
    }
    start
}

/// Frees the unlinked inodes of one group.
pub(crate) fn inactivate_unlinked_of(file_system: &FileSystem, group: AgNumber) -> Result<u64> {
    let (mut count, mut last) = (0, None);
    loop {
        let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
        let first = transaction.unlinked_inodes().first_unlinked(group)?;
        transaction.commit()?;
        let Some(first) = first else { return Ok(count) };
        if last.replace(first) == Some(first) {
            // The freed inode is still in the list.
            return Err(OperationError::NoSuchInode.into());
        }
        let handle = file_system.open(first)?;
        inactivate(file_system, &handle)?;
        file_system.inode_table().end_free(&handle, true);
        count += 1;
    }
}

/// Whether an inode contradicts that it is unlinked: it has links, is a directory with entries, or has a parent pointer whose
/// entry leads back to it. Only damage makes such an inode.
pub(crate) fn contradicts_unlinked(file_system: &FileSystem, handle: &InodeHandle) -> Result<bool> {
    let inode = handle.read();
    if inode.link_count() != 0 {
        return Ok(true);
    }
    if is_directory(&inode) && !is_open_directory_empty(file_system, &inode)? {
        return Ok(true);
    }
    if !file_system.geometry().features.has_parent_pointers() {
        return Ok(false);
    }
    let pointers = match file_system.parent_pointers(&inode, MOST_POINTERS) {
        // So many are left of no removed file.
        Ok((_, false)) => return Ok(true),
        Ok((pointers, true)) => pointers,
        // A crash may have cut off the removal of the attributes.
        Err(Error::Corrupt(_)) => return Ok(false),
        Err(error) => return Err(error),
    };
    drop(inode);
    for pointer in pointers {
        let entry = file_system
            .open(pointer.parent)
            .and_then(|parent| lookup_open(file_system, &parent.read(), &pointer.name));
        match entry {
            Ok((Some(found), _)) if found.inode == handle.number() => return Ok(true),
            // The name may be there.
            Err(Error::Corrupt(_)) => return Ok(true),
            Ok(_) | Err(Error::Operation(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Frees an unlinked inode to which no other handle exists.
#[doc(alias = "xfs_inactive")]
fn inactivate(file_system: &FileSystem, handle: &InodeHandle) -> Result<()> {
    let is_in_use = contradicts_unlinked(file_system, handle)?;
    let mut guard = handle.write();
    let inode = &mut *guard;
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    let is_listed = transaction.unlinked_inodes().is_in_unlinked_list(inode.number)?;
    if is_listed && is_in_use {
        // A list that is damaged must not take a file away that has a name.
        transaction.unlinked_inodes().remove_unlinked(inode.number)?;
    }
    transaction.commit()?;
    if !is_listed || is_in_use {
        // A link count of 0 may be wrong, because a name leads to the inode. Its contents stay.
        return Ok(());
    }
    while has_many_extents(inode, Fork::Data) {
        let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
        inode.set_size_bytes(0);
        let start = step_start(inode.extents(Fork::Data), u64::MAX);
        transaction.extent_maps().unmap_blocks(inode, Fork::Data, start, MAX_FILE_BLOCKS)?;
        transaction.store_inode(inode)?;
        transaction.commit()?;
    }
    if has_many_extents(inode, Fork::Attribute) {
        let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
        transaction.attributes().forget_attributes(inode)?;
        transaction.commit()?;
    }
    while has_many_extents(inode, Fork::Attribute) {
        truncate_attributes(file_system, inode)?;
    }
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    transaction.unlinked_inodes().remove_unlinked(inode.number)?;
    transaction.inodes().destroy(inode)?;
    transaction.commit()
}

/// Takes the last blocks out of an attribute fork in which nothing leads to them.
fn truncate_attributes(file_system: &FileSystem, inode: &mut EditInode) -> Result<()> {
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    let start = step_start(inode.extents(Fork::Attribute), STEP_BLOCKS);
    transaction.attributes().truncate_attribute_fork(inode, start)?;
    transaction.store_inode(inode)?;
    transaction.commit()
}

/// Takes the blocks of an attribute fork away without a look at what they hold, if that is not sound: Linux was freeing
/// them when it was cut off. The caller ensures that no value has been read: buffers of values are not looked for.
pub(crate) fn truncate_half_freed_attributes(file_system: &FileSystem, handle: &InodeHandle) -> Result<()> {
    let inode = &mut *handle.write();
    if Transaction::begin_for(file_system, Operation::Release)?.attributes().has_whole_attributes(inode)? {
        return Ok(());
    }
    while !inode.extents(Fork::Attribute).is_empty() {
        truncate_attributes(file_system, inode)?;
    }
    Ok(())
}

//! `link` and `rename` on a full file system.
//!
//! Both reserve the blocks of the worst case. Mostly they need none: the directory has room for the entry, and the inode for
//! the parent pointer. Without space they check this, and proceed where no new block is needed. Linux does so only without
//! parent pointers; with them it returns ENOSPC.

use uxfs_engine::bulk::create::pointer_to;

use super::rename::Parents;
use crate::filesystem::FileSystem;
use uxfs_engine::{
    inode::edit::EditInode,
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::FileType,
    parent_pointer::ParentPointer,
};

/// Whether a file can have a further name without a new block.
pub(super) fn link_fits(
    tx: &mut Transaction<'_>,
    parent: &mut EditInode,
    name: &[u8],
    inode: &mut EditInode,
) -> Result<bool> {
    let pointer = pointer_to(parent, name);
    let mut sketch = inode.sketch();
    Ok(tx.directories().name_fits(parent, name, inode.number, type_of(inode)?)?
        && tx.parent_pointers().parent_pointer_fits(inode, &mut sketch, None, pointer)?)
}

/// Whether a file can have another name without a new block, one that is new or that another file has.
pub(super) fn rename_fits(
    tx: &mut Transaction<'_>,
    parents: &mut Parents<'_>,
    [from_name, to_name]: [&[u8]; 2],
    moved: &mut EditInode,
    is_new: bool,
) -> Result<bool> {
    let file_type = type_of(moved)?;
    let fits = if is_new {
        tx.directories().name_fits(parents.to(), to_name, moved.number, file_type)?
    } else {
        let mut sketch = parents.to().sketch();
        tx.directories().replacement_fits(&mut sketch, to_name, moved.number, file_type)?
    };
    let (old, new) = (pointer_to(parents.from, from_name), pointer_to(parents.target(), to_name));
    Ok(fits && move_fits(tx, moved, old, new)?)
}

/// Whether two names can lead where the other does without a new block.
pub(super) fn exchange_fits(
    tx: &mut Transaction<'_>,
    parents: &mut Parents<'_>,
    [first_name, second_name]: [&[u8]; 2],
    first: &mut EditInode,
    second: &mut EditInode,
) -> Result<bool> {
    let mut from = parents.from.sketch();
    if !tx.directories().replacement_fits(&mut from, first_name, second.number, type_of(second)?)? {
        return Ok(false);
    }
    // One directory gets both.
    let mut to = if parents.is_one() { from } else { parents.target().sketch() };
    if !tx.directories().replacement_fits(&mut to, second_name, first.number, type_of(first)?)? {
        return Ok(false);
    }
    let old = pointer_to(parents.from, first_name);
    let new = pointer_to(parents.target(), second_name);
    Ok(move_fits(tx, first, old, new)? && move_fits(tx, second, new, old)?)
}

/// Whether an inode has room for what says where it is: "..", and its parent pointer.
fn move_fits(
    tx: &mut Transaction<'_>,
    inode: &mut EditInode,
    old: ParentPointer<'_>,
    new: ParentPointer<'_>,
) -> Result<bool> {
    let mut sketch = inode.sketch();
    // A larger number above takes from the room that the attributes have.
    let moves_directory = type_of(inode)? == FileType::Directory && old.parent != new.parent;
    if moves_directory
        && !tx.directories().replacement_fits(&mut sketch, b"..", new.parent, FileType::Directory)?
    {
        return Ok(false);
    }
    tx.parent_pointers().parent_pointer_fits(inode, &mut sketch, Some(old), new)
}

fn type_of(inode: &EditInode) -> Result<FileType> {
    inode.file_type().ok_or_else(|| OperationError::NoSuchInode.into())
}

/// Begins an operation with all blocks that it may take; or, where there are not so many, as `in_place` if it `fits`.
/// That changes nothing.
#[doc(alias = "xfs_trans_alloc_dir")]
pub(super) fn begin_or_in_place(
    file_system: &FileSystem,
    operation: Operation,
    in_place: Operation,
    fits: impl FnOnce(&mut Transaction<'_>) -> Result<bool>,
) -> Result<Transaction<'_>> {
    match Transaction::begin_for(file_system, operation) {
        Err(Error::Operation(OperationError::NoSpace)) => {}
        other => return other,
    }
    let mut transaction = Transaction::begin_for(file_system, in_place)?;
    let error = match fits(&mut transaction) {
        Ok(true) => return Ok(transaction),
        Ok(false) => OperationError::NoSpace.into(),
        Err(error) => error,
    };
    transaction.commit()?;
    Err(error)
}

//! The folder of what has no name.
//!
//! What users have put there, or called like it, stays: the folder and the names in it are chosen such that they are free.

use uxfs_engine::{
    bulk::create::{FileAttributes, NewKind},
    directory::NameCheck,
    engine::modes::AnyEngine,
    inode::edit::EditInode,
    transaction::Transaction,
};
use uxfs_format::{inode::FileType, units::InodeNumber};
use uxfs_volume::{error::Result, parent_pointer::ParentPointer};

use super::{decide::Decision, facts::Facts, write::unless_there};
use crate::{finding::Name, repair::action::Action};

const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Names the lost inodes of a decision.
pub(super) fn name_lost(
    engine: &AnyEngine,
    facts: &Facts,
    decision: &Decision,
    actions: &mut Vec<Action>,
) -> Result<()> {
    if decision.lost.is_empty() {
        return Ok(());
    }
    let mut transaction = Transaction::begin(engine)?;
    let (mut folder, folder_name) = open_folder(&mut transaction, facts.root)?;
    for (number, best) in &decision.lost {
        let mut inode = transaction.load_inode(*number)?;
        let file_type = facts.inodes.get(number).map_or(FileType::Directory, |fact| fact.file_type);
        let name = free_name(&mut transaction, &mut folder, best, &facts.plain_name(*number))?;
        transaction.directories().add_name(
            &mut folder,
            &name,
            *number,
            file_type,
            NameCheck::KnownToBeNew,
        )?;
        if file_type == FileType::Directory {
            transaction.directories().replace_name(&mut inode, b"..", folder.number, FileType::Directory)?;
            let links = folder.core.link_count.get();
            folder.set_link_count(links.saturating_add(1));
        } else {
            inode.set_link_count(1);
        }
        let pointer = ParentPointer { parent: folder.number, generation: folder.generation(), name: &name };
        unless_there(transaction.parent_pointers().add_parent_pointer(&mut inode, pointer))?;
        transaction.store_inode(&mut inode)?;
        actions.push(Action::LostAndFound { inode: *number, folder: folder_name.clone(), name });
    }
    transaction.store_inode(&mut folder)?;
    transaction.commit()
}

/// The folder with its name. It is made where it is not there.
fn open_folder(transaction: &mut Transaction<'_>, root: InodeNumber) -> Result<(EditInode, Name)> {
    let mut root = transaction.load_inode(root)?;
    // A file may be called so.
    let mut tries = 0_u64;
    loop {
        let name = numbered(LOST_AND_FOUND, tries);
        tries += 1;
        match transaction.directories().lookup_name(&mut root, &name)? {
            Some(found) => {
                let folder = transaction.load_inode(found.inode)?;
                if folder.file_type() == Some(FileType::Directory) {
                    return Ok((folder, name));
                }
            }
            None => {
                let mut folder = make_folder(transaction, &mut root, &name)?;
                transaction.store_inode(&mut folder)?;
                transaction.store_inode(&mut root)?;
                return Ok((folder, name));
            }
        }
    }
}

fn make_folder(transaction: &mut Transaction<'_>, root: &mut EditInode, name: &[u8]) -> Result<EditInode> {
    let times = root.modification_time();
    let attributes = FileAttributes {
        permissions: 0o700,
        access_time: times,
        modification_time: times,
        change_time: times,
        creation_time: times,
        ..FileAttributes::default()
    };
    transaction.files().create(root, name, &NewKind::Directory, &attributes, NameCheck::KnownToBeNew)
}

/// The best name, or else the plain one, or else that one with a number. A folder that holds all of those that are tried has as many
/// names as there were tries.
fn free_name(
    transaction: &mut Transaction<'_>,
    folder: &mut EditInode,
    best: &Name,
    plain: &Name,
) -> Result<Name> {
    let mut name = best.clone();
    let mut tries = 0_u64;
    while transaction.directories().lookup_name(folder, &name)?.is_some() {
        name = numbered(plain, tries);
        tries += 1;
    }
    Ok(name)
}

fn numbered(name: &[u8], number: u64) -> Name {
    match number {
        0 => name.into(),
        number => [name, format!(".{number}").as_bytes()].concat().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_numbers() {
        assert_eq!(&*numbered(b"lost+found", 0), b"lost+found");
        assert_eq!(&*numbered(b"167", 12), b"167.12");
    }
}

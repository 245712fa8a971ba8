//! Renaming in a live file system.
//!
//! Up to five inodes change: two directories, the moved inode, the one that it replaces or is exchanged with, and a whiteout.
//! They are found without locks, locked in order, and looked up again; if a name leads elsewhere by then, the rename starts
//! over.
//!
//! A rename that gives a directory another parent holds the tree lock, so that the directories above another stay the same
//! while it walks up from there.

use super::{
    check::{
        check_may_add, check_may_remove, check_name, check_project, is_directory, is_dot, touch,
        touch_directory,
    },
    check_entry::EntryToChange,
    create::{NewFile, take_new_inode},
    in_place::{exchange_fits, rename_fits},
    unlink::Fate,
    unlink::drop_name,
};
use crate::operations::{
    check::open_entry,
    check_entry::{
        above_itself, check_entry, check_entry_to_remove, check_loses_subdirectory, check_new_entry,
    },
    in_place::begin_or_in_place,
    unlink::{is_open_directory_empty, open_name, record_fate},
};
use crate::{
    filesystem::FileSystem,
    inode::table::{InodeHandle, NewSlot, lock_in_order},
};
use uxfs_engine::directory::lookup_open;
use uxfs_engine::{
    attribute::acl::NewFileAcls,
    bulk::create::{MAX_LINKS, NewKind, pointer_to},
    directory::NameCheck,
    inode::edit::{EditInode, TimeKind},
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::directory::FoundEntry;
use uxfs_volume::{
    error::{OperationError, Result},
    inode::{DeviceNumber, FileType, Timestamp, set::InodeSet},
};

/// How to rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenameOptions {
    /// The new name must not exist.
    #[doc(alias = "RENAME_NOREPLACE")]
    pub no_replace: bool,
    /// Both names exist, and each leads afterwards where the other did.
    #[doc(alias = "RENAME_EXCHANGE")]
    pub exchange: bool,
    /// The old name leads afterwards to a new device 0:0 of this user and group: what overlays take for "removed".
    #[doc(alias = "RENAME_WHITEOUT")]
    pub whiteout: Option<(u32, u32)>,
}

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
struct DirectoryName<'a> {
    directory: &'a InodeHandle,
    name: &'a [u8],
}

/// The directories of both names: often one.
pub(super) struct Parents<'g> {
    pub(super) from: &'g mut EditInode,
    /// `None` where it is the same.
    to: Option<&'g mut EditInode>,
}

impl Parents<'_> {
    pub(super) fn to(&mut self) -> &mut EditInode {
        match &mut self.to {
            Some(to) => to,
            None => self.from,
        }
    }

    pub(super) fn target(&self) -> &EditInode {
        self.to.as_deref().unwrap_or(self.from)
    }

    pub(super) fn is_one(&self) -> bool {
        self.to.is_none()
    }

    /// Their names have changed.
    fn store(self, transaction: &mut Transaction<'_>, now: Timestamp) -> Result<()> {
        for directory in [Some(self.from), self.to].into_iter().flatten() {
            touch_directory(directory, now);
            transaction.store_inode(directory)?;
        }
        Ok(())
    }

    fn add_links(&mut self, from: i32, to: i32) {
        let add = |inode: &mut EditInode, change| {
            inode.set_link_count(inode.link_count().saturating_add_signed(change));
        };
        add(self.from, from);
        add(self.to(), to);
    }
}

/// The whiteout that overlayfs expects in place of a removed name.
fn whiteout_of((uid, gid): (u32, u32)) -> NewFile<'static> {
    let kind = NewKind::Special(FileType::CharacterDevice, DeviceNumber::default());
    NewFile { uid, gid, ..NewFile::new(kind, 0) }
}

impl FileSystem {
    /// Lets a file have another name in the place of the one it has.
    ///
    /// # Errors
    /// No such name; the new one exists and must not, or is of another kind, or of a directory with names
    /// ([`Exists`](OperationError::Exists), as XFS says it); a directory would come below itself; another project's
    /// directory; not permitted by flags; too many links; no space; damage; the device.
    #[doc(alias = "xfs_rename")]
    pub fn rename(
        &self,
        from_directory: &InodeHandle,
        from_name: &[u8],
        to_directory: &InodeHandle,
        to_name: &[u8],
        options: &RenameOptions,
    ) -> Result<()> {
        if options.exchange && (options.no_replace || options.whiteout.is_some()) {
            return Err(OperationError::InvalidArgument.into());
        }
        if is_dot(from_name) || is_dot(to_name) {
            let error = if options.no_replace && !is_dot(from_name) {
                OperationError::Exists
            } else {
                OperationError::Busy
            };
            return Err(error.into());
        }
        check_name(from_name)?;
        let from = DirectoryName { directory: from_directory, name: from_name };
        let to = DirectoryName { directory: to_directory, name: to_name };
        while !try_rename(self, from, to, options)? {}
        self.inactivate_pending()
    }
}

/// `false` where a name led elsewhere when all was locked.
fn try_rename(
    file_system: &FileSystem,
    from: DirectoryName<'_>,
    to: DirectoryName<'_>,
    options: &RenameOptions,
) -> Result<bool> {
    let moved = file_system.find(from.directory, from.name)?;
    check_name(to.name)?;
    let other = find_if_there(file_system, to)?;
    match &other {
        Some(_) if options.no_replace => return Err(OperationError::Exists.into()),
        None if options.exchange => return Err(OperationError::NotFound.into()),
        _ => {}
    }
    let is_one_directory = from.directory.is_same(to.directory);
    let is_directory = |handle: &InodeHandle| is_directory(&handle.read());
    let has_directory = is_directory(&moved) || other.as_ref().is_some_and(is_directory);
    let _tree = (!is_one_directory && has_directory).then(|| file_system.lock_tree());
    if !is_one_directory && has_directory {
        refuse_into_itself(file_system, (from, &moved), (to, other.as_ref()), options)?;
    }
    let handles = [Some(from.directory), Some(to.directory), Some(&moved), other.as_ref()];
    let [Some(mut from_parent), mut to_parent, moved_inode, mut other_inode] = lock_in_order(handles) else {
        return Ok(false);
    };
    let target = to_parent.as_deref().unwrap_or(&*from_parent);
    let [found, found_other] = [(&*from_parent, from.name), (target, to.name)]
        .map(|(parent, name)| lookup_open(file_system, parent, name).map(|(found, _)| found));
    let (found, found_other) = (found?, found_other?);
    let leads_to = |found: &Option<FoundEntry>, inode: Option<&InodeHandle>| {
        found.as_ref().map(|found| found.inode) == inode.map(InodeHandle::number)
    };
    if !leads_to(&found, Some(&moved)) || !leads_to(&found_other, other.as_ref()) {
        return Ok(false);
    }
    if other.as_ref().is_some_and(|other| other.is_same(&moved)) {
        // Two names of one file: nothing is to be done, says POSIX.
        return Ok(true);
    }
    // A damaged directory may lead to itself or to the other.
    let Some(mut moved_inode) = moved_inode else { return Err(OperationError::IntoItself.into()) };
    if other.is_some() && other_inode.is_none() {
        return Err(OperationError::NotEmpty.into());
    }
    let parents = Parents { from: &mut from_parent, to: to_parent.as_deref_mut() };
    let found = found.ok_or(OperationError::NotFound)?;
    // Where case is disregarded, the entries' own names: parent pointers have those.
    let from_name = found.stored_name.as_deref().unwrap_or(from.name);
    let to_name = found_other.as_ref().and_then(|found| found.stored_name.as_deref()).unwrap_or(to.name);
    let (names, founds) = ([from_name, to_name], [Some(&found), found_other.as_ref()]);
    match (other.as_ref(), other_inode.as_deref_mut()) {
        (Some(_), Some(inode)) if options.exchange => {
            exchange_locked(file_system, parents, names, founds, &mut moved_inode, inode)?;
        }
        (handle, inode) => {
            let other = handle.zip(inode);
            rename_locked(file_system, parents, names, founds, &mut moved_inode, other, options)?;
        }
    }
    Ok(true)
}

/// Refuses to move a directory below itself, or in an exchange either below the other. The tree lock is held, so that
/// no directory gets another parent meanwhile.
fn refuse_into_itself(
    file_system: &FileSystem,
    (from, moved): (DirectoryName<'_>, &InodeHandle),
    (to, other): (DirectoryName<'_>, Option<&InodeHandle>),
    options: &RenameOptions,
) -> Result<()> {
    if is_at_or_below(file_system, to.directory, moved)? {
        return Err(OperationError::IntoItself.into());
    }
    if let Some(other) = other
        && is_at_or_below(file_system, from.directory, other)?
    {
        let error = if options.exchange { OperationError::IntoItself } else { OperationError::NotEmpty };
        return Err(error.into());
    }
    Ok(())
}

fn find_if_there(file_system: &FileSystem, place: DirectoryName<'_>) -> Result<Option<InodeHandle>> {
    let parent = place.directory.read();
    match lookup_open(file_system, &parent, place.name)?.0 {
        Some(found) => open_entry(file_system, parent.number, found.inode).map(Some),
        None => Ok(None),
    }
}

/// Whether a directory is another or lies below it. The caller holds the tree lock.
///
/// # Errors
/// The directories above it form a circle; other damage; the device.
#[doc(alias = "d_ancestor")]
fn is_at_or_below(file_system: &FileSystem, directory: &InodeHandle, ancestor: &InodeHandle) -> Result<bool> {
    let root = file_system.geometry().root_inode;
    let mut at = directory.clone();
    let mut seen = InodeSet::default();
    loop {
        if at.is_same(ancestor) {
            return Ok(true);
        }
        if at.number() == root {
            return Ok(false);
        }
        if !seen.insert(at.number()) {
            return Err(above_itself(at.number()));
        }
        let inode = at.read();
        // A removed directory is below nothing.
        if inode.link_count() == 0 {
            return Ok(false);
        }
        let above = open_name(file_system, &inode, b"..")?;
        drop(inode);
        at = above;
    }
}

fn rename_locked(
    file_system: &FileSystem,
    mut parents: Parents<'_>,
    [from_name, to_name]: [&[u8]; 2],
    founds: [Option<&FoundEntry>; 2],
    moved: &mut EditInode,
    mut other: Option<(&InodeHandle, &mut EditInode)>,
    options: &RenameOptions,
) -> Result<()> {
    let entries = ([from_name, to_name], founds);
    check_rename(file_system, &parents, entries, moved, other.as_ref().map(|(_, inode)| &**inode))?;
    let whiteout = options.whiteout.map(whiteout_of);
    let is_new = other.is_none();
    let mut transaction =
        begin_or_in_place(file_system, Operation::Rename, Operation::RenameInPlace, |tx| {
            // A new inode needs space like any other.
            Ok(whiteout.is_none() && rename_fits(tx, &mut parents, [from_name, to_name], moved, is_new)?)
        })?;
    let now = file_system.now();
    let placeholder = match &whiteout {
        // Linux makes it as one of the directory that the other goes to. Directories give it no list.
        Some(new) => {
            let inode = take_new_inode(&mut transaction, parents.target(), new, &NewFileAcls::default())?;
            Some(file_system.inode_table().insert_new(inode))
        }
        None => None,
    };
    // In the table before the name leads to it: an inode that is being freed may have left its slot under this number.
    let mut placeholder = placeholder.as_ref().map(NewSlot::lock);
    let file_type = moved.file_type().ok_or(OperationError::NoSuchInode)?;
    let mut fate = Fate::Named;
    if let Some((handle, inode)) = &mut other {
        transaction.directories().replace_name(parents.to(), to_name, moved.number, file_type)?;
        fate =
            drop_name(&mut transaction, file_system.inode_table(), parents.target(), to_name, handle, inode)?;
        if fate != Fate::Freed {
            touch(inode, now, &[TimeKind::Change]);
            transaction.store_inode(inode)?;
        }
    } else {
        transaction.directories().add_name(
            parents.to(),
            to_name,
            moved.number,
            file_type,
            NameCheck::KnownToBeNew,
        )?;
    }
    if file_type == FileType::Directory {
        move_directory(&mut transaction, &mut parents, moved, other.is_some())?;
    }
    leave_behind(&mut transaction, &mut parents, from_name, placeholder.as_deref_mut())?;
    let (old, new) = (pointer_to(parents.from, from_name), pointer_to(parents.target(), to_name));
    transaction.parent_pointers().replace_parent_pointer(moved, old, new)?;
    touch(moved, now, &[TimeKind::Change]);
    transaction.store_inode(moved)?;
    parents.store(&mut transaction, now)?;
    transaction.commit()?;
    if let Some((handle, _)) = &other {
        record_fate(file_system, handle, fate);
    }
    Ok(())
}

/// A directory comes below the other parent, perhaps in the place of another directory.
fn move_directory(
    transaction: &mut Transaction<'_>,
    parents: &mut Parents<'_>,
    moved: &mut EditInode,
    replaces_other: bool,
) -> Result<()> {
    if !parents.is_one() {
        let above = parents.target().number;
        transaction.directories().replace_name(moved, b"..", above, FileType::Directory)?;
    }
    // A directory that is replaced takes a link along: its "..".
    parents.add_links(-1, if replaces_other { 0 } else { 1 });
    Ok(())
}

/// The old entry goes, or leads to the placeholder from now on.
fn leave_behind(
    transaction: &mut Transaction<'_>,
    parents: &mut Parents<'_>,
    name: &[u8],
    placeholder: Option<&mut EditInode>,
) -> Result<()> {
    let Some(inode) = placeholder else {
        transaction.directories().remove_name(parents.from, name)?;
        return Ok(());
    };
    let kind = FileType::CharacterDevice;
    transaction.directories().replace_name(parents.from, name, inode.number, kind)?;
    transaction.parent_pointers().add_parent_pointer(inode, pointer_to(parents.from, name))?;
    transaction.store_inode(inode)
}

/// Checks of a rename before its first change.
fn check_rename(
    file_system: &FileSystem,
    parents: &Parents<'_>,
    (names, founds): ([&[u8]; 2], [Option<&FoundEntry>; 2]),
    moved: &EditInode,
    other: Option<&EditInode>,
) -> Result<()> {
    let target = parents.target();
    check_may_remove(parents.from, moved)?;
    let moves_directory = is_directory(moved);
    if let Some(other) = other {
        check_may_remove(target, other)?;
        match (moves_directory, is_directory(other)) {
            (true, false) => return Err(OperationError::NotADirectory.into()),
            (false, true) => return Err(OperationError::IsADirectory.into()),
            _ => {}
        }
    } else {
        check_may_add(target)?;
        let is_full = target.link_count() >= MAX_LINKS;
        if moves_directory && !parents.is_one() && is_full {
            return Err(OperationError::TooManyLinks.into());
        }
    }
    check_project(target, moved)?;
    if let Some(other) = other.filter(|other| is_directory(other))
        && !is_open_directory_empty(file_system, other)?
    {
        return Err(OperationError::Exists.into());
    }
    check_entries_to_rename(file_system, parents, names, founds, moved, other)
}

/// Whether the entries agree with their inodes: that which moves, and that which it replaces.
fn check_entries_to_rename(
    file_system: &FileSystem,
    parents: &Parents<'_>,
    [from_name, to_name]: [&[u8]; 2],
    [found, found_other]: [Option<&FoundEntry>; 2],
    moved: &EditInode,
    other: Option<&EditInode>,
) -> Result<()> {
    let (from, target) = (&*parents.from, parents.target());
    if let Some(found) = found {
        check_entry(file_system, &EntryToChange { parent: from, name: from_name, found, inode: moved })?;
    }
    if let Some((found, inode)) = found_other.zip(other) {
        check_entry_to_remove(file_system, &EntryToChange { parent: target, name: to_name, found, inode })?;
    }
    if is_directory(moved) && (!parents.is_one() || other.is_some()) {
        check_loses_subdirectory(from)?;
    }
    check_new_entry(file_system, target, to_name, moved)
}

/// The same for two entries that lead afterwards where the other did.
fn check_entries_to_exchange(
    file_system: &FileSystem,
    parents: &Parents<'_>,
    names: [&[u8]; 2],
    founds: [Option<&FoundEntry>; 2],
    inodes: [&EditInode; 2],
) -> Result<()> {
    let directories = [&*parents.from, parents.target()];
    for (((parent, name), found), inode) in directories.into_iter().zip(names).zip(founds).zip(inodes) {
        if let Some(found) = found {
            check_entry(file_system, &EntryToChange { parent, name, found, inode })?;
        }
        if is_directory(inode) && !parents.is_one() {
            check_loses_subdirectory(parent)?;
        }
    }
    let others = directories.into_iter().zip(names).zip(inodes.into_iter().rev());
    others
        .into_iter()
        .try_for_each(|((parent, name), inode)| check_new_entry(file_system, parent, name, inode))
}

#[doc(alias = "xfs_cross_rename")]
fn exchange_locked(
    file_system: &FileSystem,
    mut parents: Parents<'_>,
    [first_name, second_name]: [&[u8]; 2],
    founds: [Option<&FoundEntry>; 2],
    first: &mut EditInode,
    second: &mut EditInode,
) -> Result<()> {
    check_may_remove(parents.from, first)?;
    check_may_remove(parents.target(), second)?;
    // Linux asks for one of both.
    check_project(parents.target(), first)?;
    check_entries_to_exchange(file_system, &parents, [first_name, second_name], founds, [first, second])?;
    let (first_type, second_type) = (
        first.file_type().ok_or(OperationError::NoSuchInode)?,
        second.file_type().ok_or(OperationError::NoSuchInode)?,
    );
    let changes_parent = !parents.is_one();
    let [is_first, is_second] = [first_type, second_type].map(|kind| kind == FileType::Directory);
    // Links that the first directory gains and the second loses.
    let gain = i32::from(is_second) - i32::from(is_first);
    let gaining = if gain > 0 { &*parents.from } else { parents.target() };
    if changes_parent && gain != 0 && gaining.link_count() >= MAX_LINKS {
        return Err(OperationError::TooManyLinks.into());
    }
    let names = [first_name, second_name];
    let mut transaction =
        begin_or_in_place(file_system, Operation::Rename, Operation::RenameInPlace, |tx| {
            exchange_fits(tx, &mut parents, names, first, second)
        })?;
    let now = file_system.now();
    transaction.directories().replace_name(parents.from, first_name, second.number, second_type)?;
    transaction.directories().replace_name(parents.to(), second_name, first.number, first_type)?;
    if changes_parent {
        let (above_first, above_second) = (parents.from.number, parents.target().number);
        if is_first {
            transaction.directories().replace_name(first, b"..", above_second, FileType::Directory)?;
        }
        if is_second {
            transaction.directories().replace_name(second, b"..", above_first, FileType::Directory)?;
        }
        parents.add_links(gain, -gain);
    }
    let old = pointer_to(parents.from, first_name);
    let new = pointer_to(parents.target(), second_name);
    transaction.parent_pointers().replace_parent_pointer(first, old, new)?;
    transaction.parent_pointers().replace_parent_pointer(second, new, old)?;
    // A directory that gets another parent has changed itself.
    let times = [TimeKind::Change, TimeKind::Modification];
    let moved = |is_directory: bool| {
        if changes_parent && is_directory { times.as_slice() } else { &[TimeKind::Change] }
    };
    touch(first, now, moved(is_first));
    touch(second, now, moved(is_second));
    transaction.store_inode(first)?;
    transaction.store_inode(second)?;
    parents.store(&mut transaction, now)?;
    transaction.commit()
}

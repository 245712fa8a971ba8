//! `create`, temporary files and `link` in a live file system.

use uxfs_format::inode::symlink::{SymlinkFault, verify_target};
use zerocopy::big_endian::U32;

use super::{
    check::{
        check_may_add, check_may_change, check_name, check_project, is_directory, is_dot, touch,
        touch_directory,
    },
    in_place::link_fits,
};
use crate::operations::{check_entry::check_new_entry, in_place::begin_or_in_place};
use crate::{
    filesystem::FileSystem,
    inode::table::{InodeHandle, InodeWriteGuard},
};
use uxfs_engine::{
    attribute::{AttributeName, SetMode, acl::NewFileAcls},
    bulk::create::{MAX_LINKS, NewKind, pointer_to},
    directory::{NameCheck, lookup_to_change},
    engine::Engine,
    inode::{
        create::NewInode,
        edit::{EditInode, TimeKind},
    },
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::{DeviceNumber, InodeFlags},
};

/// The bit of a directory's mode that hands its group down.
#[doc(alias = "S_ISGID")]
pub(super) const SET_GROUP: u16 = 0o2000;

/// A file that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewFile<'a> {
    /// File type, with a symbolic link's target or a device number.
    pub kind: NewKind<'a>,
    /// Permissions with set-id bits and the sticky bit, as they are asked for.
    pub permissions: u16,
    /// The umask of the caller's process. A default ACL of the directory overrides it.
    pub umask: u16,
    /// Owner.
    pub uid: u32,
    /// Group, unless the directory decides it.
    pub gid: u32,
    /// Attributes that it is created with, such as labels. ACLs come from the directory.
    pub attributes: &'a [(AttributeName<'a>, &'a [u8])],
}

impl<'a> NewFile<'a> {
    /// A file of root without attributes.
    pub const fn new(kind: NewKind<'a>, permissions: u16) -> Self {
        Self { kind, permissions, umask: 0, uid: 0, gid: 0, attributes: &[] }
    }

    fn operation(&self, acls: &NewFileAcls) -> Operation {
        let target = match self.kind {
            NewKind::Symlink(target) => target.len(),
            _ => 0,
        };
        let values = self.attributes.iter().map(|(name, value)| name.name.len() + value.len());
        let bytes = values.fold(target, usize::saturating_add);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Operation::Create { target_bytes: bytes.saturating_add(acls.value_bytes()) }
    }

    /// Refuses what is invalid in any directory.
    fn check(&self) -> Result<()> {
        if let NewKind::Symlink(target) = self.kind {
            verify_target(target).map_err(|fault| match fault {
                SymlinkFault::TargetLength { length_bytes } if length_bytes > 0 => {
                    OperationError::TargetTooLong
                }
                SymlinkFault::TargetLength { .. } => OperationError::NotFound,
                _ => OperationError::InvalidName,
            })?;
        }
        if let NewKind::Special(file_type, device) = self.kind {
            if !file_type.is_special() {
                return Err(OperationError::InvalidArgument.into());
            }
            device.encode().ok_or(OperationError::DeviceNumberTooLarge)?;
        }
        Ok(())
    }

    /// The new inode, with what it inherits from its directory.
    #[doc(alias = "inode_init_owner")]
    fn inode(&self, engine: &Engine, directory: &EditInode, acls: &NewFileAcls) -> NewInode {
        let now = engine.now();
        let mut mode = self.kind.file_type().mode_bits() | acls.mode & 0o7777;
        let mut gid = self.gid;
        if directory.core.mode.get() & SET_GROUP != 0 {
            gid = directory.core.gid.get();
            if matches!(self.kind, NewKind::Directory) {
                mode |= SET_GROUP;
            }
        }
        let device = match self.kind {
            NewKind::Special(_, device) => device,
            _ => DeviceNumber::default(),
        };
        let new = NewInode { uid: self.uid, gid, device, ..NewInode::new(mode, now) };
        new.inherit(&directory.core, engine.geometry())
    }
}

impl FileSystem {
    /// Makes a file under a name, and opens it.
    ///
    /// # Errors
    /// The name exists or is impossible; not a directory, or one that has been removed or is immutable; too many
    /// directories in one; no space; damage; the device.
    #[doc(alias = "xfs_create")]
    #[doc(alias = "xfs_symlink")]
    pub fn create(&self, directory: &InodeHandle, name: &[u8], new: &NewFile<'_>) -> Result<InodeHandle> {
        check_name(name)?;
        let mut parent = directory.write();
        if is_dot(name) || lookup_to_change(self, &mut parent, name)?.is_some() {
            return Err(OperationError::Exists.into());
        }
        check_may_add(&parent)?;
        new.check()?;
        let links = parent.link_count();
        let makes_directory = matches!(new.kind, NewKind::Directory);
        if makes_directory && links >= MAX_LINKS {
            return Err(OperationError::TooManyLinks.into());
        }
        let forbids_links = parent.core.flags().contains(InodeFlags::NO_SYMLINKS);
        if forbids_links && matches!(new.kind, NewKind::Symlink(_)) {
            return Err(OperationError::NotPermitted.into());
        }
        let acls = self.new_file_acls(&parent, new.kind.file_type(), new.permissions, new.umask)?;
        let mut transaction = Transaction::begin_for(self, new.operation(&acls))?;
        let inode = take_new_inode(&mut transaction, &parent, new, &acls)?;
        // Others make files in this group meanwhile.
        transaction.give_back_groups();
        let slot = self.inode_table().insert_new(inode);
        let mut child = slot.lock();
        fill_new_inode(&mut transaction, &mut child, &parent, new, &acls)?;
        transaction.parent_pointers().add_parent_pointer(&mut child, pointer_to(&parent, name))?;
        transaction.directories().add_name(
            &mut parent,
            name,
            child.number,
            new.kind.file_type(),
            NameCheck::KnownToBeNew,
        )?;
        if makes_directory {
            parent.core.link_count = U32::new(links + 1);
        }
        touch_directory(&mut parent, self.now());
        transaction.store_inode(&mut child)?;
        transaction.store_inode(&mut parent)?;
        transaction.commit()?;
        drop(child);
        Ok(slot.into_handle())
    }

    /// Makes a file without a name near `directory`, and opens it. It goes with its last handle, unless
    /// [`link`](Self::link) gives it a name before; where `may_get_name` is false, it never gets one.
    ///
    /// # Errors
    /// Not a directory, or one that has been removed or is immutable; no space; damage; the device.
    #[doc(alias = "O_TMPFILE")]
    #[doc(alias = "xfs_create_tmpfile")]
    pub fn create_temporary(
        &self,
        directory: &InodeHandle,
        new: &NewFile<'_>,
        may_get_name: bool,
    ) -> Result<InodeHandle> {
        // Shared is enough: the directory stays as it is.
        let parent = directory.read();
        check_may_add(&parent)?;
        new.check()?;
        if matches!(new.kind, NewKind::Directory) {
            return Err(OperationError::InvalidArgument.into());
        }
        let acls = self.new_file_acls(&parent, new.kind.file_type(), new.permissions, new.umask)?;
        let mut transaction = Transaction::begin_for(self, new.operation(&acls))?;
        let mut inode = take_new_inode(&mut transaction, &parent, new, &acls)?;
        inode.set_link_count(0);
        let slot = self.inode_table().insert_new(inode);
        slot.handle().set_may_get_name(may_get_name);
        let mut child = slot.lock();
        fill_new_inode(&mut transaction, &mut child, &parent, new, &acls)?;
        transaction.store_inode(&mut child)?;
        transaction.unlinked_inodes().add_unlinked(child.number)?;
        transaction.commit()?;
        drop(child);
        Ok(slot.into_handle())
    }

    /// Gives a file a further name, or a temporary one its first.
    ///
    /// # Errors
    /// The name exists or is impossible; a directory, a file that is immutable or has been removed; another project's
    /// directory; too many names; no space; damage; the device.
    #[doc(alias = "xfs_link")]
    pub fn link(&self, file: &InodeHandle, directory: &InodeHandle, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let (mut parent, inode) = self.write_two(directory, file);
        if is_dot(name) || lookup_to_change(self, &mut parent, name)?.is_some() {
            return Err(OperationError::Exists.into());
        }
        check_may_add(&parent)?;
        // A directory in itself.
        let mut inode: InodeWriteGuard<'_> = inode.ok_or(OperationError::NotPermitted)?;
        check_may_change(&inode)?;
        if is_directory(&inode) {
            return Err(OperationError::NotPermitted.into());
        }
        let is_temporary = inode.link_count() == 0;
        if is_temporary && !file.may_get_name() {
            return Err(OperationError::NotFound.into());
        }
        if inode.link_count() >= MAX_LINKS {
            return Err(OperationError::TooManyLinks.into());
        }
        check_project(&parent, &inode)?;
        check_new_entry(self, &parent, name, &inode)?;
        let mut transaction = begin_or_in_place(self, Operation::Link, Operation::LinkInPlace, |tx| {
            link_fits(tx, &mut parent, name, &mut inode)
        })?;
        if is_temporary {
            transaction.unlinked_inodes().remove_unlinked(inode.number)?;
        }
        transaction.files().link(&mut parent, name, &mut inode, NameCheck::KnownToBeNew)?;
        let now = self.now();
        touch_directory(&mut parent, now);
        touch(&mut inode, now, &[TimeKind::Change]);
        transaction.store_inode(&mut inode)?;
        transaction.store_inode(&mut parent)?;
        transaction.commit()?;
        file.set_unlinked(false);
        Ok(())
    }
}

/// Allocates an inode. On ENOSPC it commits what the search changed: freed blocks of the free list and the like.
pub(super) fn take_new_inode(
    tx: &mut Transaction<'_>,
    parent: &EditInode,
    new: &NewFile<'_>,
    acls: &NewFileAcls,
) -> Result<EditInode> {
    let new_inode = new.inode(tx.engine(), parent, acls);
    let inode = tx.inodes().create_inode(parent.number, &new_inode);
    if let Err(Error::Operation(OperationError::NoSpace)) = inode {
        tx.commit()?;
    }
    inode
}

fn fill_new_inode(
    tx: &mut Transaction<'_>,
    inode: &mut EditInode,
    parent: &EditInode,
    new: &NewFile<'_>,
    acls: &NewFileAcls,
) -> Result<()> {
    match new.kind {
        NewKind::Directory => tx.directories().init_directory(inode, parent.number)?,
        NewKind::Symlink(target) => tx.symlinks().set_symlink_target(inode, target)?,
        NewKind::Regular | NewKind::Special(..) => {}
    }
    for (name, value) in new.attributes {
        tx.attributes().set_attribute(inode, *name, value, SetMode::Upsert)?;
    }
    tx.attributes().set_new_file_acls(inode, acls)
}

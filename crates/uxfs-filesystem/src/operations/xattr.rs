//! Extended attributes and access control lists of a live file system, under the names that Linux has for them.

use uxfs_format::attribute::{
    MAX_NAME_BYTES, MAX_VALUE_BYTES,
    posix_acl::{AclFault, PosixAcl, XATTR_VERSION},
};
use zerocopy::big_endian::U16;

use super::{
    check::{check_may_change, touch},
    create::SET_GROUP,
};
use crate::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_engine::{
    attribute::{AttributeName, SetMode},
    inode::edit::{EditInode, TimeKind, room::inline_extents_max},
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::{
    attribute::{
        Namespace,
        xattr::{ACL_ACCESS, ACL_DEFAULT, XattrView, stored_name},
    },
    error::{Error, OperationError, Result},
    inode::{FileType, Fork},
};

/// Which access control list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclKind {
    /// Of the file itself.
    Access,
    /// The default ACL of a directory, for new files in it.
    Default,
}

/// The meaning of an attribute name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning<'a> {
    Attribute(AttributeName<'a>),
    Acl(AclKind),
}

/// Most bytes of names that Linux lists, each with a zero byte.
#[doc(alias = "XATTR_LIST_MAX")]
pub const LIST_MAX_BYTES: usize = 65536;

/// Extents by which one removal can lengthen the list: a leaf goes, the nodes above it, a value.
const EXTENTS_OF_REMOVAL: usize = 7;

impl FileSystem {
    /// The value of an attribute, as `getxattr` gives it to root.
    ///
    /// # Errors
    /// [`OperationError::NoSuchAttribute`]; a name that cannot be; damage; the device.
    #[doc(alias = "xfs_xattr_get")]
    pub fn get_xattr(&self, file: &InodeHandle, name: &[u8]) -> Result<Vec<u8>> {
        check_length(name)?;
        let inode = file.read();
        if !may_have(&inode, name) {
            return Err(OperationError::NoSuchAttribute.into());
        }
        meaning_of(&inode, name)?;
        self.attributes(&inode)?.xattr(name)
    }

    /// The names of the attributes that a view has, of at most so many bytes, a zero byte each included: Linux lists
    /// [`LIST_MAX_BYTES`].
    ///
    /// # Errors
    /// [`OperationError::TooManyAttributes`]; damage; the device.
    #[doc(alias = "xfs_vn_listxattr")]
    pub fn list_xattrs(
        &self,
        file: &InodeHandle,
        view: XattrView,
        most_bytes: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let inode = file.read();
        self.attributes(&inode)?.xattr_names_within(view, most_bytes)
    }

    /// Gives an attribute a value, as `setxattr` does for root. Setting an access control list takes no notice of `mode`,
    /// as in Linux.
    ///
    /// # Errors
    /// `mode` does not allow it; an invalid name or value; a file that can have no such attribute, is immutable or only to
    /// be appended to; no space; damage; the device.
    #[doc(alias = "xfs_xattr_set")]
    pub fn set_xattr(&self, file: &InodeHandle, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        check_length(name)?;
        if value.len() > MAX_VALUE_BYTES as usize {
            return Err(OperationError::ValueTooLong.into());
        }
        // As in Linux a list must be one before the file is looked at.
        let acl = if matches!(name, ACL_ACCESS | ACL_DEFAULT) {
            let acl = PosixAcl::from_xattr(value).map_err(refusal_of)?;
            Some(acl).filter(|acl| !acl.entries.is_empty())
        } else {
            None
        };
        let mut inode = file.write();
        check_may_set(&inode, name)?;
        let name = match meaning_of(&inode, name)? {
            Meaning::Attribute(name) => name,
            Meaning::Acl(kind) => return set_acl_locked(self, &mut inode, kind, acl.as_ref(), true),
        };
        // At most 64 KiB.
        let operation = Operation::SetXattr { value_bytes: value.len() as u32 };
        change_attributes(self, &mut inode, operation, |transaction, inode| {
            transaction.attributes().set_attribute(inode, name, value, mode)
        })
    }

    /// Removes an attribute, as `removexattr` does for root. An access control list that is not there counts as removed.
    ///
    /// # Errors
    /// [`OperationError::NoSuchAttribute`]; otherwise as [`set_xattr`](Self::set_xattr).
    pub fn remove_xattr(&self, file: &InodeHandle, name: &[u8]) -> Result<()> {
        check_length(name)?;
        let mut inode = file.write();
        check_may_set(&inode, name)?;
        match meaning_of(&inode, name)? {
            Meaning::Attribute(name) => {
                let operation = removal_of(self, &inode);
                change_attributes(self, &mut inode, operation, |transaction, inode| {
                    transaction.attributes().remove_attribute(inode, name)
                })
            }
            Meaning::Acl(kind) => set_acl_locked(self, &mut inode, kind, None, true),
        }
    }

    /// An access control list, if there is one.
    ///
    /// # Errors
    /// Damage; the device.
    #[doc(alias = "xfs_get_acl")]
    pub fn get_acl(&self, file: &InodeHandle, kind: AclKind) -> Result<Option<PosixAcl>> {
        let inode = file.read();
        self.attributes(&inode)?.acl(kind.stored_name())
    }

    /// Sets an access control list, or removes it. An access list sets the permissions in the mode, and is not stored
    /// where these say all that it does; the set-group bit goes then, where the caller may not keep it: not being in the
    /// file's group, without special rights.
    ///
    /// # Errors
    /// A list that breaks Linux's rules, or on a file that can have none; otherwise as [`set_xattr`](Self::set_xattr).
    #[doc(alias = "xfs_set_acl")]
    pub fn set_acl(
        &self,
        file: &InodeHandle,
        kind: AclKind,
        acl: Option<&PosixAcl>,
        keeps_set_group: bool,
    ) -> Result<()> {
        let mut inode = file.write();
        check_may_change(&inode)?;
        if inode.file_type() == Some(FileType::SymbolicLink) {
            return Err(OperationError::UnknownNamespace.into());
        }
        set_acl_locked(self, &mut inode, kind, acl, keeps_set_group)
    }
}

impl AclKind {
    /// Of the trusted attribute that holds it.
    fn stored_name(self) -> &'static [u8] {
        use uxfs_format::attribute::posix_acl::{ACCESS_NAME, DEFAULT_NAME};
        match self {
            Self::Access => ACCESS_NAME,
            Self::Default => DEFAULT_NAME,
        }
    }
}

/// A list in a form that Linux had not yet heard of is one that it does not support.
fn refusal_of(fault: AclFault) -> OperationError {
    match fault {
        AclFault::Form { length_bytes, version } if length_bytes >= 4 && version != XATTR_VERSION => {
            OperationError::UnknownNamespace
        }
        fault => OperationError::InvalidAcl(fault),
    }
}

/// As for all system calls on attributes.
fn check_length(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(OperationError::XattrNameLength.into());
    }
    if name.contains(&0) {
        return Err(OperationError::InvalidName.into());
    }
    Ok(())
}

/// Users have attributes of their own only where permissions mean who may read and write the contents.
#[doc(alias = "xattr_permission")]
fn may_have(inode: &EditInode, name: &[u8]) -> bool {
    let is_plain = matches!(inode.file_type(), Some(FileType::Regular | FileType::Directory));
    is_plain || !name.starts_with(Namespace::User.prefix().as_bytes())
}

fn check_may_set(inode: &EditInode, name: &[u8]) -> Result<()> {
    check_may_change(inode)?;
    if may_have(inode, name) { Ok(()) } else { Err(OperationError::NotPermitted.into()) }
}

#[doc(alias = "xattr_resolve_name")]
fn meaning_of<'a>(inode: &EditInode, name: &'a [u8]) -> Result<Meaning<'a>> {
    let acl = match name {
        ACL_ACCESS => Some(AclKind::Access),
        ACL_DEFAULT => Some(AclKind::Default),
        _ => None,
    };
    if let Some(kind) = acl {
        // The mode of a symbolic link means nothing.
        let is_link = inode.file_type() == Some(FileType::SymbolicLink);
        return if is_link { Err(OperationError::UnknownNamespace.into()) } else { Ok(Meaning::Acl(kind)) };
    }
    if [Namespace::User, Namespace::Trusted, Namespace::Security]
        .iter()
        .any(|namespace| namespace.prefix().as_bytes() == name)
    {
        return Err(OperationError::InvalidName.into());
    }
    let (namespace, name, _) = stored_name(name).ok_or(OperationError::UnknownNamespace)?;
    Ok(Meaning::Attribute(AttributeName { namespace, name }))
}

fn set_acl_locked(
    file_system: &FileSystem,
    inode: &mut EditInode,
    kind: AclKind,
    acl: Option<&PosixAcl>,
    keeps_set_group: bool,
) -> Result<()> {
    if kind == AclKind::Default && inode.file_type() != Some(FileType::Directory) {
        return if acl.is_some() { Err(OperationError::AccessDenied.into()) } else { Ok(()) };
    }
    if let Some(acl) = acl {
        acl.verify_rules().map_err(OperationError::InvalidAcl)?;
    }
    let operation = match acl.map(|acl| u32::try_from(acl.encode().len()).unwrap_or(u32::MAX)) {
        Some(value_bytes) => Operation::SetXattr { value_bytes },
        None => removal_of(file_system, inode),
    };
    change_attributes(file_system, inode, operation, |transaction, inode| {
        match kind {
            AclKind::Access => transaction.attributes().set_access_acl(inode, acl)?,
            AclKind::Default => transaction.attributes().set_default_acl(inode, acl)?,
        }
        if kind == AclKind::Access && acl.is_some() && !keeps_set_group {
            inode.core.mode = U16::new(inode.core.mode.get() & !SET_GROUP);
        }
        Ok(())
    })
}

/// Removing needs blocks only where one is freed in the middle of an extent and the list of extents then does not fit
/// the inode: attributes can go from a full file system.
fn removal_of(file_system: &FileSystem, inode: &EditInode) -> Operation {
    let has_tree = inode.has_extent_tree(Fork::Attribute);
    let room = inline_extents_max(inode.fork_room_bytes(Fork::Attribute, file_system.geometry()));
    let may_come = inode.extents(Fork::Attribute).len().saturating_add(EXTENTS_OF_REMOVAL);
    if has_tree || may_come > room { Operation::Remove } else { Operation::Release }
}

/// One transaction. It refuses before anything has changed.
fn change_attributes(
    file_system: &FileSystem,
    inode: &mut EditInode,
    operation: Operation,
    change: impl FnOnce(&mut Transaction<'_>, &mut EditInode) -> Result<()>,
) -> Result<()> {
    let mut transaction = Transaction::begin_for(file_system, operation)?;
    if let Err(error) = change(&mut transaction, inode) {
        return match error {
            Error::Operation(OperationError::Exists | OperationError::NoSuchAttribute) => {
                transaction.commit().and(Err(error))
            }
            error => Err(error),
        };
    }
    touch(inode, file_system.now(), &[TimeKind::Change]);
    transaction.store_inode(inode)?;
    transaction.commit()
}

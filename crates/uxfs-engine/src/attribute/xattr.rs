//! Setting attributes under the names that Linux has for them.

use uxfs_format::attribute::posix_acl::{ACCESS_NAME, DEFAULT_NAME, PosixAcl};
use uxfs_format::inode::FileType;
use zerocopy::big_endian::U16;

use super::{AttributeName, Namespace, SetMode};
use uxfs_volume::attribute::xattr::{ACL_ACCESS, ACL_DEFAULT, stored_name};

use crate::attribute::editor::AttributeEditor;
use crate::inode::edit::EditInode;
use uxfs_volume::error::{Error, OperationError, Result};

/// The permission bits of a mode.
const PERMISSIONS: u16 = 0o777;

impl AttributeEditor<'_, '_> {
    /// Gives the attribute that Linux calls `name` a value, as `setxattr` does for root. Access control lists are
    /// checked and stored in their own form; the access list also sets the permissions in the mode, and is not stored
    /// where these say all that it does. The inode is not stored, its times are the caller's.
    ///
    /// # Errors
    /// A name of no namespace; a list that cannot be, or on a file that can have none; as for
    /// [`set_attribute`](Self::set_attribute).
    pub fn set_xattr(
        &mut self,
        inode: &mut EditInode,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        match name {
            ACL_ACCESS => self.set_access_acl(inode, acl_of(value)?.as_ref()),
            ACL_DEFAULT => self.set_default_acl(inode, acl_of(value)?.as_ref()),
            _ => self.set_attribute(inode, name_of(name)?, value, mode),
        }
    }

    /// Removes the attribute that Linux calls `name`, as `removexattr` does for root. An access control list that is
    /// not there counts as removed; the mode stays as it is.
    ///
    /// # Errors
    /// A name of no namespace; as for [`remove_attribute`](Self::remove_attribute).
    pub fn remove_xattr(&mut self, inode: &mut EditInode, name: &[u8]) -> Result<()> {
        match name {
            ACL_ACCESS => self.store_acl(inode, ACCESS_NAME, None),
            ACL_DEFAULT => self.store_acl(inode, DEFAULT_NAME, None),
            _ => self.remove_attribute(inode, name_of(name)?),
        }
    }

    /// Sets the access control list of a file, or removes it, and its permissions.
    ///
    /// # Errors
    /// A list that breaks Linux's rules; a symbolic link; as for [`set_attribute`](Self::set_attribute).
    #[doc(alias = "xfs_set_acl")]
    pub fn set_access_acl(&mut self, inode: &mut EditInode, acl: Option<&PosixAcl>) -> Result<()> {
        if inode.file_type() == Some(FileType::SymbolicLink) {
            return Err(OperationError::UnknownNamespace.into());
        }
        let Some(acl) = acl else { return self.store_acl(inode, ACCESS_NAME, None) };
        acl.verify_rules().map_err(OperationError::InvalidAcl)?;
        let (permissions, says_all) = acl.mode_bits();
        self.store_acl(inode, ACCESS_NAME, Some(acl).filter(|_| !says_all))?;
        inode.core.mode = U16::new(inode.core.mode.get() & !PERMISSIONS | permissions);
        Ok(())
    }

    /// Sets the access control list that new files in a directory get, or removes it.
    ///
    /// # Errors
    /// A list that breaks Linux's rules; no directory; as for [`set_attribute`](Self::set_attribute).
    pub fn set_default_acl(&mut self, inode: &mut EditInode, acl: Option<&PosixAcl>) -> Result<()> {
        match (inode.file_type(), acl) {
            (Some(FileType::Directory), _) => {}
            (Some(FileType::SymbolicLink), _) => return Err(OperationError::UnknownNamespace.into()),
            (_, None) => return Ok(()),
            _ => return Err(OperationError::AccessDenied.into()),
        }
        if let Some(acl) = acl {
            acl.verify_rules().map_err(OperationError::InvalidAcl)?;
        }
        self.store_acl(inode, DEFAULT_NAME, acl)
    }

    pub(super) fn store_acl(
        &mut self,
        inode: &mut EditInode,
        name: &[u8],
        acl: Option<&PosixAcl>,
    ) -> Result<()> {
        let name = AttributeName { namespace: Namespace::Trusted, name };
        if let Some(acl) = acl {
            return self.set_attribute(inode, name, &acl.encode(), SetMode::Upsert);
        }
        match self.remove_attribute(inode, name) {
            Err(Error::Operation(OperationError::NoSuchAttribute)) => Ok(()),
            result => result,
        }
    }
}

/// A list in the form of `setxattr`; one without entries is none.
fn acl_of(value: &[u8]) -> Result<Option<PosixAcl>> {
    let acl = PosixAcl::from_xattr(value).map_err(OperationError::InvalidAcl)?;
    Ok(Some(acl).filter(|acl| !acl.entries.is_empty()))
}

fn name_of(name: &[u8]) -> Result<AttributeName<'_>> {
    match stored_name(name) {
        Some((namespace, name, false)) => Ok(AttributeName { namespace, name }),
        _ => Err(OperationError::UnknownNamespace.into()),
    }
}

//! Attributes under the names that Linux shows them by: `user.…`, `trusted.…`, `security.…`, and the access control
//! lists as `system.posix_acl_access` and `system.posix_acl_default`.

use std::ops::ControlFlow;

use uxfs_format::{
    attribute::posix_acl::{self, PosixAcl},
    fault::{Corruption, Location, Structure},
};

use super::{Attribute, Namespace, reader::AttributeReader};
use crate::{
    error::{Error, OperationError, Result},
    tolerant::Finding,
};

/// Name of the access ACL.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the ACL that new files in a directory get.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";
/// Most bytes of names that [`AttributeReader::xattr_names`] gives, each with a zero byte: a bound on memory.
pub const MAX_NAMES_BYTES: usize = 4 << 20;

/// Which attributes are listed. ACLs are stored as trusted attributes, and so have two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XattrView {
    /// All attributes, for a copy; ACLs only under their `system.` names.
    #[default]
    Copy,
    /// The names that Linux lists to root: ACLs under both names, `system.` first.
    Root,
    /// The names that Linux lists to other users: nothing of `trusted.`.
    Unprivileged,
}

impl XattrView {
    /// Whether an attribute is listed under its own name, and under which other name.
    fn names_of(self, attribute: &Attribute<'_>) -> (bool, Option<&'static [u8]>) {
        let acl = acl_name(attribute);
        let own = match attribute.namespace {
            Namespace::User | Namespace::Security => true,
            Namespace::Trusted => match self {
                Self::Copy => acl.is_none(),
                Self::Root => true,
                Self::Unprivileged => false,
            },
            Namespace::Parent => false,
        };
        (own, acl)
    }
}

/// The `system.` name of an attribute that holds an ACL.
fn acl_name(attribute: &Attribute<'_>) -> Option<&'static [u8]> {
    match (attribute.namespace, attribute.name) {
        (Namespace::Trusted, posix_acl::ACCESS_NAME) => Some(ACL_ACCESS),
        (Namespace::Trusted, posix_acl::DEFAULT_NAME) => Some(ACL_DEFAULT),
        _ => None,
    }
}

/// Splits a name as Linux has it into where and under which name it is stored; `true` for an ACL.
pub fn stored_name(name: &[u8]) -> Option<(Namespace, &[u8], bool)> {
    match name {
        ACL_ACCESS => return Some((Namespace::Trusted, posix_acl::ACCESS_NAME, true)),
        ACL_DEFAULT => return Some((Namespace::Trusted, posix_acl::DEFAULT_NAME, true)),
        _ => {}
    }
    [Namespace::User, Namespace::Trusted, Namespace::Security].into_iter().find_map(|namespace| {
        let rest = name.strip_prefix(namespace.prefix().as_bytes())?;
        (!rest.is_empty()).then_some((namespace, rest, false))
    })
}

/// The name that Linux shows for a stored one.
fn shown_name(attribute: &Attribute<'_>) -> Vec<u8> {
    let mut name = attribute.namespace.prefix().as_bytes().to_vec();
    name.extend_from_slice(attribute.name);
    name
}

impl AttributeReader<'_> {
    /// Calls `visit` with name and value of every attribute that the view has, under the names that Linux shows, until it
    /// breaks or fails. Values are read one at a time. In a tolerant volume an attribute whose value cannot be read is a
    /// [`Finding::AttributeValue`] with its name.
    ///
    /// # Errors
    /// Damage; the device; what `visit` gives.
    pub fn visit_xattrs(
        &self,
        view: XattrView,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.visit(|attribute| {
            let (own, acl) = view.names_of(attribute);
            if !own && acl.is_none() {
                return Ok(ControlFlow::Continue(()));
            }
            let name = || acl.map_or_else(|| shown_name(attribute), <[u8]>::to_vec);
            let value = match self.value(&attribute.value) {
                Ok(value) => value,
                Err(error) => {
                    self.leave_out_value(name(), error)?;
                    return Ok(ControlFlow::Continue(()));
                }
            };
            if let Some(acl) = acl {
                match self.decode_acl(&value) {
                    Ok(list) if visit(acl, &list.to_xattr())?.is_break() => {
                        return Ok(ControlFlow::Break(()));
                    }
                    Ok(_) => {}
                    Err(error) => self.leave_out_value(name(), error)?,
                }
            }
            if own { visit(&shown_name(attribute), &value) } else { Ok(ControlFlow::Continue(())) }
        })
    }

    fn leave_out_value(&self, name: Vec<u8>, error: Error) -> Result<()> {
        let inode = self.inode.number;
        self.volume.pass_over(error, |error| Finding::AttributeValue { inode, name: name.into(), error })
    }

    /// The names of all attributes that the view has, as `listxattr` gives them.
    ///
    /// # Errors
    /// [`OperationError::TooManyAttributes`] past [`MAX_NAMES_BYTES`]; damage; the device.
    pub fn xattr_names(&self, view: XattrView) -> Result<Vec<Vec<u8>>> {
        self.xattr_names_within(view, MAX_NAMES_BYTES)
    }

    /// The names of all attributes that the view has, of at most so many bytes, a zero byte each included.
    ///
    /// # Errors
    /// [`OperationError::TooManyAttributes`]; damage; the device.
    pub fn xattr_names_within(&self, view: XattrView, most_bytes: usize) -> Result<Vec<Vec<u8>>> {
        let (mut names, mut total_bytes) = (Vec::new(), 0);
        let mut has_room = true;
        self.visit_xattr_names(view, &mut |name| {
            total_bytes += name.len() + 1;
            has_room = total_bytes <= most_bytes;
            if !has_room {
                return ControlFlow::Break(());
            }
            names.push(name.to_vec());
            ControlFlow::Continue(())
        })?;
        if !has_room {
            return Err(OperationError::TooManyAttributes.into());
        }
        Ok(names)
    }

    /// Calls `visit` with the name of every attribute that the view has, as Linux shows it, until it breaks. No value is read.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn visit_xattr_names(
        &self,
        view: XattrView,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.visit(|attribute| {
            let (own, acl) = view.names_of(attribute);
            if let Some(acl) = acl
                && visit(acl).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            Ok(if own { visit(&shown_name(attribute)) } else { ControlFlow::Continue(()) })
        })
    }

    /// The value of one attribute by the name that Linux shows, as `getxattr` gives it.
    ///
    /// # Errors
    /// [`OperationError::NoSuchAttribute`], [`OperationError::NameTooLong`], [`OperationError::UnknownNamespace`]; damage; the
    /// device.
    pub fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let (namespace, name, is_acl) = stored_name(name).ok_or(OperationError::UnknownNamespace)?;
        let value = self.get(namespace, name)?.ok_or(OperationError::NoSuchAttribute)?;
        if is_acl { Ok(self.decode_acl(&value)?.to_xattr()) } else { Ok(value) }
    }

    /// The access ACL of the inode beyond its mode, if it has one.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn access_acl(&self) -> Result<Option<PosixAcl>> {
        self.acl(posix_acl::ACCESS_NAME)
    }

    /// The ACL that new files in a directory get, if it has one.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn default_acl(&self) -> Result<Option<PosixAcl>> {
        self.acl(posix_acl::DEFAULT_NAME)
    }

    /// A list, by the name that it is stored under.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn acl(&self, name: &[u8]) -> Result<Option<PosixAcl>> {
        let value = self.get(Namespace::Trusted, name)?;
        value.map(|value| self.decode_acl(&value)).transpose()
    }

    fn decode_acl(&self, value: &[u8]) -> Result<PosixAcl> {
        PosixAcl::decode(value).map_err(|fault| {
            Corruption::new(Structure::AccessControlList, Location::of_inode(self.inode.number), fault).into()
        })
    }
}

//! Changing attributes.
//!
//! Few small attributes lie in the inode as a list; more in a leaf, or in leaves below the nodes of a tree of names.
//! Every change leaves the smallest form that fits, in both directions. Values too large for a leaf get blocks of their
//! own in the same fork, which are written before anything leads to them and are never logged.
//!
//! ```text
//! no fork ──▶ list in the inode ◀──▶ one leaf ◀──▶ tree of leaves
//!    ▲────────────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | here | what is set and removed, and from which form to which |
//! | `shortform` | the list in the inode |
//! | `tree` | leaves, alone or in a tree |
//! | `leaves` | what the tree of names must know about leaves |
//! | `store` | blocks of the fork, values of their own |
//! | `fork` | making room for the fork, and taking it away |
//! | [`xattr`] | names and values as Linux has them, access control lists |

// Transactions land on it.
#![allow(dead_code)]

mod leaves;
mod tree;
#[cfg(test)]
mod tree_tests;

use crate::error::{OperationError, Result};
use uxfs_format::{
    attribute::{MAX_NAME_BYTES, flags::Namespace, is_valid_name, parent_pointer},
    directory::name_hash::{self, NameRule},
    geometry::Geometry,
};

/// An attribute by what Linux calls it, the namespace apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeName<'a> {
    /// Where the name belongs. Parent pointers have functions of their own.
    pub namespace: Namespace,
    /// 1 to 255 bytes, none of them zero.
    pub name: &'a [u8],
}

/// What setting an attribute demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetMode {
    /// That it has the value afterwards.
    #[default]
    Upsert,
    /// That there was none.
    #[doc(alias = "XATTR_CREATE")]
    Create,
    /// That there was one.
    #[doc(alias = "XATTR_REPLACE")]
    Replace,
}

impl SetMode {
    fn check(self, exists: bool) -> Result<()> {
        match (self, exists) {
            (Self::Create, true) => Err(OperationError::Exists.into()),
            (Self::Replace, false) => Err(OperationError::NoSuchAttribute.into()),
            _ => Ok(()),
        }
    }
}

/// An attribute to be found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    namespace: Namespace,
    name: &'a [u8],
    hash: u32,
    /// Only an attribute with this value is meant: a parent pointer is its name and its value.
    value: Option<&'a [u8]>,
}

impl<'a> Target<'a> {
    /// # Errors
    /// No name that an attribute of this namespace can have.
    fn of(name: &AttributeName<'a>) -> Result<Self> {
        let AttributeName { namespace, name } = *name;
        if namespace == Namespace::Parent {
            return Err(OperationError::UnknownNamespace.into());
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(OperationError::NameTooLong.into());
        }
        if !is_valid_name(namespace.flags(), name) {
            return Err(OperationError::InvalidName.into());
        }
        Ok(Self { namespace, name, hash: name_hash::hash(name), value: None })
    }

    /// The parent pointer with this name and value.
    pub(crate) fn of_parent_pointer(name: &'a [u8], value: &'a [u8], geometry: &Geometry) -> Self {
        let hash = parent_pointer::hash_of(name, value, NameRule::of(geometry));
        Self { namespace: Namespace::Parent, name, hash, value: Some(value) }
    }
}

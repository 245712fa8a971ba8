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
//! | [`editor`] | the view of a transaction that changes attributes |
//! | `shortform` | the list in the inode |
//! | `tree` | leaves, alone or in a tree |
//! | `leaves` | what the tree of names must know about leaves |
//! | `hint` | the way to the leaf that was used last |
//! | `store` | blocks of the fork, values of their own |
//! | `fork` | making room for the fork, and taking it away |
//! | [`xattr`] | names and values as Linux has them, access control lists |
//! | [`acl`] | lists that new files inherit, and that follow a change of the mode |

pub mod acl;
pub mod editor;
mod fork;
pub mod hint;
mod leaves;
mod shortform;
mod store;
mod tree;
#[cfg(test)]
mod tree_tests;
pub mod xattr;

use uxfs_format::{
    attribute::{
        MAX_NAME_BYTES, MAX_VALUE_BYTES,
        flags::Namespace,
        is_valid_name,
        leaf::{LeafBlock, LeafValue},
        leaf_edit::NewAttribute,
        parent_pointer,
        shortform::Shortform,
        shortform_edit,
    },
    directory::name_hash::{self, NameRule},
    geometry::Geometry,
};

use self::{
    store::AttributeFork,
    tree::{AttributeTree, ROOT},
};
use crate::attribute::editor::AttributeEditor;
use crate::inode::edit::{EditInode, InodeFork};
use crate::name_tree::ForkStore;
use uxfs_volume::error::{OperationError, Result};

/// An attribute by what Linux calls it, the namespace apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeName<'a> {
    /// Where the name belongs. Parent pointers have functions of their own.
    pub namespace: Namespace,
    /// 1 to 255 bytes, none of them zero.
    pub name: &'a [u8],
}

/// The condition of setting an attribute.
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
pub struct Target<'a> {
    namespace: Namespace,
    name: &'a [u8],
    hash: u32,
    /// Only an attribute with this value is meant: a parent pointer is its name and its value.
    value: Option<&'a [u8]>,
    /// An attribute is meant that Linux had begun to make or to remove.
    is_half_made: bool,
}

impl<'a> Target<'a> {
    /// # Errors
    /// No name that an attribute of this namespace can have.
    pub fn of(name: &AttributeName<'a>) -> Result<Self> {
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
        Ok(Self { namespace, name, hash: name_hash::hash(name), value: None, is_half_made: false })
    }

    /// The parent pointer with this name and value.
    pub fn of_parent_pointer(name: &'a [u8], value: &'a [u8], geometry: &Geometry) -> Self {
        let hash = parent_pointer::hash_of(name, value, NameRule::of(geometry));
        Self { namespace: Namespace::Parent, name, hash, value: Some(value), is_half_made: false }
    }
}

impl AttributeEditor<'_, '_> {
    /// Gives an attribute a value. The inode is not stored.
    ///
    /// # Errors
    /// `mode` forbids it ([`Exists`](OperationError::Exists), [`NoSuchAttribute`](OperationError::NoSuchAttribute));
    /// a name or value that cannot be; no space; damage; the device.
    #[doc(alias = "xfs_attr_set")]
    pub fn set_attribute(
        &mut self,
        inode: &mut EditInode,
        name: AttributeName<'_>,
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        let target = Target::of(&name)?;
        if value.len() > MAX_VALUE_BYTES as usize {
            return Err(OperationError::ValueTooLong.into());
        }
        self.set_target(inode, &target, value, mode)
    }

    /// Removes an attribute. The inode is not stored.
    ///
    /// # Errors
    /// There is none of this name; damage; the device.
    #[doc(alias = "xfs_attr_remove")]
    pub fn remove_attribute(&mut self, inode: &mut EditInode, name: AttributeName<'_>) -> Result<()> {
        self.remove_target(inode, &Target::of(&name)?)
    }

    /// The value of an attribute of an inode that is being changed.
    ///
    /// # Errors
    /// A name that cannot be; damage; the device.
    pub fn attribute(&mut self, inode: &mut EditInode, name: AttributeName<'_>) -> Result<Option<Vec<u8>>> {
        self.value_of_target(inode, &Target::of(&name)?)
    }

    /// The value of one attribute; `None` where there is none.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn value_of_target(&mut self, inode: &mut EditInode, target: &Target<'_>) -> Result<Option<Vec<u8>>> {
        match &inode.attribute {
            None | Some(InodeFork::Device(_)) => Ok(None),
            Some(InodeFork::Local(bytes)) => Ok(shortform::get(bytes, target).map(<[u8]>::to_vec)),
            Some(InodeFork::Extents(extents)) if extents.extents.is_empty() => Ok(None),
            Some(InodeFork::Extents(_)) => {
                AttributeTree::new(&mut AttributeFork::new(self.transaction, inode)).get(target)
            }
        }
    }

    /// Sets one attribute, as `mode` allows. The inode is not stored.
    ///
    /// # Errors
    /// `mode` forbids it; no space; damage; the device.
    pub fn set_target(
        &mut self,
        inode: &mut EditInode,
        target: &Target<'_>,
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        if inode.attribute.is_none() {
            mode.check(false)?;
            let bytes = shortform_edit::HEADER_BYTES + shortform_edit::entry_bytes(target.name, value.len());
            self.make_attribute_fork(inode, bytes)?;
        }
        let mut mode = mode;
        if is_list(inode) {
            let geometry = self.transaction.engine().geometry();
            let outcome = shortform::set(inode, target, value, mode, geometry);
            if !matches!(outcome, Ok(shortform::Outcome::NoRoom)) {
                shortform::normalise(inode);
                return outcome.map(|_| ());
            }
            // The list has been compared with the mode.
            mode = SetMode::Upsert;
            self.list_to_leaf(inode)?;
        }
        let existed =
            AttributeTree::new(&mut AttributeFork::new(self.transaction, inode)).set(target, value, mode)?;
        // What was replaced may have been all that kept the attributes out of the inode.
        if existed { self.leaf_to_list(inode) } else { Ok(()) }
    }

    /// Removes one attribute. The inode is not stored.
    ///
    /// # Errors
    /// [`NoSuchAttribute`](OperationError::NoSuchAttribute); damage; the device.
    pub fn remove_target(&mut self, inode: &mut EditInode, target: &Target<'_>) -> Result<()> {
        if inode.attribute.is_none() {
            return Err(OperationError::NoSuchAttribute.into());
        }
        if is_list(inode) {
            let removed = shortform::remove(inode, target);
            shortform::normalise(inode);
            removed?;
        } else {
            if !AttributeTree::new(&mut AttributeFork::new(self.transaction, inode)).remove(target)? {
                return Err(OperationError::NoSuchAttribute.into());
            }
            self.leaf_to_list(inode)?;
        }
        self.drop_empty_attribute_fork(inode)
    }

    /// Removes what Linux had begun to make or to remove under a name of leaves: before it has a value's blocks it is marked, and
    /// only then again when it has lost them, so that there are none. Blocks of a value that was being written stay in the
    /// fork, as in Linux.
    pub fn remove_half_made(&mut self, inode: &mut EditInode, target: &Target<'_>) -> Result<()> {
        if inode.attribute.is_none() || is_list(inode) {
            return Ok(());
        }
        let target = Target { is_half_made: true, ..*target };
        let mut fork = AttributeFork::new(self.transaction, inode);
        // At most one for what was to come, and one for what was to go.
        for _ in 0..2 {
            if !AttributeTree::new(&mut fork).remove(&target)? {
                break;
            }
        }
        Ok(())
    }

    /// Puts one attribute in the place of another, in one step: in the inode the list never grows by more than the new
    /// one is longer; in leaves the new one comes before the old one goes, so that they do not go back and forth between
    /// two forms.
    pub fn replace_target(
        &mut self,
        inode: &mut EditInode,
        old: &Target<'_>,
        new: &Target<'_>,
        value: &[u8],
    ) -> Result<()> {
        let geometry = self.transaction.engine().geometry();
        if inode.attribute.is_none() {
            return Err(OperationError::NoSuchAttribute.into());
        }
        if is_list(inode) && shortform::replace(inode, old, new, value, geometry)? == shortform::Outcome::Done
        {
            return Ok(());
        }
        self.set_target(inode, new, value, SetMode::Create)?;
        self.remove_target(inode, old)
    }

    /// Whether an attribute that is not there can come, in the place of another or beside all, without a new block. Its
    /// value is one for a leaf. `sketch` is one of the inode, and changes where the attributes lie in it.
    pub fn target_fits(
        &mut self,
        inode: &mut EditInode,
        sketch: &mut EditInode,
        old: Option<&Target<'_>>,
        new: &Target<'_>,
        value: &[u8],
    ) -> Result<bool> {
        let geometry = self.transaction.engine().geometry();
        if is_list(sketch) {
            let outcome = match old {
                Some(old) => shortform::replace(sketch, old, new, value, geometry)?,
                None => shortform::set(sketch, new, value, SetMode::Create, geometry)?,
            };
            return Ok(outcome == shortform::Outcome::Done);
        }
        if inode.attribute.is_none() {
            return Ok(false);
        }
        AttributeTree::new(&mut AttributeFork::new(self.transaction, inode)).has_room(new, value)
    }

    /// Moves the attributes from the inode into a leaf.
    fn list_to_leaf(&mut self, inode: &mut EditInode) -> Result<()> {
        let rule = NameRule::of(self.transaction.engine().geometry());
        let list = match inode.attribute.replace(InodeFork::empty()) {
            Some(InodeFork::Local(list)) => list,
            _ => Vec::new(),
        };
        let mut store = AttributeFork::new(self.transaction, inode);
        let mut tree = AttributeTree::new(&mut store);
        tree.make_root()?;
        let Ok(attributes) = Shortform::parse(&list).map(|list| list.attributes()) else { return Ok(()) };
        for attribute in attributes.map_while(std::result::Result::ok) {
            let hash = match attribute.flags.namespace() {
                Some(Namespace::Parent) => parent_pointer::hash_of(attribute.name, attribute.value, rule),
                _ => name_hash::hash(attribute.name),
            };
            let value = LeafValue::Local(attribute.value);
            tree.add(&NewAttribute { hash, flags: attribute.flags, name: attribute.name, value })?;
        }
        Ok(())
    }

    /// Moves the attributes back into the inode if they are in one leaf and fit.
    fn leaf_to_list(&mut self, inode: &mut EditInode) -> Result<()> {
        // A tree, or values of their own.
        let InodeFork::Extents(extents) = inode.attribute.as_ref().unwrap_or(&InodeFork::Device(0)) else {
            return Ok(());
        };
        let Some(extent) = extents.extents.first().filter(|_| extents.extents.len() == 1) else {
            return Ok(());
        };
        if extent.length_blocks != 1 || extent.file_block != ROOT {
            return Ok(());
        }
        let geometry = self.transaction.engine().geometry();
        let mut store = AttributeFork::new(self.transaction, inode);
        let structure = store.index_structure();
        let buffer = store.edit(structure, ROOT)?;
        let list = LeafBlock::of_block(&buffer)
            .and_then(|leaf| shortform::list_from_leaf(&leaf, geometry.literal_size_bytes()));
        drop(buffer);
        // As long as any inode is: shorter than 64 KiB.
        let Some(list) = list else { return Ok(()) };
        let Some(offset_bytes) = inode.attribute_offset_for(list.len() as u32, geometry) else {
            return Ok(());
        };
        AttributeFork::new(self.transaction, inode).free(ROOT)?;
        inode.attribute = Some(InodeFork::Local(list));
        inode.attribute_offset_bytes = offset_bytes;
        shortform::normalise(inode);
        Ok(())
    }
}

/// Whether the attributes lie in the inode. An empty fork counts as an empty list.
fn is_list(inode: &EditInode) -> bool {
    match &inode.attribute {
        Some(InodeFork::Local(_)) => true,
        Some(InodeFork::Extents(extents)) => extents.extents.is_empty(),
        Some(InodeFork::Device(_)) | None => false,
    }
}

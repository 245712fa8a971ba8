//! Parent pointers: from an inode to the directories that name it, without a search.
//!
//! | module | holds |
//! |---|---|
//! | here | the parent pointers of one inode |
//! | [`paths`] | all paths of an inode |

pub mod paths;

use std::ops::ControlFlow;

use uxfs_format::{
    attribute::parent_pointer::ParentRecord,
    fault::{Corruption, Location, Structure},
    units::InodeNumber,
};

use crate::{
    attribute::{Attribute, AttributeValue, Namespace},
    error::{Error, OperationError, Result},
    inode::Inode,
    volume::Volume,
};

/// One parent pointer: a name that an inode has in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentPointer<'a> {
    /// The directory.
    pub parent: InodeNumber,
    /// The directory's generation when the name was made.
    pub generation: u32,
    /// The name; never empty, never with a slash or zero byte.
    pub name: &'a [u8],
}

impl Volume {
    /// Calls `visit` for every parent pointer of an inode until it breaks or fails: one for each name of it, in no
    /// order that means anything. The root directory has none.
    ///
    /// # Errors
    /// [`OperationError::NoParentPointers`] where the file system keeps none; damage; the device.
    pub fn visit_parent_pointers(
        &self,
        inode: &Inode,
        mut visit: impl FnMut(ParentPointer<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        if !self.geometry().features.has_parent_pointers() {
            return Err(OperationError::NoParentPointers.into());
        }
        let number = inode.number;
        self.attributes(inode)?.visit(|attribute| {
            if attribute.namespace != Namespace::Parent {
                return Ok(ControlFlow::Continue(()));
            }
            match self.parent_pointer(number, attribute) {
                Ok(pointer) => visit(pointer),
                Err(error) => self.leave_out(error).map(|()| ControlFlow::Continue(())),
            }
        })
    }

    /// The parent pointers of an inode, at most `most` of them. `false` where there are more.
    ///
    /// # Errors
    /// As [`visit_parent_pointers`](Self::visit_parent_pointers).
    pub fn parent_pointers(&self, inode: &Inode, most: usize) -> Result<(Vec<OwnedParentPointer>, bool)> {
        let (mut pointers, mut complete) = (Vec::new(), true);
        self.visit_parent_pointers(inode, |pointer| {
            if pointers.len() == most {
                complete = false;
                return Ok(ControlFlow::Break(()));
            }
            let ParentPointer { parent, generation, name } = pointer;
            pointers.push(OwnedParentPointer { parent, generation, name: name.into() });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((pointers, complete))
    }

    fn parent_pointer<'a>(&self, inode: InodeNumber, attribute: &Attribute<'a>) -> Result<ParentPointer<'a>> {
        let corrupt = |fault| -> Error {
            let location = Location::of_inode(inode);
            Corruption::new(Structure::ParentPointer, location, fault).into()
        };
        // A value elsewhere is longer than any parent pointer's.
        let value = match attribute.value {
            AttributeValue::Local(value) => value,
            AttributeValue::Remote { .. } => &[],
        };
        ParentRecord::verify(value, self.geometry()).map_err(corrupt)?;
        let record = ParentRecord::parse(value).map_err(corrupt)?;
        let parent = InodeNumber::new(record.inode.get());
        Ok(ParentPointer { parent, generation: record.generation.get(), name: attribute.name })
    }
}

/// A parent pointer of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedParentPointer {
    /// The directory.
    pub parent: InodeNumber,
    /// The directory's generation when the name was made.
    pub generation: u32,
    /// The name.
    pub name: Box<[u8]>,
}

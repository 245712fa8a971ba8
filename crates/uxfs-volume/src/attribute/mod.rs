//! Extended attributes and access control lists.
//!
//! | module | holds |
//! |---|---|
//! | here | what an attribute is |
//! | [`reader`] | the view through which the attributes of an inode are read; their form |
//! | [`visit`] | all attributes of an inode, one after the other |
//! | [`get`] | one attribute by name, by hash |
//! | `parent` | one parent pointer |
//! | [`value`] | values in blocks of their own |
//! | [`xattr`] | the names and values that Linux shows |
//! | `leaves` | all leaves of a fork, also of a damaged one |
//! | [`leaf_use`] | how full leaves are |

pub mod get;
pub mod leaf_use;
mod leaves;
pub mod parent;
pub mod reader;
pub mod value;
pub mod visit;
pub mod xattr;

pub use uxfs_format::attribute::flags::Namespace;
use uxfs_format::{
    attribute::leaf::{LeafAttribute, LeafValue},
    units::FileBlock,
};

/// One attribute, as it lies on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Where its name belongs. Parent pointers are attributes, too.
    pub namespace: Namespace,
    /// Its name without the namespace, in whatever encoding; 1 to 255 bytes.
    pub name: &'a [u8],
    /// Its value, or where that lies.
    pub value: AttributeValue<'a>,
}

/// Where a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// At hand.
    Local(&'a [u8]),
    /// In blocks of its own: [`AttributeReader::value`](reader::AttributeReader::value) reads it.
    Remote {
        /// First block in the attribute fork.
        first_block: FileBlock,
        /// Bytes, at most 65536.
        length_bytes: u32,
    },
}

impl AttributeValue<'_> {
    /// Bytes in the value.
    pub fn length_bytes(&self) -> usize {
        match self {
            Self::Local(value) => value.len(),
            Self::Remote { length_bytes, .. } => *length_bytes as usize,
        }
    }
}

impl<'a> Attribute<'a> {
    /// An attribute of a leaf; `None` for one that is half made or half removed.
    fn of_leaf(attribute: LeafAttribute<'a>) -> Option<Self> {
        let value = match attribute.value {
            LeafValue::Local(value) => AttributeValue::Local(value),
            LeafValue::Remote { first_block, length_bytes } => {
                AttributeValue::Remote { first_block, length_bytes }
            }
        };
        // The verifier allows one namespace only.
        let namespace = attribute.flags.namespace()?;
        attribute.is_complete().then_some(Self { namespace, name: attribute.name, value })
    }
}

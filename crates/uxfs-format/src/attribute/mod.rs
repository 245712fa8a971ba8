//! Extended attributes: names and values of an inode, in namespaces.
//!
//! Few small ones lie inside the inode (*shortform*); more in one *leaf* block, or in leaves below the interior blocks
//! of a [name tree](crate::name_tree). Values too large for a leaf lie in *remote* blocks of the same fork.
//!
//! | module | holds |
//! |---|---|
//! | [`flags`] | namespaces and flags |
//! | [`shortform`], [`shortform_edit`] | the form inside the inode, and changing it |
//! | [`leaf`], [`leaf_edit`] | leaf blocks, and changing them |
//! | [`remote`] | blocks of large values |
//! | [`posix_acl`], [`posix_acl_mode`] | access control lists, and how a mode follows from them |
//! | [`parent_pointer`] | the attributes that name an inode's parents |

pub mod flags;
pub mod leaf;
pub mod leaf_edit;
pub mod parent_pointer;
pub mod posix_acl;
pub mod posix_acl_mode;
pub mod remote;
pub mod shortform;
pub mod shortform_edit;

use crate::directory;
use flags::AttributeFlags;

/// The longest name, in bytes, without its namespace.
pub const MAX_NAME_BYTES: usize = 255;
/// The largest value.
#[doc(alias = "XATTR_SIZE_MAX")]
pub const MAX_VALUE_BYTES: u32 = 65536;

/// Whether a name can be that of an attribute with these flags: not empty and without a zero byte; a parent pointer's
/// is the name of a directory entry.
pub fn is_valid_name(flags: AttributeFlags, name: &[u8]) -> bool {
    if flags.contains(AttributeFlags::PARENT) {
        return directory::is_valid_name(name);
    }
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(&0)
}

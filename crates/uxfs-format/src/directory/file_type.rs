//! The file type that entries carry: a copy of what the inode says, so that readers need not look there.

pub use crate::inode::FileType;

/// The code of "not kept".
#[doc(alias = "XFS_DIR3_FT_UNKNOWN")]
pub const UNKNOWN: u8 = 0;
/// The code of a hole in the upper layer of an overlay: for Linux a character device 0:0.
#[doc(alias = "XFS_DIR3_FT_WHT")]
pub const WHITEOUT: u8 = 8;

/// Whether an entry may carry this code.
#[inline]
pub const fn is_known_code(code: u8) -> bool {
    code <= WHITEOUT
}

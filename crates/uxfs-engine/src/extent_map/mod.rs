//! Changing where the contents of a fork lie.
//!
//! All changes are made in the list of extents of an [`EditInode`](crate::inode::edit::EditInode); where the list does not
//! fit the inode, the same change is made in the fork's btree. Blocks are allocated and mapped here; what else must
//! know of it (reverse maps, reference counts, free space) learns it through deferred work.
//!
//! ```text
//! map_blocks ──▶ allocate ──▶ list: what changes ──▶ the list, and the btree if there is one ──▶ deferred: owners
//! unmap_blocks ─────────────▶ list: what changes ──▶ the list, and the btree if there is one ──▶ deferred: owners, free
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `list` | what a change comes to, as pure functions |
//! | [`editor`] | the view of a transaction that changes extent maps |
//! | [`limits`] | how much one step changes |
//! | [`map`] | allocating and mapping blocks |
//! | [`unmap`] | taking blocks away |
//! | [`remap`] | mapping and unmapping blocks that stay in use |
//! | [`convert`] | written and unwritten |
//! | [`shift`] | other file blocks for the same blocks on disk |
//! | [`own_blocks`] | whether blocks are the file's own, before they are written in place |
//! | [`ready`] | whether a change will find room, before it begins |
//! | `splice` | making a change: in the list, in the btree, from one to the other |
//! | `tree` | the btree's blocks |
//! | `hint` | where the last change of the btree was made, and which extents are known to be the file's own |
//! | [`fork_offset`] | moving the border between the forks |
//! | [`sectors`] | where blocks of a fork lie on the device |

pub mod convert;
pub mod editor;
pub mod fork_offset;
pub mod hint;
pub mod limits;
pub mod list;
pub mod map;
pub mod own_blocks;
pub mod ready;
pub mod remap;
pub mod sectors;
pub mod shift;
mod splice;
mod tree;
pub mod unmap;

pub use limits::{ATOMIC_EXTENTS, STEP_EXTENTS};
pub use splice::{refuse_realtime, refuse_realtime_blocks};

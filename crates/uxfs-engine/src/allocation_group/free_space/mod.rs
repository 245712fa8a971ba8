//! Free extents of a group: allocating and freeing.
//!
//! | module | holds |
//! |---|---|
//! | [`choose`] | which free blocks to take |
//! | [`allocate`] | allocating and freeing in one group |
//! | `owned` | whether free extents are owned all the same |
//! | [`extents`](self) | both trees and the header's counts, kept in step |
//! | [`free_list`] | the blocks kept for the trees that allocating changes |
//! | [`reservation`] | the blocks kept for the growth of a group's trees |
//!
//! Invariants, cited by the tests:
//! 1. Both trees hold the same extents; no two of them touch.
//! 2. The header's free blocks are the sum of the extents, and its longest is the last by length.
//! 3. The superblock counts blocks as free that lie in the trees of extents, on the free list, or in blocks of the
//!    free space and reverse map trees other than their roots.
//! 4. Before each operation the free list has exactly the length that two whole splits of each tree on it need, so that no
//!    split inside the operation can find it empty.
//! 5. What is kept for the group's trees (list and [reservation](reservation::Reservation)) is never given to others.
//! 6. Blocks on the free list and of the trees that live on it belong to the group's btrees in the reverse map.

pub mod allocate;
pub mod choose;
mod extents;
pub mod free_list;
pub mod owned;
pub mod reservation;

/// The use of blocks: trees that have a reservation may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Contents of files.
    Data,
    /// Directories, attributes, extent maps, inode chunks, the inode tree.
    Metadata,
    /// Blocks of the tree of chunks with free inodes.
    FreeInodeBtree,
    /// Blocks of the reference count tree.
    ReferenceCountBtree,
}

//! Inodes that are changed. What lies on disk is read by [`uxfs_volume::inode`].
//!
//! | module | holds |
//! |---|---|
//! | [`edit`] | an inode that is being changed |
//! | [`create`] | new inodes |
//! | [`allocator`] | the view of a transaction that allocates and frees inodes |
//! | `allocate` | finding free inodes, making chunks of new ones |
//! | `destroy` | freeing an inode with all that it holds |
//! | `free` | giving inodes back |
//! | [`unlinked`] | the AGI unlinked lists |

mod allocate;
pub mod allocator;
pub mod create;
pub mod destroy;
pub mod edit;
mod free;
pub mod unlinked;

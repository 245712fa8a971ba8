//! Inodes that are changed. What lies on disk is read by [`uxfs_volume::inode`].
//!
//! | module | holds |
//! |---|---|
//! | [`edit`] | an inode that is being changed |
//! | [`create`] | new inodes |
//! | `allocate` | finding free inodes, making chunks of new ones |
//! | `destroy` | freeing an inode with all that it holds |
//! | `free` | giving inodes back |
//! | [`unlinked`] | the lists of inodes without a name |

mod allocate;
pub mod allocator;
pub mod create;
pub mod destroy;
pub mod edit;
mod free;
pub mod unlinked;

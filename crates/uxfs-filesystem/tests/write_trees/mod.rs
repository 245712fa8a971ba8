//! Changing the trees of groups, against models in memory and against `xfs_repair`.
//!
//! Images are made by `mkfs.xfs`; each test leaves them as they were, as far as `xfs_repair -n` can tell, which must then
//! have nothing to say. On the way all invariants of the trees are checked block by block.

mod check;
mod damage;
mod extent_roots;
mod free_space;
mod golden;
mod records;

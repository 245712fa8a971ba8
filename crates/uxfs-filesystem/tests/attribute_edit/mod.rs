//! Attributes, parent pointers and symbolic links that we change in images made by `mkfs.xfs` and populated by the
//! kernel: our own reader, `xfs_repair` and the kernel find what we have set, in every form and on the way between
//! any two.

mod acl;
mod damage;
mod files;
mod fixture;
mod links;
mod many;
mod operations;
mod parents;
mod random;

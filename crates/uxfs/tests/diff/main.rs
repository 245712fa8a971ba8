//! `uxfs diff`: against what was changed, and against rsync and GNU diff on the kernel's mounts of both images.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/damaged.rs"]
mod damage;
mod damaged;
mod hostile;
mod mutations;
#[path = "../common/random_tree.rs"]
mod random_tree;
mod snapshot;
mod trees;
mod unified;
mod usage;

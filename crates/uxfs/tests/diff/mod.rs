//! `uxfs diff`: against what was changed, and against rsync and GNU diff on the kernel's mounts of both images.

mod damaged;
mod hostile;
mod mutations;
mod snapshot;
mod trees;
mod unified;
mod usage;

use crate::common;
use crate::common::damaged as damage;
use crate::common::random_tree;

//! Rescues of damaged images and of devices that cannot read some ranges.
//!
//! Promises, for any damage that leaves contents of files alone or that the device tells:
//! 1. A rescue ends with a manifest or an error: no panic, no hang.
//! 2. What it calls whole has the type, the size and the bytes that the kernel saw in the sound image, at the same path;
//!    below a directory that is not whole, those of its inode.
//! 3. What else the kernel saw of it (permissions, owner, modification time) is the same, unless a field of which there is one copy only was
//!    damaged.
//!
//! | module | holds |
//! |---|---|
//! | [`cases`] | kinds of damage, and a damaged device for each number |
//! | [`ledger`] | a target of rescues that keeps a sum of each file |
//! | [`truth`] | what the kernel saw, and the comparison |

pub mod cases;
pub mod ledger;
pub mod truth;

pub use cases::{Case, Kind};
pub use truth::{Counts, Truth};

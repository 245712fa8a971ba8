//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Files out of a damaged image or a failing device, best first, with a manifest that tells of each whether it is whole.
//!
//! ```text
//! device ─▶ RescueDevice (read errors, map) ─▶ View (as repaired, else tolerantly) ─▶ Evidence (what is doubtful)
//!     ─▶ walks: directories, small whole files, large ones, files in part, inferred ones ─▶ what no walk reached ─▶ what is lost
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`device`] | a device that never fails to be read, and knows what was not |
//! | [`map`] | map files of GNU ddrescue |
//! | [`state`] | whole, perhaps older, inferred, partial, lost; a line of the manifest |
//! | [`log`] | whether the log may hold newer changes that cannot be read |
//! | [`view`] | the image as a repair would leave it, or what can be read of it without |
//! | [`evidence`] | inodes and blocks that a repair or a check leaves in doubt |
//! | [`judge`] | what can be had of one file |
//! | [`choice`] | which paths are wanted |
//! | [`taken_names`] | names that files of which something is missing do not get |
//! | [`target`] | what a rescue needs of a directory or an archive |
//! | [`deliver`] | one file to the target |
//! | [`walk`] | the walks, in the order of what is best |
//! | [`strays`] | inodes that nothing leads to |
//! | [`run`] | a rescue from its beginning to its end |
//!
//! Invariants:
//! 1. Nothing is written to the image.
//! 2. A file is called whole only if all its bytes were read from blocks that its extent map gives, no block of them is known to be
//!    unreadable or claimed by something else, and every structure that describes it passed a check or was rebuilt from a second
//!    witness that says all of it; and no log that was not replayed in full may hold a newer change of it.
//! 3. A regular file has its name in the target only when it is complete; before, and for good where a part is missing, it is called
//!    `NAME.partial`.
//! 4. No byte from the image decides about memory: lists are bounded, and walks enter each directory once.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod choice;
pub mod deliver;
pub mod device;
pub mod evidence;
pub mod judge;
pub mod log;
pub mod map;
pub mod run;
pub mod state;
pub mod strays;
pub mod taken_names;
pub mod target;
pub mod view;
pub mod walk;

pub use device::RescueDevice;
pub use run::{RescueError, RescueOptions, Summary, rescue};
pub use state::{Record, State};

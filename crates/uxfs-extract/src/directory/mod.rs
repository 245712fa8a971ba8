//! Files below a directory of this machine, and never anywhere else.
//!
//! # Why nothing gets out
//! * Every path is walked one component at a time from a descriptor of the directory above, and no component that is a
//!   symbolic link is ever followed, whether the image made it or it was there before ([`levels`]).
//! * A component is a name without `/` and NUL and neither `.` nor `..`; the walk refuses others before they get here,
//!   and so does [`levels`].
//! * Files are made with `O_EXCL`: nothing that exists is opened, written to or changed. With
//!   [`overwrite`](DirectoryOptions::overwrite) the old name is unlinked first, which leaves other names of the same file
//!   alone.
//! * Hard links are made only to what this extraction made itself.
//!
//! # What is set when
//! No other user can open a file until it is complete: it is made with mode 0600 (directories 0700), then come owner,
//! attributes and ACLs, the mode, and last the times. Directories get theirs after their contents.

mod create;
pub mod encoder;
mod levels;
mod restore;
pub mod sink;

pub use self::sink::{DirectoryOptions, DirectorySink};

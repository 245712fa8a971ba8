//! Changing files in an image, for the commands that do and for the shell.
//!
//! ```text
//! EditArguments ──▶ the image, locked; its log replayed in memory ──▶ Session: a mount with its journal
//!                                                              │
//!                  commands: paths ──▶ handles ──▶ operations ─┘──▶ close: all is durable, the log is clean
//! ```
//!
//! Nothing is written before the first change: a command that fails or finds nothing to do leaves the image as it was, with its dirty
//! log. The first change is preceded by the recovery, in the order that a crash at any moment needs.
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | an image that is open for changes, and the start of relative paths |
//! | [`report`] | reports and complaints about single files |
//! | [`deposit`] | putting one file into a directory of the image, from any source |
//! | [`contents`] | contents into a file of the image, with holes; the old contents stay until the new ones are complete |
//! | [`copies`] | copies of files with several names |
//! | [`just_made`] | files that a command with several sources has made |
//! | [`clear`] | removing a tree |
//! | [`labelled`], [`labels`] | SELinux labels of new files; the options for them |
//! | [`walk`] | each file of a tree, once, without recursion |
//! | [`mode`] | permissions as chmod takes them |
//! | [`people`] | users and groups by name |
//! | [`time`] | times as touch takes them |

pub mod clear;
pub mod contents;
pub mod copies;
pub mod deposit;
pub mod just_made;
pub mod labelled;
pub mod labels;
pub mod mode;
pub mod people;
pub mod report;
pub mod session;
pub mod time;
pub mod walk;

//! What a caller asks of a file system, one file for each operation.
//!
//! Operations on a live file system are methods of [`FileSystem`](crate::filesystem::FileSystem) that take
//! [handles](crate::inode::table::InodeHandle) and may be called from any thread. Each goes the same way:
//!
//! ```text
//! lock inodes ──▶ refuse what can be refused ──▶ begin_for ──▶ change ──▶ store inodes ──▶ commit ──▶ unlock
//!                 (EEXIST, ENOTDIR, EMLINK …)    (ENOSPC)      from here on an error has no way back
//! ```
//!
//! Who may do what is not decided here: callers have credentials, the core has none. What flags of inodes forbid
//! everybody is.
//!
//! | module | holds |
//! |---|---|
//! | [`resolve`] | from a path to an inode |
//! | [`live`] | names, `stat`, entries and targets through handles |
//! | [`new_file`] | new files, temporary files, further names |
//! | [`unlink`] | taking names away |
//! | [`rename`] | other names, exchanged ones, what is left behind |
//! | [`set_attributes`] | owner, permissions, times, flags |
//! | [`xattr`] | extended attributes and access control lists |
//! | [`statistics`] | how full the file system is |
//! | [`inactivate`] | freeing files that have neither names nor handles |
//! | `check` | what is refused |
//! | `check_entry` | whether entries and inodes agree |
//! | `in_place` | what goes without space |
//! | [`create`] | new files and further names while an image is filled |
//! | [`remove`] | taking names away while an image is filled |

mod check;
mod check_entry;
pub mod create;
mod in_place;
pub mod inactivate;
pub mod live;
pub mod new_file;
pub mod remove;
pub mod rename;
pub mod resolve;
pub mod set_attributes;
pub mod statistics;
pub mod unlink;
pub mod xattr;

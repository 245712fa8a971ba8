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
//! | [`live`] | names, `stat`, entries and targets through handles |
//! | [`new_file`] | new files, temporary files, further names |
//! | [`unlink`] | taking names away |
//! | [`rename`] | other names, exchanged ones, what is left behind |
//! | [`set_attributes`] | owner, permissions, times, flags |
//! | [`xattr`] | extended attributes and access control lists |
//! | [`inactivate`] | freeing files that have neither names nor handles |
//! | `close` | closing the file system |
//! | `check` | what is refused |
//! | `check_entry` | whether entries and inodes agree |
//! | `in_place` | what goes without space |

mod check;
mod check_entry;
mod close;
mod in_place;
pub mod inactivate;
pub mod live;
pub mod new_file;
pub mod rename;
pub mod set_attributes;
pub mod unlink;
pub mod xattr;

//! The operations on a file system, one file each.
//!
//! Operations on a live file system are methods of [`FileSystem`](crate::filesystem::FileSystem) that take
//! [handles](crate::inode::table::InodeHandle) and may be called from any thread. Each goes the same way:
//!
//! ```text
//! lock inodes ──▶ refuse what can be refused ──▶ begin_for ──▶ change ──▶ store inodes ──▶ commit ──▶ unlock
//!                 (EEXIST, ENOTDIR, EMLINK …)    (ENOSPC)      from here on an error shuts down
//! ```
//!
//! Callers check permissions against credentials. The operations enforce inode flags such as `IMMUTABLE`, which bind every
//! user.
//!
//! | module | holds |
//! |---|---|
//! | [`live`] | names, `stat`, entries and targets through handles |
//! | [`open_path`] | path resolution |
//! | [`create`] | new files, temporary files, links |
//! | [`unlink`] | removing files and directories |
//! | [`rename`] | renaming, exchange, whiteouts |
//! | [`set_attributes`] | owner, permissions, times, flags |
//! | [`xattr`] | extended attributes and access control lists |
//! | [`inactivate`] | freeing unlinked inodes without handles |
//! | [`close`] | closing the file system, bringing it to rest |
//! | `check` | checks before the first change |
//! | `check_entry` | comparison of entries with their inodes |
//! | `in_place` | links and renames on a full file system |

mod check;
mod check_entry;
pub mod close;
pub mod create;
mod in_place;
pub mod inactivate;
pub mod live;
pub mod open_path;
pub mod rename;
pub mod set_attributes;
pub mod unlink;
pub mod xattr;

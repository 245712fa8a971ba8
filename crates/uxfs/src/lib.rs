//! XFS V5 file systems without the kernel: make, fill, read, change, check, repair and recover images. No root, no loop device, no mount;
//! an image from a stranger can produce an error, and nothing worse.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (tree, path) = (folder.path().join("tree"), folder.path().join("disk.img"));
//! # std::fs::create_dir(&tree)?;
//! # std::fs::write(tree.join("greeting"), "hello")?;
//! use std::io::Read;
//! use uxfs::{Editor, Image, Maker};
//!
//! // Make an image of 64 MiB that holds a directory of the host.
//! Maker::new().size(300 << 20).source(&tree).make(&path)?;
//!
//! // Read it.
//! let image = Image::open(&path)?;
//! for entry in image.walk() {
//!     let entry = entry?;
//!     println!("{:>9} {}", entry.metadata().size_bytes, entry.path().escape_ascii());
//! }
//! let mut text = String::new();
//! image.find("/greeting")?.open()?.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! drop(image); // A reader keeps writers away.
//!
//! // Change it.
//! let editor = Editor::open(&path)?;
//! editor.make_directory("/etc", 0o755)?;
//! editor.write("/etc/motd", b"welcome\n")?;
//! editor.link("/etc/motd", "/etc/issue")?;
//! editor.set_attribute("/etc/motd", "user.author", b"me")?;
//! editor.close()?;
//!
//! // Every path of a file, from its parent pointers.
//! let image = Image::open(&path)?;
//! let motd = image.find("/etc/motd")?;
//! assert_eq!(motd.paths()?.paths, [b"/etc/issue", b"/etc/motd".as_slice()]);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | read an image | [`Image`]: [`find`](Image::find), [`walk`](Image::walk), [`inode`](Image::inode), [`paths_of`](Image::paths_of), [`extract`](Image::extract) |
//! | look at one file | [`Entry`]: [`metadata`](Entry::metadata), [`open`](Entry::open), [`entries`](Entry::entries), [`attributes`](Entry::attributes), [`link_target`](Entry::link_target) |
//! | read its contents | [`File`], which is [`Read`](std::io::Read) and [`Seek`](std::io::Seek) |
//! | make an image, also filled | [`Maker`], with the options of `mkfs.xfs` |
//! | change an image | [`Editor`] |
//! | replay the log of an image that was not closed cleanly | [`replay()`] (an [`Editor`] does so by itself) |
//! | check an image | [`check()`], [`Checker`]: [`Finding`]s |
//! | repair a damaged image | [`Repair`]: [`changes`](Repair::changes), [`write`](Repair::write); [`undo()`] takes it back |
//! | tell what went wrong | [`Error`]: four families, and [`errno`](Error::errno) |
//!
//! **Names and paths are bytes** ([`AsRef<[u8]>`](AsRef): `"text"`, `b"bytes"`, `Vec<u8>`), as in Linux: XFS knows no
//! encoding. Paths begin at the root directory of the image, with or without a slash in front.
//!
//! **Dirty logs.** [`Image`] shows an image whose log is dirty as it will be after replay, and does not change it.
//!
//! **Locks.** An [`Image`] locks its file against writers, an [`Editor`] and a [`Maker`] against everybody else, for as long as they
//! live.
//!
//! **Forms of images.** With the feature `forms`, which is on by default, [`Image`] and [`Checker`] also read images that are compressed
//! with zstd, xz or gzip, and qcow2 disks that are not based on other files. None of these is changed.
//!
//! **Threads.** All types are `Send`, and all but the iterators and files `Sync` in any useful way: [`Image`] and [`Entry`] are
//! handles that are cheap to clone.
//!
//! The other crates of the workspace (`uxfs-volume`, `uxfs-filesystem` and so on) are what this one is made of. They are
//! internal: they change without notice. Programs to start from lie in `examples/`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;
mod directory;
mod editor;
mod editor_path;
mod entry;
mod error;
mod extract;
mod file;
mod image;
mod maker;
mod metadata;
mod opening;
mod repair;
mod replay;
mod walk;

pub use check::{Checked, Checker, Finding, Severity, check};
pub use directory::Entries;
pub use editor::{Changes, EditedFile, Editor, EditorOptions};
pub use entry::{Attribute, Entry, Parent, Paths};
pub use error::{Error, Result};
pub use extract::{ExtractProblem, Extracted};
pub use file::File;
pub use image::{Image, ImageOptions, Info};
pub use maker::{Made, Maker};
pub use metadata::{Device, FileType, Metadata, Timestamp};
pub use repair::{Certainty, Change, Repair, RepairPlanner, Written, undo};
pub use replay::{Replayed, replay};
pub use walk::Walk;

//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Making XFS file systems.
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | the user's options: mkfs.xfs's sub-options, sizes, configuration files |
//! | [`layout`] | from options and a device to every number of the superblock |
//! | [`log_size`] | the smallest log that Linux accepts |
//! | [`identity`] | uuid, time, random numbers |
//! | [`empty`] | the empty image |
//! | [`target`] | the file or block device: its old contents, its users, clearing it |
//! | [`summary`] | the layout in the words that users of mkfs.xfs know |
//!
//! ```
//! use uxfs_block::engine::memory::MemoryDevice;
//! use uxfs_mkfs::{empty, identity::Identity, layout::{DeviceFacts, Layout}, options::{Options, grammar::Group}};
//!
//! let mut options = Options::default();
//! options.allow_unsupported = true; // This size is not supported.
//! options.add(Group::Inode, "size=1024")?;
//! let size_bytes = 32 << 20;
//! let (layout, _warnings) = Layout::resolve(&options, &DeviceFacts::file(size_bytes))?;
//! let (identity, _) = Identity::from_environment(options.uuid()?, |name| std::env::var_os(name));
//! let device = MemoryDevice::new(vec![0; size_bytes as usize]);
//! empty::format(&device, &layout, &identity)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To fill the image, call [`empty::begin`] instead, and [`finish`](empty::Unfinished::finish) at the end; to find the
//! smallest size, [`Layout::smallest`](layout::Layout::smallest).
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod empty;
pub mod identity;
pub mod layout;
pub mod log_size;
pub mod options;
pub mod summary;
pub mod target;

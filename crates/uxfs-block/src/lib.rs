//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Block devices, I/O engines and the shared buffer cache.
//!
//! This crate moves bytes and keeps them; it does not know what they mean. A caller passes a verifier
//! with each read.
//!
//! | module | holds |
//! |---|---|
//! | [`device`] | the [`BlockDevice`](device::BlockDevice) trait and its errors |
//! | [`device_wrapper`] | devices around another device: what they do before a request |
//! | [`engine`] | implementations: files and block devices, memory |
//! | [`busy`], `loop_devices`, `loop_status` | whether a file or device is in use, also through loop devices |
//! | [`window`] | a part of a device as a device |
//! | `write_protection` | whether a block device takes writes |
//! | [`claim`] | opening it so that other users are kept away |
//! | `lock_holder` | locks that are held for this process, or by others |
//! | `presence` | a lock that becomes exclusive without being given back |
//! | [`stamp`] | whether files were written to meanwhile |
//! | [`ranges`] | sets of bytes |
//! | [`words`] | errors of the host in words |
//! | [`preload`] | whether fakeroot or pseudo decides about owners |
//! | [`clock`] | time, which tests replace |
//! | [`self_checks`] | run-time checks of internal invariants |
//! | [`contents_io`] | a self-check: no transaction while file contents move |
//! | [`aligned_buffer`] | memory for buffers, cut from large chunks |
//! | [`cache`] | the buffer cache that every tool shares |
//! | [`lock_order`] | the order in which locks are acquired, a self-check |
//! | [`spill`] | data that may outgrow memory, in temporary files |
//! | [`zeros`] | whether bytes are zeros |
//! | [`own_line`], [`thread_shards`] | values that threads write without taking them from each other |
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod aligned_buffer;
pub mod busy;
pub mod cache;
pub mod claim;
pub mod clock;
pub mod contents_io;
pub mod device;
pub mod device_wrapper;
pub mod engine;
mod lock_holder;
pub mod lock_order;
mod loop_devices;
mod loop_status;
pub mod own_line;
pub mod preload;
mod presence;
pub mod ranges;
pub mod self_checks;
pub mod spill;
pub mod stamp;
pub mod thread_shards;
pub mod window;
pub mod words;
mod write_protection;
pub mod zeros;

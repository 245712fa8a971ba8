//! Requests and replies as the kernel writes and reads them: FUSE 7.45 (`docs/fuse-protocol.md`).
//!
//! ```text
//! bytes ─▶ Request::parse ─▶ Operation ─▶ server ─▶ reply::* ─▶ wire::* ─▶ bytes
//! ```
//!
//! All integers are in host byte order. A request borrows names and data from the buffer that it was read into, and the structures of a
//! reply have a fixed size: neither allocates. Bytes from the device can only produce an error.
//!
//! | module | holds |
//! |---|---|
//! | [`wire`] | structures: one for each structure of the kernel's header |
//! | [`opcode`] | numbers of operations |
//! | [`flags`] | bits of requests and replies |
//! | [`request`] | from the bytes of a request to an operation |
//! | [`reply`] | from values to the bytes of a reply |
//! | [`directory`] | records of READDIR and READDIRPLUS |
//! | [`initialization`] | INIT: versions, capabilities, limits |
//! | [`notification`] | messages that the server sends unasked |
//! | [`device_number`] | device numbers as FUSE encodes them |
//! | [`device_ioctl`] | numbers of the ioctls of `/dev/fuse` |

pub mod device_ioctl;
pub mod device_number;
pub mod directory;
pub mod flags;
pub mod initialization;
pub mod notification;
pub mod opcode;
pub mod reply;
pub mod request;
pub mod wire;

/// Node id of the root directory.
#[doc(alias = "FUSE_ROOT_ID")]
pub const ROOT_NODE_ID: u64 = 1;

/// Bit of a request's number that marks a request that the kernel sends again.
#[doc(alias = "FUSE_UNIQUE_RESEND")]
pub const UNIQUE_RESENT: u64 = 1 << 63;

/// User or group of a request on an idmapped mount that has no id there.
#[doc(alias = "FUSE_INVALID_UIDGID")]
pub const INVALID_ID: u32 = u32::MAX;

//! INIT: versions, capabilities and limits.
//!
//! The kernel offers capabilities; a reply that names one that was not offered is cut to the offer. The minor version is the lower of
//! both; a kernel that knows only lower ones than [`MINOR_MIN`] is refused.

use zerocopy::FromBytes;

use super::wire::initialization::{InitIn, InitOut, VersionOut};

/// Major version of the protocol.
#[doc(alias = "FUSE_KERNEL_VERSION")]
pub const MAJOR: u32 = 7;
/// Newest minor version that this server speaks.
#[doc(alias = "FUSE_KERNEL_MINOR_VERSION")]
pub const MINOR: u32 = 45;
/// Oldest minor version: the one since which the reply to INIT has 64 bytes (Linux 3.15).
pub const MINOR_MIN: u32 = 23;

/// Least size of the buffer that a request is read into.
#[doc(alias = "FUSE_MIN_READ_BUFFER")]
pub const REQUEST_BUFFER_BYTES_MIN: usize = 8192;
/// Least [`max_write_bytes`](InitReply::max_write_bytes): the kernel raises lower ones.
pub const MAX_WRITE_BYTES_MIN: u32 = 4096;
/// Pages of a request without [`MAX_PAGES`](Capabilities::MAX_PAGES).
pub const MAX_PAGES_DEFAULT: u16 = 32;
/// Most pages of a request, unless the administrator raised `fs.fuse.max_pages_limit`.
pub const MAX_PAGES_LIMIT: u16 = 256;
/// Bytes of a page, as [`max_pages`](InitReply::max_pages) counts them on machines with small pages.
pub const PAGE_BYTES: usize = 4096;
/// The longest value of an extended attribute.
pub const EXTENDED_ATTRIBUTE_BYTES_MAX: usize = 65536;
/// Bytes of a request in front of its data: headers and names.
const REQUEST_HEADER_ROOM_BYTES: usize = 4096;
/// Bytes of INIT before 7.36.
const INIT_IN_SHORT_BYTES: usize = 16;

bitflags::bitflags! {
    /// What kernel and server can do. Bits of later versions are kept, and not granted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[doc(alias = "FUSE_ASYNC_READ")]
    pub struct Capabilities: u64 {
        /// Read ahead with several requests at a time.
        const ASYNC_READ = 1;
        /// The server keeps the locks of fcntl(2).
        const POSIX_LOCKS = 1 << 1;
        /// Unused.
        const FILE_OPS = 1 << 2;
        /// OPEN truncates.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// LOOKUP finds `.` and `..`: file handles can be opened.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes of more than a page.
        const BIG_WRITES = 1 << 5;
        /// The server applies the umask.
        const DONT_MASK = 1 << 6;
        /// The device takes splice(2) for replies.
        const SPLICE_WRITE = 1 << 7;
        /// The device moves pages of replies.
        const SPLICE_MOVE = 1 << 8;
        /// The device takes splice(2) for requests.
        const SPLICE_READ = 1 << 9;
        /// The server keeps the locks of flock(2).
        const FLOCK_LOCKS = 1 << 10;
        /// Ioctls of directories.
        const HAS_IOCTL_DIR = 1 << 11;
        /// Drop cached pages where size or time of change differ.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS.
        const DO_READDIRPLUS = 1 << 13;
        /// READDIRPLUS only where it pays.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Direct I/O with several requests at a time.
        const ASYNC_DIO = 1 << 15;
        /// Writes stay in the page cache for a while.
        const WRITEBACK_CACHE = 1 << 16;
        /// The server may refuse OPEN.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// LOOKUP and READDIR of one directory at the same time.
        const PARALLEL_DIROPS = 1 << 18;
        /// The server clears set-id bits on its own.
        const HANDLE_KILLPRIV = 1 << 19;
        /// The kernel evaluates ACLs.
        const POSIX_ACL = 1 << 20;
        /// An aborted connection is told from an unmounted one.
        const ABORT_ERROR = 1 << 21;
        /// The reply has [`max_pages`](InitReply::max_pages).
        const MAX_PAGES = 1 << 22;
        /// Keep targets of symbolic links in the page cache.
        const CACHE_SYMLINKS = 1 << 23;
        /// The server may refuse OPENDIR.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Drop cached pages only where the server says so.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// DAX of virtiofs.
        const MAP_ALIGNMENT = 1 << 26;
        /// Mount points within the server's file system.
        const SUBMOUNTS = 1 << 27;
        /// The server clears set-id bits where a request says so.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR has flags.
        const SETXATTR_EXT = 1 << 29;
        /// There is a second word of capabilities.
        const INIT_EXT = 1 << 30;
        /// Security contexts come with requests that create inodes.
        const SECURITY_CTX = 1 << 32;
        /// DAX for single inodes.
        const HAS_INODE_DAX = 1 << 33;
        /// The group of the parent directory comes with requests that create inodes.
        const CREATE_SUPP_GROUP = 1 << 34;
        /// Names can expire without being dropped.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Shared mappings of files with direct I/O.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// The kernel reads and writes backing files.
        const PASSTHROUGH = 1 << 37;
        /// File handles cannot be opened.
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// Requests can be sent again.
        const HAS_RESEND = 1 << 39;
        /// Idmapped mounts.
        const ALLOW_IDMAP = 1 << 40;
        /// Requests over io_uring.
        const OVER_IO_URING = 1 << 41;
        /// Unanswered requests end the connection.
        const REQUEST_TIMEOUT = 1 << 42;
    }
}

impl Capabilities {
    /// From the two words of INIT. The second one counts only if the first one says that it is there.
    pub const fn from_words(flags: u32, flags2: u32) -> Self {
        let low = Self::from_bits_retain(flags as u64);
        if low.contains(Self::INIT_EXT) {
            Self::from_bits_retain(flags as u64 | (flags2 as u64) << 32)
        } else {
            low
        }
    }

    /// The two words of INIT. The first one says that the second one is there, if that has any bit.
    pub const fn to_words(self) -> (u32, u32) {
        let flags2 = (self.bits() >> 32) as u32;
        let extended = if flags2 == 0 { 0 } else { Self::INIT_EXT.bits() as u32 };
        (self.bits() as u32 | extended, flags2)
    }
}

/// What later requests depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Negotiated {
    /// Minor version, 0 before INIT.
    pub minor: u32,
    /// What both sides can do.
    pub capabilities: Capabilities,
}

impl Negotiated {
    /// Whether SETXATTR has flags.
    pub const fn has_extended_setxattr(self) -> bool {
        self.capabilities.contains(Capabilities::SETXATTR_EXT)
    }
}

/// INIT, as the kernel sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitRequest {
    /// Major version of the kernel. With another one than [`MAJOR`] the other fields but the minor version are 0.
    pub major: u32,
    /// Minor version of the kernel.
    pub minor: u32,
    /// Most bytes that the kernel reads ahead.
    pub max_readahead_bytes: u32,
    /// What the kernel can do.
    pub offered: Capabilities,
}

impl InitRequest {
    /// From what follows the header. `None` where it is too short.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, _) = VersionOut::read_from_prefix(bytes).ok()?;
        let VersionOut { major, minor } = version;
        if major != MAJOR {
            return Some(Self { major, minor, max_readahead_bytes: 0, offered: Capabilities::empty() });
        }
        if bytes.len() < INIT_IN_SHORT_BYTES {
            return None;
        }
        // Older kernels send less, later ones may send more.
        let mut whole = [0; size_of::<InitIn>()];
        whole.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        let init = InitIn::read_from_bytes(&whole).ok()?;
        Some(Self {
            major,
            minor,
            max_readahead_bytes: init.max_readahead_bytes,
            offered: Capabilities::from_words(init.flags, init.flags2),
        })
    }
}

/// What the server wants. The kernel gets the part of it that it offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitReply {
    /// What the server can do.
    pub wanted: Capabilities,
    /// Most bytes that the kernel reads ahead; it can only be lowered.
    pub max_readahead_bytes: u32,
    /// Most requests in the background; 0 for the kernel's default.
    pub max_background: u16,
    /// Requests in the background at which readahead and writeback hold back; 0 for the kernel's default.
    pub congestion_threshold: u16,
    /// Most bytes of a WRITE.
    pub max_write_bytes: u32,
    /// Most pages of a request, with [`MAX_PAGES`](Capabilities::MAX_PAGES).
    pub max_pages: u16,
    /// Granularity of times.
    pub time_granularity_nanoseconds: u32,
    /// File systems below that may be stacked, with [`PASSTHROUGH`](Capabilities::PASSTHROUGH).
    pub max_stack_depth: u32,
    /// With [`REQUEST_TIMEOUT`](Capabilities::REQUEST_TIMEOUT).
    pub request_timeout_seconds: u16,
}

impl Default for InitReply {
    fn default() -> Self {
        Self {
            wanted: Capabilities::empty(),
            max_readahead_bytes: u32::MAX,
            max_background: 0,
            congestion_threshold: 0,
            max_write_bytes: MAX_WRITE_BYTES_MIN,
            max_pages: MAX_PAGES_DEFAULT,
            time_granularity_nanoseconds: 1,
            max_stack_depth: 0,
            request_timeout_seconds: 0,
        }
    }
}

/// What INIT is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitAnswer {
    /// Both sides agree.
    Accepted {
        /// The reply.
        reply: InitOut,
        /// What later requests depend on.
        negotiated: Negotiated,
    },
    /// The kernel is newer by a major version: it gets the version of this server, and sends INIT again.
    OtherMajor {
        /// The reply.
        reply: VersionOut,
    },
    /// The kernel is too old: the reply is the error `EPROTO`.
    TooOld,
}

impl InitReply {
    /// The answer to `request`.
    pub fn answer(&self, request: &InitRequest) -> InitAnswer {
        if request.major > MAJOR {
            return InitAnswer::OtherMajor { reply: VersionOut { major: MAJOR, minor: MINOR } };
        }
        if request.major < MAJOR || request.minor < MINOR_MIN {
            return InitAnswer::TooOld;
        }
        // Bits without a name are not granted, even if the server asks for all.
        let granted = self.wanted & request.offered & Capabilities::all();
        let (flags, flags2) = granted.to_words();
        let capabilities = Capabilities::from_words(flags, flags2);
        let minor = request.minor.min(MINOR);
        let has = |capability| capabilities.contains(capability);
        let reply = InitOut {
            major: MAJOR,
            minor,
            max_readahead_bytes: self.max_readahead_bytes.min(request.max_readahead_bytes),
            flags,
            max_background: self.max_background,
            congestion_threshold: self.congestion_threshold,
            max_write_bytes: self.max_write_bytes.max(MAX_WRITE_BYTES_MIN),
            time_granularity_nanoseconds: self.time_granularity_nanoseconds,
            max_pages: if has(Capabilities::MAX_PAGES) { self.max_pages } else { 0 },
            flags2,
            max_stack_depth: if has(Capabilities::PASSTHROUGH) { self.max_stack_depth } else { 0 },
            request_timeout_seconds: if has(Capabilities::REQUEST_TIMEOUT) {
                self.request_timeout_seconds
            } else {
                0
            },
            ..InitOut::default()
        };
        InitAnswer::Accepted { reply, negotiated: Negotiated { minor, capabilities } }
    }
}

/// Size of a buffer that every request fits into that the kernel sends, with writes of at most `max_write_bytes`.
pub const fn request_buffer_bytes(max_write_bytes: u32) -> usize {
    let write_bytes = max_write_bytes as usize;
    let data_bytes =
        if write_bytes > EXTENDED_ATTRIBUTE_BYTES_MAX { write_bytes } else { EXTENDED_ATTRIBUTE_BYTES_MAX };
    data_bytes.saturating_add(REQUEST_HEADER_ROOM_BYTES)
}

/// Size of the payload buffer of a ring entry. `max_pages`: as the kernel took it, not above `fs.fuse.max_pages_limit`.
pub const fn ring_payload_bytes(max_write_bytes: u32, max_pages: u16) -> usize {
    let (write_bytes, page_bytes) = (max_write_bytes as usize, max_pages as usize * PAGE_BYTES);
    let larger = if write_bytes > page_bytes { write_bytes } else { page_bytes };
    if larger > REQUEST_BUFFER_BYTES_MIN { larger } else { REQUEST_BUFFER_BYTES_MIN }
}

#[cfg(test)]
#[path = "initialization_tests.rs"]
mod tests;

//! What a mount asks of its server.

use crate::{
    log::Level,
    mounting::options::{AccessTimes, FuseMountOptions, ShownOwner},
    protocol::initialization::{Capabilities, InitReply, InitRequest, MAX_PAGES_LIMIT, PAGE_BYTES},
};

/// Requests that the kernel may have in flight without a caller that waits: reading ahead, writing back.
const MAX_BACKGROUND: u16 = 256;
/// From so many on the kernel writes back only what it must. `syncfs` would miss what was left out.
const CONGESTION_THRESHOLD: u16 = u16::MAX;

/// What a mount asks of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Nothing is changed, at first.
    pub is_read_only: bool,
    /// When reading changes access times.
    pub access_times: AccessTimes,
    /// Those of directories, too.
    pub has_directory_access_times: bool,
    /// Times alone are written late.
    pub has_lazy_times: bool,
    /// The owner that all files are shown with.
    pub shown_owner: ShownOwner,
    /// The kernel collects writes.
    pub has_writeback_cache: bool,
    /// A write is durable when it returns.
    pub is_synchronous: bool,
    /// A change of a name is durable when it returns.
    pub has_synchronous_directories: bool,
    /// Requests come over io_uring, where the kernel offers it.
    pub has_rings: bool,
    /// What is told.
    pub log_level: Level,
}

impl Settings {
    /// As the options of a mount ask.
    #[must_use]
    pub fn of(options: &FuseMountOptions) -> Self {
        Self {
            is_read_only: options.is_read_only,
            access_times: options.access_times,
            has_directory_access_times: options.has_directory_access_times,
            has_lazy_times: options.has_lazy_times,
            shown_owner: options.shown_owner,
            // Where nothing may be written the error belongs to the write.
            has_writeback_cache: may_cache_writes(options) && !options.is_read_only,
            is_synchronous: options.is_synchronous,
            has_synchronous_directories: options.has_synchronous_directories || options.is_synchronous,
            has_rings: options.has_ring.unwrap_or(true),
            log_level: options.log_level,
        }
    }

    /// As [`of`](Self::of), for a mount that can be made writable. The kernel asks for its write cache only once, at the beginning.
    #[must_use]
    pub fn of_changeable(options: &FuseMountOptions) -> Self {
        Self { has_writeback_cache: may_cache_writes(options), ..Self::of(options) }
    }

    /// Most bytes of data in a request.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        usize::from(MAX_PAGES_LIMIT) * PAGE_BYTES
    }

    /// What is asked of the kernel. `has_rings`: the rings are there.
    #[must_use]
    pub fn init_reply(&self, request: &InitRequest, has_rings: bool) -> InitReply {
        use Capabilities as C;
        // Not ASYNC_DIO: after a direct write that the caller does not wait for, the kernel leaves what it read ahead meanwhile in its cache, and
        // shows the old bytes to those that read without O_DIRECT (seen on Linux 6.18).
        let mut wanted = C::ASYNC_READ
            | C::EXPORT_SUPPORT
            | C::BIG_WRITES
            | C::DONT_MASK
            | C::HAS_IOCTL_DIR
            | C::DO_READDIRPLUS
            | C::PARALLEL_DIROPS
            | C::HANDLE_KILLPRIV_V2
            | C::POSIX_ACL
            | C::ABORT_ERROR
            | C::MAX_PAGES
            | C::CACHE_SYMLINKS
            | C::NO_OPENDIR_SUPPORT
            | C::SETXATTR_EXT
            | C::INIT_EXT
            | C::DIRECT_IO_ALLOW_MMAP;
        wanted.set(C::WRITEBACK_CACHE, self.has_writeback_cache);
        wanted.set(C::OVER_IO_URING, has_rings);
        InitReply {
            wanted,
            max_readahead_bytes: request.max_readahead_bytes,
            max_background: MAX_BACKGROUND,
            congestion_threshold: CONGESTION_THRESHOLD,
            max_write_bytes: u32::try_from(self.most_bytes()).unwrap_or(u32::MAX),
            max_pages: MAX_PAGES_LIMIT,
            time_granularity_nanoseconds: 1,
            max_stack_depth: 0,
            request_timeout_seconds: 0,
        }
    }
}

/// Whether the kernel may collect writes.
fn may_cache_writes(options: &FuseMountOptions) -> bool {
    options.has_writeback_cache.unwrap_or(true) && !options.is_synchronous
}

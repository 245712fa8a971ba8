//! The memory that a check may take, and how it is shared out.
//!
//! The program has 32 MiB, and each thread 8 MiB for its buffers; threads have half of what the program leaves at most. The rest is
//! shared out:
//!
//! | share | for |
//! |---|---|
//! | 3/8 | cached metadata, where the caller opens the volume with [`Memory::cache_bytes`] |
//! | 1/4, half as much again while it moves to a temporary file | the table of inodes |
//! | 1/8 | extents that are compared because sums differ |
//! | the rest | short-lived buffers |

use std::{num::NonZeroUsize, sync::OnceLock, thread};

/// The memory of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    bytes: u64,
    threads: NonZeroUsize,
}

/// What a check takes where the caller says nothing.
const DEFAULT_BYTES: u64 = 256 << 20;
/// The program without its threads.
const PROGRAM_BYTES: u64 = 32 << 20;
/// The buffers of a thread, and what the allocator keeps for it.
const THREAD_BYTES: u64 = 8 << 20;

/// How many threads run at once, asked for once: each question reads files of control groups.
fn processors() -> NonZeroUsize {
    static PROCESSORS: OnceLock<NonZeroUsize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
}

impl Default for Memory {
    fn default() -> Self {
        Self::of_bytes(DEFAULT_BYTES)
    }
}

impl Memory {
    /// Less cannot be promised: the program and the buffers of two threads take some of it.
    pub const LEAST_BYTES: u64 = 64 << 20;

    /// So many bytes, for a thread on each processor.
    pub fn of_bytes(bytes: u64) -> Self {
        Self { bytes, threads: NonZeroUsize::MIN }.with_threads(processors())
    }

    /// For `wanted` threads, or as many as have room.
    #[must_use]
    pub fn with_threads(self, wanted: NonZeroUsize) -> Self {
        let room = self.bytes.saturating_sub(PROGRAM_BYTES) / 2 / THREAD_BYTES;
        let room = NonZeroUsize::new(usize::try_from(room).unwrap_or(usize::MAX));
        Self { threads: wanted.min(room.unwrap_or(NonZeroUsize::MIN)), ..self }
    }

    /// The threads that have room.
    pub fn threads(self) -> NonZeroUsize {
        self.threads
    }

    fn shared_bytes(self) -> u64 {
        let of_threads = THREAD_BYTES.saturating_mul(self.threads.get() as u64);
        self.bytes.saturating_sub(PROGRAM_BYTES).saturating_sub(of_threads)
    }

    /// The share of a volume's cache.
    pub fn cache_bytes(self) -> u64 {
        self.shared_bytes() / 8 * 3
    }

    pub(crate) fn table_bytes(self) -> usize {
        usize::try_from(self.shared_bytes() / 4).unwrap_or(usize::MAX)
    }

    pub(crate) fn sort_bytes(self) -> usize {
        usize::try_from(self.shared_bytes() / 8).unwrap_or(usize::MAX)
    }
}

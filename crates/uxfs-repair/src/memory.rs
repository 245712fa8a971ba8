//! The memory that a check may take, and how it is shared out.
//!
//! The program and the buffers of its threads have 48 MiB. The rest is shared out:
//!
//! | share | for |
//! |---|---|
//! | 3/8 | cached metadata, where the caller opens the volume with [`Memory::cache_bytes`] |
//! | 1/4, half as much again while it moves to a temporary file | the table of inodes |
//! | 1/8 | extents that are compared because sums differ |
//! | the rest | short-lived buffers |

/// The memory of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    bytes: u64,
}

/// What a check takes where the caller says nothing.
const DEFAULT_BYTES: u64 = 256 << 20;
/// The program and the buffers of its threads.
const PROGRAM_BYTES: u64 = 48 << 20;

impl Default for Memory {
    fn default() -> Self {
        Self { bytes: DEFAULT_BYTES }
    }
}

impl Memory {
    /// Less cannot be promised: the program and the buffers of its threads take some of it.
    pub const LEAST_BYTES: u64 = 64 << 20;

    /// So many bytes.
    pub fn of_bytes(bytes: u64) -> Self {
        Self { bytes }
    }

    fn shared_bytes(self) -> u64 {
        self.bytes.saturating_sub(PROGRAM_BYTES)
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

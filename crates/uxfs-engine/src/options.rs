//! How a file system is opened for changes.

use std::time::Duration;

use uxfs_format::inode::Timestamp;

/// How to mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountOptions {
    /// Read on whatever the log holds: changes that are not in place yet, nonsense, or nothing because it is external.
    pub ignore_dirty_log: bool,
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
    /// What new inodes get as their generation.
    pub generations: Generations,
    /// What time it is for changes that do not bring their own.
    pub clock: Clock,
    /// Take an image that says that it is not finished, to finish it: closing it then says so.
    pub is_unfinished: bool,
    /// How changes go through the log.
    pub log: LogOptions,
}

/// How changes go through the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogOptions {
    /// Every step of every transaction is a checkpoint of its own.
    pub is_immediate: bool,
    /// Size of the buffers that records are built in: 32, 64, 128 or 256 KiB; 0 for 32 KiB.
    #[doc(alias = "logbsize")]
    pub record_size_bytes: u32,
    /// A thread writes checkpoints while others go on; else those do who find that it is time.
    pub has_background: bool,
    /// No change stays longer than this out of the log, whether anybody asks for it or not; `None` sets no such limit. It
    /// takes the thread.
    #[doc(alias = "xfssyncd_centisecs")]
    pub checkpoint_interval: Option<Duration>,
}

impl LogOptions {
    /// What sessions take that may be open for long.
    pub const USUAL_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);
}

/// Where the generations of new inodes come from. They tell apart the successive files that have one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generations {
    /// Unpredictable, as file handles want them.
    #[default]
    Random,
    /// Always the same: images that are to be reproduced.
    Fixed(u32),
}

impl Generations {
    /// What `mkfs.xfs` takes where its `DETERMINISTIC_SEED` is set.
    pub const REPRODUCIBLE: Self = Self::Fixed(0x5345_4544);
}

/// What time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The system's.
    #[default]
    System,
    /// Always the same: images that are to be reproduced.
    Fixed(Timestamp),
}

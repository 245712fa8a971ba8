//! Options of opening a file system for changes.

use std::time::Duration;

use uxfs_format::inode::Timestamp;

/// Options of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountOptions {
    /// Ignore the log: its changes may not be in place yet, it may be damaged, or external.
    pub ignore_dirty_log: bool,
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
    /// The generations of new inodes.
    pub generations: Generations,
    /// The clock for changes without a time of their own.
    pub clock: Clock,
    /// Take an image that says that it is not finished, to finish it: closing it then says so.
    pub is_unfinished: bool,
    /// The device throws all changes away, as an overlay does: features with which a file system must not be written do not matter.
    pub is_thrown_away: bool,
    /// Options of the log.
    pub log: LogOptions,
}

/// Options of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogOptions {
    /// Every step of every transaction is a checkpoint of its own.
    pub is_immediate: bool,
    /// Size of the buffers that records are built in: 32, 64, 128 or 256 KiB; 0 for 32 KiB.
    #[doc(alias = "logbsize")]
    pub record_size_bytes: u32,
    /// A background thread writes checkpoints; else the threads that find one due.
    pub has_background: bool,
    /// The longest time that a change stays out of the log without a request; `None` for no limit. Needs the background
    /// thread.
    #[doc(alias = "xfssyncd_centisecs")]
    pub checkpoint_interval: Option<Duration>,
}

impl LogOptions {
    /// The interval of sessions that may be open for long.
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
    /// The generation that `mkfs.xfs` uses where its `DETERMINISTIC_SEED` is set.
    pub const REPRODUCIBLE: Self = Self::Fixed(0x5345_4544);
}

/// The source of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The system's.
    #[default]
    System,
    /// Always the same: images that are to be reproduced.
    Fixed(Timestamp),
}

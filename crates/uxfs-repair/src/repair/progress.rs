//! What a repair tells while it works.

/// What a repair does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// It replays a dirty log.
    Log,
    /// It checks: the device at first, later what has been repaired so far. Inodes are counted, up to about `inodes`.
    Check {
        /// How many visits of inodes there will be.
        inodes: u64,
    },
    /// It visits all inodes and rebuilds groups.
    Space,
    /// It rebuilds names.
    Names,
}

impl Phase {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Log => "replaying the log",
            Self::Check { .. } => "checking",
            Self::Space => "inodes and allocation groups",
            Self::Names => "names",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A phase begins.
    Begin(Phase),
    /// So many more inodes have been visited.
    Inodes(u64),
}

/// Told what happens, from several threads.
pub type ShowRepair<'p> = dyn Fn(Event) + Sync + 'p;

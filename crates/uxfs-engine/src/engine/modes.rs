//! An engine of either mode: the one place that tells logged and bulk mode apart for callers that serve both.
//!
//! [`AnyEngine`] owns the engine, [`EngineRef`] is what a transaction has of it. What only a journal can do lies on
//! [`LoggedEngine`]; its namesakes here say what it means without a journal.

use std::{ops::Deref, sync::Arc};

use uxfs_format::units::FsBlock;
use uxfs_journal::journal::{Journal, JournalCounters};
use uxfs_volume::error::Result;

use super::{BulkEngine, Engine, LoggedEngine, statistics::Statistics};

/// An engine of either mode.
#[derive(Debug)]
pub enum AnyEngine {
    /// Changes go through the log.
    Logged(Arc<LoggedEngine>),
    /// Changes are of use once the image has been closed.
    Bulk(Box<BulkEngine>),
}

/// A borrowed engine of either mode.
#[derive(Debug, Clone, Copy)]
pub enum EngineRef<'fs> {
    /// Changes go through the log.
    Logged(&'fs LoggedEngine),
    /// Changes are of use once the image has been closed.
    Bulk(&'fs BulkEngine),
}

impl Deref for AnyEngine {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        match self {
            Self::Logged(engine) => engine,
            Self::Bulk(engine) => engine,
        }
    }
}

impl<'fs> EngineRef<'fs> {
    /// The part that both modes have.
    #[inline]
    pub fn engine(self) -> &'fs Engine {
        match self {
            Self::Logged(engine) => engine,
            Self::Bulk(engine) => engine,
        }
    }

    /// Returns blocks that an operation reserved and did not take. In bulk mode nothing is reserved.
    pub(crate) fn release_blocks(self, blocks: u64) {
        if let Self::Logged(engine) = self {
            engine.release_blocks(blocks);
        }
    }
}

impl AnyEngine {
    /// The engine by its mode, borrowed.
    #[inline]
    pub fn by_mode(&self) -> EngineRef<'_> {
        match self {
            Self::Logged(engine) => EngineRef::Logged(engine),
            Self::Bulk(engine) => EngineRef::Bulk(engine),
        }
    }

    /// The engine with the journal, in logged mode.
    #[inline]
    pub fn logged(&self) -> Option<&Arc<LoggedEngine>> {
        match self {
            Self::Logged(engine) => Some(engine),
            Self::Bulk(_) => None,
        }
    }

    /// The journal, in logged mode.
    pub fn journal(&self) -> Option<&Journal> {
        self.logged().map(|engine| engine.journal())
    }

    /// Counters of the journal; all zero in bulk mode.
    pub fn journal_counters(&self) -> JournalCounters {
        self.journal().map(Journal::counters).unwrap_or_default()
    }

    /// Makes everything durable that has been done so far. In bulk mode only [`close`](Self::close) does.
    ///
    /// # Errors
    /// The device failed, now or before.
    #[doc(alias = "syncfs")]
    pub fn force(&self) -> Result<()> {
        self.logged().map_or(Ok(()), |engine| engine.force())
    }

    /// Makes changes of one inode durable; see [`LoggedEngine::force_inode`]. In bulk mode only [`close`](Self::close) does.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn force_inode(&self, sequence: u64, contents: u64) -> Result<()> {
        self.logged().map_or(Ok(()), |engine| engine.force_inode(sequence, contents))
    }

    /// Waits until freed blocks are free: returns whether there were any. The caller holds no transaction.
    ///
    /// # Errors
    /// Damage; the device failed, now or before.
    pub fn wait_for_freed_blocks(&self) -> Result<bool> {
        self.logged().map_or(Ok(false), |engine| engine.wait_for_freed_blocks())
    }

    /// Completes the pending frees whose checkpoint is stable. The caller holds no transaction.
    ///
    /// # Errors
    /// Damage; the device failed, now or before.
    pub fn complete_pending_frees(&self) -> Result<()> {
        self.logged().map_or(Ok(()), |engine| engine.complete_pending_frees())
    }

    /// Writes back stable buffers: those that hold the older half of the log, or all where `is_all`.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn push_active_items(&self, is_all: bool) -> Result<()> {
        self.logged().map_or(Ok(()), |engine| engine.push_active_items(is_all))
    }

    /// Waits until the mapping that leads to these blocks is durable. The caller holds no transaction.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn wait_for_moved_contents(&self, start: FsBlock, length_blocks: u64) -> Result<()> {
        self.logged().map_or(Ok(()), |engine| engine.wait_for_moved_contents(start, length_blocks))
    }

    /// How full the file system is, for `statfs`.
    #[doc(alias = "xfs_fs_statfs")]
    pub fn statistics(&self) -> Statistics {
        // In bulk mode nothing is kept from files, and what is freed is free.
        let logged = self.logged();
        let kept_blocks = logged.map_or(0, |engine| engine.kept_blocks());
        let freed_blocks = logged.map_or(0, |engine| engine.freed_blocks());
        Statistics::of(self, kept_blocks, freed_blocks)
    }

    /// Writes everything back and makes the image whole: group headers, buffers, and last the superblock with its
    /// counters, each behind a flush. In logged mode the log is closed cleanly; nothing can be changed any more.
    ///
    /// # Errors
    /// The device failed; bytes that must not be written. The image is then unfinished.
    pub fn close(&self) -> Result<()> {
        match self {
            Self::Logged(engine) => engine.close(),
            Self::Bulk(engine) => engine.close(),
        }
    }
}

//! Settling what the first superblock says, before anything relies on it: against its copies, and against structures that know where the
//! log and the root directory are. Another word is taken where fewer findings are left with it.

use uxfs_format::superblock::Superblock;
use uxfs_volume::{error::Result, volume::Volume};

use super::{Checked, Repair, action::Action, stage::Stage, superblocks};
use crate::{
    opening::{self, LogComparison, OpeningOptions},
    superblock::{vote, witnesses},
};

/// Words that can be taken one after the other: each is of another kind.
const MOST_WORDS: usize = 3;

impl Repair<'_> {
    /// The first step of a repair.
    pub(super) fn settle_superblock(&mut self) -> Result<()> {
        for _ in 0..MOST_WORDS {
            let options = OpeningOptions {
                ignore_log: true,
                comparison: LogComparison::None,
                ..self.opening_options()
            };
            let volume = opening::open(&self.device, &options)?.volume;
            let stage = self.stage(&volume);
            if self.other_words(&volume).is_empty() {
                // What features of the future have would be destroyed. Recovery has judged a log that holds something.
                return Ok(volume.superblock().feature_words().judge_with_clean_log()?.write?);
            }
            let before = self.check()?.count();
            if !self.follow_witnesses(&volume, &stage, before)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the first word against the superblock of group 0 with which less is wrong than before. Gives whether there is one.
    pub(super) fn follow_witnesses(&mut self, volume: &Volume, stage: &Stage, before: Count) -> Result<bool> {
        for (superblock, action) in self.other_words(volume) {
            let old = superblocks::replace_primary(stage, &superblock)?;
            let is_less = |after: Count| match action {
                Action::SuperblockByCopies => after.all < before.all,
                // The copies follow.
                _ => after.but_copies < before.but_copies,
            };
            if self.check().is_ok_and(|checked| is_less(checked.count())) {
                self.actions.push(action);
                return Ok(true);
            }
            superblocks::put_back_primary(stage, &old)?;
        }
        Ok(false)
    }

    /// What others say against the superblock in use, each with what is said when it is taken.
    fn other_words(&self, volume: &Volume) -> Vec<(Superblock, Action)> {
        // Copies that say the same of the log as the first superblock did were not believed before.
        let is_log_settled = self.actions.iter().any(|action| matches!(action, Action::SuperblockLog { .. }));
        let by_copies = vote::outvoted(volume)
            .filter(|_| !is_log_settled)
            .map(|superblock| (superblock, Action::SuperblockByCopies));
        let log = witnesses::log_place(volume).map(|(superblock, start, length_blocks)| {
            (superblock, Action::SuperblockLog { start, length_blocks })
        });
        let root = witnesses::root_directory(volume)
            .map(|(superblock, inode)| (superblock, Action::SuperblockRoot { inode }));
        by_copies.into_iter().chain(log).chain(root).collect()
    }
}

/// How many findings there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    all: u64,
    /// Without copies of the superblock that differ.
    but_copies: u64,
}

impl Checked {
    pub(super) fn count(&self) -> Count {
        let all = self.signature.count;
        Count { all, but_copies: all.saturating_sub(self.work.superblock_copies.len() as u64) }
    }
}

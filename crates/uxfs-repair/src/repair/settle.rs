//! Settling what the first superblock says, before anything relies on it: against its copies, and against structures that know where the
//! log and the root directory are. Another word is taken where less is wrong with it, copies of the superblock apart; what Linux would not
//! mount is not asked.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_format::{superblock::Superblock, units::AgNumber};
use uxfs_volume::{
    error::Result,
    tolerant::{SuperblockChoice, TolerantOptions},
    volume::Volume,
};

use super::{Checked, Repair, action::Action, stage::Stage, superblocks};
use crate::{
    metadata_directory,
    opening::{self, FoundSuperblock, LogComparison, OpeningOptions},
    superblock::{vote, witnesses},
};

/// Words that can be taken one after the other: each is of another kind.
const MOST_WORDS: usize = 4;

impl Repair<'_> {
    /// Puts the superblock that the caller has named in the place of the first one, unless that is sound and says the same: it has newer
    /// counters then. From now on the first superblock describes the file system.
    pub(super) fn take_chosen_superblock(&mut self) -> Result<()> {
        self.superblock = opening::without_need(&self.device, &self.options.superblock)?;
        let first = SuperblockChoice::Group(AgNumber::new(0));
        if [SuperblockChoice::Automatic, first].contains(&self.superblock) {
            return Ok(());
        }
        let superblock = std::mem::take(&mut self.superblock);
        let options = TolerantOptions { superblock, ..TolerantOptions::default() };
        let volume = Volume::open_tolerantly(Arc::clone(&self.device), &options)?;
        superblocks::replace_primary(&self.stage(&volume), volume.superblock())?;
        self.actions.push(Action::PrimarySuperblock);
        Ok(())
    }

    /// Where no group has a superblock, the log may have one; else other structures tell what was in it.
    pub(super) fn find_superblock(&mut self) -> Result<()> {
        let options = TolerantOptions { superblock: self.superblock.clone(), ..TolerantOptions::default() };
        let opened = Volume::open_tolerantly(Arc::clone(&self.device), &options);
        let found = opening::put_superblock(&self.device, &self.superblock, opened.as_ref())?;
        let Some((overlay, found)) = found else { return Ok(()) };
        for (start, length) in overlay.runs(0) {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            overlay.read(start, &mut bytes)?;
            self.overlay.write(start, &bytes)?;
        }
        self.actions.push(match found {
            FoundSuperblock::InLog => Action::SuperblockFromLog,
            FoundSuperblock::Inferred(witnesses) => Action::SuperblockInferred { witnesses },
        });
        Ok(())
    }

    /// The second step of a repair.
    pub(super) fn settle_superblock(&mut self) -> Result<()> {
        for _ in 0..MOST_WORDS {
            let options = OpeningOptions {
                ignore_log: true,
                comparison: LogComparison::None,
                ..self.opening_options()
            };
            let volume = opening::open(&self.device, &options)?.volume;
            let stage = self.stage(&volume);
            if self.other_words(&volume).is_empty() || !self.follow_first_word(&volume, &stage)? {
                // What features of the future have would be destroyed. Recovery has judged a log that holds something.
                return Ok(volume.superblock().feature_words().judge_with_clean_log()?.write?);
            }
        }
        Ok(())
    }

    fn follow_first_word(&mut self, volume: &Volume, stage: &Stage) -> Result<bool> {
        let before = self.check()?.count();
        self.follow_witnesses(volume, stage, before)
    }

    /// Takes the first word against the superblock of group 0 with which less is wrong than before. Gives whether there is one.
    pub(super) fn follow_witnesses(&mut self, volume: &Volume, stage: &Stage, before: Count) -> Result<bool> {
        for Word { superblock, action, wins_ties } in self.other_words(volume) {
            let old = superblocks::replace_primary(stage, &superblock)?;
            let is_better = |after: Count| after.0 < before.0 || wins_ties && after.0 == before.0;
            if self.check().is_ok_and(|checked| is_better(checked.count())) {
                self.actions.push(action);
                return Ok(true);
            }
            superblocks::put_back_primary(stage, &old)?;
        }
        Ok(false)
    }

    /// What others say against the superblock in use, and what Linux would mount.
    fn other_words(&self, volume: &Volume) -> Vec<Word> {
        // Copies that say the same of the log as the first superblock did were not believed before.
        let is_log_settled = self.actions.iter().any(|action| matches!(action, Action::SuperblockLog { .. }));
        let by_copies = vote::outvoted(volume).filter(|_| !is_log_settled).map(|outvoted| Word {
            superblock: outvoted.superblock,
            action: Action::SuperblockByCopies,
            wins_ties: outvoted.wins_ties,
        });
        let log = witnesses::log_place(volume).map(|(superblock, start, length_blocks)| Word {
            superblock,
            action: Action::SuperblockLog { start, length_blocks },
            wins_ties: false,
        });
        let root = witnesses::root_directory(volume).map(|(superblock, inode)| Word {
            superblock,
            action: Action::SuperblockRoot { inode, is_metadata: false },
            wins_ties: false,
        });
        let is_none_named = metadata_directory::root(volume)
            .is_some_and(|named| volume.geometry().inode_place(named).is_none());
        let metadata_root = witnesses::metadata_root(volume).map(|(superblock, inode)| Word {
            superblock,
            action: Action::SuperblockRoot { inode, is_metadata: true },
            wins_ties: is_none_named,
        });
        by_copies.into_iter().chain(log).chain(root).chain(metadata_root).collect()
    }
}

/// A word against the first superblock.
struct Word {
    /// As the first one would be.
    superblock: Superblock,
    /// What is said when it is taken.
    action: Action,
    /// Whether it is taken where as much is wrong with it as without.
    wins_ties: bool,
}

/// How many findings there are, without those about copies of the superblock: these end where the first one follows them, whatever they
/// say, and begin where it follows others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count(u64);

impl Checked {
    pub(super) fn count(&self) -> Count {
        Count(self.signature.count.saturating_sub(self.signature.of_copies))
    }
}

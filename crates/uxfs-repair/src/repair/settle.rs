//! Settling what the first superblock says, before anything relies on it: against its copies, and against structures that know where the
//! log and the root directory are. Another word is taken where fewer findings are left with it.

use uxfs_format::superblock::Superblock;
use uxfs_volume::{error::Result, volume::Volume};

use super::{Repair, action::Action, signature::Signature, stage::Stage, superblocks};
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
            if other_words(&volume).is_empty() {
                // What features of the future have would be destroyed.
                return Ok(volume.superblock().feature_words().judge()?.write?);
            }
            let before = self.check()?.signature;
            if !self.follow_witnesses(&volume, &stage, before)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the first word against the superblock of group 0 with which less is wrong than before. Gives whether there is one.
    pub(super) fn follow_witnesses(
        &mut self,
        volume: &Volume,
        stage: &Stage,
        before: Signature,
    ) -> Result<bool> {
        for (superblock, action) in other_words(volume) {
            let old = superblocks::replace_primary(stage, &superblock)?;
            if self.check().is_ok_and(|checked| checked.signature.count < before.count) {
                self.actions.push(action);
                return Ok(true);
            }
            superblocks::put_back_primary(stage, &old)?;
        }
        Ok(false)
    }
}

/// What others say against the superblock in use, each with what is said when it is taken.
fn other_words(volume: &Volume) -> Vec<(Superblock, Action)> {
    let by_copies = vote::outvoted(volume).map(|superblock| (superblock, Action::SuperblockByCopies));
    let log = witnesses::log_place(volume).map(|(superblock, start, length_blocks)| {
        (superblock, Action::SuperblockLog { start, length_blocks })
    });
    let root = witnesses::root_directory(volume)
        .map(|(superblock, inode)| (superblock, Action::SuperblockRoot { inode }));
    by_copies.into_iter().chain(log).chain(root).collect()
}

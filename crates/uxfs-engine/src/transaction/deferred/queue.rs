//! The order of deferred work.

use std::collections::VecDeque;

use uxfs_format::{
    btree::{
        extent_map::Extent,
        reverse_map::{Mapping, Owner},
    },
    inode::Fork,
    log::{
        extent_map::ExtentMapOperation, free_extent::FreedExtent, item::ItemType,
        reference_count::ReferenceCountOperation, reverse_map::ReverseMapOperation,
    },
    units::{AgBlock, AgNumber, InodeNumber},
};

use uxfs_journal::journal::IntentId;

use super::attribute_change::StoredChange;
use crate::allocation_group::reverse_map::change::continues;

/// Most pieces of work in one step: as many as Linux puts into one intent.
pub const STEP_LIMIT: usize = 16;

/// The owner of blocks at the moment when they become free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreedOwner {
    /// No owner: the reverse-map record was removed before.
    NoOwner,
    /// A btree or another owner that is no file.
    Group(Owner),
    /// The extent map of an inode's fork.
    ExtentMap {
        /// The inode.
        inode: InodeNumber,
        /// The fork.
        fork: Fork,
    },
    /// Unknown: a log that is replayed does not name the owner.
    #[doc(alias = "XFS_RMAP_OWN_UNKNOWN")]
    Unknown,
}

/// One piece of deferred work. It says all that an intent in the log says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Change the owner of blocks.
    #[doc(alias = "xfs_rmap_intent")]
    Owners {
        /// In which way.
        operation: ReverseMapOperation,
        /// Where they lie.
        group: AgNumber,
        /// The blocks and their owner.
        mapping: Mapping,
    },
    /// Change the number of owners of blocks.
    #[doc(alias = "xfs_refcount_intent")]
    References {
        /// In which way.
        operation: ReferenceCountOperation,
        /// Where they lie.
        group: AgNumber,
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
    },
    /// Change where the contents of a fork lie.
    #[doc(alias = "xfs_bmap_intent")]
    ExtentMap {
        /// In which way.
        operation: ExtentMapOperation,
        /// The inode.
        inode: InodeNumber,
        /// In which fork.
        fork: Fork,
        /// The mapping.
        extent: Extent,
    },
    /// Change an attribute.
    Attribute(StoredChange),
    /// Make blocks free.
    #[doc(alias = "xfs_extent_free_item")]
    Free {
        /// Where they lie.
        group: AgNumber,
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
        /// Their owner.
        owner: FreedOwner,
    },
}

impl Work {
    /// The one group that it changes; `None` where it may be any.
    pub fn group(&self) -> Option<AgNumber> {
        match self {
            Self::Owners { group, .. } | Self::References { group, .. } | Self::Free { group, .. } => {
                Some(*group)
            }
            Self::ExtentMap { .. } | Self::Attribute(_) => None,
        }
    }

    /// Whether both may be in one step: one group's work of one kind, so that a step takes little of the log. Work on
    /// inodes is done piece by piece: each may change any groups.
    fn goes_with(&self, other: &Self) -> bool {
        self.group().is_some()
            && self.group() == other.group()
            && std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Takes in work that goes on where this ends. Gives whether it did.
    fn absorb(&mut self, next: &Self) -> bool {
        let follows = |start: AgBlock, length_blocks: u32, next: AgBlock| {
            start.checked_add(length_blocks) == Some(next)
        };
        match (self, next) {
            (
                Self::Owners { operation, group, mapping },
                Self::Owners { operation: next_operation, group: next_group, mapping: next },
            ) if operation == next_operation && group == next_group && continues(mapping, next) => {
                mapping.length_blocks += next.length_blocks;
                true
            }
            (
                Self::References { operation, group, start, length_blocks },
                Self::References {
                    operation: next_operation,
                    group: next_group,
                    start: next,
                    length_blocks: more,
                },
            ) if operation == next_operation
                && group == next_group
                && follows(*start, *length_blocks, *next) =>
            {
                *length_blocks += more;
                true
            }
            (
                Self::Free { group, start, length_blocks, owner },
                Self::Free { group: next_group, start: next, length_blocks: more, owner: next_owner },
            ) if owner == next_owner && group == next_group && follows(*start, *length_blocks, *next) => {
                *length_blocks += more;
                true
            }
            _ => false,
        }
    }
}

/// An intent in the log that promises works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIntent {
    /// The type of its done item.
    pub end: ItemType,
    /// Its name.
    pub id: IntentId,
    /// The extents that its done item repeats.
    pub extents: Vec<FreedExtent>,
    /// The checkpoint that it is in.
    pub sequence: u64,
}

#[derive(Debug)]
struct Run {
    works: usize,
    intent: Option<LoggedIntent>,
}

/// The work that a transaction has deferred. Its memory stays for the next operation.
#[doc(alias = "xfs_defer_pending")]
#[derive(Debug, Default)]
pub struct DeferredWork {
    waiting: VecDeque<Work>,
    /// How `waiting` is divided: runs of works, in order, each promised by an intent in the log or not.
    runs: VecDeque<Run>,
    /// Of the step that is being done.
    intent: Option<LoggedIntent>,
    /// Work that was deferred since the step that is being done began.
    created: Vec<Work>,
    is_running: bool,
    /// The memory of the last step.
    step: Vec<Work>,
    /// Names and values of attributes that are to be changed.
    pub(super) text: Vec<u8>,
    /// Memory for blocks that a step finds without owners.
    pub unowned: Vec<(AgBlock, u32)>,
}

impl DeferredWork {
    /// Whether there is nothing to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.created.is_empty()
    }

    /// Adds work behind all that has been deferred, or as follow-up of the step that is being done. Work that goes on
    /// where the last ended becomes one with it: so an extent that came in pieces touches its tree once.
    #[inline]
    pub fn push(&mut self, work: Work) {
        let has_intent = self.runs.back().is_some_and(|run| run.intent.is_some());
        let last = match self.is_running {
            true => self.created.last_mut(),
            // Work under an intent stays as the intent says.
            false if has_intent => None,
            false => self.waiting.back_mut(),
        };
        if last.is_some_and(|last| last.absorb(&work)) {
            return;
        }
        if self.is_running {
            self.created.push(work);
            return;
        }
        self.waiting.push_back(work);
        match self.runs.back_mut() {
            Some(run) if run.intent.is_none() => run.works += 1,
            _ => self.runs.push_back(Run { works: 1, intent: None }),
        }
    }

    /// Adds works that an intent in the log promises. Gives whether they are one step: else the intent is to be replaced by one
    /// for each of their steps, by [`log_all_intents`](Self::log_all_intents), before any of it is done. A crash would have what was
    /// done of it done twice.
    pub fn push_with_intent(&mut self, works: impl IntoIterator<Item = Work>, intent: &LoggedIntent) -> bool {
        let before = self.waiting.len();
        self.waiting.extend(works);
        let mut added = self.waiting.iter().skip(before);
        let first = added.next();
        let is_one_step = first.is_some_and(|first| added.all(|next| next.goes_with(first)));
        let intent = is_one_step.then(|| intent.clone());
        self.runs.push_back(Run { works: self.waiting.len() - before, intent });
        is_one_step
    }

    /// Has an intent promise all work that none promises yet: `intent` is given works that go together, as many as one
    /// intent holds.
    pub fn log_all_intents<E>(
        &mut self,
        mut intent: impl FnMut(&[Work], &[u8]) -> Result<LoggedIntent, E>,
    ) -> Result<(), E> {
        let works = self.waiting.make_contiguous();
        let mut runs = VecDeque::with_capacity(self.runs.len());
        let mut start = 0;
        for run in self.runs.drain(..) {
            let end = start + run.works;
            if run.intent.is_some() {
                runs.push_back(run);
                start = end;
                continue;
            }
            while let Some((first, rest)) = works.get(start..end).and_then(<[Work]>::split_first) {
                let more = rest.iter().take(STEP_LIMIT - 1).take_while(|next| next.goes_with(first)).count();
                let together = works.get(start..=start + more).unwrap_or_default();
                runs.push_back(Run { works: together.len(), intent: Some(intent(together, &self.text)?) });
                start += together.len();
            }
        }
        self.runs = runs;
        Ok(())
    }

    /// The oldest checkpoint that an intent is in.
    pub fn oldest_intent(&self) -> Option<u64> {
        self.runs.iter().filter_map(|run| run.intent.as_ref()).map(|intent| intent.sequence).min()
    }

    /// Gives the first `most` promises in checkpoints up to `newest` to `renew`, with their work, of which nothing has been
    /// done.
    pub fn renew<E>(
        &mut self,
        newest: u64,
        most: usize,
        mut renew: impl FnMut(&[Work], &[u8], &mut LoggedIntent) -> Result<(), E>,
    ) -> Result<(), E> {
        let works = self.waiting.make_contiguous();
        let (mut start, mut left) = (0, most);
        for run in &mut self.runs {
            let with_intent = works.get(start..start + run.works).unwrap_or_default();
            start += run.works;
            if let Some(intent) = run.intent.as_mut().filter(|intent| intent.sequence <= newest)
                && left > 0
            {
                renew(with_intent, &self.text, intent)?;
                left -= 1;
            }
        }
        Ok(())
    }

    /// The oldest work, how much there is in the step that begins with it, and how much waits behind that.
    pub fn next_step(&self) -> Option<(&Work, usize, usize)> {
        let (first, run) = (self.waiting.front()?, self.runs.front()?);
        let most = if run.intent.is_some() { run.works } else { run.works.min(STEP_LIMIT) };
        let more = self.waiting.iter().take(most).skip(1).take_while(|next| next.goes_with(first)).count();
        Some((first, more + 1, self.waiting.len() - more - 1))
    }

    /// Begins a step: the oldest work with all of its kind and group that follows it. What comes up while it is done
    /// goes before all that waits. `None` when nothing waits.
    pub fn begin_step(&mut self) -> Option<Vec<Work>> {
        let Some(first) = self.waiting.pop_front() else {
            self.text.clear();
            self.runs.clear();
            return None;
        };
        let run = self.runs.front_mut()?;
        let most = if run.intent.is_some() { run.works } else { run.works.min(STEP_LIMIT) };
        let mut step = std::mem::take(&mut self.step);
        step.clear();
        step.push(first);
        while step.len() < most
            && let Some(next) = self.waiting.pop_front_if(|next| next.goes_with(&first))
        {
            step.push(next);
        }
        run.works -= step.len().min(run.works);
        if run.works == 0 {
            self.intent = self.runs.pop_front().and_then(|run| run.intent);
        }
        self.is_running = true;
        Some(step)
    }

    /// Ends a step. Gives the intent that it has kept, if there was one.
    pub fn end_step(&mut self, step: Vec<Work>) -> Option<LoggedIntent> {
        self.step = step;
        self.is_running = false;
        if !self.created.is_empty() {
            self.runs.push_front(Run { works: self.created.len(), intent: None });
        }
        for work in self.created.drain(..).rev() {
            self.waiting.push_front(work);
        }
        self.intent.take()
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;

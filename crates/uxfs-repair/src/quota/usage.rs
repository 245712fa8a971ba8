//! What inodes use, summed by owner: in memory up to a bound, sorted in temporary files behind it.

use std::collections::HashMap;

use parking_lot::Mutex;
use uxfs_block::spill::{
    SpillError,
    sorter::{Merge, Sorter},
};
use uxfs_format::{inode::InodeFlags2, quota::QuotaKind, units::InodeNumber};
use uxfs_volume::inode::Inode;

use super::QuotaInode;
use crate::check::Context;

/// Sums that a thread keeps before it gives them to the sorter.
const MOST_SUMS: usize = 16384;

/// Blocks and inodes of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Used {
    pub blocks: u64,
    pub inodes: u64,
    pub realtime_blocks: u64,
}

impl Used {
    fn add(&mut self, other: Self) {
        self.blocks = self.blocks.wrapping_add(other.blocks);
        self.inodes = self.inodes.wrapping_add(other.inodes);
        self.realtime_blocks = self.realtime_blocks.wrapping_add(other.realtime_blocks);
    }

    fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        let values = [self.blocks, self.inodes, self.realtime_blocks];
        for (place, value) in bytes.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let value = |index: usize| Some(u64::from_le_bytes(*bytes.get(index * 8..)?.first_chunk()?));
        Some(Self { blocks: value(0)?, inodes: value(1)?, realtime_blocks: value(2)? })
    }
}

/// The owner of a sum.
pub(crate) type Owner = (QuotaKind, u32);

/// The sums of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadUsage {
    sums: HashMap<Owner, Used>,
}

/// The sums of all threads.
#[derive(Debug)]
pub(crate) struct Usage {
    /// Kinds whose counts are complete.
    kinds: Vec<QuotaKind>,
    /// What they use themselves is not counted.
    left_out: Vec<InodeNumber>,
    has_metadata_directory: bool,
    sorter: Mutex<Result<Sorter, SpillError>>,
}

impl Usage {
    /// For the counts of these inodes.
    pub fn new(context: &Context<'_>, inodes: &[QuotaInode]) -> Self {
        let checked = inodes.iter().filter(|inode| inode.is_checked);
        Self {
            kinds: checked.map(|inode| inode.kind).collect(),
            left_out: inodes.iter().map(|inode| inode.number).collect(),
            has_metadata_directory: context.volume.geometry().features.has_metadata_directory(),
            sorter: Mutex::new(Ok(Sorter::new(context.memory.sort_bytes()))),
        }
    }

    /// Whether there is nothing to compare with sums.
    pub fn is_unwanted(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Counts an inode, of whose blocks so many lie in the realtime section.
    pub fn add(&self, thread: &mut ThreadUsage, inode: &Inode, realtime_blocks: u64) {
        if self.is_unwanted() || self.is_left_out(inode) {
            return;
        }
        let blocks = inode.blocks().saturating_sub(realtime_blocks);
        let used = Used { blocks, inodes: 1, realtime_blocks };
        for kind in &self.kinds {
            let id = match kind {
                QuotaKind::User => inode.uid(),
                QuotaKind::Group => inode.gid(),
                QuotaKind::Project => inode.project_id(),
            };
            thread.sums.entry((*kind, id)).or_default().add(used);
        }
        if thread.sums.len() > MOST_SUMS {
            self.take(thread);
        }
    }

    fn is_left_out(&self, inode: &Inode) -> bool {
        let is_metadata = self.has_metadata_directory && inode.flags2().contains(InodeFlags2::METADATA);
        is_metadata || self.left_out.contains(&inode.number)
    }

    /// Takes in the sums of a thread.
    pub fn take(&self, thread: &mut ThreadUsage) {
        let mut guard = self.sorter.lock();
        for ((kind, id), used) in thread.sums.drain() {
            let Ok(sorter) = &mut *guard else { return };
            let [a, b, c, d] = id.to_be_bytes();
            if let Err(error) = sorter.push(&[kind as u8, a, b, c, d], &used.to_bytes()) {
                *guard = Err(error);
            }
        }
    }

    /// All sums, by kind and id.
    ///
    /// # Errors
    /// A temporary file.
    pub fn into_totals(self) -> Result<Totals, SpillError> {
        let mut totals =
            Totals { merge: self.sorter.into_inner()?.finish()?.read()?, ahead: None, next: None };
        totals.next = totals.read()?;
        Ok(totals)
    }
}

/// Sums in ascending order.
#[derive(Debug)]
pub(crate) struct Totals {
    merge: Merge,
    /// The part of a sum that was read last.
    ahead: Option<(Owner, Used)>,
    next: Option<(Owner, Used)>,
}

impl Totals {
    /// The next one.
    pub fn peek(&self) -> Option<(Owner, Used)> {
        self.next
    }

    /// Gives the next one, and moves on.
    ///
    /// # Errors
    /// A temporary file.
    pub fn pop(&mut self) -> Result<Option<(Owner, Used)>, SpillError> {
        let next = self.read()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Joins the parts that several threads have.
    fn read(&mut self) -> Result<Option<(Owner, Used)>, SpillError> {
        let mut total = match self.ahead.take() {
            Some(part) => Some(part),
            None => self.read_part()?,
        };
        while let Some((owner, used)) = &mut total {
            match self.read_part()? {
                Some((other, part)) if other == *owner => used.add(part),
                part => {
                    self.ahead = part;
                    break;
                }
            }
        }
        Ok(total)
    }

    fn read_part(&mut self) -> Result<Option<(Owner, Used)>, SpillError> {
        let Some((key, payload)) = self.merge.next_record()? else { return Ok(None) };
        let part = match *key {
            [kind, a, b, c, d] => QuotaKind::ALL
                .into_iter()
                .find(|known| *known as u8 == kind)
                .zip(Used::from_bytes(payload))
                .map(|(kind, used)| ((kind, u32::from_be_bytes([a, b, c, d])), used)),
            _ => None,
        };
        part.map(Some).ok_or_else(SpillError::damaged)
    }
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;

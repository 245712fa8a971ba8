//! The states of all groups, each made when it is first asked for.
//!
//! The number of groups comes from disk, and a sparse image of a few blocks may reserve 2²⁸ of them. So memory grows with the
//! groups that are used: a table of chunks, neither longer than 2¹⁶ entries, whose entries stay empty until then.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use uxfs_format::units::AgNumber;

use super::state::GroupState;

/// log2 of the fewest groups in a chunk.
const LEAST_CHUNK_LOG: u32 = 6;

type Slot = OnceLock<Arc<Mutex<GroupState>>>;

/// A state for each group of a file system.
#[doc(alias = "m_groups")]
#[derive(Debug)]
pub(crate) struct GroupTable {
    count: u32,
    chunk_log: u32,
    chunks: Box<[OnceLock<Box<[Slot]>>]>,
}

fn empty<T>(length: u32) -> Box<[OnceLock<T>]> {
    (0..length).map(|_| OnceLock::new()).collect()
}

impl GroupTable {
    /// For so many groups.
    pub fn new(count: u32) -> Self {
        let bits = u32::BITS - count.leading_zeros();
        let chunk_log = bits.div_ceil(2).max(LEAST_CHUNK_LOG);
        Self { count, chunk_log, chunks: empty(count.div_ceil(1 << chunk_log)) }
    }

    /// The state of a group, or `None` where there is no such group.
    #[inline]
    pub fn get(&self, group: AgNumber) -> Option<&Arc<Mutex<GroupState>>> {
        if group.get() >= self.count {
            return None;
        }
        let chunk = self.chunks.get((group.get() >> self.chunk_log) as usize)?;
        let chunk = chunk.get_or_init(|| empty(1 << self.chunk_log));
        let slot = chunk.get((group.get() & ((1 << self.chunk_log) - 1)) as usize)?;
        Some(slot.get_or_init(|| Arc::new(Mutex::new(GroupState::new(group)))))
    }

    /// The state of a group that has been asked for before.
    pub fn peek(&self, group: AgNumber) -> Option<&Arc<Mutex<GroupState>>> {
        let chunk = self.chunks.get((group.get() >> self.chunk_log) as usize)?.get()?;
        chunk.get((group.get() & ((1 << self.chunk_log) - 1)) as usize)?.get()
    }

    /// The groups whose states have been asked for so far, in the order of the groups.
    pub fn known(&self) -> impl Iterator<Item = (AgNumber, &Arc<Mutex<GroupState>>)> {
        let chunks = self.chunks.iter().enumerate().filter_map(|(index, chunk)| Some((index, chunk.get()?)));
        chunks.flat_map(|(index, chunk)| {
            let first = (index as u32) << self.chunk_log;
            let slots = chunk.iter().enumerate();
            slots.filter_map(move |(index, slot)| Some((AgNumber::new(first + index as u32), slot.get()?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_the_groups_that_are_used() {
        for count in [0, 1, 63, 64, 65, 4097, 1 << 20, (1 << 28) - 1, u32::MAX] {
            let table = GroupTable::new(count);
            assert!(table.chunks.len() <= 1 << 16 && table.chunk_log <= 16, "{count}");
            let chunks = || table.chunks.iter().filter(|chunk| chunk.get().is_some()).count();
            assert_eq!((chunks(), table.known().count()), (0, 0));
            assert!(table.get(AgNumber::new(count)).is_none());
            let Some(last) = count.checked_sub(1).map(AgNumber::new) else { continue };
            for group in [last, AgNumber::new(0), last] {
                assert_eq!(table.get(group).unwrap().lock().group(), group);
            }
            assert!(chunks() <= 2);
            let known: Vec<AgNumber> = table
                .known()
                .map(|(number, state)| {
                    assert_eq!(state.lock().group(), number);
                    number
                })
                .collect();
            assert!(known.is_sorted() && known.len() == count.min(2) as usize, "{count}: {known:?}");
        }
    }
}

//! The pieces that were decompressed last.
//!
//! Invariants:
//! 1. What is kept, and what is being decompressed, take no more than the budget; a piece that needs more waits until it is alone.
//! 2. No piece is decompressed by two threads at once: the second waits for the first.
//! 3. A piece that is damaged is not decompressed again at each read of it.

use std::{collections::HashMap, io};

use parking_lot::{Condvar, Mutex};

/// Damaged pieces that are remembered.
const MOST_FAILED: usize = 4096;

/// The memory that a piece takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// While it is kept.
    pub kept_bytes: u64,
    /// Beside that, while it is decompressed.
    pub working_bytes: u64,
}

#[derive(Debug)]
enum Slot {
    Decoding,
    Kept { bytes: Vec<u8>, used_at: u64 },
}

#[derive(Debug, Default)]
struct State {
    slots: HashMap<u64, Slot>,
    failed: HashMap<u64, String>,
    /// By everything in `slots`.
    taken_bytes: u64,
    decoding_count: usize,
    clock: u64,
}

/// Pieces by number.
#[derive(Debug)]
pub(crate) struct PieceCache {
    state: Mutex<State>,
    changed: Condvar,
    budget_bytes: u64,
}

impl PieceCache {
    pub fn new(budget_bytes: u64) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), budget_bytes }
    }

    /// Calls `take` with the bytes of a piece, which `decode` makes where they are not here. No other thread gets at the cache meanwhile.
    ///
    /// # Errors
    /// Those of `decode`.
    pub fn read<T>(
        &self,
        number: u64,
        cost: Cost,
        decode: impl FnOnce() -> io::Result<Vec<u8>>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> io::Result<T> {
        let most_bytes = cost.kept_bytes.saturating_add(cost.working_bytes);
        let mut state = self.state.lock();
        loop {
            if let Some(words) = state.failed.get(&number) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, words.clone()));
            }
            state.clock += 1;
            let now = state.clock;
            let is_decoding = match state.slots.get_mut(&number) {
                Some(Slot::Kept { bytes, used_at }) => {
                    *used_at = now;
                    return Ok(take(bytes));
                }
                Some(Slot::Decoding) => true,
                None => false,
            };
            if !is_decoding && state.make_room(most_bytes, self.budget_bytes) {
                break;
            }
            self.changed.wait(&mut state);
        }
        state.slots.insert(number, Slot::Decoding);
        state.taken_bytes = state.taken_bytes.saturating_add(most_bytes);
        state.decoding_count += 1;
        drop(state);
        let decoded = decode();
        let mut state = self.state.lock();
        state.slots.remove(&number);
        state.decoding_count -= 1;
        state.taken_bytes = state.taken_bytes.saturating_sub(most_bytes);
        self.changed.notify_all();
        match decoded {
            Ok(bytes) => {
                let taken = take(&bytes);
                state.taken_bytes = state.taken_bytes.saturating_add(bytes.len() as u64);
                let used_at = state.clock;
                state.slots.insert(number, Slot::Kept { bytes, used_at });
                Ok(taken)
            }
            Err(error) => {
                // What the host cannot read may be read the next time.
                if error.kind() == io::ErrorKind::InvalidData {
                    state.remember_failure(number, error.to_string());
                }
                Err(error)
            }
        }
    }

    #[cfg(test)]
    pub fn taken_bytes(&self) -> u64 {
        self.state.lock().taken_bytes
    }
}

impl State {
    /// Drops pieces until there is room for another one, the oldest first. Gives whether there is. An eighth of the budget is made free at
    /// once: small pieces are many, and to look at all of them for each would take longer than to decompress them.
    fn make_room(&mut self, wanted_bytes: u64, budget_bytes: u64) -> bool {
        let is_room =
            |taken_bytes: u64, budget_bytes: u64| taken_bytes.saturating_add(wanted_bytes) <= budget_bytes;
        if is_room(self.taken_bytes, budget_bytes) {
            return true;
        }
        let kept = self.slots.iter().filter_map(|(number, slot)| match slot {
            Slot::Kept { used_at, .. } => Some((*used_at, *number)),
            Slot::Decoding => None,
        });
        let mut kept: Vec<_> = kept.collect();
        kept.sort_unstable();
        for (_, number) in kept {
            if is_room(self.taken_bytes, budget_bytes - budget_bytes / 8) {
                break;
            }
            if let Some(Slot::Kept { bytes, .. }) = self.slots.remove(&number) {
                self.taken_bytes = self.taken_bytes.saturating_sub(bytes.len() as u64);
            }
        }
        is_room(self.taken_bytes, budget_bytes) || self.decoding_count == 0
    }

    fn remember_failure(&mut self, number: u64, words: String) {
        if self.failed.len() >= MOST_FAILED {
            self.failed.clear();
        }
        self.failed.insert(number, words);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    const COST: Cost = Cost { kept_bytes: 100, working_bytes: 100 };

    #[test]
    fn pieces_are_decompressed_once_while_there_is_room() {
        let cache = PieceCache::new(500);
        let count = AtomicUsize::new(0);
        let read = |number: u64| {
            let decode = || {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(vec![number as u8; 100])
            };
            cache.read(number, COST, decode, |bytes| bytes[7]).unwrap()
        };
        for number in [1, 2, 3, 1, 2, 3] {
            assert_eq!(read(number), number as u8);
        }
        assert_eq!((count.load(Ordering::Relaxed), cache.taken_bytes()), (3, 300));
        // The oldest goes: 400 are kept, and one that is decompressed takes 200.
        read(1);
        read(4);
        read(5);
        assert!(cache.taken_bytes() <= 500);
        read(1);
        assert_eq!(count.load(Ordering::Relaxed), 5);
        read(2);
        assert_eq!(count.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn threads_share_pieces_and_the_budget() {
        let cache = PieceCache::new(450);
        let (now, most, count) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (cache, now, most, count) = (&cache, &now, &most, &count);
                scope.spawn(move || {
                    for round in 0..200_u64 {
                        let number = (thread * 7 + round) % 11;
                        let decode = || {
                            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            count.fetch_add(1, Ordering::Relaxed);
                            thread::yield_now();
                            now.fetch_sub(1, Ordering::SeqCst);
                            Ok(vec![number as u8; 100])
                        };
                        assert_eq!(
                            cache.read(number, COST, decode, |bytes| bytes[99]).unwrap(),
                            number as u8
                        );
                    }
                });
            }
        });
        assert!(most.into_inner() <= 2 && cache.taken_bytes() <= 450 && count.into_inner() >= 11);
    }

    #[test]
    fn one_that_is_larger_than_the_budget_is_alone_and_damage_is_remembered() {
        let cache = PieceCache::new(10);
        assert_eq!(cache.read(1, COST, || Ok(vec![1; 100]), <[u8]>::len).unwrap(), 100);
        assert_eq!(cache.read(2, COST, || Ok(vec![2; 100]), <[u8]>::len).unwrap(), 100);
        assert_eq!(cache.taken_bytes(), 100);
        let damaged = || Err(io::Error::new(io::ErrorKind::InvalidData, "words"));
        assert_eq!(cache.read(3, COST, damaged, <[u8]>::len).unwrap_err().to_string(), "words");
        let other = || Err(io::Error::new(io::ErrorKind::InvalidData, "it was decompressed again"));
        let again = cache.read(3, COST, other, <[u8]>::len);
        assert_eq!(again.unwrap_err().to_string(), "words");
        // A device may have a better day.
        assert!(cache.read(4, COST, || Err(io::ErrorKind::Other.into()), <[u8]>::len).is_err());
        assert_eq!(cache.read(4, COST, || Ok(vec![2; 3]), <[u8]>::len).unwrap(), 3);
    }
}

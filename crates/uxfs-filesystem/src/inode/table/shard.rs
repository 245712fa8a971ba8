//! One part of the table: numbers and slots, behind one lock.

use std::sync::{Arc, atomic::Ordering};

use hashbrown::HashTable;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use uxfs_block::lock_order::{LockKey, Ordered};
use uxfs_format::units::InodeNumber;

use super::{InodeHandle, Slot, give_up::is_large};

/// Entries that the clock's hand passes in search of one to evict.
const MOST_STEPS: usize = 16;

/// A lock that the loading thread holds; other threads that want the inode wait for it.
pub(super) type Flight = Arc<Mutex<()>>;

#[derive(Debug)]
pub(super) struct Shard {
    state: RwLock<State>,
    /// Entries above which slots without handles are evicted.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Index into `entries`.
    table: HashTable<u32>,
    entries: Vec<Option<Entry>>,
    vacant: Vec<u32>,
    /// Where the clock's hand stands.
    hand: usize,
}

#[derive(Debug)]
struct Entry {
    number: InodeNumber,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Slot(Arc<Slot>),
    Loading(Flight),
}

/// The result of a lookup.
pub(super) enum SlotLookup {
    Slot(InodeHandle),
    Loading(Flight),
    Dying,
    Absent,
}

/// The loading thread's claim on a number. Dropping it before [`finish`](Self::finish) removes the entry.
pub(super) struct Loading<'s> {
    shard: &'s Shard,
    number: InodeNumber,
    hash: u64,
    flight: Flight,
    _held: Ordered<ArcMutexGuard<RawMutex, ()>>,
}

/// All bits of the result depend on the number, which is mostly small.
#[inline]
pub(super) fn hash_of(number: InodeNumber) -> u64 {
    let hash = number.get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 32)
}

impl State {
    #[inline]
    fn index_of(&self, number: InodeNumber, hash: u64) -> Option<u32> {
        let is_it = |index: &u32| self.entry(*index).is_some_and(|entry| entry.number == number);
        self.table.find(hash, is_it).copied()
    }

    #[inline]
    fn entry(&self, index: u32) -> Option<&Entry> {
        self.entries.get(index as usize)?.as_ref()
    }

    #[inline]
    fn value(&self, number: InodeNumber, hash: u64) -> Option<&Value> {
        self.index_of(number, hash).and_then(|index| self.entry(index)).map(|entry| &entry.value)
    }

    fn value_mut(&mut self, number: InodeNumber, hash: u64) -> Option<&mut Value> {
        let index = self.index_of(number, hash)?;
        self.entries.get_mut(index as usize)?.as_mut().map(|entry| &mut entry.value)
    }

    /// Adds a number that is not there.
    fn insert(&mut self, number: InodeNumber, hash: u64, value: Value) {
        let entry = Some(Entry { number, value });
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                self.entries.push(None);
                u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
            }
        };
        if let Some(place) = self.entries.get_mut(index as usize) {
            *place = entry;
        }
        let entries = &self.entries;
        let hash_again = |index: &u32| {
            let entry = entries.get(*index as usize).and_then(Option::as_ref);
            entry.map_or(0, |entry| hash_of(entry.number))
        };
        self.table.insert_unique(hash, index, hash_again);
    }

    fn remove(&mut self, number: InodeNumber, hash: u64) -> Option<Entry> {
        let entries = &self.entries;
        let is_it = |index: &u32| {
            let entry = entries.get(*index as usize).and_then(Option::as_ref);
            entry.is_some_and(|entry| entry.number == number)
        };
        let (index, _) = self.table.find_entry(hash, is_it).ok()?.remove();
        self.vacant.push(index);
        self.entries.get_mut(index as usize)?.take()
    }

    /// Evicts one slot without handles, if the hand finds one soon. The caller drops it after the lock.
    fn evict(&mut self) -> Option<Entry> {
        for _ in 0..MOST_STEPS.min(self.entries.len()) {
            self.hand = (self.hand + 1) % self.entries.len().max(1);
            let Some(Entry { number, value: Value::Slot(slot) }) =
                self.entries.get(self.hand).and_then(Option::as_ref)
            else {
                continue;
            };
            let is_needed = slot.handles.load(Ordering::Acquire) > 0
                || slot.is_unlinked.load(Ordering::Acquire)
                || slot.is_recent.swap(false, Ordering::Relaxed);
            if !is_needed {
                let number = *number;
                return self.remove(number, hash_of(number));
            }
        }
        None
    }
}

impl Shard {
    pub fn new(most: usize) -> Self {
        Self { state: RwLock::default(), most }
    }

    #[inline]
    fn read_state(&self) -> Ordered<RwLockReadGuard<'_, State>> {
        Ordered::wait(LockKey::InodeShard, || self.state.read())
    }

    fn write_state(&self) -> Ordered<RwLockWriteGuard<'_, State>> {
        Ordered::wait(LockKey::InodeShard, || self.state.write())
    }

    /// The hot path: takes no lock that others wait for, and allocates nothing.
    #[inline]
    pub fn find(&self, number: InodeNumber, hash: u64) -> SlotLookup {
        let state = self.read_state();
        match state.value(number, hash) {
            None => SlotLookup::Absent,
            Some(Value::Loading(flight)) => SlotLookup::Loading(Arc::clone(flight)),
            Some(Value::Slot(slot)) if slot.is_dying.load(Ordering::Acquire) => SlotLookup::Dying,
            Some(Value::Slot(slot)) => {
                // Counted under the lock: decisions about slots without handles hold it exclusively.
                slot.handles.fetch_add(1, Ordering::Relaxed);
                if !slot.is_recent.load(Ordering::Relaxed) {
                    slot.is_recent.store(true, Ordering::Relaxed);
                }
                SlotLookup::Slot(InodeHandle { slot: Arc::clone(slot) })
            }
        }
    }

    /// Claims a number for loading; `None` where it is in the table by now.
    pub fn begin_load(&self, number: InodeNumber, hash: u64) -> Option<Loading<'_>> {
        let flight = Flight::default();
        let held = Ordered::taken(LockKey::InodeLoad, Mutex::lock_arc(&flight));
        let mut state = self.write_state();
        if state.index_of(number, hash).is_some() {
            return None;
        }
        let given_up = self.make_room(&mut state);
        state.insert(number, hash, Value::Loading(Arc::clone(&flight)));
        drop(state);
        drop(given_up);
        Some(Loading { shard: self, number, hash, flight, _held: held })
    }

    fn make_room(&self, state: &mut State) -> [Option<Entry>; 2] {
        if state.table.len() < self.most {
            return [None, None];
        }
        // Two for one, so that a table above its limit shrinks.
        [state.evict(), state.evict()]
    }

    /// Puts a new inode into the table, whatever was known of its number.
    pub fn put(&self, slot: &Arc<Slot>, hash: u64) {
        let mut state = self.write_state();
        let mut value = Value::Slot(Arc::clone(slot));
        let given_up = match state.value_mut(slot.number, hash) {
            Some(old) => {
                std::mem::swap(old, &mut value);
                [Some(Entry { number: slot.number, value }), None]
            }
            None => {
                let given_up = self.make_room(&mut state);
                state.insert(slot.number, hash, value);
                given_up
            }
        };
        drop(state);
        drop(given_up);
    }

    /// Evicts all idle slots that hold very many extents.
    pub fn give_up_large(&self) {
        let mut state = self.write_state();
        let is_to_go = |slot: &Slot| {
            let is_needed =
                slot.handles.load(Ordering::Acquire) > 0 || slot.is_unlinked.load(Ordering::Acquire);
            // Without a handle no thread can wait for this lock.
            !is_needed && slot.inode.try_read().is_some_and(|inode| is_large(&inode))
        };
        let found = state.entries.iter().flatten().filter_map(|entry| match &entry.value {
            Value::Slot(slot) if is_to_go(slot) => Some(entry.number),
            _ => None,
        });
        let numbers: Vec<InodeNumber> = found.collect();
        let given_up: Vec<_> =
            numbers.into_iter().map(|number| state.remove(number, hash_of(number))).collect();
        drop(state);
        drop(given_up);
    }

    pub fn forget(&self, slot: &Arc<Slot>, hash: u64) {
        let mut state = self.write_state();
        let is_it =
            matches!(state.value(slot.number, hash), Some(Value::Slot(own)) if Arc::ptr_eq(own, slot));
        let entry = if is_it { state.remove(slot.number, hash) } else { None };
        drop(state);
        drop(entry);
    }

    /// Makes a slot a dying one if its caller's handle is the only one.
    pub fn begin_free(&self, number: InodeNumber, hash: u64, slot: &Arc<Slot>) -> bool {
        let state = self.write_state();
        match state.value(number, hash) {
            Some(Value::Slot(own)) if Arc::ptr_eq(own, slot) => {
                let is_alone = slot.handles.load(Ordering::Acquire) == 1;
                if is_alone {
                    slot.is_dying.store(true, Ordering::Release);
                }
                is_alone
            }
            _ => false,
        }
    }

    /// The slot of a number, dying from now on, if it has no name and no handle.
    pub fn take_unlinked(&self, number: InodeNumber, hash: u64) -> Option<InodeHandle> {
        let state = self.write_state();
        let Some(Value::Slot(slot)) = state.value(number, hash) else { return None };
        let is_to_go = slot.handles.load(Ordering::Acquire) == 0
            && slot.is_unlinked.load(Ordering::Acquire)
            && !slot.is_dying.load(Ordering::Acquire);
        if !is_to_go {
            return None;
        }
        slot.is_dying.store(true, Ordering::Release);
        slot.handles.store(1, Ordering::Release);
        Some(InodeHandle { slot: Arc::clone(slot) })
    }

    pub fn len(&self) -> usize {
        self.read_state().table.len()
    }
}

impl Loading<'_> {
    /// Puts the loaded inode into the table; `None` where a new inode got the number meanwhile.
    pub fn finish(self, slot: Arc<Slot>) -> Option<InodeHandle> {
        let mut state = self.shard.write_state();
        match state.value_mut(self.number, self.hash) {
            Some(value) if self.is_own(value) => {
                *value = Value::Slot(Arc::clone(&slot));
                drop(state);
                Some(InodeHandle { slot })
            }
            _ => None,
        }
    }

    fn is_own(&self, value: &Value) -> bool {
        matches!(value, Value::Loading(flight) if Arc::ptr_eq(flight, &self.flight))
    }
}

impl Drop for Loading<'_> {
    /// After a failure no entry is left. Waiting threads go on when the flight's lock goes, after this.
    fn drop(&mut self) {
        let mut state = self.shard.write_state();
        if state.value(self.number, self.hash).is_some_and(|value| self.is_own(value)) {
            state.remove(self.number, self.hash);
        }
    }
}

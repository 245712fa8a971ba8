//! One part of the table: names, buffers and reads under way, behind one lock.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::{
    buffer::Buffer,
    counters::CacheCounters,
    edit::Dirty,
    eviction::Policy,
    flight::Flight,
    key::{Key, OwnedKey, Piece},
};

/// Buffers given up in one go: they are freed after the lock is released.
const VICTIMS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Shard {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Index into `entries`.
    table: HashTable<u32>,
    entries: Vec<Option<Entry>>,
    vacant: Vec<u32>,
    policy: Policy,
    /// Entries that are dirty, in no order.
    dirty: Vec<u32>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    hits: u64,
    joined: u64,
    misses: u64,
    evictions: u64,
    ghost_hits: u64,
    prefetch_used: u64,
    prefetch_wasted: u64,
}

#[derive(Debug)]
struct Entry {
    key: OwnedKey,
    value: Value,
    /// Read ahead, and not looked up since.
    is_prefetched: bool,
}

#[derive(Debug)]
enum Value {
    InFlight(Arc<Flight>),
    Resident(Buffer),
    Dirty {
        dirty: Arc<Dirty>,
        /// Index into `State::dirty`.
        position: usize,
    },
}

/// Result of a lookup for a change.
pub(super) enum EditLookup {
    Dirty(Arc<Dirty>),
    /// Another thread reads it.
    InFlight(Arc<Flight>),
    Absent,
}

/// Result of a lookup.
pub(super) enum Lookup<'cache> {
    Hit(Buffer),
    /// It has been changed.
    Dirty(Arc<Dirty>),
    /// Another thread reads it.
    InFlight(Arc<Flight>),
    /// This thread is to read it.
    Claimed(Claim<'cache>),
}

/// The read of a buffer by one thread for all that want it. If this is dropped before it lands, the read has failed.
pub(super) struct Claim<'cache> {
    shard: &'cache Shard,
    index: u32,
    flight: Arc<Flight>,
    has_landed: bool,
}

impl Shard {
    pub fn look_up_or_claim(&self, key: &Key<'_>, is_prefetch: bool) -> Lookup<'_> {
        if let Some(found) = self.state.lock().look_up(key, is_prefetch) {
            return found;
        }
        // Allocated outside the lock; another thread may have claimed the name meanwhile.
        let (flight, owned) = (Arc::<Flight>::default(), key.owned());
        let mut state = self.state.lock();
        if let Some(found) = state.look_up(key, is_prefetch) {
            return found;
        }
        state.counts.misses += u64::from(!is_prefetch);
        let index = state.add(owned, Value::InFlight(Arc::clone(&flight)), is_prefetch);
        Lookup::Claimed(Claim { shard: self, index, flight, has_landed: false })
    }

    /// Takes a resident buffer out.
    pub fn forget(&self, key: &Key<'_>) -> Option<Buffer> {
        let mut state = self.state.lock();
        let index = state.find(key)?;
        match &state.entry(index).value {
            Value::InFlight(_) | Value::Dirty { .. } => None,
            Value::Resident(_) => {
                state.policy.remove(index);
                state.remove(index)
            }
        }
    }

    /// Makes a resident buffer dirty, so that it stays while it is changed.
    pub fn look_up_for_edit(&self, key: &Key<'_>, dirty_bytes: &AtomicU64) -> EditLookup {
        let mut state = self.state.lock();
        let Some(index) = state.find(key) else { return EditLookup::Absent };
        match &state.entry(index).value {
            Value::Dirty { dirty, .. } => EditLookup::Dirty(Arc::clone(dirty)),
            Value::InFlight(flight) => EditLookup::InFlight(Arc::clone(flight)),
            Value::Resident(buffer) => {
                let buffer = buffer.clone();
                state.policy.remove(index);
                EditLookup::Dirty(state.set_dirty(index, buffer, key.pieces, dirty_bytes))
            }
        }
    }

    /// Puts a new buffer into the table as a changed one, unless its name is in use.
    pub fn insert_dirty(
        &self,
        key: &Key<'_>,
        pieces: &[Piece],
        buffer: Buffer,
        dirty_bytes: &AtomicU64,
    ) -> EditLookup {
        let mut state = self.state.lock();
        if let Some(index) = state.find(key) {
            return match &state.entry(index).value {
                Value::InFlight(flight) => EditLookup::InFlight(Arc::clone(flight)),
                Value::Dirty { .. } | Value::Resident(_) => EditLookup::Absent,
            };
        }
        let index = state.add(key.owned(), Value::Resident(buffer.clone()), false);
        EditLookup::Dirty(state.set_dirty(index, buffer, pieces, dirty_bytes))
    }

    pub fn find_dirty(&self, key: &Key<'_>) -> Option<Arc<Dirty>> {
        let state = self.state.lock();
        match &state.entry(state.find(key)?).value {
            Value::Dirty { dirty, .. } => Some(Arc::clone(dirty)),
            _ => None,
        }
    }

    /// Takes a changed buffer out of the table, if it is that one still.
    pub fn remove_dirty(&self, key: &Key<'_>, expected: &Arc<Dirty>, dirty_bytes: &AtomicU64) {
        let mut state = self.state.lock();
        if let Some(index) = state.find_this_dirty(key, expected) {
            state.unlist_dirty(index, dirty_bytes);
            state.remove(index);
        }
    }

    /// Puts a buffer that has been written back into the queues. False if a thread waits to change it.
    pub fn make_clean(
        &self,
        key: &Key<'_>,
        expected: &Arc<Dirty>,
        buffer: &Buffer,
        probation_target: u64,
        dirty_bytes: &AtomicU64,
    ) -> bool {
        let mut state = self.state.lock();
        let Some(index) = state.find_this_dirty(key, expected) else { return false };
        // The table's handle and that of the caller.
        if Arc::strong_count(expected) > 2 {
            return false;
        }
        state.unlist_dirty(index, dirty_bytes);
        let entry = state.entries[index as usize].as_mut().expect("the table names entries in use");
        entry.value = Value::Resident(buffer.clone());
        let hash = entry.key.hash;
        state.policy.insert(index, hash, buffer.charged_bytes(), probation_target);
        true
    }

    pub fn collect_dirty(&self, all: &mut Vec<Arc<Dirty>>) {
        let state = self.state.lock();
        let dirty = state.dirty.iter().filter_map(|index| match &state.entry(*index).value {
            Value::Dirty { dirty, .. } => Some(Arc::clone(dirty)),
            _ => None,
        });
        all.extend(dirty);
    }

    /// Gives up buffers of `wanted_bytes` together, or a few where that is many. They are freed when the
    /// result is dropped.
    pub fn evict(&self, wanted_bytes: u64, probation_target: u64) -> Vec<Buffer> {
        let mut victims = Vec::with_capacity(VICTIMS);
        let mut freed_bytes = 0;
        let mut state = self.state.lock();
        while freed_bytes < wanted_bytes && victims.len() < VICTIMS {
            let Some(victim) = state.evict(probation_target) else { break };
            freed_bytes += victim.charged_bytes();
            victims.push(victim);
        }
        drop(state);
        victims
    }

    pub fn add_counters(&self, sum: &mut CacheCounters) {
        let state = self.state.lock();
        let counts = &state.counts;
        sum.hits += counts.hits;
        sum.joined += counts.joined;
        sum.misses += counts.misses;
        sum.evictions += counts.evictions;
        sum.ghost_hits += counts.ghost_hits;
        sum.prefetch_used += counts.prefetch_used;
        sum.prefetch_wasted += counts.prefetch_wasted;
        sum.resident_buffers += state.policy.len() as u64;
    }
}

impl State {
    fn find(&self, key: &Key<'_>) -> Option<u32> {
        let matches = |index: &u32| self.entry(*index).key.matches(key);
        self.table.find(key.hash, matches).copied()
    }

    fn find_this_dirty(&self, key: &Key<'_>, expected: &Arc<Dirty>) -> Option<u32> {
        let index = self.find(key)?;
        match &self.entry(index).value {
            Value::Dirty { dirty, .. } if Arc::ptr_eq(dirty, expected) => Some(index),
            _ => None,
        }
    }

    fn set_dirty(
        &mut self,
        index: u32,
        buffer: Buffer,
        pieces: &[Piece],
        dirty_bytes: &AtomicU64,
    ) -> Arc<Dirty> {
        dirty_bytes.fetch_add(buffer.charged_bytes(), Relaxed);
        let dirty = Arc::new(Dirty::new(buffer, pieces));
        let position = self.dirty.len();
        self.dirty.push(index);
        let entry = self.entries[index as usize].as_mut().expect("the caller found it");
        entry.value = Value::Dirty { dirty: Arc::clone(&dirty), position };
        dirty
    }

    /// Takes an entry out of the list of dirty ones.
    fn unlist_dirty(&mut self, index: u32, dirty_bytes: &AtomicU64) {
        let Value::Dirty { dirty, position } = &self.entry(index).value else { return };
        let position = *position;
        dirty_bytes.fetch_sub(dirty.charged_bytes, Relaxed);
        self.dirty.swap_remove(position);
        if let Some(moved) = self.dirty.get(position) {
            let entry = self.entries[*moved as usize].as_mut().expect("dirty entries are in use");
            if let Value::Dirty { position: of_moved, .. } = &mut entry.value {
                *of_moved = position;
            }
        }
    }

    fn entry(&self, index: u32) -> &Entry {
        self.entries[index as usize].as_ref().expect("the table names entries in use")
    }

    fn look_up<'cache>(&mut self, key: &Key<'_>, is_prefetch: bool) -> Option<Lookup<'cache>> {
        let index = self.find(key)?;
        let entry = self.entries[index as usize].as_mut().expect("the table names entries in use");
        if is_prefetch {
            return Some(entry.value.found());
        }
        if entry.is_prefetched {
            entry.is_prefetched = false;
            self.counts.prefetch_used += 1;
        }
        let found = entry.value.found();
        match &found {
            Lookup::Hit(_) => {
                self.counts.hits += 1;
                self.policy.touch(index);
            }
            Lookup::Dirty(_) => self.counts.hits += 1,
            _ => self.counts.joined += 1,
        }
        Some(found)
    }

    fn add(&mut self, key: OwnedKey, value: Value, is_prefetched: bool) -> u32 {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("memory for 2^32 entries is far beyond any budget")
        });
        let (hash, entries) = (key.hash, &mut self.entries);
        entries[index as usize] = Some(Entry { key, value, is_prefetched });
        let hash_of = |index: &u32| entries[*index as usize].as_ref().map_or(0, |entry| entry.key.hash);
        self.table.insert_unique(hash, index, hash_of);
        index
    }

    /// Takes an entry out of the table; it must not be in the queues any more.
    fn remove(&mut self, index: u32) -> Option<Buffer> {
        let entry = self.entries[index as usize].take()?;
        if let Ok(occupied) = self.table.find_entry(entry.key.hash, |other| *other == index) {
            occupied.remove();
        }
        self.vacant.push(index);
        match entry.value {
            Value::InFlight(_) | Value::Dirty { .. } => None,
            Value::Resident(buffer) => {
                self.counts.prefetch_wasted += u64::from(entry.is_prefetched);
                Some(buffer)
            }
        }
    }

    fn evict(&mut self, probation_target: u64) -> Option<Buffer> {
        let entries = &self.entries;
        let is_pinned = |index: u32| match &entries[index as usize] {
            Some(Entry { value: Value::Resident(buffer), .. }) => buffer.is_pinned(),
            _ => true,
        };
        let index = self.policy.evict(probation_target, is_pinned)?;
        self.counts.evictions += 1;
        self.remove(index)
    }
}

impl Value {
    fn found<'cache>(&self) -> Lookup<'cache> {
        match self {
            Self::InFlight(flight) => Lookup::InFlight(Arc::clone(flight)),
            Self::Resident(buffer) => Lookup::Hit(buffer.clone()),
            Self::Dirty { dirty, .. } => Lookup::Dirty(Arc::clone(dirty)),
        }
    }
}

impl Claim<'_> {
    /// The read succeeded: the buffer is in the cache from now on.
    pub fn land(mut self, buffer: &Buffer, probation_target: u64) {
        self.has_landed = true;
        let mut state = self.shard.state.lock();
        let entry = state.entries[self.index as usize].as_mut().expect("a claimed entry stays");
        entry.value = Value::Resident(buffer.clone());
        let hash = entry.key.hash;
        let was_ghost = state.policy.insert(self.index, hash, buffer.charged_bytes(), probation_target);
        state.counts.ghost_hits += u64::from(was_ghost);
        drop(state);
        self.flight.land(Some(buffer.clone()));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.has_landed {
            self.shard.state.lock().remove(self.index);
            self.flight.land(None);
        }
    }
}

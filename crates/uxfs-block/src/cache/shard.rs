//! One part of the table: names, buffers and reads under way, behind one lock.

use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::{
    buffer::Buffer,
    counters::CacheCounters,
    eviction::Policy,
    flight::Flight,
    key::{Key, OwnedKey},
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
}

/// What a lookup finds.
pub(super) enum Lookup<'cache> {
    Hit(Buffer),
    /// Another thread reads it.
    InFlight(Arc<Flight>),
    /// This thread is to read it.
    Claimed(Claim<'cache>),
}

/// Who reads a buffer for all that want it. Dropped without landing, the read has failed.
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
        let index = state.add(owned, Arc::clone(&flight), is_prefetch);
        Lookup::Claimed(Claim { shard: self, index, flight, has_landed: false })
    }

    /// Takes a resident buffer out.
    pub fn forget(&self, key: &Key<'_>) -> Option<Buffer> {
        let mut state = self.state.lock();
        let index = state.find(key)?;
        match &state.entry(index).value {
            Value::InFlight(_) => None,
            Value::Resident(_) => {
                state.policy.remove(index);
                state.remove(index)
            }
        }
    }

    /// Gives up buffers of `wanted_bytes` together, or a few where that is many. They are freed by whoever drops
    /// the result.
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
            _ => self.counts.joined += 1,
        }
        Some(found)
    }

    fn add(&mut self, key: OwnedKey, flight: Arc<Flight>, is_prefetched: bool) -> u32 {
        self.counts.misses += u64::from(!is_prefetched);
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("memory for 2^32 entries is far beyond any budget")
        });
        let (hash, entries) = (key.hash, &mut self.entries);
        entries[index as usize] = Some(Entry { key, value: Value::InFlight(flight), is_prefetched });
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
            Value::InFlight(_) => None,
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

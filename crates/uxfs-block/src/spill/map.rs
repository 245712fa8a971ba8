//! A hash map of small keys and values: in memory up to a bound, behind it in a temporary file.
//!
//! 1. The file is an array of slots, a power of two, of which at most half are used. A key lies in the first slot, from the
//!    one that its hash says on, that it could be put into.
//! 2. Removing a key moves keys behind it back, so that no slot before a key is ever empty.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashMap;

use super::{SpillError, TemporaryFile};

/// Memory of an entry, about: two keys and values where the table has just grown.
const ENTRY_BYTES: usize = 80;
/// Key, value, and whether the slot is used.
const SLOT_BYTES: usize = 40;
/// Slots of a file that has just been made, at least.
const LEAST_SLOTS: u64 = 1 << 12;

/// A key: two numbers.
pub type Key = (u64, u64);
/// A value: two numbers.
pub type Value = (u64, u64);

/// The map.
#[derive(Debug)]
pub struct SpillMap {
    most_in_memory: usize,
    memory: HashMap<Key, Value, RandomState>,
    file: Option<Table>,
}

#[derive(Debug)]
struct Table {
    file: TemporaryFile,
    slots: u64,
    used: u64,
    /// Keyed: the author of an archive or image cannot choose keys that collide.
    keys: RandomState,
}

impl SpillMap {
    /// An empty map, of which about `memory_limit` bytes will be kept in memory.
    pub fn new(memory_limit: usize) -> Self {
        let memory = HashMap::with_hasher(RandomState::new());
        Self { most_in_memory: memory_limit / ENTRY_BYTES, memory, file: None }
    }

    /// How many keys there are.
    pub fn len(&self) -> u64 {
        self.memory.len() as u64 + self.file.as_ref().map_or(0, |table| table.used)
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn get(&self, key: Key) -> Result<Option<Value>, SpillError> {
        if let Some(value) = self.memory.get(&key) {
            return Ok(Some(*value));
        }
        match &self.file {
            Some(table) => Ok(table.find(key)?.1),
            None => Ok(None),
        }
    }

    /// Gives a key a value, in place of the one that it has.
    ///
    /// # Errors
    /// The temporary file cannot be made, written or read.
    pub fn insert(&mut self, key: Key, value: Value) -> Result<(), SpillError> {
        if let Some(known) = self.memory.get_mut(&key) {
            *known = value;
            return Ok(());
        }
        if self.file.is_none() {
            if self.memory.len() < self.most_in_memory {
                self.memory.insert(key, value);
                return Ok(());
            }
            self.file = Some(Table::create(LEAST_SLOTS)?);
        }
        match &mut self.file {
            Some(table) => table.insert(key, value),
            None => Ok(()),
        }
    }

    /// Takes a key out; gives its value.
    ///
    /// # Errors
    /// The temporary file cannot be written or read.
    pub fn remove(&mut self, key: Key) -> Result<Option<Value>, SpillError> {
        if let Some(value) = self.memory.remove(&key) {
            return Ok(Some(value));
        }
        match &mut self.file {
            Some(table) => table.remove(key),
            None => Ok(None),
        }
    }
}

impl Table {
    fn create(slots: u64) -> Result<Self, SpillError> {
        Ok(Self { file: TemporaryFile::create()?, slots, used: 0, keys: RandomState::new() })
    }

    fn home(&self, key: Key) -> u64 {
        self.keys.hash_one(key) & (self.slots - 1)
    }

    fn after(&self, slot: u64) -> u64 {
        (slot + 1) & (self.slots - 1)
    }

    fn read(&self, slot: u64) -> Result<Option<(Key, Value)>, SpillError> {
        // Slots behind the end of the file have not been written.
        let mut bytes = [0; SLOT_BYTES];
        self.file.read(&mut bytes, slot * SLOT_BYTES as u64)?;
        let mut numbers = bytes.chunks_exact(8).map(|chunk| chunk.try_into().map_or(0, u64::from_le_bytes));
        let mut next = || numbers.next().unwrap_or(0);
        let (is_used, key, value) = (next(), (next(), next()), (next(), next()));
        Ok((is_used != 0).then_some((key, value)))
    }

    fn write(&self, slot: u64, entry: Option<(Key, Value)>) -> Result<(), SpillError> {
        let (is_used, (key, value)) = (u64::from(entry.is_some()), entry.unwrap_or_default());
        let mut bytes = [0; SLOT_BYTES];
        let numbers = [is_used, key.0, key.1, value.0, value.1];
        for (chunk, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            chunk.copy_from_slice(&number.to_le_bytes());
        }
        self.file.write(&bytes, slot * SLOT_BYTES as u64)
    }

    /// The slot where a key is, with its value, or where it belongs.
    fn find(&self, key: Key) -> Result<(u64, Option<Value>), SpillError> {
        let mut slot = self.home(key);
        for _ in 0..self.slots {
            match self.read(slot)? {
                Some((found, value)) if found == key => return Ok((slot, Some(value))),
                Some(_) => slot = self.after(slot),
                None => return Ok((slot, None)),
            }
        }
        // At least half of the slots are free.
        Err(SpillError::damaged())
    }

    fn insert(&mut self, key: Key, value: Value) -> Result<(), SpillError> {
        let (slot, found) = self.find(key)?;
        self.write(slot, Some((key, value)))?;
        self.used += u64::from(found.is_none());
        if self.used > self.slots / 2 { self.grow() } else { Ok(()) }
    }

    fn grow(&mut self) -> Result<(), SpillError> {
        let mut larger = Self::create(self.slots * 4)?;
        for slot in 0..self.slots {
            if let Some((key, value)) = self.read(slot)? {
                let (slot, _) = larger.find(key)?;
                larger.write(slot, Some((key, value)))?;
                larger.used += 1;
            }
        }
        *self = larger;
        Ok(())
    }

    fn remove(&mut self, key: Key) -> Result<Option<Value>, SpillError> {
        let (mut hole, found) = self.find(key)?;
        if found.is_none() {
            return Ok(None);
        }
        let mut slot = hole;
        for _ in 0..self.slots {
            slot = self.after(slot);
            let Some((key, value)) = self.read(slot)? else { break };
            // How far a key lies behind its home: it may move to the hole if that is not before its home.
            let distance = |from: u64| slot.wrapping_sub(from) & (self.slots - 1);
            if distance(self.home(key)) >= distance(hole) {
                self.write(hole, Some((key, value)))?;
                hole = slot;
            }
        }
        self.write(hole, None)?;
        self.used -= 1;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
        #[test]
        fn keys_are_found_until_they_are_removed(
            most in 0..30_usize,
            steps in prop::collection::vec((any::<bool>(), 0..60_u64, any::<u64>()), 0..400),
        ) {
            let mut map = SpillMap::new(most * ENTRY_BYTES);
            // Few slots, so that keys stand behind each other.
            map.file = (most == 0).then(|| Table::create(4).unwrap());
            let mut model = std::collections::BTreeMap::new();
            for (inserts, key, value) in steps {
                let key = (key / 7, key % 7);
                if inserts {
                    map.insert(key, (value, !value)).unwrap();
                    model.insert(key, (value, !value));
                } else {
                    prop_assert_eq!(map.remove(key).unwrap(), model.remove(&key));
                }
                prop_assert_eq!(map.len(), model.len() as u64);
            }
            for key in (0..60).map(|key| (key / 7, key % 7)) {
                prop_assert_eq!(map.get(key).unwrap(), model.get(&key).copied());
            }
        }
    }
}

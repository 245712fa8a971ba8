//! Every path that the layers name, known by its parent and its own name: 8 bytes, the name, and a place in a table.

use std::{collections::hash_map::RandomState, hash::BuildHasher};

use hashbrown::HashTable;

use crate::error::{LayerFault, Shown, SourceError};

/// Number of a path. Those above have smaller ones.
pub(super) type PathId = u32;

pub(super) const ROOT: PathId = 0;

#[derive(Debug, Clone, Copy)]
struct NamePosition {
    parent: PathId,
    /// Where its name begins.
    name: u32,
}

/// All paths, from the root on.
pub(super) struct Paths {
    /// Keyed: the writer of an archive cannot choose names whose hashes collide.
    keys: RandomState,
    table: HashTable<PathId>,
    places: Vec<NamePosition>,
    /// Each with its length before it, in two bytes.
    names: Vec<u8>,
    /// The directory of the path placed last: the next one mostly lies there too.
    last: (Vec<u8>, PathId),
}

impl Paths {
    pub(super) fn new() -> Self {
        Self {
            keys: RandomState::new(),
            table: HashTable::new(),
            places: vec![NamePosition { parent: ROOT, name: 0 }],
            names: vec![0, 0],
            last: (Vec::new(), ROOT),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn parent(&self, id: PathId) -> PathId {
        self.places.get(id as usize).map_or(ROOT, |place| place.parent)
    }

    /// The last component; empty for the root.
    pub(super) fn name(&self, id: PathId) -> &[u8] {
        let Some(place) = self.places.get(id as usize) else { return b"" };
        name_at(&self.names, place.name)
    }

    /// Puts the whole path into `path`.
    pub(super) fn path(&self, id: PathId, path: &mut Vec<u8>) {
        path.clear();
        let (mut at, mut above) = (id, Vec::new());
        while at != ROOT {
            above.push(at);
            at = self.parent(at);
        }
        for id in above.iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(self.name(*id));
        }
    }

    /// Memory of all of this.
    pub(super) fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<NamePosition>()
            + self.names.capacity()
            + self.table.allocation_size()
    }

    fn child(&self, parent: PathId, name: &[u8]) -> Option<PathId> {
        let hash = self.keys.hash_one((parent, name));
        let is_it = |id: &PathId| self.parent(*id) == parent && self.name(*id) == name;
        self.table.find(hash, is_it).copied()
    }

    /// The path, if it has been placed.
    pub(super) fn find(&self, path: &[u8]) -> Option<PathId> {
        components(path).try_fold(ROOT, |parent, name| self.child(parent, name))
    }

    /// The number of a path; those above it get theirs too.
    pub(super) fn place(&mut self, path: &[u8]) -> Result<PathId, SourceError> {
        let (directory, name) = crate::path::split(path);
        if self.last.0 != directory {
            let mut id = ROOT;
            for component in components(directory) {
                id = self.place_child(id, component, path)?;
            }
            self.last.0.clear();
            self.last.0.extend_from_slice(directory);
            self.last.1 = id;
        }
        if name.is_empty() { Ok(ROOT) } else { self.place_child(self.last.1, name, path) }
    }

    fn place_child(&mut self, parent: PathId, name: &[u8], path: &[u8]) -> Result<PathId, SourceError> {
        if let Some(id) = self.child(parent, name) {
            return Ok(id);
        }
        let many = || SourceError::Layer { path: Shown::from(path), fault: LayerFault::TooMany };
        let id = PathId::try_from(self.places.len()).map_err(|_| many())?;
        let place = NamePosition { parent, name: u32::try_from(self.names.len()).map_err(|_| many())? };
        let length = u16::try_from(name.len()).map_err(|_| many())?;
        self.names.extend_from_slice(&length.to_le_bytes());
        self.names.extend_from_slice(name);
        self.places.push(place);
        let (keys, places, names) = (&self.keys, &self.places, &self.names);
        let hash_of = |id: &PathId| {
            let place = places.get(*id as usize).copied().unwrap_or(NamePosition { parent: ROOT, name: 0 });
            keys.hash_one((place.parent, name_at(names, place.name)))
        };
        self.table.insert_unique(keys.hash_one((parent, name)), id, hash_of);
        Ok(id)
    }

    /// Drops the tables that only find paths; the names stay.
    pub(super) fn seal(&mut self) {
        self.table = HashTable::new();
        self.names.shrink_to_fit();
        self.places.shrink_to_fit();
    }
}

pub(super) fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

fn name_at(names: &[u8], start: u32) -> &[u8] {
    let rest = names.get(start as usize..).and_then(|rest| rest.split_first_chunk::<2>());
    let Some((length, rest)) = rest else { return b"" };
    rest.get(..usize::from(u16::from_le_bytes(*length))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn paths_are_found_again(
            list in prop::collection::vec(prop::collection::vec("[ab]{1,2}", 0..4), 0..40),
        ) {
            let list: Vec<String> = list.iter().map(|names| names.join("/")).collect();
            let mut paths = Paths::new();
            let ids: Vec<PathId> = list.iter().map(|path| paths.place(path.as_bytes()).unwrap()).collect();
            for (path, id) in list.iter().zip(&ids) {
                prop_assert_eq!(paths.find(path.as_bytes()), Some(*id));
                prop_assert_eq!(paths.place(path.as_bytes()).unwrap(), *id);
                let mut whole = Vec::new();
                paths.path(*id, &mut whole);
                prop_assert_eq!(whole.as_slice(), path.as_bytes());
                prop_assert!(*id == ROOT || paths.parent(*id) < *id);
            }
            prop_assert_eq!(paths.find(b"c"), None);
        }
    }
}

//! The paths that remain at the end.
//!
//! 1. Items have times: their numbers over all layers, from 1. What a path is, it is since the last item that named it.
//! 2. A cut of a path at a time takes away what was there, and below, before. A file cuts at its own time, for whatever it
//!    replaces; a whiteout at the time at which its layer began, for it speaks of the layers below alone.
//! 3. An item remains if its path is that item's still, and neither the path nor any directory above was cut later.
//! 4. A hard link makes its path what its target is at that time: from then on the two are alike.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use super::{
    effect::Effect,
    paths::{PathId, Paths, ROOT},
};
use crate::{
    error::{LayerFault, Shown, SourceError},
    stream::StreamItem,
};

/// Number of an item, from 1; 0 for what no item names.
pub(super) type Time = u32;

/// State of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Everything here and below from before this time is gone.
    pub(super) cut: Time,
    /// Everything below from before this time is gone.
    pub(super) cut_below: Time,
    /// The item that last named it.
    pub(super) named: Time,
    /// The item that the file it names came with: another one for a hard link.
    pub(super) file: Time,
    /// Where that item is kept, below flags.
    pub(super) record: u64,
}

pub(super) const DIRECTORY: u64 = 1 << 63;
/// Its content comes in the stream.
pub(super) const LATER: u64 = 1 << 62;
/// It, or something below it, remains.
const NEEDED: u64 = 1 << 61;
const FLAGS: u64 = DIRECTORY | LATER | NEEDED;
/// The place of an item, without flags.
pub(super) const RECORD: u64 = !FLAGS;

impl Known {
    pub(super) fn is_directory(&self) -> bool {
        self.record & DIRECTORY != 0
    }

    /// Whether its content comes in the stream of its layer.
    pub(super) fn comes_later(&self) -> bool {
        self.record & LATER != 0
    }

    /// Where the item is kept that says what it is.
    pub(super) fn record(&self) -> u64 {
        self.record & RECORD
    }

    /// A directory that no item names, but something below it is there.
    pub(super) fn is_implied(&self) -> bool {
        self.named == 0
    }
}

/// All that a pass learns.
pub(super) struct Plan {
    pub(super) paths: Paths,
    known: Vec<Known>,
    /// Files with more names than one, at some time.
    linked: HashSet<Time>,
}

/// The remaining paths, in order.
pub(super) struct Order {
    /// By directory, and there by name.
    pub(super) ids: Vec<PathId>,
    /// How many names those files have that once had several.
    pub(super) names: HashMap<Time, u32>,
}

impl Plan {
    pub(super) fn new() -> Self {
        let root = Known { record: DIRECTORY, ..Known::default() };
        Self { paths: Paths::new(), known: vec![root], linked: HashSet::new() }
    }

    /// Memory of all of this, with the tables that [`resolve`](Self::resolve) adds.
    pub(super) fn memory_bytes(&self) -> usize {
        let links = self.linked.capacity() * 2 * size_of::<(Time, u32)>();
        let order = self.known.len() * size_of::<PathId>();
        self.known.capacity() * size_of::<Known>() + self.paths.memory_bytes() + links + order
    }

    /// Whether there were hard links.
    pub(super) fn has_links(&self) -> bool {
        !self.linked.is_empty()
    }

    pub(super) fn get(&self, id: PathId) -> Known {
        self.known.get(id as usize).copied().unwrap_or_default()
    }

    fn get_mut(&mut self, id: PathId) -> Option<&mut Known> {
        self.known.get_mut(id as usize)
    }

    /// The number of a path, of which something will be known.
    fn place(&mut self, path: &[u8]) -> Result<PathId, SourceError> {
        let id = self.paths.place(path)?;
        self.known.resize(self.paths.len(), Known::default());
        Ok(id)
    }

    /// The directories above, from the nearest on.
    fn above(&self, id: PathId) -> impl Iterator<Item = Known> + '_ {
        let mut at = id;
        std::iter::from_fn(move || {
            if at == ROOT {
                return None;
            }
            at = self.paths.parent(at);
            Some(self.get(at))
        })
    }

    /// The present state of a path, if an item or a path below gives it one.
    fn present(&self, id: PathId) -> Option<Known> {
        let is_cut = |known: &Known| {
            known.named < known.cut
                || self.above(id).any(|above| known.named < above.cut.max(above.cut_below))
        };
        Some(self.get(id)).filter(|known| known.named != 0 && !is_cut(known))
    }

    /// Learns of an item, which is kept at `record`; `began` is the time of its layer's first.
    pub(super) fn learn(
        &mut self,
        item: &StreamItem,
        time: Time,
        began: Time,
        record: u64,
    ) -> Result<(), SourceError> {
        match Effect::of(item)? {
            Effect::Cut(path) => {
                let id = self.place(path)?;
                if let Some(known) = self.get_mut(id) {
                    known.cut = known.cut.max(began);
                }
                Ok(())
            }
            Effect::CutBelow(path) => {
                let id = self.place(path)?;
                if let Some(known) = self.get_mut(id) {
                    known.cut_below = known.cut_below.max(began);
                }
                Ok(())
            }
            Effect::Named(path, flags) => self.name(path, time, time, record | flags),
            Effect::Linked { path, target } => {
                let fault = |fault| Err(SourceError::Layer { path: Shown::from(path), fault });
                let found = self.paths.find(target).and_then(|target| self.present(target));
                match found {
                    None => fault(LayerFault::NoTarget(Shown::from(target))),
                    Some(found) if found.is_directory() => fault(LayerFault::LinkToDirectory),
                    Some(found) => {
                        self.linked.insert(found.file);
                        self.name(path, time, found.file, found.record)
                    }
                }
            }
        }
    }

    /// The item of this time gives a path the file that came with the item `file`, and is kept at `record`.
    fn name(&mut self, path: &[u8], time: Time, file: Time, record: u64) -> Result<(), SourceError> {
        let id = self.place(path)?;
        let mut parent = self.paths.parent(id);
        while parent != ROOT {
            if self.present(parent).is_some_and(|parent| !parent.is_directory()) {
                let fault = LayerFault::NoDirectoryAbove;
                return Err(SourceError::Layer { path: Shown::from(path), fault });
            }
            parent = self.paths.parent(parent);
        }
        let replaces = self.present(id).is_some_and(|known| !known.is_directory());
        if let Some(known) = self.get_mut(id) {
            if record & DIRECTORY == 0 || replaces {
                known.cut = time;
            }
            (known.named, known.file, known.record) = (time, file, record);
        }
        Ok(())
    }

    /// Forgets what is gone, and puts what remains in order. Afterwards nothing more can be learned.
    pub(super) fn resolve(&mut self) -> Order {
        // Those above come first: what is cut there is cut here.
        for id in 1..self.known.len() as PathId {
            let above = self.get(self.paths.parent(id));
            let from_above = above.cut_below.max(above.cut);
            if let Some(known) = self.get_mut(id) {
                known.cut = known.cut.max(from_above);
                if known.named < known.cut {
                    (known.named, known.record) = (0, DIRECTORY);
                }
            }
        }
        // Those below come first: what they need is needed.
        for id in (0..self.known.len() as PathId).rev() {
            let known = self.get(id);
            if known.named != 0 || known.record & NEEDED != 0 {
                let parent = self.paths.parent(id);
                for needed in [id, parent] {
                    if let Some(known) = self.get_mut(needed) {
                        known.record |= NEEDED;
                    }
                }
            }
        }
        let is_needed = |id: &PathId| self.get(*id).record & NEEDED != 0;
        let mut ids: Vec<PathId> = (1..self.known.len() as PathId).filter(is_needed).collect();
        let key = |id: &PathId| (self.paths.parent(*id), self.paths.name(*id));
        ids.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        let mut names = HashMap::new();
        for id in &ids {
            let known = self.get(*id);
            if known.named != 0 && self.linked.contains(&known.file) {
                *names.entry(known.file).or_insert(0) += 1;
            }
        }
        self.linked = HashSet::new();
        let order = Order { ids, names };
        self.imply(&order);
        self.paths.seal();
        order
    }

    /// A directory that nothing names takes what it has from the first path below it that something does name.
    fn imply(&mut self, order: &Order) {
        for id in (1..self.known.len() as PathId).rev() {
            let known = self.get(id);
            if known.named != 0 || known.record & NEEDED == 0 {
                continue;
            }
            let first = order.ids.get(order.places(self, id).start);
            let first = first.map(|first| self.get(*first).record());
            if let (Some(known), Some(record)) = (self.get_mut(id), first) {
                known.record = record | DIRECTORY | NEEDED;
            }
        }
    }
}

impl Order {
    /// How many names a file has.
    pub(super) fn links(&self, known: &Known) -> u32 {
        self.names.get(&known.file).copied().unwrap_or(1)
    }

    /// Where in the order lies what a directory holds.
    pub(super) fn places(&self, plan: &Plan, directory: PathId) -> Range<usize> {
        let begin = self.ids.partition_point(|id| plan.paths.parent(*id) < directory);
        let rest = self.ids.get(begin..).unwrap_or_default();
        begin..begin + rest.partition_point(|id| plan.paths.parent(*id) == directory)
    }
}

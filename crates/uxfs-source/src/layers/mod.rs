//! Several streams, each laid over those before it, as one that tells only what remains: the layers of a container image.
//!
//! A first pass reads what there is, and keeps of each path a few numbers; a second one tells the files that are still
//! there at the end, each once, with the content of the layer that it comes from. Whoever builds a file system from that
//! never has to remove anything.
//!
//! 1. Items have times: their numbers over all layers, from 1. What a path is, it is since the last item that named it.
//! 2. A cut of a path at a time takes away what was there, and below, before. A file cuts at its own time, for whatever it
//!    replaces; a whiteout at the time at which its layer began, for it speaks of the layers below alone.
//! 3. An item remains if its path is that item's still, and neither the path nor any directory above was cut later.
//! 4. A file that loses the name that it came with and keeps another is told under that other.
//!
//! Paths are known by 128 bits of keyed hash: 60 bytes or so for each, however long it is.

use std::{
    collections::{HashMap, HashSet, hash_map::RandomState},
    fmt,
    hash::BuildHasher,
};

use crate::{
    entry::Kind,
    error::{LayerFault, Problem, Shown, SourceError},
    path,
    stream::{StreamItem, StreamSource},
    tree::Reading,
};

/// Number of an item, from 1; 0 for what no item names.
type Time = u32;
/// Place of a path.
type PathId = u32;

const ROOT: PathId = 0;

/// What is known of a path.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    parent: PathId,
    /// What was here and below before this time is gone.
    cut: Time,
    /// What was below before this time is gone.
    cut_below: Time,
    /// The item that last named it.
    named: Time,
    /// The item that the file it names came with: another one for a hard link.
    file: Time,
    is_directory: bool,
}

/// What a first pass has learned.
struct Plan {
    keys: [RandomState; 2],
    ids: HashMap<[u64; 2], PathId>,
    known: Vec<Known>,
    /// Files with more names than one, at some time.
    linked: HashSet<Time>,
    /// Files that remain under the name of one of their links.
    renamed: HashMap<Time, Box<[u8]>>,
    /// Those links.
    absorbed: HashSet<Time>,
}

/// Streams laid over each other.
pub struct Layers {
    layers: Vec<Box<dyn StreamSource>>,
    plan: Plan,
    current: usize,
    time: Time,
    /// Under which name files with several have been told.
    told: HashMap<Time, Box<[u8]>>,
    is_over: bool,
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layers").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

impl Plan {
    fn new() -> Self {
        let mut plan = Self {
            keys: [RandomState::new(), RandomState::new()],
            ids: HashMap::new(),
            known: vec![Known { is_directory: true, ..Known::default() }],
            linked: HashSet::new(),
            renamed: HashMap::new(),
            absorbed: HashSet::new(),
        };
        plan.ids.insert(plan.hash(b""), ROOT);
        plan
    }

    fn hash(&self, path: &[u8]) -> [u64; 2] {
        self.keys.each_ref().map(|key| key.hash_one(path))
    }

    fn find(&self, path: &[u8]) -> Option<PathId> {
        self.ids.get(&self.hash(path)).copied()
    }

    fn get(&self, id: PathId) -> Known {
        self.known.get(id as usize).copied().unwrap_or_default()
    }

    fn get_mut(&mut self, id: PathId) -> Option<&mut Known> {
        self.known.get_mut(id as usize)
    }

    /// The place of a path; those above it get theirs too.
    fn place(&mut self, path: &[u8]) -> PathId {
        if let Some(id) = self.find(path) {
            return id;
        }
        let mut parent = ROOT;
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        for end in ends.chain([path.len()]) {
            let hash = self.hash(path.get(..end).unwrap_or_default());
            let next = self.known.len() as PathId;
            let id = *self.ids.entry(hash).or_insert(next);
            if id == next {
                self.known.push(Known { parent, ..Known::default() });
            }
            parent = id;
        }
        parent
    }

    /// Whether what came to a path at `time` was taken away since.
    fn is_cut(&self, id: PathId, time: Time) -> bool {
        let known = self.get(id);
        time < known.cut || self.above(id).any(|above| time < above.cut.max(above.cut_below))
    }

    /// The directories above, from the nearest on.
    fn above(&self, id: PathId) -> impl Iterator<Item = Known> + '_ {
        let mut at = id;
        std::iter::from_fn(move || {
            if at == ROOT {
                return None;
            }
            at = self.get(at).parent;
            Some(self.get(at))
        })
    }

    /// What a path is now, if anything says so.
    fn present(&self, id: PathId) -> Option<Known> {
        Some(self.get(id)).filter(|known| known.named != 0 && !self.is_cut(id, known.named))
    }

    /// Learns of an item; `began` is the time of its layer's first.
    fn learn(&mut self, item: &StreamItem, time: Time, began: Time) -> Result<(), SourceError> {
        let entry = match item {
            StreamItem::Whiteout(path) => {
                let id = self.place(path);
                if let Some(known) = self.get_mut(id) {
                    known.cut = known.cut.max(began);
                }
                return Ok(());
            }
            StreamItem::Opaque(path) => {
                let id = self.place(path);
                if let Some(known) = self.get_mut(id) {
                    known.cut_below = known.cut_below.max(began);
                }
                return Ok(());
            }
            StreamItem::Entry(entry) => entry,
        };
        let fault = |fault| Err(SourceError::Layer { path: Shown::from(&*entry.path), fault });
        let id = self.place(&entry.path);
        let is_directory = matches!(entry.kind, Kind::Directory(_));
        let mut file = time;
        if let Kind::HardLink { target } = &entry.kind {
            let found = self.find(target).and_then(|target| self.present(target));
            match found {
                None => return fault(LayerFault::NoTarget(Shown::from(&**target))),
                Some(found) if found.is_directory => return fault(LayerFault::LinkToDirectory),
                Some(found) => file = found.file,
            }
            self.linked.insert(file);
        }
        let mut parent = self.get(id).parent;
        while parent != ROOT {
            if self.present(parent).is_some_and(|parent| !parent.is_directory) {
                return fault(LayerFault::NoDirectoryAbove);
            }
            parent = self.get(parent).parent;
        }
        let replaces = self.present(id).is_some_and(|known| !known.is_directory);
        if let Some(known) = self.get_mut(id) {
            if !is_directory || replaces {
                known.cut = time;
            }
            (known.named, known.file, known.is_directory) = (time, file, is_directory);
        }
        Ok(())
    }

    /// Whether the item that came at `time` with this path is what the path is at the end.
    fn remains(&self, path: &[u8], time: Time) -> Option<Known> {
        let id = self.find(path)?;
        self.present(id).filter(|known| known.named == time)
    }

    /// Files with several names whose own one is gone, though another remains.
    fn without_name(&self) -> HashSet<Time> {
        let present = (0..self.known.len() as PathId).filter_map(|id| self.present(id));
        let mut remaining = HashSet::new();
        let mut named = HashSet::new();
        for known in present.filter(|known| self.linked.contains(&known.file)) {
            remaining.insert(known.file);
            if known.named == known.file {
                named.insert(known.file);
            }
        }
        remaining.retain(|file| !named.contains(file));
        remaining
    }
}

impl Layers {
    /// Lays streams over each other, the first lowest. They are read from their beginnings, two or three times.
    ///
    /// # Errors
    /// One of them cannot be read again, or makes no sense above those below.
    pub fn new(layers: Vec<Box<dyn StreamSource>>) -> Result<Self, SourceError> {
        let plan = Plan::new();
        let mut layers = Self { layers, plan, current: 0, time: 0, told: HashMap::new(), is_over: false };
        let mut began = 1;
        let mut last = 0;
        layers.pass(|plan, layer, item, time| {
            if layer != last {
                (last, began) = (layer, time);
            }
            plan.learn(item, time, began)
        })?;
        let mut nameless = layers.plan.without_name();
        if !nameless.is_empty() {
            layers.pass(|plan, _, item, time| {
                if let StreamItem::Entry(entry) = item
                    && let Some(known) = plan.remains(&entry.path, time)
                    && nameless.remove(&known.file)
                {
                    plan.renamed.insert(known.file, entry.path.clone());
                    plan.absorbed.insert(time);
                }
                Ok(())
            })?;
        }
        layers.restart(Reading::Everything)?;
        Ok(layers)
    }

    /// Reads everything once, without content.
    fn pass(
        &mut self,
        mut learn: impl FnMut(&mut Plan, usize, &StreamItem, Time) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let mut time: Time = 0;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            layer.restart(Reading::Metadata)?;
            while let Some(item) = layer.next_item()? {
                time = next_time(time)?;
                learn(&mut self.plan, index, &item, time)?;
            }
            // They come again with the content.
            drop(layer.take_problems());
        }
        Ok(())
    }

    /// The item as it is told, if it is.
    fn tell(&mut self, item: StreamItem, time: Time) -> Option<StreamItem> {
        let StreamItem::Entry(mut entry) = item else { return None };
        let remaining = self.plan.remains(&entry.path, time);
        match &entry.kind {
            Kind::HardLink { .. } => {
                let file = remaining.filter(|_| !self.plan.absorbed.contains(&time))?.file;
                let target = self.told.get(&file)?.clone();
                entry.kind = Kind::HardLink { target };
            }
            _ => {
                if remaining.is_none() {
                    entry.path = self.plan.renamed.get(&time)?.clone();
                }
                if self.plan.linked.contains(&time) {
                    self.told.insert(time, entry.path.clone());
                }
            }
        }
        debug_assert!(path::clean(&entry.path).is_ok());
        Some(StreamItem::Entry(entry))
    }

    fn next(&mut self) -> Result<Option<StreamItem>, SourceError> {
        while let Some(layer) = self.layers.get_mut(self.current) {
            let Some(item) = layer.next_item()? else {
                self.current += 1;
                continue;
            };
            self.time = next_time(self.time)?;
            if let Some(item) = self.tell(item, self.time) {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }
}

fn next_time(time: Time) -> Result<Time, SourceError> {
    let many = SourceError::Layer { path: Shown::from(b"".as_slice()), fault: LayerFault::TooMany };
    time.checked_add(1).filter(|time| *time != Time::MAX).ok_or(many)
}

impl StreamSource for Layers {
    fn next_item(&mut self) -> Result<Option<StreamItem>, SourceError> {
        if self.is_over {
            return Ok(None);
        }
        let next = self.next();
        self.is_over = !matches!(next, Ok(Some(_)));
        next
    }

    fn read_data(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError> {
        self.layers.get_mut(self.current).map_or(Ok(0), |layer| layer.read_data(buffer))
    }

    fn restart(&mut self, reading: Reading) -> Result<(), SourceError> {
        self.layers.iter_mut().try_for_each(|layer| layer.restart(reading))?;
        (self.current, self.time, self.is_over) = (0, 0, false);
        self.told.clear();
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.layers.iter_mut().flat_map(|layer| layer.take_problems()).collect()
    }
}

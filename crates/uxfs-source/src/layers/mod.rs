//! Streams as one tree: an archive in the order of its paths, whatever its own order is, and several laid over each other,
//! as the layers of container images are.
//!
//! A first pass reads all entries, without content. It keeps a short record of each file and a few numbers for each path:
//! some 100 bytes together. When these outgrow the memory that they may take, they go to temporary files. From them the
//! tree is told as a directory of the host is: each file that remains at the end, once, in order, with the content of the
//! layer that it comes from. A file system that is built from it never has to remove anything, and two archives that hold
//! the same in different orders make the same file system.
//!
//! Contents of archives that are not packed are read where they lie. A packed archive cannot be sought in: its contents
//! come after all files, in the archive's order, by a second pass ([`Content::Later`]).
//!
//! 1. The files, their order and their batches do not depend on how much memory there is.
//!
//! | module | holds |
//! |---|---|
//! | [`effect`] | what an item does to paths |
//! | [`paths`] | every path, known by its parent and its name |
//! | [`plan`] | which of them remain, and in which order |
//! | [`spilled`] | the same for more paths than memory may hold |
//! | [`records`] | the record of a file |
//! | [`symlinks`] | symbolic links on the way to paths |
//! | [`teller`] | the thread that tells the tree |
//! | here | the two passes |

mod effect;
mod paths;
mod plan;
mod records;
mod spilled;
mod symlinks;
mod teller;

use std::{
    fmt,
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
    thread::{self, JoinHandle},
};

use uxfs_block::{
    cache::pressure::default_budget_bytes,
    spill::{SpillError, records::Records},
};

use self::{
    plan::{Order, Plan, Time},
    records::{Handles, Stored, StoredContent, What, decode, encode},
    spilled::{Events, LaterReader, Remains},
    symlinks::Symlinks,
    teller::{Message, Teller},
};
use crate::{
    content::Content,
    entry::{Kind, Metadata},
    error::{LayerFault, MAX_PATHS_KEPT, Problem, Shown, SourceError},
    stream::{StreamEntry, StreamItem, StreamSource},
    tree::{Batch, LaterContent, Reading, TreeSource},
};

/// Batches on their way.
const MESSAGES: usize = 8;
/// Files up to this size come with their content.
const INLINE_LIMIT_BYTES: u64 = 64 << 10;

/// Most memory for records of files: a million of them, unless they carry much.
const MOST_RECORD_BYTES: usize = 64 << 20;

/// The paths that remain.
enum Tree {
    InMemory(Plan, Order),
    Spilled(Remains),
}

/// Result of the first pass.
struct Index {
    tree: Tree,
    records: Records,
    /// By layer.
    handles: Vec<Handles>,
    /// The time of each layer's first item.
    began: Vec<Time>,
    root: Option<Metadata>,
}

/// Streams laid over each other, as a tree.
pub struct Layers {
    layers: Vec<Box<dyn StreamSource>>,
    index: Arc<Index>,
    reading: Reading,
    problems: Problems,
    has_told_problems: bool,
    messages: Option<Receiver<Message>>,
    thread: Option<JoinHandle<()>>,
    is_over: bool,
    later: Later,
}

/// The second pass.
#[derive(Default)]
struct Later {
    /// Files whose content is wanted. Known from the beginning of the pass.
    wanted: Option<Wanted>,
    /// The layer that is being read, and the time of the item that it gave last.
    at: Option<(usize, Time)>,
}

/// When files came, and where they are kept; in order.
enum Wanted {
    InMemory(std::vec::IntoIter<(Time, u64)>),
    Spilled(LaterReader),
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layers").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

impl Layers {
    /// Lays streams over each other, the first lowest. They stand at their beginnings, opened for [`Reading::Checked`] or
    /// [`Reading::Metadata`], and are read to their ends; those that are packed must be able to restart. As much memory is
    /// taken as the cache of an image takes by default.
    ///
    /// # Errors
    /// One of them cannot be read, or makes no sense above those below.
    pub fn new(layers: Vec<Box<dyn StreamSource>>) -> Result<Self, SourceError> {
        Self::with_memory(layers, default_budget_bytes())
    }

    /// As [`new`](Self::new), with about this much memory. What does not fit goes to temporary files.
    ///
    /// # Errors
    /// As for [`new`](Self::new); temporary files.
    pub fn with_memory(layers: Vec<Box<dyn StreamSource>>, memory_bytes: u64) -> Result<Self, SourceError> {
        Self::with_options(layers, memory_bytes, false)
    }

    /// As [`with_memory`](Self::with_memory). With `keeps_directory_symlinks` a directory does not replace a symbolic link that
    /// leads to a directory: it is passed over, as by `tar --keep-directory-symlink`.
    ///
    /// # Errors
    /// As for [`with_memory`](Self::with_memory).
    pub fn with_options(
        mut layers: Vec<Box<dyn StreamSource>>,
        memory_bytes: u64,
        keeps_directory_symlinks: bool,
    ) -> Result<Self, SourceError> {
        let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let mut first = FirstPass {
            paths: Learned::InMemory(Plan::new()),
            symlinks: Symlinks::new(memory_bytes / 4, keeps_directory_symlinks),
            memory_bytes,
            records: Records::new((memory_bytes / 4).min(MOST_RECORD_BYTES)),
            handles: Vec::with_capacity(layers.len()),
            began: Vec::with_capacity(layers.len()),
            time: 0,
            record: Vec::new(),
        };
        let mut problems = Problems::default();
        for layer in &mut layers {
            if let Err(error) = first.read(&mut **layer, &mut problems) {
                return Err(first.earlier_fault().unwrap_or(error));
            }
        }
        Ok(Self {
            layers,
            index: Arc::new(first.finish()?),
            reading: Reading::Everything,
            problems,
            has_told_problems: false,
            messages: None,
            thread: None,
            is_over: false,
            later: Later::default(),
        })
    }

    /// The sum of the sizes of contents, holes apart.
    ///
    /// # Errors
    /// Records of the files cannot be read back.
    pub fn content_bytes(&self) -> Result<u64, SourceError> {
        let index = &self.index;
        let (mut sum, mut scratch) = (0_u64, Vec::new());
        // Of the names of one file only one counts: each gives its share.
        let mut add = |record, links: u32| -> Result<(), SourceError> {
            let share = index.stored(record, &mut scratch)?.data_bytes() / u64::from(links.max(1));
            sum = sum.saturating_add(share);
            Ok(())
        };
        match &index.tree {
            Tree::InMemory(plan, order) => {
                for known in order.ids.iter().map(|id| plan.get(*id)).filter(|known| !known.is_directory()) {
                    add(known.record(), order.links(&known))?;
                }
            }
            Tree::Spilled(remains) => {
                let (mut reader, mut path) = (remains.read()?, Vec::new());
                while reader.next_directory(&mut path)? {
                    while let Some((_, remaining)) = reader.next_entry()? {
                        if !remaining.is_directory {
                            add(remaining.record, remaining.links)?;
                        }
                    }
                }
            }
        }
        Ok(sum)
    }

    fn start(&mut self) -> Result<(), SourceError> {
        let (sender, messages) = sync_channel(MESSAGES);
        let teller = Teller::new(Arc::clone(&self.index), self.reading, INLINE_LIMIT_BYTES, sender);
        let thread = thread::Builder::new().name("uxfs-layers".to_owned()).spawn(move || teller.run());
        self.thread = Some(thread.map_err(|error| SourceError::io(b"layers", "start a thread for", error))?);
        self.messages = Some(messages);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        if self.messages.is_none() {
            self.start()?;
        }
        match self.messages.as_ref().map(Receiver::recv) {
            Some(Ok(Message::Batch(batch))) => Ok(Some(batch)),
            Some(Ok(Message::Failed(error))) => Err(error),
            Some(Ok(Message::End)) => Ok(None),
            // The thread says how it ends, unless it panics.
            _ => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                _ => Err(SpillError::damaged().into()),
            },
        }
    }

    /// The item at `time` in its layer.
    fn item_at(&mut self, time: Time) -> Result<Option<StreamItem>, SourceError> {
        let layer = self.index.began.partition_point(|began| *began <= time).saturating_sub(1);
        let Some(source) = self.layers.get_mut(layer) else { return Ok(None) };
        let mut now = match self.later.at {
            Some((at, now)) if at == layer => now,
            _ => {
                source.restart(Reading::Everything)?;
                self.index.began.get(layer).map_or(0, |began| began - 1)
            }
        };
        let mut item = None;
        while now < time {
            item = source.next_item()?;
            if item.is_none() {
                break;
            }
            now += 1;
        }
        // What it has to say it has said in the first pass.
        drop(source.take_problems());
        self.later.at = Some((layer, now));
        Ok(item)
    }
}

/// The paths, while they are learned.
enum Learned {
    InMemory(Plan),
    Spilled(Events),
}

struct FirstPass {
    paths: Learned,
    symlinks: Symlinks,
    memory_bytes: usize,
    records: Records,
    handles: Vec<Handles>,
    began: Vec<Time>,
    /// Of the last item.
    time: Time,
    record: Vec<u8>,
}

impl FirstPass {
    fn read(&mut self, layer: &mut dyn StreamSource, problems: &mut Problems) -> Result<(), SourceError> {
        let many = || SourceError::Layer { path: Shown::from(b"".as_slice()), fault: LayerFault::TooMany };
        let began = self.time.checked_add(1).ok_or_else(many)?;
        let number = self.handles.len();
        self.began.push(began);
        let mut handles = Handles::default();
        while let Some(mut item) = layer.next_item()? {
            problems.add(layer.take_problems());
            self.time = self.time.checked_add(1).filter(|time| *time != Time::MAX).ok_or_else(many)?;
            // A record has the path by which the layer has the file.
            self.record.clear();
            if let StreamItem::Entry(entry) = &item
                && !matches!(entry.kind, Kind::HardLink { .. })
            {
                encode(entry, number, &mut handles, &mut self.record);
            }
            if !self.symlinks.resolve(&mut item, self.time, began)? {
                continue;
            }
            let place = if self.record.is_empty() { 0 } else { self.records.append(&self.record)? };
            self.learn(&item, began, place)?;
        }
        problems.add(layer.take_problems());
        self.handles.push(handles);
        Ok(())
    }

    fn learn(&mut self, item: &StreamItem, began: Time, place: u64) -> Result<(), SourceError> {
        match &mut self.paths {
            Learned::Spilled(events) => return events.learn(item, self.time, began, place),
            Learned::InMemory(plan) => plan.learn(item, self.time, began, place)?,
        }
        if let Learned::InMemory(plan) = &self.paths
            && plan.memory_bytes() > self.memory_bytes / 2
        {
            self.paths = Learned::Spilled(Events::of_plan(plan, self.memory_bytes)?);
        }
        Ok(())
    }

    /// A fault before the item at which reading ended. In memory it would have ended the pass.
    fn earlier_fault(self) -> Option<SourceError> {
        match self.paths {
            Learned::InMemory(_) => None,
            Learned::Spilled(events) => events.resolve().err(),
        }
    }

    fn finish(mut self) -> Result<Index, SourceError> {
        self.records.seal()?;
        let (tree, root) = match self.paths {
            Learned::InMemory(mut plan) => {
                let order = plan.resolve();
                let root = Some(plan.get(paths::ROOT)).filter(|root| !root.is_implied());
                (Tree::InMemory(plan, order), root.map(|root| root.record()))
            }
            Learned::Spilled(events) => {
                let remains = events.resolve()?;
                let root = remains.root;
                (Tree::Spilled(remains), root)
            }
        };
        let Self { records, handles, began, .. } = self;
        let mut index = Index { tree, records, handles, began, root: None };
        if let Some(record) = root {
            index.root = Some(index.stored(record, &mut Vec::new())?.metadata);
        }
        Ok(index)
    }
}

/// Problems, which are told again by each pass.
#[derive(Default)]
struct Problems {
    kept: Vec<Problem>,
    left_out: u64,
}

impl Problems {
    fn add(&mut self, found: Vec<Problem>) {
        let room = MAX_PATHS_KEPT.saturating_sub(self.kept.len());
        self.left_out += found.len().saturating_sub(room) as u64;
        self.kept.extend(found.into_iter().take(room));
    }
}

impl Index {
    fn stored(&self, place: u64, scratch: &mut Vec<u8>) -> Result<Stored, SourceError> {
        Ok(decode(self.records.read(place, scratch)?).ok_or_else(SpillError::damaged)?)
    }

    /// Files whose content comes in the stream, each once, in the order in which they come there.
    fn later(&self) -> Result<Wanted, SourceError> {
        let (plan, order) = match &self.tree {
            Tree::InMemory(plan, order) => (plan, order),
            Tree::Spilled(remains) => return Ok(Wanted::Spilled(remains.later()?)),
        };
        let known = order.ids.iter().map(|id| plan.get(*id));
        let later = known.filter(|known| known.comes_later() && !known.is_directory());
        let mut wanted: Vec<(Time, u64)> = later.map(|known| (known.file, known.record())).collect();
        wanted.sort_unstable();
        wanted.dedup();
        Ok(Wanted::InMemory(wanted.into_iter()))
    }
}

impl Wanted {
    fn next(&mut self) -> Result<Option<(Time, u64)>, SourceError> {
        match self {
            Self::InMemory(files) => Ok(files.next()),
            Self::Spilled(files) => Ok(files.next_file()?),
        }
    }
}

impl TreeSource for Layers {
    fn root(&self) -> Option<&Metadata> {
        self.index.root.as_ref()
    }

    fn next_batch(&mut self) -> Result<Option<Batch>, SourceError> {
        if self.is_over {
            return Ok(None);
        }
        let next = self.next();
        self.is_over = !matches!(next, Ok(Some(_)));
        next
    }

    fn next_content(&mut self) -> Result<Option<LaterContent>, SourceError> {
        let wanted = match &mut self.later.wanted {
            Some(wanted) => wanted,
            none => none.insert(self.index.later()?),
        };
        let Some((time, place)) = wanted.next()? else {
            return Ok(None);
        };
        let stored = self.index.stored(place, &mut Vec::new())?;
        let path = Shown(stored.home.clone());
        match self.item_at(time)? {
            Some(StreamItem::Entry(entry)) if stored.is(&entry) => match entry.kind {
                Kind::Regular { content, .. } => Ok(Some(LaterContent { token: time, content })),
                _ => Err(SourceError::Replaced { path }),
            },
            _ => Err(SourceError::Replaced { path }),
        }
    }

    fn read_data(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let layer = self.later.at.and_then(|(layer, _)| self.layers.get_mut(layer));
        layer.map_or(Ok(0), |layer| layer.read_data(buffer))
    }

    fn restart(&mut self, reading: Reading) -> Result<(), SourceError> {
        self.stop();
        (self.reading, self.is_over, self.has_told_problems) = (reading, false, false);
        self.later = Later::default();
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        match std::mem::replace(&mut self.has_told_problems, true) {
            true => Vec::new(),
            false => self.problems.kept.clone(),
        }
    }

    fn problems_left_out(&self) -> u64 {
        self.problems.left_out
    }
}

impl Layers {
    fn stop(&mut self) {
        // The sending thread learns that the receiver is gone.
        self.messages = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Stored {
    fn data_bytes(&self) -> u64 {
        let What::Regular { size_bytes, content } = &self.what else { return 0 };
        match content {
            StoredContent::Hole => 0,
            StoredContent::Region(ranges) => ranges.iter().map(|range| range.length_bytes).sum(),
            StoredContent::Stream(ranges) => ranges.iter().map(|range| range.length_bytes).sum(),
            StoredContent::Inline(_) | StoredContent::Tree { .. } | StoredContent::Host { .. } => *size_bytes,
        }
    }

    /// Whether an entry of the second pass has the size and the ranges of the first.
    fn is(&self, entry: &StreamEntry) -> bool {
        let What::Regular { size_bytes, content: StoredContent::Stream(ranges) } = &self.what else {
            return false;
        };
        let Kind::Regular { size_bytes: found_bytes, content } = &entry.kind else { return false };
        size_bytes == found_bytes
            && match content {
                Content::Stream(found) => found == ranges,
                Content::Inline(bytes) => {
                    matches!(&**ranges, [range] if range.offset_bytes == 0 && range.length_bytes == bytes.len() as u64)
                }
                _ => false,
            }
    }
}

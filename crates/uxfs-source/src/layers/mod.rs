//! Streams as one tree: an archive in the order of its paths, whatever its own order is, and several laid over each other,
//! as the layers of container images are.
//!
//! A first pass reads what there is, without content, and keeps of each file a short record and of each path a few numbers:
//! some 100 bytes together, records beyond 64 MiB in a temporary file. From these the tree is told as a directory of the
//! host would be: each file that is there at the end, once, in order, with the content of the layer that it comes from.
//! A program that builds a file system from that never has to remove anything, and makes the same of two archives that hold
//! the same in different orders.
//!
//! Contents of archives that are not packed are read where they lie. A packed one cannot be sought in: its contents come
//! after all files, in the archive's order, by a second pass ([`Content::Later`]).
//!
//! | module | holds |
//! |---|---|
//! | [`paths`] | every path, known by its parent and its name |
//! | [`plan`] | what of it remains, and in which order |
//! | [`records`], [`spool`] | what is kept of a file, and where |
//! | [`teller`] | the thread that tells it |
//! | here | the two passes |

mod paths;
mod plan;
mod records;
mod spool;
mod teller;

use std::{
    fmt,
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
    thread::{self, JoinHandle},
};

use self::{
    plan::{Order, Plan, Time},
    records::{Handles, Stored, StoredContent, What, decode, encode},
    spool::{Spool, damaged},
    teller::{Message, Teller},
};
use crate::{
    content::Content,
    entry::{Kind, Metadata},
    error::{LayerFault, Problem, Shown, SourceError},
    stream::{StreamEntry, StreamItem, StreamSource},
    tree::{Batch, LaterContent, Reading, TreeSource},
};

/// Batches on their way.
const MESSAGES: usize = 8;
/// Files up to this size come with their content.
const INLINE_LIMIT_BYTES: u64 = 64 << 10;

/// What the first pass has learned.
struct Index {
    plan: Plan,
    order: Order,
    spool: Spool,
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
    /// Told again by each pass.
    problems: Vec<Problem>,
    has_told_problems: bool,
    messages: Option<Receiver<Message>>,
    thread: Option<JoinHandle<()>>,
    is_over: bool,
    later: Later,
}

/// The second pass.
#[derive(Default)]
struct Later {
    /// When those files came whose content is wanted, and where they are kept; in order. Known from the beginning of the pass.
    wanted: Option<std::vec::IntoIter<(Time, u64)>>,
    /// The layer that is being read, and the time of the item that it gave last.
    at: Option<(usize, Time)>,
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layers").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

impl Layers {
    /// Lays streams over each other, the first lowest. They stand at their beginnings, opened for [`Reading::Checked`] or
    /// [`Reading::Metadata`], and are read to their ends; those that are packed must be able to restart.
    ///
    /// # Errors
    /// One of them cannot be read, or makes no sense above those below.
    pub fn new(mut layers: Vec<Box<dyn StreamSource>>) -> Result<Self, SourceError> {
        let mut first = FirstPass {
            plan: Plan::new(),
            spool: Spool::new(),
            handles: Vec::with_capacity(layers.len()),
            began: Vec::with_capacity(layers.len()),
            time: 0,
            record: Vec::new(),
        };
        let mut problems = Vec::new();
        for layer in &mut layers {
            first.read(&mut **layer)?;
            problems.append(&mut layer.take_problems());
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
    /// What was kept of the files cannot be read.
    pub fn content_bytes(&self) -> Result<u64, SourceError> {
        let index = &self.index;
        let (mut sum, mut scratch) = (0_u64, Vec::new());
        for id in &index.order.ids {
            let known = index.plan.get(*id);
            if known.is_directory() {
                continue;
            }
            // Of the names of one file only one counts: each gives its share.
            let names = index.order.names.get(&known.file).copied().unwrap_or(1).max(1);
            sum = sum
                .saturating_add(index.stored(known.record(), &mut scratch)?.data_bytes() / u64::from(names));
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
                _ => Err(damaged()),
            },
        }
    }

    /// What comes at `time` in its layer.
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

struct FirstPass {
    plan: Plan,
    spool: Spool,
    handles: Vec<Handles>,
    began: Vec<Time>,
    /// Of the last item.
    time: Time,
    record: Vec<u8>,
}

impl FirstPass {
    fn read(&mut self, layer: &mut dyn StreamSource) -> Result<(), SourceError> {
        let many = || SourceError::Layer { path: Shown::from(b"".as_slice()), fault: LayerFault::TooMany };
        let began = self.time.checked_add(1).ok_or_else(many)?;
        let number = self.handles.len();
        self.began.push(began);
        let mut handles = Handles::default();
        while let Some(item) = layer.next_item()? {
            self.time = self.time.checked_add(1).filter(|time| *time != Time::MAX).ok_or_else(many)?;
            let mut place = 0;
            if let StreamItem::Entry(entry) = &item
                && !matches!(entry.kind, Kind::HardLink { .. })
            {
                let home = self.plan.place(&entry.path)?;
                encode(entry, (number, home), &mut handles, &mut self.record);
                place = self.spool.append(&self.record)?;
            }
            self.plan.learn(&item, self.time, began, place)?;
        }
        self.handles.push(handles);
        Ok(())
    }

    fn finish(self) -> Result<Index, SourceError> {
        let Self { mut plan, mut spool, handles, began, .. } = self;
        spool.seal()?;
        let order = plan.resolve();
        let root = plan.get(paths::ROOT);
        let mut index = Index { plan, order, spool, handles, began, root: None };
        if !root.is_implied() {
            index.root = Some(index.stored(root.record(), &mut Vec::new())?.metadata);
        }
        Ok(index)
    }
}

impl Index {
    fn stored(&self, place: u64, scratch: &mut Vec<u8>) -> Result<Stored, SourceError> {
        decode(self.spool.read(place, scratch)?).ok_or_else(damaged)
    }

    /// Files whose content comes in the stream, each once, in the order in which they come there.
    fn later(&self) -> Vec<(Time, u64)> {
        let known = self.order.ids.iter().map(|id| self.plan.get(*id));
        let later = known.filter(|known| known.comes_later() && !known.is_directory());
        let mut wanted: Vec<(Time, u64)> = later.map(|known| (known.file, known.record())).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
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
        if self.later.wanted.is_none() {
            self.later.wanted = Some(self.index.later().into_iter());
        }
        let Some((time, place)) = self.later.wanted.as_mut().and_then(Iterator::next) else {
            return Ok(None);
        };
        let stored = self.index.stored(place, &mut Vec::new())?;
        let name = self.index.plan.paths.name(stored.home).into();
        match self.item_at(time)? {
            Some(StreamItem::Entry(entry)) if stored.is(&entry) => match entry.kind {
                Kind::Regular { content, .. } => Ok(Some(LaterContent { token: time, content })),
                _ => Err(SourceError::Replaced { path: Shown(name) }),
            },
            _ => Err(SourceError::Replaced { path: Shown(name) }),
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
            false => self.problems.clone(),
        }
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

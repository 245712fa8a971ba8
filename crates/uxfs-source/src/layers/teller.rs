//! The thread that tells what remains, directory by directory, ahead of its consumer within bounds.
//!
//! Batches are cut as those of a directory of the host are: the image is the same whichever of the two it comes from.

use std::{
    ffi::CString,
    ops::Range,
    sync::{Arc, mpsc::SyncSender},
};

use uxfs_block::spill::SpillError;

use super::{
    Index, Tree,
    paths::{PathId, ROOT, components},
    plan::{Order, Plan, Time},
    records::{Stored, StoredContent, What},
    spilled::{Remaining, RemainingReader, Remains},
};
use crate::{
    content::{Content, ContentLocation, FileContent},
    directory::{CHUNK_NAMES, FileInTree, MOST_OF_ALL_NAMES_BYTES, Node, PIECE_BYTES},
    entry::{DirectoryId, Entry, LinkIdentity, Metadata},
    error::{Shown, SourceError},
    tree::{Batch, Reading},
};

pub(super) enum Message {
    Batch(Batch),
    End,
    Failed(SourceError),
}

/// Why telling ends early.
pub(super) enum Ending {
    Failed(SourceError),
    /// The consumer has gone.
    Abandoned,
}

impl From<SpillError> for Ending {
    fn from(error: SpillError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<SourceError> for Ending {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}

/// A directory on the way to the one that is told.
struct Level {
    /// Its paths: places in the order, of which those before the first have been told. Empty where the paths were
    /// spilled.
    rest: Range<usize>,
    /// Of its own path.
    path_bytes: usize,
    /// The directories of the host that lie here, by layer; made where a file of theirs is told.
    nodes: Vec<Option<Arc<Node>>>,
}

/// The thread's side.
pub(super) struct Teller {
    index: Arc<Index>,
    reading: Reading,
    /// Files up to this size come with their content.
    inline_limit_bytes: u64,
    sender: SyncSender<Message>,
    levels: Vec<Level>,
    /// Of the innermost level.
    path: Vec<u8>,
    scratch: Vec<u8>,
}

impl Teller {
    pub(super) fn new(
        index: Arc<Index>,
        reading: Reading,
        inline_limit_bytes: u64,
        sender: SyncSender<Message>,
    ) -> Self {
        let (levels, path, scratch) = (Vec::new(), Vec::new(), Vec::new());
        Self { index, reading, inline_limit_bytes, sender, levels, path, scratch }
    }

    pub(super) fn run(mut self) {
        let last = match self.walk() {
            Ok(()) => Message::End,
            Err(Ending::Failed(error)) => Message::Failed(error),
            Err(Ending::Abandoned) => return,
        };
        // A consumer that has gone does not miss it.
        let _ = self.sender.send(last);
    }

    fn walk(&mut self) -> Result<(), Ending> {
        let index = Arc::clone(&self.index);
        match &index.tree {
            Tree::InMemory(plan, order) => self.walk_in_memory(plan, order),
            Tree::Spilled(remains) => self.walk_spilled(remains),
        }
    }

    fn walk_in_memory(&mut self, plan: &Plan, order: &Order) -> Result<(), Ending> {
        self.enter(plan, order, ROOT)?;
        while let Some(level) = self.levels.last_mut() {
            let ids = order.ids.get(level.rest.clone()).unwrap_or_default();
            match ids.iter().position(|id| plan.get(*id).is_directory()) {
                Some(next) => {
                    level.rest.start += next + 1;
                    if let Some(id) = ids.get(next) {
                        self.enter(plan, order, *id)?;
                    }
                }
                None => {
                    self.levels.pop();
                    self.path.truncate(self.levels.last().map_or(0, |level| level.path_bytes));
                }
            }
        }
        Ok(())
    }

    /// Tells what a directory holds; its subdirectories follow.
    fn enter(&mut self, plan: &Plan, order: &Order, id: PathId) -> Result<(), Ending> {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(plan.paths.name(id));
        let rest = order.places(plan, id);
        let path_bytes = self.path.len();
        self.levels.push(Level { rest: rest.clone(), path_bytes, nodes: Vec::new() });
        let ids = order.ids.get(rest).unwrap_or_default();
        let mut chunks = ids.chunks(CHUNK_NAMES).peekable();
        let directory = DirectoryId(id.into());
        if ids.is_empty() {
            return self.send(directory, true, Vec::new());
        }
        while let Some(chunk) = chunks.next() {
            let entries = chunk.iter().map(|child| {
                let known = plan.get(*child);
                let remaining = Remaining {
                    record: known.record(),
                    file: known.file,
                    is_directory: known.is_directory(),
                    is_implied: known.is_implied(),
                    links: order.links(&known),
                };
                (plan.paths.name(*child).into(), remaining, DirectoryId((*child).into()))
            });
            self.tell(directory, entries, chunks.peek().is_none())?;
        }
        Ok(())
    }

    fn walk_spilled(&mut self, remains: &Remains) -> Result<(), Ending> {
        let mut reader = remains.read()?;
        let mut numbers = DirectoryNumbers::new();
        let mut path = std::mem::take(&mut self.path);
        while reader.next_directory(&mut path)? {
            // The directory above is among the levels: it came before.
            let depth =
                if path.is_empty() { 0 } else { 1 + path.iter().filter(|byte| **byte == b'/').count() };
            self.levels.truncate(depth);
            self.levels.push(Level { rest: 0..0, path_bytes: path.len(), nodes: Vec::new() });
            self.path = path;
            let directory = numbers.enter();
            loop {
                let chunk = next_chunk(&mut reader, &mut numbers)?;
                let is_last = !reader.has_more();
                self.tell(directory, chunk.into_iter(), is_last)?;
                if is_last {
                    break;
                }
            }
            numbers.leave();
            path = std::mem::take(&mut self.path);
        }
        Ok(())
    }

    /// Tells a chunk of the innermost directory's entries.
    fn tell(
        &mut self,
        directory: DirectoryId,
        chunk: impl ExactSizeIterator<Item = NumberedEntry>,
        is_last: bool,
    ) -> Result<(), Ending> {
        let count = chunk.len();
        let mut entries = Vec::with_capacity(count);
        let mut weight = 0;
        for (name, remaining, id) in chunk {
            if weight >= PIECE_BYTES {
                let full = std::mem::replace(&mut entries, Vec::with_capacity(count));
                self.send(directory, false, full)?;
                weight = 0;
            }
            let (entry, entry_weight) = self.entry(name, &remaining, id)?;
            weight += entry_weight;
            entries.push(entry);
        }
        self.send(directory, is_last, entries)
    }

    fn send(&self, directory: DirectoryId, is_last: bool, entries: Vec<Entry>) -> Result<(), Ending> {
        let batch = Batch { directory, path: self.path.as_slice().into(), is_last, entries };
        self.sender.send(Message::Batch(batch)).map_err(|_| Ending::Abandoned)
    }

    /// One entry, and what its content and attributes weigh.
    fn entry(
        &mut self,
        name: Box<[u8]>,
        remaining: &Remaining,
        id: DirectoryId,
    ) -> Result<(Entry, usize), Ending> {
        let index = Arc::clone(&self.index);
        let Stored { layer, home, mut metadata, what } = index.stored(remaining.record, &mut self.scratch)?;
        if remaining.is_implied {
            metadata = implied(&metadata);
            let kind = What::Directory.kind(id, |_, _| Content::Hole);
            return Ok((Entry { name, metadata, kind }, 0));
        }
        let links = remaining.links;
        if links > 1 {
            // Numbers of items are those of files, over all layers.
            metadata.link = Some(LinkIdentity { device: 0, inode: remaining.file.into(), links });
        }
        let mut weight = metadata.attributes.iter().map(|a| a.name.len() + a.value.len()).sum();
        let mut failed = None;
        let kind = what.kind(id, |size_bytes, stored| {
            let told = Told { name: &name, layer, home: &home, token: remaining.file };
            let content = self.content(&told, size_bytes, stored);
            let content = content.and_then(|content| self.small(size_bytes, links, content));
            match content {
                Ok((content, inline_bytes)) => {
                    weight += inline_bytes;
                    content
                }
                Err(error) => {
                    failed = Some(error);
                    Content::Hole
                }
            }
        });
        match failed {
            Some(error) => Err(error.into()),
            None => Ok((Entry { name, metadata, kind }, weight)),
        }
    }

    /// Content with the handles that it needs.
    fn content(
        &mut self,
        told: &Told<'_>,
        size_bytes: u64,
        stored: StoredContent,
    ) -> Result<Content, SourceError> {
        let (place, may_have_holes) = match stored {
            StoredContent::Hole => return Ok(Content::Hole),
            StoredContent::Inline(bytes) => return Ok(Content::Inline(bytes)),
            StoredContent::Stream(ranges) => return Ok(Content::Later { token: told.token, ranges }),
            StoredContent::Region(ranges) => {
                let archive = self.index.handles.get(told.layer).and_then(|handles| handles.archive.as_ref());
                let archive = archive.ok_or_else(SpillError::damaged)?;
                let path = Shown(crate::path::join(&self.path, told.name));
                return Ok(Content::of_archive(archive, path, size_bytes, ranges));
            }
            StoredContent::Host { path, may_have_holes } => (ContentLocation::Host(path), may_have_holes),
            StoredContent::Tree { device, inode, modified, owner, may_have_holes } => {
                let (directory, name) = self.place_in_tree(told)?;
                let file = FileInTree { directory, name, device, inode, owner, modified, kept: None };
                (ContentLocation::Tree(file), may_have_holes)
            }
        };
        Ok(Content::File(Arc::new(FileContent { place, size_bytes, may_have_holes })))
    }

    /// Where a file of a directory of the host lies: elsewhere than it is told, if that is another name of it.
    fn place_in_tree(&mut self, told: &Told<'_>) -> Result<(Arc<Node>, CString), SourceError> {
        let name = |name: &[u8]| CString::new(name).map_err(|_| SpillError::damaged());
        let (directory, home_name) = crate::path::split(told.home);
        if directory == self.path.as_slice() && home_name == told.name {
            return Ok((self.node(told.layer)?, name(told.name)?));
        }
        let mut node = self.root_node(told.layer)?;
        for component in components(directory) {
            node = node.child_of_any_owner(&name(component)?);
        }
        Ok((node, name(home_name)?))
    }

    fn root_node(&self, layer: usize) -> Result<Arc<Node>, SourceError> {
        let host = self.index.handles.get(layer).and_then(|handles| handles.host.as_ref());
        Ok(Node::root_of_any_owner(Arc::clone(host.ok_or_else(SpillError::damaged)?)))
    }

    /// The directory of the host that lies in a layer where the innermost level is.
    fn node(&mut self, layer: usize) -> Result<Arc<Node>, SourceError> {
        let known = |level: &Level| level.nodes.get(layer).cloned().flatten();
        let found = self.levels.iter().rposition(|level| known(level).is_some());
        let (mut at, mut node) = match found.and_then(|at| Some((at, known(self.levels.get(at)?)?))) {
            Some(found) => found,
            None => (0, self.root_node(layer)?),
        };
        loop {
            let Some(level) = self.levels.get_mut(at) else { return Ok(node) };
            if level.nodes.len() <= layer {
                level.nodes.resize(layer + 1, None);
            }
            if let Some(place) = level.nodes.get_mut(layer) {
                *place = Some(Arc::clone(&node));
            }
            let begin = level.path_bytes;
            at += 1;
            let Some(next) = self.levels.get(at) else { return Ok(node) };
            let name = self.path.get(begin..next.path_bytes).unwrap_or_default();
            let name = name.strip_prefix(b"/").unwrap_or(name);
            node = node.child_of_any_owner(&CString::new(name).map_err(|_| SpillError::damaged())?);
        }
    }

    /// The content itself, where it is small; with what it weighs, wherever it comes from.
    fn small(&self, size_bytes: u64, links: u32, content: Content) -> Result<(Content, usize), SourceError> {
        let of_all_names = size_bytes.saturating_mul(links.into());
        let is_small = size_bytes <= self.inline_limit_bytes && of_all_names <= MOST_OF_ALL_NAMES_BYTES;
        if !is_small || self.reading != Reading::Everything {
            return Ok((content, 0));
        }
        let weight = size_bytes as usize;
        match &content {
            Content::Hole => Ok((content, 0)),
            Content::Inline(_) => Ok((content, weight)),
            Content::Stream(ranges) | Content::Later { ranges, .. } => {
                let is_whole = matches!(&**ranges, [range] if range.length_bytes == size_bytes);
                Ok((content, if is_whole { weight } else { 0 }))
            }
            Content::File(file) => {
                let open = file.open()?;
                if file.may_have_holes() {
                    match open.next_data(0)? {
                        None => return Ok((Content::Hole, 0)),
                        Some(range) if range.length_bytes < size_bytes => return Ok((content, 0)),
                        Some(_) => {}
                    }
                }
                let mut bytes = vec![0; weight];
                // The copying thread reports what has become shorter.
                match open.read_at(&mut bytes, 0)? {
                    0 => Ok((Content::Inline(bytes.into()), weight)),
                    _ => Ok((content, weight)),
                }
            }
        }
    }
}

/// The name of an entry, what remains of it, and its number if it is a directory.
type NumberedEntry = (Box<[u8]>, Remaining, DirectoryId);

/// An entry whose content is looked for.
struct Told<'a> {
    name: &'a [u8],
    layer: usize,
    /// Its path in the layer.
    home: &'a [u8],
    /// Says of which file content is that comes later.
    token: Time,
}

/// Numbers of directories, in the order in which they are met.
struct DirectoryNumbers {
    next: u64,
    /// From the root down, of directories that have been met and not entered.
    coming: Vec<Range<u64>>,
    met_in_current: u64,
}

impl DirectoryNumbers {
    fn new() -> Self {
        // The root is entered as if it had been met above.
        Self { next: 1, coming: vec![Range { start: 0, end: 1 }], met_in_current: 1 }
    }

    /// A directory is met.
    fn meet(&mut self) -> DirectoryId {
        self.next += 1;
        DirectoryId(self.next - 1)
    }

    /// The next directory is entered: the first of the deepest that are left.
    fn enter(&mut self) -> DirectoryId {
        while self.coming.last().is_some_and(Range::is_empty) {
            self.coming.pop();
        }
        self.met_in_current = self.next;
        self.coming.last_mut().map_or(DirectoryId::ROOT, |range| {
            range.start += 1;
            DirectoryId(range.start - 1)
        })
    }

    /// All entries of the directory have been met.
    fn leave(&mut self) {
        self.coming.push(self.met_in_current..self.next);
    }
}

fn next_chunk(
    reader: &mut RemainingReader,
    numbers: &mut DirectoryNumbers,
) -> Result<Vec<NumberedEntry>, SpillError> {
    let mut chunk = Vec::new();
    while chunk.len() < CHUNK_NAMES
        && let Some((name, remaining)) = reader.next_entry()?
    {
        let id = if remaining.is_directory { numbers.meet() } else { DirectoryId::ROOT };
        chunk.push((name, remaining, id));
    }
    Ok(chunk)
}

/// A directory that no layer names belongs to root and has the times of the first file below.
fn implied(below: &Metadata) -> Metadata {
    Metadata { mode: 0o755, times: below.times, ..Metadata::default() }
}

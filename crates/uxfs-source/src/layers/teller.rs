//! The thread that tells what remains, directory by directory, ahead of its consumer within bounds.
//!
//! Batches are cut as those of a directory of the host are: the image is the same whichever of the two it comes from.

use std::{
    ffi::CString,
    sync::{Arc, mpsc::SyncSender},
};

use super::{
    Index,
    paths::{PathId, ROOT},
    plan::Known,
    records::{Stored, StoredContent, What},
    spool::damaged,
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
    /// The receiver is gone.
    Abandoned,
}

impl From<SourceError> for Ending {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}

/// A directory on the way to the one that is told.
struct Level {
    /// What it holds: places in the order, of which those before the first have been told.
    rest: std::ops::Range<usize>,
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
        // Where the receiver is gone the last message is not needed.
        let _ = self.sender.send(last);
    }

    fn walk(&mut self) -> Result<(), Ending> {
        self.enter(ROOT)?;
        while let Some(level) = self.levels.last_mut() {
            let index = Arc::clone(&self.index);
            let ids = index.order.ids.get(level.rest.clone()).unwrap_or_default();
            match ids.iter().position(|id| index.plan.get(*id).is_directory()) {
                Some(next) => {
                    level.rest.start += next + 1;
                    if let Some(id) = ids.get(next) {
                        self.enter(*id)?;
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
    fn enter(&mut self, id: PathId) -> Result<(), Ending> {
        let index = Arc::clone(&self.index);
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(index.plan.paths.name(id));
        let rest = index.order.places(&index.plan, id);
        let path_bytes = self.path.len();
        self.levels.push(Level { rest: rest.clone(), path_bytes, nodes: Vec::new() });
        let ids = index.order.ids.get(rest).unwrap_or_default();
        let mut chunks = ids.chunks(CHUNK_NAMES).peekable();
        if ids.is_empty() {
            return self.send(id, true, Vec::new());
        }
        while let Some(chunk) = chunks.next() {
            let mut entries = Vec::with_capacity(chunk.len());
            let mut weight = 0;
            for child in chunk {
                if weight >= PIECE_BYTES {
                    let full = std::mem::replace(&mut entries, Vec::with_capacity(chunk.len()));
                    self.send(id, false, full)?;
                    weight = 0;
                }
                let (entry, entry_weight) = self.entry(*child)?;
                weight += entry_weight;
                entries.push(entry);
            }
            self.send(id, chunks.peek().is_none(), entries)?;
        }
        Ok(())
    }

    fn send(&self, id: PathId, is_last: bool, entries: Vec<Entry>) -> Result<(), Ending> {
        let directory = DirectoryId(id.into());
        let batch = Batch { directory, path: self.path.as_slice().into(), is_last, entries };
        self.sender.send(Message::Batch(batch)).map_err(|_| Ending::Abandoned)
    }

    /// One entry, and what its content and attributes weigh.
    fn entry(&mut self, id: PathId) -> Result<(Entry, usize), Ending> {
        let index = Arc::clone(&self.index);
        let known = index.plan.get(id);
        let name: Box<[u8]> = index.plan.paths.name(id).into();
        let Stored { layer, home, mut metadata, what } = index.stored(known.record(), &mut self.scratch)?;
        if known.is_implied() {
            metadata = implied(&metadata);
            let kind = What::Directory.kind(DirectoryId(id.into()), |_, _| Content::Hole);
            return Ok((Entry { name, metadata, kind }, 0));
        }
        let links = index.order.names.get(&known.file).copied().unwrap_or(1);
        if links > 1 {
            // Numbers of items are those of files, over all layers.
            metadata.link = Some(LinkIdentity { device: 0, inode: known.file.into(), links });
        }
        let mut weight = metadata.attributes.iter().map(|a| a.name.len() + a.value.len()).sum();
        let mut failed = None;
        let kind = what.kind(DirectoryId(id.into()), |size_bytes, stored| {
            let content = self.content(id, (layer, home), &known, size_bytes, stored);
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

    fn path_of(&self, id: PathId) -> Shown {
        Shown(crate::path::join(&self.path, self.index.plan.paths.name(id)))
    }

    /// Content with the handles that it needs.
    fn content(
        &mut self,
        id: PathId,
        (layer, home): (usize, PathId),
        known: &Known,
        size_bytes: u64,
        stored: StoredContent,
    ) -> Result<Content, SourceError> {
        let (place, may_have_holes) = match stored {
            StoredContent::Hole => return Ok(Content::Hole),
            StoredContent::Inline(bytes) => return Ok(Content::Inline(bytes)),
            StoredContent::Stream(ranges) => return Ok(Content::Later { token: known.file, ranges }),
            StoredContent::Region(ranges) => {
                let archive = self.index.handles.get(layer).and_then(|handles| handles.archive.as_ref());
                let archive = archive.ok_or_else(damaged)?;
                return Ok(Content::of_archive(archive, self.path_of(id), size_bytes, ranges));
            }
            StoredContent::Host { path, may_have_holes } => (ContentLocation::Host(path), may_have_holes),
            StoredContent::Tree { device, inode, modified, owner, may_have_holes } => {
                let (directory, name) = self.place_in_tree(layer, home, id)?;
                let file = FileInTree { directory, name, device, inode, owner, modified, kept: None };
                (ContentLocation::Tree(file), may_have_holes)
            }
        };
        Ok(Content::File(Arc::new(FileContent { place, size_bytes, may_have_holes })))
    }

    /// Where a file of a directory of the host lies: elsewhere than it is told, if that is another name of it.
    fn place_in_tree(
        &mut self,
        layer: usize,
        home: PathId,
        id: PathId,
    ) -> Result<(Arc<Node>, CString), SourceError> {
        let index = Arc::clone(&self.index);
        let paths = &index.plan.paths;
        let name = |id| CString::new(paths.name(id)).map_err(|_| damaged());
        if home == id {
            return Ok((self.node(layer)?, name(id)?));
        }
        let mut above = Vec::new();
        let mut at = paths.parent(home);
        while at != ROOT {
            above.push(name(at)?);
            at = paths.parent(at);
        }
        let root = self.root_node(layer)?;
        let node = above.iter().rev().fold(root, |node, name| node.child_of_any_owner(name));
        Ok((node, name(home)?))
    }

    fn root_node(&self, layer: usize) -> Result<Arc<Node>, SourceError> {
        let host = self.index.handles.get(layer).and_then(|handles| handles.host.as_ref());
        Ok(Node::root_of_any_owner(Arc::clone(host.ok_or_else(damaged)?)))
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
            node = node.child_of_any_owner(&CString::new(name).map_err(|_| damaged())?);
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
                // The reader that copies the contents reports a file that has become shorter.
                match open.read_at(&mut bytes, 0)? {
                    0 => Ok((Content::Inline(bytes.into()), weight)),
                    _ => Ok((content, weight)),
                }
            }
        }
    }
}

/// A directory that no layer names belongs to root and has the times of the first file below.
fn implied(below: &Metadata) -> Metadata {
    Metadata { mode: 0o755, times: below.times, ..Metadata::default() }
}

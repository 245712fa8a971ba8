//! A directory of the host, told as a stream: one layer among others.

use uxfs_block::spill::first_paths::FirstPaths;

use crate::{
    directory::DirectorySource,
    entry::{DirectoryId, Entry, Kind},
    error::{LayerFault, Problem, Shown, SourceError},
    path::{Whiteout, join},
    stream::{StreamEntry, StreamItem, StreamSource},
    tree::{Reading, TreeSource},
};

/// Tells the root, then what is below it in the order of the tree. Files with several names are told under the first, the
/// others are hard links to it.
#[derive(Debug)]
pub struct TreeStream {
    tree: DirectorySource,
    /// Whether names that begin with `.wh.` say what is gone.
    whiteouts: bool,
    is_begun: bool,
    /// Of the directory whose entries come.
    path: Box<[u8]>,
    entries: std::vec::IntoIter<Entry>,
    memory_bytes: usize,
    first_paths: FirstPaths,
    /// Of the file at hand, where it has been met.
    first: Vec<u8>,
}

impl TreeStream {
    /// Around a directory that nothing has been read from yet. What must be remembered of hard links takes about
    /// `memory_bytes`; the rest goes to temporary files.
    pub fn new(tree: DirectorySource, whiteouts: bool, memory_bytes: usize) -> Self {
        Self {
            tree,
            whiteouts,
            is_begun: false,
            path: Box::default(),
            entries: Vec::new().into_iter(),
            memory_bytes,
            first_paths: FirstPaths::new(memory_bytes),
            first: Vec::new(),
        }
    }

    fn item(&mut self, entry: Entry) -> Result<Option<StreamItem>, SourceError> {
        let path = join(&self.path, &entry.name);
        match Whiteout::of(&path).filter(|_| self.whiteouts) {
            None => Ok(Some(self.entry(path, entry)?)),
            Some(Whiteout::Path(gone)) => Ok(Some(StreamItem::Whiteout(gone))),
            Some(Whiteout::Below(directory)) => Ok(Some(StreamItem::Opaque(directory))),
            Some(Whiteout::Nothing) => Ok(None),
            Some(Whiteout::Malformed) => {
                Err(SourceError::Layer { path: Shown(path), fault: LayerFault::Whiteout })
            }
        }
    }

    fn entry(&mut self, path: Box<[u8]>, entry: Entry) -> Result<StreamItem, SourceError> {
        let Entry { mut metadata, mut kind, .. } = entry;
        if let Some(link) = metadata.link.take().filter(|link| link.links > 1)
            && self.first_paths.meet((link.device, link.inode), link.links, &path, &mut self.first)?
        {
            kind = Kind::HardLink { target: self.first.as_slice().into() };
        }
        Ok(StreamItem::Entry(StreamEntry { path, metadata, kind }))
    }
}

impl StreamSource for TreeStream {
    fn next_item(&mut self) -> Result<Option<StreamItem>, SourceError> {
        if !std::mem::replace(&mut self.is_begun, true)
            && let Some(root) = self.tree.root()
        {
            let (path, metadata) = (Box::default(), root.clone());
            let kind = Kind::Directory(DirectoryId::ROOT);
            return Ok(Some(StreamItem::Entry(StreamEntry { path, metadata, kind })));
        }
        loop {
            while let Some(entry) = self.entries.next() {
                if let Some(item) = self.item(entry)? {
                    return Ok(Some(item));
                }
            }
            let Some(batch) = self.tree.next_batch()? else { return Ok(None) };
            self.path = batch.path;
            self.entries = batch.entries.into_iter();
        }
    }

    fn read_data(&mut self, _: &mut [u8]) -> Result<usize, SourceError> {
        // Contents are handles or in memory.
        Ok(0)
    }

    fn restart(&mut self, reading: Reading) -> Result<(), SourceError> {
        self.tree.restart(reading)?;
        self.is_begun = false;
        self.path = Box::default();
        self.entries = Vec::new().into_iter();
        self.first_paths = FirstPaths::new(self.memory_bytes);
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.tree.take_problems()
    }
}

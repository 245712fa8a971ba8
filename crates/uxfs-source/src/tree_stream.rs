//! A directory of the host, told as a stream: one layer among others.

use uxfs_block::spill::{map::SpillMap, records::Records};

use crate::{
    directory::DirectorySource,
    entry::{DirectoryId, Entry, Kind, LinkIdentity},
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
    links: FirstNames,
}

/// Files whose further names are still to come.
#[derive(Debug)]
struct FirstNames {
    memory_bytes: usize,
    /// By device and inode: where the first path is kept, and how many names are left.
    known: SpillMap,
    paths: Records,
}

impl FirstNames {
    fn new(memory_bytes: usize) -> Self {
        let half = memory_bytes / 2;
        Self { memory_bytes, known: SpillMap::new(half), paths: Records::new(half) }
    }

    /// The first path of a file that has been met; otherwise this is the first.
    fn meet(&mut self, link: &LinkIdentity, path: &[u8]) -> Result<Option<Box<[u8]>>, SourceError> {
        let key = (link.device, link.inode);
        let Some((place, names_left)) = self.known.get(key)? else {
            let place = self.paths.append(path)?;
            self.known.insert(key, (place, u64::from(link.links - 1)))?;
            return Ok(None);
        };
        match names_left {
            0 | 1 => drop(self.known.remove(key)?),
            _ => self.known.insert(key, (place, names_left - 1))?,
        }
        Ok(Some(self.paths.read(place, &mut Vec::new())?.into()))
    }
}

impl TreeStream {
    /// Around a directory that nothing has been read from yet. What must be remembered of hard links takes about
    /// `memory_bytes`; the rest goes to temporary files.
    pub fn new(tree: DirectorySource, whiteouts: bool, memory_bytes: usize) -> Self {
        let (path, entries) = (Box::default(), Vec::new().into_iter());
        Self { tree, whiteouts, is_begun: false, path, entries, links: FirstNames::new(memory_bytes) }
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
            && let Some(target) = self.links.meet(&link, &path)?
        {
            kind = Kind::HardLink { target };
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
        self.links = FirstNames::new(self.links.memory_bytes);
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.tree.take_problems()
    }
}

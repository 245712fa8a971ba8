//! The remaining paths, by directory and name; each directory before those below it.

use uxfs_block::spill::{
    SpillError,
    sorter::{Merge, Sorted, Sorter},
};

use super::{
    super::plan::{LATER, RECORD, Time},
    links::{Answer, AnswerReader, Links},
    sweep::{FileRecord, Origin},
};

/// A path that remains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::layers) struct Remaining {
    /// Where the item is kept that says what it is.
    pub(in crate::layers) record: u64,
    /// The item that its file came with.
    pub(in crate::layers) file: Time,
    pub(in crate::layers) is_directory: bool,
    /// A directory that no item names: it has the times of the item.
    pub(in crate::layers) is_implied: bool,
    /// How many names its file has.
    pub(in crate::layers) links: u32,
}

/// An entry of a directory, with its name.
pub(in crate::layers) type NamedEntry = (Box<[u8]>, Remaining);

const DIRECTORY_FLAG: u8 = 1;
const IMPLIED_FLAG: u8 = 2;
const REMAINING_BYTES: usize = 17;

impl Remaining {
    fn write(&self) -> [u8; REMAINING_BYTES] {
        let directory = if self.is_directory { DIRECTORY_FLAG } else { 0 };
        let implied = if self.is_implied { IMPLIED_FLAG } else { 0 };
        let mut bytes = [0; REMAINING_BYTES];
        let parts = [
            self.record.to_le_bytes().as_slice(),
            &self.file.to_le_bytes(),
            &self.links.to_le_bytes(),
            &[directory | implied],
        ]
        .concat();
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (record, rest) = bytes.split_first_chunk::<8>()?;
        let (file, rest) = rest.split_first_chunk::<4>()?;
        let (links, rest) = rest.split_first_chunk::<4>()?;
        let flags = *rest.first()?;
        Some(Self {
            record: u64::from_le_bytes(*record),
            file: Time::from_le_bytes(*file),
            links: u32::from_le_bytes(*links),
            is_directory: flags & DIRECTORY_FLAG != 0,
            is_implied: flags & IMPLIED_FLAG != 0,
        })
    }
}

/// Puts the results of the sweep in order.
pub(super) struct RemainsBuilder {
    memory_bytes: usize,
    root: Option<Origin>,
    /// Keys: the path of a directory, its end, and a name; no name for the directory itself.
    remaining: Sorter,
    /// Files whose content comes in the stream, by time.
    later: Sorter,
    /// Where there are hard links.
    links: Option<LinkedFiles>,
    key: Vec<u8>,
}

/// Paths that wait until hard links are resolved.
struct LinkedFiles {
    links: Links,
    /// Paths that take their file from a link: by link.
    waiting: Sorter,
    /// Names of files, by file.
    names: Sorter,
}

/// The first byte of a payload that waits: whether it is a directory that no item names.
const WAITING_IMPLIED: u8 = 1;

impl RemainsBuilder {
    pub(super) fn new(memory_bytes: usize, has_links: bool) -> Self {
        let share = memory_bytes / 10;
        let links = || LinkedFiles {
            links: Links::new(share),
            waiting: Sorter::new(share),
            names: Sorter::new(share),
        };
        Self {
            memory_bytes: share,
            root: None,
            remaining: Sorter::new(share),
            later: Sorter::new(share),
            links: has_links.then(links),
            key: Vec::new(),
        }
    }

    pub(super) fn root(&mut self, origin: Option<Origin>) -> Result<(), SpillError> {
        self.root = origin;
        self.remaining.push(&[0, 0], &[])
    }

    pub(super) fn answer(&mut self, link: Time, answer: Answer) -> Result<(), SpillError> {
        match &mut self.links {
            Some(linked) => linked.links.add(link, answer),
            None => Ok(()),
        }
    }

    /// A path that remains, with zeros for slashes.
    pub(super) fn add(
        &mut self,
        path: &[u8],
        origin: Origin,
        is_directory: bool,
        is_implied: bool,
    ) -> Result<(), SpillError> {
        let (parent, name) = match path.iter().rposition(|byte| *byte == 0) {
            Some(end) => (path.get(..end).unwrap_or_default(), path.get(end + 1..).unwrap_or_default()),
            None => (b"".as_slice(), path),
        };
        if is_directory {
            self.key.clear();
            self.key.extend_from_slice(path);
            self.key.extend_from_slice(&[0, 0]);
            self.remaining.push(&self.key, &[])?;
        }
        self.key.clear();
        self.key.extend_from_slice(parent);
        self.key.extend_from_slice(&[0, 0]);
        self.key.extend_from_slice(name);
        match (origin, &mut self.links) {
            (Origin::Link(link), Some(linked)) => {
                let implied = if is_implied { WAITING_IMPLIED } else { 0 };
                linked.waiting.push(&link.to_be_bytes(), &[&[implied], self.key.as_slice()].concat())
            }
            (Origin::Item(file), Some(linked)) if !is_directory => linked.name(file, &self.key),
            (Origin::Item(FileRecord { file, record }), _) => {
                let remaining = Remaining { record, file, is_directory, is_implied, links: 1 };
                put(&mut self.remaining, &mut self.later, &self.key, remaining)
            }
            // There are no links without that.
            (Origin::Link(_), None) => Err(SpillError::damaged()),
        }
    }

    pub(super) fn finish(mut self) -> Result<Remains, SpillError> {
        if let Some(linked) = self.links.take() {
            linked.resolve(&mut self.remaining, &mut self.later, self.memory_bytes)?;
        }
        let root = match self.root {
            Some(Origin::Item(FileRecord { record, .. })) => Some(record & RECORD),
            // A link is never the root.
            _ => None,
        };
        Ok(Remains { root, remaining: self.remaining.finish()?, later: self.later.finish()? })
    }
}

fn put(remaining: &mut Sorter, later: &mut Sorter, key: &[u8], entry: Remaining) -> Result<(), SpillError> {
    let record = entry.record & RECORD;
    if entry.record & LATER != 0 && !entry.is_directory {
        later.push(&entry.file.to_be_bytes(), &record.to_le_bytes())?;
    }
    remaining.push(key, &Remaining { record, ..entry }.write())
}

impl LinkedFiles {
    fn name(&mut self, file: FileRecord, key: &[u8]) -> Result<(), SpillError> {
        self.names.push(&file.file.to_be_bytes(), &[file.record.to_le_bytes().as_slice(), key].concat())
    }

    fn resolve(
        mut self,
        remaining: &mut Sorter,
        later: &mut Sorter,
        memory_bytes: usize,
    ) -> Result<(), SpillError> {
        let links = std::mem::replace(&mut self.links, Links::new(memory_bytes));
        let mut answers = AnswerReader::new(&links.resolve()?)?;
        let waiting = std::mem::replace(&mut self.waiting, Sorter::new(memory_bytes)).finish()?;
        let mut merge = waiting.read()?;
        while let Some((link, payload)) = merge.next_record()? {
            let link = link.first_chunk::<4>().map(|bytes| Time::from_be_bytes(*bytes));
            let file = answers.file(link.ok_or_else(SpillError::damaged)?)?;
            let (implied, key) = payload.split_first().ok_or_else(SpillError::damaged)?;
            if *implied == WAITING_IMPLIED {
                let FileRecord { file, record } = file;
                let entry = Remaining { record, file, is_directory: true, is_implied: true, links: 1 };
                put(remaining, later, key, entry)?;
            } else {
                self.name(file, key)?;
            }
        }
        count_names(&self.names.finish()?, remaining, later)
    }
}

/// How many names each file has is known when all have been seen: one reader counts ahead of the other.
fn count_names(names: &Sorted, remaining: &mut Sorter, later: &mut Sorter) -> Result<(), SpillError> {
    let (mut ahead, mut merge) = (names.read()?, names.read()?);
    let mut next = ahead.next_record()?.map(|(file, _)| file.to_vec());
    while let Some(file) = next.take() {
        let mut links = 1_u32;
        while let Some((other, _)) = ahead.next_record()? {
            if other != file.as_slice() {
                next = Some(other.to_vec());
                break;
            }
            links = links.saturating_add(1);
        }
        for _ in 0..links {
            let (key, payload) = merge.next_record()?.ok_or_else(SpillError::damaged)?;
            let file = key.first_chunk::<4>().map(|bytes| Time::from_be_bytes(*bytes));
            let (record, key) = payload.split_first_chunk::<8>().ok_or_else(SpillError::damaged)?;
            let (record, file) = (u64::from_le_bytes(*record), file.ok_or_else(SpillError::damaged)?);
            put(remaining, later, key, Remaining { record, file, links, ..Remaining::default() })?;
        }
    }
    Ok(())
}

/// The remaining paths.
pub(in crate::layers) struct Remains {
    /// Where the item is kept that names the root.
    pub(in crate::layers) root: Option<u64>,
    remaining: Sorted,
    later: Sorted,
}

impl Remains {
    /// From the root on.
    pub(in crate::layers) fn read(&self) -> Result<RemainingReader, SpillError> {
        let mut reader = RemainingReader {
            merge: self.remaining.read()?,
            directory: Vec::new(),
            key: Vec::new(),
            remaining: None,
            is_over: false,
        };
        reader.advance()?;
        Ok(reader)
    }

    /// Files whose content comes in the stream, in that order.
    pub(in crate::layers) fn later(&self) -> Result<LaterReader, SpillError> {
        Ok(LaterReader { merge: self.later.read()?, last: None })
    }
}

/// Reads what remains.
pub(in crate::layers) struct RemainingReader {
    merge: Merge,
    /// The directory whose entries come, with its end.
    directory: Vec<u8>,
    /// The next key.
    key: Vec<u8>,
    /// `None` for a directory itself.
    remaining: Option<Remaining>,
    is_over: bool,
}

impl RemainingReader {
    fn advance(&mut self) -> Result<(), SpillError> {
        self.key.clear();
        match self.merge.next_record()? {
            None => self.is_over = true,
            Some((key, payload)) => {
                self.key.extend_from_slice(key);
                self.remaining = Remaining::read(payload);
            }
        }
        Ok(())
    }

    /// Goes to the next directory; its path comes with slashes. What was left of the one before is passed over.
    pub(in crate::layers) fn next_directory(&mut self, path: &mut Vec<u8>) -> Result<bool, SpillError> {
        while !self.is_over && self.remaining.is_some() {
            self.advance()?;
        }
        if self.is_over {
            return Ok(false);
        }
        std::mem::swap(&mut self.directory, &mut self.key);
        path.clear();
        let whole = self.directory.get(..self.directory.len().saturating_sub(2)).unwrap_or_default();
        path.extend(whole.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }));
        self.advance()?;
        Ok(true)
    }

    /// Whether the directory has more entries.
    pub(in crate::layers) fn has_more(&self) -> bool {
        !self.is_over && self.remaining.is_some()
    }

    /// The next entry of the directory.
    pub(in crate::layers) fn next_entry(&mut self) -> Result<Option<NamedEntry>, SpillError> {
        let Some(remaining) = self.remaining.filter(|_| !self.is_over) else { return Ok(None) };
        let name = self.key.strip_prefix(self.directory.as_slice()).ok_or_else(SpillError::damaged)?;
        let name = name.into();
        self.advance()?;
        Ok(Some((name, remaining)))
    }
}

/// Reads what comes later.
pub(in crate::layers) struct LaterReader {
    merge: Merge,
    last: Option<Time>,
}

impl LaterReader {
    /// When the next file came, and where its item is kept.
    pub(in crate::layers) fn next_file(&mut self) -> Result<Option<(Time, u64)>, SpillError> {
        while let Some((file, record)) = self.merge.next_record()? {
            let file = file.first_chunk::<4>().map(|bytes| Time::from_be_bytes(*bytes));
            let record = record.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
            let (Some(file), Some(record)) = (file, record) else { return Err(SpillError::damaged()) };
            // A file comes once for each of its names.
            if self.last.replace(file) != Some(file) {
                return Ok(Some((file, record)));
            }
        }
        Ok(None)
    }
}

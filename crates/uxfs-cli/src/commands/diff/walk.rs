//! Both trees at once, directory by directory: the names of both sides are sorted and merged, and the directories below come when all of
//! one has been seen.
//!
//! Memory is that of one directory of each side (more names lie in a temporary file), and of the names of directories that are still to
//! come (likewise). A directory of an image that is reached a second time ends the way there with a problem: on a damaged image it could
//! hold itself, or be reached in millions of ways.

use std::sync::Arc;

use uxfs_block::spill::{
    records::Records,
    sorter::{Merge, Sorter},
    stack::SpillStack,
};
use uxfs_format::units::InodeNumber;
use uxfs_volume::inode::set::InodeSet;

use super::{
    both::{Both, Side},
    choice::Choice,
    host::spilled,
    links::{LinkUse, Links},
    tree::{Directory, File, Trees},
};
use crate::{failure::Failure, kind::Kind, listing::PATH_BYTES_MAX};

/// Memory for the names of a directory of one side.
const NAMES_BYTES: usize = 16 << 20;
/// Memory for directories that are still to come, and as much for their names.
const PENDING_MEMORY_BYTES: usize = 4 << 20;
/// Entries whose inodes are read together.
const WINDOW_ENTRIES: usize = 256;
/// Pairs that one thread compares, one after the other.
const BATCH_ITEMS: usize = 32;
/// Both inode numbers, length of the path above, and the place of the name.
const PENDING_BYTES: usize = 32;

/// Files of one name.
#[derive(Debug)]
pub(super) struct Pair {
    pub name: Vec<u8>,
    pub files: Both<Option<File>>,
    pub link: LinkUse,
}

/// Something that the walk came to.
#[derive(Debug)]
pub(super) enum Item {
    Pair(Box<Pair>),
    Problem(Failure),
}

/// What is compared together.
#[derive(Debug)]
pub(super) struct Batch {
    /// Path of the directory below the start.
    pub directory: Arc<[u8]>,
    pub items: Vec<Item>,
}

/// Takes batches; `false` ends the walk.
pub(super) type Emit<'e> = &'e mut dyn FnMut(Batch) -> bool;

/// A walk.
pub(super) struct Walk<'t> {
    trees: Trees<'t>,
    choice: &'t Choice,
    pending: SpillStack<PENDING_BYTES>,
    names: Records,
    path: Vec<u8>,
    visited: Both<InodeSet>,
    links: Links,
}

/// A name that one side has, or both.
struct Entry {
    name: Vec<u8>,
    numbers: Both<Option<InodeNumber>>,
}

/// The directory at hand.
struct Level {
    path: Arc<[u8]>,
    directories: Both<Option<Directory>>,
    names: Both<Names>,
    /// Its listing has damage, so that a name that is missing may have been there.
    is_damaged: Both<bool>,
}

/// Sorted names of one side.
#[derive(Default)]
struct Names {
    list: Option<Merge>,
    head: Option<(Vec<u8>, InodeNumber)>,
}

impl<'t> Walk<'t> {
    pub fn new(trees: Trees<'t>, choice: &'t Choice) -> Self {
        Self {
            trees,
            choice,
            pending: SpillStack::new(PENDING_MEMORY_BYTES),
            names: Records::new(PENDING_MEMORY_BYTES),
            path: Vec::new(),
            visited: Both::of(|_| InodeSet::default()),
            links: Links::new(),
        }
    }

    /// Goes through both trees.
    ///
    /// # Errors
    /// A temporary file.
    pub fn run(mut self, starts: Both<File>, name: &[u8], emit: Emit<'_>) -> Result<(), Failure> {
        let Both { first, second } = starts;
        let (mut items, mut below) = (Vec::new(), SpillStack::new(PENDING_MEMORY_BYTES));
        let files = Both { first: Some(first), second: Some(second) };
        self.take(name, files, &mut below, &mut items)?;
        let mut goes_on = emit(Batch { directory: Arc::default(), items });
        // The start has no name below itself.
        if !below.is_empty() {
            let place = self.names.append(b"").map_err(spilled)?;
            let record = below.get(0).map_err(spilled)?;
            self.pending.push(Pending { place, ..Pending::of(record) }.record()).map_err(spilled)?;
        }
        while goes_on && !self.pending.is_empty() {
            goes_on = self.next_directory(emit)?;
        }
        Ok(())
    }

    /// Compares the next directory.
    fn next_directory(&mut self, emit: Emit<'_>) -> Result<bool, Failure> {
        let last = self.pending.len().saturating_sub(1);
        let Pending { numbers, path_bytes, place } = Pending::of(self.pending.get(last).map_err(spilled)?);
        self.pending.truncate(last);
        self.path.truncate(usize::try_from(path_bytes).unwrap_or(usize::MAX));
        let mut scratch = Vec::new();
        let name = self.names.read(place, &mut scratch).map_err(spilled)?;
        join_into(&mut self.path, name);
        let mut items = Vec::new();
        if let Some(mut level) = self.open(numbers, &mut items)? {
            return self.compare(&mut level, items, emit);
        }
        Ok(emit(Batch { directory: self.path.as_slice().into(), items }))
    }

    /// Reads the names of a directory of both sides.
    fn open(
        &mut self,
        numbers: Both<Option<InodeNumber>>,
        items: &mut Vec<Item>,
    ) -> Result<Option<Level>, Failure> {
        let path = self.path.as_slice();
        let mut problem = |side, failure: Failure| {
            items.push(Item::Problem(self.trees.at(side).failure(path, failure)));
        };
        let opened = Both::try_of(|side| {
            let number = numbers.at(side);
            let directory = number.map(|number| self.trees.at(side).directory(number, path)).transpose();
            directory.map_err(|failure| problem(side, failure))
        });
        let Ok(directories) = opened else { return Ok(None) };
        let mut is_damaged = Both::of(|_| false);
        let names = Both::try_of(|side| {
            let Some(directory) = directories.at(side) else { return Ok(Names::default()) };
            let mut sorter = Sorter::new(NAMES_BYTES);
            self.trees.at(side).list(directory, &mut sorter, |failure| {
                *is_damaged.at_mut(side) = true;
                problem(side, failure);
            })?;
            let list = sorter.finish().and_then(|sorted| sorted.read()).map_err(spilled)?;
            let mut names = Names { list: Some(list), head: None };
            names.advance()?;
            Ok::<_, Failure>(names)
        })?;
        Ok(Some(Level { path: path.into(), directories, names, is_damaged }))
    }

    /// Merges the names of a directory, and gives what they lead to.
    fn compare(&mut self, level: &mut Level, mut items: Vec<Item>, emit: Emit<'_>) -> Result<bool, Failure> {
        let mut below = SpillStack::new(PENDING_MEMORY_BYTES / 16);
        let mut window = Vec::new();
        loop {
            window.clear();
            while window.len() < WINDOW_ENTRIES {
                match level.next_entry()? {
                    Some(entry) if self.choice.excludes(&level.path, &entry.name) => {}
                    Some(entry) if level.is_unknown(&entry) => {}
                    Some(entry) => window.push(entry),
                    None => break,
                }
            }
            for side in [Side::First, Side::Second] {
                self.trees.at(side).prefetch(window.iter().filter_map(|entry| *entry.numbers.at(side)));
            }
            let is_over = window.is_empty();
            for entry in window.drain(..) {
                match self.files(level, &entry) {
                    Ok(files) => self.take(&entry.name, files, &mut below, &mut items)?,
                    Err(failure) => items.push(Item::Problem(failure)),
                }
                if items.len() >= BATCH_ITEMS && !emit(level.batch(&mut items)) {
                    return Ok(false);
                }
            }
            if is_over {
                break;
            }
        }
        // The first of them is the next that comes.
        for index in (0..below.len()).rev() {
            let record = below.get(index).map_err(spilled)?;
            self.pending.push(record).map_err(spilled)?;
        }
        Ok(items.is_empty() || emit(level.batch(&mut items)))
    }

    fn files(&self, level: &Level, entry: &Entry) -> Result<Both<Option<File>>, Failure> {
        Both::try_of(|side| {
            let (Some(directory), Some(number)) = (level.directories.at(side), entry.numbers.at(side)) else {
                return Ok(None);
            };
            let tree = self.trees.at(side);
            tree.file(directory, &entry.name, *number)
                .map(Some)
                .map_err(|failure| tree.failure(&path_of(&level.path, &entry.name), failure))
        })
    }

    /// Takes the files of a name: they are compared, and if they are directories, their entries come later.
    fn take(
        &mut self,
        name: &[u8],
        files: Both<Option<File>>,
        below: &mut SpillStack<PENDING_BYTES>,
        items: &mut Vec<Item>,
    ) -> Result<(), Failure> {
        let facts = Both::of(|side| files.at(side).as_ref().map(File::facts));
        let is_directory = |side| facts.at(side).is_some_and(|facts| facts.is_directory());
        let mut link = LinkUse::Single;
        let descends = match (facts.first, facts.second) {
            (Some(first), Some(second)) => {
                let has_links = first.link_count > 1 || second.link_count > 1;
                if !first.is_directory() && has_links && first.file_type == second.file_type {
                    let key = |side| files.at(side).as_ref().map(File::key).unwrap_or_default();
                    link = self.links.meet(Both::of(key)).map_err(spilled)?;
                }
                first.is_directory() && second.is_directory()
            }
            _ => self.choice.goes_into_single && (is_directory(Side::First) || is_directory(Side::Second)),
        };
        if descends {
            match self.descend(name, &files) {
                Ok(pending) => below.push(pending.record()).map_err(spilled)?,
                Err(failure) => items.push(Item::Problem(failure)),
            }
        }
        items.push(Item::Pair(Box::new(Pair { name: name.to_vec(), files, link })));
        Ok(())
    }

    /// Remembers a directory whose entries come later.
    fn descend(&mut self, name: &[u8], files: &Both<Option<File>>) -> Result<Pending, Failure> {
        let path = path_of(&self.path, name);
        if path.len() > PATH_BYTES_MAX {
            let failure =
                Failure::refused(Kind::NameTooLong, "the path is too long: what is below is not compared");
            return Err(self.trees.first.failure(&path, failure));
        }
        for side in [Side::First, Side::Second] {
            let Some(File::Inode(inode)) = files.at(side) else { continue };
            if !self.visited.at_mut(side).insert(inode.number) {
                let message = format!("directory inode {} was reached a second time", inode.number);
                return Err(self.trees.at(side).failure(&path, Failure::corruption(message)));
            }
        }
        let place = self.names.append(name).map_err(spilled)?;
        let numbers = Both::of(|side| files.at(side).as_ref().map(File::number));
        Ok(Pending { numbers, path_bytes: self.path.len() as u64, place })
    }
}

impl Level {
    fn batch(&self, items: &mut Vec<Item>) -> Batch {
        Batch { directory: Arc::clone(&self.path), items: std::mem::take(items) }
    }

    /// Whether nothing tells if the other side has the name, too.
    fn is_unknown(&self, entry: &Entry) -> bool {
        let is_missing = |side| entry.numbers.at(side).is_none() && *self.is_damaged.at(side);
        is_missing(Side::First) || is_missing(Side::Second)
    }

    /// The next name in order.
    fn next_entry(&mut self) -> Result<Option<Entry>, Failure> {
        let Both { first, second } = &mut self.names;
        let (has_first, has_second) = match (&first.head, &second.head) {
            (None, None) => return Ok(None),
            (Some(_), None) => (true, false),
            (None, Some(_)) => (false, true),
            (Some((one, _)), Some((two, _))) => (one <= two, two <= one),
        };
        let first = if has_first { first.take()? } else { None };
        let second = if has_second { second.take()? } else { None };
        let numbers = Both {
            first: first.as_ref().map(|(_, number)| *number),
            second: second.as_ref().map(|(_, number)| *number),
        };
        Ok(first.or(second).map(|(name, _)| Entry { name, numbers }))
    }
}

impl Names {
    fn advance(&mut self) -> Result<(), Failure> {
        let record = match &mut self.list {
            Some(list) => list.next_record().map_err(spilled)?,
            None => None,
        };
        self.head = record.map(|(name, number)| {
            let number = number.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            (name.to_vec(), InodeNumber::new(number))
        });
        Ok(())
    }

    /// The name at hand; the next one takes its place.
    fn take(&mut self) -> Result<Option<(Vec<u8>, InodeNumber)>, Failure> {
        let head = self.head.take();
        self.advance()?;
        Ok(head)
    }
}

/// A directory that is still to come.
struct Pending {
    numbers: Both<Option<InodeNumber>>,
    /// Length of the path above.
    path_bytes: u64,
    /// Where its name is kept.
    place: u64,
}

/// In place of the number of a directory that a side does not have.
const ABSENT: u64 = u64::MAX;

impl Pending {
    fn record(&self) -> [u8; PENDING_BYTES] {
        let number = |number: Option<InodeNumber>| number.map_or(ABSENT, InodeNumber::get);
        let Both { first, second } = self.numbers;
        let words = [number(first), number(second), self.path_bytes, self.place];
        let mut record = [0; PENDING_BYTES];
        for (bytes, word) in record.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        record
    }

    fn of(record: [u8; PENDING_BYTES]) -> Self {
        let mut words = record
            .chunks_exact(8)
            .map(|bytes| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
        let mut word = || words.next().unwrap_or(0);
        let (first, second, path_bytes, place) = (word(), word(), word(), word());
        let number = |number| (number != ABSENT).then(|| InodeNumber::new(number));
        Self { numbers: Both { first: number(first), second: number(second) }, path_bytes, place }
    }
}

fn join_into(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && !name.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// The path of a name in a directory.
pub(super) fn path_of(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    join_into(&mut path, name);
    path
}

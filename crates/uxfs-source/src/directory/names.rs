//! The names of one directory, sorted.
//!
//! 1. Names come in byte order, each once.
//! 2. They are kept in memory up to a bound. Those of a larger directory are sorted through temporary files, and come back a
//!    chunk of [`CHUNK_NAMES`] at a time.

use std::{ffi::CStr, mem::MaybeUninit, ops::Range, os::fd::BorrowedFd};

use rustix::{fs::RawDir, io::Errno};
use uxfs_block::spill::{SpillError, records::Records, sorter::Sorter};

use super::schedule::CHUNK_NAMES;

/// Bytes that the kernel may fill with names in one call.
pub(crate) const BUFFER_BYTES: usize = 128 << 10;
/// Memory that sorting takes for each name beside the name itself.
const SORTING_BYTES: usize = 20;

/// Why names cannot be read.
#[derive(Debug)]
pub(crate) enum NamesError {
    /// The directory.
    Host(Errno),
    /// The temporary file.
    Spill(SpillError),
}

impl From<Errno> for NamesError {
    fn from(error: Errno) -> Self {
        Self::Host(error)
    }
}

impl From<SpillError> for NamesError {
    fn from(error: SpillError) -> Self {
        Self::Spill(error)
    }
}

/// All names of a directory.
#[derive(Debug)]
pub(crate) enum Names {
    /// In memory.
    InMemory(NameList),
    /// In a temporary file.
    Spilled(SpilledNames),
}

/// Names in memory.
#[derive(Debug, Default)]
pub(crate) struct NameList {
    /// Each with its NUL.
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

/// Names in a temporary file.
#[derive(Debug)]
pub(crate) struct SpilledNames {
    chunks: Records,
    places: Vec<u64>,
    count: usize,
}

/// Some of the names of a directory.
pub(crate) enum NamesPart<'a> {
    InMemory(&'a NameList),
    /// The chunk that begins with the name of this number.
    Chunk(NameList, usize),
}

impl Default for Names {
    fn default() -> Self {
        Self::InMemory(NameList::default())
    }
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::InMemory(names) => names.starts.len(),
            Self::Spilled(names) => names.count,
        }
    }

    /// The names in a range, which lies within one chunk.
    pub(crate) fn part(&self, range: &Range<usize>) -> Result<NamesPart<'_>, SpillError> {
        match self {
            Self::InMemory(names) => Ok(NamesPart::InMemory(names)),
            Self::Spilled(names) => {
                let number = range.start / CHUNK_NAMES;
                Ok(NamesPart::Chunk(names.chunk(number)?, number * CHUNK_NAMES))
            }
        }
    }

    /// Reads all names of a directory that has not been read from yet. About `memory_bytes` of them are kept in memory.
    pub(crate) fn read(
        directory: BorrowedFd<'_>,
        buffer: &mut [MaybeUninit<u8>],
        memory_bytes: usize,
    ) -> Result<Self, NamesError> {
        let mut names = NameList::default();
        let mut sorter = None;
        let mut entries = RawDir::new(directory, buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                // The directory was removed.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            match &mut sorter {
                None => names.push(name)?,
                Some(sorter) => Sorter::push(sorter, name.to_bytes(), &[])?,
            }
            if names.sorting_bytes() > memory_bytes {
                sorter = Some(std::mem::take(&mut names).into_sorter(memory_bytes / 2)?);
            }
        }
        match sorter {
            Some(sorter) => Ok(Self::Spilled(SpilledNames::of(sorter)?)),
            None => {
                names.sort();
                Ok(Self::InMemory(names))
            }
        }
    }
}

impl NamesPart<'_> {
    /// A name by its number among all names of the directory.
    pub(crate) fn get(&self, index: usize) -> &CStr {
        match self {
            Self::InMemory(names) => names.get(index),
            Self::Chunk(names, first) => index.checked_sub(*first).map_or(c"", |index| names.get(index)),
        }
    }
}

impl SpilledNames {
    fn of(sorter: Sorter) -> Result<Self, SpillError> {
        let mut names = Self { chunks: Records::new(0), places: Vec::new(), count: 0 };
        let (mut chunk, mut in_chunk, mut last) = (Vec::new(), 0, Vec::new());
        let sorted = sorter.finish()?;
        let mut merge = sorted.read()?;
        while let Some((name, _)) = merge.next_record()? {
            // A directory that changes while it is read may tell a name twice.
            if names.count > 0 && name == last.as_slice() {
                continue;
            }
            last.clear();
            last.extend_from_slice(name);
            chunk.extend_from_slice(name);
            chunk.push(0);
            names.count += 1;
            in_chunk += 1;
            if in_chunk == CHUNK_NAMES {
                names.places.push(names.chunks.append(&chunk)?);
                chunk.clear();
                in_chunk = 0;
            }
        }
        if in_chunk > 0 {
            names.places.push(names.chunks.append(&chunk)?);
        }
        names.chunks.seal()?;
        Ok(names)
    }

    fn chunk(&self, number: usize) -> Result<NameList, SpillError> {
        let mut scratch = Vec::new();
        let place = self.places.get(number).ok_or_else(SpillError::damaged)?;
        let bytes = self.chunks.read(*place, &mut scratch)?.to_vec();
        let ends = (1_u32..).zip(&bytes).filter(|(_, byte)| **byte == 0).map(|(end, _)| end);
        let mut starts = vec![0];
        starts.extend(ends);
        // Behind the last name.
        starts.pop();
        Ok(NameList { bytes, starts })
    }
}

/// A name with eight of its bytes, so that most comparisons look at nothing else.
struct Key {
    /// Behind what all names of the directory begin with; zeros behind the end, which is right since no name has any.
    bytes: u64,
    start: u32,
}

impl NameList {
    fn push(&mut self, name: &CStr) -> Result<(), Errno> {
        let start = u32::try_from(self.bytes.len()).map_err(|_| Errno::OVERFLOW)?;
        self.starts.push(start);
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
        Ok(())
    }

    fn sorting_bytes(&self) -> usize {
        self.bytes.len() + self.starts.len() * SORTING_BYTES
    }

    fn into_sorter(self, memory_bytes: usize) -> Result<Sorter, SpillError> {
        let mut sorter = Sorter::new(memory_bytes);
        for start in &self.starts {
            sorter.push(self.at(*start).to_bytes(), &[])?;
        }
        Ok(sorter)
    }

    /// The name at `index`.
    fn get(&self, index: usize) -> &CStr {
        self.starts.get(index).map_or(c"", |start| self.at(*start))
    }

    fn at(&self, start: u32) -> &CStr {
        let bytes = self.bytes.get(start as usize..).unwrap_or_default();
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }

    fn sort(&mut self) {
        let common = self.common_bytes();
        let key = |start: &u32| {
            let name = self.at(*start).to_bytes();
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(name.iter().skip(common)).for_each(|(to, from)| *to = *from);
            Key { bytes: u64::from_be_bytes(bytes), start: *start }
        };
        let mut keys: Vec<Key> = self.starts.iter().map(key).collect();
        let name = |key: &Key| self.at(key.start);
        keys.sort_unstable_by(|a, b| a.bytes.cmp(&b.bytes).then_with(|| name(a).cmp(name(b))));
        // A directory that changes while it is read may tell a name twice.
        keys.dedup_by(|a, b| a.bytes == b.bytes && name(a) == name(b));
        self.starts.clear();
        self.starts.extend(keys.iter().map(|key| key.start));
        self.starts.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }

    /// With how many bytes all names begin alike.
    fn common_bytes(&self) -> usize {
        let Some((first, rest)) = self.starts.split_first() else { return 0 };
        let first = self.at(*first).to_bytes();
        let mut common = first.len();
        for start in rest {
            let name = self.at(*start).to_bytes();
            let alike = first.iter().zip(name).take(common).take_while(|(a, b)| a == b).count();
            common = alike;
            if common == 0 {
                break;
            }
        }
        common
    }

    #[cfg(test)]
    fn from_names(list: &[&[u8]]) -> Self {
        let mut names = Self::default();
        for name in list {
            names.push(&std::ffi::CString::new(*name).unwrap()).unwrap();
        }
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_come_in_byte_order_each_once(
            prefix in prop::collection::vec(1_u8..=255, 0..4),
            tails in prop::collection::vec(prop::collection::vec(1_u8..4, 1..12), 0..50),
        ) {
            let all: Vec<Vec<u8>> = tails.iter().map(|tail| [prefix.as_slice(), tail].concat()).collect();
            let slices: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
            let names = NameList::from_names(&slices);
            let mut expected = all.clone();
            expected.sort();
            expected.dedup();
            let found: Vec<Vec<u8>> = (0..names.starts.len()).map(|i| names.get(i).to_bytes().to_vec()).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn names_of_a_large_directory_come_in_order_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut expected = Vec::new();
        for number in 0..3000_u32 {
            let name = format!("{:08x}-{number}", number.wrapping_mul(2_654_435_761));
            std::fs::write(folder.path().join(&name), "").unwrap();
            expected.push(name.into_bytes());
        }
        expected.sort();
        for memory_bytes in [0, 30_000, 1 << 20] {
            let directory = std::fs::File::open(folder.path()).unwrap();
            let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
            let names = Names::read(directory.as_fd(), &mut buffer, memory_bytes).unwrap();
            assert_eq!(matches!(names, Names::Spilled(_)), memory_bytes < 1 << 20);
            assert_eq!(names.len(), expected.len());
            let mut found = Vec::new();
            for start in (0..names.len()).step_by(CHUNK_NAMES) {
                let range = start..names.len().min(start + CHUNK_NAMES);
                // Also from the middle of a chunk on.
                let middle = range.start + range.len() / 2;
                for range in [range.start..middle, middle..range.end] {
                    let part = names.part(&range).unwrap();
                    found.extend(range.map(|index| part.get(index).to_bytes().to_vec()));
                }
            }
            assert_eq!(found, expected, "{memory_bytes}");
        }
    }
}

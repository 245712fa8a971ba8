//! The names of one directory, sorted.

use std::{ffi::CStr, mem::MaybeUninit, os::fd::BorrowedFd};

use rustix::{fs::RawDir, io::Errno};

/// Bytes that the kernel may fill with names in one call.
pub(crate) const BUFFER_BYTES: usize = 128 << 10;

/// Names in byte order, each once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Each with its NUL.
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

/// A name with eight of its bytes, so that most comparisons look at nothing else.
struct Key {
    /// Behind what all names of the directory begin with; zeros behind the end, which is right since no name has any.
    bytes: u64,
    start: u32,
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The name at `index`, which is below [`Names::len`].
    pub(crate) fn get(&self, index: usize) -> &CStr {
        self.starts.get(index).map_or(c"", |start| self.at(*start))
    }

    fn at(&self, start: u32) -> &CStr {
        let bytes = self.bytes.get(start as usize..).unwrap_or_default();
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }

    /// Reads all names of a directory that has not been read from yet.
    pub(crate) fn read(directory: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>]) -> Result<Self, Errno> {
        let mut names = Self::default();
        let mut entries = RawDir::new(directory, buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                // The directory was removed.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            let name = entry.file_name();
            if name != c"." && name != c".." {
                let start = u32::try_from(names.bytes.len()).map_err(|_| Errno::OVERFLOW)?;
                names.starts.push(start);
                names.bytes.extend_from_slice(name.to_bytes_with_nul());
            }
        }
        names.sort();
        Ok(names)
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
            names.starts.push(names.bytes.len() as u32);
            names.bytes.extend_from_slice(name);
            names.bytes.push(0);
        }
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
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
            let names = Names::from_names(&slices);
            let mut expected = all.clone();
            expected.sort();
            expected.dedup();
            let found: Vec<Vec<u8>> = (0..names.len()).map(|i| names.get(i).to_bytes().to_vec()).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

//! Descriptions by path: in memory up to a bound, behind it in temporary files.
//!
//! 1. Each line that describes a path is a record of its own, which names the record of the line before of the same path.
//!    Adding a line costs the same however many lines the path has.
//! 2. A path is found by two keyed hashes, and compared: the author of a manifest cannot choose paths that collide, and a
//!    collision by chance takes the next key.

use std::hash::{BuildHasher, RandomState};

use uxfs_block::spill::{
    SpillError,
    map::{Key, SpillMap, Value},
    records::Records,
};

use super::{DescribedKind, Description};
use crate::{
    encoding::{Reader, Writer},
    entry::Attribute,
};

/// A file of this path was met.
pub(super) const USED: u64 = 1;
/// The path may be missing.
pub(super) const OPTIONAL: u64 = 2;
/// The line names all attributes of the file.
pub(super) const ALL_ATTRIBUTES: u64 = 4;
/// The kind of file, where it is known, lies behind the flags.
const KIND_SHIFT: u32 = 8;

const KINDS: [DescribedKind; 8] = [
    DescribedKind::Directory,
    DescribedKind::Regular,
    DescribedKind::Symlink,
    DescribedKind::CharacterDevice,
    DescribedKind::BlockDevice,
    DescribedKind::Fifo,
    DescribedKind::Socket,
    DescribedKind::HardLink,
];

/// A path that is described.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    key: Key,
    /// The record of the last line.
    place: u64,
    flags: u64,
}

impl Found {
    pub(super) fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn kind(&self) -> Option<DescribedKind> {
        kind_of((self.flags >> KIND_SHIFT) as u8)
    }
}

fn kind_of(number: u8) -> Option<DescribedKind> {
    KINDS.get(usize::from(number).checked_sub(1)?).copied()
}

fn number_of(kind: Option<DescribedKind>) -> u8 {
    let place = kind.and_then(|kind| KINDS.iter().position(|known| *known == kind));
    place.map_or(0, |place| place as u8 + 1)
}

/// The descriptions of a manifest.
#[derive(Debug)]
pub(super) struct Described {
    hashers: [RandomState; 2],
    paths: SpillMap,
    lines: Records,
    record: Vec<u8>,
    scratch: Vec<u8>,
}

impl Described {
    /// No descriptions, of which about `memory_bytes` will be kept in memory.
    pub(super) fn new(memory_bytes: usize) -> Self {
        let half = memory_bytes / 2;
        Self {
            hashers: [RandomState::new(), RandomState::new()],
            paths: SpillMap::new(half),
            lines: Records::new(half),
            record: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The path as it is described, or the key that it would get.
    pub(super) fn find(&mut self, path: &[u8]) -> Result<Result<Found, Key>, SpillError> {
        let [first, second] = self.hashers.each_ref().map(|hasher| hasher.hash_one(path));
        let mut key = (first, second);
        while let Some((place, flags)) = self.paths.get(key)? {
            let line = Line::read(self.lines.read(place, &mut self.scratch)?)?;
            if line.path == path {
                return Ok(Ok(Found { key, place, flags }));
            }
            key.1 = key.1.wrapping_add(1);
        }
        Ok(Err(key))
    }

    /// Adds a line; `known` is the outcome of [`find`](Self::find) for its path.
    pub(super) fn add(
        &mut self,
        known: Result<Found, Key>,
        description: &Description,
    ) -> Result<(), SpillError> {
        let (key, before, known_flags, known_kind) = match known {
            Ok(found) => (found.key, Some(found.place), found.flags & OPTIONAL, found.kind()),
            Err(key) => (key, None, 0, None),
        };
        encode(description, before, &mut self.record);
        let place = self.lines.append(&self.record)?;
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        let kind = number_of(description.kind.or(known_kind));
        let flags = known_flags
            | flag(description.is_optional, OPTIONAL)
            | flag(description.has_all_attributes, ALL_ATTRIBUTES)
            | u64::from(kind) << KIND_SHIFT;
        self.paths.insert(key, (place, flags))
    }

    /// All that lines say of a path; where several say something, the last one holds.
    pub(super) fn description(&mut self, found: Found) -> Result<Description, SpillError> {
        let mut whole = Description::default();
        let mut next = Some(found.place);
        while let Some(place) = next {
            let line = Line::read(self.lines.read(place, &mut self.scratch)?)?;
            next = line.before;
            line.put_under(&mut whole).ok_or_else(SpillError::damaged)?;
        }
        // Equal names keep the order in which they came: later lines first.
        whole.attributes.sort_by(|a, b| a.name.cmp(&b.name));
        whole.attributes.dedup_by(|later, first| later.name == first.name);
        whole.has_all_attributes = found.has(ALL_ATTRIBUTES);
        whole.is_optional = found.has(OPTIONAL);
        Ok(whole)
    }

    /// A file of this path was met.
    pub(super) fn mark_used(&mut self, found: Found) -> Result<(), SpillError> {
        if found.has(USED) {
            return Ok(());
        }
        let value: Value = (found.place, found.flags | USED);
        self.paths.insert(found.key, value)
    }

    /// Calls `visit` with each path and its flags, in the order of their last lines.
    pub(super) fn visit(&mut self, mut visit: impl FnMut(&[u8], &Found)) -> Result<(), SpillError> {
        let mut next = self.lines.first_place();
        let (mut path, mut scratch) = (Vec::new(), Vec::new());
        while let Some(place) = next {
            let record = self.lines.read(place, &mut scratch)?;
            next = self.lines.place_after(place, record);
            path.clear();
            path.extend_from_slice(Line::read(record)?.path);
            if let Ok(found) = self.find(&path)?
                && found.place == place
            {
                visit(&path, &found);
            }
        }
        Ok(())
    }
}

const MODE: u8 = 1;
const USER: u8 = 2;
const GROUP: u8 = 4;
const MODIFICATION: u8 = 8;

fn encode(description: &Description, before: Option<u64>, record: &mut Vec<u8>) {
    let Description { path, mode, user, group, modification, attributes, .. } = description;
    record.clear();
    let mut writer = Writer(record);
    // 0 stands for none.
    writer.number(before.map_or(0, |before| before + 1));
    writer.bytes(path);
    writer.byte(number_of(description.kind));
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    writer.byte(
        flag(mode.is_some(), MODE)
            | flag(user.is_some(), USER)
            | flag(group.is_some(), GROUP)
            | flag(modification.is_some(), MODIFICATION),
    );
    let numbers = [mode.map(u32::from), *user, *group];
    numbers.into_iter().flatten().for_each(|number| writer.number(number.into()));
    modification.iter().for_each(|time| writer.time(*time));
    writer.attributes(attributes);
}

/// The beginning of a record, and what follows.
struct Line<'a> {
    before: Option<u64>,
    path: &'a [u8],
    rest: Reader<'a>,
}

impl<'a> Line<'a> {
    fn read(record: &'a [u8]) -> Result<Self, SpillError> {
        let mut rest = Reader(record);
        let begin = rest.number().zip(rest.bytes());
        let (before, path) = begin.ok_or_else(SpillError::damaged)?;
        Ok(Self { before: before.checked_sub(1), path, rest })
    }

    /// Adds what the line says where later lines say nothing; `None` where it is no record.
    fn put_under(mut self, later: &mut Description) -> Option<()> {
        let kind = kind_of(self.rest.byte()?);
        let flags = self.rest.byte()?;
        let mut number = |flag| match flags & flag {
            0 => Some(None),
            _ => self.rest.short().map(Some),
        };
        let (mode, user, group) = (number(MODE)?, number(USER)?, number(GROUP)?);
        let modification = if flags & MODIFICATION == 0 { None } else { Some(self.rest.time()?) };
        let attributes: Vec<Attribute> = self.rest.attributes()?;
        later.kind = later.kind.or(kind);
        later.mode = later.mode.or(mode.and_then(|mode| u16::try_from(mode).ok()));
        later.user = later.user.or(user);
        later.group = later.group.or(group);
        later.modification = later.modification.or(modification);
        later.attributes.extend(attributes);
        self.rest.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Timestamp;

    fn attribute(name: &str, value: &str) -> Attribute {
        Attribute { name: name.as_bytes().into(), value: value.as_bytes().into() }
    }

    #[test]
    fn lines_of_a_path_are_joined_in_memory_and_in_files() {
        for memory_bytes in [1 << 20, 0] {
            let mut described = Described::new(memory_bytes);
            let mut add = |description: &Description| {
                let known = described.find(&description.path).unwrap();
                described.add(known, description).unwrap();
            };
            for number in 0..500_u32 {
                let path: Box<[u8]> = format!("directory/{number}").into_bytes().into();
                add(&Description {
                    path: path.clone(),
                    kind: Some(DescribedKind::Regular),
                    user: Some(number),
                    modification: Some(Timestamp { seconds: -5, nanoseconds: number }),
                    attributes: vec![attribute("user.a", "1"), attribute("user.b", "1")],
                    ..Description::default()
                });
                let attributes = vec![attribute("user.b", "2"), attribute("user.0", "2")];
                add(&Description {
                    path,
                    mode: Some(0o640),
                    user: Some(7),
                    attributes,
                    is_optional: number % 2 == 0,
                    ..Description::default()
                });
            }
            let found = described.find(b"directory/77").unwrap().unwrap();
            let description = described.description(found).unwrap();
            let expected = Description {
                kind: Some(DescribedKind::Regular),
                mode: Some(0o640),
                user: Some(7),
                modification: Some(Timestamp { seconds: -5, nanoseconds: 77 }),
                attributes: vec![
                    attribute("user.0", "2"),
                    attribute("user.a", "1"),
                    attribute("user.b", "2"),
                ],
                ..Description::default()
            };
            assert_eq!(description, expected);
            described.mark_used(found).unwrap();
            assert!(described.find(b"directory/500").unwrap().is_err());
            let (mut paths, mut optional, mut used) = (0, 0, Vec::new());
            let visited = described.visit(|path, found| {
                paths += 1;
                optional += u32::from(found.has(OPTIONAL));
                used.extend(found.has(USED).then(|| path.to_vec()));
            });
            visited.unwrap();
            assert_eq!((paths, optional, used), (500, 250, vec![b"directory/77".to_vec()]));
        }
    }
}

//! Events of paths, sorted by path and time.

use uxfs_block::spill::{SpillError, sorter::Sorter};

use super::{
    super::{
        effect::Effect,
        paths::{ROOT, components},
        plan::{Known, Plan, Time},
    },
    remains::Remains,
    sweep::Sweep,
};
use crate::{error::SourceError, stream::StreamItem};

/// One thing that an item does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// The state of the path in the table in memory when the table was given up.
    Known(Known),
    /// The hard link of this path names it as its target.
    IsTarget(&'a [u8]),
    /// A whiteout: what was here and below before this time is gone.
    Cut(Time),
    /// Everything below from before this time is gone.
    CutBelow(Time),
    /// An item of its own, which is kept at this place, with flags.
    Named(u64),
    /// It becomes another name of a file.
    Linked,
}

const KNOWN: u8 = 0;
/// A link to itself meets what was there before: its question comes before its name.
const IS_TARGET: u8 = 1;
const CUT: u8 = 2;
const CUT_BELOW: u8 = 3;
const NAMED: u8 = 4;
const LINKED: u8 = 5;

/// Behind the path in a key: the end of the path, the time, and the kind of event.
const TAIL_BYTES: usize = 2 + 4 + 1;

/// Puts a path into a key. Slashes become zeros, which no name has: all below a path follows it at once, before its
/// siblings. Two zeros end it.
pub(super) fn put_path(path: &[u8], key: &mut Vec<u8>) {
    key.clear();
    for (index, name) in components(path).enumerate() {
        if index > 0 {
            key.push(0);
        }
        key.extend_from_slice(name);
    }
    key.extend_from_slice(&[0, 0]);
}

impl<'a> Event<'a> {
    fn write(&self, payload: &mut Vec<u8>) -> u8 {
        payload.clear();
        match self {
            Self::Known(known) => {
                for time in [known.cut, known.cut_below, known.named, known.file] {
                    payload.extend_from_slice(&time.to_le_bytes());
                }
                payload.extend_from_slice(&known.record.to_le_bytes());
                KNOWN
            }
            Self::IsTarget(link) => {
                payload.extend_from_slice(link);
                IS_TARGET
            }
            Self::Cut(time) | Self::CutBelow(time) => {
                payload.extend_from_slice(&time.to_le_bytes());
                if matches!(self, Self::Cut(_)) { CUT } else { CUT_BELOW }
            }
            Self::Named(record) => {
                payload.extend_from_slice(&record.to_le_bytes());
                NAMED
            }
            Self::Linked => LINKED,
        }
    }

    /// The path with zeros for slashes, the time, and the event.
    pub(super) fn read(key: &'a [u8], payload: &'a [u8]) -> Option<(&'a [u8], Time, Self)> {
        let (path, tail) = key.split_at_checked(key.len().checked_sub(TAIL_BYTES)?)?;
        let [_, _, a, b, c, d, kind] = *tail.first_chunk::<TAIL_BYTES>()?;
        let mut rest = payload;
        let mut time = || {
            let (bytes, after) = rest.split_first_chunk::<4>()?;
            rest = after;
            Some(Time::from_le_bytes(*bytes))
        };
        let event = match kind {
            KNOWN => {
                let (cut, cut_below, named, file) = (time()?, time()?, time()?, time()?);
                let record = u64::from_le_bytes(*rest.first_chunk()?);
                Self::Known(Known { cut, cut_below, named, file, record })
            }
            IS_TARGET => Self::IsTarget(payload),
            CUT => Self::Cut(time()?),
            CUT_BELOW => Self::CutBelow(time()?),
            NAMED => Self::Named(u64::from_le_bytes(*payload.first_chunk()?)),
            LINKED => Self::Linked,
            _ => return None,
        };
        Some((path, Time::from_be_bytes([a, b, c, d]), event))
    }
}

/// Gathers events.
pub(in crate::layers) struct Events {
    sorter: Sorter,
    memory_bytes: usize,
    has_links: bool,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl Events {
    /// Begins with what a plan has learned so far. Together with it at most half of `memory_bytes` is taken beside the
    /// plan.
    pub(in crate::layers) fn of_plan(plan: &Plan, memory_bytes: usize) -> Result<Self, SpillError> {
        let mut events = Self {
            sorter: Sorter::new(memory_bytes / 4),
            memory_bytes,
            has_links: plan.has_links(),
            key: Vec::new(),
            payload: Vec::new(),
        };
        let mut path = Vec::new();
        for id in ROOT..plan.paths.len() as u32 {
            let known = plan.get(id);
            if (known.named, known.cut, known.cut_below) != (0, 0, 0) {
                plan.paths.path(id, &mut path);
                events.push(&path, 0, Event::Known(known))?;
            }
        }
        Ok(events)
    }

    fn push(&mut self, path: &[u8], time: Time, event: Event<'_>) -> Result<(), SpillError> {
        put_path(path, &mut self.key);
        let kind = event.write(&mut self.payload);
        // Those of one path come by time.
        self.key.extend_from_slice(&time.to_be_bytes());
        self.key.push(kind);
        self.sorter.push(&self.key, &self.payload)
    }

    /// As [`Plan::learn`]. The sweep finds the faults, but for those that an item has by itself.
    pub(in crate::layers) fn learn(
        &mut self,
        item: &StreamItem,
        time: Time,
        began: Time,
        record: u64,
    ) -> Result<(), SourceError> {
        match Effect::of(item)? {
            Effect::Cut(path) => self.push(path, time, Event::Cut(began))?,
            Effect::CutBelow(path) => self.push(path, time, Event::CutBelow(began))?,
            Effect::Named(path, flags) => self.push(path, time, Event::Named(record | flags))?,
            Effect::Linked { path, target } => {
                self.has_links = true;
                self.push(target, time, Event::IsTarget(path))?;
                self.push(path, time, Event::Linked)?;
            }
        }
        Ok(())
    }

    /// The remaining paths at the end.
    ///
    /// # Errors
    /// The first item that cannot be; temporary files.
    pub(in crate::layers) fn resolve(self) -> Result<Remains, SourceError> {
        let events = self.sorter.finish()?;
        let mut merge = events.read()?;
        let mut sweep = Sweep::new(self.memory_bytes, self.has_links);
        while let Some((key, payload)) = merge.next_record()? {
            let (path, time, event) = Event::read(key, payload).ok_or_else(SpillError::damaged)?;
            sweep.event(path, time, event)?;
        }
        drop((merge, events));
        sweep.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::plan::DIRECTORY, *};

    #[test]
    fn keys_are_in_order_of_the_tree() {
        let key = |path: &str| {
            let mut key = Vec::new();
            put_path(path.as_bytes(), &mut key);
            key.extend_from_slice(&[0xff; 5]);
            key
        };
        let mut paths = ["b", "a.b", "", "a/c", "a", "a/b/c", "a\u{1}", "a/b"];
        paths.sort_by_key(|path| key(path));
        assert_eq!(paths, ["", "a", "a/b", "a/b/c", "a/c", "a\u{1}", "a.b", "b"]);
        assert_eq!(key("/a//b/"), key("a/b"));
    }

    #[test]
    fn events_come_back() {
        let known = Known { cut: 1, cut_below: 2, named: 3, file: 4, record: u64::MAX - 5 };
        for event in [
            Event::Known(known),
            Event::IsTarget(b"a/link"),
            Event::Cut(7),
            Event::CutBelow(8),
            Event::Named(DIRECTORY | 9),
            Event::Linked,
        ] {
            let (mut key, mut payload) = (Vec::new(), Vec::new());
            put_path(b"a/b", &mut key);
            let kind = event.write(&mut payload);
            key.extend_from_slice(&77_u32.to_be_bytes());
            key.push(kind);
            assert_eq!(Event::read(&key, &payload), Some((b"a\0b".as_slice(), 77, event)));
        }
    }
}

//! One pass over all events in order of path and time.
//!
//! The rules are those of [`plan`](super::super::plan). Before an event of time `t`, a path is what its events before `t`
//! have made of it, unless the path or a directory above was cut since.

use std::ops::Range;

use uxfs_block::spill::{SpillError, stack::SpillStack};

use super::{
    super::plan::{DIRECTORY, Known, Time},
    events::Event,
    remains::{Remains, RemainsBuilder},
};
use crate::error::{LayerFault, Shown, SourceError};

/// Where what a path is comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// An item.
    Item(FileRecord),
    /// The target of the hard link of this time.
    Link(Time),
}

/// A file: the time of its item, and where that is kept, with flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileRecord {
    pub(super) file: Time,
    pub(super) record: u64,
}

/// State of a path between two events.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// The item that last named it; 0 for none.
    named: Time,
    is_directory: bool,
    cut: Time,
    cut_below: Time,
    origin: Option<Origin>,
}

/// The state of a path for the paths below: from the event of this time on.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    time: Time,
    named: Time,
    is_directory: bool,
    cut: Time,
    cut_below: Time,
}

const CHANGE_BYTES: usize = 17;
/// Memory for histories: some 60,000 changes.
const MOST_HISTORY_BYTES: usize = 1 << 20;

/// A path on the way to the one whose events come.
#[derive(Debug, Default)]
struct Level {
    /// Length of its path.
    path_bytes: usize,
    state: State,
    /// Its changes, in order of time, among those of the sweep. Empty as long as it never is a file and never is cut: then
    /// paths below need not ask.
    history: Range<u64>,
    /// Nothing that is named before remains here or below; set when all its events have come.
    cut: Time,
    /// The same, below.
    cut_below: Time,
    /// It has no more events.
    is_settled: bool,
    remains: bool,
    is_implied: bool,
    /// Its origin; for a directory that no item names, that of the first path below.
    origin: Option<Origin>,
}

/// The pass.
pub(super) struct Sweep {
    /// From the root on; those behind `depth` are kept for their memory.
    levels: Vec<Level>,
    depth: usize,
    /// Places in `levels` of those with a history.
    with_history: Vec<usize>,
    /// The histories of all levels, from the root's on: all events of a path come before those of the paths below.
    changes: SpillStack<CHANGE_BYTES>,
    /// Of the innermost level, with zeros for slashes.
    path: Vec<u8>,
    /// The first item that cannot be, by time, and of one item the target before the path.
    fault: Option<((Time, u8), SourceError)>,
    builder: RemainsBuilder,
}

fn shown(path: &[u8]) -> Shown {
    Shown(path.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect())
}

impl Sweep {
    pub(super) fn new(memory_bytes: usize, has_links: bool) -> Self {
        Self {
            levels: vec![Level::default()],
            depth: 1,
            with_history: Vec::new(),
            changes: SpillStack::new((memory_bytes / 10).min(MOST_HISTORY_BYTES)),
            path: Vec::new(),
            fault: None,
            builder: RemainsBuilder::new(memory_bytes, has_links),
        }
    }

    /// The next event.
    pub(super) fn event(&mut self, path: &[u8], time: Time, event: Event<'_>) -> Result<(), SpillError> {
        if path != self.path.as_slice() {
            self.go_to(path)?;
        }
        match event {
            Event::Known(known) => self.change(time, State::of(known))?,
            Event::Cut(began) => {
                let state = self.state();
                self.change(time, State { cut: state.cut.max(began), ..state })?;
            }
            Event::CutBelow(began) => {
                let state = self.state();
                self.change(time, State { cut_below: state.cut_below.max(began), ..state })?;
            }
            Event::IsTarget(link) => self.answer(link, time)?,
            Event::Named(record) => {
                let origin = Origin::Item(FileRecord { file: time, record });
                self.name(time, record & DIRECTORY != 0, origin)?;
            }
            Event::Linked => self.name(time, false, Origin::Link(time))?,
        }
        Ok(())
    }

    fn state(&self) -> State {
        self.levels.get(self.depth - 1).map(|level| level.state).unwrap_or_default()
    }

    fn change(&mut self, time: Time, state: State) -> Result<(), SpillError> {
        let place = self.depth - 1;
        let Some(level) = self.levels.get_mut(place) else { return Ok(()) };
        let before = std::mem::replace(&mut level.state, state);
        let matters = |state: &State| state.cut != 0 || state.cut_below != 0 || state.is_file();
        if level.history.is_empty() {
            if !matters(&state) {
                return Ok(());
            }
            level.history = self.changes.len()..self.changes.len();
            self.with_history.push(place);
        } else if !state.is_file() && !before.is_file() && state.cuts() == before.cuts() {
            // Directories that are named again cut nothing.
            return Ok(());
        }
        level.history.end += 1;
        self.changes.push(Change::new(time, &state).write())
    }

    /// The state of the level at a place before an event of this time.
    fn before(&self, place: usize, time: Time) -> Result<Change, SpillError> {
        let Some(Range { start, end }) = self.levels.get(place).map(|level| level.history.clone()) else {
            return Ok(Change::default());
        };
        // The first change of that time or later.
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if Change::read(self.changes.get(middle)?).time < time { low = middle + 1 } else { high = middle }
        }
        match low.checked_sub(1).filter(|last| *last >= start) {
            Some(last) => Ok(Change::read(self.changes.get(last)?)),
            None => Ok(Change::default()),
        }
    }

    /// The latest cut, before `time`, of what lies below the first `depth` levels.
    fn cut_above(&self, depth: usize, time: Time) -> Result<Time, SpillError> {
        let mut latest = 0;
        for place in self.with_history.iter().take_while(|place| **place < depth) {
            let change = self.before(*place, time)?;
            latest = latest.max(change.cut).max(change.cut_below);
        }
        Ok(latest)
    }

    /// Whether what the last event before `time` left at this depth is still there.
    fn is_present(&self, change: &Change, depth: usize, time: Time) -> Result<bool, SpillError> {
        Ok(change.named != 0 && change.named >= change.cut && change.named >= self.cut_above(depth, time)?)
    }

    /// Answers a hard link's question.
    fn answer(&mut self, link: &[u8], time: Time) -> Result<(), SpillError> {
        let state = self.state();
        let is_present = self.is_present(&Change::new(time, &state), self.depth - 1, time)?;
        let fault = match state.origin.filter(|_| is_present) {
            None => LayerFault::NoTarget(shown(&self.path)),
            Some(_) if state.is_directory => LayerFault::LinkToDirectory,
            Some(origin) => return self.builder.answer(time, origin),
        };
        self.report((time, 0), || SourceError::Layer { path: Shown::from(link), fault });
        Ok(())
    }

    fn name(&mut self, time: Time, is_directory: bool, origin: Origin) -> Result<(), SpillError> {
        let state = self.state();
        if self.is_below_file(time)? {
            let path = shown(&self.path);
            self.report((time, 1), || SourceError::Layer { path, fault: LayerFault::NoDirectoryAbove });
        }
        let replaces =
            state.is_file() && self.is_present(&Change::new(time, &state), self.depth - 1, time)?;
        let cut = if !is_directory || replaces { time } else { state.cut };
        self.change(time, State { named: time, is_directory, cut, origin: Some(origin), ..state })
    }

    /// Whether one of the directories above is a file at this time.
    fn is_below_file(&self, time: Time) -> Result<bool, SpillError> {
        let above = self.with_history.iter().filter(|place| **place > 0 && **place < self.depth - 1);
        for place in above {
            let change = self.before(*place, time)?;
            if change.is_file() && self.is_present(&change, *place, time)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn report(&mut self, when: (Time, u8), fault: impl FnOnce() -> SourceError) {
        if self.fault.as_ref().is_none_or(|(first, _)| when < *first) {
            self.fault = Some((when, fault()));
        }
    }

    /// Leaves the paths that are not on the way to this one, and enters those that are.
    fn go_to(&mut self, path: &[u8]) -> Result<(), SpillError> {
        self.settle()?;
        while self.depth > 1 && !self.is_above(path) {
            self.leave()?;
        }
        while self.path.len() < path.len() {
            self.settle()?;
            let above_bytes = self.path.len();
            let start = if above_bytes == 0 { 0 } else { above_bytes + 1 };
            let rest = path.get(start..).unwrap_or_default();
            let name_bytes = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
            self.path.clear();
            self.path.extend_from_slice(path.get(..start + name_bytes).unwrap_or(path));
            if self.levels.len() == self.depth {
                self.levels.push(Level::default());
            }
            if let Some(level) = self.levels.get_mut(self.depth) {
                level.begin(self.path.len());
            }
            self.depth += 1;
        }
        Ok(())
    }

    /// Whether the innermost level lies on the way to a path, or is it.
    fn is_above(&self, path: &[u8]) -> bool {
        let rest = path.strip_prefix(self.path.as_slice());
        rest.is_some_and(|rest| self.path.is_empty() || matches!(rest, [] | [0, ..]))
    }

    /// All events of the innermost level have come.
    fn settle(&mut self) -> Result<(), SpillError> {
        let above = self.depth.checked_sub(2).and_then(|above| self.levels.get(above));
        let cut_above = above.map_or(0, |above| above.cut.max(above.cut_below));
        let Some(level) = self.levels.get_mut(self.depth - 1).filter(|level| !level.is_settled) else {
            return Ok(());
        };
        let state = level.state;
        level.is_settled = true;
        level.cut = state.cut.max(cut_above);
        level.cut_below = state.cut_below;
        if self.depth == 1 {
            return self.builder.root(state.origin);
        }
        if state.named == 0 || state.named < level.cut {
            level.is_implied = true;
            return Ok(());
        }
        level.origin = state.origin;
        level.remains = true;
        self.remember_above(state.origin);
        match state.origin {
            Some(origin) => self.builder.add(&self.path, origin, state.is_directory, false),
            None => Ok(()),
        }
    }

    /// The level above remains, and may take what it is from the innermost level.
    fn remember_above(&mut self, origin: Option<Origin>) {
        let above = self.depth.checked_sub(2).and_then(|above| self.levels.get_mut(above));
        if let Some(above) = above.filter(|above| above.is_implied && !above.remains) {
            above.remains = true;
            above.origin = origin;
        }
    }

    /// Everything below the innermost level has come.
    fn leave(&mut self) -> Result<(), SpillError> {
        let Some(level) = self.levels.get(self.depth - 1) else { return Ok(()) };
        let (origin, is_implied) = (level.origin.filter(|_| level.remains), level.is_implied);
        if let Some(origin) = origin.filter(|_| is_implied) {
            self.builder.add(&self.path, origin, true, true)?;
            self.remember_above(Some(origin));
        }
        self.depth -= 1;
        if self.with_history.last() == Some(&self.depth) {
            self.with_history.pop();
            let begin = self.levels.get(self.depth).map_or(0, |level| level.history.start);
            self.changes.truncate(begin);
        }
        let path_bytes = self.levels.get(self.depth - 1).map_or(0, |level| level.path_bytes);
        self.path.truncate(path_bytes);
        Ok(())
    }

    /// The remaining paths.
    ///
    /// # Errors
    /// The first item that cannot be; temporary files.
    pub(super) fn finish(mut self) -> Result<Remains, SourceError> {
        self.settle()?;
        while self.depth > 1 {
            self.leave()?;
        }
        match self.fault {
            Some((_, fault)) => Err(fault),
            None => Ok(self.builder.finish()?),
        }
    }
}

impl State {
    fn of(known: Known) -> Self {
        let Known { cut, cut_below, named, file, record } = known;
        let origin = (named != 0).then_some(Origin::Item(FileRecord { file, record }));
        Self { named, is_directory: known.is_directory(), cut, cut_below, origin }
    }

    /// Whether an item has made it something that is no directory.
    fn is_file(&self) -> bool {
        self.named != 0 && !self.is_directory
    }

    fn cuts(&self) -> (Time, Time) {
        (self.cut, self.cut_below)
    }
}

impl Change {
    fn new(time: Time, state: &State) -> Self {
        let State { named, is_directory, cut, cut_below, .. } = *state;
        Self { time, named, is_directory, cut, cut_below }
    }

    fn write(&self) -> [u8; CHANGE_BYTES] {
        let [a, b, c, d] = self.time.to_le_bytes();
        let [e, f, g, h] = self.named.to_le_bytes();
        let [i, j, k, l] = self.cut.to_le_bytes();
        let [m, n, o, p] = self.cut_below.to_le_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, u8::from(self.is_directory)]
    }

    fn read(bytes: [u8; CHANGE_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, is_directory] = bytes;
        Self {
            time: Time::from_le_bytes([a, b, c, d]),
            named: Time::from_le_bytes([e, f, g, h]),
            cut: Time::from_le_bytes([i, j, k, l]),
            cut_below: Time::from_le_bytes([m, n, o, p]),
            is_directory: is_directory != 0,
        }
    }

    /// Whether an item has made it something that is no directory.
    fn is_file(&self) -> bool {
        self.named != 0 && !self.is_directory
    }
}

impl Level {
    fn begin(&mut self, path_bytes: usize) {
        *self = Self { path_bytes, ..Self::default() };
    }
}

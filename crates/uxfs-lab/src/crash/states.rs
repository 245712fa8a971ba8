//! The states of a device after a power loss: every prefix of its requests, every single request lost within a
//! flush epoch, sampled subsets, requests torn at sectors.
//!
//! A flush makes durable what came before it. Of the requests behind the last one each may be there or not, in whole or in
//! some of its sectors; where two touch one sector and both are there, the later one holds.
//!
//! ```text
//!   write write FLUSH write write ▲ write FLUSH      ▲ the crash: the first two are there; of the next two
//!   ───── durable ─── ── any of ─                      any, the last has not been asked for
//! ```

use std::ops::{ControlFlow, Range};

use super::{
    image::Image,
    recording::{Event, History, Mark},
};
use uxfs_testkit::seeds::Random;

/// Which states are visited.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The device's sector: what is written in whole or not at all.
    pub sector_bytes: usize,
    /// Random subsets for each epoch that has several requests, and one more for every 16 requests.
    pub subsets: usize,
    /// Ways to tear each request that is longer than a sector.
    pub torn: usize,
    /// Decides subsets and tearing.
    pub seed: u64,
    /// Where the log lies on the device: first byte, and behind the last.
    pub log: (u64, u64),
}

impl Plan {
    /// All kinds of state.
    pub const fn new(seed: u64) -> Self {
        Self { sector_bytes: 512, subsets: 4, torn: 2, seed, log: (0, 0) }
    }
}

impl Plan {
    fn tears(&self, length: usize) -> bool {
        length > self.sector_bytes
    }

    fn is_home(&self, offset_bytes: u64) -> bool {
        !(self.log.0..self.log.1).contains(&offset_bytes)
    }
}

/// The kind of loss in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: all requests up to here.
    Prefix,
    /// All requests up to here but this event.
    Lost(usize),
    /// The last request is there in some of its sectors only.
    Torn,
    /// Some of the requests of the last epoch, some of them torn.
    Subset,
}

/// A device after a crash.
#[derive(Debug, Clone)]
pub struct CrashState {
    /// Counts the states of a history.
    pub number: u64,
    /// The kind of loss.
    pub kind: Kind,
    /// So many events of the history had happened.
    pub events: usize,
    /// Something is there in some of its sectors only that is not of the log. Linux takes a torn block of metadata for a newer
    /// one, and does not mount.
    pub is_torn_in_place: bool,
    /// Contents of the device.
    pub image: Image,
}

/// Visits crash states; breaks where no more are wanted.
pub type Visit<'a> = dyn FnMut(CrashState) -> ControlFlow<()> + 'a;

/// Visits the crash states of a history, always the same in the same order.
pub fn visit(history: &History, plan: &Plan, visitor: &mut Visit<'_>) -> ControlFlow<()> {
    let mut walk = Walk {
        events: &history.events,
        plan: *plan,
        random: Random::new(plan.seed),
        number: 0,
        durable: history.base.clone(),
        now: history.base.clone(),
        epoch: 0,
        visitor,
    };
    walk.emit(Kind::Prefix, 0, history.base.clone())?;
    for index in 0..history.events.len() {
        walk.event(index)?;
    }
    walk.end_epoch(history.events.len())
}

struct Walk<'a> {
    events: &'a [Event],
    plan: Plan,
    random: Random,
    number: u64,
    /// Contents that a flush has made durable.
    durable: Image,
    /// Contents if nothing is lost.
    now: Image,
    /// Where the epoch began.
    epoch: usize,
    visitor: &'a mut Visit<'a>,
}

impl Walk<'_> {
    fn emit(&mut self, kind: Kind, events: usize, image: Image) -> ControlFlow<()> {
        self.emit_torn(kind, events, image, false)
    }

    fn emit_torn(
        &mut self,
        kind: Kind,
        events: usize,
        image: Image,
        is_torn_in_place: bool,
    ) -> ControlFlow<()> {
        let number = self.number;
        self.number += 1;
        (self.visitor)(CrashState { number, kind, events, is_torn_in_place, image })
    }

    fn event(&mut self, index: usize) -> ControlFlow<()> {
        match &self.events[index] {
            Event::Write { offset_bytes, bytes } => {
                for _ in 0..self.plan.torn * usize::from(self.plan.tears(bytes.len())) {
                    let mut image = self.now.clone();
                    tear(&mut image, *offset_bytes, bytes, self.plan.sector_bytes, &mut self.random);
                    self.emit_torn(Kind::Torn, index + 1, image, self.plan.is_home(*offset_bytes))?;
                }
            }
            Event::Flush => {
                self.end_epoch(index)?;
                self.durable = self.now.clone();
                self.epoch = index + 1;
                return ControlFlow::Continue(());
            }
            // The contents are as before, but more is promised.
            Event::Mark(Mark::Synced(_) | Mark::FileSynced { .. }) => {
                return self.emit(Kind::Prefix, index + 1, self.now.clone());
            }
            Event::Mark(Mark::Begun(_)) => return ControlFlow::Continue(()),
            Event::Discard { .. } => {}
        }
        self.events[index].apply(&mut self.now);
        self.emit(Kind::Prefix, index + 1, self.now.clone())
    }

    /// The states of an epoch whose requests have all been made, just before the flush takes effect.
    fn end_epoch(&mut self, end: usize) -> ControlFlow<()> {
        let changes: Vec<usize> = (self.epoch..end).filter(|index| self.events[*index].is_change()).collect();
        // The last one, too: more may have been promised since the prefix before it.
        for index in &changes {
            let mut image = self.durable.clone();
            changes
                .iter()
                .filter(|other| *other != index)
                .for_each(|other| self.events[*other].apply(&mut image));
            self.emit(Kind::Lost(*index), end, image)?;
        }
        if changes.len() > 1 {
            for _ in 0..self.plan.subsets + changes.len() / 16 {
                self.subset(&changes, end)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Up to any event of the epoch, requests are there with one probability for all of them.
    fn subset(&mut self, changes: &[usize], end: usize) -> ControlFlow<()> {
        let begun = 1 + self.random.below(changes.len() as u64) as usize;
        let percent = [10, 50, 90, 97][self.random.below(4) as usize];
        let mut image = self.durable.clone();
        // The last one is often under way.
        let last = changes.get(begun - 1).copied().filter(|_| self.random.below(2) == 0);
        let mut is_torn_in_place = false;
        for index in &changes[..begun] {
            if Some(*index) != last && self.random.below(100) >= percent {
                continue;
            }
            match &self.events[*index] {
                Event::Write { offset_bytes, bytes }
                    if (Some(*index) == last || self.random.below(8) == 0)
                        && self.plan.tears(bytes.len()) =>
                {
                    is_torn_in_place |= self.plan.is_home(*offset_bytes);
                    tear(&mut image, *offset_bytes, bytes, self.plan.sector_bytes, &mut self.random);
                }
                event => event.apply(&mut image),
            }
        }
        // Marks between the last request and the next one count as passed.
        let events = changes.get(begun).copied().unwrap_or(end);
        self.emit_torn(Kind::Subset, events, image, is_torn_in_place)
    }
}

/// Some sectors of a request: the first, the last, or any.
fn tear(image: &mut Image, offset_bytes: u64, bytes: &[u8], sector_bytes: usize, random: &mut Random) {
    let count = bytes.len().div_ceil(sector_bytes) as u64;
    let (way, border) = (random.below(3), random.below(count));
    for (index, sector) in (0..count).zip(bytes.chunks(sector_bytes)) {
        let is_there = match way {
            0 => index < border,
            1 => index >= border,
            _ => random.below(2) == 0,
        };
        if is_there {
            let done = image.write(offset_bytes + index * sector_bytes as u64, sector);
            assert!(done.is_ok());
        }
    }
}

/// The operations that may be found after a crash, by the marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Promise {
    /// Operations whose metadata is durable.
    pub fewest: usize,
    /// Operations that have begun.
    pub most: usize,
    /// Operations whose contents are durable, too.
    pub contents: usize,
}

/// The promise after each number of events, where `done` operations were durable before all of them.
pub fn promises(events: &[Event], done: usize) -> Vec<Promise> {
    promises_within(events, done, 0..usize::MAX)
}

/// The same for the operations with these numbers: those of one thread.
pub fn promises_within(events: &[Event], done: usize, within: Range<usize>) -> Vec<Promise> {
    let mut promise = Promise { fewest: done, most: done, contents: done };
    let mut all = vec![promise];
    for event in events {
        match event {
            Event::Mark(mark) if !super::team::is_within(mark, &within) => {}
            Event::Mark(Mark::Begun(operation)) => promise.most = promise.most.max(operation + 1),
            Event::Mark(Mark::Synced(operations)) => {
                promise.fewest = promise.fewest.max(*operations);
                promise.contents = promise.contents.max(*operations);
            }
            Event::Mark(Mark::FileSynced { operations, .. }) => {
                promise.fewest = promise.fewest.max(*operations);
            }
            _ => {}
        }
        all.push(promise);
    }
    all
}

#[cfg(test)]
#[path = "states_tests.rs"]
mod tests;

//! Slots on their way round: from the scout through a worker to the sink and back.

use std::{
    collections::{BTreeMap, VecDeque},
    thread,
};

use parking_lot::{Condvar, Mutex};

use super::batch::Batch;
use crate::chunk::Chunk;

/// A batch and the chunk that it is encoded into.
#[derive(Debug)]
pub struct Slot<R> {
    /// Place in tree order.
    sequence: u64,
    pub batch: Batch,
    pub chunk: Chunk<R>,
}

#[derive(Debug)]
struct State<R> {
    free: Vec<Slot<R>>,
    waiting: VecDeque<Slot<R>>,
    done: BTreeMap<u64, Slot<R>>,
    /// Slots given out by the scout so far.
    submitted: u64,
    /// The next for the sink.
    next: u64,
    /// No more will be submitted.
    is_complete: bool,
    /// Everyone goes home.
    is_stopped: bool,
}

/// Where slots wait.
#[derive(Debug)]
pub struct Pipeline<R> {
    state: Mutex<State<R>>,
    has_free: Condvar,
    has_waiting: Condvar,
    has_done: Condvar,
}

impl<R> Pipeline<R> {
    /// With slots enough for that many workers: one in work for each, some that wait, one for the scout and one for the
    /// sink.
    pub fn new(workers: usize) -> Self {
        let slot = |_| Slot { sequence: 0, batch: Batch::default(), chunk: Chunk::new() };
        let state = State {
            free: (0..workers + workers.min(8) + 2).map(slot).collect(),
            waiting: VecDeque::new(),
            done: BTreeMap::new(),
            submitted: 0,
            next: 0,
            is_complete: false,
            is_stopped: false,
        };
        Self {
            state: Mutex::new(state),
            has_free: Condvar::new(),
            has_waiting: Condvar::new(),
            has_done: Condvar::new(),
        }
    }

    /// An empty slot for the scout; `None` when the work has been stopped.
    pub fn take_free(&self) -> Option<Slot<R>> {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped {
                return None;
            }
            if let Some(slot) = state.free.pop() {
                return Some(slot);
            }
            self.has_free.wait(&mut state);
        }
    }

    /// Takes a slot that the scout has filled.
    pub fn submit(&self, mut slot: Slot<R>) {
        let mut state = self.state.lock();
        slot.sequence = state.submitted;
        state.submitted += 1;
        state.waiting.push_back(slot);
        drop(state);
        self.has_waiting.notify_one();
    }

    /// Says that the scout has come to the end.
    pub fn complete(&self) {
        self.state.lock().is_complete = true;
        self.has_waiting.notify_all();
        self.has_done.notify_all();
    }

    /// The next slot for a worker; `None` when there will be none.
    pub fn take_waiting(&self) -> Option<Slot<R>> {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped {
                return None;
            }
            if let Some(slot) = state.waiting.pop_front() {
                return Some(slot);
            }
            if state.is_complete {
                return None;
            }
            self.has_waiting.wait(&mut state);
        }
    }

    /// Takes a slot that a worker has encoded.
    pub fn deliver(&self, slot: Slot<R>) {
        let mut state = self.state.lock();
        let is_next = slot.sequence == state.next;
        state.done.insert(slot.sequence, slot);
        drop(state);
        if is_next {
            self.has_done.notify_one();
        }
    }

    /// The next slot for the sink; `None` after the last.
    pub fn next_done(&self) -> Option<Slot<R>> {
        let mut state = self.state.lock();
        loop {
            let next = state.next;
            if let Some(slot) = state.done.remove(&next) {
                state.next += 1;
                return Some(slot);
            }
            if state.is_stopped || (state.is_complete && next == state.submitted) {
                return None;
            }
            self.has_done.wait(&mut state);
        }
    }

    /// Takes back a slot that the sink has written.
    pub fn recycle(&self, mut slot: Slot<R>) {
        slot.batch.clear();
        slot.chunk.clear();
        self.state.lock().free.push(slot);
        self.has_free.notify_one();
    }

    /// Sends everyone home when the guard goes.
    pub fn stop_on_drop(&self) -> StopGuard<'_, R> {
        StopGuard { pipeline: self, only_on_panic: false }
    }

    /// Sends everyone home when the guard's thread panics: the others would wait for ever.
    pub fn stop_on_panic(&self) -> StopGuard<'_, R> {
        StopGuard { pipeline: self, only_on_panic: true }
    }

    fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.has_free.notify_all();
        self.has_waiting.notify_all();
        self.has_done.notify_all();
    }
}

/// Stops the pipeline when dropped.
#[derive(Debug)]
pub struct StopGuard<'a, R> {
    pipeline: &'a Pipeline<R>,
    only_on_panic: bool,
}

impl<R> Drop for StopGuard<'_, R> {
    fn drop(&mut self) {
        if !self.only_on_panic || thread::panicking() {
            self.pipeline.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_whoever_is_faster() {
        let pipeline: Pipeline<()> = Pipeline::new(3);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..200_u8 {
                    let mut slot = pipeline.take_free().unwrap();
                    slot.chunk.bytes.append(&[number]);
                    pipeline.submit(slot);
                }
                pipeline.complete();
            });
            for _ in 0..3 {
                scope.spawn(|| {
                    while let Some(slot) = pipeline.take_waiting() {
                        if slot.sequence % 7 == 0 {
                            thread::yield_now();
                        }
                        pipeline.deliver(slot);
                    }
                });
            }
            let mut seen = Vec::new();
            while let Some(slot) = pipeline.next_done() {
                seen.extend_from_slice(slot.chunk.bytes.filled());
                pipeline.recycle(slot);
            }
            assert_eq!(seen, (0..200).collect::<Vec<u8>>());
        });
    }

    #[test]
    fn a_sink_that_gives_up_ends_all() {
        let pipeline: Pipeline<()> = Pipeline::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(slot) = pipeline.take_free() {
                    pipeline.submit(slot);
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some(slot) = pipeline.take_waiting() {
                        pipeline.deliver(slot);
                    }
                });
            }
            let _guard = pipeline.stop_on_drop();
            for _ in 0..20 {
                pipeline.recycle(pipeline.next_done().unwrap());
            }
        });
    }
}

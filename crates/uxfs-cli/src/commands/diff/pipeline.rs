//! One thread walks, others compare, and the caller gets what they tell in the order of the walk.
//!
//! So many batches are on their way at most: the walk waits where the caller, or the comparison of a large file, is behind. Where the system
//! starts no thread, everything is done in this one.

use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
};

use parking_lot::Mutex;

use super::{
    both::Both,
    choice::Choice,
    compare::{Told, compare},
    tree::{File, Trees},
    walk::{Batch, Walk},
};
use crate::failure::Failure;

/// Batches on their way for each thread that compares.
const BATCHES_PER_THREAD: usize = 8;

/// Takes what is told; `false` ends the comparison.
pub(super) type Take<'p> = &'p mut dyn FnMut(Told) -> Result<bool, Failure>;

/// The comparison of two trees.
pub(super) struct Comparison<'t> {
    pub trees: Trees<'t>,
    pub choice: &'t Choice,
    /// Threads that compare.
    pub threads: usize,
}

/// A batch and its place in order.
type Numbered<T> = (u64, T);

impl Comparison<'_> {
    /// Compares what begins at these files.
    ///
    /// # Errors
    /// Those of `take`; a temporary file.
    pub fn run(&self, starts: Both<File>, name: &[u8], take: Take<'_>) -> Result<(), Failure> {
        let is_stopped = AtomicBool::new(false);
        let most_batches = self.threads.saturating_mul(BATCHES_PER_THREAD);
        let (tickets, used_tickets) = sync_channel::<()>(most_batches);
        let (jobs, waiting) = channel::<Numbered<Batch>>();
        let (results, done) = channel::<Numbered<Vec<Told>>>();
        let waiting = Mutex::new(waiting);
        // Where no thread walks, this one does.
        let starts = Mutex::new(Some(starts));
        let walked = Mutex::new(Ok(()));
        thread::scope(|scope| {
            let (waiting, is_stopped, starts, walked) = (&waiting, &is_stopped, &starts, &walked);
            let mut workers = 0;
            for _ in 0..self.threads {
                let results = results.clone();
                match builder().spawn_scoped(scope, move || self.work(waiting, &results, is_stopped)) {
                    Ok(_) => workers += 1,
                    Err(_) => break,
                }
            }
            drop(results);
            let walk = move || *walked.lock() = self.walk(starts.lock().take(), name, &jobs, &tickets);
            let walking = match workers {
                0 => None,
                _ => builder().spawn_scoped(scope, walk).ok(),
            };
            let Some(walking) = walking else { return self.alone(starts.lock().take(), name, take) };
            let printed = print(&done, used_tickets, is_stopped, take);
            // It has ended, or finds that its batches are not taken any more.
            if let Err(panic) = walking.join() {
                std::panic::resume_unwind(panic);
            }
            printed.and(std::mem::replace(&mut *walked.lock(), Ok(())))
        })
    }

    /// Gives batches to those that compare.
    fn walk(
        &self,
        starts: Option<Both<File>>,
        name: &[u8],
        jobs: &Sender<Numbered<Batch>>,
        tickets: &SyncSender<()>,
    ) -> Result<(), Failure> {
        let Some(starts) = starts else { return Ok(()) };
        let mut number = 0;
        let mut emit = |batch| {
            let is_taken = tickets.send(()).is_ok() && jobs.send((number, batch)).is_ok();
            number += 1;
            is_taken
        };
        Walk::new(self.trees, self.choice).run(starts, name, &mut emit)
    }

    /// Compares batches until there are no more.
    fn work(
        &self,
        waiting: &Mutex<Receiver<Numbered<Batch>>>,
        results: &Sender<Numbered<Vec<Told>>>,
        is_stopped: &AtomicBool,
    ) {
        loop {
            let next = waiting.lock().recv().ok();
            let Some((number, batch)) = next.filter(|_| !is_stopped.load(Ordering::Relaxed)) else { return };
            if results.send((number, compare(self.trees, self.choice.fields, batch))).is_err() {
                return;
            }
        }
    }

    /// As [`run`](Self::run), in one thread.
    fn alone(&self, starts: Option<Both<File>>, name: &[u8], take: Take<'_>) -> Result<(), Failure> {
        let Some(starts) = starts else { return Ok(()) };
        let mut outcome = Ok(());
        let mut emit = |batch| {
            let told = compare(self.trees, self.choice.fields, batch);
            match take_all(told, take) {
                Ok(goes_on) => goes_on,
                Err(failure) => {
                    outcome = Err(failure);
                    false
                }
            }
        };
        let walked = Walk::new(self.trees, self.choice).run(starts, name, &mut emit);
        outcome.and(walked)
    }
}

fn builder() -> thread::Builder {
    thread::Builder::new().name("uxfs-diff".to_owned())
}

/// Gives on what was told, in order.
fn print(
    done: &Receiver<Numbered<Vec<Told>>>,
    used_tickets: Receiver<()>,
    is_stopped: &AtomicBool,
    take: Take<'_>,
) -> Result<(), Failure> {
    let (mut early, mut next) = (BTreeMap::new(), 0);
    while let Ok((number, told)) = done.recv() {
        early.insert(number, told);
        while let Some(told) = early.remove(&next) {
            next += 1;
            let _ = used_tickets.recv();
            match take_all(told, take) {
                Ok(true) => {}
                outcome => {
                    // The walk finds that no tickets are taken any more.
                    is_stopped.store(true, Ordering::Relaxed);
                    return outcome.map(|_| ());
                }
            }
        }
    }
    Ok(())
}

fn take_all(told: Vec<Told>, take: Take<'_>) -> Result<bool, Failure> {
    for told in told {
        if !take(told)? {
            return Ok(false);
        }
    }
    Ok(true)
}

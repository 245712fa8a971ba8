//! A queue between the thread that decides and those that copy, bounded by what its jobs hold in memory.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

/// Memory that a queued item takes.
pub trait Weigh {
    /// Bytes that it keeps in memory.
    fn weight_bytes(&self) -> usize;
}

/// A queue of bounded weight. One side pushes, several take.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    limit_bytes: usize,
    /// Takers sleep here.
    filled: Condvar,
    /// The pusher sleeps here.
    drained: Condvar,
}

#[derive(Debug)]
struct State<T> {
    jobs: VecDeque<T>,
    weight_bytes: usize,
    is_closed: bool,
    sleeping: usize,
}

impl<T: Weigh> Queue<T> {
    /// Holds at most `limit_bytes`, or one job that is larger.
    pub fn new(limit_bytes: usize) -> Self {
        let state = State { jobs: VecDeque::new(), weight_bytes: 0, is_closed: false, sleeping: 0 };
        Self { state: Mutex::new(state), limit_bytes, filled: Condvar::new(), drained: Condvar::new() }
    }

    /// Adds a job, waiting for room. False after the threads have ended.
    pub fn push(&self, job: T) -> bool {
        let weight = job.weight_bytes();
        let mut state = self.state.lock();
        while !state.is_closed && !state.jobs.is_empty() && state.weight_bytes + weight > self.limit_bytes {
            self.drained.wait(&mut state);
        }
        if state.is_closed {
            return false;
        }
        state.weight_bytes += weight;
        state.jobs.push_back(job);
        // Waking costs more than the job: a sleeper is woken only when there is a batch worth it, or at the end.
        if state.sleeping > 0 && (state.weight_bytes > self.limit_bytes / 16 || state.jobs.len() >= 32) {
            self.filled.notify_one();
        }
        true
    }

    /// Takes the next jobs, up to `most_bytes` together but at least one. Nothing at the end.
    pub fn take(&self, most_bytes: usize, batch: &mut Vec<T>) -> bool {
        let mut state = self.state.lock();
        while state.jobs.is_empty() {
            if state.is_closed {
                return false;
            }
            state.sleeping += 1;
            self.filled.wait(&mut state);
            state.sleeping -= 1;
        }
        let mut taken = 0;
        while let Some(job) = state.jobs.front() {
            let weight = job.weight_bytes();
            if taken > 0 && taken + weight > most_bytes {
                break;
            }
            taken += weight;
            batch.extend(state.jobs.pop_front());
        }
        state.weight_bytes -= taken;
        drop(state);
        self.drained.notify_one();
        true
    }

    /// Closes the queue: queued jobs are still taken if `keep` is set.
    pub fn close(&self, keep: bool) {
        let mut state = self.state.lock();
        state.is_closed = true;
        if !keep {
            state.jobs.clear();
            state.weight_bytes = 0;
        }
        drop(state);
        self.filled.notify_all();
        self.drained.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for usize {
        fn weight_bytes(&self) -> usize {
            *self
        }
    }

    #[test]
    fn all_that_is_pushed_is_taken_once_and_in_order() {
        let queue = Queue::new(1000);
        let taken = std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let (mut all, mut batch) = (Vec::new(), Vec::new());
                while queue.take(300, &mut batch) {
                    assert!(!batch.is_empty());
                    all.append(&mut batch);
                }
                all
            });
            (1..500).for_each(|job| assert!(queue.push(job)));
            queue.close(true);
            taker.join().unwrap()
        });
        assert_eq!(taken, (1..500).collect::<Vec<_>>());
    }

    #[test]
    fn a_pusher_that_waits_learns_that_nobody_takes() {
        let queue = Queue::new(10);
        assert!(queue.push(100));
        std::thread::scope(|scope| {
            let pusher = scope.spawn(|| queue.push(1));
            queue.close(false);
            assert!(!pusher.join().unwrap());
        });
        assert!(!queue.take(10, &mut Vec::new()));
    }
}

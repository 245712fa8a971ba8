//! The work queue of a scan: groups and batches of chunks that no thread has begun.

use std::{collections::VecDeque, ops::Range};

use parking_lot::{Condvar, Mutex};
use uxfs_format::units::AgNumber;

use super::batch::Batch;
use crate::allocation_group::damage_limit::DamageLimit;

/// Most batches that wait. A thread that makes another works on it itself.
const WAITING_BATCHES: usize = 32;

/// The next thing to do.
pub(super) enum Task {
    /// Read and verify these chunks.
    Batch(Batch),
    /// Walk the index of this group; say [`Queue::group_is_done`] then.
    Group(AgNumber),
}

/// Work of one scan.
pub(super) struct Queue {
    shared: Mutex<Shared>,
    /// Something was added, or the last group was done.
    changed: Condvar,
    /// Reading was found to be slow, or helpers will not be needed any more.
    slow: Condvar,
}

struct Shared {
    /// The next group, and the one behind the last.
    groups: Range<u32>,
    limit: DamageLimit,
    batches: VecDeque<Batch>,
    /// Groups being walked: they may still give batches.
    walking: usize,
    is_stopped: bool,
    /// Reading takes longer than verifying.
    is_slow: bool,
}

impl Shared {
    /// Nothing will be added any more.
    fn is_ending(&self) -> bool {
        self.is_stopped || (self.walking == 0 && (self.groups.is_empty() || self.limit.is_reached()))
    }
}

impl Queue {
    /// Of so many groups.
    pub(super) fn new(groups: u32) -> Self {
        let shared = Shared {
            groups: 0..groups,
            limit: DamageLimit::default(),
            batches: VecDeque::new(),
            walking: 0,
            is_stopped: false,
            is_slow: false,
        };
        Self { shared: Mutex::new(shared), changed: Condvar::new(), slow: Condvar::new() }
    }

    /// Reading takes longer than verifying: helpers are welcome.
    pub(super) fn report_slow(&self) {
        self.shared.lock().is_slow = true;
        self.slow.notify_all();
    }

    /// Waits until helpers are welcome; `false` where the scan ends without them.
    pub(super) fn wait_until_slow(&self) -> bool {
        let mut shared = self.shared.lock();
        while !shared.is_slow && !shared.is_ending() {
            self.slow.wait(&mut shared);
        }
        shared.is_slow && !shared.is_stopped
    }

    /// Waits for something to do; `None` when there will be nothing more.
    pub(super) fn next_task(&self) -> Option<Task> {
        let mut shared = self.shared.lock();
        loop {
            if shared.is_stopped {
                return None;
            }
            // Batches first: their memory is freed, and groups can wait.
            if let Some(batch) = shared.batches.pop_front() {
                return Some(Task::Batch(batch));
            }
            if !shared.limit.is_reached()
                && let Some(group) = shared.groups.next()
            {
                shared.walking += 1;
                return Some(Task::Group(AgNumber::new(group)));
            }
            if shared.walking == 0 {
                return None;
            }
            self.changed.wait(&mut shared);
        }
    }

    /// Queues a batch for an idle thread, or gives it back where too many wait.
    pub(super) fn offer(&self, batch: Batch) -> Option<Batch> {
        let mut shared = self.shared.lock();
        if shared.batches.len() >= WAITING_BATCHES {
            return Some(batch);
        }
        shared.batches.push_back(batch);
        drop(shared);
        self.changed.notify_one();
        None
    }

    pub(super) fn group_is_done(&self, is_sound: bool) {
        let mut shared = self.shared.lock();
        shared.limit.count(is_sound);
        shared.walking -= 1;
        if shared.walking == 0 {
            self.changed.notify_all();
        }
        if shared.is_ending() {
            self.slow.notify_all();
        }
    }

    /// Groups that were skipped because too many were damaged. Final once the scan is over.
    pub(super) fn unseen_groups(&self) -> u32 {
        let shared = self.shared.lock();
        if shared.is_stopped { 0 } else { shared.groups.len() as u32 }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.shared.lock().is_stopped
    }

    pub(super) fn stop(&self) {
        self.shared.lock().is_stopped = true;
        self.changed.notify_all();
        self.slow.notify_all();
    }

    /// Stops the scan if the thread that holds this unwinds.
    pub(super) fn stop_on_panic(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Queue);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.stop();
                }
            }
        }
        Guard(self)
    }
}

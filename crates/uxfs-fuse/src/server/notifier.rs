//! Asks the kernel to write what it has cached of a file, and to drop it; and to ask for attributes anew, see [`told`](super::told).
//!
//! A write(2) that takes set-id bits away is sent at once, past the kernel's write cache, and the kernel learns the new size from the reply.
//! Where it writes a cached page at the old end of the file back meanwhile, it zeroes what lies behind that end in the page, and so the bytes
//! that were just written there (seen on Linux 6.18, lost data). Before such a write the kernel sends a SETATTR without changes: the reply
//! waits until nothing of the file is cached.
//!
//! Invariants:
//! 1. The waiting request is answered within [`PATIENCE`], even if no thread is free for the kernel's WRITE requests.
//! 2. The thread that writes to the device answers no requests: the kernel sends what it writes back before the write returns.

use std::{
    io::IoSlice,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};

use crate::protocol::notification::{InvalidateRange, Notification};

/// Longest wait for writeback, which takes milliseconds, or seconds on an overloaded machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same with one server thread, which cannot answer the WRITE requests while it waits.
const PATIENCE_OF_ONE_THREAD: Duration = Duration::from_secs(1);
/// Files that wait to be dropped.
const MOST_WAITING: usize = 64;

/// A node, what of it is to be dropped, and where its end is told.
type Task = (u64, InvalidateRange, Option<SyncSender<()>>);

/// Sending end of the task queue, and the longest wait for a task.
#[derive(Debug, Clone)]
struct Tasks {
    sender: SyncSender<Task>,
    patience: Duration,
}

/// Where requests leave tasks.
#[derive(Debug, Default)]
pub struct Notifier {
    tasks: Mutex<Option<Tasks>>,
    device: RwLock<Option<Arc<OwnedFd>>>,
}

/// What does the tasks.
#[derive(Debug)]
pub struct Worker {
    tasks: Receiver<Task>,
    device: Arc<OwnedFd>,
}

impl Notifier {
    /// The worker for this notifier, on a descriptor of a mount with `threads` server threads.
    pub fn worker(&self, device: OwnedFd, threads: usize) -> Worker {
        let (sender, tasks) = sync_channel(MOST_WAITING);
        let device = Arc::new(device);
        let patience = if threads > 1 { PATIENCE } else { PATIENCE_OF_ONE_THREAD };
        *self.tasks.lock() = Some(Tasks { sender, patience });
        *self.device.write() = Some(Arc::clone(&device));
        Worker { tasks, device }
    }

    /// Its worker stops.
    pub fn end(&self) {
        self.tasks.lock().take();
        self.device.write().take();
    }

    /// Lets the kernel ask for the attributes of a node anew, whatever replies to others are under way. The caller's request holds the
    /// inode.
    pub fn forget_attributes(&self, node_id: u64) {
        if let Some(device) = &*self.device.read() {
            send(device, node_id, InvalidateRange::AttributesOnly);
        }
    }

    /// As [`forget_attributes`](Self::forget_attributes), and invalidates the first page of the cached listing; see
    /// [`listings`](super::listings).
    pub fn forget_listing(&self, node_id: u64) {
        if let Some(device) = &*self.device.read() {
            send(device, node_id, InvalidateRange::Bytes { offset_bytes: 0, size_bytes: 1 });
        }
    }

    /// As [`forget_attributes`](Self::forget_attributes), after the request has been answered, where not too many wait: the kernel may be about
    /// to give the inode up, and waits for the answer first.
    pub fn forget_attributes_soon(&self, node_id: u64) {
        if let Some(tasks) = &*self.tasks.lock() {
            let _ = tasks.sender.try_send((node_id, InvalidateRange::AttributesOnly, None));
        }
    }

    /// Waits until the kernel has written and dropped what it has cached of a node's contents. Gives whether it has: not where too many
    /// wait, or it takes too long.
    pub fn write_and_drop_contents(&self, node: u64) -> bool {
        let (done, wait) = sync_channel(1);
        let Some(Tasks { sender, patience }) = self.tasks.lock().clone() else { return false };
        sender.try_send((node, InvalidateRange::From(0), Some(done))).is_ok()
            && wait.recv_timeout(patience).is_ok()
    }
}

impl Worker {
    /// Does tasks until the notifier [ends](Notifier::end).
    pub fn work(self) {
        while let Ok((node_id, range, done)) = self.tasks.recv() {
            send(&self.device, node_id, range);
            if let Some(done) = done {
                // The request may have gone on.
                let _ = done.try_send(());
            }
        }
    }
}

fn send(device: &OwnedFd, node_id: u64, range: InvalidateRange) {
    if let Ok(encoded) = (Notification::InvalidateInode { node_id, range }).encode() {
        let slices: [IoSlice<'_>; 4] = encoded.slices();
        // A node that the kernel does not know has nothing cached.
        let _ = rustix::io::writev(device.as_fd(), &slices);
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Instant};

    use super::*;

    #[test]
    fn a_request_waits_for_the_kernel_and_not_for_ever() {
        let notifier = Notifier::default();
        assert!(!notifier.write_and_drop_contents(5));
        let (read, write) = std::io::pipe().unwrap();
        let worker = notifier.worker(write.into(), 1);
        // Without a worker that works.
        let begun = Instant::now();
        assert!(!notifier.write_and_drop_contents(5));
        assert!(begun.elapsed() >= PATIENCE_OF_ONE_THREAD);
        thread::scope(|scope| {
            scope.spawn(move || worker.work());
            assert!(notifier.write_and_drop_contents(7));
            notifier.end();
        });
        let mut sent = [0; 200];
        let length = rustix::io::read(&read, &mut sent).unwrap();
        // Two messages, of 16 + 24 bytes; the node stands behind the header.
        assert_eq!((length, sent[16], sent[40 + 16]), (80, 5, 7));
    }
}

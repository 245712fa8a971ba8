//! From a file system to a sink: one thread walks the tree, workers encode and read, the caller's thread writes.
//!
//! ```text
//!  scout ──batches──▶ workers ──chunks──▶ caller: Sink::write
//!    ▲                                          │
//!    └───────────── empty slots ◀───────────────┘
//! ```
//!
//! A slot is a batch of tasks with the chunk that they are encoded into. There is a fixed number of slots, so memory is
//! bounded and a slow sink holds the others back. Slots are numbered in tree order; the caller waits for the next.
//!
//! | module | holds |
//! |---|---|
//! | [`batch`] | tasks |
//! | [`pipeline`] | slots and who may have them |
//! | [`scout`] | the walk |
//! | [`listing`] | the entries of a directory |
//! | [`path`] | the path of a walk |
//! | [`worker`] | from tasks to a chunk |
//! | [`reads`] | file data into a chunk, with zeros where it cannot be read |

mod batch;
pub mod listing;
pub mod path;
mod pipeline;
mod reads;
mod scout;
mod worker;

use std::thread;

use uxfs_format::units::InodeNumber;
use uxfs_volume::volume::Volume;
use uxfs_volume::{error::Error, inode::Inode};

use crate::{
    entry::{Metadata, Timestamp},
    report::{Aspect, Observer, Problem, Severity},
    sink::{Sink, SinkError},
};

use self::{pipeline::Pipeline, scout::Scout, worker::Worker};

/// The files to extract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The file or directory.
    pub inode: InodeNumber,
    /// Its name in the place of extraction. `None` for a directory of which the contents are wanted.
    pub name: Option<Vec<u8>>,
}

/// How to extract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtractOptions {
    /// Threads that encode and read, beside the one that walks the tree.
    pub workers: usize,
}

impl Default for ExtractOptions {
    /// One worker for each processor, up to 16.
    fn default() -> Self {
        Self { workers: thread::available_parallelism().map_or(1, usize::from).min(16) }
    }
}

/// Extracts a file, or a directory with all it holds, in directory order. Damage and whatever concerns single files goes
/// to the observer; the rest is extracted.
///
/// # Errors
/// The sink cannot go on.
pub fn extract<S: Sink>(
    filesystem: &Volume,
    start: &Start,
    options: &ExtractOptions,
    sink: &mut S,
    observer: &mut dyn Observer,
) -> Result<(), SinkError> {
    let workers = options.workers.clamp(1, 64);
    let pipeline = Pipeline::new(workers);
    thread::scope(|scope| {
        // However this ends, the other threads must.
        let _guard = pipeline.stop_on_drop();
        let thread = || thread::Builder::new().name("uxfs-extract".to_owned());
        let scout = thread().spawn_scoped(scope, || {
            let _guard = pipeline.stop_on_panic();
            Scout::new(filesystem, &pipeline).run(start);
        });
        scout.map_err(SinkError::no_thread)?;
        for number in 0..workers {
            let worker = Worker::new(filesystem, sink.encoder());
            let started = thread().spawn_scoped(scope, || {
                let _guard = pipeline.stop_on_panic();
                worker.run(&pipeline);
            });
            match started {
                Err(error) if number == 0 => return Err(SinkError::no_thread(error)),
                // Those that run do the work.
                Err(_) => break,
                Ok(_) => {}
            }
        }
        while let Some(mut slot) = pipeline.next_done() {
            slot.chunk.problems.drain(..).for_each(|problem| observer.problem(problem));
            sink.write(&slot.chunk, observer)?;
            pipeline.recycle(slot);
        }
        sink.finish(observer)
    })
}

/// A problem with a file of the image.
fn problem(path: &[u8], aspect: Aspect, error: &Error) -> Problem {
    let severity = match error {
        Error::Unsupported(_) => Severity::Unsupported,
        Error::Io(_) => Severity::Failed,
        // An operation that cannot go on a file found by the walk means that the image contradicts itself.
        _ => Severity::Damaged,
    };
    Problem::new(path, severity, aspect, error)
}

/// What sinks want to know of every kind of file.
pub fn metadata_of(inode: &Inode) -> Metadata {
    let time = |time: uxfs_volume::inode::Timestamp| Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    };
    Metadata {
        inode: inode.number.get(),
        link_count: inode.link_count(),
        permissions: inode.permissions(),
        user: inode.uid(),
        group: inode.gid(),
        accessed: time(inode.access_time()),
        modified: time(inode.modification_time()),
        changed: time(inode.change_time()),
        has_inode_flags: worker::has_flags(inode),
    }
}

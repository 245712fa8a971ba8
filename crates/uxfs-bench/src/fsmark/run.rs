//! The threads of a run.

use std::{
    collections::BTreeSet,
    io,
    sync::{Barrier, RwLock},
    thread,
    time::{Duration, Instant},
};

use super::{
    Delete, Iteration, Latencies, MAX_NAME_BYTES, Options, Outcome, SyncMethod,
    names::{Part, subdirectory_name},
};
use crate::{
    BenchError, Result,
    backend::{Backend, JournalFigures, Worker},
    histogram::{Histogram, Stopwatch},
};

/// Runs all iterations, then the delete. `tell` learns of each iteration when it has ended; one alone waits for the
/// delete, whose latencies belong to it as in fs_mark.
///
/// # Errors
/// Options that make no sense; the file system failed.
pub fn run<B: Backend>(backend: &B, options: &Options, mut tell: impl FnMut(&Iteration)) -> Result<Outcome> {
    options.check(backend.root_count())?;
    let waits_for_delete = options.loops == Some(1) && !options.keep;
    let (mut iterations, mut iteration) = (Vec::new(), 0);
    while options.loops.is_none_or(|loops| iteration < loops) {
        let per_loop = u128::from(options.size_bytes) * u128::from(options.files) * options.threads as u128;
        if options.loops.is_none() && u128::from(backend.space()?.free_bytes) < per_loop {
            break;
        }
        let done = match one_iteration(backend, options, iteration) {
            Err(error) if error.is_no_space() && options.loops.is_none() => break,
            result => result?,
        };
        if !waits_for_delete {
            tell(&done);
        }
        iterations.push(done);
        iteration += 1;
    }
    let mut delete = None;
    if !options.keep {
        let done = delete_all(backend, options, iteration)?;
        if waits_for_delete && let Some(only) = iterations.first_mut() {
            only.latencies.unlink.merge(&done.unlink);
            tell(only);
        }
        delete = Some(done);
    }
    Ok(Outcome { iterations, delete })
}

/// Runs `work` in all threads at once; gives what each gave, and the time from the first start to the last end.
fn in_threads<B: Backend, T: Send>(
    backend: &B,
    threads: usize,
    work: impl Fn(&mut B::Worker<'_>, usize) -> Result<T> + Sync,
) -> Result<(Vec<T>, Duration)> {
    let barrier = Barrier::new(threads);
    // Held until all threads are there; false where one could not be started.
    let is_complete = RwLock::new(true);
    let one = |index: usize| -> Result<(T, Instant, Instant)> {
        if !*is_complete.read().map_err(|_| BenchError::Thread)? {
            return Err(BenchError::Thread);
        }
        let worker = backend.worker();
        // Also those that failed: the others wait for them.
        barrier.wait();
        let started = Instant::now();
        let result = work(&mut worker?, index)?;
        Ok((result, started, Instant::now()))
    };
    let results = thread::scope(|scope| -> Result<Vec<_>> {
        let one = &one;
        let mut starting = is_complete.write().map_err(|_| BenchError::Thread)?;
        let start = |index| thread::Builder::new().spawn_scoped(scope, move || one(index));
        let started: io::Result<Vec<_>> = (0..threads).map(start).collect();
        *starting = started.is_ok();
        drop(starting);
        let threads = started.map_err(BenchError::NoThread)?;
        threads.into_iter().map(|thread| thread.join().map_err(|_| BenchError::Thread)?).collect()
    })?;
    let started = results.iter().map(|(_, started, _)| *started).min();
    let ended = results.iter().map(|(.., ended)| *ended).max();
    let elapsed = started.zip(ended).map_or(Duration::ZERO, |(started, ended)| ended - started);
    Ok((results.into_iter().map(|(result, ..)| result).collect(), elapsed))
}

fn one_iteration<B: Backend>(backend: &B, options: &Options, iteration: u64) -> Result<Iteration> {
    let before = backend.journal();
    let (parts, elapsed) = in_threads(backend, options.threads, |worker, thread| {
        let started = Instant::now();
        let mut making = Making::new(worker, Part { options, thread, iteration }, backend.root_count())?;
        making.files()?;
        making.sync_afterwards()?;
        Ok((making.latencies, started.elapsed()))
    })?;
    let (mut latencies, mut overhead, mut files_per_second) = (Latencies::default(), Duration::ZERO, 0.0);
    for (part, took) in &parts {
        latencies.merge(part);
        overhead += took.saturating_sub(part.making());
        files_per_second += options.files as f64 / took.as_secs_f64().max(1e-9);
    }
    Ok(Iteration {
        space: backend.space()?,
        count: (iteration + 1) * options.files * options.threads as u64,
        size_bytes: options.size_bytes,
        files_per_second,
        elapsed,
        overhead,
        latencies,
        journal: figures(before, backend),
    })
}

fn figures<B: Backend>(before: Option<JournalFigures>, backend: &B) -> Option<JournalFigures> {
    backend.journal().zip(before).map(|(now, before)| now.since(&before))
}

/// A thread with its part of an iteration.
struct Making<'w, 'o, W: Worker> {
    worker: &'w mut W,
    part: Part<'o>,
    places: Places<W>,
    contents: Vec<u8>,
    latencies: Latencies,
}

/// The directory that the last file was in.
struct Places<W: Worker> {
    root: W::Directory,
    current: Option<(u64, W::Directory)>,
}

impl<W: Worker> Places<W> {
    fn new(worker: &mut W, thread: usize, roots: usize) -> Result<Self> {
        Ok(Self { root: worker.root(thread % roots)?, current: None })
    }

    /// The directory of a file.
    fn of(&mut self, worker: &mut W, part: &Part<'_>, index: u64) -> Result<&W::Directory> {
        let Some(wanted) = part.subdirectory(index) else { return Ok(&self.root) };
        if self.current.as_ref().is_none_or(|(current, _)| *current != wanted) {
            let directory = worker.directory(&self.root, subdirectory_name(wanted).as_bytes())?;
            self.current = Some((wanted, directory));
        }
        Ok(self.current.as_ref().map_or(&self.root, |(_, directory)| directory))
    }
}

impl<'w, 'o, W: Worker> Making<'w, 'o, W> {
    fn new(worker: &'w mut W, part: Part<'o>, roots: usize) -> Result<Self> {
        let places = Places::new(worker, part.thread, roots)?;
        let contents = vec![0; part.options.write_bytes];
        Ok(Self { worker, part, places, contents, latencies: Latencies::default() })
    }

    fn files(&mut self) -> Result<()> {
        let Self { worker, part, places, contents, latencies } = self;
        let options = part.options;
        let mut buffer = [0; MAX_NAME_BYTES];
        for index in 0..options.files {
            let name = part.name(index, &mut buffer);
            let directory = places.of(worker, part, index)?;
            let mut watch = Stopwatch::start();
            let file = worker.create(directory, name)?;
            watch.lap(&mut latencies.create);
            let mut written = 0;
            while written < options.size_bytes {
                let length = (options.size_bytes - written).min(options.write_bytes as u64);
                worker.write(&file, written, contents.get(..length as usize).unwrap_or_default())?;
                watch.lap(&mut latencies.write);
                written += length;
            }
            if options.sync.is_before_close() {
                worker.fsync(&file)?;
                if options.sync == SyncMethod::BeforeCloseWithDirectory {
                    worker.fsync_directory(directory)?;
                }
                watch.lap(&mut latencies.fsync);
            }
            worker.close(file)?;
            watch.lap(&mut latencies.close);
        }
        Ok(())
    }

    fn sync_afterwards(&mut self) -> Result<()> {
        let options = self.part.options;
        if options.sync.syncs_system() {
            let mut watch = Stopwatch::start();
            self.worker.syncfs(&self.places.root)?;
            watch.lap(&mut self.latencies.sync);
        }
        match options.sync {
            SyncMethod::SystemThenFirst => self.sync_one(0),
            SyncMethod::Reverse | SyncMethod::SystemThenReverse => {
                (0..options.files).rev().try_for_each(|index| self.sync_one(index))
            }
            SyncMethod::InOrder | SyncMethod::SystemThenInOrder => {
                (0..options.files).try_for_each(|index| self.sync_one(index))
            }
            SyncMethod::None | SyncMethod::BeforeClose | SyncMethod::BeforeCloseWithDirectory => Ok(()),
        }
    }

    /// Opening and closing count, as in fs_mark.
    fn sync_one(&mut self, index: u64) -> Result<()> {
        let mut buffer = [0; MAX_NAME_BYTES];
        let name = self.part.name(index, &mut buffer);
        let directory = self.places.of(self.worker, &self.part, index)?;
        let mut watch = Stopwatch::start();
        let file = self.worker.open(directory, name)?;
        self.worker.fsync(&file)?;
        self.worker.close(file)?;
        watch.lap(&mut self.latencies.fsync);
        Ok(())
    }
}

/// Each thread takes its own files away, then the threads share the subdirectories.
fn delete_all<B: Backend>(backend: &B, options: &Options, iterations: u64) -> Result<Delete> {
    let before = backend.journal();
    let roots = backend.root_count();
    let (parts, unlinking) = in_threads(backend, options.threads, |worker, thread| {
        let mut histogram = Histogram::default();
        let mut places = Places::new(worker, thread, roots)?;
        let mut buffer = [0; MAX_NAME_BYTES];
        for iteration in 0..iterations {
            let part = Part { options, thread, iteration };
            for index in 0..options.files {
                let name = part.name(index, &mut buffer);
                let directory = places.of(worker, &part, index)?;
                let mut watch = Stopwatch::start();
                worker.unlink(directory, name)?;
                watch.lap(&mut histogram);
            }
        }
        Ok(histogram)
    })?;
    let used = used_subdirectories(options, iterations);
    let (_, removing) = in_threads(backend, options.threads, |worker, thread| {
        let root = worker.root(thread % roots)?;
        let mine = used.iter().skip(thread / roots).step_by(options.threads / roots);
        mine.copied().try_for_each(|index| worker.rmdir(&root, subdirectory_name(index).as_bytes()))
    })?;
    let mut unlink = Histogram::default();
    parts.iter().for_each(|part| unlink.merge(part));
    Ok(Delete {
        files: unlink.count(),
        directories: (used.len() * roots) as u64,
        elapsed: unlinking + removing,
        unlink,
        journal: figures(before, backend),
    })
}

/// The subdirectories that iterations put files into; the same for all threads.
fn used_subdirectories(options: &Options, iterations: u64) -> BTreeSet<u64> {
    let step = options.files_per_subdirectory.max(1) as usize;
    let mut used = BTreeSet::new();
    for iteration in 0..iterations {
        let part = Part { options, thread: 0, iteration };
        used.extend((0..options.files).step_by(step).filter_map(|index| part.subdirectory(index)));
        if used.len() as u64 >= options.subdirectories {
            break;
        }
    }
    used
}

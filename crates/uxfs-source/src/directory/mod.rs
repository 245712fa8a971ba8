//! A directory of the host as a tree.
//!
//! Threads list directories and make entries, ahead of the consumer and within bounds; the consumer gets them in the
//! tree's own order. Nothing here follows a symbolic link, but for the root's own path.
//!
//! | module | holds |
//! |---|---|
//! | [`handle`] | directories and files, opened when needed |
//! | [`names`] | the names of one directory |
//! | [`attributes`] | extended attributes |
//! | [`own_working_directory`] | what makes them cheap to read |
//! | [`reader`] | from names to entries |
//! | [`schedule`] | what is read when |
//!
//! # A tree that changes meanwhile
//! A file that is removed after its directory was listed is left out, as if it had been removed before. A small file is what it
//! was when it was opened, content and metadata of one moment as far as its writers allow. A large one has the size that
//! it had then: bytes that it lost since are zeros, and the read says how many
//! ([`OpenFile::read_at`](crate::content::OpenFile::read_at)). A file that was replaced by another is an error when it is
//! opened again.
//!
//! # Memory
//! Pieces read ahead (16 MiB unless told otherwise, and one piece for each thread), the names of the directories being
//! read (32 MiB each unless told otherwise), and the names of subdirectories still to come in the directories above.

mod attributes;
mod handle;
mod names;
mod own_working_directory;
mod reader;
mod schedule;

use std::{
    ops::Range,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::{Condvar, Mutex};

pub(crate) use attributes::attributes_of_open;
pub(crate) use handle::{FileInTree, Host, Node, Slot};
pub(crate) use reader::{MOST_OF_ALL_NAMES_BYTES, PIECE_BYTES};
pub(crate) use schedule::CHUNK_NAMES;

use self::{
    handle::{device_of, examine_open},
    names::NamesError,
    reader::{Piece, Reader},
    schedule::{Head, Job, Schedule, Subdirectories},
};
use crate::{
    entry::{DirectoryId, Kind, Metadata},
    error::{Failure, MAX_PATHS_KEPT, Problem, SourceError, Unreadable},
    tree::{Batch, Reading, TreeSource},
};

/// Which file of the host it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// Of an open file.
    ///
    /// # Errors
    /// It cannot be examined.
    pub fn of(file: impl AsFd) -> std::io::Result<Self> {
        let found = examine_open(file.as_fd())?;
        Ok(Self { device: device_of(&found), inode: found.stx_ino })
    }
}

/// How a directory is read.
#[derive(Debug, Clone)]
pub struct DirectoryOptions {
    /// Threads that read ahead, at least one.
    pub threads: usize,
    /// Files up to this size come with their content.
    pub inline_limit_bytes: u64,
    /// Leaves directories on other file systems empty.
    pub one_file_system: bool,
    /// Goes on without what cannot be read, and tells of it as problems. Otherwise the end is an error that lists it all.
    pub skip_unreadable: bool,
    /// Files that are left out, with a word about it: the image that is being made, if it lies in the tree.
    pub exclude: Vec<FileIdentity>,
    /// Memory for what has been read and not taken.
    pub ahead_bytes: usize,
    /// Memory, about, for the names of a directory that is being read. Those of a larger one go to a temporary file.
    pub names_bytes: usize,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: processors.clamp(1, 8),
            inline_limit_bytes: 64 << 10,
            one_file_system: false,
            skip_unreadable: false,
            exclude: Vec::new(),
            ahead_bytes: 16 << 20,
            names_bytes: 32 << 20,
        }
    }
}

/// State that threads and consumer share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Threads sleep here.
    work: Condvar,
    /// The consumer sleeps here.
    ready: Condvar,
}

#[derive(Debug)]
struct State {
    schedule: Schedule,
    sleeping: usize,
    consumer_waits: bool,
    is_over: bool,
    failed: Option<SourceError>,
}

/// A directory of the host and everything below.
#[derive(Debug)]
pub struct DirectorySource {
    path: PathBuf,
    options: DirectoryOptions,
    root: Metadata,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Number of the next directory that is met, and, from the root down, of those met and not yet delivered.
    next_directory: u64,
    coming: Vec<Range<u64>>,
    current: DirectoryId,
    met_in_current: u64,
    problems: Vec<Problem>,
    unreadable: Unreadable,
    is_over: bool,
}

impl DirectorySource {
    /// Begins to read the directory at `path`.
    ///
    /// # Errors
    /// It cannot be read at all.
    pub fn open(path: &Path, options: DirectoryOptions, reading: Reading) -> Result<Self, SourceError> {
        let host = Host::open(path)?;
        let failed = |error| SourceError::host(path, "examine", error);
        let found = examine_open(host.root()).map_err(failed)?;
        let device = device_of(&found);
        let node = Node::root(Arc::clone(&host), found.stx_uid);
        let state = State {
            schedule: Schedule::new(node, options.ahead_bytes),
            sleeping: 0,
            consumer_waits: false,
            is_over: false,
            failed: None,
        };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), ready: Condvar::new() });
        let mut source = Self {
            path: path.to_path_buf(),
            options,
            root: Metadata::default(),
            shared,
            threads: Vec::new(),
            next_directory: 1,
            // Delivered first, as if it had been met above.
            coming: vec![Range { start: 0, end: 1 }],
            current: DirectoryId::ROOT,
            met_in_current: 0,
            problems: Vec::new(),
            unreadable: Unreadable::default(),
            is_over: false,
        };
        source.read_root(&host, reading, device)?;
        source.start(reading, device)?;
        Ok(source)
    }

    /// The root's attributes, in a thread, since reading attributes changes the thread's working directory for good.
    fn read_root(&mut self, host: &Arc<Host>, reading: Reading, device: u64) -> Result<(), SourceError> {
        let options = &self.options;
        let read = thread::scope(|scope| {
            let work = || {
                let root = Reader::new(options, reading, device)?.root(host.root());
                root.map_err(|error| SourceError::host(host.path(), "examine", error))
            };
            thread::Builder::new().spawn_scoped(scope, work).map(thread::ScopedJoinHandle::join)
        });
        let read = read.map_err(|error| SourceError::host(&self.path, "start a thread for", error))?;
        let (root, reasons) = read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        self.root = root;
        self.keep(reasons.into_iter().map(|reason| Problem::new(b"", reason)).collect());
        Ok(())
    }

    fn start(&mut self, reading: Reading, device: u64) -> Result<(), SourceError> {
        for _ in 0..self.options.threads.max(1) {
            let shared = Arc::clone(&self.shared);
            let options = self.options.clone();
            let work = move || {
                let _alarm = Alarm(&shared);
                match Reader::new(&options, reading, device) {
                    Ok(mut reader) => shared.work(&mut reader),
                    Err(error) => drop(shared.fail(error)),
                }
            };
            match thread::Builder::new().name("uxfs-source".to_owned()).spawn(work) {
                Ok(thread) => self.threads.push(thread),
                Err(error) if self.threads.is_empty() => {
                    return Err(SourceError::host(&self.path, "start a thread for", error));
                }
                // Those that run do the work.
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Losses wait for the end, where they are an error; all others are told when asked for.
    fn keep(&mut self, problems: Vec<Problem>) {
        for problem in problems {
            let is_error = problem.reason.is_loss() && !self.options.skip_unreadable;
            let kept = if is_error { &mut self.unreadable.problems } else { &mut self.problems };
            self.unreadable.count += u64::from(is_error);
            if kept.len() < MAX_PATHS_KEPT {
                kept.push(problem);
            }
        }
    }

    /// Numbers the directories of a piece.
    fn deliver(&mut self, mut piece: Piece) -> Batch {
        if piece.is_first {
            while self.coming.last().is_some_and(Range::is_empty) {
                self.coming.pop();
            }
            // The order of delivery is that of numbers met: the next of the deepest.
            if let Some(range) = self.coming.last_mut() {
                self.current = DirectoryId(range.start);
                range.start += 1;
            }
            self.met_in_current = self.next_directory;
        }
        for entry in &mut piece.entries {
            if let Kind::Directory(id) = &mut entry.kind {
                *id = DirectoryId(self.next_directory);
                self.next_directory += 1;
            }
        }
        if piece.is_last {
            self.coming.push(self.met_in_current..self.next_directory);
        }
        self.keep(piece.problems);
        Batch { directory: self.current, path: piece.path, is_last: piece.is_last, entries: piece.entries }
    }

    fn end(&mut self) -> Result<Option<Batch>, SourceError> {
        self.is_over = true;
        self.stop();
        match self.unreadable.count {
            0 => Ok(None),
            _ => Err(SourceError::Unreadable(std::mem::take(&mut self.unreadable))),
        }
    }
}

impl TreeSource for DirectorySource {
    fn root(&self) -> Option<&Metadata> {
        Some(&self.root)
    }

    fn next_batch(&mut self) -> Result<Option<Batch>, SourceError> {
        if self.is_over {
            return Ok(None);
        }
        match self.shared.next_piece() {
            Ok(Some(piece)) => Ok(Some(self.deliver(piece))),
            Ok(None) => self.end(),
            Err(error) => {
                self.is_over = true;
                Err(error)
            }
        }
    }

    fn restart(&mut self, reading: Reading) -> Result<(), SourceError> {
        let again = Self::open(&self.path, self.options.clone(), reading)?;
        *self = again;
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}

impl Drop for DirectorySource {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Wakes the consumer when a thread panics, so that it does not wait for ever.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.state.lock().is_over = true;
            self.0.work.notify_all();
            self.0.ready.notify_all();
        }
    }
}

impl Shared {
    fn next_piece(&self) -> Result<Option<Piece>, SourceError> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = state.failed.take() {
                return Err(error);
            }
            if state.is_over {
                // A thread has panicked, which joining it tells.
                return Ok(None);
            }
            match state.schedule.take_ready() {
                Head::End => return Ok(None),
                Head::Piece(piece) => {
                    if state.sleeping > 0 && state.schedule.has_room() {
                        self.work.notify_all();
                    }
                    return Ok(Some(piece));
                }
                Head::Wait => {
                    if state.sleeping > 0 {
                        self.work.notify_one();
                    }
                    state.consumer_waits = true;
                    self.ready.wait(&mut state);
                    state.consumer_waits = false;
                }
            }
        }
    }

    fn fail(&self, error: SourceError) -> parking_lot::MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.failed.get_or_insert(error);
        state.is_over = true;
        self.work.notify_all();
        self.ready.notify_all();
        state
    }

    /// A thread's life.
    fn work(&self, reader: &mut Reader) {
        let mut state = self.state.lock();
        loop {
            if state.is_over {
                return;
            }
            let Some(job) = state.schedule.take_job() else {
                state.sleeping += 1;
                self.work.wait(&mut state);
                state.sleeping -= 1;
                continue;
            };
            drop(state);
            state = self.run(reader, job);
        }
    }

    /// Does a job, and returns with its result in the schedule.
    fn run(&self, reader: &mut Reader, job: Job) -> parking_lot::MutexGuard<'_, State> {
        let id = match job {
            Job::List(id, node) => {
                let listed = reader.list(&node);
                let mut state = self.state.lock();
                match listed {
                    Ok(listing) => {
                        state.schedule.listed(id, listing);
                        // This thread goes on with the first chunk; others may have the rest.
                        if state.sleeping > 0 && state.schedule.has_more_than_one_chunk(id) {
                            self.work.notify_all();
                        }
                        return state;
                    }
                    Err(NamesError::Host(error)) => state.schedule.not_listed(id, &node, Failure(error)),
                    Err(NamesError::Spill(error)) => {
                        drop(state);
                        return self.fail(error.into());
                    }
                }
                drop(state);
                id
            }
            Job::Read(id, listing, range) => {
                let mut subdirectories = Subdirectories::default();
                let read = reader.read(&listing, range, |found| subdirectories.push(&found));
                let (piece, next) = match read {
                    Ok(read) => read,
                    Err(error) => return self.fail(error.into()),
                };
                let finds = !subdirectories.is_empty();
                let mut state = self.state.lock();
                state.schedule.read(id, piece, next, subdirectories);
                if finds && state.sleeping > 0 {
                    self.work.notify_all();
                }
                drop(state);
                // With its last chunk a directory's names go, outside the lock.
                drop(listing);
                id
            }
        };
        let state = self.state.lock();
        if state.consumer_waits && state.schedule.is_head(id) {
            self.ready.notify_one();
        }
        state
    }
}

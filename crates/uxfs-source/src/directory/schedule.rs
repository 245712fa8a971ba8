//! Which directory is read when.
//!
//! Tasks stand in a list in the order in which their entries are delivered. Threads take the first that no thread has begun;
//! the consumer takes what the head has ready. A directory that has been listed becomes chunks of names, each followed, after
//! the last chunk, by the subdirectories found in it, which become tasks one by one.
//!
//! 1. The list's order is the order of delivery: nothing is ever inserted before something that was delivered.
//! 2. Reading ahead is bounded twice: by the bytes of pieces not yet delivered, and by the number of tasks begun.
//! 3. The head may always be worked on while it has nothing ready, whatever the bounds say: the consumer never waits for
//!    memory that only it can free.

use std::{collections::VecDeque, ffi::CStr, ops::Range, sync::Arc};

use super::{
    handle::Node,
    reader::{Listing, Piece, Subdirectory},
};
use crate::error::{Failure, Problem, Reason};

/// Names of a directory that one task takes on, and most entries of a batch.
pub(crate) const CHUNK_NAMES: usize = 1024;
/// Tasks begun and not delivered.
const TASKS_AHEAD: usize = 256;

/// ContentLocation of a task in the slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskId(u32);

/// Before the first and after the last.
const ENDS: TaskId = TaskId(0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
}

#[derive(Debug)]
enum Work {
    /// The ends of the list, and places that are free.
    Nothing,
    List(Arc<Node>),
    Chunk {
        listing: Arc<Listing>,
        rest: Range<usize>,
        is_last_of_directory: bool,
        subdirectories: TaskId,
    },
    Subdirectories {
        parent: Arc<Node>,
        names: Subdirectories,
        /// Whether all of the chunk is in `names`.
        is_complete: bool,
    },
}

/// Subdirectories whose turn has not come, in little memory: a flag, the owner, and the name with its NUL.
#[derive(Debug, Default)]
pub(super) struct Subdirectories {
    bytes: Vec<u8>,
    taken: usize,
}

const FOREIGN: u8 = 1;

impl Subdirectories {
    pub(super) fn push(&mut self, found: &Subdirectory<'_>) {
        self.bytes.push(if found.is_foreign { FOREIGN } else { 0 });
        self.bytes.extend_from_slice(&found.owner.to_le_bytes());
        self.bytes.extend_from_slice(found.name.to_bytes_with_nul());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken >= self.bytes.len()
    }

    fn take(&mut self, parent: &Arc<Node>) -> Option<(Arc<Node>, bool)> {
        let (flag, rest) = self.bytes.get(self.taken..)?.split_first()?;
        let (owner, rest) = rest.split_first_chunk::<4>()?;
        let name = CStr::from_bytes_until_nul(rest).ok()?;
        self.taken += 5 + name.to_bytes_with_nul().len();
        Some((parent.child(name, u32::from_le_bytes(*owner)), *flag == FOREIGN))
    }
}

#[derive(Debug)]
struct Task {
    previous: TaskId,
    next: TaskId,
    state: State,
    /// Counted among those begun.
    is_begun: bool,
    ready: VecDeque<Piece>,
    work: Work,
}

/// A job of a thread.
#[derive(Debug)]
pub(super) enum Job {
    List(TaskId, Arc<Node>),
    Read(TaskId, Arc<Listing>, Range<usize>),
}

/// The head of the queue, for the consumer.
#[derive(Debug)]
pub(super) enum Head {
    Piece(Piece),
    /// Somebody has to work first.
    Wait,
    End,
}

/// The list.
#[derive(Debug)]
pub(super) struct Schedule {
    tasks: Vec<Task>,
    free: Vec<TaskId>,
    begun: usize,
    ready_bytes: usize,
    limit_bytes: usize,
}

impl Schedule {
    pub(super) fn new(root: Arc<Node>, limit_bytes: usize) -> Self {
        let mut schedule =
            Self { tasks: Vec::new(), free: Vec::new(), begun: 0, ready_bytes: 0, limit_bytes };
        let ends = Task::new(Work::Nothing);
        schedule.tasks.push(ends);
        schedule.insert_before(ENDS, Work::List(root));
        schedule
    }

    fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id.0 as usize)
    }

    fn task_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        self.tasks.get_mut(id.0 as usize)
    }

    fn next(&self, id: TaskId) -> TaskId {
        self.task(id).map_or(ENDS, |task| task.next)
    }

    fn head(&self) -> TaskId {
        self.next(ENDS)
    }

    fn insert_before(&mut self, place: TaskId, work: Work) -> TaskId {
        let previous = self.task(place).map_or(ENDS, |task| task.previous);
        let task = Task { previous, next: place, ..Task::new(work) };
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(slot) = self.task_mut(id) {
                    *slot = task;
                }
                id
            }
            None => {
                // Each task holds more than a byte of memory: there are never so many.
                let id = TaskId(u32::try_from(self.tasks.len()).unwrap_or(u32::MAX));
                self.tasks.push(task);
                id
            }
        };
        if let Some(before) = self.task_mut(previous) {
            before.next = id;
        }
        if let Some(after) = self.task_mut(place) {
            after.previous = id;
        }
        id
    }

    fn remove(&mut self, id: TaskId) {
        let Some(task) = self.task_mut(id) else { return };
        let (previous, next) = (task.previous, task.next);
        if std::mem::take(&mut task.is_begun) {
            self.begun = self.begun.saturating_sub(1);
        }
        if let Some(task) = self.task_mut(id) {
            *task = Task::new(Work::Nothing);
        }
        if let Some(before) = self.task_mut(previous) {
            before.next = next;
        }
        if let Some(after) = self.task_mut(next) {
            after.previous = previous;
        }
        self.free.push(id);
    }

    /// Makes a task of the next subdirectory, before those that remain. Takes `id` away when none can follow.
    fn expand(&mut self, id: TaskId) -> Option<TaskId> {
        let Some(Task { work: Work::Subdirectories { parent, names, is_complete }, .. }) = self.task_mut(id)
        else {
            return None;
        };
        let child = names.take(parent);
        let is_over = names.is_empty() && *is_complete;
        let inserted = child.map(|(node, is_foreign)| match is_foreign {
            false => self.insert_before(id, Work::List(node)),
            true => {
                let piece = Piece { path: node.path(), is_first: true, is_last: true, ..Piece::default() };
                let task = self.insert_before(id, Work::Nothing);
                self.finish(task, piece);
                task
            }
        });
        if is_over {
            self.remove(id);
        }
        inserted
    }

    /// Takes the ready entries at the head.
    pub(super) fn take_ready(&mut self) -> Head {
        loop {
            let id = self.head();
            if id == ENDS {
                return Head::End;
            }
            let Some(task) = self.task_mut(id) else { return Head::End };
            if let Work::Subdirectories { names, .. } = &task.work {
                if names.is_empty() {
                    self.remove(id);
                } else {
                    self.expand(id);
                }
                continue;
            }
            let piece = task.ready.pop_front();
            let is_over = task.state == State::Done && task.ready.is_empty();
            if is_over {
                self.remove(id);
            }
            match piece {
                Some(piece) => {
                    self.ready_bytes = self.ready_bytes.saturating_sub(piece.weight_bytes);
                    return Head::Piece(piece);
                }
                None if is_over => {}
                None => return Head::Wait,
            }
        }
    }

    /// The next thing to do, if the bounds allow.
    pub(super) fn take_job(&mut self) -> Option<Job> {
        let mut id = self.head();
        let head = id;
        let is_full = self.ready_bytes >= self.limit_bytes || self.begun >= TASKS_AHEAD;
        // Between begun tasks stand at most as many groups of subdirectories again, and those of their ancestors.
        for _ in 0..4 * TASKS_AHEAD {
            let is_head = id == head || id == self.head();
            if id == ENDS || (is_full && !is_head) {
                return None;
            }
            let next = self.next(id);
            let task = self.task(id)?;
            match (&task.work, task.state) {
                (Work::Subdirectories { names, .. }, _) if !names.is_empty() => {
                    // The child stands in this one's place, and is looked at next.
                    id = self.expand(id)?;
                    continue;
                }
                (Work::List(_) | Work::Chunk { .. }, State::Waiting) if !is_full || task.ready.is_empty() => {
                    return self.begin(id);
                }
                _ => id = next,
            }
        }
        None
    }

    fn begin(&mut self, id: TaskId) -> Option<Job> {
        let task = self.task_mut(id)?;
        task.state = State::Running;
        let is_new = !std::mem::replace(&mut task.is_begun, true);
        let job = match &task.work {
            Work::List(node) => Job::List(id, Arc::clone(node)),
            Work::Chunk { listing, rest, .. } => Job::Read(id, Arc::clone(listing), rest.clone()),
            Work::Nothing | Work::Subdirectories { .. } => return None,
        };
        self.begun += usize::from(is_new);
        Some(job)
    }

    /// A directory has been listed: its task becomes its first chunk, and waits again.
    pub(super) fn listed(&mut self, id: TaskId, listing: Listing) {
        let listing = Arc::new(listing);
        let count = listing.names.len();
        let after = self.next(id);
        let mut chunks = vec![id];
        let starts = (0..count.max(1)).step_by(CHUNK_NAMES);
        chunks.extend(starts.clone().skip(1).map(|_| self.insert_before(after, Work::Nothing)));
        for (start, chunk) in starts.zip(chunks) {
            let parent = Arc::clone(&listing.node);
            let names = Subdirectories::default();
            let found = Work::Subdirectories { parent, names, is_complete: false };
            let subdirectories = self.insert_before(after, found);
            let end = count.min(start + CHUNK_NAMES);
            if let Some(task) = self.task_mut(chunk) {
                task.state = State::Waiting;
                task.work = Work::Chunk {
                    listing: Arc::clone(&listing),
                    rest: start..end,
                    is_last_of_directory: end == count,
                    subdirectories,
                };
            }
        }
    }

    /// A directory could not be listed: it is empty.
    pub(super) fn not_listed(&mut self, id: TaskId, node: &Node, failure: Failure) {
        let path = node.path();
        let problems = vec![Problem::new(&path, Reason::Unlistable(failure))];
        let piece = Piece { path, problems, is_first: true, is_last: true, ..Piece::default() };
        self.finish(id, piece);
    }

    fn finish(&mut self, id: TaskId, piece: Piece) {
        if let Some(task) = self.task_mut(id) {
            task.state = State::Done;
            task.work = Work::Nothing;
            task.ready.push_back(piece);
        }
    }

    /// A piece of a chunk has been read, up to `next`, with the subdirectories in it.
    pub(super) fn read(&mut self, id: TaskId, mut piece: Piece, next: usize, found: Subdirectories) {
        self.ready_bytes += piece.weight_bytes;
        let Some(task) = self.task_mut(id) else { return };
        let Work::Chunk { rest, is_last_of_directory, subdirectories, .. } = &mut task.work else { return };
        rest.start = next;
        let (is_done, group) = (Range::is_empty(rest), *subdirectories);
        piece.is_last = is_done && *is_last_of_directory;
        task.ready.push_back(piece);
        task.state = if is_done { State::Done } else { State::Waiting };
        if is_done {
            // The names of the whole directory go with the last of its chunks.
            task.work = Work::Nothing;
        }
        let Some(Task { work: Work::Subdirectories { names, is_complete, .. }, .. }) = self.task_mut(group)
        else {
            return;
        };
        if names.is_empty() {
            *names = found;
        } else {
            names.bytes.extend_from_slice(&found.bytes);
        }
        *is_complete = is_done;
        if is_done && names.is_empty() {
            self.remove(group);
        }
    }

    /// Whether there is room again for reading ahead, with some to spare so that threads are not woken for little.
    pub(super) fn has_room(&self) -> bool {
        self.ready_bytes <= self.limit_bytes / 2 && self.begun <= TASKS_AHEAD / 2
    }

    /// Whether a directory that has just been listed has work for several.
    pub(super) fn has_more_than_one_chunk(&self, first: TaskId) -> bool {
        matches!(self.task(self.next(first)), Some(Task { work: Work::Chunk { .. }, .. }))
    }

    /// Whether this task is what the consumer waits for.
    pub(super) fn is_head(&self, id: TaskId) -> bool {
        self.head() == id
    }
}

impl Task {
    fn new(work: Work) -> Self {
        Self {
            previous: ENDS,
            next: ENDS,
            state: State::Waiting,
            is_begun: false,
            ready: VecDeque::new(),
            work,
        }
    }
}

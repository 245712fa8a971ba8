//! Several threads at work on one file system: each in a directory of its own, which a model knows exactly, and all of them
//! in one that they share, of which only rules are known.
//!
//! ```text
//! root ─┬─ own-0 ◀── thread 0, model 0        equal to its model, also after a crash: to one of its states
//!       ├─ own-1 ◀── thread 1, model 1
//!       └─ shared ◀── all threads             what each was told of names adds up; no block is half of one write
//! ```
//!
//! A seed decides what each thread asks for, whatever the order in which threads come to it.
//!
//! | module | holds |
//! |---|---|
//! | [`member`] | a thread with its model |
//! | [`shared`] | what all do in the directory that they share |

pub mod member;
pub mod shared;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
};

use anyhow::{Context, Result, anyhow};
use member::Member;
use shared::{Balance, Shared};
use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle, operations::create::NewFile};
use uxfs_volume::volume::Volume;

use crate::crash::{states::Promise, tree::Tree, workload::OperationKind};
use uxfs_testkit::seeds::Random;

/// Counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations in threads' own directories.
    pub own: u64,
    /// Operations in the shared directory.
    pub shared: u64,
    /// Operations there that were refused, as they may be.
    pub refused: u64,
    /// Operations for which there was no space.
    pub no_space: u64,
}

/// Threads, and what they have done.
#[derive(Debug)]
pub struct Crowd {
    /// The threads.
    pub members: Vec<Member>,
    shared: Shared,
    balance: Balance,
}

/// For each thread, the operations that were durable and those that had begun, at one moment.
pub type Moment = Vec<(usize, usize)>;

impl Crowd {
    /// Makes the directories, whose names begin with `name`; `is_supported` says what the file system can do.
    ///
    /// # Errors
    /// The file system's.
    pub fn found(
        file_system: &FileSystem,
        name: &str,
        seed: u64,
        threads: usize,
        is_supported: impl Fn(OperationKind) -> bool,
    ) -> Result<Self> {
        let mut random = Random::new(seed);
        let root = file_system.open_root()?;
        let make = |name: &str| -> Result<InodeHandle> {
            let new = NewFile::new(NewKind::Directory, 0o755);
            file_system.create(&root, name.as_bytes(), &new).with_context(|| name.to_owned())
        };
        let mut members = Vec::new();
        for number in 0..threads {
            let directory = make(&format!("{name}own-{number}"))?;
            members.push(Member::new(number, directory.number(), random.next_u64(), &is_supported));
        }
        let shared = Shared::new(file_system, &make(&format!("{name}shared"))?, &is_supported)?;
        file_system.force()?;
        Ok(Self { members, shared, balance: Balance::new() })
    }

    /// Lets every thread do `operations`, or until `is_over`; meanwhile `watch` runs in this thread, and may look at
    /// what all have been promised ([`Moment`]).
    ///
    /// # Errors
    /// The file system fails where it should not.
    pub fn work<T>(
        &mut self,
        file_system: &FileSystem,
        operations: usize,
        is_over: &AtomicBool,
        watch: impl FnOnce(&Watch<'_>) -> T,
    ) -> Result<(Tally, T)> {
        let shared = &self.shared;
        let marks: Vec<_> = self.members.iter().map(Member::marks).collect();
        let running = AtomicU64::new(self.members.len() as u64);
        thread::scope(|scope| {
            let threads: Vec<_> = self
                .members
                .iter_mut()
                .map(|member| {
                    let running = &running;
                    scope.spawn(move || {
                        let mut balance = Balance::new();
                        let result = member.work(file_system, shared, &mut balance, operations, is_over);
                        running.fetch_sub(1, Relaxed);
                        result.map(|tally| (tally, balance))
                    })
                })
                .collect();
            let watched = watch(&Watch { marks: &marks, running: &running });
            let mut sum = Tally::default();
            for thread in threads {
                let (tally, balance) = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
                sum.own += tally.own;
                sum.shared += tally.shared;
                sum.refused += tally.refused;
                sum.no_space += tally.no_space;
                balance
                    .into_iter()
                    .for_each(|(name, change)| *self.balance.entry(name).or_default() += change);
            }
            Ok((sum, watched))
        })
    }

    /// Compares the file system with the results that the threads got.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, file_system: &Volume) -> Result<()> {
        for member in &self.members {
            let done = member.chronicle.done();
            member.check(file_system, &Promise { fewest: done, most: done, contents: done })?;
        }
        self.shared.check(file_system, Some(&self.balance))
    }

    /// As [`check`](Self::check), after a crash at `moment`.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn check_crash(&self, file_system: &Volume, moment: &Moment) -> Result<()> {
        for (member, (synced, begun)) in self.members.iter().zip(moment) {
            member.check(file_system, &Promise { fewest: *synced, most: *begun, contents: *synced })?;
        }
        self.shared.check(file_system, None)
    }
}

/// A view of threads at work.
#[derive(Debug)]
pub struct Watch<'a> {
    marks: &'a [std::sync::Arc<member::Marks>],
    running: &'a AtomicU64,
}

impl Watch<'_> {
    /// Whether anybody is still at work.
    pub fn is_running(&self) -> bool {
        self.running.load(Relaxed) > 0
    }

    /// Takes something (the device's contents) while threads are at work, with what they had been promised before it and
    /// had begun after it.
    pub fn moment<T>(&self, take: impl FnOnce() -> T) -> (Moment, T) {
        let synced: Vec<usize> = self.marks.iter().map(|marks| marks.synced()).collect();
        let taken = take();
        let begun = self.marks.iter().map(|marks| marks.begun());
        (synced.into_iter().zip(begun).collect(), taken)
    }
}

/// The whole tree, and whether all structures agree.
///
/// # Errors
/// They do not.
pub fn consistent_tree(file_system: &Volume) -> Result<Tree> {
    let tree = Tree::read(file_system)?;
    crate::crash::consistency::check(file_system, &tree)?;
    Ok(tree)
}

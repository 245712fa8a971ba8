//! The walks, in the order of what is best.
//!
//! | walk | takes |
//! |---|---|
//! | [`Walk::Directories`] | all directories |
//! | [`Walk::Files`] with a rank | files that are not written yet and whose rank is no worse: whole and small, whole, partial, inferred |
//! | [`Walk::Last`] | owners, modes and times of directories; names without an inode |
//!
//! Invariants:
//! 1. A walk enters each directory once, so that it ends, and keeps a listing for each level of the path alone.
//! 2. An inode is settled when it is written or given up for good; no later walk writes it again.
//! 3. All names of a file are written in the walk that writes the first.

use std::{collections::HashSet, sync::Arc};

use uxfs_block::spill::first_paths::FirstPaths;
use uxfs_extract::{
    entry::{Metadata, is_safe_component},
    sink::SinkError,
    walk::{
        listing::Listing,
        metadata_of,
        path::{self, LINKS_BYTES},
    },
};
use uxfs_format::units::InodeNumber;
use uxfs_volume::{
    inode::{FileType, Inode, set::InodeSet},
    volume::Volume,
};

use crate::{
    choice::Choice,
    deliver::{Deliverer, Names, SMALL_BYTES},
    evidence::Evidence,
    judge::{Judge, Judgement},
    run::{Report, Stop, Summary},
    state::{Record, State, Verdict},
    taken_names::TakenNames,
    target::Target,
    view::{View, inode_of},
};

/// Names of one directory of which nothing is left that are told only once.
const MOST_LOST_NAMES: usize = 1 << 16;

/// How good a file is: the walks begin with the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Whole, at most [`SMALL_BYTES`].
    Small,
    /// Whole.
    Whole,
    /// In part.
    Partial,
    /// Anything else.
    Inferred,
}

impl Rank {
    /// All, the best first.
    pub const ALL: [Self; 4] = [Self::Small, Self::Whole, Self::Partial, Self::Inferred];

    fn of(judgement: &Judgement) -> Self {
        match judgement.verdict.state {
            State::Whole | State::PerhapsOlder if judgement.layout.data_bytes() <= SMALL_BYTES => Self::Small,
            State::Whole | State::PerhapsOlder => Self::Whole,
            State::Partial => Self::Partial,
            State::Inferred | State::Lost => Self::Inferred,
        }
    }
}

/// What a walk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// Makes directories.
    Directories,
    /// Writes files up to this rank.
    Files(Rank),
    /// Finishes directories, and tells what is lost.
    Last,
}

/// Where a walk begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The directory.
    pub inode: InodeNumber,
    /// Its path in the target; empty for the place itself.
    pub path: Vec<u8>,
}

/// A directory on the way from the start to where the walk is.
struct Level<'a> {
    listing: Listing<'a>,
    inode: Arc<Inode>,
    /// Length of the path above it.
    above_bytes: usize,
    /// Length of its path.
    path_bytes: usize,
    /// Begun in the target.
    is_entered: bool,
    /// What is known of it so far.
    verdict: Verdict,
    /// Names of which nothing was found.
    lost: HashSet<Vec<u8>>,
    /// Names that it has.
    taken: TakenNames,
}

/// All that the walks share.
pub struct Walker<'a, 't, T: Target> {
    view: &'a View,
    judge: Judge<'a>,
    choice: &'a Choice,
    deliverer: Deliverer<'t, T>,
    report: &'a mut dyn Report,
    /// Counts of all records.
    pub summary: Summary,
    settled: InodeSet,
    /// Directories that are in the target.
    made: InodeSet,
    levels: Vec<Level<'a>>,
    path: Vec<u8>,
    /// Of the walk at hand.
    walk: Walk,
    seen_directories: InodeSet,
    settled_now: InodeSet,
    first_paths: FirstPaths,
    /// Files that this walk leaves for later ones.
    pending: u64,
}

type Step = Result<(), Stop>;

impl<'a, 't, T: Target> Walker<'a, 't, T> {
    /// A walker that has not begun.
    pub fn new(
        view: &'a View,
        judge: Judge<'a>,
        choice: &'a Choice,
        deliverer: Deliverer<'t, T>,
        report: &'a mut dyn Report,
    ) -> Self {
        Self {
            view,
            judge,
            choice,
            deliverer,
            report,
            summary: Summary::default(),
            settled: InodeSet::default(),
            made: InodeSet::default(),
            levels: Vec::new(),
            path: Vec::new(),
            walk: Walk::Directories,
            seen_directories: InodeSet::default(),
            settled_now: InodeSet::default(),
            first_paths: FirstPaths::new(LINKS_BYTES),
            pending: 0,
        }
    }

    /// Whether an inode is in the target or given up for good, or a directory that is there.
    pub fn has(&self, inode: InodeNumber) -> bool {
        self.settled.contains(inode) || self.made.contains(inode)
    }

    /// Ends the target.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn finish(mut self) -> Result<Summary, SinkError> {
        self.deliverer.finish()?;
        self.summary.written_bytes = self.deliverer.written_bytes;
        self.summary.not_restored = self.deliverer.not_restored();
        Ok(self.summary)
    }

    /// Ends the directories in which an interrupted walk is: they get their owners, modes and times, and new ones their lines in the
    /// manifest.
    ///
    /// # Errors
    /// The target cannot be written to.
    pub fn abandon(&mut self) -> Result<(), SinkError> {
        while let Some(level) = self.levels.last_mut() {
            level.verdict.add(State::Partial, "interrupted: what is in it may be missing");
            self.leave_level()?;
        }
        Ok(())
    }

    /// All walks from a directory.
    ///
    /// # Errors
    /// The target cannot be written to, or the work was interrupted.
    pub fn take_tree(&mut self, start: &Start) -> Step {
        self.run(Walk::Directories, start)?;
        for rank in Rank::ALL {
            self.run(Walk::Files(rank), start)?;
            if self.pending == 0 {
                break;
            }
        }
        self.run(Walk::Last, start)
    }

    fn run(&mut self, walk: Walk, start: &Start) -> Step {
        self.walk = walk;
        self.pending = 0;
        self.levels.clear();
        self.path.clone_from(&start.path);
        self.seen_directories.clear();
        self.settled_now.clear();
        self.first_paths = FirstPaths::new(LINKS_BYTES);
        let inode = match self.view.inode(start.inode) {
            Ok(inode) => inode,
            Err(error) if walk == Walk::Last => {
                let verdict = Verdict::new(State::Lost, error.to_string());
                return self.tell(Record::new(&start.path, Some(start.inode.get()), verdict));
            }
            Err(_) => return Ok(()),
        };
        self.seen_directories.insert(inode.number);
        self.push(inode, 0)?;
        let mut name = Vec::new();
        while let Some(level) = self.levels.last_mut() {
            drop(self.view.drain());
            let next = level.listing.next(&mut name);
            let passed_over = self.view.drain();
            if let Some(level) = self.levels.last_mut() {
                passed_over.into_iter().for_each(|sentence| level.verdict.add(State::Partial, sentence));
            }
            match next {
                Some(Ok(inode)) => self.visit(&name, inode)?,
                Some(Err(error)) => self.note(State::Partial, error.to_string()),
                None => self.leave()?,
            }
            if self.report.is_interrupted() || self.deliverer.is_interrupted() {
                return Err(Stop::Interrupted);
            }
        }
        Ok(())
    }

    /// Adds to what is known of the current directory.
    fn note(&mut self, state: State, reason: String) {
        if let Some(level) = self.levels.last_mut() {
            level.verdict.add(state, reason);
        }
    }

    fn push(&mut self, inode: Arc<Inode>, above_bytes: usize) -> Step {
        drop(self.view.drain());
        let listing = Listing::new(&self.view.volume, Arc::clone(&inode));
        let mut verdict = self.judge.evidence.of(inode.number);
        self.view.drain().into_iter().for_each(|sentence| verdict.add(State::Partial, sentence));
        let is_wanted = match self.walk {
            Walk::Directories => self.choice.has(&self.path),
            Walk::Files(_) => false,
            Walk::Last => !T::IS_ARCHIVE && self.made.contains(inode.number),
        };
        let (lost, path_bytes) = (HashSet::new(), self.path.len());
        let taken = TakenNames::default();
        let level =
            Level { listing, inode, above_bytes, path_bytes, is_entered: false, verdict, lost, taken };
        self.levels.push(level);
        if is_wanted { self.enter() } else { Ok(()) }
    }

    /// Begins all directories on the way in the target that are not begun yet.
    fn enter(&mut self) -> Step {
        let first = self.levels.iter().position(|level| !level.is_entered).unwrap_or(self.levels.len());
        for index in first..self.levels.len() {
            let Some(level) = self.levels.get_mut(index) else { break };
            level.is_entered = true;
            let inode = Arc::clone(&level.inode);
            let is_new = self.made.insert(inode.number);
            if T::IS_ARCHIVE && !is_new {
                continue;
            }
            let mut metadata = metadata_of(&inode);
            if self.walk != Walk::Last && !T::IS_ARCHIVE {
                // So that others than root can fill it.
                metadata.permissions |= 0o700;
            }
            let judgement = match is_new || self.walk == Walk::Last {
                true => self.judge.judge(&inode),
                false => Judgement::default(),
            };
            let path = self.path.get(..level.path_bytes).unwrap_or_default().to_vec();
            let (is_missing, sentences) =
                self.deliverer.begin_directory(&path, &metadata, &judgement.attributes)?;
            let Some(level) = self.levels.get_mut(index) else { break };
            level.verdict.merge(&judgement.verdict);
            let state = if is_missing { State::Lost } else { State::Whole };
            sentences.into_iter().for_each(|sentence| level.verdict.add(state, sentence));
            if is_new {
                self.summary.new_directories.push(inode.number);
            }
        }
        Ok(())
    }

    /// Leaves the current directory.
    fn leave(&mut self) -> Step {
        if self.walk == Walk::Last {
            self.take_from_before()?;
        }
        Ok(self.leave_level()?)
    }

    fn leave_level(&mut self) -> Result<(), SinkError> {
        let Some(mut level) = self.levels.pop() else { return Ok(()) };
        let number = level.inode.number;
        if level.is_entered && !T::IS_ARCHIVE {
            let sentences = self.deliverer.end_directory(self.walk == Walk::Last)?;
            if self.walk == Walk::Last {
                sentences.into_iter().for_each(|sentence| level.verdict.add(State::Whole, sentence));
            }
        }
        let is_new = self.summary.new_directories.last() == Some(&number);
        if is_new {
            self.summary.new_directories.pop();
            let mut record = Record::new(&self.path, Some(number.get()), level.verdict);
            record.file_type = Some(FileType::Directory);
            record.output = (record.verdict.state != State::Lost).then(|| self.path.clone());
            self.put(record);
        }
        self.path.truncate(level.above_bytes);
        Ok(())
    }

    /// Goes to one entry of the current directory.
    fn visit(&mut self, name: &[u8], number: InodeNumber) -> Step {
        let above_bytes = path::push(&mut self.path, name);
        let is_entered = self.visit_path(name, number, above_bytes)?;
        if !is_entered {
            self.path.truncate(above_bytes);
        }
        Ok(())
    }

    /// Says whether the path now leads into a directory.
    fn visit_path(&mut self, name: &[u8], number: InodeNumber, above_bytes: usize) -> Result<bool, Stop> {
        if let Some(fault) = path::fault(&self.path, name) {
            self.tell_once(number, fault.words())?;
            return Ok(false);
        }
        let inode = match self.view.inode(number) {
            Ok(inode) => inode,
            Err(error) => {
                if self.walk == Walk::Last && !self.settled.contains(number) {
                    self.lose(name, number, &error.to_string())?;
                }
                return Ok(false);
            }
        };
        if inode.file_type() == Some(FileType::Directory) {
            if !self.choice.has(&self.path) && !self.choice.may_lie_below(&self.path) {
                return Ok(false);
            }
            if !self.seen_directories.insert(number) {
                self.tell_once(number, "this directory has another name already")?;
                return Ok(false);
            }
            self.push(inode, above_bytes)?;
            return Ok(true);
        }
        if let Walk::Files(rank) = self.walk
            && self.choice.has(&self.path)
        {
            self.take_file(&inode, rank)?;
        }
        Ok(false)
    }

    /// An entry that no walk can follow, told by the first walk.
    fn tell_once(&mut self, number: InodeNumber, fault: &str) -> Step {
        if self.walk != Walk::Directories || !self.choice.has(&self.path) {
            return Ok(());
        }
        let verdict = Verdict::new(State::Lost, fault);
        self.tell(Record::new(&self.path.clone(), Some(number.get()), verdict))
    }

    /// A name in the current directory of which nothing was found; the path leads to it.
    fn lose(&mut self, name: &[u8], number: InodeNumber, reason: &str) -> Step {
        if !self.choice.has(&self.path) {
            return Ok(());
        }
        if let Some(level) = self.levels.last_mut() {
            if level.lost.contains(name) {
                return Ok(());
            }
            if level.lost.len() < MOST_LOST_NAMES {
                level.lost.insert(name.to_vec());
            }
        }
        let verdict = Verdict::new(State::Lost, reason);
        self.tell(Record::new(&self.path.clone(), Some(number.get()), verdict))
    }

    fn take_file(&mut self, inode: &Arc<Inode>, rank: Rank) -> Step {
        let number = inode.number;
        if self.settled_now.contains(number) {
            return self.take_further_name(inode, self.judge.judge(inode));
        }
        if self.settled.contains(number) {
            return Ok(());
        }
        let judgement = self.judge.judge(inode);
        if Rank::of(&judgement) > rank {
            self.pending += 1;
            return Ok(());
        }
        self.deliver(inode, judgement, self.judge)
    }

    fn deliver(&mut self, inode: &Arc<Inode>, judgement: Judgement, judge: Judge<'_>) -> Step {
        self.enter()?;
        let names = self.names_here();
        let record = self.deliverer.file(&judge, &names, inode, judgement)?;
        self.settled.insert(inode.number);
        self.settled_now.insert(inode.number);
        if let Some(output) = record.output.as_ref().filter(|_| inode.link_count() > 1) {
            let key = (inode.number.get(), 0);
            // Where it cannot be kept, further names are told to be lost.
            let _ = self.first_paths.meet(key, inode.link_count(), output, &mut Vec::new());
        }
        self.tell(record)
    }

    fn take_further_name(&mut self, inode: &Inode, judgement: Judgement) -> Step {
        let mut first = Vec::new();
        let key = (inode.number.get(), 0);
        let is_known = inode.link_count() > 1
            && self.first_paths.meet(key, inode.link_count(), &self.path, &mut first).unwrap_or(false);
        if !is_known {
            let reason = "it is the file of another name, which was not written or counts fewer names";
            let verdict = Verdict::new(State::Lost, reason);
            let mut record = Record::new(&self.path, Some(inode.number.get()), verdict);
            record.file_type = inode.file_type();
            return self.tell(record);
        }
        self.enter()?;
        let names = self.names_here();
        let record = self.deliverer.hard_link(&names, &first, inode, judgement)?;
        self.tell(record)
    }

    /// Names for the current path, which no other file of the directory has.
    fn names_here(&self) -> Names {
        let (level, volume) = (self.levels.last(), &self.view.volume);
        Names::new(&self.path, |name| {
            level.is_some_and(|level| level.taken.contain(volume, &level.inode, name))
        })
    }

    /// Entries that the current directory had before the repair, of inodes that the repair gave up.
    fn take_from_before(&mut self) -> Step {
        let Some(before) = &self.view.before else { return Ok(()) };
        let Some(level) = self.levels.last() else { return Ok(()) };
        let Ok(directory) = inode_of(before, level.inode.number) else { return Ok(()) };
        if directory.file_type() != Some(FileType::Directory) {
            return Ok(());
        }
        let mut listing = Listing::new(before, directory);
        let mut name = Vec::new();
        while let Some(entry) = listing.next(&mut name) {
            let Ok(number) = entry else { continue };
            let is_here = self.has(number) || self.view.inode(number).is_ok();
            if is_here && !self.judge.evidence.is_given_up(number) || !is_safe_component(&name) {
                continue;
            }
            let above_bytes = path::push(&mut self.path, &name);
            self.take_given_up(before, &name, number)?;
            self.path.truncate(above_bytes);
        }
        Ok(())
    }

    /// An inode that the repair gave up; the path leads to it.
    fn take_given_up(&mut self, before: &Volume, name: &[u8], number: InodeNumber) -> Step {
        match inode_of(before, number) {
            Ok(inode) if inode.file_type() != Some(FileType::Directory) && self.choice.has(&self.path) => {
                let evidence = Evidence::default();
                let device = self.judge.device;
                let judge = Judge {
                    volume: before,
                    evidence: &evidence,
                    device,
                    before: None,
                    holes: self.judge.holes,
                };
                let mut judgement = judge.judge(&inode);
                judgement.verdict.add(State::Inferred, "a repair would give it up");
                match self.settled_now.contains(number) {
                    true => self.take_further_name(&inode, judgement),
                    false => self.deliver(&inode, judgement, judge),
                }
            }
            Ok(_) => self.lose(name, number, "a directory that contradicts everything else"),
            Err(error) => self.lose(name, number, &error.to_string()),
        }
    }

    fn tell(&mut self, record: Record) -> Step {
        self.put(record);
        Ok(())
    }

    fn put(&mut self, record: Record) {
        self.summary.add(&record);
        self.report.record(record);
    }

    /// Writes one file that nothing names, below a directory that is begun for it.
    ///
    /// # Errors
    /// As [`take_tree`](Self::take_tree).
    pub fn take_stray(&mut self, inode: &Arc<Inode>, path: &[u8], reason: &str) -> Step {
        let mut judgement = self.judge.judge(inode);
        judgement.verdict.add(State::Inferred, reason);
        let names = Names::new(path, |_| false);
        let record = self.deliverer.file(&self.judge, &names, inode, judgement)?;
        self.settled.insert(inode.number);
        self.tell(record)
    }

    /// Begins a directory that the image does not have, in the place itself.
    ///
    /// # Errors
    /// As [`take_tree`](Self::take_tree).
    pub fn begin_made_up(&mut self, path: &[u8]) -> Step {
        let metadata = Metadata { permissions: 0o700, link_count: 2, ..Metadata::default() };
        self.deliverer.begin_directory(path, &metadata, &[])?;
        Ok(())
    }

    /// Ends the directory begun last.
    ///
    /// # Errors
    /// As [`take_tree`](Self::take_tree).
    pub fn end_made_up(&mut self) -> Step {
        if !T::IS_ARCHIVE {
            self.deliverer.end_directory(true)?;
        }
        Ok(())
    }
}

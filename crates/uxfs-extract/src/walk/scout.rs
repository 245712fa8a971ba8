//! The walk: depth first, in directory order, never twice into one directory.

use std::sync::Arc;

use uxfs_block::spill::first_paths::FirstPaths;
use uxfs_format::{features::Unsupported, units::InodeNumber};
use uxfs_volume::inode::{FileType, Inode, set::InodeSet};
use uxfs_volume::volume::Volume;

use super::{
    Start,
    batch::{Task, Work},
    listing::Listing,
    path::{self, LINKS_BYTES, PathFault},
    pipeline::{Pipeline, Slot},
    problem,
    worker::fill_layout,
};
use crate::{
    chunk::CHUNK_BYTES,
    layout::{FileLayout, FileRange},
    report::{Aspect, Problem, Severity},
};

/// Files up to this size are one task; larger ones are cut up.
const WHOLE_FILE_BYTES: u64 = 256 << 10;
/// Bytes that an entry takes in a chunk beside its data and paths, about.
const ENTRY_BYTES: usize = 2048;
/// A directory on the way from the start to where the walk is.
struct Level<'a> {
    listing: Listing<'a>,
    /// Length of the path above it.
    above_bytes: usize,
}

/// Walks the tree.
pub struct Scout<'a, R> {
    filesystem: &'a Volume,
    pipeline: &'a Pipeline<R>,
    slot: Option<Slot<R>>,
    /// Bytes that the slot's chunk will hold, about.
    planned_bytes: usize,
    levels: Vec<Level<'a>>,
    path: Vec<u8>,
    name: Vec<u8>,
    target: Vec<u8>,
    directories: InodeSet,
    first_paths: FirstPaths,
}

/// The work was stopped.
struct Stopped;

type Step = std::result::Result<(), Stopped>;

impl<'a, R> Scout<'a, R> {
    /// A walk that has not begun.
    pub fn new(filesystem: &'a Volume, pipeline: &'a Pipeline<R>) -> Self {
        Self {
            filesystem,
            pipeline,
            slot: None,
            planned_bytes: 0,
            levels: Vec::new(),
            path: Vec::new(),
            name: Vec::new(),
            target: Vec::new(),
            directories: InodeSet::default(),
            first_paths: FirstPaths::new(LINKS_BYTES),
        }
    }

    /// Walks until the end, or until the work is stopped.
    pub fn run(mut self, start: &Start) {
        if self.walk(start).and_then(|()| self.submit()).is_ok() {
            self.pipeline.complete();
        }
    }

    fn walk(&mut self, start: &Start) -> Step {
        match &start.name {
            Some(name) => self.visit(name, start.inode)?,
            None => match self.filesystem.inode(start.inode) {
                Ok(inode) => self.begin_directory(inode, 0)?,
                Err(error) => self.tell(problem(b"", Aspect::Existence, &error))?,
            },
        }
        while let Some(level) = self.levels.last_mut() {
            let mut name = std::mem::take(&mut self.name);
            let next = level.listing.next(&mut name);
            match next {
                Some(Ok(inode)) => self.visit(&name, inode)?,
                Some(Err(error)) => self.tell(problem(&self.path, Aspect::Directory, &error))?,
                None => self.end_directory()?,
            }
            self.name = name;
        }
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
    fn visit_path(
        &mut self,
        name: &[u8],
        number: InodeNumber,
        above_bytes: usize,
    ) -> std::result::Result<bool, Stopped> {
        match path::fault(&self.path, name) {
            Some(fault @ PathFault::ImpossibleName) => {
                return self.leave_out(Severity::Damaged, fault.words());
            }
            Some(fault @ PathFault::TooLong) => return self.leave_out(Severity::Failed, fault.words()),
            None => {}
        }
        let inode = match self.filesystem.inode(number) {
            Ok(inode) => inode,
            Err(error) => {
                self.tell(problem(&self.path, Aspect::Existence, &error))?;
                return Ok(false);
            }
        };
        if inode.file_type() == Some(FileType::Directory) {
            if !self.directories.insert(number) {
                return self.leave_out(Severity::Damaged, "this directory has another name already");
            }
            self.begin_directory(inode, above_bytes)?;
            return Ok(true);
        }
        self.visit_file(inode)?;
        Ok(false)
    }

    fn leave_out(&mut self, severity: Severity, reason: &str) -> std::result::Result<bool, Stopped> {
        let problem = Problem::new(&self.path, severity, Aspect::Existence, reason);
        self.tell(problem)?;
        Ok(false)
    }

    fn begin_directory(&mut self, inode: Arc<Inode>, above_bytes: usize) -> Step {
        self.directories.insert(inode.number);
        let listing = Listing::new(self.filesystem, Arc::clone(&inode));
        self.levels.push(Level { listing, above_bytes });
        self.add(Work::Entry(inode), 0)
    }

    fn end_directory(&mut self) -> Step {
        self.add(Work::EndDirectory, 0)?;
        if let Some(level) = self.levels.pop() {
            self.path.truncate(level.above_bytes);
        }
        Ok(())
    }

    fn visit_file(&mut self, inode: Arc<Inode>) -> Step {
        if inode.is_realtime() {
            let error = Unsupported::RealtimeData.into();
            return self.tell(problem(&self.path, Aspect::Contents, &error));
        }
        if inode.link_count() > 1 && self.is_further_name(&inode)? {
            return self.add_hard_link(inode);
        }
        if inode.file_type() == Some(FileType::Regular) && inode.size_bytes() > WHOLE_FILE_BYTES {
            return self.add_large_file(inode);
        }
        let data_bytes =
            if inode.file_type() == Some(FileType::Regular) { inode.size_bytes() as usize } else { 0 };
        self.add(Work::Entry(inode), data_bytes)
    }

    /// Whether the file was seen under another name, which is then in `target`. Otherwise the current path is its first. A
    /// file whose first name cannot be kept becomes a file of its own under each name.
    fn is_further_name(&mut self, inode: &Inode) -> std::result::Result<bool, Stopped> {
        let number = inode.number.get();
        match self.first_paths.meet((number, 0), inode.link_count(), &self.path, &mut self.target) {
            Ok(seen) => Ok(seen),
            Err(error) => {
                let reason = format!("is no hard link in the copy: {error}");
                self.tell(Problem::new(&self.path, Severity::Failed, Aspect::Existence, reason))?;
                Ok(false)
            }
        }
    }

    fn add_hard_link(&mut self, inode: Arc<Inode>) -> Step {
        self.make_room(ENTRY_BYTES + self.target.len() + self.path.len())?;
        if let Some(slot) = &mut self.slot {
            let target = slot.batch.add_path(&self.target);
            self.planned_bytes += self.target.len();
            return self.add(Work::HardLink(inode, target), 0);
        }
        Ok(())
    }

    fn add_large_file(&mut self, inode: Arc<Inode>) -> Step {
        let mut layout = FileLayout::default();
        if let Err(error) = fill_layout(&mut layout, self.filesystem, &inode) {
            self.tell(problem(&self.path, Aspect::Contents, &error))?;
        }
        let layout = Arc::new(layout);
        self.add(Work::BeginFile(Arc::clone(&inode), Arc::clone(&layout)), 0)?;
        for range in layout.ranges() {
            let mut rest = *range;
            while rest.length_bytes > 0 {
                let length_bytes = rest.length_bytes.min(CHUNK_BYTES as u64);
                let piece = FileRange { length_bytes, ..rest };
                self.add(Work::Data(Arc::clone(&inode), piece), length_bytes as usize)?;
                rest.offset_bytes += length_bytes;
                rest.length_bytes -= length_bytes;
            }
        }
        self.add(Work::EndFile(layout.data_bytes()), 0)
    }

    /// Adds a task about the current path.
    fn add(&mut self, work: Work, data_bytes: usize) -> Step {
        let head_bytes = if matches!(work, Work::Data(..)) { 64 } else { ENTRY_BYTES };
        let bytes = data_bytes + head_bytes + self.path.len();
        if !matches!(work, Work::HardLink(..)) {
            self.make_room(bytes)?;
        }
        if let Some(slot) = &mut self.slot {
            let path = slot.batch.add_path(&self.path);
            slot.batch.tasks.push(Task { path, work });
            self.planned_bytes += bytes;
        }
        Ok(())
    }

    fn tell(&mut self, problem: Problem) -> Step {
        self.make_room(ENTRY_BYTES)?;
        self.planned_bytes += ENTRY_BYTES;
        self.slot.iter_mut().for_each(|slot| slot.chunk.problems.push(problem.clone()));
        Ok(())
    }

    /// Sees to it that there is a slot with room for that much, or an empty one.
    fn make_room(&mut self, bytes: usize) -> Step {
        if self.planned_bytes > 0 && self.planned_bytes + bytes > CHUNK_BYTES {
            self.submit()?;
        }
        if self.slot.is_none() {
            self.slot = Some(self.pipeline.take_free().ok_or(Stopped)?);
        }
        Ok(())
    }

    fn submit(&mut self) -> Step {
        self.planned_bytes = 0;
        self.slot.take().into_iter().for_each(|slot| self.pipeline.submit(slot));
        Ok(())
    }
}

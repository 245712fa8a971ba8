//! From tasks to the contents of a chunk.

use std::ops::ControlFlow;

use uxfs_volume::volume::Volume;
use uxfs_volume::{
    attribute::xattr::XattrView,
    error::Result,
    file_data::ranges::DataRange,
    inode::{FileType, Fork, Inode, InodeFlags},
};

use super::{
    batch::{Batch, Work},
    metadata_of,
    pipeline::{Pipeline, Slot},
    problem, reads,
};
use crate::{
    chunk::{Chunk, PendingRead},
    entry::{Attribute, Body, Device, Entry, Special},
    layout::{FileLayout, FileRange, HoleHistogram, MAX_RANGES},
    report::{Aspect, Problem, Severity},
    sink::Encoder,
};

/// Names and values that one file can have. Linux itself cannot list more than 64 KiB of names.
const MAX_ATTRIBUTE_BYTES: usize = 16 << 20;

/// Encodes batches.
pub struct Worker<'a, E: Encoder> {
    filesystem: &'a Volume,
    encoder: E,
    attributes: Vec<Attribute>,
    layout: FileLayout,
    reads: Vec<PendingRead>,
}

impl<'a, E: Encoder> Worker<'a, E> {
    /// With an encoder of its own.
    pub fn new(filesystem: &'a Volume, encoder: E) -> Self {
        Self { filesystem, encoder, attributes: Vec::new(), layout: FileLayout::default(), reads: Vec::new() }
    }

    /// Works until there is nothing more to do.
    pub fn run(mut self, pipeline: &Pipeline<E::Record>) {
        while let Some(mut slot) = pipeline.take_waiting() {
            self.encode(&mut slot);
            pipeline.deliver(slot);
        }
    }

    fn encode(&mut self, slot: &mut Slot<E::Record>) {
        let Slot { batch, chunk, .. } = slot;
        self.reads.clear();
        for (index, task) in batch.tasks.iter().enumerate() {
            let path = batch.path(&task.path);
            self.encode_task(index, path, &task.work, batch, chunk);
        }
        let Chunk { bytes, problems, .. } = chunk;
        reads::execute(self.filesystem.device().as_ref(), &self.reads, bytes, |read, mut problem| {
            let path = batch.tasks.get(read.task).map(|task| batch.path(&task.path));
            problem.path = path.unwrap_or_default().to_vec();
            problems.push(problem);
        });
    }

    fn encode_task(
        &mut self,
        index: usize,
        path: &[u8],
        work: &Work,
        batch: &Batch,
        chunk: &mut Chunk<E::Record>,
    ) {
        match work {
            Work::Entry(inode) => self.encode_entry(index, path, inode, chunk),
            Work::HardLink(inode, target) => {
                let is_device =
                    matches!(inode.file_type(), Some(FileType::CharacterDevice | FileType::BlockDevice));
                let body = Body::HardLink { target: batch.path(target), is_device };
                let metadata = metadata_of(inode);
                self.encoder.entry(&Entry { path, metadata: &metadata, attributes: &[], body }, chunk);
            }
            Work::BeginFile(inode, layout) => {
                self.load_attributes(path, inode, chunk);
                self.put(path, inode, Body::File(layout), chunk);
            }
            Work::Data(inode, range) => {
                self.put_data(index, inode, *range, chunk);
            }
            Work::EndFile(data_bytes) => self.encoder.end_file(*data_bytes, chunk),
            Work::EndDirectory => self.encoder.end_directory(chunk),
        }
    }

    fn encode_entry(&mut self, index: usize, path: &[u8], inode: &Inode, chunk: &mut Chunk<E::Record>) {
        self.load_attributes(path, inode, chunk);
        let device = {
            let number = inode.device_number();
            Device { major: number.major, minor: number.minor }
        };
        match inode.file_type() {
            Some(FileType::Regular) => self.put_file(index, path, inode, chunk),
            Some(FileType::Directory) => self.put(path, inode, Body::Directory, chunk),
            Some(FileType::SymbolicLink) => match self.filesystem.read_symlink(inode) {
                Ok(target) => self.put(path, inode, Body::Symlink(&target), chunk),
                Err(error) => chunk.problems.push(problem(path, Aspect::Contents, &error)),
            },
            Some(FileType::CharacterDevice) => {
                self.put(path, inode, Body::Special(Special::CharacterDevice(device)), chunk);
            }
            Some(FileType::BlockDevice) => {
                self.put(path, inode, Body::Special(Special::BlockDevice(device)), chunk)
            }
            Some(FileType::Fifo) => self.put(path, inode, Body::Special(Special::Fifo), chunk),
            Some(FileType::Socket) => self.put(path, inode, Body::Special(Special::Socket), chunk),
            // Directories lead to inodes in use only: reading another is refused.
            None => {}
        }
    }

    /// Reads the attributes, as many as fit in bounded memory; tells what is missing.
    fn load_attributes(&mut self, path: &[u8], inode: &Inode, chunk: &mut Chunk<E::Record>) {
        self.attributes.clear();
        let (attributes, mut total_bytes) = (&mut self.attributes, 0);
        let visit = |name: &[u8], value: &[u8]| {
            total_bytes += name.len() + value.len();
            if total_bytes > MAX_ATTRIBUTE_BYTES {
                return Ok(ControlFlow::Break(()));
            }
            attributes.push(Attribute { name: name.to_vec(), value: value.to_vec() });
            Ok(ControlFlow::Continue(()))
        };
        let reader = self.filesystem.attributes(inode);
        let result = reader.and_then(|reader| reader.visit_xattrs(XattrView::Copy, visit));
        if let Err(error) = result {
            chunk.problems.push(problem(path, Aspect::Attribute, &error));
        } else if total_bytes > MAX_ATTRIBUTE_BYTES {
            let reason = "more attributes than fit in memory; the others are left out";
            chunk.problems.push(Problem::new(path, Severity::NotRestored, Aspect::Attribute, reason));
        }
    }

    fn put(&mut self, path: &[u8], inode: &Inode, body: Body<'_>, chunk: &mut Chunk<E::Record>) {
        let metadata = metadata_of(inode);
        self.encoder.entry(&Entry { path, metadata: &metadata, attributes: &self.attributes, body }, chunk);
    }

    /// A whole file, small enough for one chunk.
    fn put_file(&mut self, index: usize, path: &[u8], inode: &Inode, chunk: &mut Chunk<E::Record>) {
        let mut layout = std::mem::take(&mut self.layout);
        if let Err(error) = fill_layout(&mut layout, self.filesystem, inode) {
            chunk.problems.push(problem(path, Aspect::Contents, &error));
        }
        self.put(path, inode, Body::File(&layout), chunk);
        for range in layout.ranges() {
            self.put_data(index, inode, *range, chunk);
        }
        self.encoder.end_file(layout.data_bytes(), chunk);
        self.layout = layout;
    }

    fn put_data(&mut self, task: usize, inode: &Inode, range: FileRange, chunk: &mut Chunk<E::Record>) {
        let span = chunk.bytes.reserve(range.length_bytes as usize);
        // The layout comes from the same extents, so that what is wrong with them has been told.
        let _ =
            reads::plan(self.filesystem, inode, range, span.clone(), task, &mut chunk.bytes, &mut self.reads);
        self.encoder.data(range.offset_bytes, span, chunk);
    }
}

/// Makes `layout` that of the file. Unwritten extents are holes.
///
/// # Errors
/// The extents are damaged: then the file is one hole.
pub fn fill_layout(layout: &mut FileLayout, filesystem: &Volume, inode: &Inode) -> Result<()> {
    layout.reset(inode.size_bytes());
    let ranges = filesystem.data_ranges(inode)?;
    let mut smallest_hole_bytes = 0;
    if inode.extent_count(Fork::Data) >= MAX_RANGES as u64 {
        let mut histogram = HoleHistogram::new();
        let mut end: u64 = 0;
        for range in ranges.clone() {
            histogram.add(range.offset_bytes.saturating_sub(end));
            end = range.end_bytes();
        }
        smallest_hole_bytes = histogram.smallest_hole_bytes();
    }
    for DataRange { offset_bytes, length_bytes, .. } in ranges {
        layout.push(FileRange { offset_bytes, length_bytes }, smallest_hole_bytes);
    }
    Ok(())
}

/// Whether a file has flags that a sink does not carry over. Those about allocation mean nothing elsewhere.
pub fn has_flags(inode: &Inode) -> bool {
    let carried = InodeFlags::IMMUTABLE
        | InodeFlags::APPEND
        | InodeFlags::SYNCHRONOUS
        | InodeFlags::NO_ACCESS_TIME
        | InodeFlags::NO_DUMP;
    inode.flags().intersects(carried)
}

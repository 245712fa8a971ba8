//! What can be had of one file: its contents and what of them is missing, its attributes, and what is doubtful about it.

use std::ops::{ControlFlow, Range};

use uxfs_block::ranges::RangeSet;
use uxfs_extract::{
    entry::Attribute,
    layout::{FileLayout, FileRange},
};
use uxfs_format::inode::Fork;
use uxfs_volume::{
    attribute::xattr::XattrView,
    error::Error,
    file_data::ranges::DataRange,
    inode::{FileType, Inode},
    volume::Volume,
};

use crate::{
    device::RescueDevice,
    evidence::Evidence,
    state::{State, Verdict},
    view::{PASSED_OVER, drain, inode_of},
};

/// Names and values of attributes that one file can have.
const MOST_ATTRIBUTE_BYTES: usize = 16 << 20;
/// Missing ranges that are listed of one file.
pub const MOST_MISSING: usize = 1 << 12;

/// Missing bytes of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    set: RangeSet,
}

impl Missing {
    /// Adds bytes of the file.
    pub fn add(&mut self, range: Range<u64>) {
        self.set.insert(range);
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// How many bytes are missing.
    pub fn total_bytes(&self) -> u64 {
        self.set.total_bytes()
    }

    /// The first ranges.
    pub fn listed(&self) -> Vec<FileRange> {
        let ranges = self.set.iter().take(MOST_MISSING);
        ranges
            .map(|range| FileRange { offset_bytes: range.start, length_bytes: range.end - range.start })
            .collect()
    }
}

/// What can be had of a file.
#[derive(Debug, Default)]
pub struct Judgement {
    /// State and reasons, so far as they are known before the contents are read.
    pub verdict: Verdict,
    /// Extended attributes and ACLs that could be read.
    pub attributes: Vec<Attribute>,
    /// Size and data of a regular file; what is missing is a hole.
    pub layout: FileLayout,
    /// What is missing of a regular file.
    pub missing: Missing,
    /// Bytes of written extents of a regular file that lie in holes of the image file.
    pub hole_bytes: u64,
    /// Target of a symbolic link.
    pub link_target: Option<Vec<u8>>,
}

/// Where files are judged.
#[derive(Debug, Clone, Copy)]
pub struct Judge<'a> {
    /// The file system.
    pub volume: &'a Volume,
    /// What is doubtful.
    pub evidence: &'a Evidence,
    /// The device, which knows what of it cannot be read.
    pub device: &'a RescueDevice,
    /// The file system before the repair, where there was one.
    pub before: Option<&'a Volume>,
    /// Holes of the image file.
    pub holes: &'a RangeSet,
}

impl Judge<'_> {
    /// Judges a file or directory that has been read.
    pub fn judge(&self, inode: &Inode) -> Judgement {
        // What was passed over before belongs to another file.
        drop(drain(self.volume));
        let mut judgement = Judgement { verdict: self.evidence.of(inode.number), ..Judgement::default() };
        self.compare_with_before(inode, &mut judgement);
        self.read_attributes(inode, &mut judgement);
        match inode.file_type() {
            Some(FileType::Regular) => self.read_extents(inode, &mut judgement),
            Some(FileType::SymbolicLink) => match self.volume.read_symlink(inode) {
                Ok(target) => judgement.link_target = Some(target),
                Err(error) => judgement.verdict.add(State::Lost, error.to_string()),
            },
            _ => {}
        }
        for sentence in drain(self.volume) {
            judgement.verdict.add(PASSED_OVER, sentence);
        }
        judgement
    }

    /// Repairs make directories again of which nothing was left but parent pointers that name them.
    fn compare_with_before(&self, inode: &Inode, judgement: &mut Judgement) {
        let Some(before) = self.before else { return };
        let was_there = inode_of(before, inode.number).is_ok_and(|old| old.file_type() == inode.file_type());
        if !was_there && !self.evidence.is_from_log(inode.number) {
            let reason = "its inode was made again: mode, owner and times are guesses";
            judgement.verdict.add(State::Inferred, reason);
            match inode.file_type() {
                Some(FileType::Directory) => {
                    judgement
                        .verdict
                        .add(State::Partial, "names in it may be missing of files that are lost, too");
                }
                Some(FileType::Regular) if self.evidence.is_stand_in(inode.number) => {
                    judgement.verdict.add(State::Lost, "nothing of its contents was found");
                }
                _ => {}
            }
        }
        drop(drain(before));
    }

    fn read_attributes(&self, inode: &Inode, judgement: &mut Judgement) {
        let (attributes, mut total_bytes) = (&mut judgement.attributes, 0);
        let visit = |name: &[u8], value: &[u8]| {
            total_bytes += name.len() + value.len();
            if total_bytes > MOST_ATTRIBUTE_BYTES {
                return Ok(ControlFlow::Break(()));
            }
            attributes.push(Attribute { name: name.to_vec(), value: value.to_vec() });
            Ok(ControlFlow::Continue(()))
        };
        let reader = self.volume.attributes(inode);
        let result = reader.and_then(|reader| reader.visit_xattrs(XattrView::Copy, visit));
        if let Err(error) = result {
            judgement.verdict.add(State::Partial, format!("attributes are missing: {error}"));
        } else if total_bytes > MOST_ATTRIBUTE_BYTES {
            judgement.verdict.add(State::Partial, "more attributes than fit in memory");
        }
        if self.volume.lost_extents(inode, Fork::Attribute).is_some() {
            judgement
                .verdict
                .add(State::Partial, "attributes are missing: a part of their extent map is lost");
        }
    }

    fn read_extents(&self, inode: &Inode, judgement: &mut Judgement) {
        let size = inode.size_bytes();
        judgement.layout.reset(size);
        let mut data = Vec::new();
        let mut gather = Gather { judge: self, size, judgement, data: &mut data };
        match gather.of_known_parts(inode) {
            Ok(()) => {}
            Err(error @ Error::Unsupported(_)) => {
                judgement.verdict.add(State::Lost, error.to_string());
                return;
            }
            Err(error) => {
                judgement.verdict.add(State::Partial, error.to_string());
                judgement.missing.add(0..size);
            }
        }
        if self.evidence.is_without_blocks(inode.number) {
            let reason = "blocks of it are missing; any hole may stand for lost bytes";
            judgement.verdict.add(State::Partial, reason);
            let mut position = 0;
            for range in &data {
                judgement.missing.add(position..range.start);
                position = range.end.max(position);
            }
            judgement.missing.add(position..size);
        }
        for range in data {
            for part in judgement.missing.set.without(range) {
                let length_bytes = part.end - part.start;
                judgement.layout.push(FileRange { offset_bytes: part.start, length_bytes }, 0);
            }
        }
    }
}

/// Gathers the data of one file.
struct Gather<'a, 'j> {
    judge: &'a Judge<'a>,
    size: u64,
    judgement: &'j mut Judgement,
    data: &'j mut Vec<Range<u64>>,
}

impl Gather<'_, '_> {
    /// The extents of the parts of the file whose extent map could be read; the other parts are missing.
    fn of_known_parts(&mut self, inode: &Inode) -> Result<(), Error> {
        let volume = self.judge.volume;
        // Reads the map, so that its lost parts are known.
        volume.data_ranges_between(inode, 0, 0)?;
        let block_log = volume.geometry().block_log;
        let byte_of = |block: u64| {
            block.checked_shl(block_log).filter(|byte| byte >> block_log == block).unwrap_or(u64::MAX)
        };
        let mut position = 0;
        for lost in volume.lost_extents(inode, Fork::Data).iter().flat_map(|lost| lost.iter()) {
            let lost = byte_of(lost.start).min(self.size)..byte_of(lost.end).min(self.size);
            self.of_part(inode, position..lost.start)?;
            if !lost.is_empty() {
                self.judgement.verdict.add(State::Partial, "a part of its extent map is lost");
                self.judgement.missing.add(lost.clone());
            }
            position = lost.end;
        }
        self.of_part(inode, position..self.size)
    }

    fn of_part(&mut self, inode: &Inode, part: Range<u64>) -> Result<(), Error> {
        if part.is_empty() {
            return Ok(());
        }
        for range in self.judge.volume.data_ranges_between(inode, part.start, part.end)? {
            self.add(&range);
        }
        Ok(())
    }

    fn add(&mut self, range: &DataRange) {
        self.data.push(range.offset_bytes..range.end_bytes());
        let on_device =
            range.device_offset_bytes..range.device_offset_bytes.saturating_add(range.length_bytes);
        for lost in unreadable_bytes(self.judge.device, range) {
            self.judgement.verdict.add(State::Partial, UNREADABLE);
            self.judgement.missing.add(lost);
        }
        let holes = self.judge.holes.within(on_device.clone());
        let hole_bytes: u64 = holes.map(|hole| hole.end - hole.start).sum();
        if hole_bytes > 0 {
            self.judgement.hole_bytes = self.judgement.hole_bytes.saturating_add(hole_bytes);
            self.judgement.verdict.add(State::Whole, IN_HOLES);
        }
        if self.judge.evidence.suspect().touches(on_device) {
            let reason = "something else claims blocks of it, too: its contents may be another file's";
            self.judgement.verdict.add(State::Inferred, reason);
        }
    }
}

/// Why a file is partial whose blocks lie in bad sectors.
pub const UNREADABLE: &str = "blocks of it cannot be read from the device";

/// The reason given for a file with zeros in holes of the image file.
pub const IN_HOLES: &str =
    "zeros of it lie in holes of the image file, which may stand for what a copy could not read";

/// Bytes of the file that lie in unreadable parts of the device.
pub fn unreadable_bytes(device: &RescueDevice, range: &DataRange) -> Vec<Range<u64>> {
    let start = range.device_offset_bytes;
    let unreadable = device.unreadable_in(start..start.saturating_add(range.length_bytes));
    let to_file = |byte: u64| range.offset_bytes.saturating_add(byte.saturating_sub(start));
    unreadable.into_iter().map(|part| to_file(part.start)..to_file(part.end)).collect()
}

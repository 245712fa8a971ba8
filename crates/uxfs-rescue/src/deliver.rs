//! One file to the target.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use sha2::{Digest, Sha256};
use uxfs_extract::{
    chunk::{CHUNK_BYTES, Chunk},
    entry::{Attribute, Body, Device, Entry, Metadata, Special, last_component},
    layout::FileLayout,
    sink::{Encoder, SinkError},
    walk::metadata_of,
};
use uxfs_volume::inode::{FileType, Inode};

use crate::{
    judge::{Judge, Judgement, UNREADABLE, unreadable_bytes},
    state::{Record, State},
    target::{NotRestored, Problems, Target},
};

/// Files up to this size are small: they are read before anything of them is written to an archive.
pub const SMALL_BYTES: u64 = CHUNK_BYTES as u64;
/// Holes of a file that are hashed. Hashing zeros takes time; a file may have 2^63 of them.
const MOST_HASHED_HOLES_BYTES: u64 = 16 << 30;
/// Longest name of a file.
const MOST_NAME_BYTES: usize = 255;
/// What the name of a file ends with of which something is missing.
pub(crate) const PARTIAL: &[u8] = b".partial";

/// What is written, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Files of which bytes are missing are not written.
    pub skips_partial: bool,
    /// Largest size of a file.
    pub most_file_bytes: Option<u64>,
    /// Most bytes of contents in all.
    pub most_total_bytes: Option<u64>,
    /// Files that an earlier run has completed are kept.
    pub resumes: bool,
    /// Contents are hashed.
    pub hashes: bool,
}

/// Writes to the target.
pub struct Deliverer<'t, T: Target> {
    target: &'t mut T,
    encoder: T::Encoder,
    chunk: Chunk<T::Record>,
    problems: Problems,
    limits: Limits,
    interrupt: Arc<AtomicBool>,
    /// Bytes of contents so far.
    pub written_bytes: u64,
}

/// A file's names: where it goes when it is complete, and where it is until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Path of a complete file.
    pub whole: Vec<u8>,
    /// Path of a file of which something is missing.
    pub partial: Vec<u8>,
}

impl Names {
    /// For a path. `is_taken` says whether the directory has a file of that name.
    pub fn new(path: &[u8], mut is_taken: impl FnMut(&[u8]) -> bool) -> Self {
        let name = last_component(path);
        let folder = path.get(..path.len() - name.len()).unwrap_or_default();
        let mut suffix = PARTIAL.to_vec();
        for number in 2..1000_u32 {
            let candidate = with_suffix(name, &suffix);
            if !is_taken(&candidate) {
                break;
            }
            suffix = [PARTIAL, format!(".{number}").as_bytes()].concat();
        }
        Self { whole: path.to_vec(), partial: [folder, &with_suffix(name, &suffix)].concat() }
    }
}

/// A name with a suffix, shortened where it would be too long.
fn with_suffix(name: &[u8], suffix: &[u8]) -> Vec<u8> {
    let room = MOST_NAME_BYTES - suffix.len();
    let mut end = name.len().min(room);
    // Not in the middle of a character.
    while end < name.len() && end > 0 && name.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
        end -= 1;
    }
    let kept = if end == 0 { name.get(..room.min(name.len())) } else { name.get(..end) };
    [kept.unwrap_or_default(), suffix].concat()
}

/// Hashes contents that come in order, with zeros between.
struct Hasher {
    sha: Sha256,
    position: u64,
}

impl Hasher {
    fn new(layout: &FileLayout, is_wanted: bool) -> Option<Self> {
        let holes_bytes = layout.size_bytes().saturating_sub(layout.data_bytes());
        (is_wanted && holes_bytes <= MOST_HASHED_HOLES_BYTES)
            .then(|| Self { sha: Sha256::new(), position: 0 })
    }

    fn zeros_until(&mut self, offset_bytes: u64) {
        let zeros = [0; 4096];
        while self.position < offset_bytes {
            let length = (offset_bytes - self.position).min(4096);
            self.sha.update(zeros.get(..length as usize).unwrap_or_default());
            self.position += length;
        }
    }

    fn add(&mut self, offset_bytes: u64, bytes: &[u8]) {
        self.zeros_until(offset_bytes);
        self.sha.update(bytes);
        self.position += bytes.len() as u64;
    }

    fn finish(mut self, size_bytes: u64) -> [u8; 32] {
        self.zeros_until(size_bytes);
        self.sha.finalize().into()
    }
}

impl<'t, T: Target> Deliverer<'t, T> {
    /// Into a target.
    pub fn new(target: &'t mut T, limits: Limits, interrupt: Arc<AtomicBool>) -> Self {
        let encoder = target.encoder();
        let (chunk, problems) = (Chunk::new(), Problems::default());
        Self { target, encoder, chunk, problems, limits, interrupt, written_bytes: 0 }
    }

    /// Metadata that was not restored.
    pub fn not_restored(&mut self) -> NotRestored {
        std::mem::take(&mut self.problems.not_restored)
    }

    /// Whether the work is to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.load(Relaxed)
    }

    /// Ends the target.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        self.target.finish(&mut self.problems)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.problems.list.append(&mut self.chunk.problems);
        self.target.write(&self.chunk, &mut self.problems)?;
        self.chunk.clear();
        Ok(())
    }

    fn put(
        &mut self,
        path: &[u8],
        metadata: &Metadata,
        attributes: &[Attribute],
        body: Body<'_>,
    ) -> Result<(), SinkError> {
        self.encoder.entry(&Entry { path, metadata, attributes, body }, &mut self.chunk);
        self.flush()
    }

    /// Begins a directory; gives what went wrong, and whether nothing can be put into it.
    ///
    /// # Errors
    /// The target cannot be written to.
    pub fn begin_directory(
        &mut self,
        path: &[u8],
        metadata: &Metadata,
        attributes: &[Attribute],
    ) -> Result<(bool, Vec<String>), SinkError> {
        self.put(path, metadata, attributes, Body::Directory)?;
        Ok(self.problems.take())
    }

    /// Ends the directory begun last; gives what went wrong. A later walk may come back to it, unless this is the last.
    ///
    /// # Errors
    /// The target cannot be written to.
    pub fn end_directory(&mut self, is_last: bool) -> Result<Vec<String>, SinkError> {
        self.encoder.end_directory(&mut self.chunk);
        self.flush()?;
        let (_, sentences) = if is_last { self.problems.take() } else { self.problems.take_uncounted() };
        Ok(sentences)
    }

    /// Writes a further name of a file.
    ///
    /// # Errors
    /// The target cannot be written to.
    pub fn hard_link(
        &mut self,
        names: &Names,
        first: &[u8],
        inode: &Inode,
        judgement: Judgement,
    ) -> Result<Record, SinkError> {
        let mut record = record_of(names, inode, &judgement);
        let output = if judgement.missing.is_empty() { &names.whole } else { &names.partial };
        let is_device = matches!(inode.file_type(), Some(FileType::CharacterDevice | FileType::BlockDevice));
        if self.limits.resumes && !T::IS_ARCHIVE {
            let _ = self.target.remove(last_component(output));
        }
        self.put(output, &metadata_of(inode), &[], Body::HardLink { target: first, is_device })?;
        record.hard_link_to = Some(first.to_vec());
        self.close(&mut record, output);
        Ok(record)
    }

    /// Writes a file that is no directory.
    ///
    /// # Errors
    /// The target cannot be written to.
    pub fn file(
        &mut self,
        judge: &Judge<'_>,
        names: &Names,
        inode: &Inode,
        judgement: Judgement,
    ) -> Result<Record, SinkError> {
        let mut record = record_of(names, inode, &judgement);
        if self.target.is_skipping() {
            record.verdict.add(State::Lost, "its directory could not be made");
        }
        if record.verdict.state == State::Lost {
            return Ok(record);
        }
        let device = inode.device_number();
        let device = Device { major: device.major, minor: device.minor };
        let body = match inode.file_type() {
            Some(FileType::Regular) => return self.regular(judge, names, inode, judgement, record),
            Some(FileType::SymbolicLink) => {
                Body::Symlink(judgement.link_target.as_deref().unwrap_or_default())
            }
            Some(FileType::CharacterDevice) => Body::Special(Special::CharacterDevice(device)),
            Some(FileType::BlockDevice) => Body::Special(Special::BlockDevice(device)),
            Some(FileType::Fifo) => Body::Special(Special::Fifo),
            Some(FileType::Socket) => Body::Special(Special::Socket),
            Some(FileType::Directory) | None => return Ok(record),
        };
        let path = self.free_path(&names.whole);
        note_other_name(&mut record, &path, &names.whole);
        self.put(&path, &metadata_of(inode), &judgement.attributes, body)?;
        self.close(&mut record, &path);
        Ok(record)
    }

    /// Why a file is not written.
    fn refusal(&self, judgement: &Judgement) -> Option<(State, String)> {
        let (size, data) = (judgement.layout.size_bytes(), judgement.layout.data_bytes());
        if let Some(most) = self.limits.most_file_bytes.filter(|most| size > *most) {
            return Some((
                State::Lost,
                format!("not written: its size of {size} bytes is over the limit of {most}"),
            ));
        }
        if let Some(most) = self.limits.most_total_bytes
            && self.written_bytes.saturating_add(data) > most
        {
            return Some((State::Lost, format!("not written: the limit of {most} bytes in all is reached")));
        }
        let is_partial = !judgement.missing.is_empty();
        (is_partial && self.limits.skips_partial)
            .then(|| (State::Partial, "not written: parts are missing".to_owned()))
    }

    fn regular(
        &mut self,
        judge: &Judge<'_>,
        names: &Names,
        inode: &Inode,
        mut judgement: Judgement,
        mut record: Record,
    ) -> Result<Record, SinkError> {
        if T::IS_ARCHIVE && (inode.size_bytes() <= SMALL_BYTES || judge.device.failed_bytes() > 0) {
            // The name comes before the contents, and must say whether they are complete.
            self.try_reading(judge, inode, &mut judgement);
        }
        if let Some((state, reason)) = self.refusal(&judgement) {
            record.verdict.add(state, reason);
            settle_missing(&mut record, &judgement);
            return Ok(record);
        }
        let is_partial = !judgement.missing.is_empty();
        let metadata = metadata_of(inode);
        if self.limits.resumes && !T::IS_ARCHIVE {
            let name = last_component(&names.whole);
            if !is_partial && self.target.has_same_file(name, inode.size_bytes(), metadata.modified) {
                record.is_kept = true;
                record.output = Some(names.whole.clone());
                return Ok(record);
            }
            let _ = self.target.remove(name);
        }
        let begun = match T::IS_ARCHIVE && !is_partial {
            true => names.whole.clone(),
            false => self.free_path(&names.partial),
        };
        self.put(&begun, &metadata, &judgement.attributes, Body::File(&judgement.layout))?;
        let mut hasher = Hasher::new(&judgement.layout, self.limits.hashes);
        if self.target.takes_data() {
            self.contents(judge, inode, &mut judgement, hasher.as_mut())?;
        }
        self.encoder.end_file(judgement.layout.data_bytes(), &mut self.chunk);
        self.flush()?;
        settle_missing(&mut record, &judgement);
        let is_complete = judgement.missing.is_empty();
        self.close(&mut record, &begun);
        if record.output.is_some() {
            record.sha256 = hasher.map(|hasher| hasher.finish(inode.size_bytes()));
            if is_complete && !T::IS_ARCHIVE {
                self.give_name(&mut record, &begun, &names.whole);
            }
        }
        Ok(record)
    }

    /// The path, or another where a file of this rescue has it: a damaged directory may have a name twice, and a target that does not tell
    /// upper from lower case takes two names for one.
    /// What an earlier rescue left is replaced.
    fn free_path(&self, path: &[u8]) -> Vec<u8> {
        let is_taken = |path: &[u8]| self.target.has(last_component(path));
        match self.limits.resumes {
            true => path.to_vec(),
            false => free_path(path, is_taken),
        }
    }

    /// Names a complete file.
    fn give_name(&mut self, record: &mut Record, begun: &[u8], whole: &[u8]) {
        let path = self.free_path(whole);
        note_other_name(record, &path, whole);
        match self.target.rename(last_component(begun), last_component(&path)) {
            Ok(()) => record.output = Some(path),
            Err(error) => record.verdict.add(State::Inferred, format!("cannot have its name: {error}")),
        }
    }

    /// Reads the contents for nothing, so that failing sectors are known.
    fn try_reading(&mut self, judge: &Judge<'_>, inode: &Inode, judgement: &mut Judgement) {
        let ranges = judgement.layout.ranges().to_vec();
        let mut scratch = vec![0; CHUNK_BYTES];
        for range in ranges {
            for (offset_bytes, length) in pieces(range.offset_bytes, range.length_bytes) {
                read_piece(
                    judge,
                    inode,
                    offset_bytes,
                    scratch.get_mut(..length).unwrap_or_default(),
                    judgement,
                );
            }
        }
    }

    /// Reads the contents, and writes them a piece at a time.
    fn contents(
        &mut self,
        judge: &Judge<'_>,
        inode: &Inode,
        judgement: &mut Judgement,
        mut hasher: Option<&mut Hasher>,
    ) -> Result<(), SinkError> {
        let ranges = judgement.layout.ranges().to_vec();
        for range in ranges {
            for (offset_bytes, length) in pieces(range.offset_bytes, range.length_bytes) {
                // An archive has promised all of them already.
                if !T::IS_ARCHIVE && self.is_interrupted() {
                    judgement.verdict.add(State::Partial, "interrupted");
                    judgement.missing.add(offset_bytes..range.end_bytes());
                    break;
                }
                let span = self.chunk.bytes.reserve(length);
                let bytes = self.chunk.bytes.span_mut(span.clone());
                read_piece(judge, inode, offset_bytes, bytes, judgement);
                hasher.iter_mut().for_each(|hasher| hasher.add(offset_bytes, bytes));
                self.encoder.data(offset_bytes, span, &mut self.chunk);
                self.written_bytes = self.written_bytes.saturating_add(length as u64);
                if self.chunk.bytes.len() >= CHUNK_BYTES {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Takes what the sink said of the file.
    fn close(&mut self, record: &mut Record, output: &[u8]) {
        let (is_missing, sentences) = self.problems.take();
        sentences.into_iter().for_each(|sentence| record.verdict.add(State::Whole, sentence));
        if is_missing {
            record.verdict.add(State::Lost, "it could not be written");
        } else {
            record.output = Some(output.to_vec());
        }
    }
}

/// The path, with the first number behind it that makes it free.
fn free_path(path: &[u8], is_taken: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let numbered = (2..1000_u32).map(|number| {
        let name = last_component(path);
        let folder = path.get(..path.len() - name.len()).unwrap_or_default();
        [folder, &with_suffix(name, format!(".{number}").as_bytes())].concat()
    });
    std::iter::once(path.to_vec())
        .chain(numbered)
        .find(|path| !is_taken(path))
        .unwrap_or_else(|| path.to_vec())
}

fn note_other_name(record: &mut Record, path: &[u8], wanted: &[u8]) {
    if path != wanted {
        let reason = "its name is taken in the target, by one that is the same or differs in case only";
        record.verdict.add(State::Inferred, reason);
    }
}

fn record_of(names: &Names, inode: &Inode, judgement: &Judgement) -> Record {
    let mut record = Record::new(&names.whole, Some(inode.number.get()), judgement.verdict.clone());
    record.file_type = inode.file_type();
    record.size_bytes = (record.file_type == Some(FileType::Regular)).then(|| inode.size_bytes());
    settle_missing(&mut record, judgement);
    record
}

fn settle_missing(record: &mut Record, judgement: &Judgement) {
    record.verdict.merge(&judgement.verdict);
    record.missing = judgement.missing.listed();
    record.missing_bytes = judgement.missing.total_bytes();
    record.hole_bytes = judgement.hole_bytes;
}

/// A range in pieces that fit a chunk.
fn pieces(offset_bytes: u64, length_bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    let piece = CHUNK_BYTES as u64;
    (0..length_bytes.div_ceil(piece)).map(move |index| {
        let start = index * piece;
        (offset_bytes + start, (length_bytes - start).min(piece) as usize)
    })
}

/// Fills `bytes` with the contents of the file from `offset_bytes` on, with zeros for holes and for what cannot be read.
fn read_piece(
    judge: &Judge<'_>,
    inode: &Inode,
    offset_bytes: u64,
    bytes: &mut [u8],
    judgement: &mut Judgement,
) {
    bytes.fill(0);
    let end = offset_bytes.saturating_add(bytes.len() as u64);
    let ranges = match judge.volume.data_ranges_between(inode, offset_bytes, end) {
        Ok(ranges) => ranges,
        Err(error) => {
            judgement.verdict.add(State::Partial, error.to_string());
            judgement.missing.add(offset_bytes..end);
            return;
        }
    };
    for range in ranges {
        let first = range.offset_bytes.saturating_sub(offset_bytes) as usize;
        let place = first..first.saturating_add(range.length_bytes as usize);
        let Some(piece) = bytes.get_mut(place) else { continue };
        if let Err(error) = judge.volume.device().read(range.device_offset_bytes, piece) {
            piece.fill(0);
            judgement.verdict.add(State::Partial, error.to_string());
            judgement.missing.add(range.offset_bytes..range.end_bytes());
        }
        for lost in unreadable_bytes(judge.device, &range) {
            judgement.verdict.add(State::Partial, UNREADABLE);
            judgement.missing.add(lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, taken: &[&str]) -> String {
        let names = Names::new(path.as_bytes(), |name| taken.iter().any(|taken| taken.as_bytes() == name));
        assert_eq!(names.whole, path.as_bytes());
        String::from_utf8(names.partial).unwrap()
    }

    #[test]
    fn partial_files_get_a_free_name() {
        assert_eq!(names("a/b", &[]), "a/b.partial");
        assert_eq!(names("b", &["b.partial"]), "b.partial.2");
        assert_eq!(names("b", &["b.partial", "b.partial.2"]), "b.partial.3");
        let long = "x".repeat(255);
        assert_eq!(names(&long, &[]), format!("{}.partial", "x".repeat(247)));
        let accents = "é".repeat(127);
        assert_eq!(names(&accents, &[]), format!("{}.partial", "é".repeat(123)));
    }

    /// As in a directory that does not tell upper from lower case.
    #[test]
    fn names_that_differ_in_case_get_numbers() {
        let mut held: Vec<String> = Vec::new();
        for name in ["dir/File", "dir/file", "dir/FILE", "dir/other"] {
            let is_taken =
                |path: &[u8]| held.contains(&String::from_utf8(path.to_ascii_lowercase()).unwrap());
            let path = free_path(name.as_bytes(), is_taken);
            held.push(String::from_utf8(path).unwrap().to_lowercase());
        }
        assert_eq!(held, ["dir/file", "dir/file.2", "dir/file.3", "dir/other"]);
    }

    #[test]
    fn hashes_are_those_of_the_whole_contents() {
        let mut layout = FileLayout::new(10_000);
        layout.push(uxfs_extract::layout::FileRange { offset_bytes: 5000, length_bytes: 10 }, 0);
        let mut hasher = Hasher::new(&layout, true).unwrap();
        hasher.add(5000, &[7; 10]);
        let mut bytes = vec![0; 10_000];
        bytes[5000..5010].fill(7);
        let expected: [u8; 32] = Sha256::digest(&bytes).into();
        assert_eq!(hasher.finish(10_000), expected);
        assert!(Hasher::new(&FileLayout::new(u64::MAX >> 1), true).is_none());
    }
}

//! A target of rescues that keeps, of each file, its type, its metadata and a sum of its contents.

use std::{cell::RefCell, collections::BTreeMap, io, ops::Range};

use sha2::{Digest, Sha256};
use uxfs_extract::{
    chunk::Chunk,
    entry::{Attribute, Body, Entry, Metadata, Special, Timestamp},
    report::Observer,
    sink::{Encoder, Sink, SinkError},
};
use uxfs_rescue::target::Target;

/// Sums leave out pieces of this length that are zero, so that holes and zeros are the same.
const PIECE_BYTES: usize = 512;
/// Files up to this size have a sum of all their bytes as well.
const SMALL_BYTES: u64 = 1 << 20;

/// What a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Type, and what only this type has.
    pub body: Contents,
    /// Owner, permissions, times.
    pub metadata: Metadata,
    /// Extended attributes, by name.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Type, and what only this type has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Its size.
        size_bytes: u64,
        /// Sum of all that is not zero, with its place.
        sum: [u8; 32],
        /// SHA-256 of small files.
        sha256: Option<[u8; 32]>,
    },
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// Anything else.
    Special(Special),
}

/// One step of the encoder.
#[derive(Debug)]
pub enum Step {
    /// A directory begins.
    Begin(Vec<u8>, Found),
    /// It ends.
    End,
    /// A regular file begins.
    File(Vec<u8>, Found),
    /// Contents of it.
    Data(u64, Range<usize>),
    /// It ends.
    EndFile,
    /// Anything else.
    Other(Vec<u8>, Found),
    /// A further name.
    Link(Vec<u8>, Vec<u8>),
}

/// From entries to steps.
#[derive(Debug)]
pub struct LedgerEncoder;

impl Encoder for LedgerEncoder {
    type Record = Step;

    fn entry(&mut self, entry: &Entry<'_>, chunk: &mut Chunk<Step>) {
        let path = entry.path.to_vec();
        let found = |body| {
            let attribute = |attribute: &Attribute| (attribute.name.clone(), attribute.value.clone());
            let attributes = entry.attributes.iter().map(attribute).collect();
            Found { body, metadata: *entry.metadata, attributes }
        };
        chunk.records.push(match entry.body {
            Body::Directory => Step::Begin(path, found(Contents::Directory)),
            Body::File(layout) => {
                let size_bytes = layout.size_bytes();
                Step::File(path, found(Contents::File { size_bytes, sum: [0; 32], sha256: None }))
            }
            Body::Symlink(target) => Step::Other(path, found(Contents::Symlink(target.to_vec()))),
            Body::Special(special) => Step::Other(path, found(Contents::Special(special))),
            Body::HardLink { target, .. } => Step::Link(path, target.to_vec()),
        });
    }

    fn data(&mut self, offset_bytes: u64, span: Range<usize>, chunk: &mut Chunk<Step>) {
        chunk.records.push(Step::Data(offset_bytes, span));
    }

    fn end_file(&mut self, _: u64, chunk: &mut Chunk<Step>) {
        chunk.records.push(Step::EndFile);
    }

    fn end_directory(&mut self, chunk: &mut Chunk<Step>) {
        chunk.records.push(Step::End);
    }
}

struct OpenFile {
    path: Vec<u8>,
    found: Found,
    sum: Sha256,
    /// Of small files, with the end of what was added.
    all: Option<(Sha256, u64)>,
}

/// All that a rescue has written.
#[derive(Default)]
pub struct Ledger {
    files: RefCell<BTreeMap<Vec<u8>, Found>>,
    levels: Vec<Vec<u8>>,
    file: Option<OpenFile>,
}

impl Ledger {
    /// What lies at a path.
    pub fn at(&self, path: &[u8]) -> Option<Found> {
        self.files.borrow().get(path).cloned()
    }

    /// All paths with what they lead to.
    pub fn into_files(self) -> BTreeMap<Vec<u8>, Found> {
        self.files.into_inner()
    }

    fn step(&mut self, step: &Step, chunk: &Chunk<Step>) {
        match step {
            Step::Begin(path, found) => {
                self.levels.push(path.clone());
                self.files.get_mut().insert(path.clone(), found.clone());
            }
            Step::End => drop(self.levels.pop()),
            Step::File(path, found) => {
                let is_small =
                    matches!(&found.body, Contents::File { size_bytes, .. } if *size_bytes <= SMALL_BYTES);
                let (path, found) = (path.clone(), found.clone());
                let all = is_small.then(|| (Sha256::new(), 0));
                self.file = Some(OpenFile { path, found, sum: Sha256::new(), all });
            }
            Step::Data(offset_bytes, span) => {
                let Some(file) = &mut self.file else { return };
                file.add(*offset_bytes, chunk.bytes.span(span.clone()));
            }
            Step::EndFile => {
                if let Some(file) = self.file.take() {
                    let (path, found) = file.finish();
                    self.files.get_mut().insert(path, found);
                }
            }
            Step::Other(path, found) => drop(self.files.get_mut().insert(path.clone(), found.clone())),
            Step::Link(path, target) => {
                if let Some(found) = self.at(target) {
                    self.files.get_mut().insert(path.clone(), found);
                }
            }
        }
    }

    fn in_current(&self, name: &[u8]) -> Vec<u8> {
        match self.levels.last().filter(|folder| !folder.is_empty()) {
            Some(folder) => [folder.as_slice(), b"/", name].concat(),
            None => name.to_vec(),
        }
    }
}

impl OpenFile {
    fn add(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let pieces = (offset_bytes..).step_by(PIECE_BYTES).zip(bytes.chunks(PIECE_BYTES));
        for (place, piece) in pieces.filter(|(_, piece)| piece.iter().any(|byte| *byte != 0)) {
            self.sum.update(place.to_be_bytes());
            self.sum.update(piece);
        }
        if let Some((all, end)) = &mut self.all {
            all.update(vec![0; usize::try_from(offset_bytes - *end).unwrap_or(0)]);
            all.update(bytes);
            *end = offset_bytes + bytes.len() as u64;
        }
    }

    fn finish(mut self) -> (Vec<u8>, Found) {
        if let Contents::File { size_bytes, sum, sha256 } = &mut self.found.body {
            *sum = self.sum.finalize().into();
            *sha256 = self.all.map(|(mut all, end)| {
                all.update(vec![0; usize::try_from(*size_bytes - end).unwrap_or(0)]);
                all.finalize().into()
            });
        }
        (self.path, self.found)
    }
}

impl Sink for Ledger {
    type Record = Step;
    type Encoder = LedgerEncoder;

    fn encoder(&self) -> LedgerEncoder {
        LedgerEncoder
    }

    fn write(&mut self, chunk: &Chunk<Step>, _: &mut dyn Observer) -> Result<(), SinkError> {
        chunk.records.iter().for_each(|step| self.step(step, chunk));
        Ok(())
    }

    fn finish(&mut self, _: &mut dyn Observer) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Target for Ledger {
    const IS_ARCHIVE: bool = false;

    fn takes_data(&self) -> bool {
        self.file.is_some()
    }

    fn is_skipping(&self) -> bool {
        false
    }

    fn has_same_file(&self, _: &[u8], _: u64, _: Timestamp) -> bool {
        false
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from, to) = (self.in_current(from), self.in_current(to));
        let mut files = self.files.borrow_mut();
        if files.contains_key(&to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let found = files.remove(&from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to, found);
        Ok(())
    }

    fn remove(&self, name: &[u8]) -> io::Result<()> {
        self.files.borrow_mut().remove(&self.in_current(name));
        Ok(())
    }
}

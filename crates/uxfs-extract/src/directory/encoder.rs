//! From entries to records that the sink carries out in order.

use std::ops::Range;

use crate::{
    chunk::Chunk,
    entry::{Attribute, Body, Entry, Metadata, Special},
    sink::Encoder,
};

/// An entry as it waits in a chunk.
#[derive(Debug, Clone)]
pub(crate) struct OwnedEntry {
    pub path: Vec<u8>,
    pub metadata: Metadata,
    pub attributes: Vec<Attribute>,
}

impl OwnedEntry {
    fn new(entry: &Entry<'_>) -> Self {
        Self { path: entry.path.to_vec(), metadata: *entry.metadata, attributes: entry.attributes.to_vec() }
    }
}

/// One step for the sink.
#[derive(Debug, Clone)]
pub struct Record(pub(crate) RecordKind);

#[derive(Debug, Clone)]
pub(crate) enum RecordKind {
    BeginDirectory(OwnedEntry),
    EndDirectory,
    BeginFile { entry: OwnedEntry, size_bytes: u64 },
    Data { offset_bytes: u64, span: Range<usize> },
    EndFile,
    Symlink { entry: OwnedEntry, target: Vec<u8> },
    HardLink { entry: OwnedEntry, target: Vec<u8>, is_device: bool },
    Special { entry: OwnedEntry, special: Special },
}

/// Writes steps into chunks.
#[derive(Debug, Default)]
pub struct DirectoryEncoder;

impl Encoder for DirectoryEncoder {
    type Record = Record;

    fn entry(&mut self, entry: &Entry<'_>, chunk: &mut Chunk<Record>) {
        let owned = OwnedEntry::new(entry);
        let step = match entry.body {
            Body::Directory => RecordKind::BeginDirectory(owned),
            Body::File(layout) => RecordKind::BeginFile { entry: owned, size_bytes: layout.size_bytes() },
            Body::Symlink(target) => RecordKind::Symlink { entry: owned, target: target.to_vec() },
            Body::HardLink { target, is_device } => {
                RecordKind::HardLink { entry: owned, target: target.to_vec(), is_device }
            }
            Body::Special(special) => RecordKind::Special { entry: owned, special },
        };
        chunk.records.push(Record(step));
    }

    fn data(&mut self, offset_bytes: u64, span: Range<usize>, chunk: &mut Chunk<Record>) {
        chunk.counts.data_bytes += span.len() as u64;
        // Pieces that adjoin in the file and in the chunk are one write.
        if let Some(Record(RecordKind::Data { offset_bytes: start, span: last })) = chunk.records.last_mut()
            && last.end == span.start
            && *start + last.len() as u64 == offset_bytes
        {
            last.end = span.end;
            return;
        }
        chunk.records.push(Record(RecordKind::Data { offset_bytes, span }));
    }

    fn end_file(&mut self, _: u64, chunk: &mut Chunk<Record>) {
        chunk.records.push(Record(RecordKind::EndFile));
    }

    fn end_directory(&mut self, chunk: &mut Chunk<Record>) {
        chunk.records.push(Record(RecordKind::EndDirectory));
    }
}

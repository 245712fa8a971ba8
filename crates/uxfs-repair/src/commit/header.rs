//! The bytes of an undo file and of a plan. All numbers are little-endian.
//!
//! ```text
//! header │ record of the superblock │ record │ record │ …
//! record: header of the record │ old bytes │ new bytes
//! ```
//!
//! The header holds the checksum of everything behind it, and its own, so that its checksum covers the whole file.

use uxfs_format::{checksum, units::Uuid};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout,
    little_endian::{U32, U64},
};

use super::{
    PIECE_BYTES,
    error::{FileFault, FileKind},
    head::{HEAD_BYTES_MAX, HEAD_BYTES_MIN},
    plan::PlanFacts,
    undo_file::Facts,
};

const UNDO_MAGIC: [u8; 8] = *b"UXFSundo";
/// What a plan begins with.
pub const PLAN_MAGIC: [u8; 8] = *b"UXFSplan";

const fn magic_of(kind: FileKind) -> [u8; 8] {
    match kind {
        FileKind::Undo => UNDO_MAGIC,
        FileKind::Plan => PLAN_MAGIC,
    }
}

/// Whether these bytes begin as a header.
pub(super) fn is_header(bytes: &[u8]) -> bool {
    bytes.starts_with(&UNDO_MAGIC) || bytes.starts_with(&PLAN_MAGIC)
}

const VERSION: u32 = 1;
const CHECKSUM_OFFSET_BYTES: u32 = 12;
/// Bytes of the header of a file.
pub const HEADER_BYTES: u64 = size_of::<RawHeader>() as u64;
/// Bytes of the header of a record.
pub const RECORD_HEADER_BYTES: u64 = size_of::<RawRecord>() as u64;

#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: U32,
    checksum: U32,
    id: [u8; 16],
    filesystem_uuid: [u8; 16],
    device_size_bytes: U64,
    start_bytes: U64,
    length_bytes: U64,
    records: U64,
    ranges: U64,
    changed_bytes: U64,
    superblock_bytes: U32,
    contents_checksum: U32,
    /// Of a plan: what it says about its repair. Else zeros.
    plan: [U32; 6],
}

#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawRecord {
    offset_bytes: U64,
    length_bytes: U32,
    checksum: U32,
}

/// The header of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// What a plan says about its repair; `None` for an undo file.
    pub plan: Option<PlanFacts>,
    pub facts: Facts,
    pub records: u64,
    pub superblock_bytes: u32,
    pub contents_checksum: u32,
}

impl Header {
    /// The bytes, sealed.
    pub fn encode(&self) -> Vec<u8> {
        let facts = &self.facts;
        let raw = RawHeader {
            magic: magic_of(self.kind()),
            version: VERSION.into(),
            checksum: 0.into(),
            id: facts.id.0,
            filesystem_uuid: facts.filesystem_uuid.0,
            device_size_bytes: facts.device_size_bytes.into(),
            start_bytes: facts.start_bytes.into(),
            length_bytes: facts.length_bytes.into(),
            records: self.records.into(),
            ranges: facts.ranges.into(),
            changed_bytes: facts.changed_bytes.into(),
            superblock_bytes: self.superblock_bytes.into(),
            contents_checksum: self.contents_checksum.into(),
            plan: words_of(self.plan.unwrap_or_default()),
        };
        let mut bytes = raw.as_bytes().to_vec();
        checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
        bytes
    }

    /// What the file is for.
    pub fn kind(&self) -> FileKind {
        if self.plan.is_some() { FileKind::Plan } else { FileKind::Undo }
    }

    /// Verifies all that the header alone tells of a file of `found_bytes` bytes.
    pub fn decode(bytes: &[u8], found_bytes: u64, kind: FileKind) -> Result<Self, FileFault> {
        let raw = RawHeader::ref_from_bytes(bytes)
            .map_err(|_| FileFault::Truncated { length_bytes: bytes.len() as u64 })?;
        if raw.magic != magic_of(kind) {
            return Err(FileFault::Magic(kind));
        }
        // Before the checksum, which may lie elsewhere in a later version.
        if raw.version != VERSION {
            return Err(FileFault::Version(raw.version.get()));
        }
        checksum::check(bytes, CHECKSUM_OFFSET_BYTES).map_err(|mismatch| FileFault::HeaderChecksum {
            stored: mismatch.found,
            computed: mismatch.computed,
        })?;
        let stored_bytes = raw.length_bytes.get();
        if stored_bytes != found_bytes {
            return Err(FileFault::Length { stored_bytes, found_bytes });
        }
        let superblock_bytes = raw.superblock_bytes.get();
        if !(HEAD_BYTES_MIN..=HEAD_BYTES_MAX).contains(&superblock_bytes)
            || !superblock_bytes.is_power_of_two()
        {
            let stored = superblock_bytes.into();
            return Err(FileFault::Count { what: "bytes of a superblock", stored, found: 0 });
        }
        Ok(Self {
            plan: (kind == FileKind::Plan).then(|| facts_of(raw.plan)),
            facts: Facts {
                id: Uuid(raw.id),
                filesystem_uuid: Uuid(raw.filesystem_uuid),
                device_size_bytes: raw.device_size_bytes.get(),
                start_bytes: raw.start_bytes.get(),
                length_bytes: stored_bytes,
                ranges: raw.ranges.get(),
                changed_bytes: raw.changed_bytes.get(),
            },
            records: raw.records.get(),
            superblock_bytes,
            contents_checksum: raw.contents_checksum.get(),
        })
    }
}

fn words_of(plan: PlanFacts) -> [U32; 6] {
    let PlanFacts { findings, actions, guesses, losses, files_lost, remaining } = plan;
    [findings, actions, guesses, losses, files_lost, remaining].map(Into::into)
}

fn facts_of(words: [U32; 6]) -> PlanFacts {
    let [findings, actions, guesses, losses, files_lost, remaining] = words.map(U32::get);
    PlanFacts { findings, actions, guesses, losses, files_lost, remaining }
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    pub offset_bytes: u64,
    /// Of the old bytes, and of the new.
    pub length_bytes: u32,
    /// Of the header and of both.
    pub checksum: u32,
}

impl RecordHeader {
    /// For these bytes; both have one length, [`PIECE_BYTES`] at most.
    pub fn of(offset_bytes: u64, old: &[u8], new: &[u8]) -> Self {
        // No piece is longer.
        let length_bytes = u32::try_from(old.len()).unwrap_or(u32::MAX);
        let mut header = Self { offset_bytes, length_bytes, checksum: 0 };
        header.checksum = header.compute(old, new);
        header
    }

    /// The checksum that belongs to these contents.
    pub fn compute(self, old: &[u8], new: &[u8]) -> u32 {
        let bytes = Self { checksum: 0, ..self }.encode();
        crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&bytes), old), new)
    }

    /// The bytes.
    pub fn encode(self) -> [u8; RECORD_HEADER_BYTES as usize] {
        zerocopy::transmute!(RawRecord {
            offset_bytes: self.offset_bytes.into(),
            length_bytes: self.length_bytes.into(),
            checksum: self.checksum.into(),
        })
    }

    /// Takes the bytes as they are.
    pub fn decode(bytes: [u8; RECORD_HEADER_BYTES as usize]) -> Self {
        let raw: RawRecord = zerocopy::transmute!(bytes);
        let RawRecord { offset_bytes, length_bytes, checksum } = raw;
        Self { offset_bytes: offset_bytes.get(), length_bytes: length_bytes.get(), checksum: checksum.get() }
    }

    /// Bytes of the record in the file.
    pub fn record_bytes(self) -> u64 {
        RECORD_HEADER_BYTES.saturating_add(u64::from(self.length_bytes).saturating_mul(2))
    }

    /// Where on the device it ends, if it has a length that a record can have and begins at `least_bytes` or behind.
    pub fn end_bytes(self, least_bytes: u64) -> Option<u64> {
        if self.offset_bytes < least_bytes || !(1..=PIECE_BYTES).contains(&self.length_bytes) {
            return None;
        }
        self.offset_bytes.checked_add(self.length_bytes.into())
    }
}

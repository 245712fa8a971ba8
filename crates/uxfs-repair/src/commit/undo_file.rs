//! Reading an undo file or a plan. It may have been damaged, or made to deceive: nothing in it is believed before it has been compared
//! with the length of the file, and no count in it decides about memory.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use uxfs_block::device::BlockDevice;
use uxfs_format::units::Uuid;

use super::{
    Result, SECTOR_BYTES,
    differences::Totals,
    error::{CommitError, FileFault, FileKind},
    head::Head,
    header::{HEADER_BYTES, Header, RECORD_HEADER_BYTES, RecordHeader},
    plan::PlanFacts,
};

/// What an undo file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Drawn at random.
    pub id: Uuid,
    /// Uuid of the file system.
    pub filesystem_uuid: Uuid,
    /// Bytes of the device on which the file system lies.
    pub device_size_bytes: u64,
    /// Where in the image the file system begins.
    pub start_bytes: u64,
    /// Bytes of the undo file.
    pub length_bytes: u64,
    /// Ranges that change: runs of neighbouring sectors.
    pub ranges: u64,
    /// Bytes of the sectors that change.
    pub changed_bytes: u64,
}

/// An open undo file whose header is sound.
#[derive(Debug)]
pub struct UndoFile {
    file: File,
    path: PathBuf,
    header: Header,
}

/// The old and the new bytes of one place on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset_bytes: u64,
    pub old: &'a [u8],
    pub new: &'a [u8],
}

impl UndoFile {
    /// Opens an undo file. Its header is verified here, and the rest whenever it is used.
    ///
    /// # Errors
    /// It cannot be opened, or its header is damaged or does not fit the length of the file.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_kind(path, FileKind::Undo)
    }

    /// As [`open`](Self::open), of a plan.
    pub(super) fn open_plan(path: &Path) -> Result<Self> {
        Self::open_kind(path, FileKind::Plan)
    }

    fn open_kind(path: &Path, kind: FileKind) -> Result<Self> {
        let failed = |source| CommitError::File { kind, action: "open", path: path.into(), source };
        let file = uxfs_block::engine::open_plain(path).map_err(failed)?;
        Self::of(file, path, kind)
    }

    pub(super) fn of(file: File, path: &Path, kind: FileKind) -> Result<Self> {
        let failed = |source| CommitError::File { kind, action: "read", path: path.into(), source };
        let length_bytes = file.metadata().map_err(failed)?.len();
        let mut bytes = Vec::new();
        FileFrom { file: &file, at: 0 }.take(HEADER_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        let header = Header::decode(&bytes, length_bytes, kind).map_err(|fault| CommitError::Unusable {
            kind,
            path: path.into(),
            fault,
        })?;
        Ok(Self { file, path: path.into(), header })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says about itself.
    pub fn facts(&self) -> &Facts {
        &self.header.facts
    }

    /// What a plan says about its repair.
    pub(super) fn plan(&self) -> PlanFacts {
        self.header.plan.unwrap_or_default()
    }

    /// Verifies every byte.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    pub fn check(&self) -> Result<()> {
        self.verify().map(drop)
    }

    /// Verifies every byte, and gives the superblocks.
    pub(super) fn verify(&self) -> Result<Head> {
        let mut records = self.records();
        let (mut count, mut totals, mut head) = (0_u64, Totals::default(), None);
        while let Some(record) = records.next()? {
            totals.add(record.offset_bytes, record.old, record.new);
            count += 1;
            if head.is_none() {
                head = Some(self.head_of(&record)?);
            }
        }
        let computed = records.checksum;
        let Header { facts, contents_checksum: stored, .. } = &self.header;
        if computed != *stored {
            return Err(self.unusable(FileFault::ContentsChecksum { stored: *stored, computed }));
        }
        let counts = [
            ("records", self.header.records, count),
            ("ranges", facts.ranges, totals.ranges),
            ("changed bytes", facts.changed_bytes, totals.changed_bytes),
        ];
        if let Some((what, stored, found)) = counts.into_iter().find(|(_, stored, found)| stored != found) {
            return Err(self.unusable(FileFault::Count { what, stored, found }));
        }
        head.ok_or_else(|| self.unusable(FileFault::Count { what: "superblocks", stored: 1, found: 0 }))
    }

    fn head_of(&self, record: &Record<'_>) -> Result<Head> {
        let found = record.old.len() as u64;
        let stored = self.header.superblock_bytes.into();
        if (record.offset_bytes, found) != (0, stored) {
            return Err(self.unusable(FileFault::Count { what: "bytes of a superblock", stored, found }));
        }
        Head::of(record.old.to_vec(), record.new.to_vec())
    }

    /// Refuses a device of another size.
    pub(super) fn must_fit(&self, device: &dyn BlockDevice) -> Result<()> {
        let (expected_bytes, found_bytes) = (self.facts().device_size_bytes, device.size_bytes());
        if expected_bytes != found_bytes {
            return Err(CommitError::OtherSize { expected_bytes, found_bytes });
        }
        Ok(())
    }

    /// All records but that of the superblock.
    pub(super) fn records_behind_head(&self) -> Result<Records<'_>> {
        let mut records = self.records();
        records.next()?;
        Ok(records)
    }

    fn records(&self) -> Records<'_> {
        let from = FileFrom { file: &self.file, at: HEADER_BYTES };
        Records {
            file: self,
            reader: BufReader::with_capacity(64 << 10, from),
            position_bytes: HEADER_BYTES,
            least_bytes: 0,
            contents: Vec::new(),
            checksum: 0,
        }
    }

    fn unusable(&self, fault: FileFault) -> CommitError {
        CommitError::Unusable { kind: self.header.kind(), path: self.path.clone(), fault }
    }
}

/// The records of an undo file in their order, each verified.
#[derive(Debug)]
pub struct Records<'a> {
    file: &'a UndoFile,
    reader: BufReader<FileFrom<'a>>,
    /// Where in the file the next one begins.
    position_bytes: u64,
    /// Where on the device the last one ended.
    least_bytes: u64,
    /// Old bytes, then new ones.
    contents: Vec<u8>,
    /// Of all bytes so far.
    checksum: u32,
}

impl Records<'_> {
    /// The next record, or none at the end of the file.
    ///
    /// # Errors
    /// The record is damaged, or cannot be read.
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        let Facts { length_bytes: end, device_size_bytes, .. } = *self.file.facts();
        let position_bytes = self.position_bytes;
        let left = end.saturating_sub(position_bytes);
        if left == 0 {
            return Ok(None);
        }
        if left < RECORD_HEADER_BYTES {
            let fault = FileFault::Record { position_bytes, offset_bytes: 0, length_bytes: 0 };
            return Err(self.file.unusable(fault));
        }
        let mut bytes = [0; RECORD_HEADER_BYTES as usize];
        self.read(|reader, _| reader.read_exact(&mut bytes))?;
        let header = RecordHeader::decode(bytes);
        let RecordHeader { offset_bytes, length_bytes, checksum: stored } = header;
        let impossible =
            || self.file.unusable(FileFault::Record { position_bytes, offset_bytes, length_bytes });
        let device_end = header.end_bytes(self.least_bytes).filter(|end| *end <= device_size_bytes);
        let device_end = device_end.ok_or_else(impossible)?;
        // A plan takes a page of memory for each record: a small file of many small records would take much of it.
        let sector = SECTOR_BYTES as u64;
        let is_whole = offset_bytes.is_multiple_of(sector)
            && (device_end.is_multiple_of(sector) || device_end == device_size_bytes);
        if self.file.header.kind() == FileKind::Plan && !is_whole {
            return Err(impossible());
        }
        if header.record_bytes() > left {
            return Err(impossible());
        }
        // The file has so many bytes, and no record has more than two pieces.
        let length = length_bytes as usize;
        self.contents.resize(length * 2, 0);
        self.read(|reader, contents| reader.read_exact(contents))?;
        let (old, new) = self.contents.split_at(length);
        let computed = header.compute(old, new);
        if stored != computed {
            let fault = FileFault::RecordChecksum { position_bytes, stored, computed };
            return Err(self.file.unusable(fault));
        }
        self.checksum = crc32c::crc32c_append(crc32c::crc32c_append(self.checksum, &bytes), &self.contents);
        self.position_bytes = position_bytes.saturating_add(header.record_bytes());
        self.least_bytes = device_end;
        Ok(Some(Record { offset_bytes, old, new }))
    }

    fn read(
        &mut self,
        read: impl FnOnce(&mut BufReader<FileFrom<'_>>, &mut [u8]) -> io::Result<()>,
    ) -> Result<()> {
        // The lifetime of the reader is that of the file, which is shorter for the closure.
        let Self { file, reader, contents, .. } = self;
        read(reader, contents).map_err(|source| CommitError::File {
            kind: file.header.kind(),
            action: "read",
            path: file.path.clone(),
            source,
        })
    }
}

/// A file from some place on. Several may read one file.
#[derive(Debug)]
struct FileFrom<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileFrom<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

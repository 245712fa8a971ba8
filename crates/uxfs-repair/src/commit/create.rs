//! Writing an undo file: everything or nothing.
//!
//! It is written under another name, made durable, and then gets its own, so that a file of that name is complete. What a kill
//! leaves under the other name is overwritten by the next attempt.

use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use uxfs_block::device::BlockDevice;
use uxfs_format::units::Uuid;

use super::{
    About, Existing, Result,
    differences::{Differences, Totals},
    error::{CommitError, FileKind},
    head::Head,
    header::{self, HEADER_BYTES, Header, RecordHeader},
    plan::PlanFacts,
    undo_file::{Facts, UndoFile},
    with_suffix,
};

/// Makes a complete and durable undo file for all sectors in `ranges` in which `old` and `new` differ; the ranges may
/// overlap. Neither device is written. Gives `None`, and makes no file, where nothing differs.
///
/// # Errors
/// The file is there already ([`Existing::Refuse`]) or cannot be made, for example since the host's file system is full: then
/// nothing is left of it. There is no superblock. A device fails.
pub fn prepare(
    old: &dyn BlockDevice,
    new: &dyn BlockDevice,
    ranges: &[Range<u64>],
    about: &About,
) -> Result<Option<UndoFile>> {
    write(old, new, Contents { ranges, watched: &[], plan: None }, about)
}

/// What goes into a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contents<'c> {
    /// Where sectors may differ.
    pub ranges: &'c [Range<u64>],
    /// Sectors that are kept in any case.
    pub watched: &'c [Range<u64>],
    /// What a plan says about its repair; `None` for an undo file.
    pub plan: Option<PlanFacts>,
}

impl Contents<'_> {
    pub fn kind(&self) -> FileKind {
        if self.plan.is_some() { FileKind::Plan } else { FileKind::Undo }
    }

    /// All sectors behind the superblock.
    pub fn differences<'d>(
        &self,
        old: &'d dyn BlockDevice,
        new: &'d dyn BlockDevice,
        head: &Head,
    ) -> Result<Differences<'d>> {
        Differences::with_watched(old, new, self.ranges, self.watched, head.length_bytes())
    }
}

/// As [`prepare`]; a plan is made also where nothing differs.
pub(super) fn write(
    old: &dyn BlockDevice,
    new: &dyn BlockDevice,
    contents: Contents<'_>,
    about: &About,
) -> Result<Option<UndoFile>> {
    let path = &about.path;
    if about.existing == Existing::Refuse && fs::symlink_metadata(path).is_ok() {
        return Err(CommitError::Exists(path.clone()));
    }
    let head = Head::read(old, new)?;
    super::room::must_suffice(path, (old, new), &contents, &head)?;
    let mut differences = contents.differences(old, new, &head)?;
    let kind = contents.kind();
    let failed = |action| move |source| CommitError::File { kind, action, path: path.clone(), source };
    let mut part = Part::create(path).map_err(failed("make"))?;
    let mut writer =
        Writer::begin(BufWriter::with_capacity(256 << 10, &part.file)).map_err(failed("write"))?;
    writer.add(0, &head.old, &head.new).map_err(failed("write"))?;
    while let Some(difference) = differences.next()? {
        writer.add(difference.offset_bytes, difference.old, difference.new).map_err(failed("write"))?;
    }
    if writer.totals.changed_bytes == 0 && kind == FileKind::Undo {
        return Ok(None);
    }
    let header = writer.header(about, &head, old.size_bytes(), contents.plan);
    writer.finish(&header).map_err(failed("write"))?;
    part.file.sync_all().map_err(failed("write"))?;
    part.rename_to(path).map_err(failed("name"))?;
    let file = part.file.try_clone().map_err(failed("open"))?;
    UndoFile::of(file, path, kind).map(Some)
}

/// The file before it has its name. Unless it gets that, it is removed.
#[derive(Debug)]
struct Part {
    file: File,
    path: PathBuf,
    is_done: bool,
}

impl Part {
    fn create(path: &Path) -> io::Result<Self> {
        let path = with_suffix(path, ".part");
        if is_of_others(&path) {
            let words = "a file of this name is there, and no undo file that was cut off";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{}: {words}", path.display())));
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // A new file, so that no link is followed; for its owner alone, since the image may be too.
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, is_done: false })
    }

    /// Gives the durable file its name, durably.
    fn rename_to(&mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_done = true;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// Whether there is a file that no killed attempt has left: such a file begins with zeros, or with a header.
fn is_of_others(path: &Path) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let mut beginning = Vec::new();
    let read = is_file.then(|| File::open(path)?.take(HEADER_BYTES).read_to_end(&mut beginning));
    match read {
        None => false,
        Some(Err(_)) => true,
        Some(Ok(_)) => !beginning.iter().all(|byte| *byte == 0) && !header::is_header(&beginning),
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_done {
            // The error that ended the attempt counts.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes records, and in the end the header in front of them.
struct Writer<W> {
    target: W,
    length_bytes: u64,
    records: u64,
    totals: Totals,
    checksum: u32,
}

impl<W: Write + Seek> Writer<W> {
    fn begin(mut target: W) -> io::Result<Self> {
        // No header: until it is there the file is none.
        target.seek(SeekFrom::Start(HEADER_BYTES))?;
        Ok(Self { target, length_bytes: HEADER_BYTES, records: 0, totals: Totals::default(), checksum: 0 })
    }

    fn add(&mut self, offset_bytes: u64, old: &[u8], new: &[u8]) -> io::Result<()> {
        let header = RecordHeader::of(offset_bytes, old, new);
        for bytes in [&header.encode()[..], old, new] {
            self.target.write_all(bytes)?;
            self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        }
        self.length_bytes = self.length_bytes.saturating_add(header.record_bytes());
        self.records += 1;
        self.totals.add(offset_bytes, old, new);
        Ok(())
    }

    fn header(&self, about: &About, head: &Head, device_size_bytes: u64, plan: Option<PlanFacts>) -> Header {
        Header {
            plan,
            facts: Facts {
                id: random_id(),
                filesystem_uuid: about.filesystem_uuid,
                device_size_bytes,
                start_bytes: about.start_bytes,
                length_bytes: self.length_bytes,
                ranges: self.totals.ranges,
                changed_bytes: self.totals.changed_bytes,
            },
            records: self.records,
            // A sector has 32 KiB at most.
            superblock_bytes: u32::try_from(head.old.len()).unwrap_or(u32::MAX),
            contents_checksum: self.checksum,
        }
    }

    fn finish(mut self, header: &Header) -> io::Result<()> {
        self.target.seek(SeekFrom::Start(0))?;
        self.target.write_all(&header.encode())?;
        self.target.flush()
    }
}

/// The keys of hash tables come from the system's random numbers.
fn random_id() -> Uuid {
    let mut id = [0; 16];
    for half in id.chunks_mut(8) {
        half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
    }
    Uuid(id)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A host file system with so many bytes of space.
    struct Full(Cursor<Vec<u8>>, u64);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.position() + bytes.len() as u64 > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Full {
        fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
            self.0.seek(position)
        }
    }

    #[test]
    fn lack_of_space_anywhere_is_an_error() {
        let (old, new) = ([1; 1024], [2; 1024]);
        let write = |space| -> io::Result<u64> {
            let mut writer = Writer::begin(Full(Cursor::new(Vec::new()), space))?;
            writer.add(0, &old, &new)?;
            writer.add(4096, &old, &new)?;
            Ok(writer.length_bytes)
        };
        let needed = write(u64::MAX).unwrap();
        for space in 0..needed {
            assert_eq!(write(space).unwrap_err().kind(), io::ErrorKind::StorageFull, "{space}");
        }
        assert_eq!(write(needed).unwrap(), needed);
    }
}

//! A manifest as a source of its own.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use uxfs_block::spill::{SpillError, records::Records};

use super::{DescribedKind, Description, Reader};
use crate::{
    content::Content,
    encoding::{self, Writer},
    entry::{DirectoryId, Kind, Metadata, Times, Timestamp},
    error::{Problem, Shown, SourceError, TextFault},
    host_names::HostNames,
    stream::{StreamEntry, StreamItem, StreamSource},
    tree::Reading,
};

/// Longest target of a symbolic link.
const MAX_TARGET_BYTES: usize = 4095;

/// Files as a manifest names them. Content is in the manifest, or in files of the host that it names: relative ones lie
/// below a folder of the caller's choice, and so does that of an mtree entry that names none, under the entry's own path.
pub struct ManifestSource {
    path: PathBuf,
    contents: PathBuf,
    names: HostNames,
    reader: Reader,
    /// Where a line says none.
    default_time: Timestamp,
    directories: u64,
    is_over: bool,
    held: HeldLinks,
}

/// Hard links, held back until all files have been returned: a target may follow its links.
struct HeldLinks {
    records: Records,
    /// The next one, once the files have been returned.
    next: Option<u64>,
    record: Vec<u8>,
}

impl HeldLinks {
    /// So much is kept in memory, the rest in a temporary file.
    const MEMORY_BYTES: usize = 4 << 20;

    fn new() -> Self {
        Self { records: Records::new(Self::MEMORY_BYTES), next: None, record: Vec::new() }
    }

    fn add(&mut self, path: &[u8], target: &[u8]) -> Result<(), SpillError> {
        self.record.clear();
        let mut writer = Writer(&mut self.record);
        writer.bytes(path);
        writer.bytes(target);
        self.records.append(&self.record).map(drop)
    }

    /// All have been added.
    fn begin(&mut self) {
        self.next = self.records.first_place();
    }

    fn next(&mut self) -> Result<Option<StreamEntry>, SpillError> {
        let Some(place) = self.next else { return Ok(None) };
        let record = self.records.read(place, &mut self.record)?;
        let mut reader = encoding::Reader(record);
        let names = reader.bytes().zip(reader.bytes());
        let (path, target) = names.ok_or_else(SpillError::damaged)?;
        let kind = Kind::HardLink { target: target.into() };
        let entry = StreamEntry { path: path.into(), metadata: Metadata::default(), kind };
        self.next = self.records.place_after(place, record);
        Ok(Some(entry))
    }
}

impl fmt::Debug for ManifestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManifestSource").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ManifestSource {
    /// Begins to read the manifest at `path`, with contents below `contents`. What it gives no time to gets `default_time`;
    /// `names` are the users and groups that it may name.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(
        path: &Path,
        contents: &Path,
        default_time: Timestamp,
        names: &HostNames,
    ) -> Result<Self, SourceError> {
        let reader = Reader::open(path, names.clone())?;
        let (path, contents, names) = (path.to_path_buf(), contents.to_path_buf(), names.clone());
        let held = HeldLinks::new();
        Ok(Self { path, contents, names, reader, default_time, directories: 0, is_over: false, held })
    }

    fn entry(&mut self, described: Description) -> Result<StreamEntry, TextFault> {
        let kind = described.kind.ok_or(TextFault::Missing("the type of the file"))?;
        let is_directory = kind == DescribedKind::Directory;
        let metadata = Metadata {
            mode: described.mode.unwrap_or(match kind {
                DescribedKind::Directory => 0o755,
                DescribedKind::Symlink => 0o777,
                _ => 0o644,
            }),
            user: described.user.unwrap_or(0),
            group: described.group.unwrap_or(0),
            times: Times::all(described.modification.unwrap_or(self.default_time)),
            attributes: described.attributes.clone(),
            link: None,
        };
        if described.path.is_empty() && !is_directory {
            return Err(TextFault::BadPath(Shown(described.path)));
        }
        let device = || described.device.ok_or(TextFault::Missing("the device number"));
        let payload = || described.payload.clone().ok_or(TextFault::Missing("the target"));
        let kind = match kind {
            DescribedKind::Directory => {
                self.directories += 1;
                Kind::Directory(DirectoryId(self.directories))
            }
            DescribedKind::Regular => {
                let (size_bytes, content) = self.content(&described)?;
                Kind::Regular { size_bytes, content }
            }
            DescribedKind::Symlink => {
                let target = payload()?;
                if target.is_empty() || target.contains(&0) || target.len() > MAX_TARGET_BYTES {
                    return Err(TextFault::BadPath(Shown(target)));
                }
                Kind::Symlink { target }
            }
            DescribedKind::CharacterDevice => Kind::CharacterDevice(device()?),
            DescribedKind::BlockDevice => Kind::BlockDevice(device()?),
            DescribedKind::Fifo => Kind::Fifo,
            DescribedKind::Socket => Kind::Socket,
            DescribedKind::HardLink => Kind::HardLink { target: super::clean(&payload()?)? },
        };
        let mut entry = StreamEntry { path: described.path, metadata, kind };
        entry.metadata.follow_acl();
        Ok(entry)
    }

    fn content(&self, described: &Description) -> Result<(u64, Content), TextFault> {
        let size_bytes = described.size_bytes;
        if let Some(inline) = &described.inline {
            if size_bytes.is_some_and(|size| size != inline.len() as u64) {
                return Err(TextFault::Twice(Shown::from(b"the size of the content".as_slice())));
            }
            return Ok((inline.len() as u64, Content::Inline(inline.clone())));
        }
        let named = match &described.payload {
            Some(payload) => OsStr::from_bytes(payload),
            // A dump names where content is; without a name there is none.
            None if described.has_all_attributes || size_bytes == Some(0) => {
                return Ok((size_bytes.unwrap_or(0), Content::Hole));
            }
            None => OsStr::from_bytes(&described.path),
        };
        let path = self.contents.join(named);
        let failed = |failure: String| TextFault::File { path: path.clone(), failure };
        let (found_bytes, content) =
            Content::of_host_file(&path).map_err(|error| failed(error.to_string()))?;
        if let Some(size_bytes) = size_bytes.filter(|size_bytes| *size_bytes != found_bytes) {
            return Err(failed(format!("has {found_bytes} bytes, not {size_bytes}")));
        }
        Ok((found_bytes, content))
    }
}

impl StreamSource for ManifestSource {
    fn next_item(&mut self) -> Result<Option<StreamItem>, SourceError> {
        loop {
            if self.is_over {
                return Ok(self.held.next()?.map(StreamItem::Entry));
            }
            // Unless it goes well.
            self.is_over = true;
            let Some(described) = self.reader.next()? else {
                self.held.begin();
                continue;
            };
            let is_optional = described.is_optional;
            match self.entry(described) {
                Ok(StreamEntry { path, kind: Kind::HardLink { target }, .. }) => {
                    self.is_over = false;
                    self.held.add(&path, &target)?;
                }
                Ok(entry) => {
                    self.is_over = false;
                    return Ok(Some(StreamItem::Entry(entry)));
                }
                Err(TextFault::File { .. }) if is_optional => self.is_over = false,
                Err(fault) => return Err(self.reader.error(fault)),
            }
        }
    }

    fn read_data(&mut self, _: &mut [u8]) -> Result<usize, SourceError> {
        // Content is never in the stream.
        Ok(0)
    }

    fn restart(&mut self, _: Reading) -> Result<(), SourceError> {
        if !self.path.is_file() {
            return Err(SourceError::CannotRestart { path: self.reader.name().clone() });
        }
        *self = Self::open(&self.path, &self.contents, self.default_time, &self.names)?;
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        Vec::new()
    }
}

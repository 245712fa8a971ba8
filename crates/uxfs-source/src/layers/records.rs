//! Records of files between the two passes, in few bytes: 30 or so for most.

use std::{
    fs::File,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    content::{ByteRange, Content, ContentLocation, DataRange},
    directory::Host,
    encoding::{Reader, Writer},
    entry::{DeviceNumber, DirectoryId, Kind, Metadata, Times},
    stream::StreamEntry,
};

/// A file as it comes back.
#[derive(Debug, PartialEq)]
pub(super) struct Stored {
    /// From which layer it is.
    pub(super) layer: usize,
    /// Its path there, where its content is found by that: a hard link gives it others.
    pub(super) home: Box<[u8]>,
    pub(super) metadata: Metadata,
    pub(super) what: What,
}

#[derive(Debug, PartialEq)]
pub(super) enum What {
    Directory,
    Regular { size_bytes: u64, content: StoredContent },
    Symlink(Box<[u8]>),
    CharacterDevice(DeviceNumber),
    BlockDevice(DeviceNumber),
    Fifo,
    Socket,
}

/// Where bytes are, without the handles: those are the layer's.
#[derive(Debug, PartialEq)]
pub(super) enum StoredContent {
    Hole,
    Inline(Box<[u8]>),
    /// In an archive that is not packed.
    Region(Box<[DataRange]>),
    /// In the stream.
    Stream(Box<[ByteRange]>),
    /// Below the layer's directory.
    Tree {
        device: u64,
        inode: u64,
        modified: (i64, u32),
        owner: u32,
        may_have_holes: bool,
    },
    /// Named by a manifest.
    Host {
        path: PathBuf,
        may_have_holes: bool,
    },
}

/// State that the contents of a layer share.
#[derive(Debug, Default)]
pub(super) struct Handles {
    pub(super) archive: Option<Arc<File>>,
    pub(super) host: Option<Arc<Host>>,
}

const ACCESS: u8 = 1;
const CHANGE: u8 = 2;
const CREATION: u8 = 4;
const ATTRIBUTES: u8 = 8;

/// Whether the content is found by the path of the entry: in a directory of the host, or in a packed archive.
fn has_home(tag: u8) -> bool {
    matches!(tag, STREAM | TREE)
}

/// Content in the stream.
const STREAM: u8 = 8;
/// Content below a directory of the host.
const TREE: u8 = 10;

/// Writes a record of an entry that is no hard link. Handles that its content has are the layer's from now on.
pub(super) fn encode(entry: &StreamEntry, layer: usize, handles: &mut Handles, record: &mut Vec<u8>) {
    record.clear();
    let mut writer = Writer(record);
    writer.number(layer as u64);
    writer.metadata(&entry.metadata);
    match &entry.kind {
        Kind::Directory(_) | Kind::HardLink { .. } => writer.byte(0),
        Kind::Regular { size_bytes, content } => writer.regular(&entry.path, *size_bytes, content, handles),
        Kind::Symlink { target } => {
            writer.byte(1);
            writer.bytes(target);
        }
        Kind::CharacterDevice(number) => writer.device(2, *number),
        Kind::BlockDevice(number) => writer.device(3, *number),
        Kind::Fifo => writer.byte(4),
        Kind::Socket => writer.byte(5),
    }
}

impl Writer<'_> {
    fn metadata(&mut self, metadata: &Metadata) {
        let Times { access, modification, change, creation } = metadata.times;
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        self.byte(
            flag(access != modification, ACCESS)
                | flag(change != modification, CHANGE)
                | flag(creation.is_some(), CREATION)
                | flag(!metadata.attributes.is_empty(), ATTRIBUTES),
        );
        self.number(metadata.mode.into());
        self.number(metadata.user.into());
        self.number(metadata.group.into());
        self.time(modification);
        let others = [Some(access), Some(change)].map(|time| time.filter(|time| *time != modification));
        others.into_iter().chain([creation]).flatten().for_each(|time| self.time(time));
        if !metadata.attributes.is_empty() {
            self.attributes(&metadata.attributes);
        }
    }

    fn regular(&mut self, home: &[u8], size_bytes: u64, content: &Content, handles: &mut Handles) {
        // The kind of content is the kind of file.
        let tag = match content {
            Content::Hole => 6,
            Content::Inline(_) => 7,
            Content::Stream(_) | Content::Later { .. } => STREAM,
            Content::File(file) => match &file.place {
                ContentLocation::Region { .. } => 9,
                ContentLocation::Tree(_) => TREE,
                ContentLocation::Host(_) => 11,
            },
        };
        self.byte(tag);
        self.number(size_bytes);
        if has_home(tag) {
            self.bytes(home);
        }
        match content {
            Content::Hole => {}
            Content::Inline(bytes) => self.bytes(bytes),
            Content::Stream(ranges) | Content::Later { ranges, .. } => self.ranges(size_bytes, ranges),
            Content::File(file) => match &file.place {
                ContentLocation::Region { archive, ranges, .. } => {
                    handles.archive.get_or_insert_with(|| Arc::clone(archive));
                    let plain: Vec<ByteRange> = ranges
                        .iter()
                        .map(|range| ByteRange {
                            offset_bytes: range.offset_bytes,
                            length_bytes: range.length_bytes,
                        })
                        .collect();
                    self.ranges(size_bytes, &plain);
                    // One follows the other in the archive.
                    self.number(ranges.first().map_or(0, |range| range.source_bytes));
                }
                ContentLocation::Tree(tree) => {
                    handles.host.get_or_insert_with(|| Arc::clone(tree.directory.host()));
                    self.byte(u8::from(file.may_have_holes));
                    self.number(tree.device);
                    self.number(tree.inode);
                    self.number(tree.owner.into());
                    self.seconds(tree.modified.0);
                    self.number(tree.modified.1.into());
                }
                ContentLocation::Host(path) => {
                    self.byte(u8::from(file.may_have_holes));
                    self.bytes(path.as_os_str().as_bytes());
                }
            },
        }
    }

    /// None stand for one that is the whole file.
    fn ranges(&mut self, size_bytes: u64, ranges: &[ByteRange]) {
        if ranges == [ByteRange { offset_bytes: 0, length_bytes: size_bytes }] {
            return self.number(0);
        }
        self.number(ranges.len() as u64);
        let mut end = 0;
        for range in ranges {
            // In order, so that distances are small numbers.
            self.number(range.offset_bytes.wrapping_sub(end));
            self.number(range.length_bytes);
            end = range.offset_bytes.wrapping_add(range.length_bytes);
        }
    }
}

/// Reads a record; `None` where it is not one that [`encode`] wrote.
pub(super) fn decode(record: &[u8]) -> Option<Stored> {
    let mut reader = Reader(record);
    let layer = usize::try_from(reader.number()?).ok()?;
    let metadata = reader.metadata()?;
    let mut home = Box::default();
    let what = match reader.byte()? {
        0 => What::Directory,
        1 => What::Symlink(reader.bytes()?.into()),
        2 => What::CharacterDevice(reader.device()?),
        3 => What::BlockDevice(reader.device()?),
        4 => What::Fifo,
        5 => What::Socket,
        tag => {
            let size_bytes = reader.number()?;
            if has_home(tag) {
                home = reader.bytes()?.into();
            }
            What::Regular { size_bytes, content: reader.content(tag, size_bytes)? }
        }
    };
    reader.0.is_empty().then_some(Stored { layer, home, metadata, what })
}

impl Reader<'_> {
    fn metadata(&mut self) -> Option<Metadata> {
        let flags = self.byte()?;
        let mode = u16::try_from(self.number()?).ok()?;
        let (user, group) = (self.short()?, self.short()?);
        let modification = self.time()?;
        let mut times = Times::all(modification);
        if flags & ACCESS != 0 {
            times.access = self.time()?;
        }
        if flags & CHANGE != 0 {
            times.change = self.time()?;
        }
        if flags & CREATION != 0 {
            times.creation = Some(self.time()?);
        }
        let attributes = if flags & ATTRIBUTES != 0 { self.attributes()? } else { Vec::new() };
        Some(Metadata { mode, user, group, times, attributes, link: None })
    }

    fn content(&mut self, tag: u8, size_bytes: u64) -> Option<StoredContent> {
        Some(match tag {
            6 => StoredContent::Hole,
            7 => StoredContent::Inline(self.bytes()?.into()),
            STREAM => StoredContent::Stream(self.ranges(size_bytes)?.into()),
            9 => {
                let ranges = self.ranges(size_bytes)?;
                let mut source_bytes = self.number()?;
                let place = |range: ByteRange| {
                    let ByteRange { offset_bytes, length_bytes } = range;
                    let placed = DataRange { offset_bytes, length_bytes, source_bytes };
                    source_bytes = source_bytes.saturating_add(length_bytes);
                    placed
                };
                StoredContent::Region(ranges.into_iter().map(place).collect())
            }
            TREE => StoredContent::Tree {
                may_have_holes: self.byte()? != 0,
                device: self.number()?,
                inode: self.number()?,
                owner: self.short()?,
                modified: (self.seconds()?, self.short()?),
            },
            11 => StoredContent::Host {
                may_have_holes: self.byte()? != 0,
                path: PathBuf::from(std::ffi::OsString::from_vec(self.bytes()?.to_vec())),
            },
            _ => return None,
        })
    }

    fn ranges(&mut self, size_bytes: u64) -> Option<Vec<ByteRange>> {
        let count = self.number()?;
        if count == 0 {
            return Some(vec![ByteRange { offset_bytes: 0, length_bytes: size_bytes }]);
        }
        let mut ranges = Vec::new();
        let mut end = 0_u64;
        for _ in 0..count {
            let offset_bytes = end.wrapping_add(self.number()?);
            let length_bytes = self.number()?;
            end = offset_bytes.wrapping_add(length_bytes);
            ranges.push(ByteRange { offset_bytes, length_bytes });
        }
        Some(ranges)
    }
}

impl What {
    /// As sources tell it; a regular file's content is the caller's to give.
    pub(super) fn kind(self, id: DirectoryId, content: impl FnOnce(u64, StoredContent) -> Content) -> Kind {
        match self {
            Self::Directory => Kind::Directory(id),
            Self::Regular { size_bytes, content: stored } => {
                Kind::Regular { size_bytes, content: content(size_bytes, stored) }
            }
            Self::Symlink(target) => Kind::Symlink { target },
            Self::CharacterDevice(number) => Kind::CharacterDevice(number),
            Self::BlockDevice(number) => Kind::BlockDevice(number),
            Self::Fifo => Kind::Fifo,
            Self::Socket => Kind::Socket,
        }
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;

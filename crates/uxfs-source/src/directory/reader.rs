//! Work of a thread: it lists a directory, and makes entries of names.

use std::{
    ffi::CStr,
    mem::MaybeUninit,
    num::NonZeroU64,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::{
    buffer::spare_capacity,
    fs::{Advice, FileType, Statx, StatxFlags, StatxTimestamp, fadvise, readlinkat_raw},
    io::Errno,
};

use uxfs_block::spill::SpillError;

use super::{
    attributes::{AttributeReader, Subject},
    handle::{FileInTree, Node, device_of, examine, examine_open, open_file},
    names::{BUFFER_BYTES, Names, NamesError},
};
use crate::{
    content::{Content, ContentLocation, Descriptor, FileContent, next_data},
    directory::DirectoryOptions,
    entry::{DeviceNumber, DirectoryId, Entry, Kind, LinkIdentity, Metadata, Times, Timestamp},
    error::{Failure, Problem, Reason, SourceError},
    tree::Reading,
};

/// A piece ends when it holds so many bytes of content and attributes.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// Files that come with their content come with no more than this under all of their names together.
pub(crate) const MOST_OF_ALL_NAMES_BYTES: u64 = 1 << 20;
/// Bytes that the host is asked to read ahead of a file that is not small.
const READ_AHEAD_BYTES: u64 = 2 << 20;
/// Longest target of a symbolic link.
const TARGET_BYTES: usize = 4096;
/// Memory of an entry beside its content and names.
const ENTRY_BYTES: usize = 320;

/// A directory whose names are known.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) node: Arc<Node>,
    pub(super) names: Names,
}

/// A subdirectory that was found. What the walk keeps of it until its turn.
#[derive(Debug)]
pub(super) struct Subdirectory<'a> {
    pub(super) name: &'a CStr,
    pub(super) owner: u32,
    /// Whether it lies on another file system and is to stay empty.
    pub(super) is_foreign: bool,
}

/// Entries of one directory, not yet numbered.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) path: Box<[u8]>,
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
    /// Its share of the memory for reading ahead.
    pub(super) weight_bytes: usize,
}

/// The tools of one thread.
pub(super) struct Reader {
    options: DirectoryOptions,
    reading: Reading,
    /// File system of the root.
    device: u64,
    attributes: AttributeReader,
    buffer: Vec<MaybeUninit<u8>>,
    target: Vec<u8>,
}

/// Why an entry does not come.
enum Lost {
    /// Removed since the directory was listed: as if it had been listed later.
    Gone,
    Problem(Reason),
}

impl From<Errno> for Lost {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => Self::Gone,
            error => Self::Problem(Reason::Unreadable(Failure(error))),
        }
    }
}

/// One name while its entry is being made.
struct Subjects<'a> {
    node: &'a Arc<Node>,
    directory: BorrowedFd<'a>,
    name: &'a CStr,
}

impl Reader {
    pub(super) fn new(
        options: &DirectoryOptions,
        reading: Reading,
        device: u64,
    ) -> Result<Self, SourceError> {
        Ok(Self {
            options: options.clone(),
            reading,
            device,
            attributes: AttributeReader::new()?,
            buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES],
            target: vec![0; TARGET_BYTES],
        })
    }

    /// Reads the names of a directory.
    pub(super) fn list(&mut self, node: &Arc<Node>) -> Result<Listing, NamesError> {
        let directory = node.open()?;
        // Something may have been mounted or removed since it was looked at.
        let is_foreign =
            self.options.one_file_system && { device_of(&examine_open(directory.as_fd())?) != self.device };
        // A directory that stayed open may have been read from before.
        rustix::fs::seek(&*directory, rustix::fs::SeekFrom::Start(0))?;
        let names = match is_foreign {
            true => Names::default(),
            false => Names::read(directory.as_fd(), &mut self.buffer, self.options.names_bytes)?,
        };
        Ok(Listing { node: Arc::clone(node), names })
    }

    /// Makes entries of the names in `range`, as many as fit a piece. Gives the piece and the first name that is left.
    ///
    /// # Errors
    /// The names cannot be read from their temporary file.
    pub(super) fn read(
        &mut self,
        listing: &Listing,
        range: Range<usize>,
        mut on_directory: impl FnMut(Subdirectory<'_>),
    ) -> Result<(Piece, usize), SpillError> {
        let node = &listing.node;
        let names = listing.names.part(&range)?;
        let mut piece = Piece { path: node.path(), is_first: range.start == 0, ..Piece::default() };
        let directory: Arc<OwnedFd> = match node.open() {
            Ok(directory) => directory,
            Err(_) if range.is_empty() => return Ok((piece, range.end)),
            Err(error) => {
                piece.problems.push(Problem::new(&piece.path, Reason::Unlistable(Failure(error))));
                return Ok((piece, range.end));
            }
        };
        self.attributes.enter(directory.as_fd());
        piece.entries.reserve_exact(range.len());
        let mut bytes = 0;
        let mut next = range.start;
        while next < range.end && bytes < PIECE_BYTES {
            let name = names.get(next);
            next += 1;
            let subjects = Subjects { node, directory: directory.as_fd(), name };
            let before = piece.problems.len();
            let mut reasons = Vec::new();
            match self.entry(&subjects, &mut reasons, &mut on_directory) {
                Ok((entry, weight)) => {
                    bytes += weight;
                    piece.entries.push(entry);
                }
                Err(Lost::Gone) => {}
                Err(Lost::Problem(reason)) => reasons.push(reason),
            }
            if !reasons.is_empty() {
                let path = node.path_of(name.to_bytes());
                piece.problems.extend(reasons.into_iter().map(|reason| Problem::new(&path, reason)));
            }
            bytes += (piece.problems.len() - before) * ENTRY_BYTES;
        }
        piece.weight_bytes = bytes + (next - range.start) * ENTRY_BYTES;
        Ok((piece, next))
    }

    /// Makes one entry; tells what its content and attributes weigh.
    fn entry(
        &mut self,
        subjects: &Subjects<'_>,
        reasons: &mut Vec<Reason>,
        on_directory: &mut impl FnMut(Subdirectory<'_>),
    ) -> Result<(Entry, usize), Lost> {
        let name = subjects.name;
        let found = examine(subjects.directory, name)?;
        let device = device_of(&found);
        let excluded = &self.options.exclude;
        if excluded.iter().any(|file| (file.device, file.inode) == (device, found.stx_ino)) {
            return Err(Lost::Problem(Reason::Ignored("left out: it is what is being written".to_owned())));
        }
        let rdev = DeviceNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor };
        let kind = match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::RegularFile if found.stx_size > 0 && self.reading != Reading::Metadata => {
                return self.regular(subjects, &found, reasons);
            }
            FileType::RegularFile => Kind::Regular {
                size_bytes: found.stx_size,
                content: match found.stx_size {
                    0 => Content::Hole,
                    _ => file_content(subjects, &found, None),
                },
            },
            FileType::Directory => {
                let is_foreign = self.options.one_file_system && device != self.device;
                on_directory(Subdirectory { name, owner: found.stx_uid, is_foreign });
                // Numbered when it is delivered.
                Kind::Directory(DirectoryId::ROOT)
            }
            FileType::Symlink => Kind::Symlink { target: self.read_link(subjects)? },
            FileType::CharacterDevice => Kind::CharacterDevice(rdev),
            FileType::BlockDevice => Kind::BlockDevice(rdev),
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            _ => return Err(Lost::Problem(Reason::Unreadable(Failure(Errno::NOTSUP)))),
        };
        let subject = Subject::Name(subjects.directory, name);
        let metadata = self.metadata(subject, &found, reasons);
        let weight = metadata.attributes.iter().map(|a| a.name.len() + a.value.len()).sum();
        Ok((Entry { name: name.to_bytes().into(), metadata, kind }, weight))
    }

    fn read_link(&mut self, subjects: &Subjects<'_>) -> Result<Box<[u8]>, Errno> {
        let length = readlinkat_raw(subjects.directory, subjects.name, self.target.as_mut_slice())?;
        Ok(self.target.get(..length).unwrap_or_default().into())
    }

    /// A regular file that is not empty: opened, so that it is known that it can be, and read if it is small.
    fn regular(
        &mut self,
        subjects: &Subjects<'_>,
        listed: &Statx,
        reasons: &mut Vec<Reason>,
    ) -> Result<(Entry, usize), Lost> {
        let host = subjects.node.host();
        let fd = open_file(host, subjects.directory, subjects.name, listed.stx_uid)?;
        // Once more, so that metadata and content are those of one file at one time.
        let found = examine_open(fd.as_fd())?;
        if FileType::from_raw_mode(found.stx_mode.into()) != FileType::RegularFile {
            return Err(Lost::Problem(Reason::Unreadable(Failure(Errno::AGAIN))));
        }
        let metadata = self.metadata(Subject::Open(fd.as_fd()), &found, reasons);
        let mut weight: usize = metadata.attributes.iter().map(|a| a.name.len() + a.value.len()).sum();
        let mut size_bytes = found.stx_size;
        let content = match self.read_small(fd.as_fd(), &found)? {
            Some(content) => {
                if let Content::Inline(bytes) = &content {
                    weight += bytes.len();
                    // Where it has become shorter meanwhile.
                    size_bytes = bytes.len() as u64;
                }
                content
            }
            None => file_content(subjects, &found, Some(fd)),
        };
        let name = subjects.name.to_bytes().into();
        Ok((Entry { name, metadata, kind: Kind::Regular { size_bytes, content } }, weight))
    }

    /// The content, where the file is small and has no holes beside data.
    fn read_small(&self, fd: BorrowedFd<'_>, found: &Statx) -> Result<Option<Content>, Errno> {
        let size = found.stx_size;
        if size == 0 {
            return Ok(Some(Content::Hole));
        }
        if may_have_holes(found) {
            match next_data(fd, 0, size)? {
                None => return Ok(Some(Content::Hole)),
                Some(range) if range.length_bytes < size => return Ok(None),
                Some(_) => {}
            }
        }
        // A file with many names would be read for each of them, where once is enough.
        let of_all_names = size.saturating_mul(found.stx_nlink.max(1).into());
        let is_small = size <= self.options.inline_limit_bytes && of_all_names <= MOST_OF_ALL_NAMES_BYTES;
        if !is_small || self.reading != Reading::Everything {
            return Ok(None);
        }
        let length = size as usize;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let offset = bytes.len() as u64;
            match rustix::io::pread(fd, spare_capacity(&mut bytes), offset) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(length);
        Ok(Some(match bytes.is_empty() {
            true => Content::Hole,
            false => Content::Inline(bytes.into_boxed_slice()),
        }))
    }

    fn metadata(&mut self, subject: Subject<'_>, found: &Statx, reasons: &mut Vec<Reason>) -> Metadata {
        let device = device_of(found);
        let attributes = self.attributes.read(subject, device);
        reasons.extend(attributes.problems);
        let is_directory = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
        let link = (found.stx_nlink > 1 && !is_directory).then_some(LinkIdentity {
            device,
            inode: found.stx_ino,
            links: found.stx_nlink,
        });
        Metadata {
            mode: found.stx_mode & 0o7777,
            user: found.stx_uid,
            group: found.stx_gid,
            times: times(found),
            attributes: attributes.attributes,
            link,
        }
    }

    /// The root's own attributes.
    pub(super) fn root(&mut self, root: BorrowedFd<'_>) -> Result<(Metadata, Vec<Reason>), Errno> {
        let found = examine_open(root)?;
        let mut reasons = Vec::new();
        let metadata = self.metadata(Subject::Open(root), &found, &mut reasons);
        Ok((metadata, reasons))
    }
}

fn times(found: &Statx) -> Times {
    let time =
        |time: StatxTimestamp| Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec.min(999_999_999) };
    let knows_creation = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    Times {
        access: time(found.stx_atime),
        modification: time(found.stx_mtime),
        change: time(found.stx_ctime),
        creation: knows_creation.then(|| time(found.stx_btime)),
    }
}

/// Fewer blocks than bytes. Compressed files and those not yet on disk look the same, which asking then shows.
fn may_have_holes(found: &Statx) -> bool {
    found.stx_blocks.saturating_mul(512) < found.stx_size
}

/// A handle on a file; it stays open where few others are.
fn file_content(subjects: &Subjects<'_>, found: &Statx, fd: Option<OwnedFd>) -> Content {
    let kept = fd.and_then(|fd| {
        let slot = subjects.node.host().keep_file()?;
        // Where that is not done, reading is only slower.
        let _ = fadvise(&fd, 0, NonZeroU64::new(found.stx_size.min(READ_AHEAD_BYTES)), Advice::WillNeed);
        Some(Arc::new(Descriptor::Own { fd, _slot: Some(slot) }))
    });
    let place = ContentLocation::Tree(FileInTree {
        directory: Arc::clone(subjects.node),
        name: subjects.name.to_owned(),
        device: device_of(found),
        inode: found.stx_ino,
        owner: found.stx_uid,
        modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        kept,
    });
    let may_have_holes = may_have_holes(found);
    Content::File(Arc::new(FileContent { place, size_bytes: found.stx_size, may_have_holes }))
}

//! Prototype files of `mkfs.xfs -p`: words between blanks and newlines; `:` begins a comment.
//!
//! The first three words say nothing any more; then comes the root directory. A directory's entries follow its mode and
//! owners, each with its name first, up to a word `$`. A mode is a letter of `-bcdpl`, `u` or `-`, `g` or `-`, and three
//! octal digits. Behind the owners a regular file has the path of its content, which lends it its attributes too, a device
//! two numbers, a link its target.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
};

use crate::{
    content::Content,
    directory::attributes_of_open,
    entry::{DeviceNumber, DirectoryId, Kind, Metadata, Times, Timestamp},
    error::{Problem, Reason, Shown, SourceError, TextFault},
    lines::{decimal, octal, unexpected},
    path,
    stream::{MAX_PATH_BYTES, StreamEntry, StreamItem, StreamSource},
    tree::Reading,
};

/// Longest file that is read.
const MAX_BYTES: u64 = 1 << 30;

/// How a prototype file is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProtofileOptions {
    /// The time that files get.
    pub time: Timestamp,
    /// Files with content have the access times of where it comes from.
    pub access_times: bool,
    /// A slash in a name stands for a space.
    pub slashes_are_spaces: bool,
}

/// Files as a prototype file names them.
#[derive(Debug)]
pub struct ProtofileSource {
    path: PathBuf,
    options: ProtofileOptions,
    text: Vec<u8>,
    at: usize,
    line: u64,
    /// Where entries go; `None` before the root and after its end.
    directory: Option<Box<[u8]>>,
    has_root: bool,
    directories: u64,
    problems: Vec<Problem>,
}

impl ProtofileSource {
    /// Reads the prototype file at `path`. Paths in it are relative to the working directory.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path, options: ProtofileOptions) -> Result<Self, SourceError> {
        let failed = |error| SourceError::host(path, "read", error);
        let length = fs::metadata(path).map_err(failed)?.len();
        if length > MAX_BYTES {
            return Err(failed(std::io::Error::other("too large for a prototype file")));
        }
        let text = fs::read(path).map_err(failed)?;
        Ok(Self {
            path: path.to_path_buf(),
            options,
            text,
            at: 0,
            line: 1,
            directory: None,
            has_root: false,
            directories: 0,
            problems: Vec::new(),
        })
    }

    fn begin_anew(&mut self) {
        (self.at, self.line) = (0, 1);
        (self.directory, self.has_root, self.directories) = (None, false, 0);
        self.problems.clear();
    }

    fn error(&self, fault: TextFault) -> SourceError {
        SourceError::Text { file: Shown::from(self.path.as_os_str().as_bytes()), line: self.line, fault }
    }

    /// The next word; its place in the text, so that nothing is copied.
    fn word(&mut self) -> Option<&[u8]> {
        loop {
            let rest = self.text.get(self.at..)?;
            let (first, _) = rest.split_first()?;
            match first {
                b':' => self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
                byte if byte.is_ascii_whitespace() => {
                    self.line += u64::from(*byte == b'\n');
                    self.at += 1;
                }
                _ => break,
            }
        }
        let start = self.at;
        let rest = self.text.get(start..)?;
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
        self.at += rest.iter().position(is_end).unwrap_or(rest.len());
        self.text.get(start..self.at)
    }

    fn expect(&mut self, what: &'static str) -> Result<Vec<u8>, TextFault> {
        self.word().map(<[u8]>::to_vec).ok_or(TextFault::Missing(what))
    }

    fn next_entry(&mut self) -> Result<Option<StreamEntry>, TextFault> {
        if !self.has_root {
            self.expect("the first word, which may be any")?;
            let _blocks: u64 = decimal(&self.expect("a number of blocks")?, "number")?;
            let _inodes: u64 = decimal(&self.expect("a number of inodes")?, "number")?;
            self.has_root = true;
            let root = self.entry(Box::default())?;
            if !matches!(root.kind, Kind::Directory(_)) {
                return Err(TextFault::Missing("a directory for the root"));
            }
            return Ok(Some(root));
        }
        loop {
            // What follows the end of the root says nothing.
            let Some(directory) = self.directory.clone() else { return Ok(None) };
            let mut name = self.expect("the $ that ends a directory")?;
            if name == b"$" {
                self.directory = (!directory.is_empty()).then(|| path::split(&directory).0.into());
                continue;
            }
            if self.options.slashes_are_spaces {
                name.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b' ');
            }
            let path = path::join(&directory, &name);
            let is_bad =
                matches!(name.as_slice(), b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0));
            if is_bad || path.len() > MAX_PATH_BYTES {
                return Err(TextFault::BadPath(Shown(path)));
            }
            return self.entry(path).map(Some);
        }
    }

    /// The entry whose mode comes next.
    fn entry(&mut self, path: Box<[u8]>) -> Result<StreamEntry, TextFault> {
        let mode = self.expect("a mode")?;
        let (letter, bits) = parse_mode(&mode)?;
        let user = decimal(&self.expect("a user")?, "user")?;
        let group = decimal(&self.expect("a group")?, "group")?;
        let times = Times::all(self.options.time);
        let mut metadata = Metadata { mode: bits, user, group, times, ..Metadata::default() };
        let kind = match letter {
            b'd' => {
                self.directory = Some(path.clone());
                self.directories += 1;
                Kind::Directory(DirectoryId(self.directories))
            }
            b'-' => self.regular(&path, &mut metadata)?,
            b'l' => {
                let target = self.expect("a target")?;
                if target.contains(&0) || target.len() > 4095 {
                    return Err(TextFault::BadPath(Shown(target.into())));
                }
                Kind::Symlink { target: target.into() }
            }
            b'b' => Kind::BlockDevice(self.device()?),
            b'c' => Kind::CharacterDevice(self.device()?),
            _ => Kind::Fifo,
        };
        Ok(StreamEntry { path, metadata, kind })
    }

    fn device(&mut self) -> Result<DeviceNumber, TextFault> {
        let major = decimal(&self.expect("a major number")?, "major number")?;
        let minor = decimal(&self.expect("a minor number")?, "minor number")?;
        Ok(DeviceNumber { major, minor })
    }

    fn regular(&mut self, path: &[u8], metadata: &mut Metadata) -> Result<Kind, TextFault> {
        let word = self.expect("the path of the content")?;
        let host = Path::new(OsStr::from_bytes(&word));
        let failed = |failure: String| TextFault::File { path: host.to_path_buf(), failure };
        let (size_bytes, content) = Content::of_host_file(host).map_err(|error| failed(error.to_string()))?;
        let file = File::open(host).map_err(|error| failed(error.to_string()))?;
        if self.options.access_times {
            let found = file.metadata().map_err(|error| failed(error.to_string()))?;
            let nanoseconds = u32::try_from(found.atime_nsec()).unwrap_or(0);
            metadata.times.access = Timestamp { seconds: found.atime(), nanoseconds };
        }
        let (attributes, reasons): (_, Vec<Reason>) = attributes_of_open(file.as_fd());
        metadata.attributes = attributes;
        metadata.follow_acl();
        self.problems.extend(reasons.into_iter().map(|reason| Problem::new(path, reason)));
        Ok(Kind::Regular { size_bytes, content })
    }
}

/// The letter of the kind, and the mode.
fn parse_mode(word: &[u8]) -> Result<(u8, u16), TextFault> {
    let bad = || unexpected(word, "mode, such as d--755");
    let [letter, set_user, set_group, digits @ ..] = word else { return Err(bad()) };
    let flag = |byte: u8, letter: u8, bit: u16| match byte {
        b'-' => Ok(0),
        byte if byte == letter => Ok(bit),
        _ => Err(bad()),
    };
    let bits = flag(*set_user, b'u', 0o4000)? | flag(*set_group, b'g', 0o2000)?;
    if digits.len() != 3 || !b"-bcdpl".contains(letter) {
        return Err(bad());
    }
    Ok((*letter, bits | octal::<u16>(digits, "mode").map_err(|_| bad())?))
}

impl StreamSource for ProtofileSource {
    fn next_item(&mut self) -> Result<Option<StreamItem>, SourceError> {
        match self.next_entry() {
            Ok(entry) => Ok(entry.map(StreamItem::Entry)),
            Err(fault) => {
                self.has_root = true;
                self.directory = None;
                Err(self.error(fault))
            }
        }
    }

    fn read_data(&mut self, _: &mut [u8]) -> Result<usize, SourceError> {
        // Content is never in the stream.
        Ok(0)
    }

    fn restart(&mut self, _: Reading) -> Result<(), SourceError> {
        self.begin_anew();
        Ok(())
    }

    fn check(&mut self) -> Result<(), SourceError> {
        while self.next_item()?.is_some() {}
        self.begin_anew();
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}

//! The files of an image: in a directory, or in an archive.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    ops::Range,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;

use super::{
    documents::{self, Descriptor, MAX_DOCUMENT_BYTES},
    reference::{Form, Reference},
    region::{Region, spooled, spooled_path},
};
use crate::{
    content::{Content, ContentLocation},
    entry::Kind,
    error::{ContainerFault, Problem, Reason, Shown, SourceError},
    packing::Packing,
    path::split,
    stream::{StreamEntry, StreamItem, StreamSource},
    tar::{self, TarOptions, TarSource},
    tree::Reading,
};

/// Names of an archive that are kept, in bytes, each with its record. Images of 500 layers have a hundredth of it.
const MAX_NAMES_BYTES: usize = 16 << 20;
/// Memory of a record beside its names.
const RECORD_BYTES: usize = 96;
/// Links that lead to links.
const MAX_LINKS: usize = 8;

/// The files of an image.
pub(super) struct Store {
    name: Shown,
    files: Files,
    /// Data behind the end of the archive.
    pub(super) problems: Vec<Problem>,
}

enum Files {
    Directory(PathBuf),
    Archive { archive: Region, members: HashMap<Box<[u8]>, Member> },
}

enum Member {
    File(Range<u64>),
    /// To another path of the archive.
    Link(Box<[u8]>),
    Other,
}

impl Store {
    /// # Errors
    /// It cannot be read, or is no archive.
    pub(super) fn open(reference: &Reference, options: &TarOptions) -> Result<Self, SourceError> {
        let name = reference.shown();
        let mut problems = Vec::new();
        let files = match reference.form {
            Form::Layout => Files::Directory(reference.path.clone()),
            Form::LayoutArchive | Form::Docker => {
                let archive = open_archive(&reference.path, &mut problems)?;
                let options = TarOptions { ignores_zeros: options.ignores_zeros, ..TarOptions::default() };
                let members = members(&archive, options, &mut problems)?;
                Files::Archive { archive, members }
            }
        };
        if let Files::Directory(path) = &files {
            std::fs::read_dir(path).map_err(|error| SourceError::host(path, "open", error))?;
        }
        Ok(Self { name, files, problems })
    }

    pub(super) fn fault(&self, fault: ContainerFault) -> SourceError {
        SourceError::Container { image: self.name.clone(), fault }
    }

    /// Whether it has a file of this name.
    pub(super) fn has(&self, path: &str) -> bool {
        match &self.files {
            Files::Directory(directory) => directory.join(path).is_file(),
            Files::Archive { members, .. } => members.contains_key(path.as_bytes()),
        }
    }

    /// The file of this name: in a directory one that [`Digest::path`](super::digest::Digest::path) or this program names.
    pub(super) fn file(&self, path: &str) -> Result<Region, SourceError> {
        match &self.files {
            Files::Directory(directory) => self.file_of_directory(directory, path),
            Files::Archive { archive, members } => {
                let bytes = find(members, path.as_bytes()).map_err(|fault| self.fault(fault))?;
                let name = Shown([&*self.name.0, b":", path.as_bytes()].concat().into());
                Ok(Region { file: archive.file.clone(), bytes, name })
            }
        }
    }

    /// Links are followed: some builders make layouts of them, and digests tell what they lead to.
    fn file_of_directory(&self, directory: &Path, path: &str) -> Result<Region, SourceError> {
        let whole = directory.join(path);
        let name = || Shown::from(path.as_bytes());
        // To open a device may do something.
        if std::fs::metadata(&whole).is_ok_and(|found| !found.is_file()) {
            return Err(self.fault(ContainerFault::NoFile(name())));
        }
        let mut options = File::options();
        // Opening a pipe would wait for a program that writes.
        options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
        let file = options.open(&whole).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.fault(ContainerFault::Missing(name())),
            _ => SourceError::host(&whole, "open", error),
        })?;
        let found = file.metadata().map_err(|error| SourceError::host(&whole, "examine", error))?;
        if !found.is_file() {
            return Err(self.fault(ContainerFault::NoFile(name())));
        }
        let shown = Shown::from(whole.as_os_str().as_encoded_bytes());
        Region::whole(file, shown).map_err(|error| SourceError::host(&whole, "examine", error))
    }

    /// The blob that a descriptor names; its digest is yet to be compared.
    pub(super) fn blob(&self, descriptor: &Descriptor) -> Result<Region, SourceError> {
        let digest = descriptor.digest().map_err(|fault| self.fault(fault))?;
        let path = digest.path();
        if descriptor.has_urls() && !self.has(&path) {
            return Err(self.fault(ContainerFault::Foreign(Shown::from(descriptor.digest.as_bytes()))));
        }
        let region = self.file(&path)?;
        let found = region.length_bytes();
        if found != descriptor.size {
            let file = Shown::from(path.as_bytes());
            return Err(self.fault(ContainerFault::Size { file, found, expected: descriptor.size }));
        }
        Ok(region)
    }

    /// A document by its path, of which no digest is known.
    pub(super) fn document<T: DeserializeOwned>(&self, path: &str) -> Result<T, SourceError> {
        let (file, bytes) = (Shown::from(path.as_bytes()), self.text(&self.file(path)?, path)?);
        documents::parse(&file, &bytes).map_err(|fault| self.fault(fault))
    }

    /// A document that a descriptor names.
    pub(super) fn described<T: DeserializeOwned>(&self, descriptor: &Descriptor) -> Result<T, SourceError> {
        let (file, bytes) = self.verified(descriptor)?;
        documents::parse(&file, &bytes).map_err(|fault| self.fault(fault))
    }

    /// The bytes of a document that a descriptor names: they have its size and digest.
    pub(super) fn verified(&self, descriptor: &Descriptor) -> Result<(Shown, Vec<u8>), SourceError> {
        let digest = descriptor.digest().map_err(|fault| self.fault(fault))?;
        let path = digest.path();
        let file = Shown::from(path.as_bytes());
        let bytes = self.text(&self.blob(descriptor)?, &path)?;
        let checked = digest.check_bytes(&bytes);
        checked.map_err(|mismatch| self.fault(mismatch.fault(file.clone(), &digest)))?;
        Ok((file, bytes))
    }

    fn text(&self, region: &Region, path: &str) -> Result<Vec<u8>, SourceError> {
        let bytes = region.length_bytes();
        if bytes > MAX_DOCUMENT_BYTES {
            let file = Shown::from(path.as_bytes());
            return Err(self.fault(ContainerFault::TooLong { file, bytes, limit: MAX_DOCUMENT_BYTES }));
        }
        let mut text = Vec::new();
        region.reader().read_to_end(&mut text).map_err(region.failed("read"))?;
        Ok(text)
    }
}

/// An archive as a file that is not packed: where it is none, a copy without a name.
fn open_archive(path: &Path, problems: &mut Vec<Problem>) -> Result<Region, SourceError> {
    let failed = |error| SourceError::host(path, "open", error);
    let region = if path.as_os_str() == "-" || !path.metadata().map_err(failed)?.is_file() {
        spooled_path(path)?
    } else {
        let file = File::open(path).map_err(failed)?;
        Region::whole(file, Shown::from(path.as_os_str().as_encoded_bytes())).map_err(failed)?
    };
    match region.packing().map_err(region.failed("read"))? {
        Packing::None => Ok(region),
        _ => {
            let mut unpacked = region.unpacked().map_err(region.failed("unpack"))?;
            let mut start = Vec::with_capacity(tar::BLOCK_BYTES);
            let read = unpacked.by_ref().take(tar::BLOCK_BYTES as u64).read_to_end(&mut start);
            read.map_err(region.failed("unpack"))?;
            // Anything may be packed, and a thousand times as long as it is here.
            if !tar::begins_archive(&start) {
                return Err(SourceError::Container {
                    image: region.name,
                    fault: ContainerFault::NoImageArchive,
                });
            }
            let spooled = spooled(region.name.clone(), start.chain(unpacked.by_ref()))?;
            problems.extend(unpacked.behind().map(|(start_bytes, length_bytes)| Problem {
                path: region.name,
                reason: Reason::BehindPacked { start_bytes, length_bytes },
            }));
            Ok(spooled)
        }
    }
}

/// Where the files of an archive lie.
fn members(
    archive: &Region,
    options: TarOptions,
    problems: &mut Vec<Problem>,
) -> Result<HashMap<Box<[u8]>, Member>, SourceError> {
    let Region { file, bytes, name } = archive.clone();
    let mut tar = TarSource::of_bytes(name.clone(), file, bytes, options, Reading::Metadata)?;
    let mut members = HashMap::new();
    let mut names_bytes = 0_usize;
    while let Some(item) = tar.next_item()? {
        let StreamItem::Entry(StreamEntry { path, kind, .. }) = item else { continue };
        let member = match kind {
            Kind::Directory(_) => continue,
            Kind::Regular { size_bytes, content } => member_of(size_bytes, &content),
            Kind::HardLink { target } => Member::Link(target),
            Kind::Symlink { target } => resolve(split(&path).0, &target).map_or(Member::Other, Member::Link),
            _ => Member::Other,
        };
        let link_bytes = if let Member::Link(target) = &member { target.len() } else { 0 };
        names_bytes = names_bytes.saturating_add(RECORD_BYTES + path.len() + link_bytes);
        if names_bytes > MAX_NAMES_BYTES {
            return Err(SourceError::Container { image: name, fault: ContainerFault::TooManyFiles });
        }
        members.insert(path, member);
    }
    let is_behind = |problem: &Problem| matches!(problem.reason, Reason::BehindArchive { .. });
    problems.extend(tar.take_problems().into_iter().filter(is_behind));
    Ok(members)
}

/// One piece of the archive; files with holes are no files of images.
fn member_of(size_bytes: u64, content: &Content) -> Member {
    match content {
        Content::Hole if size_bytes == 0 => Member::File(0..0),
        Content::File(file) => match &file.place {
            ContentLocation::Region { ranges, .. } => match &**ranges {
                [range] if range.offset_bytes == 0 && range.length_bytes == size_bytes => {
                    Member::File(range.source_bytes..range.source_bytes.saturating_add(size_bytes))
                }
                _ => Member::Other,
            },
            _ => Member::Other,
        },
        _ => Member::Other,
    }
}

/// Where a symbolic link in `directory` leads; `None` for nowhere in the archive.
fn resolve(directory: &[u8], target: &[u8]) -> Option<Box<[u8]>> {
    let mut names: Vec<&[u8]> = match target.starts_with(b"/") {
        true => Vec::new(),
        false => directory.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect(),
    };
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join(&b'/').into())
}

fn find(members: &HashMap<Box<[u8]>, Member>, path: &[u8]) -> Result<Range<u64>, ContainerFault> {
    let missing = || ContainerFault::Missing(Shown::from(path));
    let mut at = crate::path::clean(path).map_err(|_| missing())?;
    for _ in 0..MAX_LINKS {
        match members.get(&at) {
            None => return Err(missing()),
            Some(Member::File(bytes)) => return Ok(bytes.clone()),
            Some(Member::Other) => return Err(ContainerFault::NoFile(Shown::from(path))),
            Some(Member::Link(target)) => at = target.clone(),
        }
    }
    Err(ContainerFault::Link(Shown::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_within_the_archive() {
        let leads = |directory: &str, target: &str| {
            resolve(directory.as_bytes(), target.as_bytes())
                .map(|path| String::from_utf8(path.into()).unwrap())
        };
        assert_eq!(leads("one", "../two/layer.tar").as_deref(), Some("two/layer.tar"));
        assert_eq!(leads("", "./two//layer.tar").as_deref(), Some("two/layer.tar"));
        assert_eq!(leads("one/deep", "/two").as_deref(), Some("two"));
        assert_eq!(leads("one", "../../etc/passwd"), None);
        let link = |target: &str| Member::Link(target.as_bytes().into());
        let members: HashMap<Box<[u8]>, Member> = [
            (b"a".as_slice().into(), link("b")),
            (b"b".as_slice().into(), Member::File(512..600)),
            (b"c".as_slice().into(), link("d")),
            (b"d".as_slice().into(), link("c")),
            (b"e".as_slice().into(), Member::Other),
        ]
        .into();
        assert_eq!(find(&members, b"./a").unwrap(), 512..600);
        assert!(matches!(find(&members, b"c"), Err(ContainerFault::Link(_))));
        assert!(matches!(find(&members, b"e"), Err(ContainerFault::NoFile(_))));
        for path in ["f", "../a", "a/b", ""] {
            assert!(matches!(find(&members, path.as_bytes()), Err(ContainerFault::Missing(_))), "{path}");
        }
    }
}

//! Paths in an image that fit a pattern. The set of directories of one component leads to that of the next, so that the work is
//! bounded by the number of components times the tree, whatever the pattern.

use std::sync::Arc;

use uxfs_format::units::InodeNumber;
use uxfs_volume::{
    directory::read::DirectoryWalk,
    error::{Error, OperationError},
    inode::{FileType, Inode, set::InodeSet},
    volume::Volume,
};

use super::pattern::Pattern;
use crate::{failure::Failure, kind::Kind, listing::PATH_BYTES_MAX};

/// Bytes of the paths that are found for one component.
const FOUND_BYTES_MAX: usize = 256 << 20;
/// Memory that a path takes beside its bytes.
const BESIDES_BYTES: usize = 64;
/// Entries of directories that are looked at for one pattern: a damaged image leads to the same one in many ways.
const ENTRIES_MAX: u64 = 1 << 30;

/// Called with a path and why it could not be read.
pub type Complain<'a> = dyn FnMut(&[u8], &Error) + 'a;

/// One part of a pattern between slashes.
#[derive(Debug)]
enum Component {
    /// `**`: directories on any level, or all that is below.
    Tree,
    /// A name without signs of a pattern.
    Name(Vec<u8>),
    /// Names that fit.
    Names(Pattern),
}

/// A directory on the way, with its path as it was written.
#[derive(Debug, Clone)]
struct Way {
    path: Vec<u8>,
    directory: Arc<Inode>,
}

/// Finds what fits a pattern.
pub struct Expansion<'a> {
    volume: &'a Volume,
    complain: &'a mut Complain<'a>,
    found: Vec<Vec<u8>>,
    found_bytes: usize,
    entries: u64,
}

impl<'a> Expansion<'a> {
    /// The paths that fit, sorted, as seen from `directory`.
    ///
    /// # Errors
    /// There are too many.
    pub fn find(
        volume: &'a Volume,
        directory: Arc<Inode>,
        pattern: &[u8],
        complain: &'a mut Complain<'a>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let mut expansion = Self { volume, complain, found: Vec::new(), found_bytes: 0, entries: 0 };
        let slashes = pattern.iter().take_while(|byte| **byte == b'/').count();
        let start = match (slashes, volume.root()) {
            (0, _) => directory,
            (_, Ok(root)) => root,
            (_, Err(error)) => {
                (expansion.complain)(b"/", &error);
                return Ok(Vec::new());
            }
        };
        let (prefix, rest) = pattern.split_at(slashes);
        let is_directory_wanted = rest.ends_with(b"/");
        let mut components = components(rest);
        let Some(last) = components.pop() else { return Ok(Vec::new()) };
        // As bash does, a directory whose path has no pattern is among what is below it, with a slash.
        let has_slash = components.iter().all(|component| matches!(component, Component::Name(_)));
        let mut ways = vec![Way { path: prefix.to_vec(), directory: start }];
        for component in &components {
            ways = expansion.directories(&ways, component)?;
        }
        expansion.all(&ways, &last, is_directory_wanted, has_slash)?;
        let mut found = expansion.found;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The directories that one component leads to.
    fn directories(&mut self, ways: &[Way], component: &Component) -> Result<Vec<Way>, Failure> {
        let mut next: Vec<Way> = Vec::new();
        self.found_bytes = 0;
        for way in ways {
            match component {
                Component::Name(name) => {
                    let path = joined(&way.path, name);
                    if let Some(directory) = self.directory_of_name(way, name, &path) {
                        self.count(&path)?;
                        next.push(Way { path, directory });
                    }
                }
                Component::Names(pattern) => {
                    let mut names = Vec::new();
                    self.each_entry(way, |expansion, name, number, file_type| {
                        if pattern.fits_shown(name) {
                            expansion.count(name)?;
                            names.push((name.to_vec(), number, file_type));
                        }
                        Ok(())
                    })?;
                    for (name, number, file_type) in names {
                        let path = joined(&way.path, &name);
                        if let Some(directory) = self.directory_of_entry(way, &path, &name, number, file_type)
                        {
                            self.count(&path)?;
                            next.push(Way { path, directory });
                        }
                    }
                }
                Component::Tree => self.tree(way, |expansion, way| {
                    expansion.count(&way.path)?;
                    next.push(way.clone());
                    expansion.links(way, &mut next)
                })?,
            }
        }
        // Nested trees lead to the same directories.
        next.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        next.dedup_by(|one, other| one.path == other.path);
        Ok(next)
    }

    /// Directories that symbolic links in a directory lead to.
    fn links(&mut self, way: &Way, next: &mut Vec<Way>) -> Result<(), Failure> {
        let mut names = Vec::new();
        self.each_entry(way, |expansion, name, _, file_type| {
            let may_be = matches!(file_type, Some(FileType::SymbolicLink) | None);
            if may_be && name.first() != Some(&b'.') {
                expansion.count(name)?;
                names.push(name.to_vec());
            }
            Ok(())
        })?;
        for name in names {
            let path = joined(&way.path, &name);
            if let Some(directory) = self.directory_of_name(way, &name, &path) {
                self.count(&path)?;
                next.push(Way { path, directory });
            }
        }
        Ok(())
    }

    /// What the last component leads to.
    fn all(
        &mut self,
        ways: &[Way],
        last: &Component,
        is_directory_wanted: bool,
        has_slash: bool,
    ) -> Result<(), Failure> {
        self.found_bytes = 0;
        for way in ways {
            match last {
                Component::Name(name) => {
                    let path = joined(&way.path, name);
                    let is_there = match is_directory_wanted {
                        true => self.directory_of_name(way, name, &path).is_some(),
                        false => self.is_there(way, name, &path),
                    };
                    if is_there {
                        self.push(path, is_directory_wanted)?;
                    }
                }
                Component::Names(pattern) => {
                    self.names(way, is_directory_wanted, |name| pattern.fits_shown(name))?;
                }
                Component::Tree => self.tree(way, |expansion, below| {
                    if below.path == way.path && !way.path.is_empty() && !way.path.ends_with(b"/") {
                        expansion.push(way.path.clone(), is_directory_wanted || has_slash)?;
                    }
                    expansion.names(below, is_directory_wanted, |name| name.first() != Some(&b'.'))
                })?,
            }
        }
        Ok(())
    }

    /// The names of one directory that fit.
    fn names(
        &mut self,
        way: &Way,
        is_directory_wanted: bool,
        fits: impl Fn(&[u8]) -> bool,
    ) -> Result<(), Failure> {
        let mut asked = Vec::new();
        self.each_entry(way, |expansion, name, number, file_type| match (fits(name), is_directory_wanted) {
            (false, _) => Ok(()),
            (true, false) => expansion.push(joined(&way.path, name), false),
            (true, true) => {
                expansion.count(name)?;
                asked.push((name.to_vec(), number, file_type));
                Ok(())
            }
        })?;
        for (name, number, file_type) in asked {
            let path = joined(&way.path, &name);
            if self.directory_of_entry(way, &path, &name, number, file_type).is_some() {
                self.push(path, true)?;
            }
        }
        Ok(())
    }

    /// Visits a directory and all below that are not hidden, without going through symbolic links.
    fn tree(
        &mut self,
        top: &Way,
        mut visit: impl FnMut(&mut Self, &Way) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut seen = InodeSet::default();
        let mut ways = vec![top.clone()];
        let mut waiting_bytes = 0usize;
        while let Some(way) = ways.pop() {
            waiting_bytes = waiting_bytes.saturating_sub(way.path.len());
            if !seen.insert(way.directory.number) || way.path.len() > PATH_BYTES_MAX {
                continue;
            }
            visit(self, &way)?;
            let mut below = Vec::new();
            self.each_entry(&way, |expansion, name, number, file_type| {
                let may_be = file_type.is_none_or(|file_type| file_type == FileType::Directory);
                if may_be && name.first() != Some(&b'.') {
                    expansion.count(name)?;
                    below.push((name.to_vec(), number));
                }
                Ok(())
            })?;
            for (name, number) in below {
                let path = joined(&way.path, &name);
                if let Some(directory) = self.read_directory(&path, number) {
                    waiting_bytes += path.len();
                    if waiting_bytes > FOUND_BYTES_MAX {
                        return Err(too_many());
                    }
                    ways.push(Way { path, directory });
                }
            }
        }
        Ok(())
    }

    /// Calls `take` with each entry but "." and "..". Damage is reported, and ends the directory.
    fn each_entry(
        &mut self,
        way: &Way,
        mut take: impl FnMut(&mut Self, &[u8], InodeNumber, Option<FileType>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let volume = self.volume;
        let mut walk = match DirectoryWalk::begin(volume, &way.directory, 0) {
            Ok(walk) => walk,
            Err(error) => {
                (self.complain)(&way.path, &error);
                return Ok(());
            }
        };
        loop {
            match walk.next_entry(volume, &way.directory) {
                Ok(Some(entry)) => {
                    self.entries += 1;
                    if self.entries > ENTRIES_MAX {
                        return Err(too_many());
                    }
                    if !matches!(entry.name, b"." | b"..") {
                        take(self, entry.name, entry.inode, entry.file_type)?;
                    }
                }
                Ok(None) => return Ok(()),
                Err(error) => {
                    (self.complain)(&way.path, &error);
                    return Ok(());
                }
            }
        }
    }

    /// The directory that a name leads to, also through a symbolic link.
    fn directory_of_name(&mut self, way: &Way, name: &[u8], path: &[u8]) -> Option<Arc<Inode>> {
        let found = self.volume.resolve_from(&way.directory, name, true);
        self.checked(found, path).filter(|inode| inode.file_type() == Some(FileType::Directory))
    }

    fn is_there(&mut self, way: &Way, name: &[u8], path: &[u8]) -> bool {
        let found = self.volume.resolve_from(&way.directory, name, false);
        self.checked(found, path).is_some()
    }

    fn directory_of_entry(
        &mut self,
        way: &Way,
        path: &[u8],
        name: &[u8],
        number: InodeNumber,
        file_type: Option<FileType>,
    ) -> Option<Arc<Inode>> {
        match file_type {
            Some(FileType::Directory) => self.read_directory(path, number),
            Some(FileType::SymbolicLink) | None => self.directory_of_name(way, name, path),
            Some(_) => None,
        }
    }

    fn read_directory(&mut self, path: &[u8], number: InodeNumber) -> Option<Arc<Inode>> {
        let read = self.volume.inode(number);
        self.checked(read, path).filter(|inode| inode.file_type() == Some(FileType::Directory))
    }

    /// What was read, where it is there. Damage is reported.
    fn checked(&mut self, read: Result<Arc<Inode>, Error>, path: &[u8]) -> Option<Arc<Inode>> {
        match read {
            Ok(inode) => Some(inode),
            Err(Error::Operation(
                OperationError::NotFound
                | OperationError::NotADirectory
                | OperationError::TooManySymlinks
                | OperationError::NameTooLong,
            )) => None,
            Err(error) => {
                (self.complain)(path, &error);
                None
            }
        }
    }

    fn push(&mut self, mut path: Vec<u8>, is_directory_wanted: bool) -> Result<(), Failure> {
        if is_directory_wanted && !path.ends_with(b"/") {
            path.push(b'/');
        }
        self.count(&path)?;
        self.found.push(path);
        Ok(())
    }

    /// Bounds the memory of what is found.
    fn count(&mut self, path: &[u8]) -> Result<(), Failure> {
        self.found_bytes += path.len() + BESIDES_BYTES;
        if self.found_bytes > FOUND_BYTES_MAX { Err(too_many()) } else { Ok(()) }
    }
}

fn too_many() -> Failure {
    Failure::refused(Kind::TooLarge, "too many paths fit the pattern")
        .with_remedy("--no-glob takes it for a name")
}

/// The parts of a pattern without slashes in front.
fn components(pattern: &[u8]) -> Vec<Component> {
    let mut components = Vec::new();
    for part in pattern.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        if part == b"**" {
            // Several in a row are one.
            if !matches!(components.last(), Some(Component::Tree)) {
                components.push(Component::Tree);
            }
            continue;
        }
        let pattern = Pattern::parse(part);
        components.push(match pattern.literal() {
            Some(name) => Component::Name(name),
            None => Component::Names(pattern),
        });
    }
    components
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.is_empty() || path.ends_with(b"/") { b"" } else { b"/" };
    [path, slash, name].concat()
}

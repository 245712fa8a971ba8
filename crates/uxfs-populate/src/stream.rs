//! From a stream of files, an archive for instance, into the image.
//!
//! A stream tells paths in an order of its own. The directories on the way to the last path stay in memory, so that
//! what lies together is made without looking anything up.
//!
//! Layers that can be read twice are merged into a tree before anything is created (`uxfs_source::layers`). Where a
//! pipe is among them they are streams one after the other that may take away what earlier ones made. A
//! directory that a layer declares opaque loses what *earlier* layers put into it, also where the layer says so after
//! it has added to the directory itself; inodes that the present layer made or named are remembered for that.
//!
//! Symbolic links above a path are followed within the image, as in `uxfs_source::layers`.

use std::sync::atomic::Ordering::Relaxed;

use uxfs_engine::{directory::NameCheck, inode::edit::EditInode, transaction::Transaction};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::units::InodeNumber;
use uxfs_source::{
    entry::{DirectoryId, Kind, Metadata, Timestamp},
    stream::{StreamEntry, StreamItem, StreamSource},
};
use uxfs_volume::{
    attribute::xattr::XattrView,
    error::{Error, OperationError},
    inode::{FileType, Inode, set::InodeSet},
    resolve::MAX_SYMLINKS,
};

use crate::{
    Options,
    adjust::Adjustments,
    entry::{Builder, Failure},
    error::{Impossible, PopulateError},
    report::{Progress, Report},
};

/// Deepest path: each component takes two bytes of it at least.
const MAX_DEPTH: usize = uxfs_source::stream::MAX_PATH_BYTES / 2 + 1;

/// Puts the files of one stream, or of several layers in turn, below the root directory of `file_system`, which is
/// mounted in bulk mode. The caller closes the file system afterwards; until then the image is unfinished.
///
/// # Errors
/// Unreadable parts of the source, objects that XFS cannot hold, no space, the device.
pub fn populate_streams<'a>(
    file_system: &'a FileSystem,
    sources: &mut [Box<dyn StreamSource>],
    adjustments: &'a mut Adjustments,
    options: &'a Options,
    progress: &'a Progress,
) -> Result<Report, PopulateError> {
    let mut filling = Filling::start(file_system, adjustments, options, progress)?;
    filling.unnamed_root()?;
    for source in sources.iter_mut() {
        filling.layer.clear();
        while let Some(item) = source.next_item()? {
            filling.item(item, &mut **source)?;
            filling.report.add_problems(source.take_problems());
        }
        filling.report.add_problems(source.take_problems());
    }
    filling.finish()
}

/// A directory on the way to the last path.
struct Level {
    name: Box<[u8]>,
    inode: EditInode,
}

struct Filling<'a> {
    adjustments: &'a mut Adjustments,
    transaction: Transaction<'a>,
    builder: Builder<'a>,
    /// From the root down.
    levels: Vec<Level>,
    /// Inodes that the present layer made, and directories that it named or put something into.
    layer: InodeSet,
    keeps_directory_symlinks: bool,
    report: Report,
    progress: &'a Progress,
}

type Outcome<T> = std::result::Result<T, Failure>;

/// A name in a directory, and what it leads to.
type Name = (Box<[u8]>, InodeNumber, FileType);

impl<'a> Filling<'a> {
    fn start(
        file_system: &'a FileSystem,
        adjustments: &'a mut Adjustments,
        options: &'a Options,
        progress: &'a Progress,
    ) -> Result<Self, PopulateError> {
        let mut transaction = Transaction::begin(file_system)?;
        let inode = transaction.load_inode(file_system.geometry().root_inode)?;
        Ok(Self {
            adjustments,
            transaction,
            builder: Builder::start(file_system, options, progress)?,
            levels: vec![Level { name: Box::default(), inode }],
            layer: InodeSet::default(),
            keeps_directory_symlinks: options.keeps_directory_symlinks,
            report: Report::default(),
            progress,
        })
    }

    /// Streams need not name their root.
    fn unnamed_root(&mut self) -> Result<(), PopulateError> {
        let now = self.transaction.engine().now();
        let now = Timestamp { seconds: now.seconds, nanoseconds: now.nanoseconds };
        let Some(mut metadata) = self.adjustments.unnamed_root(now) else { return Ok(()) };
        self.adjustments.apply(b"", b"", &Kind::Directory(DirectoryId::ROOT), &mut metadata)?;
        let set = self.with_top(|filling, root| {
            filling.builder.set_metadata(&mut filling.transaction, root, &metadata)
        });
        set.map_err(|failure| failure.at(b"", b""))?;
        Ok(self.transaction.commit()?)
    }

    fn item(&mut self, item: StreamItem, source: &mut dyn StreamSource) -> Result<(), PopulateError> {
        let path = match &item {
            StreamItem::Entry(entry) => entry.path.clone(),
            StreamItem::Whiteout(path) | StreamItem::Opaque(path) => path.clone(),
        };
        let done = match item {
            StreamItem::Entry(entry) => self.entry(entry, source),
            StreamItem::Whiteout(_) => self.whiteout(&path),
            StreamItem::Opaque(_) => self.opaque(&path),
        };
        done.map_err(|failure| failure.at(&path, b""))?;
        self.transaction.commit()?;
        self.progress.entries.fetch_add(1, Relaxed);
        Ok(())
    }

    fn entry(&mut self, entry: StreamEntry, source: &mut dyn StreamSource) -> Outcome<()> {
        let StreamEntry { path, mut metadata, kind } = entry;
        let Some((parents, name)) = split(&path) else {
            // The root itself.
            self.leave_to(1)?;
            self.adjustments.apply(b"", b"", &kind, &mut metadata)?;
            self.report.attributes += metadata.attributes.len() as u64;
            return self.with_top(|filling, root| {
                filling.remove_xattrs(root)?;
                filling.builder.set_metadata(&mut filling.transaction, root, &metadata)
            });
        };
        self.enter(parents, &metadata)?;
        self.adjustments.apply(b"", &self.path_of(name), &kind, &mut metadata)?;
        self.report.attributes += metadata.attributes.len() as u64;
        if let Kind::HardLink { target } = &kind {
            return self.hard_link(&path, name, target);
        }
        if let Some((number, file_type)) = self.find(name)? {
            match file_type {
                FileType::Directory if matches!(kind, Kind::Directory(_)) => {
                    return self.again(name, number, &metadata);
                }
                FileType::SymbolicLink
                    if self.keeps_directory_symlinks
                        && matches!(kind, Kind::Directory(_))
                        && self.leads_to_directory(name)? =>
                {
                    return Ok(());
                }
                _ => self.remove_tree(name)?,
            }
        }
        self.report.count(&kind);
        self.make(name, &metadata, kind, Some(source))?;
        Ok(())
    }

    /// A directory that is there already gets the new attributes in place of the old.
    fn again(&mut self, name: &[u8], number: InodeNumber, metadata: &Metadata) -> Outcome<()> {
        let mut inode = self.transaction.load_inode(number)?;
        self.remove_xattrs(&mut inode)?;
        self.builder.set_metadata(&mut self.transaction, &mut inode, metadata)?;
        self.layer.insert(number);
        self.levels.push(Level { name: name.into(), inode });
        Ok(())
    }

    /// All that users see; parent pointers stay, and what mkfs gave the root.
    fn remove_xattrs(&mut self, inode: &mut EditInode) -> Outcome<()> {
        self.transaction.store_inode(inode)?;
        let file_system = self.transaction.engine();
        let stored = file_system.inode(inode.number)?;
        let is_root = inode.number == file_system.geometry().root_inode;
        for name in file_system.attributes(&stored)?.xattr_names(XattrView::Root)? {
            if is_root && name.starts_with(b"trusted.xfs:") {
                continue;
            }
            match self.transaction.attributes().remove_xattr(inode, &name) {
                Err(Error::Operation(OperationError::NoSuchAttribute)) => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    fn hard_link(&mut self, path: &[u8], name: &[u8], target: &[u8]) -> Outcome<()> {
        let missing = || Failure::from(Impossible::Link(target.into()));
        if target == path {
            return Ok(());
        }
        self.store_levels()?;
        let (number, file_type) = self.resolve(target)?.ok_or_else(missing)?;
        if file_type == FileType::Directory {
            return Err(missing());
        }
        if let Some((there, _)) = self.find(name)? {
            if there == number {
                return Ok(());
            }
            self.remove_tree(name)?;
        }
        self.report.hard_links += 1;
        self.with_top(|filling, parent| {
            filling.builder.link(&mut filling.transaction, parent, name, number, NameCheck::KnownToBeNew)
        })
    }

    fn whiteout(&mut self, path: &[u8]) -> Outcome<()> {
        let Some((parents, name)) = split(path) else { return Ok(()) };
        if !self.enter_existing(parents)? {
            return Ok(());
        }
        match self.find(name)? {
            Some((number, _)) if !self.layer.contains(number) => self.remove_tree(name),
            // What the layer itself has put there stays.
            Some((_, FileType::Directory)) => self.opaque(path),
            _ => Ok(()),
        }
    }

    fn opaque(&mut self, path: &[u8]) -> Outcome<()> {
        if !self.enter_existing(path)? {
            return Ok(());
        }
        // Directories that this layer named but did not make may hold older things: they are gone through as well.
        let base = self.levels.len();
        let mut left = vec![self.names_of_top()?];
        while let Some(names) = left.last_mut() {
            let Some((name, number, file_type)) = names.pop() else {
                left.pop();
                if !left.is_empty() {
                    self.leave_to(base + left.len() - 1)?;
                }
                continue;
            };
            let is_of_layer = self.layer.contains(number);
            if is_of_layer && file_type == FileType::Directory && left.len() < MAX_DEPTH {
                self.descend(&name, number)?;
                left.push(self.names_of_top()?);
            } else if !is_of_layer {
                self.remove_tree(&name)?;
            }
        }
        Ok(())
    }

    /// Makes the directories of `parents` those on the way, and those that are missing. They belong to root and have
    /// the times of the file below.
    fn enter(&mut self, parents: &[u8], below: &Metadata) -> Outcome<()> {
        self.walk(parents, Some(below)).map(drop)
    }

    /// As [`enter`](Self::enter), but makes nothing: false where a directory is missing.
    fn enter_existing(&mut self, parents: &[u8]) -> Outcome<bool> {
        self.walk(parents, None)
    }

    /// Goes to a directory, along symbolic links too. Without metadata for them, missing ones are not made.
    fn walk(&mut self, path: &[u8], below: Option<&Metadata>) -> Outcome<bool> {
        // Names still to come, the next one last.
        let mut names: Vec<Box<[u8]>> = self.leave_common(path)?.into_iter().rev().map(Box::from).collect();
        let mut followed = 0;
        while let Some(name) = names.pop() {
            match &*name {
                b"." => continue,
                // From the root it leads to the root.
                b".." => {
                    self.leave_to(self.levels.len().saturating_sub(1))?;
                    continue;
                }
                _ => {}
            }
            match (self.find(&name)?, below) {
                (Some((number, FileType::Directory)), below) => {
                    if below.is_some() {
                        self.layer.insert(number);
                    }
                    self.descend(&name, number)?;
                }
                (Some((number, FileType::SymbolicLink)), _) => {
                    followed += 1;
                    if followed > MAX_SYMLINKS {
                        return Err(Error::from(OperationError::TooManySymlinks).into());
                    }
                    let file_system = self.transaction.engine();
                    let target = file_system.read_symlink(&*file_system.inode(number)?)?;
                    if target.starts_with(b"/") {
                        self.leave_to(1)?;
                    }
                    let target = target.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
                    names.extend(target.rev().map(Box::from));
                }
                (_, None) => return Ok(false),
                (found, Some(below)) => {
                    if found.is_some() {
                        self.remove_tree(&name)?;
                    }
                    self.make_parent(&name, below)?;
                }
            }
        }
        Ok(true)
    }

    /// Whether a symbolic link in the innermost directory leads to a directory.
    fn leads_to_directory(&mut self, name: &[u8]) -> Outcome<bool> {
        self.store_levels()?;
        let file_system = self.transaction.engine();
        match file_system.resolve(&self.path_of(name), true) {
            Ok(inode) => Ok(file_type_of(&inode)? == FileType::Directory),
            Err(Error::Operation(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The path of a name in the innermost directory.
    fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let names = self.levels.iter().skip(1).map(|level| &*level.name).chain([name]);
        names.collect::<Vec<_>>().join(&b'/')
    }

    /// Leaves the directories that are not on the way to `parents`; gives the names still to be entered.
    fn leave_common<'p>(&mut self, parents: &'p [u8]) -> Outcome<Vec<&'p [u8]>> {
        let names: Vec<&[u8]> = parents.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let levels = self.levels.iter().skip(1).map(|level| &*level.name);
        let common = levels.zip(&names).take_while(|(level, name)| level == *name).count();
        self.leave_to(common + 1)?;
        Ok(names.into_iter().skip(common).collect())
    }

    fn leave_to(&mut self, depth: usize) -> Outcome<()> {
        while self.levels.len() > depth.max(1) {
            if let Some(mut level) = self.levels.pop() {
                self.transaction.store_inode(&mut level.inode)?;
            }
        }
        Ok(())
    }

    /// Lets lookups through the file system see the directories on the way as they are.
    fn store_levels(&mut self) -> Outcome<()> {
        for level in &mut self.levels {
            self.transaction.store_inode(&mut level.inode)?;
        }
        Ok(())
    }

    fn descend(&mut self, name: &[u8], number: InodeNumber) -> Outcome<()> {
        let inode = self.transaction.load_inode(number)?;
        self.levels.push(Level { name: name.into(), inode });
        Ok(())
    }

    fn make_parent(&mut self, name: &[u8], below: &Metadata) -> Outcome<()> {
        let mut metadata = Metadata { mode: 0o755, times: below.times, ..Metadata::default() };
        let kind = Kind::Directory(DirectoryId::ROOT);
        self.adjustments.apply(b"", &self.path_of(name), &kind, &mut metadata)?;
        self.report.count(&kind);
        let number = self.make(name, &metadata, kind, None)?;
        self.descend(name, number)
    }

    /// A new file in the innermost directory.
    fn make(
        &mut self,
        name: &[u8],
        metadata: &Metadata,
        kind: Kind,
        stream: Option<&mut dyn StreamSource>,
    ) -> Outcome<InodeNumber> {
        let made = self.with_top(|filling, parent| {
            let Self { transaction, builder, .. } = filling;
            let made = builder.create(transaction, parent, name, metadata, kind, stream)?;
            let (number, file_type) = (made.inode, made.file_type);
            transaction.directories().add_name(parent, name, number, file_type, NameCheck::KnownToBeNew)?;
            Ok(number)
        })?;
        self.layer.insert(made);
        Ok(made)
    }

    fn find(&mut self, name: &[u8]) -> Outcome<Option<(InodeNumber, FileType)>> {
        if name.is_empty() || name.len() > 255 {
            return Err(Impossible::Name.into());
        }
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        let Some(found) = self.transaction.directories().lookup_name(&mut level.inode, name)? else {
            return Ok(None);
        };
        let file_type = match found.file_type {
            Some(file_type) => file_type,
            None => {
                let inode = self.transaction.engine().inode(found.inode)?;
                file_type_of(&inode)?
            }
        };
        Ok(Some((found.inode, file_type)))
    }

    /// From the root, through what has been stored. A link that the path itself is, is not followed.
    fn resolve(&self, path: &[u8]) -> Outcome<Option<(InodeNumber, FileType)>> {
        let file_system = self.transaction.engine();
        let inode = match file_system.resolve(path, false) {
            Err(Error::Operation(OperationError::NotADirectory | OperationError::NotFound)) => {
                return Ok(None);
            }
            inode => inode?,
        };
        let file_type = file_type_of(&inode)?;
        Ok(Some((inode.number, file_type)))
    }

    fn names_of_top(&mut self) -> Outcome<Vec<Name>> {
        let Some(level) = self.levels.last_mut() else { return Ok(Vec::new()) };
        self.transaction.store_inode(&mut level.inode)?;
        let file_system = self.transaction.engine();
        let inode = file_system.inode(level.inode.number)?;
        let mut names = Vec::new();
        let mut reader = file_system.open_directory(&inode, 0)?;
        while let Some(entry) = reader.next_entry()? {
            if matches!(entry.name, b"." | b"..") {
                continue;
            }
            let file_type = match entry.file_type {
                Some(file_type) => file_type,
                None => {
                    let inode = file_system.inode(entry.inode)?;
                    file_type_of(&inode)?
                }
            };
            names.push((entry.name.into(), entry.inode, file_type));
        }
        Ok(names)
    }

    /// Removes a name of the innermost directory and, if it is a directory, all that is below.
    fn remove_tree(&mut self, name: &[u8]) -> Outcome<()> {
        let base = self.levels.len();
        let Some((number, file_type)) = self.find(name)? else { return Ok(()) };
        if file_type == FileType::Directory {
            self.descend(name, number)?;
            let mut left = vec![self.names_of_top()?];
            while let Some(names) = left.last_mut() {
                match names.pop() {
                    Some((name, number, FileType::Directory)) => {
                        self.descend(&name, number)?;
                        left.push(self.names_of_top()?);
                    }
                    Some((name, ..)) => self.remove_from_top(&name)?,
                    None => {
                        left.pop();
                        let Some(Level { name, mut inode }) = self.levels.pop() else { break };
                        self.transaction.store_inode(&mut inode)?;
                        if self.levels.len() > base {
                            self.remove_from_top(&name)?;
                        }
                    }
                }
            }
        }
        self.leave_to(base)?;
        self.remove_from_top(name)
    }

    fn remove_from_top(&mut self, name: &[u8]) -> Outcome<()> {
        self.with_top(|filling, parent| Ok(filling.transaction.files().remove(parent, name)?))?;
        Ok(self.transaction.commit()?)
    }

    /// Takes the innermost directory out of the list while it is changed.
    fn with_top<T>(&mut self, change: impl FnOnce(&mut Self, &mut EditInode) -> Outcome<T>) -> Outcome<T> {
        let missing = || Failure::from(Error::from(OperationError::NotFound));
        let Level { name, mut inode } = self.levels.pop().ok_or_else(missing)?;
        let result = change(self, &mut inode);
        self.levels.push(Level { name, inode });
        result
    }

    fn finish(mut self) -> Result<Report, PopulateError> {
        self.leave_to(1).and_then(|()| self.store_levels()).map_err(|failure| failure.at(b"", b""))?;
        self.transaction.commit()?;
        self.builder.finish()?;
        self.report.add_data(&self.progress.data);
        Ok(self.report)
    }
}

/// Parents and name; nothing for the root.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    let slash = path.iter().rposition(|byte| *byte == b'/');
    Some(match slash {
        Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or_default()),
        None => (&[], path),
    })
}

/// The type of an inode that an entry leads to.
fn file_type_of(inode: &Inode) -> Result<FileType, Error> {
    inode.file_type().ok_or_else(|| OperationError::NoSuchInode.into())
}

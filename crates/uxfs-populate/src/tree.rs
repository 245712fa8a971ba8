//! From a tree, directory by directory, into the image.

use std::sync::atomic::Ordering::Relaxed;

use uxfs_block::spill::map::SpillMap;
use uxfs_engine::{
    directory::{NameCheck, NewName},
    inode::edit::EditInode,
    transaction::Transaction,
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::units::InodeNumber;
use uxfs_source::{
    entry::{DirectoryId, Entry, Kind, Timestamp},
    error::{Shown, SourceError},
    tree::{Batch, TreeSource},
};

use crate::{
    Options,
    adjust::Adjustments,
    entry::{Builder, Made},
    error::PopulateError,
    links::Links,
    report::{Progress, Report},
};

/// Puts everything of `source` into the root directory of `file_system`, which is mounted in bulk mode. The caller
/// closes the file system afterwards; until then the image is unfinished.
///
/// # Errors
/// Unreadable parts of the source, objects that XFS cannot hold, no space, the device.
pub fn populate_tree<'a>(
    file_system: &'a FileSystem,
    source: &mut dyn TreeSource,
    adjustments: &'a mut Adjustments,
    options: &'a Options,
    progress: &'a Progress,
) -> Result<Report, PopulateError> {
    let mut filling = Filling::start(file_system, adjustments, options, progress)?;
    filling.root(source)?;
    while let Some(batch) = source.next_batch()? {
        filling.batch(batch)?;
        filling.report.add_problems(source.take_problems());
    }
    filling.report.add_problems(source.take_problems());
    filling.report.problem_count += source.problems_left_out();
    filling.contents(source)?;
    filling.finish()
}

struct Filling<'a> {
    adjustments: &'a mut Adjustments,
    transaction: Transaction<'a>,
    builder: Builder<'a>,
    /// Inodes of directories whose own batches are still to come, by the numbers that the source gives them.
    pending: SpillMap,
    /// The one that is being filled.
    current: Option<(DirectoryId, EditInode)>,
    links: Links,
    report: Report,
    progress: &'a Progress,
    root: InodeNumber,
}

impl<'a> Filling<'a> {
    fn start(
        file_system: &'a FileSystem,
        adjustments: &'a mut Adjustments,
        options: &'a Options,
        progress: &'a Progress,
    ) -> Result<Self, PopulateError> {
        let root = file_system.geometry().root_inode;
        let mut pending = SpillMap::new(options.map_bytes());
        pending.insert(key_of(DirectoryId::ROOT), (root.get(), 0)).map_err(SourceError::from)?;
        Ok(Self {
            adjustments,
            transaction: Transaction::begin(file_system)?,
            builder: Builder::start(file_system, options, progress)?,
            pending,
            current: None,
            links: Links::new(options.map_bytes()),
            report: Report::default(),
            progress,
            root,
        })
    }

    /// The root has been made; it gets the attributes of the source's, if that has one.
    fn root(&mut self, source: &dyn TreeSource) -> Result<(), PopulateError> {
        let now = self.transaction.engine().now();
        let now = Timestamp { seconds: now.seconds, nanoseconds: now.nanoseconds };
        let root = source.root().cloned().or_else(|| self.adjustments.unnamed_root(now));
        let Some(mut metadata) = root else { return Ok(()) };
        let mut root = self.transaction.load_inode(self.root)?;
        self.adjustments.apply(b"", b"", &Kind::Directory(DirectoryId::ROOT), &mut metadata)?;
        let set = self.builder.set_metadata(&mut self.transaction, &mut root, &metadata);
        set.map_err(|failure| failure.at(b"", b""))?;
        self.report.attributes += metadata.attributes.len() as u64;
        self.transaction.store_inode(&mut root)?;
        Ok(self.transaction.commit()?)
    }

    /// Makes the files of a batch, then adds their names all at once.
    fn batch(&mut self, batch: Batch) -> Result<(), PopulateError> {
        let Batch { directory: id, path, is_last, entries } = batch;
        let mut directory = self.enter(id)?;
        let mut names = Vec::with_capacity(entries.len());
        for entry in entries {
            let (name, made) = self.entry(&mut directory, &path, entry)?;
            if let Some(made) = made {
                names.push((name, made));
            }
            self.transaction.commit()?;
            self.progress.entries.fetch_add(1, Relaxed);
        }
        let names: Vec<NewName<'_>> = names
            .iter()
            .map(|(name, made)| NewName { name, inode: made.inode, file_type: made.file_type })
            .collect();
        let filled = self.transaction.directories().fill_directory(&mut directory, &names);
        filled.map_err(|error| PopulateError::At { path: Shown(path), error })?;
        if is_last {
            self.pending.remove(key_of(id)).map_err(SourceError::from)?;
            self.transaction.store_inode(&mut directory)?;
        } else {
            self.current = Some((id, directory));
        }
        Ok(self.transaction.commit()?)
    }

    fn enter(&mut self, wanted: DirectoryId) -> Result<EditInode, PopulateError> {
        match self.current.take() {
            Some((directory, inode)) if directory == wanted => return Ok(inode),
            Some((_, mut inode)) => self.transaction.store_inode(&mut inode)?,
            None => {}
        }
        let pending = self.pending.get(key_of(wanted)).map_err(SourceError::from)?;
        let Some((number, _)) = pending else {
            return Err(PopulateError::Image(uxfs_volume::error::OperationError::NotFound.into()));
        };
        Ok(self.transaction.load_inode(InodeNumber::new(number))?)
    }

    /// Makes one file, or the further name of one, which is then in the directory already.
    fn entry(
        &mut self,
        directory: &mut EditInode,
        path: &[u8],
        entry: Entry,
    ) -> Result<(Box<[u8]>, Option<Made>), PopulateError> {
        let Entry { name, mut metadata, kind } = entry;
        self.adjustments.apply(path, &name, &kind, &mut metadata)?;
        let (transaction, builder) = (&mut self.transaction, &mut self.builder);
        if let Some(identity) = metadata.link.filter(|_| !matches!(kind, Kind::Directory(_)))
            && let Some(number) = self.links.find(&identity).map_err(SourceError::from)?
        {
            let linked = builder.link(transaction, directory, &name, number, NameCheck::KnownToBeNew);
            linked.map_err(|failure| failure.at(path, &name))?;
            self.report.hard_links += 1;
            return Ok((name, None));
        }
        self.report.count(&kind);
        self.report.attributes += metadata.attributes.len() as u64;
        let child = match &kind {
            Kind::Directory(id) => Some(*id),
            _ => None,
        };
        let made = builder.create(transaction, directory, &name, &metadata, kind, None);
        let made = made.map_err(|failure| failure.at(path, &name))?;
        if let Some(id) = child {
            self.pending.insert(key_of(id), (made.inode.get(), 0)).map_err(SourceError::from)?;
        } else if let Some(identity) = &metadata.link {
            self.links.add(identity, made.inode).map_err(SourceError::from)?;
        }
        Ok((name, Some(made)))
    }

    /// Contents that come after everything else.
    fn contents(&mut self, source: &mut dyn TreeSource) -> Result<(), PopulateError> {
        while self.builder.awaits_content()
            && let Some(content) = source.next_content()?
        {
            let mut read = |buffer: &mut [u8]| source.read_data(buffer);
            let written = self.builder.content(&mut self.transaction, content, &mut read);
            written.map_err(|failure| failure.at(b"", b""))?;
            self.transaction.commit()?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Report, PopulateError> {
        if let Some((_, mut inode)) = self.current.take() {
            self.transaction.store_inode(&mut inode)?;
        }
        self.transaction.commit()?;
        self.builder.finish()?;
        self.report.add_data(&self.progress.data);
        Ok(self.report)
    }
}

fn key_of(directory: DirectoryId) -> (u64, u64) {
    (directory.0, 0)
}

/// Path of an entry for messages.
pub(crate) fn joined(path: &[u8], name: &[u8]) -> Shown {
    let mut whole = path.to_vec();
    if !path.is_empty() && !name.is_empty() {
        whole.push(b'/');
    }
    whole.extend_from_slice(name);
    Shown(whole.into())
}

//! Everything that the reading commands ask of the core, over one image: of one group, one inode, or of all.

use std::{collections::HashSet, ops::ControlFlow, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::mount;
use uxfs_format::{
    describe::{describe, leaves, text},
    fault::Structure,
    units::{AgNumber, FsBlock, InodeNumber},
};
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    attribute::xattr::XattrView,
    error::{Error, Result},
    file_data::reader::FilePiece,
    inode::{FileType, Fork, Inode},
    inspect::StructureOnDisk,
    parent_pointer::paths::PathLimits,
};

use super::plan::Damage;
use uxfs_testkit::structures::Owner;

/// Contents read of one file: damage may make a sparse file of any size, whose zeros prove nothing.
const FILE_BYTES: u64 = 4 << 20;
/// Names of one directory that are looked up.
const LOOKUPS: usize = 2000;
/// Cache of a mount: small, so that it is no hiding place for memory.
const CACHE_BYTES: u64 = 16 << 20;

/// How reading went.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Nothing was noticed: the damage does no harm, or only another structure could tell.
    Accepted,
    /// A structure was found damaged; the kind of fault.
    Corrupt(String),
    /// The image claims a feature that uxfs does not have.
    Unsupported,
    /// An operation was not possible, as on a sound image that is merely so.
    Operation,
    /// The device was asked for what it does not have.
    Io,
}

impl Outcome {
    fn of(error: &Error) -> Self {
        match error {
            Error::Corrupt(corruption) => {
                let fault = format!("{:?}", corruption.fault);
                Self::Corrupt(fault.split(['(', ' ']).next().unwrap_or_default().to_owned())
            }
            Error::Unsupported(_) => Self::Unsupported,
            Error::Operation(_) => Self::Operation,
            _ => Self::Io,
        }
    }

    /// In one word, for tables.
    pub fn word(&self) -> &str {
        match self {
            Self::Accepted => "accepted",
            Self::Corrupt(family) => family,
            Self::Unsupported => "unsupported",
            Self::Operation => "operation",
            Self::Io => "io",
        }
    }
}

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The owner of the damaged structure.
    Owner,
    /// The whole image.
    All,
}

/// Collects the worst of what reading meets; errors never end it.
struct Reader<'a> {
    filesystem: &'a Volume,
    first: Option<Outcome>,
}

/// Mounts `device` and reads, and looks at the damaged structure as `inspect` does.
pub fn read(device: Arc<dyn BlockDevice>, damage: &Damage<'_>, extent: Extent) -> Outcome {
    let options = MountOptions {
        cache_budget_bytes: Some(CACHE_BYTES),
        ignore_dirty_log: true,
        ..MountOptions::default()
    };
    let filesystem = match mount::open_volume(device, &options) {
        Ok(filesystem) => filesystem,
        Err(error) => return Outcome::of(&error),
    };
    let mut reader = Reader { filesystem: &filesystem, first: None };
    reader.inspect(damage);
    match (extent, damage.instance.owner) {
        (Extent::All, _) => reader.everything(),
        (Extent::Owner, Owner::Group(group)) => reader.group(AgNumber::new(group)),
        (Extent::Owner, Owner::Inode(number)) => reader.inode_by_number(InodeNumber::new(number)),
    }
    reader.first.unwrap_or(Outcome::Accepted)
}

impl Reader<'_> {
    /// Notes an error and goes on.
    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let outcome = Outcome::of(&error);
                let is_worse = matches!(outcome, Outcome::Corrupt(_))
                    && !matches!(self.first, Some(Outcome::Corrupt(_)));
                if self.first.is_none() || is_worse {
                    self.first = Some(outcome);
                }
                // What a person would see must be printable too.
                let _ = error.to_string();
                None
            }
        }
    }

    fn inspect(&mut self, damage: &Damage<'_>) {
        let structure = damage.instance.structure;
        let description = describe(structure, &damage.bytes, self.filesystem.geometry());
        let mut print = String::new();
        let _ = text::write(&description, &damage.bytes, &mut print);
        let _ = leaves::leaves(&description);
        let filesystem = self.filesystem;
        match damage.instance.owner {
            Owner::Group(group) => {
                let group = AgNumber::new(group);
                let header = matches!(
                    structure,
                    Structure::Superblock
                        | Structure::FreeSpaceHeader
                        | Structure::InodeHeader
                        | Structure::FreeList
                );
                let found = if header {
                    filesystem.inspect().header(structure, group)
                } else {
                    filesystem.inspect().tree_block(structure, group, None)
                };
                self.found(found);
            }
            Owner::Inode(number) => {
                let found = filesystem.inspect().inode(InodeNumber::new(number));
                self.found(found);
            }
        }
        if let Some(block) = damage.instance.fs_block
            && let Some(all) = self.note(filesystem.inspect().block(FsBlock::new(block)))
        {
            all.into_iter().for_each(|found| self.found(Ok(found)));
        }
    }

    /// Notes what the verifier says against a structure.
    fn found(&mut self, found: Result<StructureOnDisk>) {
        if let Some(found) = self.note(found)
            && let Some(problem) = found.problem
        {
            self.note::<()>(Err(problem));
        }
    }

    fn everything(&mut self) {
        let groups: Vec<_> = self.filesystem.geometry().groups().collect();
        for group in groups {
            self.group(group);
        }
        self.tree();
    }

    /// `freespace`, `inodes`, and all trees of a group.
    fn group(&mut self, group: AgNumber) {
        let filesystem = self.filesystem;
        self.note(filesystem.group(group).headers());
        self.note(filesystem.group(group).free_list());
        let mut histogram = Default::default();
        self.note(filesystem.group(group).add_free_space(&mut histogram));
        self.records(filesystem.group(group).free_space_by_block().map(Some));
        self.records(filesystem.group(group).free_space_by_length().map(Some));
        self.records(filesystem.group(group).reverse_map());
        self.records(filesystem.group(group).reference_counts());
        self.records(filesystem.group(group).free_inode_index());
        let Some(chunks) = self.note(filesystem.group(group).inode_chunks()) else { return };
        for chunk in chunks {
            let Some(chunk) = self.note(chunk) else { return };
            for inode in chunk.allocated_inodes() {
                self.note(filesystem.inode(filesystem.geometry().inode_number(group, inode)));
            }
        }
    }

    fn records<K: uxfs_format::btree::BtreeKind>(
        &mut self,
        tree: Result<Option<uxfs_volume::btree::Tree<'_, K>>>,
    ) {
        if let Some(Some(tree)) = self.note(tree) {
            let walked = tree.records().try_for_each(|record| record.map(|_| ()));
            self.note(walked);
        }
    }

    /// `ls -lR`, `tree`, `extract`, `xattr`, `map`, `parents` over all that the root leads to.
    fn tree(&mut self) {
        let Some(root) = self.note(self.filesystem.root()) else { return };
        let mut seen = HashSet::from([root.number]);
        let mut directories = vec![root];
        while let Some(directory) = directories.pop() {
            for number in self.inode(&directory) {
                if !seen.insert(number) {
                    continue;
                }
                let entry = self.filesystem.inode_of_entry(&directory, number);
                match self.note(entry) {
                    Some(inode) if inode.file_type() == Some(FileType::Directory) => directories.push(inode),
                    Some(inode) => drop(self.inode(&inode)),
                    None => {}
                }
            }
        }
    }

    fn inode_by_number(&mut self, number: InodeNumber) {
        self.note(self.filesystem.groups().is_inode_allocated(number));
        if let Some(inode) = self.note(self.filesystem.inode(number)) {
            self.inode(&inode);
        }
    }

    /// All of one inode; gives the inodes that a directory names.
    fn inode(&mut self, inode: &Arc<Inode>) -> Vec<InodeNumber> {
        let filesystem = self.filesystem;
        for fork in [Fork::Data, Fork::Attribute] {
            self.note(filesystem.extent_map(inode, fork));
        }
        let view = XattrView::Copy;
        if let Some(attributes) = self.note(filesystem.attributes(inode)) {
            self.note(attributes.visit_xattrs(view, |_, _| Ok(ControlFlow::Continue(()))));
            self.note(attributes.access_acl());
        }
        if filesystem.geometry().features.has_parent_pointers() {
            self.note(filesystem.paths_of(inode, &PathLimits::default()));
        }
        match inode.file_type() {
            Some(FileType::Directory) => return self.directory(inode),
            Some(FileType::SymbolicLink) => drop(self.note(filesystem.read_symlink(inode))),
            Some(FileType::Regular) => self.file(inode),
            _ => {}
        }
        Vec::new()
    }

    fn directory(&mut self, inode: &Arc<Inode>) -> Vec<InodeNumber> {
        let filesystem = self.filesystem;
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut numbers = Vec::new();
        let read = filesystem.read_directory(inode, 0, |entry| {
            if entry.name != b"." && entry.name != b".." {
                numbers.push(entry.inode);
            }
            if names.len() < LOOKUPS {
                names.push(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        });
        self.note(read);
        names.push(b"no such name".to_vec());
        for name in &names {
            self.note(filesystem.lookup(inode, name));
        }
        let shown = filesystem.inspect().fork(inode.number, Fork::Data, &[], |found| {
            self.found(Ok(found));
            Ok::<(), Error>(())
        });
        self.note(shown);
        numbers
    }

    fn file(&mut self, inode: &Inode) {
        let Some(mut reader) = self.note(self.filesystem.file_reader(inode)) else { return };
        let mut read = 0;
        while read < FILE_BYTES {
            let piece = reader.next_piece();
            match self.note(piece).flatten() {
                Some(FilePiece::Data { bytes, .. }) => read += bytes.len() as u64,
                Some(FilePiece::Hole { .. }) => read += 4096,
                None => break,
            }
        }
    }
}

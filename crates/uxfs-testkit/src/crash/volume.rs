//! A mounted file system that does what a workload says.

use std::{cell::RefCell, collections::HashMap};

use uxfs_block::device::WriteSegment;
use uxfs_core::{
    attribute::edit::SetMode,
    error::{Error, OperationError, Result},
    extent_map::edit::map::Mapping,
    filesystem::FileSystem,
    inode::{DeviceNumber, FileType, Fork, table::InodeHandle},
    mount::{Clock, Generations, MountOptions},
    operations::{create::NewKind, new_file, rename::RenameOptions, set_attributes::AttributeChanges},
    transaction::{Transaction, reservation},
};
use uxfs_format::{
    geometry::Geometry,
    units::{FileBlock, InodeNumber},
};

use super::{
    contents::{Origin, pattern},
    geometry::NOW,
    model::{Model, Outcome},
    workload::{NewFile, NodeId, Operation, OperationKind, RenameHow, Reshape},
};

/// How crash tests mount: one seed gives one image.
pub fn mount_options(cache_mebibytes: u64) -> MountOptions {
    MountOptions {
        cache_budget_bytes: Some(cache_mebibytes << 20),
        generations: Generations::REPRODUCIBLE,
        clock: Clock::Fixed(NOW),
        ..MountOptions::default()
    }
}

/// What the operations of a model do to a file system.
#[derive(Debug)]
pub struct Volume<'fs> {
    file_system: &'fs FileSystem,
    /// Files that are kept open.
    open: RefCell<HashMap<NodeId, InodeHandle>>,
}

impl<'fs> Volume<'fs> {
    /// Works on this.
    pub fn new(file_system: &'fs FileSystem) -> Self {
        Self { file_system, open: RefCell::default() }
    }

    /// Which operations there are.
    pub fn supports(kind: OperationKind) -> bool {
        use OperationKind as Kind;
        !matches!(
            kind,
            Kind::WriteUnaligned
                | Kind::Punch
                | Kind::Zero
                | Kind::Collapse
                | Kind::Insert
                | Kind::Clone
                | Kind::Exchange
        )
    }

    /// Does operation number `number` to the file system that is in the state of `model`.
    ///
    /// # Errors
    /// The file system's.
    pub fn perform(&self, number: usize, operation: &Operation, model: &Model) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        match operation {
            Operation::Create { parent, name, file, mode, owner } => {
                let new = new_file::NewFile {
                    uid: owner.0,
                    gid: owner.1,
                    ..new_file::NewFile::new(kind_of(file), *mode)
                };
                let made = self.file_system.create(&self.open(model, *parent)?, name, &new)?;
                outcome.inode = Some(made.number().get());
            }
            Operation::Temporary { parent } => {
                let new = new_file::NewFile::new(NewKind::Regular, 0o600);
                let made = self.file_system.create_temporary(&self.open(model, *parent)?, &new, true)?;
                outcome.inode = Some(made.number().get());
                self.open.borrow_mut().insert(model.made() as NodeId, made);
            }
            Operation::Link { node, parent, name } => {
                self.file_system.link(&self.open(model, *node)?, &self.open(model, *parent)?, name)?;
            }
            Operation::Remove { parent, name } => self.remove(model, *parent, name)?,
            Operation::Rename { parent, name, new_parent, new_name, how } => {
                outcome.inode = self.rename(model, (*parent, name), (*new_parent, new_name), *how)?;
            }
            Operation::SetAttributes { node, mode, owner, project } => {
                let changes = AttributeChanges {
                    permissions: *mode,
                    uid: owner.map(|owner| owner.0),
                    gid: owner.map(|owner| owner.1),
                    project_id: *project,
                    ..AttributeChanges::default()
                };
                self.file_system.set_attributes(&self.open(model, *node)?, &changes)?;
            }
            Operation::SetXattr { node, name, value } => {
                self.set_xattr(&self.open(model, *node)?, name, Some(value))?;
            }
            Operation::RemoveXattr { node, name } => {
                self.set_xattr(&self.open(model, *node)?, name, None)?;
            }
            Operation::Open { node } => {
                let handle = self.open(model, *node)?;
                self.open.borrow_mut().insert(*node, handle);
            }
            Operation::Close { node } => {
                self.open.borrow_mut().remove(node);
                self.file_system.inactivate_pending()?;
            }
            Operation::SyncFile { .. } | Operation::Sync => {}
            contents => self.change_contents(number, contents, model)?,
        }
        Ok(outcome)
    }

    /// Closes everything that is open.
    ///
    /// # Errors
    /// The file system's, freeing what has no name.
    pub fn close_all(&self) -> Result<()> {
        self.open.borrow_mut().clear();
        self.file_system.inactivate_pending()
    }

    fn open(&self, model: &Model, node: NodeId) -> Result<InodeHandle> {
        if let Some(handle) = self.open.borrow().get(&node) {
            return Ok(handle.clone());
        }
        let found = model.node(node).ok_or(Error::Operation(OperationError::NoSuchInode))?;
        self.file_system.open(InodeNumber::new(found.inode()))
    }

    fn begin(&self, operation: reservation::Operation) -> Result<Transaction<'fs>> {
        Transaction::begin_for(self.file_system, operation)
    }

    fn remove(&self, model: &Model, parent: NodeId, name: &[u8]) -> Result<()> {
        let child = model.node(parent).and_then(|parent| parent.children.get(name));
        let kind = child.and_then(|child| model.node(*child)).map(|child| child.kind());
        let parent = self.open(model, parent)?;
        match kind {
            Some(FileType::Directory) => self.file_system.remove_directory(&parent, name),
            _ => self.file_system.unlink(&parent, name),
        }
    }

    fn rename(
        &self,
        model: &Model,
        old: (NodeId, &[u8]),
        new: (NodeId, &[u8]),
        how: RenameHow,
    ) -> Result<Option<u64>> {
        let options = RenameOptions {
            no_replace: how == RenameHow::NoReplace,
            exchange: how == RenameHow::Exchange,
            whiteout: (how == RenameHow::Whiteout).then_some((0, 0)),
        };
        let (from, to) = (self.open(model, old.0)?, self.open(model, new.0)?);
        self.file_system.rename(&from, old.1, &to, new.1, &options)?;
        let left = (how == RenameHow::Whiteout).then(|| self.file_system.find(&from, old.1)).transpose()?;
        Ok(left.map(|left| left.number().get()))
    }

    fn set_xattr(&self, file: &InodeHandle, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let value_bytes = value.map_or(0, <[u8]>::len) as u32;
        let mut file = file.write();
        let mut transaction = self.begin(reservation::Operation::SetXattr { value_bytes })?;
        match value {
            Some(value) => transaction.set_xattr(&mut file, name, value, SetMode::Upsert)?,
            None => transaction.remove_xattr(&mut file, name)?,
        }
        transaction.store_inode(&mut file)?;
        transaction.commit()
    }

    fn change_contents(&self, number: usize, operation: &Operation, model: &Model) -> Result<()> {
        match operation {
            Operation::Write { node, offset, length } => {
                let origin = Origin { file: node + 1, version: number as u32 + 1, offset: *offset };
                let mut bytes = vec![0; *length as usize];
                pattern(origin, &mut bytes);
                self.write(&self.open(model, *node)?, *offset, &bytes)
            }
            Operation::Truncate { node, size } => {
                let file = self.open(model, *node)?;
                let mut file = file.write();
                let mut transaction = self.begin(reservation::Operation::Allocate { blocks: 1 })?;
                transaction.truncate(&mut file, *size)?;
                transaction.store_inode(&mut file)?;
                transaction.commit()
            }
            Operation::Reshape { node, how, offset, length } => {
                self.reshape(&self.open(model, *node)?, *how, *offset, *length)
            }
            _ => Err(OperationError::WrongFileType.into()),
        }
    }

    /// Whole blocks: unwritten first, then the contents, then written.
    fn write(&self, file: &InodeHandle, offset: u64, bytes: &[u8]) -> Result<()> {
        let geometry = self.file_system.geometry();
        let mut file = file.write();
        let first = FileBlock::new(offset >> geometry.block_log);
        let blocks = bytes.len() as u64 >> geometry.block_log;
        let mut transaction = self.begin(reservation::Operation::Allocate { blocks })?;
        let unwritten = Mapping { hint: None, is_unwritten: true };
        let mapped = transaction.map_blocks(&mut file, Fork::Data, first, blocks, unwritten)?;
        transaction.store_inode(&mut file)?;
        transaction.commit()?;
        let mut segments = Vec::new();
        let mut rest = bytes;
        for extent in mapped.iter() {
            let (part, after) = rest.split_at((extent.length_blocks << geometry.block_log) as usize);
            let sector = geometry.sector_of_block(extent.start).ok_or(OperationError::NoSuchGroup)?;
            segments.push(WriteSegment { offset_bytes: Geometry::byte_of_sector(sector), bytes: part });
            rest = after;
        }
        self.file_system.device().write_batch(&segments)?;
        let mut transaction = self.begin(reservation::Operation::Remap)?;
        transaction.convert_blocks(&mut file, first, blocks, false)?;
        transaction.depends_on_data();
        let end = offset + bytes.len() as u64;
        let size = file.size_bytes().max(end);
        file.set_size_bytes(size);
        transaction.store_inode(&mut file)?;
        transaction.commit()
    }

    fn reshape(&self, file: &InodeHandle, how: Reshape, offset: u64, length: u64) -> Result<()> {
        let geometry = self.file_system.geometry();
        let mut file = file.write();
        let block = |bytes: u64| FileBlock::new(bytes >> geometry.block_log);
        let blocks = (offset + length).div_ceil(geometry.block_size_bytes.into()) - block(offset).get();
        let mut transaction = self.begin(reservation::Operation::Allocate { blocks })?;
        match how {
            Reshape::Punch => {
                transaction.unmap_blocks(&mut file, Fork::Data, block(offset), blocks)?;
            }
            _ => {
                let unwritten = Mapping { hint: None, is_unwritten: true };
                transaction.map_blocks(&mut file, Fork::Data, block(offset), blocks, unwritten)?;
                if how == Reshape::Allocate {
                    let size = file.size_bytes().max(offset + length);
                    file.set_size_bytes(size);
                }
            }
        }
        transaction.store_inode(&mut file)?;
        transaction.commit()
    }
}

fn kind_of(file: &NewFile) -> NewKind<'_> {
    match file {
        NewFile::Regular => NewKind::Regular,
        NewFile::Directory => NewKind::Directory,
        NewFile::Symlink(target) => NewKind::Symlink(target),
        NewFile::Device(major, minor) => {
            NewKind::Special(FileType::BlockDevice, DeviceNumber { major: *major, minor: *minor })
        }
        NewFile::Fifo => NewKind::Special(FileType::Fifo, DeviceNumber::default()),
    }
}

//! A mounted file system that does what a workload says.

use std::{cell::RefCell, collections::HashMap};

use uxfs_engine::{
    attribute::SetMode,
    bulk::create::NewKind,
    options::{Clock, Generations, MountOptions},
};
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create, rename::RenameOptions, set_attributes::AttributeChanges},
};
use uxfs_format::units::InodeNumber;
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::{DeviceNumber, FileType},
};

use super::{
    contents::{Origin, pattern},
    geometry::NOW,
    model::{Model, Outcome},
    workload::{NewFile, NodeId, Operation, RenameHow, Reshape},
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

/// A file system that carries out the operations of a model.
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

    /// Does operation number `number` to the file system that is in the state of `model`.
    ///
    /// # Errors
    /// The file system's.
    pub fn perform(&self, number: usize, operation: &Operation, model: &Model) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        match operation {
            Operation::Create { parent, name, file, mode, owner } => {
                let new = create::NewFile {
                    uid: owner.0,
                    gid: owner.1,
                    ..create::NewFile::new(kind_of(file), *mode)
                };
                let made = self.file_system.create(&self.open(model, *parent)?, name, &new)?;
                outcome.inode = Some(made.number().get());
            }
            Operation::Temporary { parent } => {
                let new = create::NewFile::new(NewKind::Regular, 0o600);
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
                self.file_system.set_xattr(&self.open(model, *node)?, name, value, SetMode::Upsert)?;
            }
            Operation::RemoveXattr { node, name } => {
                self.file_system.remove_xattr(&self.open(model, *node)?, name)?;
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
            contents => outcome.written = self.change_contents(number, contents, model)?,
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

    /// How much a write wrote that could not write all.
    fn change_contents(&self, number: usize, operation: &Operation, model: &Model) -> Result<Option<u64>> {
        let (volume, touch) = (self.file_system, Touch::at(NOW));
        match operation {
            Operation::Write { node, offset, length } => {
                let origin = Origin { file: node + 1, version: number as u32 + 1, offset: *offset };
                let mut bytes = vec![0; *length as usize];
                pattern(origin, &mut bytes);
                let written = volume.write(&self.open(model, *node)?, *offset, &bytes, touch)?;
                return Ok((written < bytes.len()).then_some(written as u64));
            }
            Operation::Truncate { node, size } => volume.set_size(&self.open(model, *node)?, *size, touch),
            Operation::Reshape { node, how, offset, length } => {
                self.reshape(&self.open(model, *node)?, *how, *offset, *length)
            }
            Operation::Clone { source, source_offset, target, target_offset, length } => {
                let range = CloneRange {
                    source_bytes: *source_offset,
                    target_bytes: *target_offset,
                    length_bytes: *length,
                };
                let (source, target) = (self.open(model, *source)?, self.open(model, *target)?);
                volume.clone_range(&source, &target, &range, touch).map(drop)
            }
            Operation::Exchange { first, second, offset, second_offset, length } => {
                let range = ExchangeRange {
                    first_bytes: *offset,
                    second_bytes: *second_offset,
                    length_bytes: *length,
                    ..ExchangeRange::default()
                };
                let (first, second) = (self.open(model, *first)?, self.open(model, *second)?);
                volume.exchange_files(&first, &second, &range, touch)
            }
            _ => Err(OperationError::WrongFileType.into()),
        }?;
        Ok(None)
    }

    fn reshape(&self, file: &InodeHandle, how: Reshape, offset: u64, length: u64) -> Result<()> {
        let (volume, touch) = (self.file_system, Touch::at(NOW));
        match how {
            Reshape::Allocate => volume.allocate_range(file, offset, length, SizeChange::Grow, touch),
            Reshape::AllocateKeepSize => volume.allocate_range(file, offset, length, SizeChange::Keep, touch),
            Reshape::Punch => volume.punch_range(file, offset, length, touch),
            Reshape::Zero => volume.zero_range(file, offset, length, SizeChange::Grow, touch),
            Reshape::Collapse => volume.collapse_range(file, offset, length, touch),
            Reshape::Insert => volume.insert_range(file, offset, length, touch),
        }
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

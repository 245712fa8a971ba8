//! A mounted file system that does what a workload says.

use uxfs_block::device::WriteSegment;
use uxfs_core::{
    attribute::edit::SetMode,
    directory::edit::NameCheck,
    error::{Error, OperationError, Result},
    extent_map::edit::map::Mapping,
    filesystem::FileSystem,
    inode::{DeviceNumber, FileType, Fork},
    mount::{Clock, Generations, MountOptions},
    operations::create::{FileAttributes, NewKind},
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
    workload::{NewFile, NodeId, Operation, OperationKind, Reshape},
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
}

impl<'fs> Volume<'fs> {
    /// Works on this.
    pub fn new(file_system: &'fs FileSystem) -> Self {
        Self { file_system }
    }

    /// Which operations there are.
    pub fn supports(kind: OperationKind) -> bool {
        use OperationKind as Kind;
        matches!(
            kind,
            Kind::CreateFile
                | Kind::CreateDirectory
                | Kind::CreateSymlink
                | Kind::CreateSpecial
                | Kind::Link
                | Kind::Remove
                | Kind::SetXattr
                | Kind::SetAcl
                | Kind::RemoveXattr
                | Kind::Write
                | Kind::Truncate
                | Kind::Allocate
                | Kind::Sync
        )
    }

    /// Does operation number `number` to the file system that is in the state of `model`.
    ///
    /// # Errors
    /// The file system's.
    pub fn perform(&self, number: usize, operation: &Operation, model: &Model) -> Result<Outcome> {
        let inode = |node: NodeId| {
            let found = model.node(node).map(|node| InodeNumber::new(node.inode()));
            found.ok_or(Error::Operation(OperationError::NoSuchInode))
        };
        match operation {
            Operation::Create { parent, name, file, mode, owner } => {
                self.create(inode(*parent)?, name, file, *mode, *owner)
            }
            Operation::Link { node, parent, name } => self.link(inode(*node)?, inode(*parent)?, name),
            Operation::Remove { parent, name } => {
                let mut transaction = self.begin(reservation::Operation::Remove)?;
                let mut directory = transaction.load_inode(inode(*parent)?)?;
                transaction.remove(&mut directory, name)?;
                transaction.store_inode(&mut directory)?;
                transaction.commit().map(|()| Outcome::default())
            }
            Operation::SetXattr { node, name, value } => {
                let value_bytes = value.len() as u32;
                let mut transaction = self.begin(reservation::Operation::SetXattr { value_bytes })?;
                let mut file = transaction.load_inode(inode(*node)?)?;
                transaction.set_xattr(&mut file, name, value, SetMode::Upsert)?;
                transaction.store_inode(&mut file)?;
                transaction.commit().map(|()| Outcome::default())
            }
            Operation::RemoveXattr { node, name } => {
                let mut transaction = self.begin(reservation::Operation::SetXattr { value_bytes: 0 })?;
                let mut file = transaction.load_inode(inode(*node)?)?;
                transaction.remove_xattr(&mut file, name)?;
                transaction.store_inode(&mut file)?;
                transaction.commit().map(|()| Outcome::default())
            }
            Operation::Write { node, offset, length } => {
                let origin = Origin { file: node + 1, version: number as u32 + 1, offset: *offset };
                let mut bytes = vec![0; *length as usize];
                pattern(origin, &mut bytes);
                self.write(inode(*node)?, *offset, &bytes)
            }
            Operation::Truncate { node, size } => {
                let mut transaction = self.begin(reservation::Operation::Allocate { blocks: 1 })?;
                let mut file = transaction.load_inode(inode(*node)?)?;
                transaction.truncate(&mut file, *size)?;
                transaction.store_inode(&mut file)?;
                transaction.commit().map(|()| Outcome::default())
            }
            Operation::Reshape { node, how, offset, length } => {
                self.reshape(inode(*node)?, *how, *offset, *length)
            }
            Operation::Sync => Ok(Outcome::default()),
            _ => Err(OperationError::WrongFileType.into()),
        }
    }

    fn begin(&self, operation: reservation::Operation) -> Result<Transaction<'fs>> {
        Transaction::begin_for(self.file_system, operation)
    }

    fn create(
        &self,
        parent: InodeNumber,
        name: &[u8],
        file: &NewFile,
        mode: u16,
        owner: (u32, u32),
    ) -> Result<Outcome> {
        let kind = match file {
            NewFile::Regular => NewKind::Regular,
            NewFile::Directory => NewKind::Directory,
            NewFile::Symlink(target) => NewKind::Symlink(target),
            NewFile::Device(major, minor) => {
                NewKind::Special(FileType::BlockDevice, DeviceNumber { major: *major, minor: *minor })
            }
            NewFile::Fifo => NewKind::Special(FileType::Fifo, DeviceNumber::default()),
        };
        let target_bytes = if let NewFile::Symlink(target) = file { target.len() as u32 } else { 0 };
        let attributes = FileAttributes {
            permissions: mode,
            uid: owner.0,
            gid: owner.1,
            access_time: NOW,
            modification_time: NOW,
            change_time: NOW,
            creation_time: NOW,
            ..FileAttributes::default()
        };
        let mut transaction = self.begin(reservation::Operation::Create { target_bytes })?;
        let mut directory = transaction.load_inode(parent)?;
        let mut made = transaction.create(&mut directory, name, &kind, &attributes, NameCheck::Check)?;
        transaction.store_inode(&mut made)?;
        transaction.store_inode(&mut directory)?;
        transaction.commit()?;
        Ok(Outcome { inode: Some(made.number.get()) })
    }

    fn link(&self, node: InodeNumber, parent: InodeNumber, name: &[u8]) -> Result<Outcome> {
        let mut transaction = self.begin(reservation::Operation::Link)?;
        let mut directory = transaction.load_inode(parent)?;
        let mut file = transaction.load_inode(node)?;
        transaction.link(&mut directory, name, &mut file, NameCheck::Check)?;
        transaction.store_inode(&mut file)?;
        transaction.store_inode(&mut directory)?;
        transaction.commit().map(|()| Outcome::default())
    }

    /// Whole blocks: unwritten first, then the contents, then written.
    fn write(&self, node: InodeNumber, offset: u64, bytes: &[u8]) -> Result<Outcome> {
        let geometry = self.file_system.geometry();
        let first = FileBlock::new(offset >> geometry.block_log);
        let blocks = bytes.len() as u64 >> geometry.block_log;
        let mut transaction = self.begin(reservation::Operation::Allocate { blocks })?;
        let mut file = transaction.load_inode(node)?;
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
        let mut file = transaction.load_inode(node)?;
        transaction.convert_blocks(&mut file, first, blocks, false)?;
        let end = offset + bytes.len() as u64;
        file.set_size_bytes(file.size_bytes().max(end));
        transaction.store_inode(&mut file)?;
        transaction.commit().map(|()| Outcome::default())
    }

    fn reshape(&self, node: InodeNumber, how: Reshape, offset: u64, length: u64) -> Result<Outcome> {
        let geometry = self.file_system.geometry();
        let block = |bytes: u64| FileBlock::new(bytes >> geometry.block_log);
        let blocks = (offset + length).div_ceil(geometry.block_size_bytes.into()) - block(offset).get();
        let mut transaction = self.begin(reservation::Operation::Allocate { blocks })?;
        let mut file = transaction.load_inode(node)?;
        match how {
            Reshape::Punch => {
                transaction.unmap_blocks(&mut file, Fork::Data, block(offset), blocks)?;
            }
            _ => {
                let unwritten = Mapping { hint: None, is_unwritten: true };
                transaction.map_blocks(&mut file, Fork::Data, block(offset), blocks, unwritten)?;
                if how == Reshape::Allocate {
                    file.set_size_bytes(file.size_bytes().max(offset + length));
                }
            }
        }
        transaction.store_inode(&mut file)?;
        transaction.commit().map(|()| Outcome::default())
    }
}

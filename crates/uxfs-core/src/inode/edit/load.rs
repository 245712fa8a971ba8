//! From the disk to an inode taken apart.

use uxfs_format::{
    btree::extent_map::ExtentMapRoot,
    fault::Structure,
    field_table::OnDisk,
    inode::{Fork, ForkFormat, InodeCore},
    units::{FsBlock, InodeNumber},
};

use super::{EditExtents, EditFork, EditInode, ExtentRoot};
use crate::{
    error::{OperationError, Result},
    inode::ForkView,
    transaction::Transaction,
};

impl Transaction<'_> {
    /// Takes an inode in use apart, to be changed.
    ///
    /// # Errors
    /// As for reading it, and its extents.
    pub fn load_inode(&mut self, number: InodeNumber) -> Result<EditInode> {
        let file_system = self.file_system();
        let inode = file_system.inode(number)?;
        let (_, cluster) = file_system.inode_cluster(number)?;
        let buffer =
            file_system.read_metadata(Structure::InodeCluster, cluster.sector, cluster.length_bytes)?;
        let bytes = buffer.get(cluster.offset_bytes..).unwrap_or_default();
        let core = *InodeCore::prefix_of(bytes).ok_or(OperationError::NoSuchInode)?;
        let fork = |fork| -> Result<EditFork> {
            Ok(match inode.fork(fork) {
                ForkView::Missing | ForkView::Empty => EditFork::empty(),
                ForkView::Local(contents) => EditFork::Local(used_bytes(fork, contents).to_vec()),
                ForkView::Device(_) => EditFork::Device(inode.device_number().encode().unwrap_or_default()),
                ForkView::MetadataBtree => return Err(OperationError::WrongFileType.into()),
                ForkView::Extents | ForkView::Btree => {
                    let extents = file_system.extent_map(&inode, fork)?.iter().collect();
                    let root = match inode.fork_format(fork) {
                        Some(ForkFormat::Btree) => ExtentRoot::decode(inode.fork_bytes(fork)),
                        _ => None,
                    };
                    EditFork::Extents(EditExtents { extents, root })
                }
            })
        };
        let data = fork(Fork::Data)?;
        let attribute = if core.has_attribute_fork() { Some(fork(Fork::Attribute)?) } else { None };
        let attribute_offset_bytes = core.fork_offset_bytes();
        Ok(EditInode { number, core, data, attribute, attribute_offset_bytes })
    }
}

/// The part of a local fork that means something: attributes say themselves how many bytes they take.
fn used_bytes(fork: Fork, contents: &[u8]) -> &[u8] {
    let length = match (fork, contents.first_chunk()) {
        (Fork::Attribute, Some(length)) => usize::from(u16::from_be_bytes(*length)),
        _ => contents.len(),
    };
    contents.get(..length).unwrap_or(contents)
}

impl ExtentRoot {
    /// From the bytes of a fork that has been verified.
    pub(crate) fn decode(fork: &[u8]) -> Option<Self> {
        let root = ExtentMapRoot::parse(fork).ok()?;
        let keys = root.keys().iter().map(|key| key.file_block.get()).collect();
        let pointers = root.pointers().iter().map(|pointer| FsBlock::new(pointer.get())).collect();
        Some(Self { level: root.level(), keys, pointers })
    }
}

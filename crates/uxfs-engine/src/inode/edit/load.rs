//! From the disk to an inode taken apart.

use crate::extent_map::finger::ExtentFinger;
use std::sync::Arc;

use uxfs_format::{
    btree::extent_map::ExtentMapRoot,
    convert::long_to_usize,
    fault::Structure,
    geometry::INODE_CORE_SIZE_BYTES,
    inode::{DeviceNumber, Fork, ForkFormat, InodeCore},
    units::{FsBlock, InodeNumber},
};

use super::{EditExtents, EditFork, EditInode, ExtentRoot, LogClaim};
use crate::engine::Engine;
use crate::{attribute::finger::AttributeFinger, directory::DirectoryHint, transaction::Transaction};
use uxfs_volume::{
    error::{OperationError, Result},
    extent_map::ExtentMap,
    inode::Inode,
};

impl Transaction<'_> {
    /// Takes an inode in use apart, to be changed: for who knows that nobody has it open. Others
    /// [open](crate::engine::Engine::open) it.
    ///
    /// # Errors
    /// As for reading it, and its extents.
    pub fn load_inode(&mut self, number: InodeNumber) -> Result<EditInode> {
        self.engine().load_edit_inode(number)
    }
}

impl Engine {
    /// Takes an inode in use apart.
    pub fn load_edit_inode(&self, number: InodeNumber) -> Result<EditInode> {
        let (place, cluster) = self.inode_cluster(number)?;
        let buffer = self.read_metadata(Structure::InodeCluster, cluster.sector, cluster.length_bytes)?;
        let (core, bytes) = self.verified_inode(number, place, &buffer, cluster.offset_bytes)?;
        let attribute_offset_bytes = core.fork_offset_bytes();
        let mut inode = EditInode {
            number,
            core: *core,
            data: EditFork::empty(),
            attribute: core.has_attribute_fork().then(EditFork::empty),
            attribute_offset_bytes,
            directory_hint: DirectoryHint::default(),
            attribute_finger: AttributeFinger::default(),
            extent_finger: ExtentFinger::default(),
            log_claim: LogClaim::default(),
        };
        let literal = bytes.get(INODE_CORE_SIZE_BYTES as usize..).unwrap_or_default();
        let room = inode.fork_room_bytes(Fork::Data, self.geometry()) as usize;
        let (data, attribute) = literal.split_at_checked(room).unwrap_or((literal, &[]));
        // The trees of extents are read by who knows the whole inode.
        let mut whole = None;
        inode.data = self.load_fork(&inode, Fork::Data, data, &mut whole)?;
        if inode.attribute.is_some() {
            inode.attribute = Some(self.load_fork(&inode, Fork::Attribute, attribute, &mut whole)?);
        }
        Ok(inode)
    }

    fn load_fork(
        &self,
        inode: &EditInode,
        fork: Fork,
        bytes: &[u8],
        whole: &mut Option<Arc<Inode>>,
    ) -> Result<EditFork> {
        let core = &inode.core;
        Ok(match core.fork_format(fork).ok_or(OperationError::NoSuchInode)? {
            ForkFormat::Device => {
                let word = bytes.first_chunk().copied().map_or(0, u32::from_be_bytes);
                EditFork::Device(DeviceNumber::decode(word).encode().unwrap_or_default())
            }
            ForkFormat::Local => EditFork::Local(used_bytes(fork, core, bytes).to_vec()),
            ForkFormat::Extents if core.extent_count(fork) == 0 => EditFork::empty(),
            ForkFormat::Extents | ForkFormat::Btree => {
                let whole = match whole {
                    Some(whole) => whole,
                    None => whole.insert(self.inode(inode.number)?),
                };
                let extents = ExtentMap::clone(&*self.extent_map(whole, fork)?);
                let root = match whole.fork_format(fork) {
                    Some(ForkFormat::Btree) => ExtentRoot::decode(whole.fork_bytes(fork)),
                    _ => None,
                };
                EditFork::Extents(EditExtents { extents, root })
            }
            ForkFormat::MetadataBtree => return Err(OperationError::WrongFileType.into()),
        })
    }
}

/// The part of a local fork that means something: attributes say themselves how many bytes they take.
fn used_bytes<'a>(fork: Fork, core: &InodeCore, contents: &'a [u8]) -> &'a [u8] {
    let length = match (fork, contents.first_chunk()) {
        (Fork::Attribute, Some(length)) => usize::from(u16::from_be_bytes(*length)),
        (Fork::Attribute, None) => 0,
        (Fork::Data, _) => long_to_usize(core.size_bytes.get()),
    };
    contents.get(..length).unwrap_or(contents)
}

impl ExtentRoot {
    /// From the bytes of a fork that has been verified.
    pub fn decode(fork: &[u8]) -> Option<Self> {
        let root = ExtentMapRoot::parse(fork).ok()?;
        let keys = root.keys().iter().map(|key| key.file_block.get()).collect();
        let pointers = root.pointers().iter().map(|pointer| FsBlock::new(pointer.get())).collect();
        Some(Self { level: root.level(), keys, pointers })
    }
}

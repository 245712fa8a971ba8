//! From the disk to an inode taken apart.

use crate::extent_map::hint::ExtentHint;
use std::sync::Arc;
use uxfs_volume::btree::Tree;

use uxfs_format::{
    attribute,
    btree::extent_map::ExtentMapRoot,
    convert::long_to_usize,
    directory,
    fault::{Corruption, Fault, Location, Structure},
    geometry::INODE_CORE_SIZE_BYTES,
    inode::{DeviceNumber, FileType, Fork, ForkFormat, InodeCore, symlink::verify_target},
    units::{FsBlock, InodeNumber},
};

use super::{EditExtents, EditFork, EditInode, ExtentRoot, InodeLogReservation};
use crate::engine::Engine;
use crate::{attribute::hint::AttributeHint, directory::hint::DirectoryHint};
use uxfs_volume::{
    error::{OperationError, Result},
    extent_map::ExtentMap,
    inode::Inode,
};

impl Engine {
    /// As [`load_edit_inode`](Self::load_edit_inode), and verifies the trees of its extents whole: keys against children,
    /// siblings, order. Changing them relies on that, and an inode whose trees cannot be changed must be refused before its
    /// last link goes: nobody could free it then, recovery neither.
    pub fn load_inode_to_change(&self, number: InodeNumber) -> Result<EditInode> {
        let inode = self.load_edit_inode(number)?;
        for fork in [Fork::Data, Fork::Attribute] {
            let has_tree =
                matches!(inode.fork(fork), Some(EditFork::Extents(extents)) if extents.root.is_some());
            if has_tree {
                self.verify_extent_tree(number, fork)?;
            }
        }
        Ok(inode)
    }

    #[cold]
    fn verify_extent_tree(&self, number: InodeNumber, fork: Fork) -> Result<()> {
        let whole = self.inode(number)?;
        let damaged = |fault| Corruption::new(Structure::ExtentMap, Location::of_inode(number), fault);
        let root = ExtentMapRoot::parse(whole.fork_bytes(fork)).map_err(damaged)?;
        let tree = Tree::of_inode(self, number, &root);
        tree.records().try_for_each(|record| record.map(drop))
    }

    /// Takes an inode in use apart.
    pub fn load_edit_inode(&self, number: InodeNumber) -> Result<EditInode> {
        let (place, cluster) = self.inode_cluster(number)?;
        let buffer = self.metadata().read(Structure::InodeCluster, cluster.sector, cluster.length_bytes)?;
        let (core, bytes) = self.verified_inode(number, place, &buffer, cluster.offset_bytes)?;
        let attribute_offset_bytes = core.fork_offset_bytes();
        let mut inode = EditInode {
            number,
            core: *core,
            data: EditFork::empty(),
            attribute: core.has_attribute_fork().then(EditFork::empty),
            attribute_offset_bytes,
            directory_hint: DirectoryHint::default(),
            attribute_hint: AttributeHint::default(),
            extent_hint: ExtentHint::default(),
            log_reservation: InodeLogReservation::default(),
            commits: self.commit_sequences_of((cluster.sector, cluster.length_bytes), cluster.offset_bytes),
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
            ForkFormat::Local => {
                let bytes = used_bytes(fork, core, bytes);
                self.verify_local(inode, fork, bytes)?;
                EditFork::Local(bytes.to_vec())
            }
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

impl Engine {
    /// Verifies what lies in the inode itself. What is moved from there into blocks must pass the verifiers of those, or else
    /// the log could not be replayed.
    #[doc(alias = "xfs_ifork_verify_local_attr")]
    #[doc(alias = "xfs_ifork_verify_local_data")]
    fn verify_local(&self, inode: &EditInode, fork: Fork, bytes: &[u8]) -> Result<()> {
        let (structure, verified) = match (fork, inode.file_type()) {
            (Fork::Attribute, _) => (
                Structure::AttributeShortform,
                attribute::shortform::Shortform::verify(bytes).map_err(Fault::from),
            ),
            (Fork::Data, Some(FileType::Directory)) => {
                let verified = directory::shortform::Shortform::verify(bytes, self.geometry());
                (Structure::DirectoryShortform, verified.map_err(Fault::from))
            }
            (Fork::Data, Some(FileType::SymbolicLink)) => {
                (Structure::SymlinkLocal, verify_target(bytes).map_err(Into::into))
            }
            (Fork::Data, _) => return Ok(()),
        };
        verified.map_err(|fault| Corruption::new(structure, Location::of_inode(inode.number), fault).into())
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

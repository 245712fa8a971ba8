//! Every metadata structure of a sound image, one by one: where it lies, what it is and whose it is. The comparison
//! of `inspect` with `xfs_db` and the field fuzzer go through this list.
//!
//! The walk follows pointers from the group headers, through the inode index, to the forks of every inode. It trusts
//! the image: both users want one that the judges call clean.

use anyhow::{Context, Result, bail};
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    allocation_group::{free_space_header::FreeSpaceHeader, inode_header::InodeHeader},
    btree::{
        BlockPointer, BtreeKind,
        block::BtreeBlock,
        free_space::{ByBlock, ByLength},
        inode_index::{FreeInodeIndex, InodeIndex},
        reference_count::ReferenceCount,
        reverse_map::ReverseMap,
    },
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    superblock::Superblock,
    units::{AgBlock, AgNumber, FsBlock, InodeNumber},
};

mod forks;

/// Whose a structure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// An allocation group.
    Group(u32),
    /// An inode.
    Inode(u64),
}

/// One structure with a checksum of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// The structure; never one of the "any of" kinds.
    pub structure: Structure,
    /// The bytes of the device that it takes, in order: offset and length.
    pub pieces: Vec<(u64, u32)>,
    /// Whose it is.
    pub owner: Owner,
    /// First block in the owner's fork.
    pub file_block: Option<u64>,
    /// First block on disk, sparse numbering, where it begins at a block.
    pub fs_block: Option<u64>,
}

impl Instance {
    /// Its bytes.
    pub fn read(&self, device: &dyn BlockDevice) -> Result<Vec<u8>> {
        let length = self.pieces.iter().map(|(_, length)| *length as usize).sum();
        let mut bytes = vec![0; length];
        let mut rest = bytes.as_mut_slice();
        for (offset, length) in &self.pieces {
            let (piece, after) = rest.split_at_mut(*length as usize);
            device.read(*offset, piece)?;
            rest = after;
        }
        Ok(bytes)
    }
}

/// Reads the superblock and lists every structure of the image.
pub fn list(device: &dyn BlockDevice) -> Result<(Geometry, Vec<Instance>)> {
    let mut bytes = vec![0; uxfs_format::superblock::MAX_SECTOR_SIZE_BYTES];
    device.read(0, &mut bytes)?;
    let (superblock, _) = Superblock::parse(&bytes)?;
    let geometry = Geometry::new(superblock);
    let quota_inodes =
        [superblock.user_quota_inode, superblock.group_quota_inode, superblock.project_quota_inode];
    let quota_inodes = quota_inodes.map(|inode| inode.get());
    let mut walk = Walk { device, geometry: &geometry, quota_inodes, instances: Vec::new() };
    for group in geometry.groups() {
        walk.group(group).with_context(|| format!("group {group}"))?;
    }
    let instances = walk.instances;
    Ok((geometry, instances))
}

struct Walk<'a> {
    device: &'a dyn BlockDevice,
    geometry: &'a Geometry,
    /// All ones where there is none.
    quota_inodes: [u64; 3],
    instances: Vec<Instance>,
}

impl Walk<'_> {
    /// Adds a structure and gives its bytes.
    fn add(&mut self, instance: Instance) -> Result<Vec<u8>> {
        let bytes = instance.read(self.device)?;
        self.instances.push(instance);
        Ok(bytes)
    }

    fn group(&mut self, group: AgNumber) -> Result<()> {
        let headers =
            [Structure::Superblock, Structure::FreeSpaceHeader, Structure::InodeHeader, Structure::FreeList];
        let mut contents = Vec::new();
        for (index, structure) in (0..).zip(headers) {
            let sector = self.geometry.sector_of_group_header(group, index).context("header outside")?;
            contents.push(self.add(Instance {
                structure,
                pieces: vec![(Geometry::byte_of_sector(sector), self.geometry.sector_size_bytes)],
                owner: Owner::Group(group.get()),
                file_block: None,
                fs_block: None,
            })?);
        }
        let space = *FreeSpaceHeader::prefix_of(&contents[1]).context("AGF")?;
        let inodes = *InodeHeader::prefix_of(&contents[2]).context("AGI")?;
        let features = self.geometry.features.ro_compatible;
        use uxfs_format::features::RoCompatible;
        self.group_tree::<ByBlock>(group, space.by_block_root.get())?;
        self.group_tree::<ByLength>(group, space.by_length_root.get())?;
        if features.contains(RoCompatible::REVERSE_MAP_BTREE) {
            self.group_tree::<ReverseMap>(group, space.reverse_map_root.get())?;
        }
        if features.contains(RoCompatible::REFLINK) {
            self.group_tree::<ReferenceCount>(group, space.reference_count_root.get())?;
        }
        if features.contains(RoCompatible::FREE_INODE_BTREE) {
            self.group_tree::<FreeInodeIndex>(group, inodes.free_root.get())?;
        }
        let leaves = self.group_tree::<InodeIndex>(group, inodes.root.get())?;
        for leaf in leaves {
            self.chunks(group, &leaf)?;
        }
        Ok(())
    }

    /// Adds all blocks of a tree of a group; gives the leaves' bytes.
    fn group_tree<K: BtreeKind>(&mut self, group: AgNumber, root: u32) -> Result<Vec<Vec<u8>>> {
        let mut leaves = Vec::new();
        let mut blocks = vec![root];
        while let Some(block) = blocks.pop() {
            let fs_block =
                self.geometry.fs_block(group, AgBlock::new(block)).context("tree block outside its group")?;
            let bytes =
                self.add(self.block_instance(K::STRUCTURE, fs_block, Owner::Group(group.get()), None)?)?;
            let view = BtreeBlock::<K>::parse(&bytes)?;
            let children = view.pointers().iter().map(|pointer| pointer.raw() as u32);
            blocks.extend(children.rev());
            if view.is_leaf() {
                leaves.push(bytes);
            }
        }
        Ok(leaves)
    }

    fn block_instance(
        &self,
        structure: Structure,
        block: FsBlock,
        owner: Owner,
        file_block: Option<u64>,
    ) -> Result<Instance> {
        let sector = self.geometry.sector_of_block(block).context("block outside the file system")?;
        let pieces = vec![(Geometry::byte_of_sector(sector), self.geometry.block_size_bytes)];
        Ok(Instance { structure, pieces, owner, file_block, fs_block: Some(block.get()) })
    }

    /// All inodes of the chunks that a leaf of the inode index names: those in use with their forks, and the free.
    fn chunks(&mut self, group: AgNumber, leaf: &[u8]) -> Result<()> {
        let view = BtreeBlock::<InodeIndex>::parse(leaf)?;
        for record in view.records() {
            let chunk = record.get(self.geometry);
            for index in (0..64).filter(|index| chunk.exists(*index)) {
                let number = self.geometry.inode_number(group, chunk.inode(index));
                self.inode(number).with_context(|| format!("inode {number}"))?;
            }
        }
        Ok(())
    }

    fn inode(&mut self, number: InodeNumber) -> Result<()> {
        let Some(place) = self.geometry.inode_place(number) else { bail!("impossible number") };
        let sector =
            self.geometry.sector_of_group_block(place.group, place.block).context("inode outside")?;
        let offset = Geometry::byte_of_sector(sector) + u64::from(place.offset_bytes);
        let bytes = self.add(Instance {
            structure: Structure::Inode,
            pieces: vec![(offset, self.geometry.inode_size_bytes)],
            owner: Owner::Inode(number.get()),
            file_block: None,
            fs_block: None,
        })?;
        self.forks(number, &bytes)
    }
}

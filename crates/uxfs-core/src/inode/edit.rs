//! An inode that is being changed.
//!
//! [`EditInode`] is the whole inode taken apart: the core, and each fork as what it holds. Which format a fork has on disk
//! follows from its contents and is decided when the inode is stored, so that a fork in memory cannot contradict its
//! format. Sizes are the caller's to keep: contents that do not fit their fork are refused when the inode is stored.

use uxfs_format::{
    btree::extent_map::{Extent, ExtentMapRoot, ExtentRecord},
    fault::Structure,
    field_table::OnDisk,
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::{Fork, ForkFormat, InodeCore, InodeFlags2},
    units::{FsBlock, InodeNumber},
};
use zerocopy::{
    IntoBytes,
    big_endian::{U16, U32, U64},
};

use super::ForkView;
use crate::{
    error::{OperationError, Result},
    transaction::Transaction,
};

/// An inode that only its holder may change.
#[derive(Debug, Clone)]
pub struct EditInode {
    /// Its number.
    pub number: InodeNumber,
    /// The fixed part. Formats, extent counts and the offset of the attribute fork are brought up to date when the
    /// inode is stored: [`attribute_offset_bytes`](Self::attribute_offset_bytes) holds the latter.
    pub core: InodeCore,
    /// Contents.
    pub data: EditFork,
    /// Extended attributes; `None` without such a fork.
    pub attribute: Option<EditFork>,
    /// Where the attribute fork begins behind the core, a multiple of 8; 0 without one.
    pub attribute_offset_bytes: u32,
}

/// One fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditFork {
    /// A device number as encoded on disk.
    Device(u32),
    /// The contents themselves.
    Local(Vec<u8>),
    /// Blocks elsewhere.
    Extents(EditExtents),
}

/// The extents of a fork and, where they do not fit the inode, the root of the btree that holds them.
#[doc(alias = "xfs_ifork")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EditExtents {
    /// In order of file blocks, none touching the next where they could be one.
    pub extents: Vec<Extent>,
    /// The btree, kept in step with `extents` while there is one.
    pub root: Option<ExtentRoot>,
}

/// Root of an extent btree, inside the inode.
#[doc(alias = "xfs_bmdr_block")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtentRoot {
    /// At least 1: the level above the leaves.
    pub level: u16,
    /// First file block below each child.
    pub keys: Vec<u64>,
    /// The children.
    pub pointers: Vec<FsBlock>,
}

impl EditFork {
    /// Without contents.
    pub fn empty() -> Self {
        Self::Extents(EditExtents::default())
    }

    /// The format on disk.
    pub fn format(&self) -> ForkFormat {
        match self {
            Self::Device(_) => ForkFormat::Device,
            Self::Local(_) => ForkFormat::Local,
            Self::Extents(EditExtents { root: None, .. }) => ForkFormat::Extents,
            Self::Extents(EditExtents { root: Some(_), .. }) => ForkFormat::Btree,
        }
    }

    /// Extents, none for other contents.
    pub fn extents(&self) -> &[Extent] {
        match self {
            Self::Extents(extents) => &extents.extents,
            Self::Device(_) | Self::Local(_) => &[],
        }
    }

    fn extent_count(&self) -> u64 {
        self.extents().len() as u64
    }
}

impl EditInode {
    /// A fork.
    pub fn fork(&self, fork: Fork) -> Option<&EditFork> {
        match fork {
            Fork::Data => Some(&self.data),
            Fork::Attribute => self.attribute.as_ref(),
        }
    }

    /// A fork, to be changed.
    pub fn fork_mut(&mut self, fork: Fork) -> Option<&mut EditFork> {
        match fork {
            Fork::Data => Some(&mut self.data),
            Fork::Attribute => self.attribute.as_mut(),
        }
    }

    /// Bytes that a fork may take in the inode; 0 for an attribute fork that does not exist.
    pub fn fork_room_bytes(&self, fork: Fork, geometry: &Geometry) -> u32 {
        let literal = geometry.literal_size_bytes();
        match (fork, self.attribute_offset_bytes) {
            (Fork::Data, 0) => literal,
            (Fork::Data, offset) => offset.min(literal),
            (Fork::Attribute, 0) => 0,
            (Fork::Attribute, offset) => literal.saturating_sub(offset),
        }
    }

    /// Size of the file in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.core.size_bytes.get()
    }

    /// Sets the size of the file.
    pub fn set_size_bytes(&mut self, size_bytes: u64) {
        self.core.size_bytes = U64::new(size_bytes);
    }

    /// Adds to the blocks that the inode counts, or takes away.
    pub fn add_blocks(&mut self, change: i64) {
        self.core.blocks = U64::new(self.core.blocks.get().saturating_add_signed(change));
    }

    /// Blocks of both forks, btree blocks included.
    pub fn blocks(&self) -> u64 {
        self.core.blocks.get()
    }

    /// Brings the fields of the core that follow from the forks up to date.
    fn update_core(&mut self) {
        let is_large = self.core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
        let data = self.data.extent_count();
        let attribute = self.attribute.as_ref().map_or(0, EditFork::extent_count);
        let narrow = |count: u64| U32::new(u32::try_from(count).unwrap_or(u32::MAX));
        self.core.format = self.data.format().code();
        self.core.attribute_format =
            self.attribute.as_ref().map_or(ForkFormat::Extents.code(), |fork| fork.format().code());
        self.core.fork_offset = u8::try_from(self.attribute_offset_bytes / 8).unwrap_or(0);
        if is_large {
            self.core.large_extent_count = U64::new(data);
            self.core.extent_count = narrow(attribute);
            self.core.attribute_extent_count = U16::new(0);
        } else {
            self.core.large_extent_count = U64::new(0);
            self.core.extent_count = narrow(data);
            self.core.attribute_extent_count = U16::new(u16::try_from(attribute).unwrap_or(u16::MAX));
        }
    }
}

impl Transaction<'_> {
    /// Writes an inode into the buffer of its cluster; from then on others see it as it is now.
    ///
    /// # Errors
    /// Contents that do not fit the fork; damage of the cluster; the device.
    pub fn store_inode(&mut self, inode: &mut EditInode) -> Result<()> {
        inode.update_core();
        let cluster = self.file_system().inode_cluster(inode.number)?.1;
        let geometry = self.file_system().geometry();
        let mut buffer =
            self.buffers().edit(Structure::InodeCluster, cluster.sector, cluster.length_bytes)?;
        let mut edit = buffer.edit();
        let core_size = INODE_CORE_SIZE_BYTES as usize;
        // Who links inodes without a name writes this field, and nobody else.
        let next_unlinked = bytes_at(edit.bytes(), cluster.offset_bytes.saturating_add(96));
        edit.put_value(cluster.offset_bytes, &inode.core);
        if let Some(next_unlinked) = next_unlinked {
            edit.put(cluster.offset_bytes.saturating_add(96), &next_unlinked);
        }
        let literal = cluster.offset_bytes.saturating_add(core_size);
        let literal = edit.range(literal, geometry.literal_size_bytes() as usize);
        let split = inode.fork_room_bytes(Fork::Data, geometry) as usize;
        let (data, attribute) = literal.split_at_mut_checked(split).ok_or(OperationError::WrongFileType)?;
        inode.data.encode(data)?;
        match &inode.attribute {
            Some(fork) => fork.encode(attribute)?,
            None => attribute.fill(0),
        }
        Ok(())
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

fn bytes_at(bytes: &[u8], offset_bytes: usize) -> Option<[u8; 4]> {
    bytes.get(offset_bytes..)?.first_chunk().copied()
}

impl EditFork {
    /// Writes the fork into its room in the inode; what it does not take is zero.
    fn encode(&self, room: &mut [u8]) -> Result<()> {
        let too_long = OperationError::WrongFileType;
        match self {
            Self::Device(number) => {
                let (word, rest) = room.split_first_chunk_mut().ok_or(too_long)?;
                *word = number.to_be_bytes();
                rest.fill(0);
            }
            Self::Local(bytes) => {
                let (target, rest) = room.split_at_mut_checked(bytes.len()).ok_or(too_long)?;
                target.copy_from_slice(bytes);
                rest.fill(0);
            }
            Self::Extents(extents) => extents.encode(room)?,
        }
        Ok(())
    }
}

impl EditExtents {
    /// Packed records, or the root of the btree.
    fn encode(&self, room: &mut [u8]) -> Result<()> {
        room.fill(0);
        let too_long = OperationError::WrongFileType;
        let Some(root) = &self.root else {
            let mut slots = room.chunks_exact_mut(size_of::<ExtentRecord>());
            for extent in &self.extents {
                let record = ExtentRecord::new(extent).ok_or(too_long)?;
                slots.next().ok_or(too_long)?.copy_from_slice(record.as_bytes());
            }
            return Ok(());
        };
        let capacity = ExtentMapRoot::capacity(room.len()) as usize;
        if root.keys.len() > capacity || root.keys.len() != root.pointers.len() {
            return Err(too_long.into());
        }
        let (header, rest) = room.split_first_chunk_mut::<4>().ok_or(too_long)?;
        let count = u16::try_from(root.keys.len()).map_err(|_| too_long)?;
        *header =
            [root.level.to_be_bytes(), count.to_be_bytes()].concat().try_into().map_err(|_| too_long)?;
        let (keys, pointers) = rest.split_at_mut_checked(capacity * 8).ok_or(too_long)?;
        for (slot, key) in keys.chunks_exact_mut(8).zip(&root.keys) {
            slot.copy_from_slice(&key.to_be_bytes());
        }
        for (slot, pointer) in pointers.chunks_exact_mut(8).zip(&root.pointers) {
            slot.copy_from_slice(&pointer.get().to_be_bytes());
        }
        Ok(())
    }
}

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

impl ExtentRoot {
    /// From the bytes of a fork that has been verified.
    fn decode(fork: &[u8]) -> Option<Self> {
        let root = ExtentMapRoot::parse(fork).ok()?;
        let keys = root.keys().iter().map(|key| key.file_block.get()).collect();
        let pointers = root.pointers().iter().map(|pointer| FsBlock::new(pointer.get())).collect();
        Some(Self { level: root.level(), keys, pointers })
    }
}

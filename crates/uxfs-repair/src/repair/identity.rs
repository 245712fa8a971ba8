//! The known fields of a structure: magic number, place, owner and uuid.

use uxfs_format::{
    allocation_group::{free_list, free_space_header, inode_header},
    attribute::{self, remote},
    btree, directory,
    fault::Structure,
    geometry::Geometry,
    inode::{core, symlink},
    name_tree::node,
    seal::structure_of,
    superblock,
    units::{InodeNumber, Sector, Uuid},
    verify::{VerifyContext, verify},
};

/// A number at a place in a structure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub offset_bytes: usize,
    pub length_bytes: usize,
    pub value: u64,
}

pub(crate) const fn field(offset_bytes: usize, length_bytes: usize, value: u64) -> Field {
    Field { offset_bytes, length_bytes, value }
}

impl Field {
    fn place<'b>(&self, bytes: &'b mut [u8]) -> Option<&'b mut [u8]> {
        bytes.get_mut(self.offset_bytes..self.offset_bytes.checked_add(self.length_bytes)?)
    }

    fn encoded(&self) -> [u8; 8] {
        self.value.to_be_bytes()
    }

    /// Stores the value. Returns whether the old one differed.
    pub fn put(&self, bytes: &mut [u8]) -> bool {
        let encoded = self.encoded();
        let new = encoded.get(8_usize.saturating_sub(self.length_bytes)..).unwrap_or_default();
        match self.place(bytes) {
            Some(place) if place != new => {
                place.copy_from_slice(new);
                true
            }
            _ => false,
        }
    }
}

/// Both halves of the uuid that metadata have, which begins at this byte.
fn uuid(offset_bytes: usize, geometry: &Geometry) -> [Field; 2] {
    halves(offset_bytes, geometry.metadata_uuid)
}

fn halves(offset_bytes: usize, uuid: Uuid) -> [Field; 2] {
    let number = u128::from_be_bytes(uuid.0);
    [field(offset_bytes, 8, (number >> 64) as u64), field(offset_bytes + 8, 8, number as u64)]
}

/// Magic number, both halves of the uuid, owner and place of a block of a file.
pub(crate) fn of_file_block(
    structure: Structure,
    (inode, sector): (InodeNumber, Sector),
    geometry: &Geometry,
) -> Option<[Field; 5]> {
    use Structure as S;
    // Lengths of the magic number, then where it, the uuid, the owner and the place lie.
    let (length, magic, magic_at, uuid_at, owner_at, place_at) = match structure {
        S::DirectoryBlock => (4, directory::block::MAGIC, 0, 24, 40, 8),
        S::DirectoryData => (4, directory::data::MAGIC, 0, 24, 40, 8),
        S::DirectoryFreeIndex => (4, directory::free_index::MAGIC, 0, 24, 40, 8),
        S::DirectoryLeaf => (2, directory::leaf::SINGLE_MAGIC.into(), 8, 32, 48, 16),
        S::DirectoryLeafNode => (2, directory::leaf::NODE_MAGIC.into(), 8, 32, 48, 16),
        S::AttributeLeaf => (2, attribute::leaf::MAGIC.into(), 8, 32, 48, 16),
        S::DirectoryNode | S::AttributeNode => (2, node::MAGIC.into(), 8, 32, 48, 16),
        S::Symlink => (4, symlink::MAGIC, 0, 16, 32, 40),
        S::AttributeRemoteValue => (4, remote::MAGIC, 0, 16, 32, 40),
        S::ExtentMap => (4, btree::extent_map::MAGIC, 0, 40, 56, 24),
        _ => return None,
    };
    let [high, low] = uuid(uuid_at, geometry);
    Some([
        field(magic_at, length, magic.into()),
        high,
        low,
        field(owner_at, 8, inode.get()),
        field(place_at, 8, sector.get()),
    ])
}

/// The same of a header or a btree block of a group: magic number, uuid, group, and what else is the same in each.
pub(crate) fn of_group_structure(
    structure: Structure,
    sector: Sector,
    geometry: &Geometry,
) -> Option<Vec<Field>> {
    use Structure as S;
    let (group, ..) = geometry.block_of_sector(sector)?;
    let (number, length_blocks) = (group.get().into(), geometry.group_length_blocks(group)?.into());
    let header = |magic: u32, version: u32, uuid_at: usize| {
        let fields = [field(0, 4, magic.into()), field(4, 4, version.into()), field(8, 4, number)];
        [&fields[..], &[field(12, 4, length_blocks)], &uuid(uuid_at, geometry)].concat()
    };
    let btree_block = |magic: u32| {
        let fields = [field(0, 4, magic.into()), field(16, 8, sector.get()), field(48, 4, number)];
        [&fields[..], &uuid(32, geometry)].concat()
    };
    Some(match structure {
        S::FreeSpaceHeader => header(free_space_header::MAGIC, free_space_header::VERSION, 64),
        S::InodeHeader => header(inode_header::MAGIC, inode_header::VERSION, 296),
        S::FreeList => {
            let fields = [field(0, 4, free_list::MAGIC.into()), field(4, 4, number)];
            [&fields[..], &uuid(8, geometry)].concat()
        }
        S::FreeSpaceByBlock => btree_block(btree::free_space::BY_BLOCK_MAGIC),
        S::FreeSpaceByLength => btree_block(btree::free_space::BY_LENGTH_MAGIC),
        S::InodeIndex => btree_block(btree::inode_index::MAGIC),
        S::FreeInodeIndex => btree_block(btree::inode_index::FREE_MAGIC),
        S::ReverseMap => btree_block(btree::reverse_map::MAGIC),
        S::ReferenceCount => btree_block(btree::reference_count::MAGIC),
        _ => return None,
    })
}

/// The same of an inode: magic number, version, number and uuid.
pub(crate) fn of_inode(inode: InodeNumber, geometry: &Geometry) -> [Field; 5] {
    let [high, low] = uuid(160, geometry);
    [
        field(0, 2, core::MAGIC.into()),
        field(4, 1, core::VERSION.into()),
        field(152, 8, inode.get()),
        high,
        low,
    ]
}

/// The same of the first superblock: magic number, block size, and the uuid that users know.
pub(crate) fn of_superblock(geometry: &Geometry) -> [Field; 4] {
    let [high, low] = halves(32, geometry.uuid);
    [field(0, 4, superblock::MAGIC.into()), field(4, 4, geometry.block_size_bytes.into()), high, low]
}

/// The structures that a block looked up as one of these can be: only their magic numbers differ.
pub(crate) fn kinds_of(structure: Structure) -> &'static [Structure] {
    use Structure as S;
    match structure {
        S::DirectoryAnyData | S::DirectoryBlock | S::DirectoryData => &[S::DirectoryBlock, S::DirectoryData],
        S::DirectoryAnyIndex | S::DirectoryLeaf | S::DirectoryLeafNode | S::DirectoryNode => {
            &[S::DirectoryLeaf, S::DirectoryLeafNode, S::DirectoryNode]
        }
        S::AttributeAnyIndex | S::AttributeLeaf | S::AttributeNode => &[S::AttributeLeaf, S::AttributeNode],
        S::DirectoryFreeIndex => &[S::DirectoryFreeIndex],
        S::AttributeRemoteValue => &[S::AttributeRemoteValue],
        S::Symlink => &[S::Symlink],
        S::ExtentMap => &[S::ExtentMap],
        _ => &[],
    }
}

/// The inode that the header of a block names.
pub(crate) fn owner_of(structure: Structure, bytes: &[u8]) -> Option<u64> {
    use Structure as S;
    let offset = match structure {
        S::ExtentMap => 56,
        S::DirectoryBlock | S::DirectoryData | S::DirectoryFreeIndex => 40,
        S::DirectoryLeaf | S::DirectoryLeafNode | S::DirectoryNode | S::AttributeLeaf | S::AttributeNode => {
            48
        }
        S::Symlink | S::AttributeRemoteValue => 32,
        _ => return None,
    };
    bytes.get(offset..)?.first_chunk().map(|owner| u64::from_be_bytes(*owner))
}

/// Whether these bytes are a sound structure of any kind whose place is this sector.
pub(crate) fn is_sound_at(bytes: &[u8], sector: Sector, geometry: &Geometry) -> bool {
    let structure = structure_of(bytes, geometry);
    structure.is_some_and(|structure| verify(structure, bytes, &VerifyContext::new(geometry, sector)).is_ok())
}

/// Whether these bytes are a sound block of this inode at this sector.
pub(crate) fn is_sound_block_of(
    inode: InodeNumber,
    structure: Structure,
    bytes: &[u8],
    sector: Sector,
    geometry: &Geometry,
) -> bool {
    owner_of(structure, bytes) == Some(inode.get())
        && verify(structure, bytes, &VerifyContext::new(geometry, sector)).is_ok()
}

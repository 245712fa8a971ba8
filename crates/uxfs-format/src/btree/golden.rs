//! For tests: blocks made by mkfs and the kernel, and a way to damage them. See `testdata/group/README.md`.

use super::{BtreeKind, block_header::BlockHeader};
use crate::{
    checksum,
    fault::{Fault, Structure},
    geometry::Geometry,
    superblock::{Copy, Superblock},
    units::Sector,
    verify::{self, VerifyContext},
};

pub(crate) struct Golden {
    pub bytes: &'static [u8],
    pub sector: u64,
}

macro_rules! golden {
    ($($name:ident $file:literal $sector:literal),* $(,)?) => {$(
        pub(crate) const $name: Golden =
            Golden { bytes: include_bytes!(concat!("../../testdata/group/", $file, ".bin")), sector: $sector };
    )*};
}

golden! {
    SUPERBLOCK "superblock" 0,
    FREE_SPACE_HEADER "free_space_header" 1,
    INODE_HEADER "inode_header" 2,
    FREE_LIST "free_list" 3,
    FREE_SPACE_BY_BLOCK_NODE "free_space_by_block_node" 26,
    FREE_SPACE_BY_BLOCK_LEAF "free_space_by_block_leaf" 4,
    FREE_SPACE_BY_LENGTH_NODE "free_space_by_length_node" 30,
    FREE_SPACE_BY_LENGTH_LEAF "free_space_by_length_leaf" 6,
    INODE_INDEX_NODE "inode_index_node" 986,
    INODE_INDEX_LEAF "inode_index_leaf" 8,
    FREE_INODE_INDEX_NODE "free_inode_index_node" 1006,
    FREE_INODE_INDEX_LEAF "free_inode_index_leaf" 10,
    REVERSE_MAP_NODE "reverse_map_node" 28466,
    REVERSE_MAP_LEAF "reverse_map_leaf" 670,
    REFERENCE_COUNT_NODE "reference_count_node" 170,
    REFERENCE_COUNT_LEAF "reference_count_leaf" 14,
    EXTENT_MAP_NODE "extent_map_node" 28474,
    EXTENT_MAP_LEAF "extent_map_leaf" 62,
    EXTENT_MAP_UNWRITTEN_LEAF "extent_map_unwritten_leaf" 130,
    EXTENT_MAP_ROOT "extent_map_root" 0,
}

pub(crate) fn geometry() -> Geometry {
    let (superblock, sector) = Superblock::parse(SUPERBLOCK.bytes).unwrap();
    superblock.verify(sector, Copy::Primary).unwrap();
    Geometry::new(superblock)
}

impl Golden {
    pub fn verify<K: BtreeKind>(&self) -> Result<(), Fault> {
        self.verify_as(K::STRUCTURE)
    }

    pub fn verify_as(&self, structure: Structure) -> Result<(), Fault> {
        let geometry = geometry();
        let context = VerifyContext::new(&geometry, Sector::new(self.sector));
        verify::verify(structure, self.bytes, &context)
    }

    /// Changes bytes, seals the block again and gives what the verifier says.
    pub fn patched<K: BtreeKind>(&self, offset: usize, value: &[u8]) -> Result<(), Fault> {
        self.patched_as(K::STRUCTURE, K::Header::CHECKSUM_OFFSET_BYTES, offset, value)
    }

    pub fn patched_as(
        &self,
        structure: Structure,
        checksum_offset_bytes: u32,
        offset: usize,
        value: &[u8],
    ) -> Result<(), Fault> {
        let mut bytes = self.bytes.to_vec();
        bytes[offset..offset + value.len()].copy_from_slice(value);
        checksum::seal(&mut bytes, checksum_offset_bytes);
        let geometry = geometry();
        let context = VerifyContext::new(&geometry, Sector::new(self.sector));
        verify::verify(structure, &bytes, &context)
    }
}

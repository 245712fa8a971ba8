//! For tests: blocks made by mkfs and the kernel, and a way to damage them. See `testdata/group/README.md`.

use super::{BtreeKind, block_header::BlockHeader, check};
use crate::{
    checksum,
    fault::Fault,
    geometry::Geometry,
    superblock::{Copy, Superblock},
    units::Sector,
    verify::VerifyContext,
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
        let geometry = geometry();
        let context = VerifyContext { geometry: &geometry, sector: Sector::new(self.sector) };
        check::verify::<K>(self.bytes, &context)
    }

    /// Changes bytes, seals the block again and gives what the verifier says.
    pub fn patched<K: BtreeKind>(&self, offset: usize, value: &[u8]) -> Result<(), Fault> {
        let mut bytes = self.bytes.to_vec();
        bytes[offset..offset + value.len()].copy_from_slice(value);
        checksum::seal(&mut bytes, K::Header::CHECKSUM_OFFSET_BYTES);
        let geometry = geometry();
        let context = VerifyContext { geometry: &geometry, sector: Sector::new(self.sector) };
        check::verify::<K>(&bytes, &context)
    }
}

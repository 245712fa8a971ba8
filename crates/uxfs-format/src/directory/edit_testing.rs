//! A block in memory that is changed and verified, for the tests of edits.

use crate::{
    edit::{DirtyMap, Edit},
    fault::{Fault, Structure},
    geometry::Geometry,
    name_tree::{golden, header_edit::BlockIdentity},
    seal::seal,
    units::{InodeNumber, Sector},
    verify::{VerifyContext, verify},
};

const SECTOR: Sector = Sector::new(4096);

/// The golden geometry, with directory blocks of another size.
pub(super) fn geometry(directory_block_log: u32) -> Geometry {
    let mut geometry = golden::geometry();
    geometry.directory_block_log = directory_block_log;
    geometry.directory_block_size_bytes = geometry.block_size_bytes << directory_block_log;
    geometry
}

pub(super) struct TestBlock {
    pub(super) bytes: Vec<u8>,
    dirty: DirtyMap,
    geometry: Geometry,
}

impl TestBlock {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let bytes = vec![0; geometry.directory_block_size_bytes as usize];
        Self { bytes, dirty: DirtyMap::clean(), geometry: geometry.clone() }
    }

    pub(super) fn identity(&self) -> BlockIdentity {
        BlockIdentity::new(&self.geometry, SECTOR, InodeNumber::new(131))
    }

    pub(super) fn edit(&mut self) -> Edit<'_> {
        Edit::new(&mut self.bytes, &mut self.dirty)
    }

    /// The verifier's result once the block is sealed.
    pub(super) fn verify(&self) -> Result<Structure, Fault> {
        let mut bytes = self.bytes.clone();
        let structure = seal(&mut bytes, None, &self.geometry).expect("a magic number");
        verify(structure, &bytes, &VerifyContext::new(&self.geometry, SECTOR))?;
        Ok(structure)
    }

    pub(super) fn take_dirty(&mut self) -> DirtyMap {
        std::mem::take(&mut self.dirty)
    }
}

/// The name with this number: of many lengths, some with the same hash as others.
pub(super) fn name(number: u32) -> Vec<u8> {
    let length = (number.wrapping_mul(2_654_435_761) >> 28) as usize * 3;
    let mut name = format!("n{number}").into_bytes();
    name.resize(name.len() + length, b'x');
    name
}

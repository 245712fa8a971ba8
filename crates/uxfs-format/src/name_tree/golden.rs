//! Golden blocks of directories and attributes, for the tests. `testdata/names/make.sh` made them with mkfs and the
//! kernel: block size 1 KiB, directory blocks of 4 KiB.

use crate::{
    checksum,
    directory::header::DirectoryBlockHeader,
    fault::{Fault, Structure},
    field_table::OnDisk,
    geometry::Geometry,
    name_tree::header::BlockHeader,
    superblock::{Copy, Superblock},
    units::Sector,
    verify::{self, VerifyContext},
};

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../../testdata/names/", $name, ".bin"))
    };
}

/// A copy of a golden block, to damage.
pub(crate) struct Golden {
    pub(crate) structure: Structure,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sector: Sector,
    /// Where the checksum lies, if the structure has its own.
    pub(crate) checksum_offset: Option<u32>,
}

pub(crate) fn geometry() -> Geometry {
    let (superblock, sector) = Superblock::parse(golden!("superblock")).unwrap();
    superblock.verify(sector, Copy::Primary).unwrap();
    Geometry::new(superblock)
}

/// The golden example of a structure.
pub(crate) fn golden(structure: Structure) -> Golden {
    let tree = |bytes: &[u8]| (BlockHeader::prefix_of(bytes).unwrap().sector.get(), Some(12));
    let data = |bytes: &[u8]| (DirectoryBlockHeader::prefix_of(bytes).unwrap().sector.get(), Some(4));
    let remote = |bytes: &[u8]| {
        (crate::attribute::remote::RemoteHeader::prefix_of(bytes).unwrap().sector.get(), Some(12))
    };
    let (bytes, (sector, checksum_offset)): (&[u8], _) = match structure {
        Structure::DirectoryShortform => {
            // Size of the directory: 0x1a, as in the inode's core.
            (&golden!("directory_shortform_inode")[176..176 + 0x1a], (0, None))
        }
        Structure::AttributeShortform => {
            // The fork begins at 192 bytes (offset 24 in units of 8).
            (&golden!("attribute_shortform_inode")[176 + 192..], (0, None))
        }
        Structure::DirectoryBlock => (golden!("directory_block"), data(golden!("directory_block"))),
        Structure::DirectoryData => (golden!("directory_data"), data(golden!("directory_data"))),
        Structure::DirectoryFreeIndex => {
            (golden!("directory_free_index"), data(golden!("directory_free_index")))
        }
        Structure::DirectoryLeaf => (golden!("directory_leaf"), tree(golden!("directory_leaf"))),
        Structure::DirectoryLeafNode => {
            (golden!("directory_leaf_node"), tree(golden!("directory_leaf_node")))
        }
        Structure::DirectoryNode => (golden!("directory_node"), tree(golden!("directory_node"))),
        Structure::AttributeLeaf => (golden!("attribute_leaf"), tree(golden!("attribute_leaf"))),
        Structure::AttributeNode => (golden!("attribute_node"), tree(golden!("attribute_node"))),
        Structure::AttributeRemoteValue => (golden!("attribute_remote"), remote(golden!("attribute_remote"))),
        other => panic!("no golden {other:?}"),
    };
    Golden { structure, bytes: bytes.to_vec(), sector: Sector::new(sector), checksum_offset }
}

/// Every structure with a golden example.
pub(crate) const ALL: [Structure; 11] = [
    Structure::DirectoryShortform,
    Structure::DirectoryBlock,
    Structure::DirectoryData,
    Structure::DirectoryLeaf,
    Structure::DirectoryLeafNode,
    Structure::DirectoryNode,
    Structure::DirectoryFreeIndex,
    Structure::AttributeShortform,
    Structure::AttributeLeaf,
    Structure::AttributeNode,
    Structure::AttributeRemoteValue,
];

impl Golden {
    /// Overwrites bytes.
    pub(crate) fn set(mut self, offset: usize, value: &[u8]) -> Self {
        self.bytes[offset..offset + value.len()].copy_from_slice(value);
        self
    }

    /// The verifier's result once the checksum is right again.
    pub(crate) fn verify(mut self) -> Result<(), Fault> {
        if let Some(offset) = self.checksum_offset {
            let size =
                if self.structure == Structure::AttributeRemoteValue { 1024 } else { self.bytes.len() };
            checksum::seal(&mut self.bytes[..size], offset);
        }
        self.verify_unsealed()
    }

    /// The verifier's result for the bytes as they are.
    pub(crate) fn verify_unsealed(&self) -> Result<(), Fault> {
        let geometry = geometry();
        let context = VerifyContext::new(&geometry, self.sector);
        verify::verify(self.structure, &self.bytes, &context)
    }
}

/// Changes bytes of the golden example, seals it again and gives what the verifier says.
pub(crate) fn patched(structure: Structure, patches: &[(usize, &[u8])]) -> Result<(), Fault> {
    let golden = patches.iter().fold(golden(structure), |golden, (offset, value)| golden.set(*offset, value));
    golden.verify()
}

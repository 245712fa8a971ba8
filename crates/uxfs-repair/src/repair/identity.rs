//! Whose a block of a file is, as its header says.

use uxfs_format::{
    fault::Structure,
    geometry::Geometry,
    units::{InodeNumber, Sector},
    verify::{VerifyContext, verify},
};

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

//! Making blocks of a directory or attribute btree, and changing the fields that all have: owner and siblings.

use zerocopy::big_endian::{U16, U32, U64};

use super::header::BlockHeader;
use crate::{
    checksum::Checksum,
    convert::low_u32,
    edit::Edit,
    field_table::OnDisk,
    geometry::Geometry,
    units::{FileBlock, InodeNumber, Sector, Uuid},
};

/// Where [`BlockHeader::forward`] lies.
const FORWARD_OFFSET_BYTES: usize = 0;
/// Where [`BlockHeader::backward`] lies.
const BACKWARD_OFFSET_BYTES: usize = 4;
/// Where [`BlockHeader::sector`] lies.
const SECTOR_OFFSET_BYTES: usize = 16;

/// Place and owner in the header of a block of a directory or of an attribute fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockIdentity {
    /// Where it begins on the device.
    pub sector: Sector,
    /// The inode that it belongs to.
    pub owner: InodeNumber,
    /// Uuid of the file system's metadata.
    pub uuid: Uuid,
}

impl BlockIdentity {
    /// Of a block at `sector` that belongs to `owner`.
    pub fn new(geometry: &Geometry, sector: Sector, owner: InodeNumber) -> Self {
        Self { sector, owner, uuid: geometry.metadata_uuid }
    }
}

impl BlockHeader {
    /// The header of a block without neighbours.
    pub fn new(magic: u16, identity: &BlockIdentity) -> Self {
        Self {
            forward: U32::new(0),
            backward: U32::new(0),
            magic: U16::new(magic),
            padding: U16::new(0),
            checksum: Checksum::default(),
            sector: U64::new(identity.sector.get()),
            lsn: U64::new(0),
            uuid: identity.uuid,
            owner: U64::new(identity.owner.get()),
        }
    }
}

/// A neighbour as a block stores it.
fn stored(block: Option<FileBlock>) -> U32 {
    U32::new(block.map_or(0, |block| low_u32(block.get())))
}

/// Says which block of this level comes next.
pub fn set_next(edit: &mut Edit<'_>, block: Option<FileBlock>) {
    edit.put_value(FORWARD_OFFSET_BYTES, &stored(block));
}

/// Says which block of this level comes before.
pub fn set_previous(edit: &mut Edit<'_>, block: Option<FileBlock>) {
    edit.put_value(BACKWARD_OFFSET_BYTES, &stored(block));
}

/// Makes a block the same as another of the same tree, `contents`, but for where it lies.
pub fn copy_block(edit: &mut Edit<'_>, contents: &[u8], sector: Sector) {
    edit.put(0, contents);
    edit.put_value(SECTOR_OFFSET_BYTES, &U64::new(sector.get()));
}

/// The next block and the one before.
pub fn neighbours(bytes: &[u8]) -> (Option<FileBlock>, Option<FileBlock>) {
    BlockHeader::prefix_of(bytes).map_or((None, None), |header| (header.next(), header.previous()))
}

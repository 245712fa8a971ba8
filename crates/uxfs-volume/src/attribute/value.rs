//! Values in blocks of their own.

use std::borrow::Cow;

use uxfs_format::{
    attribute::remote::{self, RemoteBlock},
    fault::Structure,
    units::{FileBlock, InodeNumber, Sector},
};

use super::{AttributeValue, reader::AttributeReader};
use crate::{
    error::{OperationError, Result},
    name_tree::ForkBlocks,
};

const STRUCTURE: Structure = Structure::AttributeRemoteValue;

impl AttributeReader<'_> {
    /// The value of an attribute of this inode, read where it lies.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn value<'v>(&self, value: &AttributeValue<'v>) -> Result<Cow<'v, [u8]>> {
        match (*value, self.blocks()) {
            (AttributeValue::Local(value), _) => Ok(Cow::Borrowed(value)),
            (AttributeValue::Remote { first_block, length_bytes }, Some(blocks)) => {
                read_remote(self.inode.number, blocks, first_block, length_bytes).map(Cow::Owned)
            }
            // Lists have no values elsewhere: it is another inode's.
            (AttributeValue::Remote { .. }, None) => Err(OperationError::NoSuchAttribute.into()),
        }
    }
}

/// Reads a value of `length_bytes`, which a verifier has found to be 64 KiB at most.
fn read_remote(
    inode: InodeNumber,
    blocks: &ForkBlocks<'_>,
    first_block: FileBlock,
    length_bytes: u32,
) -> Result<Vec<u8>> {
    let geometry = blocks.geometry();
    let count = remote::block_count(geometry, length_bytes);
    let pieces = blocks.pieces(STRUCTURE, first_block, count << geometry.block_log)?;
    let mut value = Vec::with_capacity(length_bytes as usize);
    let mut place = first_block;
    for (sector, piece_bytes) in pieces {
        let buffer = blocks.read_piece(STRUCTURE, place, sector, piece_bytes)?;
        for (index, block) in buffer.chunks(geometry.block_size()).enumerate() {
            // A block holds less than 64 KiB of the value: both fit.
            let offset_bytes = value.len() as u32;
            let part = RemoteBlock::parse(block, geometry).and_then(|remote| {
                remote.verify_place(
                    inode,
                    offset_bytes,
                    length_bytes.saturating_sub(offset_bytes),
                    geometry,
                )?;
                Ok(remote.part)
            });
            let sectors = index as u64 * u64::from(geometry.sectors_per_block());
            let sector = Sector::new(sector.get().saturating_add(sectors));
            value.extend_from_slice(
                part.map_err(|fault| blocks.corruption(STRUCTURE, place, Some(sector), fault))?,
            );
            place = place.checked_add(1).unwrap_or(place);
        }
    }
    Ok(value)
}

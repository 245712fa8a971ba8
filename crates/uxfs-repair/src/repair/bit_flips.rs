//! Structures of which one bit has changed: their checksum tells which.
//!
//! A checksum of 32 bits has another difference for each bit of a block. Where the difference is that of one bit, and the structure is
//! sound with that bit flipped back, that was the damage: any other has that difference once in four thousand million times for each
//! bit, and would not pass the verifier. This comes before all other witnesses, since nothing is inferred.

use std::collections::BTreeSet;

use uxfs_format::{
    attribute::{MAX_VALUE_BYTES, remote::block_count},
    checksum::flipped_bit,
    fault::Structure,
    geometry::Geometry,
    inode::{core, verify_inode},
    seal::{checksum_offset_of, structure_of},
    units::{InodeNumber, Sector},
    verify::{VerifyContext, verify},
};
use uxfs_volume::{error::Result, volume::Volume};

use super::{
    action::Action,
    identity::owner_of,
    log_copies::{DamagedBlock, is_in_one_piece, is_of_directory},
    stage::Stage,
};
use crate::inode::gather::{put_inode, read_inode};

/// Damage in which a bit may have changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Suspects {
    /// Blocks and headers, and whose they are.
    pub blocks: Vec<(Sector, Structure, Option<InodeNumber>)>,
    pub inodes: BTreeSet<InodeNumber>,
}

impl Suspects {
    /// Takes a damaged structure in.
    pub fn add(&mut self, structure: Structure, sector: Option<Sector>, inode: Option<InodeNumber>) {
        match (structure, sector, inode) {
            (Structure::Inode, _, Some(inode)) => _ = self.inodes.insert(inode),
            (structure, Some(sector), inode) => self.blocks.push((sector, structure, inode)),
            _ => {}
        }
    }
}

/// Flips bits back. Gives whether there were any.
///
/// # Errors
/// The device; temporary files.
pub(super) fn correct(
    volume: &Volume,
    stage: &Stage,
    suspects: &Suspects,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let before = actions.len();
    let geometry = stage.geometry();
    for (first, structure, inode) in &suspects.blocks {
        // Blocks of a value are read together: any of them may be the damaged one.
        let blocks = match structure {
            Structure::AttributeRemoteValue => u64::from(block_count(geometry, MAX_VALUE_BYTES)),
            _ => 1,
        };
        for block in 0..blocks {
            let sectors = block.saturating_mul(geometry.sectors_per_block().into());
            let Some(sector) = first.checked_add(sectors) else { break };
            if let Some(bit) = correct_block(volume, stage, (sector, *structure, *inode))? {
                let (structure, inode, sector) = (*structure, *inode, Some(sector));
                actions.push(Action::BitFlippedBack { structure, inode, sector, bit });
            }
        }
    }
    for inode in &suspects.inodes {
        if let Some(bit) = correct_inode(stage, *inode)? {
            let (structure, inode) = (Structure::Inode, Some(*inode));
            actions.push(Action::BitFlippedBack { structure, inode, sector: None, bit });
        }
    }
    Ok(actions.len() > before)
}

fn correct_block(
    volume: &Volume,
    stage: &Stage,
    (sector, structure, inode): (Sector, Structure, Option<InodeNumber>),
) -> Result<Option<usize>> {
    let geometry = stage.geometry();
    let (Some(checksum), Some(length_bytes)) = (checksum_place(structure), length_bytes(structure, geometry))
    else {
        return Ok(None);
    };
    if length_bytes > geometry.block_size() {
        let Some(inode) = inode else { return Ok(None) };
        if !is_in_one_piece(volume, &DamagedBlock { inode, sector, structure }, length_bytes) {
            return Ok(None);
        }
    }
    let mut bytes = vec![0; length_bytes];
    if stage.read_at(sector, &mut bytes).is_err() {
        return Ok(None);
    }
    let Some(bit) = flipped_bit(&bytes, checksum) else { return Ok(None) };
    flip(&mut bytes, bit);
    let context = VerifyContext::new(geometry, sector);
    let is_sound = structure_of(&bytes, geometry).is_some_and(|structure| {
        let owner = owner_of(structure, &bytes);
        owner == inode.map(InodeNumber::get) && verify(structure, &bytes, &context).is_ok()
    });
    if is_sound {
        stage.write_at(sector, &bytes)?;
    }
    Ok(is_sound.then_some(bit))
}

fn correct_inode(stage: &Stage, number: InodeNumber) -> Result<Option<usize>> {
    let mut bytes = read_inode(stage, number)?;
    let Some(bit) = flipped_bit(&bytes, core::CHECKSUM_OFFSET_BYTES) else { return Ok(None) };
    flip(&mut bytes, bit);
    if verify_inode(&bytes, number, stage.geometry()).is_err() {
        return Ok(None);
    }
    put_inode(stage, number, &bytes)?;
    Ok(Some(bit))
}

fn flip(bytes: &mut [u8], bit: usize) {
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 0x80 >> (bit % 8);
    }
}

/// Where the checksum of a structure lies. Of those that are told apart by their magic number alone, it lies in the same place.
fn checksum_place(structure: Structure) -> Option<u32> {
    let alike = match structure {
        Structure::DirectoryAnyData => Structure::DirectoryData,
        Structure::DirectoryAnyIndex => Structure::DirectoryNode,
        Structure::AttributeAnyIndex => Structure::AttributeNode,
        other => other,
    };
    checksum_offset_of(alike)
}

fn length_bytes(structure: Structure, geometry: &Geometry) -> Option<usize> {
    use Structure as S;
    Some(match structure {
        S::FreeSpaceHeader | S::InodeHeader | S::FreeList => geometry.sector_size_bytes as usize,
        S::Superblock | S::Inode | S::InodeCluster => return None,
        structure if is_of_directory(structure) => geometry.directory_block_size_bytes as usize,
        _ => geometry.block_size(),
    })
}

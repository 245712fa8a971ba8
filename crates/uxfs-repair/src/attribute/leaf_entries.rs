//! Entries of sound leaves that contradict what they lead to: the place of a value where none of its length begins, and the mark of a
//! parent pointer on a name with the hash of another attribute.
//!
//! They are corrected where they lie, before blocks are looked at: the block to which a wrong entry leads is not a damaged one.

use std::collections::BTreeSet;

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        leaf::{LeafAttribute, LeafBlock, LeafEntry, LeafValue},
        parent_pointer::ParentRecord,
    },
    checksum,
    directory::name_hash,
    fault::Structure,
    geometry::Geometry,
    inode::{Fork, ForkFormat},
    name_tree::header::CHECKSUM_OFFSET_BYTES,
    units::{FileBlock, InodeNumber, Sector},
    verify::{VerifyContext, verify},
};
use uxfs_volume::{error::Result, volume::Volume};

use super::{leaf, stored_values::StoredValues};
use crate::repair::{action::Action, stage::Stage};

/// Corrects entries of these inodes. Gives whether there were any.
///
/// # Errors
/// The device.
pub(crate) fn mend(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let before = actions.len();
    for inode in inodes {
        let Ok(found) = volume.inode(*inode) else { continue };
        let format = found.fork_format(Fork::Attribute);
        if !matches!(format, Some(ForkFormat::Extents | ForkFormat::Btree)) {
            continue;
        }
        let Some(values) = StoredValues::new(volume, stage, *inode) else { continue };
        for sector in values.leaves() {
            let mut bytes = vec![0; stage.geometry().block_size()];
            stage.read_at(*sector, &mut bytes)?;
            if mend_leaf(&mut bytes, *sector, &values, stage.geometry()) {
                stage.write_at(*sector, &bytes)?;
                let (structure, inode, sector) = (Structure::AttributeLeaf, *inode, *sector);
                actions.push(Action::BlockField { structure, inode, sector, removed: 0, guessed: 0 });
            }
        }
    }
    Ok(actions.len() > before)
}

/// The right value of a field of an entry.
enum Change {
    Place(FileBlock),
    NoParent,
}

fn mend_leaf(bytes: &mut [u8], sector: Sector, values: &StoredValues<'_>, geometry: &Geometry) -> bool {
    let Ok(sound) = LeafBlock::parse(bytes, geometry) else { return false };
    if verify(Structure::AttributeLeaf, bytes, &VerifyContext::new(geometry, sector)).is_err() {
        return false;
    }
    let wrong =
        sound.entries.iter().zip(sound.attributes()).enumerate().filter_map(|(index, (entry, attribute))| {
            Some((index, change_of(entry, &attribute.ok()?, values, geometry)?))
        });
    let mut wrong = wrong.collect::<Vec<_>>().into_iter();
    // Two that lack a value may lack that of the other.
    let (Some((index, change)), None) = (wrong.next(), wrong.next()) else { return false };
    let is_changed = match change {
        Change::Place(first_block) => leaf::set_value_place(bytes, index, first_block),
        Change::NoParent => leaf::clear_flags(bytes, index, AttributeFlags::PARENT),
    };
    if is_changed {
        checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
    }
    is_changed
}

fn change_of(
    entry: &LeafEntry,
    attribute: &LeafAttribute<'_>,
    values: &StoredValues<'_>,
    geometry: &Geometry,
) -> Option<Change> {
    match attribute.value {
        LeafValue::Local(value) => {
            let is_lie = attribute.flags.contains(AttributeFlags::PARENT)
                && ParentRecord::verify(value, geometry).is_err()
                && name_hash::hash(attribute.name) == entry.hash.get();
            is_lie.then_some(Change::NoParent)
        }
        LeafValue::Remote { first_block, length_bytes } => {
            let is_complete = !attribute.flags.contains(AttributeFlags::INCOMPLETE);
            if !is_complete || values.has_value(first_block, length_bytes) {
                return None;
            }
            values.lost_value(length_bytes).map(Change::Place)
        }
    }
}

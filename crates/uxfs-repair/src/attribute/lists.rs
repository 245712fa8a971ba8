//! Lists of attributes inside inodes: the one field that is wrong is corrected where it lies, so that no attribute is given up.

use std::collections::BTreeSet;

use uxfs_format::{
    attribute::shortform::{Shortform, ShortformHeader},
    fault::Structure,
    field_table::OnDisk,
    inode::{Fork, ForkFormat, InodeCore},
    units::{InodeNumber, SECTOR_SIZE_BYTES, Sector},
};
use uxfs_volume::error::Result;

use super::shortform;
use crate::{
    inode::gather::{byte_of, put_inode, read_inode},
    repair::{action::Action, stage::Stage},
};

/// Steps of the fork offset.
const FORK_UNIT_BYTES: usize = 8;

/// Makes empty attribute forks lists where one lies there: an inode with a name has a parent pointer. Gives whether there were any.
///
/// # Errors
/// The device.
pub(crate) fn find_hidden(
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let before = actions.len();
    for inode in inodes {
        let Some(start) = byte_of(stage.geometry(), *inode) else { continue };
        let mut bytes = read_inode(stage, *inode)?;
        let Some(core) = InodeCore::prefix_of(&bytes) else { continue };
        let is_empty = core.fork_format(Fork::Attribute) == Some(ForkFormat::Extents)
            && core.extent_count(Fork::Attribute) == 0
            && core.fork_offset > 0;
        let fork = InodeCore::SIZE_BYTES + usize::from(core.fork_offset) * FORK_UNIT_BYTES;
        let list = bytes.get(fork..).filter(|_| is_empty);
        let is_list = list.is_some_and(|list| {
            ShortformHeader::prefix_of(list).is_some_and(|header| header.count > 0)
                && Shortform::verify(list).is_ok()
        });
        if let Some(core) = InodeCore::prefix_of_mut(&mut bytes).filter(|_| is_list) {
            core.attribute_format = ForkFormat::Local.code();
            put_inode(stage, *inode, &bytes)?;
            let (structure, sector) = (Structure::AttributeShortform, Sector::new(start / SECTOR_SIZE_BYTES));
            actions.push(Action::BlockField { structure, inode: *inode, sector, removed: 0, guessed: 0 });
        }
    }
    Ok(actions.len() > before)
}

/// Corrects the lists of these inodes. Gives whether there were any to be corrected.
///
/// # Errors
/// The device.
pub(crate) fn mend(stage: &Stage, inodes: &BTreeSet<InodeNumber>, actions: &mut Vec<Action>) -> Result<bool> {
    let before = actions.len();
    for inode in inodes {
        let Some(start) = byte_of(stage.geometry(), *inode) else { continue };
        let mut bytes = read_inode(stage, *inode)?;
        let Some(core) = InodeCore::prefix_of(&bytes) else { continue };
        let is_list = core.fork_format(Fork::Attribute) == Some(ForkFormat::Local) && core.fork_offset > 0;
        let fork = InodeCore::SIZE_BYTES + usize::from(core.fork_offset) * FORK_UNIT_BYTES;
        let fork = bytes.get_mut(fork..).filter(|_| is_list);
        if fork.is_some_and(|fork| shortform::mend(fork, stage.geometry())) {
            put_inode(stage, *inode, &bytes)?;
            let (structure, sector) = (Structure::AttributeShortform, Sector::new(start / SECTOR_SIZE_BYTES));
            actions.push(Action::BlockField { structure, inode: *inode, sector, removed: 0, guessed: 0 });
        }
    }
    Ok(actions.len() > before)
}

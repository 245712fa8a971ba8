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
    change_each(stage, inodes, actions, |bytes, fork_start| {
        let Some((core, list)) = InodeCore::prefix_of(bytes).zip(bytes.get(fork_start..)) else {
            return false;
        };
        let is_empty = core.fork_format(Fork::Attribute) == Some(ForkFormat::Extents)
            && core.extent_count(Fork::Attribute) == 0;
        let is_list = ShortformHeader::prefix_of(list).is_some_and(|header| header.count > 0)
            && Shortform::verify(list).is_ok();
        if let Some(core) = InodeCore::prefix_of_mut(bytes).filter(|_| is_empty && is_list) {
            core.attribute_format = ForkFormat::Local.code();
            return true;
        }
        false
    })
}

/// Corrects the lists of these inodes. Gives whether there were any to be corrected.
///
/// # Errors
/// The device.
pub(crate) fn mend(stage: &Stage, inodes: &BTreeSet<InodeNumber>, actions: &mut Vec<Action>) -> Result<bool> {
    change_each(stage, inodes, actions, |bytes, fork_start| {
        let is_list = InodeCore::prefix_of(bytes)
            .is_some_and(|core| core.fork_format(Fork::Attribute) == Some(ForkFormat::Local));
        let list = bytes.get_mut(fork_start..).filter(|_| is_list);
        list.is_some_and(|list| shortform::mend(list, stage.geometry()))
    })
}

/// Writes those of these inodes that `change` changes. It gets the bytes of an inode and where its attribute fork starts in them. Gives
/// whether there were any.
fn change_each(
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
    change: impl Fn(&mut [u8], usize) -> bool,
) -> Result<bool> {
    let before = actions.len();
    for inode in inodes {
        let Some(start) = byte_of(stage.geometry(), *inode) else { continue };
        let mut bytes = read_inode(stage, *inode)?;
        let fork_offset = InodeCore::prefix_of(&bytes).map_or(0, |core| core.fork_offset);
        let fork_start = InodeCore::SIZE_BYTES + usize::from(fork_offset) * FORK_UNIT_BYTES;
        if fork_offset > 0 && change(&mut bytes, fork_start) {
            put_inode(stage, *inode, &bytes)?;
            let (structure, sector) = (Structure::AttributeShortform, Sector::new(start / SECTOR_SIZE_BYTES));
            actions.push(Action::BlockField { structure, inode: *inode, sector, removed: 0, guessed: 0 });
        }
    }
    Ok(actions.len() > before)
}

//! Extents that are counted in fields of the wrong width: the flag of the inode that says so contradicts what lies in it.
//!
//! Without the flag the count of one fork is read as that of the other one.

use std::collections::BTreeSet;

use uxfs_format::{
    checksum,
    inode::{InodeFault, core, verify_inode},
    units::InodeNumber,
};
use uxfs_volume::error::Result;

use crate::{
    inode::{
        gather::{put_inode, read_inode},
        told,
    },
    repair::{action::Action, stage::Stage},
};

/// Corrects the flag of inodes whose extents are all there with it. Gives whether there were any.
///
/// # Errors
/// The device.
pub(crate) fn mend(stage: &Stage, inodes: &BTreeSet<InodeNumber>, actions: &mut Vec<Action>) -> Result<bool> {
    let before = actions.len();
    for number in inodes {
        let bytes = read_inode(stage, *number)?;
        let Some(mut changed) = told::with_other_width(&bytes, stage.geometry()) else { continue };
        checksum::seal(&mut changed, core::CHECKSUM_OFFSET_BYTES);
        if verify_inode(&changed, *number, stage.geometry()).is_ok() {
            put_inode(stage, *number, &changed)?;
            actions.push(Action::InodeMended { inode: *number, fault: InodeFault::LargeCountsFlag });
        }
    }
    Ok(actions.len() > before)
}

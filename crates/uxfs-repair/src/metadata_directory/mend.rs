//! Inodes that belong to one of the two directory trees, by their flags, and that an entry of the other tree names.
//!
//! The flags follow the entry, unless another directory above the inode agrees with them: then the entry goes, with the other names.

use std::ops::ControlFlow;

use uxfs_format::{
    inode::{FileType, InodeFlags2},
    units::InodeNumber,
};
use uxfs_volume::{error::Result, inode::Inode, volume::Volume};

use super::{put_directory, put_named, take_out};
use crate::{
    inode::gather::change_core,
    repair::{action::Action, stage::Stage, work::Work},
};

/// Most parent pointers examined.
const MOST_POINTERS: usize = 1000;

/// Changes the flags of the inodes of `work`.
///
/// # Errors
/// The device.
pub(crate) fn mend(volume: &Volume, stage: &Stage, work: &Work, actions: &mut Vec<Action>) -> Result<()> {
    if let Some(inode) = work.metadata_root
        && volume.inode(inode).is_ok_and(|found| found.file_type() == Some(FileType::Directory))
    {
        change_core(stage, inode, |core, _| put_directory(core))?;
        actions.push(Action::MetadataFlags { inode, is_metadata: true });
    }
    let mut last = None;
    for (directory, name, inode) in &work.metadata_entries {
        let (Ok(above), Ok(found)) = (volume.inode(*directory), volume.inode(*inode)) else { continue };
        let is_metadata = is_of_tree(&above);
        if is_of_tree(&found) == is_metadata || last == Some(*inode) || has_directory(volume, &found) {
            continue;
        }
        let mut is_changed = true;
        change_core(stage, *inode, |core, _| match is_metadata {
            true => is_changed = put_named(core, name),
            false => take_out(core),
        })?;
        if is_changed {
            actions.push(Action::MetadataFlags { inode: *inode, is_metadata });
            last = Some(*inode);
        }
    }
    Ok(())
}

fn is_of_tree(inode: &Inode) -> bool {
    inode.flags2().contains(InodeFlags2::METADATA)
}

/// Whether `..` or a parent pointer of an inode names a directory of the tree that it belongs to.
fn has_directory(volume: &Volume, inode: &Inode) -> bool {
    let agrees = |directory: InodeNumber| {
        let found = volume.inode(directory).ok();
        found.is_some_and(|found| {
            found.file_type() == Some(FileType::Directory) && is_of_tree(&found) == is_of_tree(inode)
        })
    };
    let is_directory = inode.file_type() == Some(FileType::Directory);
    let above = is_directory.then(|| volume.lookup(inode, b"..").ok().flatten()).flatten();
    if above.is_some_and(|above| above.inode != inode.number && agrees(above.inode)) {
        return true;
    }
    let (mut is_any, mut asked) = (false, 0);
    let _ = volume.visit_parent_pointers(inode, |pointer| {
        is_any |= agrees(pointer.parent);
        asked += 1;
        Ok(if is_any || asked >= MOST_POINTERS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    is_any
}

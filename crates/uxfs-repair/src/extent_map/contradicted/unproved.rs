//! Extent maps of inodes that were kept although their checksum is wrong: where they are in the inode, nothing proves them. A reverse map
//! whose checksums are right is believed without a third witness.

use std::collections::BTreeSet;

use uxfs_format::{
    inode::{FileType, Fork, ForkFormat},
    units::InodeNumber,
};
use uxfs_volume::{
    error::Result,
    inode::{Inode, scan::ScanOptions},
    volume::Volume,
};

use crate::{
    extent_map::{
        check::{blocks_or_fault, count_blocks},
        rebuild::{Owned, gather, staged_inode, write_fork},
        spare::SpareBlocks,
    },
    inode::gather::{put_inode, read_inode},
    repair::{
        action::{Action, MapWitness},
        stage::Stage,
    },
};

/// Rebuilds forks of these inodes that the reverse map contradicts. Returns whether there were any.
///
/// # Errors
/// The device.
pub(super) fn follow(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    if inodes.is_empty() {
        return Ok(false);
    }
    let (before, spare) = (actions.len(), SpareBlocks::new(volume));
    let mut gathered = gather(volume, inodes);
    for number in inodes {
        for fork in [Fork::Data, Fork::Attribute] {
            let owned = gathered.forks.remove(&(*number, fork == Fork::Attribute)).unwrap_or_default();
            let Some(inode) = staged_inode(stage, *number)? else { continue };
            if !is_contradicted(volume, &inode, fork, &owned, gathered.is_complete) {
                continue;
            }
            let was = read_inode(stage, *number)?;
            let written = write_fork(&spare, stage, &inode, fork, owned, true)?;
            match (written, staged_inode(stage, *number)?) {
                (Some(written), Some(_)) => actions.push(Action::ExtentMapOverruled {
                    inode: *number,
                    fork,
                    extents: written.extents,
                    by: MapWitness::Checksum,
                }),
                _ => put_inode(stage, *number, &was)?,
            }
        }
    }
    Ok(actions.len() > before)
}

/// Whether the reverse map knows all blocks of a fork, and the inode says something else of them.
fn is_contradicted(volume: &Volume, inode: &Inode, fork: Fork, owned: &Owned, is_complete: bool) -> bool {
    let is_elsewhere = fork == Fork::Data && inode.is_realtime();
    let other = if fork == Fork::Data { Fork::Attribute } else { Fork::Data };
    let is_whole = || owned.blocks().saturating_add(count_blocks(volume, inode, other)) == inode.blocks();
    // A group that was rebuilt without the inode has no mappings for it.
    if owned.blocks() == 0 || is_elsewhere || !is_complete && !is_whole() {
        return false;
    }
    let (told, is_consistent) = owned.clone().union();
    if !is_consistent {
        return false;
    }
    match inode.fork_format(fork) {
        Some(ForkFormat::Extents | ForkFormat::Btree) => {
            if blocks_or_fault(volume, inode, fork, ScanOptions::in_order()).is_none() {
                return true;
            }
            let Ok(map) = volume.extent_map(inode, fork) else { return true };
            let mut mapped = Owned { extents: map.iter().collect(), btree_runs: Vec::new() };
            mapped.union().0 != told
        }
        Some(ForkFormat::Local) => {
            fork == Fork::Attribute || !inode.file_type().is_some_and(FileType::is_special)
        }
        _ => false,
    }
}

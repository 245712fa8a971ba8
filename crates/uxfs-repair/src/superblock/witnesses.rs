//! What other structures say of facts that a superblock alone names, and that a repair relies on from the first step on: where the log
//! lies, and which inodes are the roots of the directory trees.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    btree::reverse_map::Owner,
    geometry::Geometry,
    superblock::Superblock,
    units::{AgBlock, AgNumber, FsBlock, InodeNumber},
};
use uxfs_volume::{tolerant::search::read_group_superblock, volume::Volume};

use super::accepted::is_log_accepted;
use crate::{metadata_directory, reverse_map::read::visit_group};

/// Copies of the superblock that are asked.
const ASKED_COPIES: usize = 16;

/// The superblock in use with the place of the log that the reverse map knows, where that is another one.
pub(crate) fn log_place(volume: &Volume) -> Option<(Superblock, FsBlock, u32)> {
    let geometry = volume.geometry();
    let named = geometry.split_fs_block(geometry.log_start?)?;
    if !geometry.features.has_reverse_map() {
        return None;
    }
    let of_named = log_in_group(volume, named.0);
    if of_named == Some((named.1, geometry.log_blocks)) {
        return None;
    }
    let others = geometry.groups().filter(|group| *group != named.0);
    let found = of_named.map(|found| (named.0, found));
    let (group, (start, length_blocks)) =
        found.or_else(|| others.into_iter().find_map(|group| Some((group, log_in_group(volume, group)?))))?;
    let start = geometry.fs_block(group, start)?;
    let mut superblock = *volume.superblock();
    superblock.log_start.set(start.get());
    superblock.log_blocks.set(length_blocks);
    is_log_accepted(&superblock, volume.superblock()).then_some((superblock, start, length_blocks))
}

/// Start and length of the one run of a group that the log owns.
fn log_in_group(volume: &Volume, group: AgNumber) -> Option<(AgBlock, u32)> {
    let (mut found, mut runs) = (None, 0_u32);
    visit_group(volume, group, &mut |mapping| {
        if mapping.owner == Owner::Log {
            runs = runs.saturating_add(1);
            found = Some((mapping.start, mapping.length_blocks));
        }
    });
    found.filter(|_| runs == 1)
}

/// The superblock of group 0 with another root directory, where opening the volume has found that the inode that it names is none.
pub(crate) fn root_directory(volume: &Volume) -> Option<(Superblock, InodeNumber)> {
    let root = volume.geometry().root_inode;
    let mut superblock = read_group_superblock(volume.device().as_ref(), 0).ok()?;
    if superblock.root_inode.get() == root.get() {
        return None;
    }
    superblock.root_inode.set(root.get());
    Some((superblock, root))
}

/// The superblock of group 0 with another root of the metadata directory tree, where the inode that it names is none, and a copy names one
/// or mkfs.xfs has made one: behind the root directory. That place is taken as well where the superblock names no inode at all, as copies
/// do that Linux has never written: whatever lies there becomes the root.
pub(crate) fn metadata_root(volume: &Volume) -> Option<(Superblock, InodeNumber)> {
    let named = metadata_directory::root(volume)?;
    let geometry = volume.geometry();
    let device: &dyn BlockDevice = volume.device().as_ref();
    let is_root = |number: InodeNumber| {
        let found = volume.inode(number).ok().filter(|found| metadata_directory::is_directory(found));
        let above = found.and_then(|found| volume.lookup(&found, b"..").ok().flatten());
        above.is_some_and(|above| above.inode == number)
    };
    if is_root(named) {
        return None;
    }
    let copies = geometry.groups().skip(1).take(ASKED_COPIES).filter_map(|group| {
        let sector = geometry.sector_of_group_header(group, 0)?;
        let copy = read_group_superblock(device, Geometry::byte_of_sector(sector)).ok()?;
        Some(copy.metadata_directory_inode.get())
    });
    let usual = InodeNumber::new(geometry.root_inode.get().saturating_add(1));
    let mut candidates = copies.map(InodeNumber::new).chain([usual]).filter(|number| *number != named);
    let found = candidates.find(|number| is_root(*number));
    let found = found.or_else(|| geometry.inode_place(named).is_none().then_some(usual))?;
    let mut superblock = read_group_superblock(device, 0).ok()?;
    superblock.metadata_directory_inode.set(found.get());
    Some((superblock, found))
}

//! Inodes in use that nothing leads to, found by their magic wherever inodes can lie.
//!
//! Only where no repair came to a good end: a repair finds them itself.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    geometry::Geometry,
    inode::core::MAGIC,
    units::{AgBlock, AgInode, AgNumber, InodeNumber},
};
use uxfs_volume::{
    inode::{FileType, Inode, InodeFlags2, set::InodeSet},
    volume::Volume,
};

use crate::{
    run::Stop,
    target::Target,
    view::{View, inode_of},
    walk::{Start, Walker},
};

/// Where they go.
pub const LOST_AND_FOUND: &[u8] = b"lost+found";
/// Bytes that are searched at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// Directories on the way up from a stray one, at most.
const MOST_STEPS: usize = 4096;
/// Longest part of a name that is kept behind the inode number.
const MOST_NAME_BYTES: usize = 200;

/// Calls `visit` for each number at whose place before the byte `end` something looks like an inode.
///
/// # Errors
/// Those of `visit`.
pub fn search<E>(
    volume: &Volume,
    end: u64,
    mut visit: impl FnMut(InodeNumber) -> Result<(), E>,
) -> Result<(), E> {
    let geometry = volume.geometry();
    let device: &dyn BlockDevice = volume.device().as_ref();
    let block_bytes = u64::from(geometry.block_size_bytes);
    let blocks_at_once = (WINDOW_BYTES / block_bytes).max(1) as u32;
    let mut buffer = vec![0; blocks_at_once as usize * block_bytes as usize];
    // A superblock may claim more groups than lie on the device.
    let is_there = |group: &AgNumber| {
        let start = geometry.sector_of_group_block(*group, AgBlock::new(0));
        start.is_some_and(|sector| Geometry::byte_of_sector(sector) < end)
    };
    for group in geometry.groups().take_while(is_there) {
        let length_blocks = geometry.group_length_blocks(group).unwrap_or(0);
        for first in (0..length_blocks).step_by(blocks_at_once as usize) {
            let Some(sector) = geometry.sector_of_group_block(group, AgBlock::new(first)) else { continue };
            if Geometry::byte_of_sector(sector) >= end {
                break;
            }
            let count = blocks_at_once.min(length_blocks - first);
            let window = buffer.get_mut(..count as usize * block_bytes as usize).unwrap_or_default();
            if device.read(Geometry::byte_of_sector(sector), window).is_err() {
                continue;
            }
            let inodes_per_block = geometry.inodes_per_block();
            for (index, inode) in window.chunks_exact(geometry.inode_size()).enumerate() {
                if !inode.starts_with(&MAGIC.to_be_bytes()) {
                    continue;
                }
                let number = (u64::from(first) * u64::from(inodes_per_block)).saturating_add(index as u64);
                let Ok(number) = u32::try_from(number) else { continue };
                visit(geometry.inode_number(group, AgInode::new(number)))?;
            }
        }
    }
    Ok(())
}

/// Inodes that belong to the file system itself.
fn is_internal(volume: &Volume, inode: &Inode) -> bool {
    let internal = volume.superblock().internal_inodes();
    internal.contains(&inode.number.get()) || inode.flags2().contains(InodeFlags2::METADATA)
}

/// Takes all strays before the byte `end` of the device: first directories, with all that is in them, then files.
///
/// # Errors
/// The target cannot be written to, or the work was interrupted.
pub fn take<T: Target>(view: &View, walker: &mut Walker<'_, '_, T>, end: u64) -> Result<(), Stop> {
    let volume = &view.volume;
    let is_stray = |walker: &Walker<'_, '_, T>, number: InodeNumber| {
        let inode = inode_of(volume, number).ok().filter(|_| !walker.has(number))?;
        (inode.link_count() > 0 && !is_internal(volume, &inode)).then_some(inode)
    };
    let mut is_begun = false;
    search(volume, end, |number| {
        let Some(inode) = is_stray(walker, number) else { return Ok(()) };
        if inode.file_type() != Some(FileType::Directory) {
            return Ok(());
        }
        let top = top_of(view, inode, |parent| !walker.has(parent));
        begin(walker, &mut is_begun)?;
        let path = path_of(view, &top);
        walker.take_tree(&Start { inode: top.number, path })
    })?;
    search(volume, end, |number| {
        let Some(inode) = is_stray(walker, number) else { return Ok(()) };
        if inode.file_type() == Some(FileType::Directory) {
            return Ok(());
        }
        begin(walker, &mut is_begun)?;
        walker.take_stray(&inode, &path_of(view, &inode), "nothing leads to it")
    })?;
    if is_begun {
        walker.end_made_up()?;
        walker.end_made_up()?;
    }
    Ok(())
}

fn begin<T: Target>(walker: &mut Walker<'_, '_, T>, is_begun: &mut bool) -> Result<(), Stop> {
    if !std::mem::replace(is_begun, true) {
        walker.begin_made_up(b"")?;
        walker.begin_made_up(LOST_AND_FOUND)?;
    }
    Ok(())
}

/// The highest directory above a stray one that is stray itself.
fn top_of(view: &View, mut inode: Arc<Inode>, is_stray: impl Fn(InodeNumber) -> bool) -> Arc<Inode> {
    let mut seen = InodeSet::default();
    for _ in 0..MOST_STEPS {
        seen.insert(inode.number);
        let Ok(Some(above)) = view.volume.lookup(&inode, b"..") else { break };
        if !is_stray(above.inode) || seen.contains(above.inode) {
            break;
        }
        match view.inode(above.inode) {
            Ok(above) if above.file_type() == Some(FileType::Directory) => inode = above,
            _ => break,
        }
    }
    inode
}

/// `lost+found/INODE`, with the name behind it where a parent pointer knows it.
fn path_of(view: &View, inode: &Inode) -> Vec<u8> {
    let number = inode.number.get().to_string();
    let mut path = [LOST_AND_FOUND, b"/", number.as_bytes()].concat();
    let pointers = view.volume.parent_pointers(inode, 1);
    if let Some(pointer) = pointers.ok().and_then(|(pointers, _)| pointers.into_iter().next()) {
        path.push(b'.');
        path.extend_from_slice(pointer.name.get(..MOST_NAME_BYTES).unwrap_or(&pointer.name));
    }
    path
}

//! The owner of a block: from the reverse map, or from all extent maps where there is none.

use std::ops::ControlFlow;

use parking_lot::Mutex;
use uxfs_format::{
    btree::reverse_map::Owner,
    inode::Fork,
    units::{AgBlock, AgNumber, FsBlock, InodeNumber},
};
use uxfs_volume::{
    error::Result,
    inode::scan::{ScanEvent, ScanOptions},
    parent_pointer::paths::PathLimits,
    volume::Volume,
};

/// Most paths listed for a file.
const MOST_PATHS: usize = 8;
/// Most parent pointers followed to find them.
const MOST_STEPS: u64 = 10_000;

/// An owner of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockOwner {
    /// No owner.
    Free,
    /// Headers of the group.
    GroupHeaders,
    /// The log.
    Log,
    /// Btrees of free space and owners, and the free list.
    GroupBtrees,
    /// Inode btrees.
    InodeBtrees,
    /// Inodes.
    InodeChunk,
    /// The btree of reference counts.
    ReferenceCountBtree,
    /// Set aside for a copy on write.
    CowStaging,
    /// A file or directory.
    File {
        /// Which.
        inode: InodeNumber,
        /// Data or attributes.
        fork: Fork,
        /// Which block of the fork it is; `None` for a block of the extent map.
        file_block: Option<u64>,
        /// Preallocated: reads as zeros.
        is_unwritten: bool,
    },
    /// It is in use, and nothing that could be read has it.
    Unknown,
}

impl BlockOwner {
    /// One word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::GroupHeaders => "group_headers",
            Self::Log => "log",
            Self::GroupBtrees => "group_btrees",
            Self::InodeBtrees => "inode_btrees",
            Self::InodeChunk => "inode_chunk",
            Self::ReferenceCountBtree => "reference_count_btree",
            Self::CowStaging => "cow_staging",
            Self::File { .. } => "file",
            Self::Unknown => "unknown",
        }
    }

    /// In words, without the paths of a file.
    pub fn words(self) -> String {
        match self {
            Self::Free => "free".to_owned(),
            Self::GroupHeaders => "headers of the group".to_owned(),
            Self::Log => "the log".to_owned(),
            Self::GroupBtrees => "btrees of free space and owners, or their free list".to_owned(),
            Self::InodeBtrees => "btrees of inodes".to_owned(),
            Self::InodeChunk => "inodes".to_owned(),
            Self::ReferenceCountBtree => "the btree of reference counts".to_owned(),
            Self::CowStaging => "set aside for a copy on write".to_owned(),
            Self::File { inode, fork, file_block, is_unwritten } => {
                let what = match (fork, file_block) {
                    (_, None) => "extent map".to_owned(),
                    (Fork::Attribute, Some(block)) => format!("attributes, block {block}"),
                    (_, Some(block)) if is_unwritten => format!("block {block}, never written"),
                    (_, Some(block)) => format!("block {block}"),
                };
                format!("inode {inode}, {what}")
            }
            Self::Unknown => "in use, by nothing that could be read".to_owned(),
        }
    }

    fn of_mapping(owner: Owner) -> Self {
        match owner {
            Owner::GroupHeaders => Self::GroupHeaders,
            Owner::Log => Self::Log,
            Owner::GroupBtrees => Self::GroupBtrees,
            Owner::InodeBtrees => Self::InodeBtrees,
            Owner::InodeChunks => Self::InodeChunk,
            Owner::ReferenceCountBtree => Self::ReferenceCountBtree,
            Owner::CowStaging => Self::CowStaging,
            Owner::Inode(_) | Owner::Other(_) => Self::Unknown,
        }
    }
}

/// All owners of a block: several where files share it.
///
/// # Errors
/// The btrees of its group are damaged; the device.
pub(crate) fn owners_of(volume: &Volume, group: AgNumber, block: AgBlock) -> Result<Vec<BlockOwner>> {
    if unless_tolerant(volume, is_free(volume, group, block))?.unwrap_or(false) {
        return Ok(vec![BlockOwner::Free]);
    }
    let by_reverse_map = match volume.geometry().features.has_reverse_map() {
        true => unless_tolerant(volume, owners_by_reverse_map(volume, group, block))?,
        false => None,
    };
    let mut owners = match by_reverse_map {
        Some(owners) => owners,
        None => owners_by_their_maps(volume, group, block)?,
    };
    if owners.is_empty() {
        owners.push(BlockOwner::Unknown);
    }
    Ok(owners)
}

/// The result; nothing where it is an error and the volume is open despite damage.
fn unless_tolerant<T>(volume: &Volume, result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(_) if volume.findings().is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_free(volume: &Volume, group: AgNumber, block: AgBlock) -> Result<bool> {
    for extent in volume.group(group).free_extents()? {
        let extent = extent?;
        if extent.start > block {
            break;
        }
        if block.get() - extent.start.get() < extent.length_blocks {
            return Ok(true);
        }
    }
    Ok(false)
}

fn owners_by_reverse_map(volume: &Volume, group: AgNumber, block: AgBlock) -> Result<Vec<BlockOwner>> {
    let mut owners = Vec::new();
    for mapping in volume.group(group).reverse_mappings()? {
        let mapping = mapping?;
        if mapping.start > block {
            break;
        }
        let offset = block.get() - mapping.start.get();
        if offset >= mapping.length_blocks {
            continue;
        }
        owners.push(match mapping.owner {
            Owner::Inode(inode) => BlockOwner::File {
                inode,
                fork: if mapping.is_attribute_fork { Fork::Attribute } else { Fork::Data },
                file_block: (!mapping.is_extent_map_block)
                    .then(|| mapping.file_block.get() + u64::from(offset)),
                is_unwritten: mapping.is_unwritten,
            },
            owner => BlockOwner::of_mapping(owner),
        });
    }
    Ok(owners)
}

fn is_in_inode_chunk(volume: &Volume, group: AgNumber, block: AgBlock) -> Result<bool> {
    let geometry = volume.geometry();
    for chunk in volume.group(group).inode_chunks()? {
        let first = chunk?.start.get() / geometry.inodes_per_block().max(1);
        let offset = block.get().checked_sub(first);
        if offset.is_some_and(|offset| offset < geometry.blocks_per_inode_chunk()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The owners of a block that is not free, without a reverse map or behind damage: all inodes are asked.
fn owners_by_their_maps(volume: &Volume, group: AgNumber, block: AgBlock) -> Result<Vec<BlockOwner>> {
    let geometry = volume.geometry();
    if block.get() < geometry.group_header_blocks() {
        return Ok(vec![BlockOwner::GroupHeaders]);
    }
    let Some(place) = geometry.fs_block(group, block) else { return Ok(Vec::new()) };
    let is_in_log = geometry
        .log_start
        .and_then(|start| place.get().checked_sub(start.get()))
        .is_some_and(|offset| offset < geometry.log_blocks.into());
    if is_in_log {
        return Ok(vec![BlockOwner::Log]);
    }
    let free_list = unless_tolerant(volume, volume.group(group).free_list())?;
    if free_list.is_some_and(|list| list.contains(&block)) {
        return Ok(vec![BlockOwner::GroupBtrees]);
    }
    if unless_tolerant(volume, is_in_inode_chunk(volume, group, block))?.unwrap_or(false) {
        return Ok(vec![BlockOwner::InodeChunk]);
    }
    let found = Mutex::new(Vec::new());
    volume.scan_inodes(
        &ScanOptions::default(),
        || (),
        |(), event| {
            if let ScanEvent::Inode(inode) = event
                && inode.core.is_ok()
            {
                found.lock().extend(in_maps_of(volume, inode.number, place));
            }
            ControlFlow::Continue(())
        },
    );
    Ok(found.into_inner())
}

/// Where the maps of an inode have a block.
fn in_maps_of(volume: &Volume, number: InodeNumber, block: FsBlock) -> Vec<BlockOwner> {
    let Ok(inode) = volume.inode_from_outside(number) else { return Vec::new() };
    let mut owners = Vec::new();
    for fork in [Fork::Data, Fork::Attribute] {
        let Some(map) = inode.has_extents(fork).then(|| volume.extent_map(&inode, fork).ok()).flatten()
        else {
            continue;
        };
        for extent in map.iter() {
            let Some(offset) = block.get().checked_sub(extent.start.get()) else { continue };
            if offset < extent.length_blocks {
                owners.push(BlockOwner::File {
                    inode: number,
                    fork,
                    file_block: Some(extent.file_block.get() + offset),
                    is_unwritten: extent.is_unwritten,
                });
            }
        }
    }
    owners
}

/// Paths that lead to an inode, by its parent pointers; none where it has none.
pub(crate) fn paths_of(volume: &Volume, inode: InodeNumber) -> Vec<Vec<u8>> {
    let limits = PathLimits { paths: MOST_PATHS, steps: MOST_STEPS, ..PathLimits::default() };
    let found = volume.inode_from_outside(inode).and_then(|inode| volume.paths_of(&inode, &limits));
    found.map(|found| found.paths).unwrap_or_default()
}

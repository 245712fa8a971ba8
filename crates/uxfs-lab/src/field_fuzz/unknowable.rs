//! Other files that an edit of a damaged image may change, because nothing short of a scan of all inodes could see the lie.
//!
//! There is one such lie: without a reverse map, an extent of an inode that lies over the blocks of another file. Free space, the
//! inode index, the headers of groups and the reference counts do not know whose these blocks are.

use std::{collections::HashSet, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery;
use uxfs_format::{inode::Fork, units::InodeNumber};
use uxfs_testkit::structures::Owner;
use uxfs_volume::{error::Result, volume::Volume};

const CACHE_BYTES: u64 = 16 << 20;

/// Blocks on the device, first and end, with the inode that they belong to.
type OwnedBlocks = (u64, u64, u64);

/// The blocks of all files of a sound image.
#[derive(Debug, Default)]
pub struct FileBlocks {
    /// By first block; empty where the image has a reverse map.
    blocks: Vec<OwnedBlocks>,
}

impl FileBlocks {
    /// Of a sound image without a reverse map, whose files have these numbers.
    ///
    /// # Errors
    /// It is not sound.
    pub fn of(device: &Arc<dyn BlockDevice>, inodes: impl Iterator<Item = u64>) -> Result<Self> {
        let volume = open(device)?;
        let mut blocks = Vec::new();
        if !volume.geometry().features.has_reverse_map() {
            let inodes: HashSet<u64> = inodes.collect();
            for inode in inodes {
                blocks.extend(blocks_of(&volume, inode)?);
            }
            blocks.sort_unstable();
        }
        Ok(Self { blocks })
    }

    /// The inodes whose blocks the extents of a damaged inode lie over.
    pub fn below(&self, damaged: &Arc<dyn BlockDevice>, owner: Owner) -> HashSet<u64> {
        let (false, Owner::Inode(liar)) = (self.blocks.is_empty(), owner) else { return HashSet::new() };
        let Ok(lies) = open(damaged).and_then(|volume| blocks_of(&volume, liar)) else {
            return HashSet::new();
        };
        let is_below = |(start, end, inode): &&OwnedBlocks| {
            *inode != liar && lies.iter().any(|(lie_start, lie_end, _)| lie_start < end && start < lie_end)
        };
        self.blocks.iter().filter(is_below).map(|(_, _, inode)| *inode).collect()
    }
}

fn open(device: &Arc<dyn BlockDevice>) -> Result<Volume> {
    let options = MountOptions { cache_budget_bytes: Some(CACHE_BYTES), ..MountOptions::default() };
    recovery::mount_recovered(device, &options).map(|(volume, _)| volume)
}

fn blocks_of(volume: &Volume, number: u64) -> Result<Vec<OwnedBlocks>> {
    let inode = volume.inode(InodeNumber::new(number))?;
    let mut blocks = Vec::new();
    for fork in [Fork::Data, Fork::Attribute] {
        let map = volume.extent_map(&inode, fork)?;
        blocks.extend(map.iter().map(|extent| {
            let start = extent.start.get();
            (start, start + extent.length_blocks, number)
        }));
    }
    Ok(blocks)
}

//! Inodes are compared with their index before they are given to new files, and before the blocks of their chunk become free.
//!
//! A free mask that lies would have a new file written over the inode of another, or the inode's blocks freed. So all inodes of
//! the chunk that are said to be free are looked at: those that are not are damage, and nothing has changed. The clusters are
//! read in any case when the new inodes are stored. Inodes of a cluster that fails its verifier are passed over: none of them
//! could be stored. A record may also lie about the place of a chunk: the owner of its blocks is
//! compared ([`ownership`](crate::allocation_group::ownership)).

use uxfs_format::{
    btree::inode_index::InodeChunk,
    fault::{Corruption, Location, Structure},
    field_table::OnDisk,
    inode::{InodeCore, InodeFault},
    units::{AgBlock, AgInode},
};

use super::current::ComparedChunk;
use crate::transaction::GroupEdit;
use uxfs_volume::error::{Error, OperationError, Result};

/// Clusters that fail their verifier while inodes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DamagedClusters {
    Skip,
    Refuse,
}

impl GroupEdit<'_, '_> {
    /// Makes sure that the inodes of a chunk which its record says are free are so where they lie. Gives a bit for each of them that
    /// cannot be used, because its cluster is damaged.
    ///
    /// # Errors
    /// One is in use; the device.
    #[doc(alias = "xfs_iget_check_free_state")]
    pub(super) fn require_unused(&mut self, chunk: &InodeChunk) -> Result<u64> {
        if let Some(compared) = self.state.compared_chunk.filter(|compared| compared.start == chunk.start) {
            return Ok(compared.unreadable);
        }
        let unreadable = self.compare_unused(chunk, DamagedClusters::Skip)?;
        self.state.compared_chunk = Some(ComparedChunk { start: chunk.start, unreadable });
        Ok(unreadable)
    }

    /// Makes sure that no inode of a chunk without inodes in use is in use where it lies.
    ///
    /// # Errors
    /// One is, or cannot be read; the device.
    pub(super) fn require_empty_chunk(&mut self, chunk: &InodeChunk) -> Result<()> {
        self.compare_unused(chunk, DamagedClusters::Refuse).map(drop)
    }

    fn compare_unused(&mut self, chunk: &InodeChunk, damaged: DamagedClusters) -> Result<u64> {
        for (start, length_blocks) in chunk.blocks(self.volume.geometry()) {
            self.owners().require_inodes(start, length_blocks)?;
        }
        let (mut left, mut unreadable) = (chunk.existing() & !chunk.allocated(), 0);
        while left != 0 {
            let (first, count, is_readable) = self.require_unused_in_cluster(chunk, left, damaged)?;
            let behind = u64::MAX.checked_shl(first.saturating_add(count)).unwrap_or(0);
            if !is_readable {
                unreadable |= left & !behind;
            }
            left &= behind;
        }
        Ok(unreadable)
    }

    /// Looks at the cluster that holds the first of some inodes of a chunk. Gives the index in the chunk of the cluster's first
    /// inode, how many inodes it holds, and whether it passes its verifier.
    fn require_unused_in_cluster(
        &self,
        chunk: &InodeChunk,
        free: u64,
        damaged: DamagedClusters,
    ) -> Result<(u32, u32, bool)> {
        let (geometry, group) = (self.volume.geometry(), self.state.group());
        let missing = || Error::from(OperationError::NoSuchInode);
        let wanted = chunk.inode(free.trailing_zeros());
        let block = AgBlock::new(wanted.get() >> geometry.inodes_per_block_log);
        let (start, blocks) = geometry.inode_cluster_of(group, block).ok_or_else(missing)?;
        let sector = geometry.sector_of_group_block(group, start).ok_or_else(missing)?;
        let first = start.get() << geometry.inodes_per_block_log;
        let count = blocks << geometry.inodes_per_block_log;
        let index = first.saturating_sub(chunk.start.get());
        let skipped = chunk.start.get().saturating_sub(first);
        let held = count.saturating_sub(skipped).max(1);
        let read = self.volume.metadata().read(Structure::InodeCluster, sector, blocks << geometry.block_log);
        let buffer = match read {
            Ok(buffer) => buffer,
            Err(Error::Corrupt(_)) if damaged == DamagedClusters::Skip => return Ok((index, held, false)),
            Err(error) => return Err(error),
        };
        let inodes = (first..).zip(buffer.chunks_exact(geometry.inode_size().max(1)));
        for (inode, bytes) in inodes {
            let is_free_in = |index: u32| free.checked_shr(index).is_some_and(|bits| bits & 1 == 1);
            let index = inode.checked_sub(chunk.start.get());
            let mode = InodeCore::prefix_of(bytes).map_or(0, |core| core.mode.get());
            if mode != 0 && index.is_some_and(is_free_in) {
                let number = geometry.inode_number(group, AgInode::new(inode));
                let location = Location { sector: Some(sector), ..Location::of_inode(number) };
                let fault = InodeFault::InUseThoughFree { mode };
                return Err(Corruption::new(Structure::Inode, location, fault).into());
            }
        }
        Ok((index, held, true))
    }
}

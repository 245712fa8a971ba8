//! Damaged inodes that only a walk over all chunks has found: no finding named them, so that their checksums were not asked yet.

use uxfs_format::{btree::inode_index::InodeChunk, fault::Structure, units::AgNumber};
use uxfs_volume::error::Result;

use super::Gathering;
use crate::{
    inode::gather::{Found, FoundInode, visit_inode},
    repair::bit_flips::Asked,
};

impl Gathering<'_> {
    /// The inode as it was, where its checksum proves it; else as it is.
    pub(super) fn proved(
        &mut self,
        group: AgNumber,
        chunk: &InodeChunk,
        inode: FoundInode,
    ) -> Result<FoundInode> {
        if !matches!(inode.found, Found::Damaged(_) | Found::WithoutChecksum(_)) {
            return Ok(inode);
        }
        let Some(before) = self.bit_flips.correct_inode(self.stage, inode.number, Asked::Proof)? else {
            return Ok(inode);
        };
        self.actions.push(before.action(Structure::Inode, Some(inode.number), None));
        Ok(visit_inode(self.volume, group, chunk, inode.index))
    }}

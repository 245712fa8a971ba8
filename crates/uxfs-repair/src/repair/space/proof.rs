//! Inodes with a wrong checksum, of which some only a walk over all chunks has found: no finding named those, so that their checksums were not
//! asked yet.

use uxfs_format::{
    btree::inode_index::InodeChunk,
    fault::Structure,
    units::{AgNumber, Lsn},
};
use uxfs_volume::{error::Result, inode::Inode};

use super::{Chunk, Gathering};
use crate::{
    inode::gather::{Found, FoundInode, put_inode, read_inode, visit_inode},
    repair::{
        action::{Action, InodeSource},
        bit_flips::Asked,
    },
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
    }
    /// Decides about an inode in use that is sound but for its checksum.
    pub(super) fn without_checksum(
        &mut self,
        chunk: &mut Chunk<'_>,
        index: u32,
        inode: &Inode,
    ) -> Result<()> {
        let number = inode.number;
        // What the log has is known to be right, unless the disk has something newer.
        let disk = Lsn::new(inode.core.lsn.get());
        let is_logged = self.witnesses.copy(number).is_some_and(|copy| copy.lsn >= disk);
        let before = read_inode(self.stage, number)?;
        let made = if is_logged { self.rebuilder().rebuild(number)? } else { None };
        // The reverse map says more of the extents than an inode with a wrong checksum.
        let has_map = self.witnesses.has_whole_reverse_map();
        let is_known =
            |source| source == InodeSource::Log || has_map && source == InodeSource::LogAndReverseMap;
        if let Some((inode, source)) = made.filter(|(_, source)| is_known(*source)) {
            self.actions.push(Action::InodeRebuilt { inode: number, source, fault: None });
            return self.keep(chunk, index, &inode);
        }
        put_inode(self.stage, number, &before)?;
        self.actions.push(Action::InodeChecksum { inode: number });
        self.unproved.insert(number);
        self.keep(chunk, index, inode)
    }
}

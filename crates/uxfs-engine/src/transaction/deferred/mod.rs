//! Work that comes after what an operation did itself, in an order that keeps every step sound.
//!
//! An operation changes an inode's extents at once, and defers the changes elsewhere that follow: the owners of the
//! blocks, their reference counts, their return to the free space. The steps follow each other in the transaction, and so are in one
//! checkpoint with what they follow from. Where there is more than one transaction may log, and always in immediate mode,
//! the transaction ends between two steps under intents for what is left to do, and goes on in the next.
//!
//! | module | holds |
//! |---|---|
//! | [`queue`] | which work comes next |
//! | [`run`] | doing it |
//! | [`attribute`] | parent pointers and other attributes |
//! | [`attribute_change`] | the change of an attribute as deferred work |
//! | [`intent`] | work as the log's intents say it |
//! | `log_intents` | intents in the log for what is left to do |
//!
//! Rules:
//! 1. Work is done in the order in which it was deferred. What comes up while a step is done is done before older work:
//!    so a chain (an extent loses its owner, then a reference, then it is free) ends before the next begins.
//! 2. An owner loses blocks before they become free: an intent to free names no owner, and must find none at replay.
//! 3. A step is work of one kind, sorted by group, so that groups are locked in ascending order; work on an inode is a
//!    step of its own. Groups that are held from before are given back if the step locks one below them.
//! 4. Blocks that a step frees may be allocated again in the same transaction in bulk mode, where nothing on the device
//!    counts before the end. In logged mode they lose their owner, and an intent to free them goes into the checkpoint; they
//!    come back among the free ones after it is stable. So no block is written to while a crash would give it back to its owner.
//! 5. Intents hold the log's tail until their work is done. Between two transactions those that lie far behind the head are
//!    ended and logged anew, and blocks that earlier transactions freed are put back: however many transactions the work
//!    takes, the log does not fill up with it.
//! 6. An intent is of one step. One of several steps, which Linux left, is replaced before any of it is done: a crash would
//!    have what was done of it done twice.

pub mod attribute;
pub mod attribute_change;
pub mod intent;
mod log_intents;
pub mod queue;
mod run;

use uxfs_format::{
    btree::{
        extent_map::Extent,
        reverse_map::{Mapping, Owner},
    },
    fault::{Corruption, Fault, Location, Structure},
    geometry::Geometry,
    inode::{Fork, InodeFlags2},
    log::{
        extent_map::ExtentMapOperation, reference_count::ReferenceCountOperation,
        reverse_map::ReverseMapOperation,
    },
    units::{AgBlock, AgNumber, FileBlock, FsBlock, InodeNumber},
};

pub use self::queue::FreedOwner;
use self::queue::Work;
use super::Transaction;
use crate::inode::edit::EditInode;
use uxfs_volume::error::{OperationError, Result};

impl Transaction<'_> {
    /// An extent has become part of a fork.
    ///
    /// # Errors
    /// It does not lie within one group.
    #[inline]
    pub fn defer_map(&mut self, inode: &EditInode, fork: Fork, extent: &Extent) -> Result<()> {
        let operations = [ReverseMapOperation::Map, ReverseMapOperation::MapShared];
        self.defer_owner(operations, inode, fork, extent)
    }

    /// An extent, as it says, is no longer part of a fork.
    ///
    /// # Errors
    /// It does not lie within one group.
    pub fn defer_unmap(&mut self, inode: &EditInode, fork: Fork, extent: &Extent) -> Result<()> {
        let operations = [ReverseMapOperation::Unmap, ReverseMapOperation::UnmapShared];
        self.defer_owner(operations, inode, fork, extent)
    }

    /// An extent has become written or unwritten: what it says now.
    ///
    /// # Errors
    /// It does not lie within one group.
    pub fn defer_convert(&mut self, inode: &EditInode, fork: Fork, extent: &Extent) -> Result<()> {
        let operations = [ReverseMapOperation::Convert, ReverseMapOperation::ConvertShared];
        self.defer_owner(operations, inode, fork, extent)
    }

    /// Blocks without an owner become free.
    ///
    /// # Errors
    /// They do not lie within one group.
    pub fn defer_free(&mut self, start: FsBlock, length_blocks: u64) -> Result<()> {
        self.defer_free_of(start, length_blocks, FreedOwner::NoOwner)
    }

    /// Blocks are taken from their owner and become free.
    ///
    /// # Errors
    /// They do not lie within one group.
    pub fn defer_free_of(&mut self, start: FsBlock, length_blocks: u64, owner: FreedOwner) -> Result<()> {
        let (group, start, length_blocks) = place_of(self.engine.geometry(), start, length_blocks)?;
        self.deferred.push(Work::Free { group, start, length_blocks, owner });
        Ok(())
    }

    /// A mapping comes into a fork, or goes, while its blocks stay in use. The work loads the inode and stores it: a
    /// caller that holds the inode stores it before, and loads it again afterwards.
    ///
    /// # Errors
    /// The extent does not lie within one group.
    #[doc(alias = "xfs_bmap_map_extent")]
    pub fn defer_extent_map(
        &mut self,
        operation: ExtentMapOperation,
        inode: InodeNumber,
        fork: Fork,
        extent: &Extent,
    ) -> Result<()> {
        place_of(self.engine.geometry(), extent.start, extent.length_blocks)?;
        self.deferred.push(Work::ExtentMap { operation, inode, fork, extent: *extent });
        Ok(())
    }

    /// Blocks have one owner less; those that have none then become free. Where files cannot share blocks there is
    /// no count, and they become free.
    ///
    /// # Errors
    /// They do not lie within one group.
    pub fn defer_decrease(&mut self, start: FsBlock, length_blocks: u64) -> Result<()> {
        if !self.engine.geometry().features.has_reflink() {
            return self.defer_free(start, length_blocks);
        }
        // Their last owner may write to them in place, and this owner may be back after a crash.
        self.note_moved_contents(start, length_blocks);
        self.defer_reference_count(ReferenceCountOperation::Decrease, start, length_blocks)
    }

    /// Blocks get one owner more or less, or are set aside for a copy-on-write or no longer. Nothing where files cannot
    /// share blocks.
    ///
    /// # Errors
    /// They do not lie within one group.
    pub fn defer_reference_count(
        &mut self,
        operation: ReferenceCountOperation,
        start: FsBlock,
        length_blocks: u64,
    ) -> Result<()> {
        let (group, start, length_blocks) = place_of(self.engine.geometry(), start, length_blocks)?;
        if !self.engine.geometry().features.has_reflink() {
            return Ok(());
        }
        let references = Work::References { operation, group, start, length_blocks };
        let staging = |operation| Work::Owners {
            operation,
            group,
            mapping: Mapping::of_group(start, length_blocks, Owner::CowStaging),
        };
        let has_owners = self.engine.geometry().features.has_reverse_map();
        // Blocks that are set aside have the staging owner just as long.
        if has_owners && operation == ReferenceCountOperation::FreeCow {
            self.deferred.push(staging(ReverseMapOperation::Free));
        }
        self.deferred.push(references);
        if has_owners && operation == ReferenceCountOperation::AllocateCow {
            self.deferred.push(staging(ReverseMapOperation::Allocate));
        }
        Ok(())
    }

    /// Defers the first of two operations, or the second where other files may share the blocks.
    #[inline]
    fn defer_owner(
        &mut self,
        [exclusive, shared]: [ReverseMapOperation; 2],
        inode: &EditInode,
        fork: Fork,
        extent: &Extent,
    ) -> Result<()> {
        let (group, mapping) = mapping_of(self.engine.geometry(), inode, fork, extent)?;
        if self.engine.geometry().features.has_reverse_map() {
            let may_share = fork == Fork::Data && inode.core.flags2().contains(InodeFlags2::REFLINK);
            let operation = if may_share { shared } else { exclusive };
            self.deferred.push(Work::Owners { operation, group, mapping });
        }
        Ok(())
    }
}

/// The reverse-map record of an extent of a fork, and its group.
#[inline]
pub(crate) fn mapping_of(
    geometry: &Geometry,
    inode: &EditInode,
    fork: Fork,
    extent: &Extent,
) -> Result<(AgNumber, Mapping)> {
    let (group, start, length_blocks) = place_of(geometry, extent.start, extent.length_blocks)?;
    let mapping = Mapping {
        start,
        length_blocks,
        owner: Owner::Inode(inode.number),
        file_block: extent.file_block,
        is_attribute_fork: fork == Fork::Attribute,
        is_extent_map_block: false,
        is_unwritten: extent.is_unwritten,
    };
    Ok((group, mapping))
}

/// The group, the block in it and the length of an extent that must lie within one group.
#[inline]
fn place_of(geometry: &Geometry, start: FsBlock, length_blocks: u64) -> Result<(AgNumber, AgBlock, u32)> {
    let extent = Extent { file_block: FileBlock::new(0), start, length_blocks, is_unwritten: false };
    let place = extent
        .verify_place(geometry)
        .map_err(|fault| Corruption::new(Structure::ExtentMap, Location::default(), Fault::from(fault)));
    place?;
    let (group, in_group) = geometry.split_fs_block(start).ok_or(OperationError::NoSuchGroup)?;
    let length_blocks = u32::try_from(length_blocks).map_err(|_| OperationError::NoSuchGroup)?;
    Ok((group, in_group, length_blocks))
}

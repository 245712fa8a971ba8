//! Pending reverse-map records, which are inserted together.
//!
//! The tree is not read from the device before the image is closed or a checkpoint is switched. So new records of unshared
//! blocks wait in memory, under the group's lock, until there are some of them: then one cursor inserts them all, in the order
//! of the tree, and mostly within one leaf. [`GroupEdit::flush_reverse_map`] inserts them before the tree is searched for
//! records of files, before a checkpoint switch, and before the file system is closed;
//! [`ownership`](crate::allocation_group::ownership) compares them as well as the tree. Records of metadata, extent map blocks
//! included, are never pending and never join with those of a file's contents.

use uxfs_format::btree::reverse_map::{Mapping, Owner, ReverseMap};

use super::{change::continues, edit::Ascending};
use crate::allocation_group::group_edit::GroupEdit;
use uxfs_volume::error::Result;

/// Most pending records. A leaf of 4 KiB has room for 168.
const MOST_WAITING: usize = 128;

/// Pending records of a group.
#[derive(Debug, Default)]
pub struct PendingReverseMap {
    mappings: Vec<Mapping>,
}

impl PendingReverseMap {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// The owner of the first mapping that is wanted.
    pub fn find(&self, is_wanted: impl Fn(&Mapping) -> bool) -> Option<Owner> {
        self.first(is_wanted).map(|mapping| mapping.owner)
    }

    /// The first mapping that is wanted.
    pub fn first(&self, is_wanted: impl Fn(&Mapping) -> bool) -> Option<Mapping> {
        self.mappings.iter().find(|mapping| is_wanted(mapping)).copied()
    }
}

impl GroupEdit<'_, '_> {
    /// Adds a record of unshared blocks, now or soon.
    pub(super) fn map_owner_later(&mut self, mapping: Mapping) -> Result<()> {
        if !self.volume.geometry().features.has_reverse_map() {
            return Ok(());
        }
        let waiting = &mut self.state.pending_reverse_map_mut().mappings;
        match waiting.last_mut() {
            Some(last) if continues(last, &mapping) => last.length_blocks += mapping.length_blocks,
            _ => {
                waiting.push(mapping);
                self.reserve_reverse_record();
            }
        }
        if self.state.pending_reverse_map().mappings.len() >= MOST_WAITING {
            self.flush_reverse_map()
        } else {
            Ok(())
        }
    }

    /// The transaction that inserts a pending record, this one or another, logs a leaf for it; all of them log no more than
    /// the whole tree.
    fn reserve_reverse_record(&mut self) {
        let Some(ticket) = self.buffers.ticket() else { return };
        let leaf = self.needs.log.pending_reverse_record();
        let blocks = self.state.headers().map_or(0, |headers| headers.free_space.reverse_map_blocks.get());
        // Pending records may split leaves, and put a root above.
        let most = leaf * (u64::from(blocks) + 6);
        if self.state.reserved_reverse_map_bytes + leaf <= most {
            self.state.reserved_reverse_map_bytes += leaf;
            ticket.reserve(leaf);
        }
    }

    fn logged_bytes(&mut self) -> u64 {
        self.buffers.ticket().map_or(0, |ticket| ticket.logged_bytes())
    }

    /// Flushes inode-index and reverse-map records that are only in memory.
    ///
    /// # Errors
    /// As [`flush_reverse_map`](Self::flush_reverse_map).
    pub fn settle(&mut self) -> Result<()> {
        self.inode_index().store_current_chunks()?;
        self.flush_reverse_map()
    }

    /// Inserts all pending records.
    ///
    /// # Errors
    /// Blocks that have an owner already; no space for the tree; damage; the device.
    pub fn flush_reverse_map(&mut self) -> Result<()> {
        if self.state.pending_reverse_map().is_empty() {
            return Ok(());
        }
        let before = self.logged_bytes();
        let mut mappings = std::mem::take(&mut self.state.pending_reverse_map_mut().mappings);
        mappings.sort_unstable_by_key(|mapping| mapping.start);
        let result = self.insert_reverse_records(&mappings);
        let paid = self.logged_bytes().saturating_sub(before).min(self.state.reserved_reverse_map_bytes);
        self.state.reserved_reverse_map_bytes -= paid;
        if let Some(ticket) = self.buffers.ticket() {
            ticket.prepay(paid);
        }
        mappings.clear();
        self.state.pending_reverse_map_mut().mappings = mappings;
        result
    }

    fn insert_reverse_records(&mut self, mappings: &[Mapping]) -> Result<()> {
        let mut rest = mappings;
        while !rest.is_empty() {
            self.ready_free_list()?;
            let mut cursor = self.tree::<ReverseMap>();
            let mut ascending = Ascending::default();
            while let Some((mapping, behind)) = rest.split_first() {
                ascending.map(&mut cursor, *mapping)?;
                rest = behind;
                // Each mapping may split a block of every level and put a root above.
                if cursor.home().is_free_list_short()? {
                    break;
                }
            }
        }
        Ok(())
    }
}

//! Owners that are to be noted together.
//!
//! Nobody sees the trees before the image is closed or a checkpoint is cut, so new owners of blocks that nobody shares may
//! wait in memory, under the group's lock, until there are some of them: then one cursor notes them all, in the order of
//! the tree, and mostly within one leaf. Whoever looks in the tree for what files own has them noted first
//! ([`GroupEdit::flush_reverse_map`]), and so does who closes the file system or cuts a checkpoint. Owners that are no files, and extent maps, never
//! wait and never become one record with a file's contents: they need not care.

use uxfs_format::btree::reverse_map::{Mapping, Owner, ReverseMap};

use super::{change::continues, edit::Ascending};
use crate::allocation_group::group_edit::GroupEdit;
use uxfs_volume::error::Result;

/// How many may wait. A leaf of 4 KiB has room for 168.
const MOST_WAITING: usize = 128;

/// What is still to be noted of a group.
#[derive(Debug, Default)]
pub struct PendingReverseMap {
    mappings: Vec<Mapping>,
}

impl PendingReverseMap {
    /// Whether there is nothing.
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
    /// Notes a new owner of blocks that nobody shares, now or soon.
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

    /// Whoever notes an owner that waits, in this transaction or another, logs a leaf for it; more than the whole tree they
    /// all do not log.
    fn reserve_reverse_record(&mut self) {
        let Some(ticket) = self.buffers.ticket() else { return };
        let leaf = self.needs.log.pending_reverse_record();
        let blocks = self.state.headers().map_or(0, |headers| headers.free_space.reverse_map_blocks.get());
        // Those that wait may split leaves, and put a root above.
        let most = leaf * (u64::from(blocks) + 6);
        if self.state.reserved_reverse_map_bytes + leaf <= most {
            self.state.reserved_reverse_map_bytes += leaf;
            ticket.reserve(leaf);
        }
    }

    fn logged_bytes(&mut self) -> u64 {
        self.buffers.ticket().map_or(0, |ticket| ticket.logged_bytes())
    }

    /// Has the trees told all that waits in memory: the chunks of inodes that are worked on, owners.
    ///
    /// # Errors
    /// As [`flush_reverse_map`](Self::flush_reverse_map).
    pub fn settle(&mut self) -> Result<()> {
        self.inode_index().store_current_chunks()?;
        self.flush_reverse_map()
    }

    /// Notes all owners that wait.
    ///
    /// # Errors
    /// Blocks that are somebody's already; no space for the tree; damage; the device.
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

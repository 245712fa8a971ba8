//! A transaction's hold on the journal.

use std::{rc::Rc, sync::atomic::Ordering::Relaxed};

use uxfs_block::{
    cache::{Piece, logged::EditLog},
    contents_io::TransactionMark,
    self_check,
};
use uxfs_format::{
    log::{free_extent::FreedExtent, item::ItemType},
    units::{AgBlock, AgNumber},
};

use super::{
    IntentId, Journal,
    items::{inode, intent::Regions},
    pending::TransactionItems,
    reservations::CommitGuard,
};
use crate::error::Result;

/// A place in the checkpoint that is being filled, and in the log for what it will hold. Dropped without a commit after
/// something was changed, it shuts the journal down.
#[derive(Debug)]
pub struct Ticket<'j> {
    journal: &'j Journal,
    /// None during a checkpoint switch.
    place: Option<CommitGuard<'j>>,
    /// No contents move meanwhile. There as long as the place.
    mark: Option<TransactionMark>,
    edits: Rc<EditLog>,
    items: TransactionItems,
    reserved_bytes: u64,
    prepaid_bytes: u64,
    is_committed: bool,
    /// A buffer was made, invalidated or forgotten.
    has_replaced: bool,
}

/// Kinds of reservations of log space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogReservation {
    /// A transaction that changes something.
    Usual,
    /// A transaction that ends intents, which hold the tail. A part of the room is left for these.
    Urgent,
    /// Recovery, where no other thread can free log space: it gets a place in any case, and if the checkpoint does not fit
    /// after all, an error at the checkpoint switch.
    Alone,
}

impl Journal {
    /// A place for a transaction that takes at most `reserved_bytes` of the log; `None` where there is no room before a
    /// checkpoint has been written, or buffers have been written back. The caller holds no other ticket.
    ///
    /// # Errors
    /// The journal has been shut down.
    #[doc(alias = "xfs_log_reserve")]
    pub fn begin(&self, reserved_bytes: u64, reserve: LogReservation) -> Result<Option<Ticket<'_>>> {
        self.check()?;
        let place = self.reservations.enter();
        let is_claimed = match reserve {
            LogReservation::Usual => place.reserve(reserved_bytes, self.urgent_bytes),
            LogReservation::Urgent => place.reserve(reserved_bytes, 0),
            LogReservation::Alone => {
                place.reserve_unconditionally(reserved_bytes);
                true
            }
        };
        Ok(is_claimed.then(|| self.ticket(Some(place), reserved_bytes)))
    }

    /// A place for the changes of a checkpoint switch itself.
    pub(super) fn ticket<'j>(&'j self, place: Option<CommitGuard<'j>>, reserved_bytes: u64) -> Ticket<'j> {
        Ticket {
            journal: self,
            mark: place.is_some().then(TransactionMark::new),
            place,
            edits: Rc::new(EditLog::new(self.sequence())),
            items: TransactionItems::default(),
            reserved_bytes,
            prepaid_bytes: 0,
            is_committed: false,
            has_replaced: false,
        }
    }
}

impl<'j> Ticket<'j> {
    /// The journal.
    pub fn journal(&self) -> &'j Journal {
        self.journal
    }

    /// To be handed along with each change of a buffer.
    pub fn edits(&self) -> &Rc<EditLog> {
        &self.edits
    }

    /// The checkpoint in which the changes are.
    pub fn sequence(&self) -> u64 {
        self.edits.sequence()
    }

    /// The most that the changes so far take in the log.
    pub fn logged_bytes(&self) -> u64 {
        self.edits.logged_bytes() + self.items.logged_bytes()
    }

    /// Whether the checkpoint would hold anything of it: then it has no way back.
    pub fn has_changed(&self) -> bool {
        self.has_replaced || self.edits.has_changed() || !self.items.is_empty()
    }

    /// The rest of its reservation.
    pub fn left_bytes(&self) -> u64 {
        (self.reserved_bytes + self.prepaid_bytes).saturating_sub(self.logged_bytes())
    }

    /// The used part of its own reservation.
    fn used_bytes(&self) -> u64 {
        self.logged_bytes().saturating_sub(self.prepaid_bytes)
    }

    /// So much of what was logged others had reserved before.
    pub fn prepay(&mut self, bytes: u64) {
        self.prepaid_bytes += bytes;
    }

    /// The next checkpoint switch will log so much more because of this transaction.
    pub fn reserve(&mut self, bytes: u64) {
        self.items.reserve(bytes);
    }

    /// Metadata that has been freed: older changes of it must not be replayed.
    pub fn cancel(&mut self, piece: Piece) {
        self.items.cancel(piece);
    }

    /// New metadata, logged whole: should it have been freed in this checkpoint, that no longer matters.
    pub fn created(&mut self, piece: Piece) {
        self.items.created(piece);
    }

    /// A changed buffer is gone: the checkpoint that it held back is let go when this transaction is stable.
    pub fn release_later(&mut self, held: Option<u64>) {
        self.has_replaced = true;
        self.items.releases.extend(held);
    }

    /// New inodes have been written into these blocks.
    pub fn inodes_created(&mut self, group: AgNumber, start: AgBlock, length_blocks: u32, generation: u32) {
        let geometry = &self.journal.geometry;
        self.items.item(vec![inode::log_create((group, start, length_blocks), generation, geometry)]);
    }

    /// Blocks that have no owner any more: they become free after this transaction is stable, and an intent says so.
    pub fn free(&mut self, extent: FreedExtent) {
        self.items.freed.push(extent);
    }

    /// Work that is still to be done. `regions` makes the item from the intent's name.
    pub fn intent(&mut self, regions: impl FnOnce(IntentId) -> Regions) -> IntentId {
        let id = self.journal.next_intent.fetch_add(1, Relaxed);
        self.items.intent(id, regions(id));
        id
    }

    /// The work of an intent has been done in this transaction. `kind` is that of the end; ends of freed extents repeat
    /// them.
    pub fn done(&mut self, kind: ItemType, id: IntentId, extents: &[FreedExtent]) {
        self.items.done(kind, id, extents);
    }

    /// Hands everything to the checkpoint.
    pub fn commit(mut self) {
        self_check!(Rc::strong_count(&self.edits) == 1, "no buffer is being changed any more");
        self_check!(
            self.place.is_none() || self.used_bytes() <= self.reserved_bytes,
            "{} bytes in the log, {} were claimed",
            self.used_bytes(),
            self.reserved_bytes
        );
        self.finish();
    }

    fn finish(&mut self) {
        self.is_committed = true;
        let (logged, used) = (self.logged_bytes(), self.used_bytes());
        let has_logged = logged > 0 || !self.items.is_empty();
        if used > self.reserved_bytes && self.place.is_some() {
            self.journal.counters.overruns.fetch_add(1, Relaxed);
        }
        self.journal.reservations.settle(self.reserved_bytes, used, has_logged);
        if has_logged {
            // Most transactions change what others of this checkpoint have changed before them.
            let mut touched = self.edits.touched();
            if !touched.is_empty() || !self.items.is_empty() {
                self.journal.lock_pending().add(&mut self.items, &mut touched);
            }
        }
        self.place = None;
        self.mark = None;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        if self.has_changed() {
            self.journal.shut_down(&"a change was left half done");
        }
        self.finish();
    }
}

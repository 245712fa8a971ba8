//! Closing a checkpoint and writing it.

use std::{
    sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release},
    time::Instant,
};

use uxfs_block::{
    cache::{
        Piece,
        logged::{ChangedBuffer, LoggedChange, TakenBytes, TakenVersion, Taking},
    },
    self_check,
};
use uxfs_format::{
    fault::{Corruption, HeaderFault, Location, Structure},
    log::{buffer_item::BufferContents, free_extent::FreedExtent},
    seal::structure_of,
    units::Lsn,
};

use super::{
    ActiveItems, IntentId, Journal, LogHead, Ticket, Writer,
    items::{buffer, inode, intent},
    pending::Pending,
    records::RecordWriter,
    verify::ChangeVerifier,
};
use crate::{
    area::BLOCK,
    error::{JournalError, Result, ShutdownCause},
    metadata::sector_of_byte,
};

/// Blocks that may be put back among the free ones, now that their checkpoint is stable. The transaction that
/// does so ends the intent as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreedExtents {
    /// The intent that promises it.
    pub intent: IntentId,
    /// Blocks that became free.
    pub extents: Vec<FreedExtent>,
}

/// The result of writing a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClosedCheckpoint {
    /// Blocks to be put back.
    pub freed: Vec<FreedExtents>,
}

/// A checkpoint that is complete and has not been written.
#[derive(Debug)]
pub(super) struct Closed {
    sequence: u64,
    /// Log space that its transactions had reserved.
    pub reserved_bytes: u64,
    pending: Pending,
}

impl Journal {
    /// Writes the checkpoint that is being filled, and gives when it is stable. Where `wanted` is stable already by then,
    /// because another thread wrote it while this one waited, there is nothing to do: all that wait share one write.
    ///
    /// `settle` brings into buffers what is only in memory; it runs while no transaction is under way.
    ///
    /// # Errors
    /// The device failed, now or before; `settle` did.
    #[doc(alias = "xlog_cil_push")]
    pub fn checkpoint<E: From<JournalError> + ShutdownCause>(
        &self,
        wanted: Option<u64>,
        settle: impl FnOnce(Ticket<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<ClosedCheckpoint, E> {
        let mut writer = self.lock_writer();
        self.check()?;
        let is_stable = || wanted.is_some_and(|wanted| self.stable.load(Acquire) >= wanted);
        if is_stable() {
            return Ok(ClosedCheckpoint::default());
        }
        let mut written = self.write_closed(&mut writer)?;
        if is_stable() {
            return Ok(written);
        }
        self.switch(&mut writer, settle)?;
        if writer.closed.is_none() {
            self.flush_if_needed()?;
        }
        written.freed.extend(self.write_closed(&mut writer)?.freed);
        Ok(written)
    }

    /// Closes the checkpoint that is being filled, if it is large enough and no other is being written, and leaves it to
    /// [`write_closed_checkpoint`](Self::write_closed_checkpoint). A thread between two transactions does this without
    /// delay: the thread that writes checkpoints would first have to take a processor from a thread in a transaction, and
    /// then to wait for it. Gives whether it did. `settle` as for [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// As there.
    pub fn close_if_due<E: From<JournalError> + ShutdownCause>(
        &self,
        settle: impl FnOnce(Ticket<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        if !self.is_checkpoint_due() {
            return Ok(false);
        }
        let Some(mut writer) = self.try_lock_writer() else { return Ok(false) };
        if writer.closed.is_some() || !self.is_checkpoint_due() {
            return Ok(false);
        }
        self.check()?;
        self.switch(&mut writer, settle)?;
        Ok(writer.closed.is_some())
    }

    /// Whether a transaction has committed whose changes no checkpoint in the log holds.
    pub fn has_uncommitted(&self) -> bool {
        self.has_closed_checkpoint() || !self.lock_pending().is_empty()
    }

    /// Whether a checkpoint has been closed and not been written.
    pub fn has_closed_checkpoint(&self) -> bool {
        self.has_closed.load(Acquire)
    }

    /// Writes the checkpoint that has been closed, if there is one.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn write_closed_checkpoint(&self) -> Result<ClosedCheckpoint> {
        let mut writer = self.lock_writer();
        self.check()?;
        self.write_closed(&mut writer)
    }

    fn write_closed(&self, writer: &mut Writer) -> Result<ClosedCheckpoint> {
        let Some(closed) = writer.closed.take() else { return Ok(ClosedCheckpoint::default()) };
        self.has_closed.store(false, Release);
        let began_bytes = self.counters.log_bytes.load(Relaxed);
        let written = self.write_checkpoint(writer, closed.sequence, closed.pending);
        self_check!(
            self.counters.log_bytes.load(Relaxed) - began_bytes <= self.most_log_bytes(closed.reserved_bytes),
            "{} bytes of the log for reservations of {}",
            self.counters.log_bytes.load(Relaxed) - began_bytes,
            closed.reserved_bytes
        );
        written.inspect_err(|error| self.shut_down(error))
    }

    /// Waits until checkpoint `sequence` is stable.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    #[doc(alias = "xfs_log_force_seq")]
    pub fn force<E: From<JournalError> + ShutdownCause>(
        &self,
        sequence: u64,
        settle: impl FnOnce(Ticket<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<ClosedCheckpoint, E> {
        let begun = Instant::now();
        let written = self.checkpoint(Some(sequence), settle);
        let nanoseconds = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counters.force_nanoseconds.fetch_add(nanoseconds, Relaxed);
        self.counters.forces.fetch_add(1, Relaxed);
        written
    }

    /// The blocks that the checkpoint which is being filled frees, sorted, neighbours as one: for the one that closes the checkpoint.
    pub fn freed_so_far(&self) -> Vec<FreedExtent> {
        let mut pending = self.lock_pending();
        merge_freed(&mut pending.freed, self.geometry.ag_block_log);
        pending.freed.clone()
    }

    /// Makes what was written outside the log durable, where no checkpoint does.
    fn flush_if_needed(&self) -> Result<()> {
        if self.needs_flush.swap(false, AcqRel) { self.flush_device() } else { Ok(()) }
    }

    /// Makes durable what was written outside the log.
    ///
    /// # Errors
    /// The device failed: then nothing can be changed any more.
    pub fn flush_device(&self) -> Result<()> {
        self.cache.device().flush().map_err(|error| {
            self.shut_down(&error);
            error.into()
        })
    }

    /// Closes the checkpoint that is being filled, unless it is empty, and begins the next.
    fn switch<E: From<JournalError> + ShutdownCause>(
        &self,
        writer: &mut Writer,
        settle: impl FnOnce(Ticket<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let alone = self.reservations.close();
        // The last holder of the commit lock may have left a change half done.
        self.check()?;
        if let Err(error) = settle(self.ticket(None, 0)) {
            self.shut_down(&error);
            return Err(error);
        }
        let pending = std::mem::take(&mut *self.lock_pending());
        if pending.is_empty() {
            return Ok(());
        }
        let sequence = self.sequence.fetch_add(1, AcqRel);
        self.lock_active().open(sequence, writer.head.lsn);
        let reserved_bytes = self.reservations.take_all(&alone);
        writer.closed = Some(Closed { sequence, reserved_bytes, pending });
        self.has_closed.store(true, Release);
        self.update_limit(writer, reserved_bytes);
        Ok(())
    }

    fn write_checkpoint(
        &self,
        writer: &mut Writer,
        sequence: u64,
        mut pending: Pending,
    ) -> Result<ClosedCheckpoint> {
        let began = writer.head.lsn;
        let (tail, keep_before) = {
            let active = self.lock_active();
            let tail = active.tail().unwrap_or(began);
            (tail, self.keep_before(&active, writer.head))
        };
        writer.transaction = writer.transaction.wrapping_add(1).max(1);
        let transaction = writer.transaction;
        let device = self.cache.device().as_ref();
        let mut records = RecordWriter::new(device, self.place, writer.head, tail, &mut writer.window);
        // Only for people: a region for what is said of a buffer, and one or two for what changed in it.
        records.begin(transaction, 3 * pending.touched.len() as u32);
        let mut write = Write {
            journal: self,
            sequence,
            keep_before,
            kept_left_bytes: self.most_kept_bytes(),
            kept: Vec::new(),
            ordered: Vec::new(),
            verifier: ChangeVerifier::new(&self.geometry, began, std::mem::take(&mut writer.verified_copy)),
        };
        for changed in &pending.touched {
            write.buffer(changed, &mut records)?;
            records.write_if_full()?;
        }
        let freed = self.log_freed(&mut pending, &mut records)?;
        pending.log_items(&mut records, RecordWriter::write_if_full)?;
        for (offset_bytes, length_bytes) in &pending.cancels {
            records.write_if_full()?;
            buffer::log_cancel(
                Piece { offset_bytes: *offset_bytes, length_bytes: *length_bytes },
                &mut records,
            );
        }
        let Write { kept, ordered, verifier, .. } = write;
        writer.verified_copy = verifier.into_memory();
        let has_ordered = !ordered.is_empty();
        self.write_ordered(ordered)?;
        let needs_flush = self.needs_flush.swap(false, AcqRel) || has_ordered;
        let changed_bytes = records.content_bytes();
        let (head, bytes) = records.commit(needs_flush)?;
        writer.head = head;
        writer.newest = began;
        self.counters.checkpoints.fetch_add(1, Relaxed);
        self.counters.log_bytes.fetch_add(bytes, Relaxed);
        self.counters.changed_bytes.fetch_add(changed_bytes, Relaxed);
        self.counters.buffers.fetch_add(pending.touched.len() as u64, Relaxed);
        self.became_stable(sequence, &pending, &freed);
        self.write_kept(kept)?;
        self.update_limit(writer, 0);
        Ok(ClosedCheckpoint { freed })
    }

    /// The freed blocks, as intents: sorted, neighbours as one.
    fn log_freed(&self, pending: &mut Pending, records: &mut RecordWriter<'_>) -> Result<Vec<FreedExtents>> {
        let mut freed = std::mem::take(&mut pending.freed);
        merge_freed(&mut freed, self.geometry.ag_block_log);
        let batches = freed.chunks(intent::MAX_EXTENTS).map(|extents| {
            let id = self.next_intent.fetch_add(1, Relaxed);
            records.write_if_full()?;
            records.region(&intent::free_extents(id, extents));
            Ok(FreedExtents { intent: id, extents: extents.to_vec() })
        });
        batches.collect()
    }

    /// The checkpoint is in the log for good: what waited for that goes on.
    fn became_stable(&self, sequence: u64, pending: &Pending, freed: &[FreedExtents]) {
        let mut active = self.lock_active();
        let mut open = self.lock_open_intents();
        for id in pending.open_intents().chain(freed.iter().map(|freed| freed.intent)) {
            active.enter(sequence);
            open.insert(id, sequence);
        }
        for id in &pending.ended {
            if let Some(holder) = open.remove(id) {
                active.release(holder);
            }
        }
        pending.releases.iter().for_each(|released| active.release(*released));
        self.stable.store(sequence, Release);
        active.release(sequence);
    }

    /// Buffers whose oldest changes are of a checkpoint before this one go home as soon as this checkpoint is stable: those
    /// further behind the head than a third of the log. 0 where there are none. Others might change such buffers again
    /// and again, so that they are never as any stable checkpoint left them.
    ///
    /// (To log them again whole would not do: replay from a later checkpoint on would meet changes that need the older
    /// ones, before it comes to those.)
    fn keep_before(&self, active: &ActiveItems, head: LogHead) -> u64 {
        let most_blocks = u64::from(self.place.blocks) / 3;
        let is_far = |lsn: Lsn| self.place.used_blocks(head.lsn, lsn) > most_blocks;
        active.newest_where(is_far).map_or(0, |newest| newest + 1)
    }

    /// How much memory buffers may take that are kept so.
    fn most_kept_bytes(&self) -> u64 {
        u64::from(self.place.blocks) * BLOCK as u64 / 16
    }

    fn write_kept(&self, kept: Vec<TakenVersion>) -> Result<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let _one = self.lock_write_back();
        let mut released = Vec::new();
        let written = self.cache.logged_write_back(&self.sealer(), &mut released).versions(kept)?;
        self.cache.device().flush()?;
        self.counters.buffers_written_back.fetch_add(written as u64, Relaxed);
        let mut active = self.lock_active();
        released.iter().for_each(|sequence| active.release(*sequence));
        Ok(())
    }

    fn write_ordered(&self, ordered: Vec<TakenVersion>) -> Result<()> {
        if ordered.is_empty() {
            return Ok(());
        }
        let mut released = Vec::new();
        self.cache.logged_write_back(&self.sealer(), &mut released).ordered(ordered)?;
        let mut active = self.lock_active();
        released.iter().for_each(|sequence| active.release(*sequence));
        Ok(())
    }
}

/// Sorts freed extents and makes neighbours within a group one.
fn merge_freed(freed: &mut Vec<FreedExtent>, ag_block_log: u32) {
    freed.sort_unstable_by_key(|extent| extent.start_block.get());
    freed.dedup_by(|next, last| {
        let end = last.start_block.get() + u64::from(last.length_blocks.get());
        let sum = last.length_blocks.get().checked_add(next.length_blocks.get());
        let in_one_group = next.start_block.get() >> ag_block_log == last.start_block.get() >> ag_block_log;
        match sum {
            Some(sum) if in_one_group && end == next.start_block.get() => {
                last.length_blocks = sum.into();
                true
            }
            _ => false,
        }
    });
}

/// One checkpoint on its way into records.
struct Write<'j> {
    journal: &'j Journal,
    sequence: u64,
    keep_before: u64,
    kept_left_bytes: u64,
    kept: Vec<TakenVersion>,
    ordered: Vec<TakenVersion>,
    verifier: ChangeVerifier<'j>,
}

impl Write<'_> {
    fn buffer(&mut self, changed: &ChangedBuffer, records: &mut RecordWriter<'_>) -> Result<()> {
        let Self { journal, sequence, verifier, .. } = self;
        let keep_before = if self.kept_left_bytes > 0 { self.keep_before } else { 0 };
        let mut bytes = 0;
        let log = |change: &LoggedChange<'_>| -> Result<Taking> {
            bytes = change.bytes.len() as u64;
            let structure = structure_of(change.bytes, &journal.geometry);
            let Some(structure) = structure else { return Err(unknown(change)) };
            if buffer::is_ordered(structure) {
                return Ok(Taking::Ordered);
            }
            if structure == Structure::InodeCluster {
                if let [piece] = change.pieces {
                    inode::log_cluster(*piece, change.bytes, &change.changes, &journal.geometry, records);
                }
                return Ok(Taking::Logged);
            }
            let contents = BufferContents::of(structure).ok_or_else(|| unknown(change))?;
            if change.pieces.len() > 1 {
                buffer::log_pieces(
                    contents,
                    change.pieces,
                    change.bytes,
                    change.changes,
                    &journal.geometry,
                    records,
                );
            } else {
                buffer::log_buffer(contents, change.pieces, change.bytes, &change.changes, records);
            }
            Ok(Taking::Logged)
        };
        let seal = |taken: TakenBytes<'_>| verifier.verify(taken).map_err(JournalError::Corrupt);
        let taken = changed.take(*sequence, keep_before, log, seal)?;
        self.ordered.extend(taken.ordered);
        if let Some(entered) = taken.entered {
            journal.lock_active().enter(entered);
        }
        if taken.is_relogged {
            journal.counters.relogged.fetch_add(1, Relaxed);
        }
        if let Some(version) = taken.version {
            self.kept_left_bytes = self.kept_left_bytes.saturating_sub(bytes);
            self.kept.push(version);
        }
        Ok(())
    }
}

#[cold]
fn unknown(change: &LoggedChange<'_>) -> JournalError {
    let found = change.bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let offset = change.pieces.first().map_or(0, |piece| piece.offset_bytes);
    let location = Location::at_sector(sector_of_byte(offset));
    Corruption::new(Structure::Superblock, location, HeaderFault::BadMagic { found, expected: 0 }).into()
}

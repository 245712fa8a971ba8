//! Pushing the log's tail: writing back the buffers that hold it (the AIL push); and closing the log.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use uxfs_block::cache::logged_write_back::{WriteBackCursor, WriteBackLimits};
use uxfs_format::{edit::DirtyMap, fault::Corruption, units::Lsn};

use super::{Journal, records::RecordWriter};
use crate::{
    error::{JournalError, Result},
    metadata::StructureSealer,
};

impl Journal {
    /// Writes back stable buffers with changes of checkpoint `first_at_most` or an older one (`u64::MAX` for all), flushes, and
    /// moves the tail. Returns how many buffers had to stay because newer changes of theirs are not stable.
    ///
    /// # Errors
    /// The device failed, now or before; bytes that must not be written.
    #[doc(alias = "xfsaild_push")]
    pub fn push_active_items(&self, first_at_most: u64) -> Result<usize> {
        self.push_active_items_beside(first_at_most, || false, || Ok(()))
    }

    /// As [`push_active_items`](Self::push_active_items), by a thread that has other work, too: whenever `is_needed` says so,
    /// `between` runs after the buffers so far have been written back.
    ///
    /// # Errors
    /// As there, and those of `between`.
    pub fn push_active_items_beside<E: From<JournalError>>(
        &self,
        first_at_most: u64,
        is_needed: impl Fn() -> bool,
        between: impl Fn() -> std::result::Result<(), E>,
    ) -> std::result::Result<usize, E> {
        let mut cursor = self.cache.write_back_cursor();
        let mut left = self.push_part(&mut cursor, first_at_most, &is_needed)?;
        while !cursor.is_at_end() {
            between()?;
            left += self.push_part(&mut cursor, first_at_most, &is_needed)?;
        }
        Ok(left)
    }

    fn push_part(
        &self,
        cursor: &mut WriteBackCursor,
        first_at_most: u64,
        is_enough: impl Fn() -> bool,
    ) -> Result<usize> {
        self.check()?;
        let _one = self.lock_write_back();
        let mut released = Vec::new();
        let which = WriteBackLimits { stable: self.stable(), first_at_most };
        let sealer = self.sealer();
        let result = self.cache.logged_write_back(&sealer, &mut released).part(cursor, which, is_enough);
        let flushed = if released.is_empty() { Ok(()) } else { self.cache.device().flush() };
        let (written, left) = match (result, flushed) {
            (Ok(counts), Ok(())) => counts,
            (Err(error), _) => return Err(self.failed(error.into())),
            (_, Err(error)) => return Err(self.failed(error.into())),
        };
        self.counters.buffers_written_back.fetch_add(written as u64, Relaxed);
        {
            let mut active = self.lock_active();
            released.iter().for_each(|sequence| active.release(*sequence));
        }
        if let Some(writer) = self.try_lock_writer() {
            self.update_limit(&writer, writer.closed.as_ref().map_or(0, |closed| closed.reserved_bytes));
        }
        Ok(left)
    }

    /// Waits until no write of a buffer is under way that has been invalidated meanwhile: what lay there may then be used
    /// for something else.
    pub fn wait_for_writes(&self) {
        drop(self.lock_write_back());
    }

    /// Half of the checkpoints that hold the tail, counted from the oldest: what to write home to make room.
    pub fn older_half(&self) -> u64 {
        let (first, lsns) = self.lock_active().lsns();
        first + (lsns.len() as u64) / 2
    }

    /// Says in the log that all is written back. Nothing may be changed from then on.
    ///
    /// # Errors
    /// The device failed, now or before; something is not at home.
    pub fn close(&self) -> Result<()> {
        if !self.say_clean()? {
            let cause = "the log is still needed".into();
            return Err(self.failed(JournalError::ShutDown { cause, is_corruption: false }));
        }
        self.shut_down(&"it has been closed");
        Ok(())
    }

    /// Says in the log that all is written back, where that is so: gives whether it is. The next change makes the log dirty again.
    ///
    /// # Errors
    /// The device failed, now or before.
    #[doc(alias = "xfs_log_quiesce")]
    pub fn say_clean(&self) -> Result<bool> {
        self.check()?;
        let mut writer = self.lock_writer();
        if self.lock_active().tail().is_some() {
            return Ok(false);
        }
        let head = writer.head;
        let needs_flush = self.needs_flush.swap(false, AcqRel);
        let device = self.cache.device().as_ref();
        let records = RecordWriter::new(device, self.place, head, head.lsn, &mut writer.window);
        let written = records.unmount(needs_flush);
        let (head, _) = written.map_err(|error| self.failed(error))?;
        writer.head = head;
        Ok(true)
    }

    #[cold]
    fn failed(&self, error: JournalError) -> JournalError {
        self.shut_down(&error);
        error
    }

    /// Stamps the LSN of the newest checkpoint that changed a buffer, and its checksum.
    pub(super) fn sealer(
        &self,
    ) -> impl Fn(&mut [u8], u64, u64, &DirtyMap) -> std::result::Result<(), Box<Corruption>> + '_ {
        let (first, lsns) = self.lock_active().lsns();
        let geometry = &self.geometry;
        move |bytes: &mut [u8], offset_bytes: u64, sequence: u64, changes: &DirtyMap| {
            let index = sequence.checked_sub(first).and_then(|index| usize::try_from(index).ok());
            let lsn: Option<Lsn> = index.and_then(|index| lsns.get(index)).copied();
            let sealer = StructureSealer { geometry, lsn };
            uxfs_block::cache::BufferSealer::seal(&sealer, bytes, offset_bytes, changes)
        }
    }
}

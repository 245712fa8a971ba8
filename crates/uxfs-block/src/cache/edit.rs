//! Buffers that differ from the device.
//!
//! A changed buffer leaves the queues of the cache and stays in its shard as *dirty* until it has been
//! written back or invalidated. Its bytes are behind a lock of their own. Readers who look it up get the bytes as
//! they are at that moment and keep them; where such a reader still holds them when the next change begins, the writer
//! goes on in a copy.
//!
//! Invariants, beside those of the cache, cited by the tests:
//! 9. **Dirty stays.** A changed buffer is never evicted, and leaves the dirty state only when a write of its very
//!    last version has succeeded, or by [`Cache::invalidate`].
//! 10. **One writer.** At most one [`EditBuffer`] of a key exists; a thread that holds several takes them in an order that
//!     all threads keep (the callers' objects have locks of their own).
//! 11. **Stable while written.** Write-back sends a version that no one changes any more; a change that comes
//!     meanwhile makes a new version and the buffer stays dirty.
//! 12. **Sealed when written.** What goes to the device has passed through [`BufferSealer::seal`].
//!
//! On a hostile image two structures can claim one block, so that a thread that changes both would wait for itself, or two
//! threads for each other: such waits end in an error.

use std::{
    fmt,
    ops::Deref,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use uxfs_format::edit::{DirtyMap, Edit};

use super::{
    Buffer, BufferVerifier, Cache, Piece, ReadError,
    held::Held,
    key::Key,
    logged::{BufferSnapshot, EditLog, RUN_LOG_BYTES},
    shard::EditLookup,
};
use crate::device::{DeviceError, DeviceOperation};

/// Prepares changed bytes for the device, and judges them a last time.
pub trait BufferSealer {
    /// Fault of such bytes.
    type Error;

    /// Stamps checksums and whatever else changes when bytes are written. `changes` marks what has changed.
    ///
    /// # Errors
    /// They must not be written.
    fn seal(&self, bytes: &mut [u8], offset_bytes: u64, changes: &DirtyMap) -> Result<(), Self::Error>;
}

/// A changed buffer as the shard keeps it.
#[derive(Debug)]
pub(super) struct Dirty {
    pub state: Mutex<DirtyState>,
    pub pieces: Box<[Piece]>,
    /// Of the budget, when it was made.
    pub charged_bytes: u64,
    /// When it was changed last, by the cache's count of buffers that became dirty; 0 for never.
    pub changed_at: AtomicU64,
    /// The thread that holds it to change it, 0 for none.
    holder: AtomicUsize,
    /// Invalidated by its own holder: gone as soon as that lets go.
    is_doomed: AtomicBool,
}

/// No change of a buffer takes so long, reading what it needs included.
const LONGEST_CHANGE: Duration = Duration::from_secs(120);

/// A number that no other running thread has.
#[inline]
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

impl Dirty {
    /// Of a buffer that is like the device.
    pub fn new(buffer: Buffer, pieces: &[Piece]) -> Self {
        Self {
            charged_bytes: buffer.charged_bytes(),
            state: Mutex::new(DirtyState::new(buffer)),
            pieces: pieces.into(),
            changed_at: AtomicU64::new(0),
            holder: AtomicUsize::new(0),
            is_doomed: AtomicBool::new(false),
        }
    }

    /// Whether the thread that asks holds it to change it.
    #[inline]
    pub fn is_held_by_me(&self) -> bool {
        self.holder.load(Relaxed) == this_thread()
    }

    /// It is invalid, but its holder is the one who says so.
    pub fn doom(&self) {
        self.is_doomed.store(true, Relaxed);
    }

    /// Notes when it is changed. The count is written only for a buffer's first change, and the stamp only where it is
    /// another: threads that change buffers of their own must not share a line that is written each time.
    #[inline]
    fn stamp(&self, count: &AtomicU64) {
        let last = self.changed_at.load(Relaxed);
        let now = if last == 0 { count.fetch_add(1, Relaxed) + 1 } else { count.load(Relaxed) };
        if now != last {
            self.changed_at.store(now, Relaxed);
        }
    }

    #[cold]
    fn claimed_twice(&self) -> DeviceError {
        let offset_bytes = self.pieces.first().map_or(0, |piece| piece.offset_bytes);
        let length_bytes = self.pieces.iter().map(|piece| u64::from(piece.length_bytes)).sum();
        let source = std::io::Error::other("two structures claim this block: it is being changed already");
        DeviceError { operation: DeviceOperation::Write, offset_bytes, length_bytes, source }
    }

    /// Locks it for a change.
    #[inline]
    fn hold(self: Arc<Self>) -> Result<Held, DeviceError> {
        Held::new(self, Self::lock).map_err(|dirty| dirty.claimed_twice())
    }

    /// Waits for the lock, but not for oneself.
    #[inline]
    fn lock(&self) -> Option<MutexGuard<'_, DirtyState>> {
        match self.state.try_lock() {
            Some(guard) => Some(guard),
            None if self.is_held_by_me() => None,
            None => self.state.try_lock_for(LONGEST_CHANGE),
        }
    }

    /// Locks it to look at it.
    pub(super) fn look(&self) -> Result<MutexGuard<'_, DirtyState>, DeviceError> {
        self.lock().ok_or_else(|| self.claimed_twice())
    }
}

#[derive(Debug)]
pub(super) struct DirtyState {
    pub buffer: Buffer,
    /// Changes of the newest checkpoint that have not been formatted yet; in bulk mode all changes.
    pub changes: DirtyMap,
    /// Counts changes, so that write-back sees whether it wrote the last version.
    pub version: u64,
    /// Whether it differs from the device.
    pub is_dirty: bool,
    /// No longer in the table: written back or invalidated. Look the key up again.
    pub is_gone: bool,
    /// The newest checkpoint that changed it; 0 where nothing is logged.
    pub sequence: u64,
    /// Whether `changes` of that checkpoint wait to be taken by the journal.
    pub is_pending: bool,
    /// The version of an earlier checkpoint that has not been formatted yet.
    pub snapshot: Option<BufferSnapshot>,
    /// Runs that have been logged and not written back.
    pub unwritten: DirtyMap,
    /// The version that was sealed in memory when its checkpoint took it.
    pub sealed_version: Option<u64>,
    /// The oldest checkpoint with changes that have not been written back; 0 for none.
    pub first_sequence: u64,
}

impl DirtyState {
    /// Of a buffer like the device.
    pub fn new(buffer: Buffer) -> Self {
        Self {
            buffer,
            changes: DirtyMap::clean(),
            version: 0,
            is_dirty: false,
            is_gone: false,
            sequence: 0,
            is_pending: false,
            snapshot: None,
            unwritten: DirtyMap::clean(),
            sealed_version: None,
            first_sequence: 0,
        }
    }
}

/// A buffer that its holder alone may change.
pub struct EditBuffer {
    held: Held,
    /// For whom changes are counted, if they are logged.
    log: Option<Rc<EditLog>>,
    runs_before: u32,
    version_before: u64,
    run_bytes: u32,
}

impl Drop for EditBuffer {
    #[inline]
    fn drop(&mut self) {
        let (dirty, state) = self.held.parts();
        if dirty.is_doomed.load(Relaxed) {
            state.is_gone = true;
        }
        dirty.holder.store(0, Relaxed);
        if let Some(log) = &self.log
            && state.version != self.version_before
        {
            log.note(dirty, state, self.runs_before, self.run_bytes);
        }
    }
}

impl EditBuffer {
    /// Where its first byte lies on the device.
    pub fn offset_bytes(&self) -> u64 {
        self.held.buffer.offset_bytes()
    }

    /// The runs of the device that it is made of.
    pub fn pieces(&self) -> &[Piece] {
        &self.held.dirty().pieces
    }

    /// Begins a change. From now on the buffer is dirty.
    #[inline]
    pub fn edit(&mut self) -> Edit<'_> {
        let state = &mut *self.held;
        if !state.is_dirty {
            state.is_dirty = true;
        }
        state.version += 1;
        Edit::new(state.buffer.unshared_bytes(), &mut state.changes)
    }

    /// Says what each run that the holder marks takes in the log, where that is not the run itself.
    pub fn set_run_log_bytes(&mut self, run_bytes: u32) {
        self.run_bytes = run_bytes;
    }

    /// Says that what was written so far is not to be logged: an item in the log makes it when it is replayed. The
    /// write-back counts it as changed all the same.
    pub fn made_by_item(&mut self) {
        let state = &mut *self.held;
        let made = std::mem::take(&mut state.changes);
        if self.log.is_some() {
            state.unwritten.merge(&made);
        } else {
            state.changes = made;
        }
    }

    /// Says that the bytes have become another kind of thing, for [`BufferVerifier`]s: those of `kind` accept them
    /// unseen, all others look again.
    pub fn set_kind(&mut self, kind: u16) {
        self.held.buffer.set_verified(kind);
    }
}

impl Deref for EditBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.held.buffer
    }
}

impl fmt::Debug for EditBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EditBuffer")
            .field("offset_bytes", &self.offset_bytes())
            .field("length_bytes", &self.len())
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// The buffer made of `pieces`, to be changed: from memory or the device, verified. Waits while another thread
    /// changes it.
    ///
    /// # Errors
    /// The device failed, or the verifier did.
    pub fn edit<V: BufferVerifier>(
        &self,
        pieces: &[Piece],
        verifier: &V,
    ) -> Result<EditBuffer, ReadError<V::Error>> {
        self.edit_for(pieces, verifier, None)
    }

    pub(super) fn edit_for<V: BufferVerifier>(
        &self,
        pieces: &[Piece],
        verifier: &V,
        log: Option<&Rc<EditLog>>,
    ) -> Result<EditBuffer, ReadError<V::Error>> {
        let key = Key::new(pieces, &self.hasher)?;
        loop {
            match self.shard(key.hash).look_up_for_edit(&key, &self.dirty_bytes) {
                EditLookup::Dirty(dirty) => {
                    if let Some(mut buffer) = self.lock(dirty, log)? {
                        self.verify_dirty(&mut buffer.held, verifier)?;
                        return Ok(buffer);
                    }
                }
                EditLookup::InFlight(flight) => drop(flight.wait()),
                EditLookup::Absent => drop(self.read(pieces, verifier)?),
            }
        }
    }

    /// A buffer of `pieces` that begins as zeros of `kind`, whatever the device holds there.
    ///
    /// # Errors
    /// No such place on the device; no memory.
    pub fn create(&self, pieces: &[Piece], kind: u16) -> Result<EditBuffer, DeviceError> {
        self.create_for(pieces, kind, None)
    }

    pub(super) fn create_for(
        &self,
        pieces: &[Piece],
        kind: u16,
        log: Option<&Rc<EditLog>>,
    ) -> Result<EditBuffer, DeviceError> {
        let key = Key::new(pieces, &self.hasher)?;
        let size_bytes = self.device.size_bytes();
        for piece in pieces {
            let (offset_bytes, length_bytes) = (piece.offset_bytes, u64::from(piece.length_bytes));
            if offset_bytes.checked_add(length_bytes).is_none_or(|end| end > size_bytes) {
                return Err(DeviceError::outside(DeviceOperation::Write, offset_bytes, length_bytes));
            }
        }
        self.invalidate(pieces);
        loop {
            let mut buffer = self.memory_for(&key, DeviceOperation::Write)?;
            buffer.unshared_bytes().fill(0);
            buffer.set_verified(kind);
            match self.shard(key.hash).insert_dirty(&key, pieces, buffer, &self.dirty_bytes) {
                EditLookup::Dirty(dirty) => {
                    if let Some(mut buffer) = self.lock(dirty, log)? {
                        buffer.held.is_dirty = true;
                        return Ok(buffer);
                    }
                }
                EditLookup::InFlight(flight) => drop(flight.wait()),
                EditLookup::Absent => {}
            }
            self.invalidate(pieces);
        }
    }

    /// Forgets the buffer of `pieces`, changed or not: what lay there has been freed and must not be written any
    /// more. Waits while another thread changes it.
    pub fn invalidate(&self, pieces: &[Piece]) {
        // No checkpoint has this number, so that nothing is set aside for an earlier one.
        self.invalidate_logged(pieces, 0, &|_| {});
    }

    /// Bytes of buffers that differ from the device, or may.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes.load(Relaxed)
    }

    /// Locks a changed buffer and makes its bytes the holder's own. `None` where it has left the table meanwhile.
    fn lock(&self, dirty: Arc<Dirty>, log: Option<&Rc<EditLog>>) -> Result<Option<EditBuffer>, DeviceError> {
        let mut held = dirty.hold()?;
        let (dirty, state) = held.parts();
        if state.is_gone {
            return Ok(None);
        }
        if let Some(log) = log {
            state.snapshot_before(log.sequence());
        }
        if state.buffer.is_pinned() {
            // A reader or a write under way holds these bytes: go on in a copy.
            state.buffer = self.copy_of(&state.buffer, &dirty.pieces)?;
        }
        dirty.stamp(&self.changes);
        dirty.holder.store(this_thread(), Relaxed);
        let (runs_before, version_before) =
            if log.is_some() { (state.changes.count(), state.version) } else { (0, 0) };
        let log = log.map(Rc::clone);
        Ok(Some(EditBuffer { held, log, runs_before, version_before, run_bytes: RUN_LOG_BYTES }))
    }

    pub(super) fn copy_of(&self, buffer: &Buffer, pieces: &[Piece]) -> Result<Buffer, DeviceError> {
        let key = Key::new(pieces, &self.hasher)?;
        let mut copy = self.memory_for(&key, DeviceOperation::Write)?;
        copy.unshared_bytes().copy_from_slice(buffer);
        copy.copy_verified(buffer);
        Ok(copy)
    }

    /// A caller that uses the bytes as another kind than the one they were created as has them verified, with a checksum
    /// that is right for that moment.
    fn verify_dirty<V: BufferVerifier>(
        &self,
        state: &mut DirtyState,
        verifier: &V,
    ) -> Result<(), ReadError<V::Error>> {
        if !state.buffer.is_verified_as(verifier) {
            verifier.seal(state.buffer.unshared_bytes());
        }
        state.buffer.verify_once(verifier, &self.counters.verified).map_err(ReadError::Verify)
    }

    /// The bytes of a changed buffer as they are now, judged by `verifier`. `None` where it has left the table.
    pub(super) fn snapshot<V: BufferVerifier>(
        &self,
        dirty: &Dirty,
        verifier: &V,
    ) -> Result<Option<Buffer>, ReadError<V::Error>> {
        let mut state = dirty.look()?;
        if state.is_gone {
            return Ok(None);
        }
        if !state.buffer.is_verified_as(verifier) {
            if state.buffer.is_pinned() {
                state.buffer = self.copy_of(&state.buffer, &dirty.pieces)?;
            }
            self.verify_dirty(&mut state, verifier)?;
        }
        Ok(Some(state.buffer.clone()))
    }
}

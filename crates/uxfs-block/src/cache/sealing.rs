//! Sealing a buffer when its checkpoint takes it (invariant 16 of [`logged`](super::logged)).

use uxfs_format::edit::DirtyMap;

use super::edit::DirtyState;

/// A buffer whose changes have been logged: its log sequence number and checksum can be set, and it can be verified.
#[derive(Debug)]
pub struct TakenBytes<'a> {
    /// Where the buffer begins on the device.
    pub offset_bytes: u64,
    /// Parts that differ from the device.
    pub changes: DirtyMap,
    /// The bytes.
    pub bytes: SealableBytes<'a>,
}

/// Where taken bytes may be sealed.
#[derive(Debug)]
pub enum SealableBytes<'a> {
    /// In the cache. Write-back then finds them sealed.
    InCache(&'a mut [u8]),
    /// Only in a copy: a reader has the bytes, or a later checkpoint has changed the buffer.
    InCopy(&'a [u8]),
    /// Not worth sealing: an older checkpoint has changed the buffer, too, which has not been written back. The whole buffer was
    /// verified when the first of them took it; `changes` are those since the last.
    ChangedAgain(&'a [u8]),
}

impl DirtyState {
    /// Lets `seal` seal the newest version, whose `changes` have been logged, in place unless a reader holds it (invariant 16).
    pub(super) fn seal<E>(
        &mut self,
        changes: DirtyMap,
        seal: impl FnOnce(TakenBytes<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let offset_bytes = self.buffer.offset_bytes();
        if self.first_sequence != 0 {
            let bytes = SealableBytes::ChangedAgain(&self.buffer);
            return seal(TakenBytes { offset_bytes, changes, bytes });
        }
        if self.buffer.is_pinned() {
            let bytes = SealableBytes::InCopy(&self.buffer);
            return seal(TakenBytes { offset_bytes, changes, bytes });
        }
        let mut all = self.unwritten;
        all.merge(&changes);
        let bytes = SealableBytes::InCache(self.buffer.unshared_bytes());
        seal(TakenBytes { offset_bytes, changes: all, bytes })?;
        self.sealed_version = Some(self.version);
        Ok(())
    }
}

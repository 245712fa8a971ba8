//! Buffers as callers hold them.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::{budget::Charge, counters::Counter};
use crate::aligned_buffer::AlignedBuffer;

/// Says whether bytes are what a caller takes them for.
pub trait BufferVerifier {
    /// Fault of such bytes.
    type Error;

    /// Number of this verifier's kind. Verifiers of one kind must judge alike: the bytes are verified once for each
    /// kind. Kinds of 64 and above are not remembered and verify at every lookup.
    fn kind(&self) -> u16;

    /// Judges the bytes, of which the first was read at `offset_bytes`.
    ///
    /// # Errors
    /// They are not of this kind.
    fn verify(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), Self::Error>;

    /// Stamps the checksum of bytes that have changed in memory, so that they can be judged like those from the
    /// device.
    fn seal(&self, _bytes: &mut [u8]) {}
}

/// Accepts any bytes, for callers that verify them elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unverified;

impl BufferVerifier for Unverified {
    type Error = std::convert::Infallible;

    fn kind(&self) -> u16 {
        u16::MAX
    }

    fn verify(&self, _: &[u8], _: u64) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Bytes of the device, held in memory as long as one handle lives. Cloning it clones the handle.
#[derive(Clone)]
pub struct Buffer {
    contents: Arc<Contents>,
}

struct Contents {
    bytes: AlignedBuffer,
    offset_bytes: u64,
    /// A bit for each kind that has accepted the bytes.
    verified: AtomicU64,
    /// Held while a verifier runs, so that others wait for its result instead of repeating it.
    verifying: Mutex<()>,
    charge: Charge,
}

impl Buffer {
    pub(super) fn new(bytes: AlignedBuffer, offset_bytes: u64, charge: Charge) -> Self {
        let (verified, verifying) = (AtomicU64::new(0), Mutex::new(()));
        Self { contents: Arc::new(Contents { bytes, offset_bytes, verified, verifying, charge }) }
    }

    /// Where its first byte lies on the device.
    pub fn offset_bytes(&self) -> u64 {
        self.contents.offset_bytes
    }

    /// Runs `verifier` unless one of its kind has accepted these bytes before.
    #[inline]
    pub(super) fn verify_once<V: BufferVerifier>(
        &self,
        verifier: &V,
        runs: &Counter,
    ) -> Result<(), V::Error> {
        let bit = 1_u64.checked_shl(verifier.kind().into()).unwrap_or(0);
        if self.contents.verified.load(Ordering::Acquire) & bit != 0 {
            return Ok(());
        }
        self.verify_now(verifier, bit, runs)
    }

    #[cold]
    fn verify_now<V: BufferVerifier>(&self, verifier: &V, bit: u64, runs: &Counter) -> Result<(), V::Error> {
        if bit == 0 {
            return verifier.verify(self, self.offset_bytes());
        }
        let _verifying = self.contents.verifying.lock();
        if self.contents.verified.load(Ordering::Acquire) & bit == 0 {
            runs.add(1);
            verifier.verify(self, self.offset_bytes())?;
            self.contents.verified.fetch_or(bit, Ordering::Release);
        }
        Ok(())
    }

    /// Whether any verifier has accepted the bytes.
    pub(super) fn is_verified(&self) -> bool {
        self.contents.verified.load(Ordering::Acquire) != 0
    }

    /// The bytes, to be changed by their only holder.
    pub(super) fn unshared_bytes(&mut self) -> &mut [u8] {
        let contents =
            Arc::get_mut(&mut self.contents).expect("no one else holds a buffer that is locked for edits");
        &mut contents.bytes
    }

    /// The verifiers of this kind accept the bytes, those of no other.
    pub(super) fn set_verified(&self, kind: u16) {
        let bit = 1_u64.checked_shl(kind.into()).unwrap_or(0);
        self.contents.verified.store(bit, Ordering::Release);
    }

    /// Whether a verifier of this kind has accepted the bytes.
    pub(super) fn is_verified_as<V: BufferVerifier>(&self, verifier: &V) -> bool {
        let bit = 1_u64.checked_shl(verifier.kind().into()).unwrap_or(0);
        self.contents.verified.load(Ordering::Acquire) & bit != 0
    }

    /// Takes over whose verifiers accepted the bytes that these are a copy of.
    pub(super) fn copy_verified(&self, original: &Self) {
        self.contents.verified.store(original.contents.verified.load(Ordering::Acquire), Ordering::Release);
    }

    /// Whether anyone but the one who asks holds it. Only under the lock of its shard does the answer last.
    pub(super) fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.contents) > 1
    }

    pub(super) fn charged_bytes(&self) -> u64 {
        self.contents.charge.bytes()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.contents.bytes
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("offset_bytes", &self.offset_bytes())
            .field("length_bytes", &self.len())
            .finish_non_exhaustive()
    }
}

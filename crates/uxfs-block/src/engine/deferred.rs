//! A device that is written to only when a change is certain.
//!
//! Opening an image for changes writes to it: it replays the log and clears stale blocks. A command that then finds nothing to
//! change must leave every byte as it was. So these writes are held back in an overlay, which reads see, and go to the
//! device in front of the first write that follows [`armed`](DeferredDevice::arm).
//!
//! ```text
//! Holding ──arm──▶ Armed ──the next write──▶ Writing
//! writes are kept   as before                 what was kept is written, then everything goes to the device
//! ```
//!
//! A mount for reading holds all writes back: it recovers the log in the overlay, carries that to the device at once where it may
//! ([`write_held`](DeferredDevice::write_held)), and goes on holding writes back until it is to take changes.
//!
//! Each flush while writes are held back begins a layer of the overlay. The layers are written in their order with a flush behind each, so
//! that a crash meanwhile leaves what it would have left without this device: all that came before a flush, and any
//! part of what followed.

use std::{
    os::fd::BorrowedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{RwLock, RwLockWriteGuard};

use super::{hole_filler::HoleFiller, overlay::OverlayDevice};
use crate::device::{Alignment, BlockDevice, DeviceError, Identity, ReadSegment, WriteSegment};

/// Bytes that are carried to the device at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A device that holds writes back. See the module.
#[derive(Debug)]
pub struct DeferredDevice {
    base: Arc<dyn BlockDevice>,
    /// All writes go to the device: requests need not look at what is held back.
    has_begun: AtomicBool,
    held: RwLock<Held>,
}

#[derive(Debug)]
struct Held {
    /// What was written so far; `None` when it is on the device.
    overlay: Option<OverlayDevice>,
    /// The layer that writes go to.
    top: usize,
    /// Layers that are on the device. Where a later one fails, these are not written again: after it, older bytes would take the place of newer
    /// ones.
    written_layers: usize,
    /// The next write is the first change.
    is_armed: bool,
}

impl DeferredDevice {
    /// Holds back what is written to `base`.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        let overlay = Some(OverlayDevice::new(Arc::clone(&base)));
        let held = RwLock::new(Held { overlay, top: 0, written_layers: 0, is_armed: false });
        Self { base, has_begun: AtomicBool::new(false), held }
    }

    /// From now on a write is a change: what was held back goes to the device in front of it.
    pub fn arm(&self) {
        self.held.write().is_armed = true;
    }

    /// Whether anything has been written to the device.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Writes what was held back to the device, and goes on holding back what is written from now on.
    ///
    /// # Errors
    /// The device. What was held back can still be read, and be written later.
    pub fn write_held(&self) -> Result<(), DeviceError> {
        let held = &mut *self.held.write();
        self.write_layers(held)?;
        if held.overlay.is_some() {
            let overlay = Some(OverlayDevice::new(Arc::clone(&self.base)));
            *held = Held { overlay, top: 0, written_layers: 0, is_armed: held.is_armed };
        }
        Ok(())
    }

    /// Writes what was held back to the device, and holds nothing back any more.
    ///
    /// # Errors
    /// The device. Writes are held back as before.
    pub fn begin(&self) -> Result<(), DeviceError> {
        self.write_held()?;
        self.arm();
        self.begin_if_armed().map(drop)
    }

    /// Where writes go now: `None` to the device, otherwise to the overlay of what is held back.
    fn begin_if_armed(&self) -> Result<Option<RwLockWriteGuard<'_, Held>>, DeviceError> {
        if self.has_begun() {
            return Ok(None);
        }
        let mut held = self.held.write();
        if !held.is_armed {
            return Ok(Some(held));
        }
        self.write_layers(&mut held)?;
        held.overlay = None;
        self.has_begun.store(true, Ordering::Release);
        Ok(None)
    }

    fn write_layers(&self, held: &mut Held) -> Result<(), DeviceError> {
        let Held { overlay, top, written_layers, .. } = held;
        if let Some(overlay) = overlay {
            while *written_layers <= *top {
                self.write_layer(overlay, *written_layers)?;
                *written_layers += 1;
            }
        }
        Ok(())
    }

    fn write_layer(&self, overlay: &OverlayDevice, layer: usize) -> Result<(), DeviceError> {
        let runs = overlay.runs(layer);
        let mut bytes = Vec::new();
        for (start, length) in &runs {
            let end = start.saturating_add(*length);
            let mut offset = *start;
            while offset < end {
                let piece = (end - offset).min(PIECE_BYTES);
                bytes.resize(usize::try_from(piece).unwrap_or_default(), 0);
                overlay.read_at_layer(Some(layer), offset, &mut bytes)?;
                self.base.write(offset, &bytes)?;
                offset += piece;
            }
        }
        if runs.is_empty() { Ok(()) } else { self.base.flush() }
    }
}

impl BlockDevice for DeferredDevice {
    fn size_bytes(&self) -> u64 {
        self.base.size_bytes()
    }

    fn alignment(&self) -> Alignment {
        self.base.alignment()
    }

    fn is_read_only(&self) -> bool {
        self.base.is_read_only()
    }

    fn identity(&self) -> Option<Identity> {
        self.base.identity()
    }

    fn engine(&self) -> &'static str {
        self.base.engine()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        if self.has_begun() {
            return self.base.read(offset_bytes, buffer);
        }
        match &self.held.read().overlay {
            Some(overlay) => overlay.read(offset_bytes, buffer),
            None => self.base.read(offset_bytes, buffer),
        }
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        if self.has_begun() {
            return self.base.read_batch(segments);
        }
        match &self.held.read().overlay {
            Some(overlay) => overlay.read_batch(segments),
            None => self.base.read_batch(segments),
        }
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        match self.begin_if_armed()?.as_ref().and_then(|held| held.overlay.as_ref()) {
            Some(overlay) => overlay.write(offset_bytes, bytes),
            None => self.base.write(offset_bytes, bytes),
        }
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        match self.begin_if_armed()?.as_ref().and_then(|held| held.overlay.as_ref()) {
            Some(overlay) => overlay.write_batch(segments),
            None => self.base.write_batch(segments),
        }
    }

    fn share_from_file(
        &self,
        file: BorrowedFd<'_>,
        file_offset_bytes: u64,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Option<u64> {
        // The write that the caller makes instead tells the error.
        match self.begin_if_armed() {
            Ok(None) => self.base.share_from_file(file, file_offset_bytes, offset_bytes, length_bytes),
            _ => None,
        }
    }

    fn lend(
        &self,
        offset_bytes: u64,
        length_bytes: usize,
        pipe: BorrowedFd<'_>,
    ) -> Option<Result<usize, DeviceError>> {
        if self.has_begun() { self.base.lend(offset_bytes, length_bytes, pipe) } else { None }
    }

    fn hole_filler(&self) -> Option<HoleFiller<'_>> {
        if self.has_begun() { self.base.hole_filler() } else { None }
    }

    fn check_length(&self) -> Result<(), DeviceError> {
        self.base.check_length()
    }

    /// Nothing while writes are held back: they are not durable, and a caller that changes something begins before it flushes.
    fn flush(&self) -> Result<(), DeviceError> {
        if self.has_begun() {
            return self.base.flush();
        }
        let mut held = self.held.write();
        let Held { overlay, top, .. } = &mut *held;
        match overlay {
            Some(overlay) if overlay.layer_bytes(*top) > 0 => *top = overlay.begin_layer(),
            Some(_) => {}
            None => return self.base.flush(),
        }
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        match &self.held.read().overlay {
            Some(overlay) => overlay.discard(offset_bytes, length_bytes),
            None => self.base.discard(offset_bytes, length_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::engine::memory::MemoryDevice;

    /// Notes what reaches a device, in order.
    #[derive(Debug)]
    struct Noting {
        inner: MemoryDevice,
        notes: Mutex<Vec<String>>,
    }

    impl BlockDevice for Noting {
        fn size_bytes(&self) -> u64 {
            self.inner.size_bytes()
        }

        fn engine(&self) -> &'static str {
            "noting"
        }

        fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
            self.inner.read(offset_bytes, buffer)
        }

        fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
            self.notes.lock().push(format!("{offset_bytes}+{}", bytes.len()));
            self.inner.write(offset_bytes, bytes)
        }

        fn flush(&self) -> Result<(), DeviceError> {
            self.notes.lock().push("flush".to_owned());
            Ok(())
        }

        fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
            self.inner.discard(offset_bytes, length_bytes)
        }
    }

    #[test]
    fn what_was_held_back_is_written_in_its_order_in_front_of_the_first_change() {
        let base = Arc::new(Noting { inner: MemoryDevice::new(vec![0; 1 << 16]), notes: Mutex::default() });
        let device = DeferredDevice::new(Arc::<Noting>::clone(&base));
        let noted = || std::mem::take(&mut *base.notes.lock());
        device.flush().unwrap();
        device.write(8192, &[1; 4096]).unwrap();
        device.write(512, &[2; 512]).unwrap();
        device.flush().unwrap();
        device.flush().unwrap();
        device.write(8192, &[3; 512]).unwrap();
        let mut seen = [0; 4096];
        device.read(8192, &mut seen).unwrap();
        assert_eq!((seen[0], seen[512]), (3, 1));
        device.arm();
        device.flush().unwrap();
        assert!(!device.has_begun());
        assert_eq!(noted(), Vec::<String>::new(), "nothing was written without a change");
        device.write(0, &[4; 512]).unwrap();
        assert!(device.has_begun());
        assert_eq!(noted(), ["0+4096", "8192+4096", "flush", "8192+4096", "flush", "0+512"]);
        device.read(0, &mut seen).unwrap();
        assert_eq!((seen[0], seen[512], seen[1024]), (4, 2, 0));
        device.flush().unwrap();
        assert_eq!(noted(), ["flush"]);
    }

    #[test]
    fn what_was_held_back_is_written_when_asked_for_and_the_rest_is_held_back() {
        let base = Arc::new(Noting { inner: MemoryDevice::new(vec![0; 1 << 16]), notes: Mutex::default() });
        let device = DeferredDevice::new(Arc::<Noting>::clone(&base));
        let noted = || std::mem::take(&mut *base.notes.lock());
        device.write(0, &[1; 512]).unwrap();
        device.flush().unwrap();
        device.write(4096, &[2; 512]).unwrap();
        device.write_held().unwrap();
        assert_eq!(noted(), ["0+4096", "flush", "4096+4096", "flush"]);
        device.write_held().unwrap();
        device.write(0, &[3; 512]).unwrap();
        device.flush().unwrap();
        assert_eq!(noted(), Vec::<String>::new());
        let mut seen = [0; 512];
        base.read(0, &mut seen).unwrap();
        assert_eq!(seen[0], 1);
        device.read(0, &mut seen).unwrap();
        assert!(seen[0] == 3 && !device.has_begun());
        device.begin().unwrap();
        assert!(device.has_begun());
        assert_eq!(noted(), ["0+4096", "flush"]);
    }

    #[test]
    fn a_device_that_fails_is_written_anew() {
        // Opened for reading, it takes no write at all.
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 16).unwrap();
        let base = crate::engine::open(file.path(), &crate::engine::OpenOptions::default()).unwrap();
        let device = DeferredDevice::new(base);
        device.write(0, &[1; 512]).unwrap();
        device.arm();
        for _ in 0..2 {
            assert!(device.write(4096, &[2; 512]).is_err());
            assert!(!device.has_begun());
        }
        let mut seen = [0; 512];
        device.read(0, &mut seen).unwrap();
        assert_eq!(seen[0], 1, "what was held back is still there");
    }
}

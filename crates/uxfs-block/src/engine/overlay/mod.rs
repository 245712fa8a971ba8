//! A device over a base device. It keeps all writes; the base is never changed.
//!
//! Writes are kept in *layers*. They go to the topmost; reads see the highest layer that has a page, and below all
//! layers the base. [`begin_layer`](OverlayDevice::begin_layer) puts a new one on top, so that what was written between
//! two moments can be distinguished, compared and carried to another device in order.
//!
//! Memory is bounded: pages beyond a limit go to an unlinked temporary file.

mod pages;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;

use self::pages::{PAGE_BYTES, PageStore};
use crate::device::{
    Alignment, BlockDevice, DeviceError, DeviceOperation, ReadSegment, Segment, WriteSegment,
};

/// Pages beyond this many bytes go to a temporary file.
const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;

/// The pages written since a layer began: their numbers, and the place of each in the store. Ordered, so that it can be
/// carried over from the start of the device to its end.
type Layer = BTreeMap<u64, u32>;

/// A device over another. See the module.
#[derive(Debug)]
pub struct OverlayDevice {
    base: Arc<dyn BlockDevice>,
    size_bytes: u64,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    /// The lowest first; at least one.
    layers: Vec<Layer>,
    store: PageStore,
}

impl OverlayDevice {
    /// Over `base`, of the same size, with nothing written.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self::with_memory(base, DEFAULT_MEMORY_BYTES)
    }

    /// As [`new`](Self::new), with this much memory for pages before they go to a file.
    pub fn with_memory(base: Arc<dyn BlockDevice>, memory_bytes: u64) -> Self {
        let state = State { layers: vec![Layer::new()], store: PageStore::new(memory_bytes) };
        Self { size_bytes: base.size_bytes(), base, state: RwLock::new(state) }
    }

    /// The device below.
    pub fn base(&self) -> &Arc<dyn BlockDevice> {
        &self.base
    }

    /// Puts a new layer on top; gives its number. The first is number 0.
    pub fn begin_layer(&self) -> usize {
        let mut state = self.state.write();
        state.layers.push(Layer::new());
        state.layers.len() - 1
    }

    /// Bytes written to a layer, in whole pages.
    pub fn layer_bytes(&self, layer: usize) -> u64 {
        self.state.read().layers.get(layer).map_or(0, |layer| layer.len() as u64 * PAGE_BYTES as u64)
    }

    /// Where a layer has pages, in ascending order: first byte and bytes, neighbours as one.
    pub fn runs(&self, layer: usize) -> Vec<(u64, u64)> {
        let state = self.state.read();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for page in state.layers.get(layer).into_iter().flat_map(BTreeMap::keys) {
            let start = page * PAGE_BYTES as u64;
            let length = (PAGE_BYTES as u64).min(self.size_bytes - start);
            match runs.last_mut() {
                Some((first, bytes)) if *first + *bytes == start => *bytes += length,
                _ => runs.push((start, length)),
            }
        }
        runs
    }

    /// Reads what the device held when the layer above `layer` began; `None` for the base.
    ///
    /// # Errors
    /// As for reading.
    pub fn read_at_layer(
        &self,
        layer: Option<usize>,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Read, offset_bytes, buffer.len())?;
        self.base.read(offset_bytes, buffer)?;
        let layers = layer.map_or(0, |layer| layer + 1);
        self.state.read().patch(layers, offset_bytes, buffer)
    }

    fn check(&self, operation: DeviceOperation, offset_bytes: u64, length: usize) -> Result<(), DeviceError> {
        match offset_bytes.checked_add(length as u64) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(DeviceError::outside(operation, offset_bytes, length as u64)),
        }
    }
}

impl State {
    /// The page as the lowest `layers` layers have it.
    fn find(&self, layers: usize, page: u64) -> Option<u32> {
        self.layers.iter().take(layers).rev().find_map(|layer| layer.get(&page).copied())
    }

    /// Puts what the lowest `layers` layers have over what was read from the base.
    fn patch(&self, layers: usize, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        if self.layers.iter().take(layers).all(BTreeMap::is_empty) {
            return Ok(());
        }
        for part in pages::parts(offset_bytes, buffer.len()) {
            if let Some(slot) = self.find(layers, part.page) {
                self.store.read(slot, part.in_page, &mut buffer[part.in_buffer])?;
            }
        }
        Ok(())
    }
}

impl BlockDevice for OverlayDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// That of the base, so that what it reads need not be copied. Writes may be anything.
    fn alignment(&self) -> Alignment {
        self.base.alignment()
    }

    fn engine(&self) -> &'static str {
        self.base.engine()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.base.read(offset_bytes, buffer)?;
        self.state.read().patch(usize::MAX, offset_bytes, buffer)
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        self.base.read_batch(segments)?;
        let state = self.state.read();
        segments
            .iter_mut()
            .try_for_each(|segment| state.patch(usize::MAX, segment.offset_bytes, segment.buffer))
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Write, offset_bytes, bytes.len())?;
        let mut state = self.state.write();
        let State { layers, store } = &mut *state;
        let mut page_bytes = [0; PAGE_BYTES];
        for part in pages::parts(offset_bytes, bytes.len()) {
            let Some((top, lower)) = layers.split_last_mut() else { return Ok(()) };
            let new = &bytes[part.in_buffer];
            if let Some(slot) = top.get(&part.page) {
                store.write(*slot, part.in_page.start, new)?;
                continue;
            }
            if new.len() < PAGE_BYTES {
                let start = part.page * PAGE_BYTES as u64;
                let length = (PAGE_BYTES as u64).min(self.size_bytes - start) as usize;
                match lower.iter().rev().find_map(|layer| layer.get(&part.page)) {
                    Some(slot) => store.read(*slot, 0..PAGE_BYTES, &mut page_bytes)?,
                    None => self.base.read(start, &mut page_bytes[..length])?,
                }
            }
            page_bytes[part.in_page].copy_from_slice(new);
            let slot = store.add(&page_bytes)?;
            top.insert(part.page, slot);
        }
        Ok(())
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter().try_for_each(|segment| self.write(segment.offset_bytes(), segment.bytes))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Nothing: what was there stays readable, which is as good as anything.
    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        self.check(
            DeviceOperation::Discard,
            offset_bytes,
            usize::try_from(length_bytes).unwrap_or(usize::MAX),
        )
    }
}

#[cfg(test)]
mod tests;

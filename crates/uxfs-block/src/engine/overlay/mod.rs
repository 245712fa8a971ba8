//! A device over a base device. It keeps all writes; the base is never changed.
//!
//! Writes are kept in *layers*. They go to the topmost; reads see the highest layer that has a page, and below all
//! layers the base. [`begin_layer`](OverlayDevice::begin_layer) puts a new one on top, so that what was written between
//! two moments can be distinguished, compared and carried to another device in order.
//!
//! Memory is bounded: pages beyond a limit go to an unlinked temporary file.
//!
//! Where the base fails, what was written over it can be read all the same. Sectors of a page that could not be read when a part of the
//! page was written stay unreadable until they are written: zeros would pass for their contents.

mod pages;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::RwLock;

pub use self::pages::prepare_files;
use self::pages::{PAGE_BYTES, PageStore, Part};
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
    /// Sectors that are not known, one bit each, by the slots of their pages.
    unknown: HashMap<u32, u8>,
}

/// What devices read and write at least.
const SECTOR_BYTES: usize = 512;

impl OverlayDevice {
    /// Over `base`, of the same size, with nothing written.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self::with_memory(base, DEFAULT_MEMORY_BYTES)
    }

    /// As [`new`](Self::new), with this much memory for pages before they go to a file.
    pub fn with_memory(base: Arc<dyn BlockDevice>, memory_bytes: u64) -> Self {
        let store = PageStore::new(memory_bytes);
        let state = State { layers: vec![Layer::new()], store, unknown: HashMap::new() };
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
        self.read_layers(layer.map_or(0, |layer| layer + 1), offset_bytes, buffer)
    }

    /// Reads what the lowest `layers` layers show.
    fn read_layers(&self, layers: usize, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        match self.base.read(offset_bytes, buffer) {
            Ok(()) => self.state.read().patch(layers, offset_bytes, buffer),
            // What lies in a layer is not needed from the base.
            Err(error) => self.state.read().read_parts(layers, (&self.base, error), offset_bytes, buffer),
        }
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
                self.read_page(slot, part, buffer)?;
            }
        }
        Ok(())
    }

    fn read_page(&self, slot: u32, part: Part, buffer: &mut [u8]) -> Result<(), DeviceError> {
        if self.unknown.get(&slot).is_some_and(|unknown| unknown & sectors_of(&part.in_page) != 0) {
            let offset_bytes = part.page * PAGE_BYTES as u64 + part.in_page.start as u64;
            let source = std::io::Error::other("the device could not read these sectors");
            let length_bytes = part.in_page.len() as u64;
            return Err(DeviceError { operation: DeviceOperation::Read, offset_bytes, length_bytes, source });
        }
        self.store.read(slot, part.in_page, &mut buffer[part.in_buffer])
    }

    /// Reads page by page, where the base could not read all of them at once.
    fn read_parts(
        &self,
        layers: usize,
        (base, error): (&Arc<dyn BlockDevice>, DeviceError),
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<(), DeviceError> {
        let is_held = |part: Part| self.find(layers, part.page).is_some();
        if !pages::parts(offset_bytes, buffer.len()).any(is_held) {
            return Err(error);
        }
        for part in pages::parts(offset_bytes, buffer.len()) {
            match self.find(layers, part.page) {
                Some(slot) => self.read_page(slot, part, buffer)?,
                None => {
                    let start = part.page * PAGE_BYTES as u64 + part.in_page.start as u64;
                    base.read(start, &mut buffer[part.in_buffer])?;
                }
            }
        }
        Ok(())
    }
}

/// The sectors that a part of a page touches, one bit each.
fn sectors_of(in_page: &std::ops::Range<usize>) -> u8 {
    let sectors = in_page.start / SECTOR_BYTES..in_page.end.div_ceil(SECTOR_BYTES);
    sectors.fold(0, |mask, sector| mask | 1_u8.checked_shl(sector as u32).unwrap_or(0))
}

/// Reads the part of a page that the device has; gives the sectors that it cannot read.
fn read_page_of(base: &dyn BlockDevice, start: u64, page: &mut [u8]) -> u8 {
    if base.read(start, page).is_ok() {
        return 0;
    }
    let mut unknown = 0;
    for (index, sector) in page.chunks_mut(SECTOR_BYTES).enumerate() {
        let within = index * SECTOR_BYTES;
        if base.read(start + within as u64, sector).is_err() {
            sector.fill(0);
            unknown |= sectors_of(&(within..within + sector.len()));
        }
    }
    unknown
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
        self.read_layers(usize::MAX, offset_bytes, buffer)
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        if self.base.read_batch(segments).is_err() {
            return segments
                .iter_mut()
                .try_for_each(|segment| self.read(segment.offset_bytes, segment.buffer));
        }
        let state = self.state.read();
        segments
            .iter_mut()
            .try_for_each(|segment| state.patch(usize::MAX, segment.offset_bytes, segment.buffer))
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Write, offset_bytes, bytes.len())?;
        let mut state = self.state.write();
        let State { layers, store, unknown } = &mut *state;
        let mut page_bytes = [0; PAGE_BYTES];
        for part in pages::parts(offset_bytes, bytes.len()) {
            let Some((top, lower)) = layers.split_last_mut() else { return Ok(()) };
            let new = &bytes[part.in_buffer];
            // A sector that is written in part stays unknown.
            let whole = part.in_page.start.next_multiple_of(SECTOR_BYTES)
                ..part.in_page.end / SECTOR_BYTES * SECTOR_BYTES;
            let written = if whole.is_empty() { 0 } else { sectors_of(&whole) };
            if let Some(slot) = top.get(&part.page) {
                store.write(*slot, part.in_page.start, new)?;
                unknown.entry(*slot).and_modify(|unknown| *unknown &= !written);
                continue;
            }
            let mut not_read = 0;
            if new.len() < PAGE_BYTES {
                let start = part.page * PAGE_BYTES as u64;
                let length = (PAGE_BYTES as u64).min(self.size_bytes - start) as usize;
                match lower.iter().rev().find_map(|layer| layer.get(&part.page)) {
                    Some(slot) => {
                        store.read(*slot, 0..PAGE_BYTES, &mut page_bytes)?;
                        not_read = unknown.get(slot).copied().unwrap_or(0);
                    }
                    None => not_read = read_page_of(self.base.as_ref(), start, &mut page_bytes[..length]),
                }
            }
            page_bytes[part.in_page].copy_from_slice(new);
            let slot = store.add(&page_bytes)?;
            if not_read & !written != 0 {
                unknown.insert(slot, not_read & !written);
            }
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

//! Devices that are cut off, and devices that take whole units only.

use parking_lot::Mutex;
use uxfs_block::device::{Alignment, BlockDevice, DeviceError, DeviceOperation};
use uxfs_testkit::seeds::Random;

use super::SECTOR_BYTES;

/// What a cut leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// A kill between two requests: all writes before it.
    Clean,
    /// A kill in a write: of this one some sectors.
    Torn,
    /// A loss of power: of all writes since the last flush some sectors.
    Power,
}

/// Fails at a request, writes and flushes counted, and everywhere behind it.
#[derive(Debug)]
pub struct CutDevice {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What reads see.
    current: Vec<u8>,
    /// What a loss of power leaves for certain.
    durable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
    requests: u64,
    cut: Option<(u64, Cut)>,
    random: Random,
}

impl CutDevice {
    pub fn new(bytes: &[u8], cut: Option<(u64, Cut)>, seed: u64) -> Self {
        let (current, durable) = (bytes.to_vec(), bytes.to_vec());
        let random = Random::new(seed);
        Self { state: Mutex::new(State { current, durable, pending: Vec::new(), requests: 0, cut, random }) }
    }

    /// Writes and flushes so far.
    pub fn requests(&self) -> u64 {
        self.state.lock().requests
    }

    /// What the cut has left.
    pub fn remains(&self) -> Vec<u8> {
        let mut state = self.state.lock();
        if !matches!(state.cut, Some((_, Cut::Power))) {
            return state.current.clone();
        }
        let mut bytes = state.durable.clone();
        for (offset, written) in std::mem::take(&mut state.pending) {
            some_sectors(&mut bytes, offset, &written, &mut state.random);
        }
        bytes
    }
}

fn some_sectors(bytes: &mut [u8], offset: usize, written: &[u8], random: &mut Random) {
    for (number, sector) in written.chunks(SECTOR_BYTES).enumerate() {
        if random.below(2) == 0 {
            let start = offset + number * SECTOR_BYTES;
            bytes[start..start + sector.len()].copy_from_slice(sector);
        }
    }
}

fn cut_off(operation: DeviceOperation, offset_bytes: u64, length_bytes: u64) -> DeviceError {
    DeviceError { operation, offset_bytes, length_bytes, source: std::io::Error::other("cut off") }
}

impl BlockDevice for CutDevice {
    fn size_bytes(&self) -> u64 {
        self.state.lock().current.len() as u64
    }

    fn engine(&self) -> &'static str {
        "cut off"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let offset = offset_bytes as usize;
        buffer.copy_from_slice(&self.state.lock().current[offset..offset + buffer.len()]);
        Ok(())
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let offset = offset_bytes as usize;
        state.requests += 1;
        if let Some((at, cut)) = state.cut.filter(|(at, _)| state.requests > *at) {
            if cut != Cut::Clean && state.requests == at + 1 {
                some_sectors(&mut state.current, offset, bytes, &mut state.random);
                state.pending.push((offset, bytes.to_vec()));
            }
            return Err(cut_off(DeviceOperation::Write, offset_bytes, bytes.len() as u64));
        }
        state.current[offset..offset + bytes.len()].copy_from_slice(bytes);
        state.pending.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        state.requests += 1;
        if state.cut.is_some_and(|(at, _)| state.requests > at) {
            return Err(cut_off(DeviceOperation::Flush, 0, 0));
        }
        state.durable = state.current.clone();
        state.pending.clear();
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        Err(cut_off(DeviceOperation::Discard, offset_bytes, length_bytes))
    }
}

/// Refuses writes that are no whole units of 4096 bytes, as direct I/O does.
#[derive(Debug)]
pub struct UnitDevice(pub CutDevice);

impl BlockDevice for UnitDevice {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn alignment(&self) -> Alignment {
        Alignment { offset_bytes: 4096, memory_bytes: 1 }
    }

    fn engine(&self) -> &'static str {
        "units"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(offset_bytes, buffer)
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        assert!(offset_bytes.is_multiple_of(4096) && bytes.len().is_multiple_of(4096), "{offset_bytes}");
        self.0.write(offset_bytes, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.0.flush()
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        self.0.discard(offset_bytes, length_bytes)
    }
}

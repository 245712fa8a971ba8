//! Sectors that a device cannot read, and a device around another that has a text in their place.
//!
//! A repair reads through such a device: what cannot be read is damaged, like anything else that fails its verifier. A sector that could
//! not be read once stays so, even if it could be later: decisions must not change in the middle.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use parking_lot::RwLock;

use crate::device::{
    Alignment, BlockDevice, DeviceError, DeviceOperation, Identity, ReadSegment, WriteSegment,
};

/// What devices read and write at least, in bytes.
const SECTOR_BYTES: usize = 512;
/// Stands for a sector that cannot be read, as often as it takes. Zeros would pass for a log that was never written.
const FILLER: &[u8; 32] = b"uxfs: this could not be read...\n";
/// Sectors that may be unreadable, 32 MiB: a device that cannot read more has failed.
const MOST_SECTORS: usize = 1 << 16;

/// Whether a sector stands for one that could not be read.
pub fn is_filler(sector: &[u8]) -> bool {
    !sector.is_empty() && sector.chunks(FILLER.len()).all(|part| FILLER.starts_with(part))
}

fn fill(sector: &mut [u8]) {
    sector.chunks_mut(FILLER.len()).for_each(|part| part.copy_from_slice(&FILLER[..part.len()]));
}

/// Reads what can be read, with the filler for the rest. Gives the error of the device where some sectors could not be read.
pub fn read_or_fill(device: &dyn BlockDevice, offset_bytes: u64, bytes: &mut [u8]) -> Option<DeviceError> {
    let error = device.read(offset_bytes, bytes).err()?;
    for (start, sector) in (0_u64..).step_by(SECTOR_BYTES).zip(bytes.chunks_mut(SECTOR_BYTES)) {
        if device.read(offset_bytes.saturating_add(start), sector).is_err() {
            fill(sector);
        }
    }
    Some(error)
}

/// Around a device: reads do not fail where single sectors cannot be read. Not to be written.
#[derive(Debug)]
pub struct FilledDevice {
    inner: Arc<dyn BlockDevice>,
    bad: RwLock<BTreeSet<u64>>,
    shows_errors: AtomicBool,
}

impl FilledDevice {
    /// Around this device.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self { inner, bad: RwLock::default(), shows_errors: AtomicBool::new(false) }
    }

    /// From now on sectors that cannot be read are errors again.
    pub fn show_errors(&self) {
        self.shows_errors.store(true, Relaxed);
    }

    /// Sectors of 512 bytes that could not be read so far.
    pub fn bad_sectors(&self) -> usize {
        self.bad.read().len()
    }

    /// Puts the filler over sectors that could not be read earlier.
    fn cover(&self, offset_bytes: u64, bytes: &mut [u8]) {
        let bad = self.bad.read();
        if bad.is_empty() {
            return;
        }
        let sector_bytes = SECTOR_BYTES as u64;
        let end_bytes = offset_bytes.saturating_add(bytes.len() as u64);
        for sector in bad.range(offset_bytes / sector_bytes..end_bytes.div_ceil(sector_bytes)) {
            let mut whole = [0; SECTOR_BYTES];
            fill(&mut whole);
            let start = sector * sector_bytes;
            let (from, to) = (start.max(offset_bytes), (start + sector_bytes).min(end_bytes));
            bytes[(from - offset_bytes) as usize..(to - offset_bytes) as usize]
                .copy_from_slice(&whole[(from - start) as usize..(to - start) as usize]);
        }
    }

    /// Finds out which sectors of a range cannot be read.
    fn find_bad(&self, offset_bytes: u64, bytes: &mut [u8], error: DeviceError) -> Result<(), DeviceError> {
        let end_bytes = offset_bytes.checked_add(bytes.len() as u64);
        if end_bytes.is_none_or(|end| end > self.inner.size_bytes()) {
            return Err(error);
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset_bytes + done as u64;
            let length = (SECTOR_BYTES - (at % SECTOR_BYTES as u64) as usize).min(bytes.len() - done);
            if self.inner.read(at, &mut bytes[done..done + length]).is_err() {
                let mut bad = self.bad.write();
                if bad.len() >= MOST_SECTORS {
                    return Err(error);
                }
                bad.insert(at / SECTOR_BYTES as u64);
            }
            done += length;
        }
        Ok(())
    }
}

impl BlockDevice for FilledDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn alignment(&self) -> Alignment {
        self.inner.alignment()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<Identity> {
        self.inner.identity()
    }

    fn engine(&self) -> &'static str {
        self.inner.engine()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        match self.inner.read(offset_bytes, buffer) {
            Err(error) if self.shows_errors.load(Relaxed) => return Err(error),
            Err(error) => self.find_bad(offset_bytes, buffer, error)?,
            Ok(()) if self.shows_errors.load(Relaxed) => return Ok(()),
            Ok(()) => {}
        }
        self.cover(offset_bytes, buffer);
        Ok(())
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        if self.inner.read_batch(segments).is_err() {
            return segments
                .iter_mut()
                .try_for_each(|segment| self.read(segment.offset_bytes, segment.buffer));
        }
        if !self.shows_errors.load(Relaxed) {
            segments.iter_mut().for_each(|segment| self.cover(segment.offset_bytes, segment.buffer));
        }
        Ok(())
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::outside(DeviceOperation::Write, offset_bytes, bytes.len() as u64))
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter().try_for_each(|segment| self.write(segment.offset_bytes, segment.bytes))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        Err(DeviceError::outside(DeviceOperation::Discard, offset_bytes, length_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{device_wrapper::DeviceWrapper, engine::memory::MemoryDevice};

    /// Cannot read some sectors, until it is told that it can.
    #[derive(Debug)]
    struct Bad {
        inner: MemoryDevice,
        sectors: Vec<u64>,
        is_healed: AtomicBool,
    }

    impl DeviceWrapper for Bad {
        type Inner = MemoryDevice;

        fn inner(&self) -> &MemoryDevice {
            &self.inner
        }

        fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
            let is_hit = |segment: &ReadSegment<'_>, sector: u64| {
                segment.offset_bytes < (sector + 1) * 512
                    && sector * 512 < segment.offset_bytes + segment.buffer.len() as u64
            };
            let fails =
                |segment: &ReadSegment<'_>| self.sectors.iter().any(|sector| is_hit(segment, *sector));
            match segments.iter().any(fails) && !self.is_healed.load(Relaxed) {
                true => Err(DeviceError::outside(DeviceOperation::Read, 0, 512)),
                false => Ok(()),
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_filled_and_stays_so() {
        let inner = MemoryDevice::new(vec![5; 64 << 10]);
        let bad = Arc::new(Bad { inner, sectors: vec![9, 11], is_healed: AtomicBool::new(false) });
        let device = FilledDevice::new(Arc::clone(&bad) as Arc<dyn BlockDevice>);
        let mut bytes = vec![0; 4096];
        let expect = |bytes: &[u8]| {
            for (index, sector) in bytes.chunks(512).enumerate() {
                assert_eq!(is_filler(sector), matches!(index, 1 | 3), "{index}");
                assert!(is_filler(sector) || sector == [5; 512]);
            }
        };
        device.read(4096, &mut bytes).unwrap();
        expect(&bytes);
        bad.is_healed.store(true, Relaxed);
        device.read(4096, &mut bytes).unwrap();
        expect(&bytes);
        let buffer = bytes.as_mut_slice();
        device.read_batch(&mut [ReadSegment { offset_bytes: 4096, buffer }]).unwrap();
        expect(&bytes);
        // Parts of sectors.
        device.read(4096 + 700, &mut bytes[..1000]).unwrap();
        let whole: Vec<u8> = FILLER.iter().copied().cycle().take(512).collect();
        assert_eq!(bytes[..324], whole[188..]);
        assert_eq!((bytes[324], bytes[835], &bytes[836..868]), (5, 5, &FILLER[..]));
        assert_eq!(device.bad_sectors(), 2);
        bad.is_healed.store(false, Relaxed);
        device.show_errors();
        device.read(4096, &mut bytes).unwrap_err();
        assert!(device.read(64 << 10, &mut bytes).is_err());
    }
}

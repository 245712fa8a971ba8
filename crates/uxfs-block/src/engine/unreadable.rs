//! Sectors that a device cannot read: around them, other bytes in their place. And a device that has a text there.
//!
//! A repair reads through such a device: what cannot be read is damaged, like anything else that fails its verifier. A rescue has
//! zeros in place of the text.
//!
//! Invariants:
//! 1. A sector that could not be read once stays so, even if it could be later: decisions must not change in the middle, and each try
//!    may take a failing device seconds.
//! 2. A sector is in the set of those that cannot be read before a read that has other bytes in its place returns.
//! 3. If the host fails rather than the medium, the read fails and nothing is filled in.

use std::{
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::RwLock;

use crate::{
    device::{Alignment, BlockDevice, DeviceError, DeviceOperation, Identity, ReadSegment, WriteSegment},
    ranges::RangeSet,
};

/// What devices read and write at least, in bytes.
const SECTOR_BYTES: u64 = 512;
/// Stands for a sector that cannot be read, as often as it takes. Zeros would pass for a log that was never written.
const FILLER: &[u8; 32] = b"uxfs: this could not be read...\n";
/// Bytes that may be unreadable: a device that cannot read more has failed.
const MOST_BYTES: u64 = 32 << 20;

/// Whether a sector stands for one that could not be read.
pub fn is_filler(sector: &[u8]) -> bool {
    !sector.is_empty() && sector.chunks(FILLER.len()).all(|part| FILLER.starts_with(part))
}

/// Whether any sector in `bytes` is the placeholder of an unreadable one.
pub fn has_filler(bytes: &[u8]) -> bool {
    bytes.chunks(SECTOR_BYTES as usize).any(is_filler)
}

/// Puts bytes in place of those at a place of a device that cannot be read.
pub type Fill = fn(u64, &mut [u8]);

/// Fills what lies at `offset_bytes` of a device with the text.
fn fill_with_text(offset_bytes: u64, bytes: &mut [u8]) {
    let behind_sector = (offset_bytes % FILLER.len() as u64) as usize;
    let text = FILLER.iter().cycle().skip(behind_sector);
    bytes.iter_mut().zip(text).for_each(|(byte, letter)| *byte = *letter);
}

/// Reads what can be read, with the filler for the rest. Gives an error of the device where some sectors could not be read.
///
/// # Errors
/// This machine failed.
pub fn read_or_fill(
    device: &dyn BlockDevice,
    offset_bytes: u64,
    bytes: &mut [u8],
) -> Result<Option<DeviceError>, DeviceError> {
    Unreadable::filled_by(fill_with_text).read(device, offset_bytes, bytes)
}

/// The sectors that a device could not read so far.
#[derive(Debug)]
pub struct Unreadable {
    ranges: RwLock<RangeSet>,
    failed_bytes: AtomicU64,
    fill: Fill,
}

impl Unreadable {
    /// None so far. `fill` puts other bytes in their place.
    pub fn filled_by(fill: Fill) -> Self {
        Self::knowing(RangeSet::default(), fill)
    }

    /// As [`filled_by`](Self::filled_by), with ranges that are not to be tried.
    pub fn knowing(ranges: RangeSet, fill: Fill) -> Self {
        Self { ranges: RwLock::new(ranges), failed_bytes: AtomicU64::new(0), fill }
    }

    /// The parts of a range that cannot be read.
    pub fn within(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.ranges.read().within(range).collect()
    }

    /// Whether some of a range cannot be read.
    pub fn touches(&self, range: Range<u64>) -> bool {
        self.ranges.read().touches(range)
    }

    /// All of them.
    pub fn ranges(&self) -> RangeSet {
        self.ranges.read().clone()
    }

    /// Bytes in sectors in which reading failed, without those that were known before.
    pub fn failed_bytes(&self) -> u64 {
        self.failed_bytes.load(Relaxed)
    }

    /// Reads what can be read, and fills the rest. Gives an error of the device where a sector failed that was not known to.
    ///
    /// # Errors
    /// This machine failed.
    pub fn read(
        &self,
        device: &dyn BlockDevice,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<Option<DeviceError>, DeviceError> {
        let end = offset_bytes.saturating_add(buffer.len() as u64);
        let readable = self.ranges.read().without(offset_bytes..end);
        let (mut position, mut rest, mut error) = (offset_bytes, buffer, None);
        for part in readable {
            let (hole, from_here) = split_at(rest, part.start.saturating_sub(position));
            (self.fill)(position, hole);
            let (piece, after) = split_at(from_here, part.end.saturating_sub(part.start));
            error = self.read_piece(device, part.start, piece)?.or(error);
            (position, rest) = (part.end, after);
        }
        (self.fill)(position, rest);
        Ok(error)
    }

    /// Reads a piece; where that fails, each half of it, down to single sectors.
    fn read_piece(
        &self,
        device: &dyn BlockDevice,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<Option<DeviceError>, DeviceError> {
        if buffer.is_empty() {
            return Ok(None);
        }
        let Err(error) = device.read(offset_bytes, buffer) else { return Ok(None) };
        if error.is_of_host() {
            return Err(error);
        }
        let sector = SECTOR_BYTES.max(device.alignment().offset_bytes.into());
        let first = offset_bytes - offset_bytes % sector;
        let end = offset_bytes.saturating_add(buffer.len() as u64);
        if end <= first.saturating_add(sector) {
            (self.fill)(offset_bytes, buffer);
            self.give_up(first..first.saturating_add(sector).min(device.size_bytes().max(end)));
            return Ok(Some(error));
        }
        let sectors = (end - first).div_ceil(sector);
        let middle = first.saturating_add(sectors.div_ceil(2).saturating_mul(sector));
        let (left, right) = split_at(buffer, middle.saturating_sub(offset_bytes));
        let of_left = self.read_piece(device, offset_bytes, left)?;
        Ok(self.read_piece(device, middle, right)?.or(of_left))
    }

    fn give_up(&self, sector: Range<u64>) {
        let mut ranges = self.ranges.write();
        if !ranges.touches(sector.clone()) {
            self.failed_bytes.fetch_add(sector.end - sector.start, Relaxed);
        }
        ranges.insert(sector);
    }
}

/// As `split_at_mut`, at the end where `length` is behind it.
fn split_at(bytes: &mut [u8], length: u64) -> (&mut [u8], &mut [u8]) {
    let length = usize::try_from(length).map_or(bytes.len(), |length| length.min(bytes.len()));
    bytes.split_at_mut(length)
}

/// Around a device: reads do not fail where single sectors cannot be read. Not to be written.
#[derive(Debug)]
pub struct FilledDevice {
    inner: Arc<dyn BlockDevice>,
    unreadable: Unreadable,
    shows_errors: AtomicBool,
    /// The first failure of the host.
    host_failure: OnceLock<DeviceError>,
}

impl FilledDevice {
    /// Around this device.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self::knowing(inner, RangeSet::default())
    }

    /// As [`new`](Self::new), with ranges that cannot be read, and are not tried.
    pub fn knowing(inner: Arc<dyn BlockDevice>, unread: RangeSet) -> Self {
        Self {
            inner,
            unreadable: Unreadable::knowing(unread, fill_with_text),
            shows_errors: AtomicBool::new(false),
            host_failure: OnceLock::new(),
        }
    }

    /// The first failure of the host, if any. Decisions since then may rest on it.
    pub fn host_failure(&self) -> Option<&DeviceError> {
        self.host_failure.get()
    }

    /// From now on sectors that cannot be read are errors again.
    pub fn show_errors(&self) {
        self.shows_errors.store(true, Relaxed);
    }

    /// Sectors of 512 bytes that could not be read so far.
    pub fn bad_sectors(&self) -> u64 {
        self.unreadable.failed_bytes() / SECTOR_BYTES
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
        let end_bytes = offset_bytes.checked_add(buffer.len() as u64);
        let is_outside = end_bytes.is_none_or(|end| end > self.inner.size_bytes());
        if is_outside || self.shows_errors.load(Relaxed) {
            return self.inner.read(offset_bytes, buffer);
        }
        match self.unreadable.read(self.inner.as_ref(), offset_bytes, buffer) {
            Ok(Some(error)) if self.unreadable.failed_bytes() > MOST_BYTES => Err(error),
            Ok(_) => Ok(()),
            Err(error) => {
                self.host_failure.get_or_init(|| error.copy());
                Err(error)
            }
        }
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        let is_bad = |segment: &ReadSegment<'_>| {
            let end_bytes = segment.offset_bytes.saturating_add(segment.buffer.len() as u64);
            self.unreadable.touches(segment.offset_bytes..end_bytes)
        };
        let is_whole = self.shows_errors.load(Relaxed) || !segments.iter().any(is_bad);
        if is_whole && self.inner.read_batch(segments).is_ok() {
            return Ok(());
        }
        segments.iter_mut().try_for_each(|segment| self.read(segment.offset_bytes, segment.buffer))
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
    use rustix::io::Errno;

    use super::*;
    use crate::{device_wrapper::DeviceWrapper, engine::memory::MemoryDevice};

    /// Cannot read some sectors, until it is told that it can.
    #[derive(Debug)]
    struct Bad {
        inner: MemoryDevice,
        sectors: Vec<u64>,
        errno: Errno,
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
                true => Err(DeviceError {
                    operation: DeviceOperation::Read,
                    offset_bytes: 0,
                    length_bytes: 512,
                    source: self.errno.into(),
                }),
                false => Ok(()),
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_filled_and_stays_so() {
        let inner = MemoryDevice::new(vec![5; 64 << 10]);
        let (sectors, is_healed) = (vec![9, 11], AtomicBool::new(false));
        let bad = Arc::new(Bad { inner, sectors, errno: Errno::IO, is_healed });
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

    /// Invariant 3.
    #[test]
    fn where_this_machine_fails_no_sector_counts_as_unreadable() {
        for errno in [Errno::NOMEM, Errno::AGAIN, Errno::STALE, Errno::ACCESS] {
            let inner = MemoryDevice::new(vec![5; 64 << 10]);
            let bad = Arc::new(Bad { inner, sectors: vec![9], errno, is_healed: AtomicBool::new(false) });
            let device = FilledDevice::new(Arc::clone(&bad) as Arc<dyn BlockDevice>);
            let mut bytes = vec![0; 4096];
            assert!(device.read(4096, &mut bytes).unwrap_err().is_of_host(), "{errno}");
            let buffer = bytes.as_mut_slice();
            device.read_batch(&mut [ReadSegment { offset_bytes: 4096, buffer }]).unwrap_err();
            assert_eq!(device.bad_sectors(), 0);
            bad.is_healed.store(true, Relaxed);
            device.read(4096, &mut bytes).unwrap();
            assert_eq!(bytes, [5; 4096]);
            assert!(device.host_failure().is_some(), "{errno}");
        }
    }
}

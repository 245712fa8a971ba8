//! Kinds of damage, and a damaged device for each number.

use std::{io, ops::Range, sync::Arc};

use anyhow::Result;
use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation, Identity, ReadSegment, WriteSegment},
    ranges::RangeSet,
};
use uxfs_testkit::seeds::Random;

use crate::{field_fuzz::sparse_device::DamagedImage, repair_fuzz::Fixture};

const SECTOR_BYTES: u64 = 512;

/// How an image is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Structures overwritten, exchanged or misdirected.
    Structures,
    /// Fields with the checksum made right, of which there is a second witness.
    Fields,
    /// All structures of one kind are zeros.
    AllOfAKind,
    /// A map says of some ranges that they were not read.
    Unread,
    /// The device cannot read some ranges.
    Failing,
    /// The image ends early.
    Truncated,
    /// Structures overwritten on a device that cannot read some ranges.
    Mixed,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Structures,
        Self::Fields,
        Self::AllOfAKind,
        Self::Unread,
        Self::Failing,
        Self::Truncated,
        Self::Mixed,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Structures => "structures overwritten",
            Self::Fields => "fields with a second witness",
            Self::AllOfAKind => "all structures of a kind",
            Self::Unread => "ranges that a map lacks",
            Self::Failing => "ranges that fail to be read",
            Self::Truncated => "truncated",
            Self::Mixed => "overwritten and failing",
        }
    }

    /// Whether metadata of which there is one copy may be another that passes all checks.
    pub const fn may_change_metadata(self) -> bool {
        matches!(self, Self::Fields)
    }
}

/// A damaged device.
#[derive(Debug)]
pub struct Case {
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// What a map says to be unread.
    pub known: RangeSet,
    /// The damage in words.
    pub words: Vec<String>,
}

impl Case {
    /// The case that follows from these numbers.
    ///
    /// # Errors
    /// The image cannot be read.
    pub fn new(fixture: &Fixture, kind: Kind, random: &mut Random) -> Result<Self> {
        let count = 1 << random.below(6);
        let sound = || fixture.sound();
        Ok(match kind {
            Kind::Structures => Self::overwritten(fixture, count, random)?,
            Kind::Fields => {
                let mut case = fixture.case(count, random);
                // Byte 8 of each chooses a change of a field.
                case.iter_mut().skip(8).step_by(12).for_each(|how| *how %= 192);
                let damaged = fixture.damaged_with_witnesses(&case)?;
                Self { words: damaged.damages.clone(), ..Self::of(damaged.image) }
            }
            Kind::AllOfAKind => {
                let structures = fixture.structures();
                let structure = structures[random.index(structures.len())];
                let damaged = fixture.without(&[structure])?;
                Self { words: vec![format!("all: {structure:?}")], ..Self::of(damaged.image) }
            }
            Kind::Unread => {
                let known = ranges(fixture, count, random);
                Self { words: in_words(&known), known, ..Self::of(sound()) }
            }
            Kind::Failing => Self::of(sound()).failing(ranges(fixture, count, random), u64::MAX),
            Kind::Truncated => {
                let case = Self::of(sound());
                let size_bytes = case.device.size_bytes();
                // Mostly near the end, and never within the first sectors.
                let most = 1 + (size_bytes - 4096) / (1 + random.below(8));
                let kept = size_bytes - random.below(most);
                case.failing(RangeSet::default(), kept)
            }
            Kind::Mixed => {
                let case = Self::overwritten(fixture, count, random)?;
                case.failing(ranges(fixture, count, random), u64::MAX)
            }
        })
    }

    fn of(image: DamagedImage) -> Self {
        Self { device: Arc::new(image), known: RangeSet::default(), words: Vec::new() }
    }

    fn overwritten(fixture: &Fixture, count: usize, random: &mut Random) -> Result<Self> {
        let mut case = fixture.case(count, random);
        case.iter_mut().skip(8).step_by(12).for_each(|how| *how = 192 + *how % 64);
        let damaged = fixture.damaged(&case)?;
        Ok(Self { words: damaged.damages.clone(), ..Self::of(damaged.image) })
    }

    fn failing(mut self, failing: RangeSet, most_bytes: u64) -> Self {
        self.words.extend(in_words(&failing));
        let size_bytes = self.device.size_bytes().min(most_bytes);
        self.words.push(format!("{size_bytes} bytes"));
        self.device = Arc::new(FailingReads { inner: self.device, failing, size_bytes });
        self
    }
}

fn in_words(ranges: &RangeSet) -> Vec<String> {
    ranges.iter().map(|range| format!("unreadable: {range:?}")).collect()
}

/// Ranges of whole sectors: half of them metadata.
fn ranges(fixture: &Fixture, count: usize, random: &mut Random) -> RangeSet {
    let mut ranges = RangeSet::default();
    for sector in fixture.sectors(count.div_ceil(2), random) {
        ranges.insert(sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES);
    }
    let used = fixture.sound().used();
    for _ in 0..count {
        let run: &Range<u64> = &used[random.index(used.len())];
        let first = (run.start + random.below(run.end - run.start)) / SECTOR_BYTES;
        ranges.insert(first * SECTOR_BYTES..(first + 1 + random.below(64)) * SECTOR_BYTES);
    }
    ranges
}

/// Fails each read that touches one of these ranges, and ends early.
#[derive(Debug)]
struct FailingReads {
    inner: Arc<dyn BlockDevice>,
    failing: RangeSet,
    size_bytes: u64,
}

impl BlockDevice for FailingReads {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn identity(&self) -> Option<Identity> {
        None
    }

    fn engine(&self) -> &'static str {
        "failing"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let length_bytes = buffer.len() as u64;
        let end = offset_bytes.saturating_add(length_bytes);
        let operation = DeviceOperation::Read;
        if end > self.size_bytes {
            return Err(DeviceError::outside(operation, offset_bytes, length_bytes));
        }
        if self.failing.touches(offset_bytes..end) {
            // Some of what a failing device gives before it fails is wrong.
            buffer.fill(0xee);
            let source = io::Error::other("a bad sector");
            return Err(DeviceError { operation, offset_bytes, length_bytes, source });
        }
        self.inner.read(offset_bytes, buffer)
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter_mut().try_for_each(|segment| self.read(segment.offset_bytes, segment.buffer))
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::read_only(DeviceOperation::Write, offset_bytes, bytes.len() as u64))
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter().try_for_each(|segment| self.write(segment.offset_bytes, segment.bytes))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        Err(DeviceError::read_only(DeviceOperation::Discard, offset_bytes, length_bytes))
    }
}

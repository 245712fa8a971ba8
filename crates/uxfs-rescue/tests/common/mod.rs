//! Rescues of damaged golden images, judged by the kernel's manifest of the sound image.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;
use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation, ReadSegment},
    engine::sync::SyncDevice,
    ranges::RangeSet,
    zeros::is_zero,
};
use uxfs_extract::directory::{DirectoryOptions, DirectorySink};
use uxfs_rescue::{
    Record, RescueDevice, RescueOptions, State, Summary, rescue,
    run::Report,
    view::{View, ViewOptions, device_for},
};
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    manifest::{self, Details, FileKind, Header, Manifest, WHOLE_HASH_LIMIT_BYTES},
    seeds::Random,
    sparse,
    verdict::portable,
};

/// An image with damage on top: bytes over it, sectors that fail to be read, and an earlier end.
#[derive(Debug)]
pub struct DamagedDevice {
    inner: SyncDevice,
    pub size_bytes: u64,
    pub patches: Vec<(u64, Vec<u8>)>,
    pub failing: RangeSet,
}

impl DamagedDevice {
    pub fn new(image: &Path) -> Self {
        let inner = SyncDevice::open_read_only(image, 0).unwrap();
        let size_bytes = inner.size_bytes();
        Self { inner, size_bytes, patches: Vec::new(), failing: RangeSet::default() }
    }
}

impl BlockDevice for DamagedDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn engine(&self) -> &'static str {
        "damaged"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let end = offset_bytes + buffer.len() as u64;
        if end > self.size_bytes {
            return Err(DeviceError::outside(DeviceOperation::Read, offset_bytes, buffer.len() as u64));
        }
        if self.failing.touches(offset_bytes..end) {
            let source = io::Error::other("a bad sector");
            let operation = DeviceOperation::Read;
            return Err(DeviceError { operation, offset_bytes, length_bytes: buffer.len() as u64, source });
        }
        self.inner.read(offset_bytes, buffer)?;
        for (start, bytes) in &self.patches {
            let (from, to) = (offset_bytes.max(*start), end.min(start + bytes.len() as u64));
            if from < to {
                let piece = &bytes[(from - start) as usize..(to - start) as usize];
                buffer[(from - offset_bytes) as usize..(to - offset_bytes) as usize].copy_from_slice(piece);
            }
        }
        Ok(())
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter_mut().try_for_each(|segment| self.read(segment.offset_bytes, segment.buffer))
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        panic!("a rescue writes to the image");
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        panic!("a rescue discards");
    }
}

/// Collects all records.
#[derive(Debug, Default)]
pub struct Collected {
    pub records: Vec<Record>,
    /// Stops after so many.
    pub most: Option<usize>,
}

impl Report for Collected {
    fn record(&mut self, record: Record) {
        self.records.push(record);
    }

    fn is_interrupted(&self) -> bool {
        self.most.is_some_and(|most| self.records.len() >= most)
    }
}

/// A rescue that has been made.
pub struct Rescued {
    pub folder: TempDir,
    pub records: Vec<Record>,
    pub summary: Summary,
    pub device: Arc<RescueDevice>,
}

impl Rescued {
    pub fn to(&self) -> PathBuf {
        self.folder.path().join("to")
    }
}

/// As the command does it.
pub fn rescue_device(
    device: DamagedDevice,
    known: &RangeSet,
    options: &RescueOptions,
) -> Result<Rescued, uxfs_volume::error::Error> {
    let view_options = ViewOptions::default();
    let inner: Arc<dyn BlockDevice> = Arc::new(device);
    let device = device_for(inner, known.iter(), &view_options);
    let view = View::open(&device, &view_options)?;
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let mut sink = DirectorySink::create(&folder.path().join("to"), DirectoryOptions::default()).unwrap();
    let mut collected = Collected::default();
    let summary = rescue(&device, &view, &mut sink, options, &mut collected).unwrap();
    Ok(Rescued { folder, records: collected.records, summary, device })
}

pub fn rescue_all(device: DamagedDevice, known: &RangeSet) -> Rescued {
    rescue_device(device, known, &RescueOptions::default()).unwrap()
}

/// A golden image, and what the kernel says is in it.
pub struct Truth {
    pub image: PathBuf,
    entries: BTreeMap<Vec<u8>, (FileKind, u64, Details)>,
    /// The sound image, rescued and compared with the kernel's manifest.
    pub sound: Rescued,
}

impl Truth {
    pub fn new(name: &str) -> Self {
        Self::of(&GoldenImage::named(name).unwrap())
    }

    pub fn of(golden: &GoldenImage) -> Self {
        let image = golden.unpacked().unwrap();
        let manifest = golden.manifest().unwrap();
        let sound = rescue_all(DamagedDevice::new(&image), &RangeSet::default());
        Self { image, entries: by_path(manifest), sound }
    }

    /// Compares what is said to be whole with the kernel's manifest, and the rest of partial files with the sound ones.
    pub fn judge(&self, rescued: &Rescued) -> Judged {
        let header = Header { image: String::new(), judge: String::new(), made_by: String::new() };
        let found = by_path(manifest::from_tree(&rescued.to(), header).unwrap());
        let mut judged = Judged { names: self.entries.len(), ..Judged::default() };
        let mut told: BTreeMap<&[u8], &Record> = BTreeMap::new();
        for record in &rescued.records {
            told.insert(&record.path, record);
            let expected = self.entries.get(&record.path);
            let path = String::from_utf8_lossy(&record.path).into_owned();
            let place = record.output.as_ref().map(|output| {
                found.get(output).unwrap_or_else(|| panic!("{path}: nothing is at {}", output.escape_ascii()))
            });
            match record.verdict.state {
                State::Whole => {
                    judged.whole += 1;
                    let Some((kind, _, details)) = expected else { panic!("{path}: whole, and never was") };
                    let (found_kind, _, found) =
                        place.unwrap_or_else(|| panic!("{path}: whole, and nowhere"));
                    assert_eq!(kind, found_kind, "{path}");
                    assert_eq!(details, found, "{path}: called whole: {:?}", record.verdict.reasons);
                    assert_eq!(record.output.as_ref(), Some(&record.path), "{path}");
                    // A tree has no hashes of the largest files.
                    if *kind == FileKind::Regular
                        && found.sha256.is_none()
                        && !std::ptr::eq(rescued, &self.sound)
                    {
                        self.compare_outside(rescued, record);
                    }
                }
                State::Partial => {
                    judged.partial += 1;
                    if record.output.is_some()
                        && expected.is_some_and(|(kind, ..)| *kind == FileKind::Regular)
                    {
                        self.compare_outside(rescued, record);
                    }
                }
                State::PerhapsOlder => judged.perhaps_older += 1,
                State::Inferred => {
                    judged.inferred += 1;
                    judged.inferred_right += usize::from(
                        expected
                            .zip(place)
                            .is_some_and(|(expected, place)| expected.2.sha256 == place.2.sha256),
                    );
                }
                State::Lost => {
                    judged.lost += 1;
                    assert_eq!(record.output, None, "{path}");
                }
            }
        }
        judged.untold = self.entries.keys().filter(|path| !told.contains_key(path.as_slice())).count();
        judged
    }

    /// A partial file is that of the sound image outside of what is said to be missing, and zeros there.
    fn compare_outside(&self, rescued: &Rescued, record: &Record) {
        let path = record.path.escape_ascii().to_string();
        let name = |bytes: &[u8]| PathBuf::from(std::str::from_utf8(bytes).unwrap());
        let expected = File::open(self.sound.to().join(name(&record.path))).unwrap();
        let output = record.output.as_ref().unwrap();
        let found = File::open(rescued.to().join(name(output))).unwrap();
        let size = expected.metadata().unwrap().len();
        if record.missing_bytes > 0 {
            assert!(output.ends_with(b".partial"), "{path} is at {}", output.escape_ascii());
            assert_eq!(found.metadata().unwrap().len(), size, "{path}");
        }
        let mut missing = RangeSet::default();
        for range in &record.missing {
            missing.insert(range.offset_bytes..range.end_bytes());
        }
        assert_eq!(missing.total_bytes(), record.missing_bytes, "{path}");
        let runs = |file: &File| sparse::data_runs(file).unwrap();
        for (start, length) in runs(&expected).into_iter().chain(runs(&found)) {
            let length = length.min(size.saturating_sub(start));
            let (mut one, mut other) = (vec![0; length as usize], vec![0; length as usize]);
            expected.read_exact_at(&mut one, start).unwrap();
            found.read_exact_at(&mut other, start).unwrap();
            for part in missing.within(start..start + length) {
                let part = (part.start - start) as usize..(part.end - start) as usize;
                assert!(is_zero(&other[part.clone()]), "{path}: not zeros at {part:?}");
                one[part].fill(0);
            }
            assert!(one == other, "{path}: wrong bytes behind {start}");
        }
    }
}

/// How a rescue was.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Judged {
    pub names: usize,
    pub whole: usize,
    pub perhaps_older: usize,
    pub inferred: usize,
    /// Of these, those whose contents are right.
    pub inferred_right: usize,
    pub partial: usize,
    pub lost: usize,
    /// Names of the sound image of which no record tells.
    pub untold: usize,
}

/// What a copy keeps, by path without the slash in front.
fn by_path(manifest: Manifest) -> BTreeMap<Vec<u8>, (FileKind, u64, Details)> {
    let mut details_of = BTreeMap::new();
    let inodes: Vec<u64> = manifest.entries.iter().map(|entry| entry.inode.unwrap()).collect();
    let manifest = portable(manifest);
    for (entry, inode) in manifest.entries.iter().zip(&inodes) {
        if let Some(details) = &entry.details {
            let mut details = details.as_ref().clone();
            // Names may be lost.
            details.link_count = None;
            details.access_time = None;
            if details.size_bytes.is_some_and(|size| size > WHOLE_HASH_LIMIT_BYTES) {
                details.sha256 = None;
            }
            details_of.insert(*inode, details);
        }
    }
    let entries = manifest.entries.into_iter().zip(inodes).map(|(entry, inode)| {
        let path = entry.path.0.strip_prefix(b"/").unwrap_or(&entry.path.0).to_vec();
        (path, (entry.kind, inode, details_of[&inode].clone()))
    });
    entries.collect()
}

/// Random ranges among the bytes of an image that are not zero, whole sectors.
pub fn random_ranges(image: &Path, random: &mut Random, count: u64, most_sectors: u64) -> RangeSet {
    let runs = sparse::data_runs(&File::open(image).unwrap()).unwrap();
    let total: u64 = runs.iter().map(|(_, length)| length).sum();
    let mut ranges = RangeSet::default();
    for _ in 0..count {
        let mut place = random.below(total);
        let run = runs.iter().find(|(_, length)| {
            let is_here = place < *length;
            place = if is_here { place } else { place - length };
            is_here
        });
        let start = (run.unwrap().0 + place) / 512 * 512;
        ranges.insert(start..start + (1 + random.below(most_sectors)) * 512);
    }
    ranges
}

//! What mount makes of the log. The dumps are those of uxfs-journal; see its `testdata/make.sh`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use uxfs_block::device::{BlockDevice, DeviceError};
use uxfs_engine::options::{Clock, Generations, LogOptions, MountOptions};
use uxfs_filesystem::mount;
use uxfs_format::{
    checksum,
    fault::{Fault, Structure},
    features::Unsupported,
    field_table::OnDisk,
    geometry::Geometry,
    log::LogFault,
    superblock::{CHECKSUM_OFFSET_BYTES, Superblock},
    units::Lsn,
};
use uxfs_journal::LogState;
use uxfs_volume::error::{Error, OperationError};

/// An image of superblock and log, with zeros elsewhere. Counts what is read.
#[derive(Debug)]
struct Image {
    superblock: Vec<u8>,
    log: Vec<u8>,
    log_start_bytes: u64,
    size_bytes: u64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
}

impl Image {
    fn load(name: &str) -> Self {
        let path = format!("{}/../uxfs-journal/testdata/{name}.zst", env!("CARGO_MANIFEST_DIR"));
        let dump = zstd::decode_all(std::fs::read(path).unwrap().as_slice()).unwrap();
        let (superblock, log) = dump.split_at(4096);
        let geometry = Geometry::new(Superblock::prefix_of(superblock).unwrap());
        let start = geometry.sector_of_block(geometry.log_start.unwrap()).unwrap();
        Self {
            superblock: superblock.to_vec(),
            log: log.to_vec(),
            log_start_bytes: Geometry::byte_of_sector(start),
            size_bytes: geometry.data_size_bytes(),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
        }
    }

    fn byte(&self, offset: u64) -> u8 {
        let in_log = offset.checked_sub(self.log_start_bytes).map(|offset| offset as usize);
        let log = in_log.and_then(|offset| self.log.get(offset));
        *log.or_else(|| self.superblock.get(offset as usize)).unwrap_or(&0)
    }
}

impl BlockDevice for Image {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn engine(&self) -> &'static str {
        "superblock and log"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        for (index, byte) in buffer.iter_mut().enumerate() {
            *byte = self.byte(offset_bytes + index as u64);
        }
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        panic!("reading must not write")
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        panic!("reading must not discard")
    }
}

const IGNORE: MountOptions = MountOptions {
    ignore_dirty_log: true,
    cache_budget_bytes: Some(1 << 20),
    generations: Generations::Random,
    clock: Clock::System,
    is_unfinished: false,
    log: LogOptions {
        is_immediate: false,
        record_size_bytes: 0,
        has_background: false,
        checkpoint_interval: None,
    },
    is_thrown_away: false,
};
const HEED: MountOptions = MountOptions { ignore_dirty_log: false, ..IGNORE };

#[test]
fn a_dirty_log_is_refused_with_its_extent_and_the_remedy_unless_ignored() {
    let image = Arc::new(Image::load("killed-after-clean"));
    let error = mount::open_volume(image.clone(), &HEED).unwrap_err();
    let Error::Operation(OperationError::DirtyLog { records, tail, head }) = error else { panic!("{error}") };
    assert!(records > 0 && tail < head);
    assert!(error.to_string().contains("--ignore-log"), "{error}");
    let (_, log_state) = mount::open_examined(image, &IGNORE).unwrap();
    assert_eq!(log_state, None);
}

#[test]
fn clean_and_empty_logs_are_mounted() {
    let state_of = |image| mount::open_examined(Arc::new(image), &HEED).unwrap().1.unwrap();
    assert!(matches!(state_of(Image::load("clean")), LogState::Clean(_)));
    assert_eq!(state_of(Image::load("fresh")).head(), Some(Lsn::from_parts(1, 2)));
    let mut image = Image::load("fresh");
    image.log.fill(0);
    assert_eq!(state_of(image), LogState::Empty);
}

#[test]
fn a_log_that_is_none_is_a_corruption_with_its_place_unless_ignored() {
    let mut image = Image::load("fresh");
    image.log[..4].copy_from_slice(&[0, 0, 0, 9]);
    let image = Arc::new(image);
    let error = mount::open_volume(image.clone(), &HEED).unwrap_err();
    let Error::Corrupt(corruption) = error else { panic!("{error}") };
    assert_eq!(corruption.structure, Structure::Log);
    assert_eq!(corruption.fault, Fault::Log(LogFault::NotALog { first_cycle: 9 }));
    assert_eq!(corruption.location.sector.unwrap().get() * 512, image.log_start_bytes);
    mount::open_volume(image, &IGNORE).unwrap();
}

#[test]
fn an_external_log_is_refused_by_name_unless_ignored() {
    let mut image = Image::load("clean");
    Superblock::prefix_of_mut(&mut image.superblock).unwrap().log_start.set(0);
    assert!(checksum::seal(&mut image.superblock[..512], CHECKSUM_OFFSET_BYTES));
    let image = Arc::new(image);
    let error = mount::open_volume(image.clone(), &HEED).unwrap_err();
    assert!(matches!(error, Error::Unsupported(Unsupported::ExternalLog)), "{error}");
    mount::open_volume(image, &IGNORE).unwrap();
}

#[test]
fn a_clean_log_costs_little_however_large_it_is() {
    for name in ["fresh", "fresh-su256k", "clean", "clean-wrapped"] {
        let image = Arc::new(Image::load(name));
        mount::open_volume(image.clone(), &HEED).unwrap();
        let (reads, bytes) = (image.reads.load(Ordering::Relaxed), image.read_bytes.load(Ordering::Relaxed));
        assert!(reads <= 40 && bytes <= 3 << 20, "{name}: {reads} reads of {bytes} bytes");
    }
}

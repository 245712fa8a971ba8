//! Log dumps for tests; see `testdata/make.sh` for how each was made.

use std::collections::BTreeMap;

use uxfs_block::{
    device::{BlockDevice, DeviceError},
    engine::memory::MemoryDevice,
};
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    superblock::Superblock,
    units::{Sector, Uuid},
};

use crate::area::{BLOCK, LogArea};

/// The results of xfs_logprint and the kernel for one dump.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) name: String,
    pub(crate) logprint: (u32, u32),
    pub(crate) is_dirty: bool,
    pub(crate) kernel: Option<(u32, u32)>,
}

/// One dump in memory.
#[derive(Debug)]
pub(crate) struct Dump {
    pub(crate) superblock: Vec<u8>,
    pub(crate) log: MemoryDevice,
    pub(crate) uuid: Uuid,
}

fn path(name: &str) -> String {
    format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

impl Dump {
    pub(crate) fn load(name: &str) -> Self {
        let packed = std::fs::read(path(&format!("{name}.zst"))).unwrap();
        let bytes = zstd::decode_all(packed.as_slice()).unwrap();
        let (superblock, log) = bytes.split_at(4096);
        let uuid = Superblock::prefix_of(superblock).unwrap().uuid;
        Self { superblock: superblock.to_vec(), log: MemoryDevice::new(log.to_vec()), uuid }
    }

    /// The sizes of the file system that the dump is from.
    pub(crate) fn geometry(&self) -> Geometry {
        Geometry::new(Superblock::prefix_of(&self.superblock).unwrap())
    }

    /// The dump at its place in an image that has nothing else.
    pub(crate) fn into_image(self) -> ImageWithLog {
        let geometry = self.geometry();
        let start = geometry.sector_of_block(geometry.log_start.unwrap()).unwrap();
        ImageWithLog { log: self.log, start_bytes: Geometry::byte_of_sector(start) }
    }

    pub(crate) fn area(&self) -> LogArea<'_> {
        let blocks = u32::try_from(self.log.size_bytes()).unwrap() / BLOCK as u32;
        LogArea::at(&self.log, Sector::new(0), blocks, self.uuid).unwrap()
    }
}

/// A device that has a log, and reads nowhere else.
#[derive(Debug)]
pub(crate) struct ImageWithLog {
    log: MemoryDevice,
    start_bytes: u64,
}

impl BlockDevice for ImageWithLog {
    fn engine(&self) -> &'static str {
        "log"
    }

    fn size_bytes(&self) -> u64 {
        self.start_bytes + self.log.size_bytes()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.log.read(offset_bytes - self.start_bytes, buffer)
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        panic!("reading a log must not write")
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        panic!("reading a log must not discard")
    }
}

/// All dumps with their judges' words.
pub(crate) fn expectations() -> Vec<Expected> {
    let text = std::fs::read_to_string(path("expected.txt")).unwrap();
    let pair = |tail: &str, head: &str| Some((tail.parse().ok()?, head.parse().ok()?));
    let expected = text.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[1], words[5]), ("logprint", "kernel"), "{line}");
        Expected {
            name: words[0].to_owned(),
            logprint: pair(words[2], words[3]).unwrap(),
            is_dirty: words[4] == "DIRTY",
            kernel: pair(words[6], words[7]),
        }
    });
    expected.collect()
}

/// For each dump: items of each kind in the whole log by `xfs_logprint`, and the sum of their numbers if it prints all.
pub(crate) fn items_of_logprint() -> Vec<(String, BTreeMap<String, u64>, Option<u64>)> {
    let text = std::fs::read_to_string(path("items.txt")).unwrap();
    let items = text.lines().map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let name = words.next().unwrap();
        let mut counts = BTreeMap::new();
        while let (Some(kind), Some(count)) = (words.next(), words.next()) {
            counts.insert(kind, count.parse().unwrap());
        }
        let sum = counts.remove("sum");
        let is_whole = counts.remove("unprinted") == Some(0);
        (name, counts, sum.filter(|_| is_whole))
    });
    items.collect()
}

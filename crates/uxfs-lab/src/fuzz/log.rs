//! A whole log: head and tail, records, transactions, items; and its replay into an image, in memory.

use std::sync::{Arc, LazyLock};

use uxfs_block::{device::BlockDevice, engine::memory::MemoryDevice};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery::recover;
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::record::{MAGIC, MAX_RECORD_BLOCKS, RecordHeader, seal},
    superblock::Superblock,
    units::{Sector, Uuid},
};
use uxfs_journal::{
    area::LogArea,
    listing::{Listing, ListingRange},
    recovery::find_head_tail::examine_area,
};

use crate::crash::{
    image::{Image, ImageDevice},
    tree::Tree,
};
use uxfs_testkit::golden::GoldenImage;

const BLOCK: usize = 512;
/// Longest input: records that wrap, and several transactions over many of the largest records, need more than a few of these.
pub const INPUT_BYTES_MAX: usize = 1 << 20;
/// Memory for metadata while an image is recovered and read.
const CACHE_BYTES: u64 = 8 << 20;

/// An image, and where its log lies: first byte, bytes, and whose it is.
struct Base {
    image: Image,
    start_bytes: u64,
    length_bytes: u64,
    uuid: Uuid,
}

static BASE: LazyLock<Base> = LazyLock::new(|| {
    let path = GoldenImage::dirty_log().unpacked().expect("the golden image");
    let image = Image::load(&path).expect("an image");
    let device = ImageDevice::read_only(image.clone());
    let mut sector = [0; BLOCK];
    device.read(0, &mut sector).expect("a superblock");
    let geometry = Geometry::new(Superblock::prefix_of(&sector).expect("a superblock"));
    let area = LogArea::new(&device, &geometry).expect("a log");
    let start_bytes = Geometry::byte_of_sector(area.sector(0));
    let length_bytes = u64::from(area.blocks()) * BLOCK as u64;
    Base { image, start_bytes, length_bytes, uuid: area.uuid() }
});

/// The beginning of the log of the image that logs are replayed into: a seed.
///
/// # Panics
/// The golden image cannot be unpacked.
pub fn seed(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.min(BASE.length_bytes as usize)];
    BASE.image.read(BASE.start_bytes, &mut bytes).expect("a log");
    bytes
}

/// Lengths of the beginnings of that log that are first inputs.
pub const SEED_KIBIBYTES: [usize; 6] = [4, 16, 40, 64, 256, 1024];

/// Blocks of the smallest log that is looked at; shorter ones are refused at once.
const MIN_BLOCKS: usize = MAX_RECORD_BLOCKS as usize;

/// Runs one input.
///
/// # Panics
/// The listing does not end.
pub fn log(bytes: &[u8]) {
    let (mut log, is_sealed) = (bytes.to_vec(), bytes.len().is_multiple_of(2));
    log.resize(log.len().next_multiple_of(BLOCK).max(MIN_BLOCKS * BLOCK), 0);
    let mut uuid = Uuid::NIL;
    for block in 0..log.len() / BLOCK {
        if log[block * BLOCK..][..4] != MAGIC.to_be_bytes() {
            continue;
        }
        if let Ok(header) = RecordHeader::parse(&log[block * BLOCK..]) {
            uuid = header.uuid;
        }
        if is_sealed {
            reseal(&mut log, block);
        }
    }
    replay(&log);
    let blocks = (log.len() / BLOCK) as u32;
    let device = MemoryDevice::new(log);
    let Ok(area) = LogArea::at(&device, Sector::new(0), blocks, uuid) else { return };
    let _ = examine_area(&area);
    for range in [ListingRange::Active, ListingRange::Everything] {
        let Ok(area) = LogArea::at(&device, Sector::new(0), blocks, uuid) else { return };
        let Ok(listing) = Listing::new(area, range) else { continue };
        assert!(listing.count() <= blocks as usize + 1, "more records than blocks");
    }
}

/// Puts a log into an image that is not its own, replays it there and reads what comes out.
fn replay(log: &[u8]) {
    let mut log = log.get(..BASE.length_bytes as usize).unwrap_or(log).to_vec();
    for block in 0..log.len() / BLOCK {
        if log[block * BLOCK..][..4] == MAGIC.to_be_bytes()
            && let Some(header) = RecordHeader::prefix_of_mut(&mut log[block * BLOCK..])
        {
            header.uuid = BASE.uuid;
            reseal(&mut log, block);
        }
    }
    let mut image = BASE.image.clone();
    let is_there =
        image.fill(BASE.start_bytes, BASE.length_bytes, 0).and_then(|()| image.write(BASE.start_bytes, &log));
    if is_there.is_err() {
        return;
    }
    let device: Arc<dyn BlockDevice> = Arc::new(ImageDevice::read_only(image));
    let options = MountOptions { cache_budget_bytes: Some(CACHE_BYTES), ..MountOptions::default() };
    let Ok(Some(recovered)) = recover(&device, &options, &mut ()) else { return };
    if let Ok(file_system) = recovered.mount(&options) {
        let _ = Tree::read(&file_system);
    }
}

/// Gives the record at `block` a right checksum, if it can be one and does not wrap.
fn reseal(log: &mut [u8], block: usize) {
    let bytes = &mut log[block * BLOCK..];
    let Ok(header) = RecordHeader::parse(bytes).copied() else { return };
    if header.verify_sizes().is_err() || header.blocks() as usize * BLOCK > bytes.len() {
        return;
    }
    let (headers, rest) = bytes.split_at_mut(header.header_blocks() as usize * BLOCK);
    let length = (header.length_bytes.get() as usize).min(rest.len());
    seal(headers, &rest[..length]);
}

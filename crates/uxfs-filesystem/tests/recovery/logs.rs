//! Logs by hand: items behind the head of a clean log.

use std::{path::Path, sync::Arc};

use uxfs_block::{
    device::BlockDevice,
    engine::{self, OpenOptions},
};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery::{RecoveryReport, recover};
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::{
        intent::MapExtent,
        item::{ItemType, LogItemFault},
    },
    superblock::Superblock,
    units::Sector,
};
use uxfs_journal::{
    LogState,
    area::LogArea,
    examine,
    journal::records::{LogGeometry, LogHead, RecordWriter},
};
use uxfs_volume::error::{Error, Result};

/// The regions of an item.
pub type Regions = Vec<Vec<u8>>;

pub fn device(path: &Path) -> Arc<dyn BlockDevice> {
    engine::open(path, &OpenOptions { writable: true, ..OpenOptions::default() }).unwrap()
}

pub fn geometry(path: &Path) -> Geometry {
    let mut sector = vec![0; 4096];
    device(path).read(0, &mut sector).unwrap();
    Geometry::new(Superblock::prefix_of(&sector).unwrap())
}

/// Writes transactions into the log of an image whose log is clean.
pub fn write(path: &Path, transactions: &[Vec<Regions>]) {
    let (device, geometry) = (device(path), geometry(path));
    let LogState::Clean(clean) = examine(device.as_ref(), &geometry).unwrap() else { panic!("a dirty log") };
    let area = LogArea::new(device.as_ref(), &geometry).unwrap();
    let place = LogGeometry {
        start: area.start(),
        blocks: area.blocks(),
        uuid: area.uuid(),
        buffer_size_bytes: 32 << 10,
        unit_bytes: 512,
    };
    let mut head = LogHead { lsn: clean.head, previous_block: clean.newest.block() };
    let (tail, mut window) = (clean.head, Vec::new());
    for (number, items) in (1..).zip(transactions) {
        let mut writer = RecordWriter::new(device.as_ref(), place, head, tail, &mut window);
        writer.begin(number, 0);
        items.iter().flatten().for_each(|region| writer.region(region));
        head = writer.commit(false).unwrap().0;
    }
}

/// Recovers an image in an overlay, and onto it.
pub fn replay(path: &Path) -> Result<RecoveryReport> {
    let recovered = recover(&device(path), &MountOptions::default(), &mut ())?.expect("a dirty log");
    recovered.write()
}

/// What is wrong with the item that makes recovery fail.
pub fn fault(path: &Path) -> LogItemFault {
    match replay(path).unwrap_err() {
        Error::Corrupt(corruption) => match corruption.fault {
            uxfs_format::fault::Fault::LogItem(fault) => fault,
            fault => panic!("{fault}"),
        },
        error => panic!("{error}"),
    }
}

fn words(values: impl IntoIterator<Item = u16>) -> Vec<u8> {
    values.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// A BUF of `sectors` sectors that holds `bytes` from chunk `chunk` on, or is a cancellation where there are none.
pub fn buffer(sector: i64, sectors: u16, flags: u16, chunk: usize, bytes: &[u8]) -> Regions {
    let map_words = (usize::from(sectors) * 4).div_ceil(32).max(1);
    let regions = 1 + u16::from(!bytes.is_empty());
    let mut format = words([ItemType::Buffer.raw(), regions, flags, sectors]);
    format.extend(sector.to_le_bytes());
    format.extend((map_words as u32).to_le_bytes());
    let mut map = vec![0_u8; map_words * 4];
    (chunk..chunk + bytes.len() / 128).for_each(|chunk| map[chunk / 8] |= 1 << (chunk % 8));
    format.extend(map);
    std::iter::once(format).chain((!bytes.is_empty()).then(|| bytes.to_vec())).collect()
}

/// What is in place, as the journal would log it.
pub fn read(path: &Path, sector: Sector, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    device(path).read(Geometry::byte_of_sector(sector), &mut buffer).unwrap();
    buffer
}

/// A BUI.
pub fn extent_map(id: u64, extent: MapExtent) -> Regions {
    vec![uxfs_journal::journal::items::intent::extent_map(id, &extent)]
}

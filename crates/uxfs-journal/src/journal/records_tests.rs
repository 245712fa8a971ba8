//! The reading half finds what was written.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use uxfs_block::{
    device::{Alignment, BlockDevice, DeviceError, WriteSegment},
    device_wrapper::DeviceWrapper,
    engine::{counting::CountingDevice, memory::MemoryDevice},
};
use uxfs_format::log::transaction::TransactionHeader as Header;

use super::*;
use crate::{
    area::LogArea,
    recovery::{
        find_head_tail::{LogState, examine_area},
        read_records::RecordReader,
        transactions::{TransactionAssembler, TransactionInfo, TransactionSink},
    },
};

const BLOCKS: u32 = 8192;

#[derive(Default)]
struct Seen {
    items: Vec<Vec<Vec<u8>>>,
    announced: Vec<u32>,
    commits: Vec<Lsn>,
}

impl TransactionSink for Seen {
    fn begin(&mut self, _: &TransactionInfo, header: &Header) {
        self.announced.push(header.region_count.get());
    }

    fn item(&mut self, _: &TransactionInfo, regions: &[&[u8]]) {
        self.items.push(regions.iter().map(|region| region.to_vec()).collect());
    }

    fn commit(&mut self, transaction: &TransactionInfo) {
        self.commits.push(transaction.start);
    }
}

fn place(buffer_size_bytes: u32, unit_bytes: u32) -> LogGeometry {
    LogGeometry { start: Sector::new(8), blocks: BLOCKS, uuid: Uuid([7; 16]), buffer_size_bytes, unit_bytes }
}

fn read_all(device: &MemoryDevice) -> (LogState, Seen) {
    let area = LogArea::at(device, Sector::new(8), BLOCKS, Uuid([7; 16])).unwrap();
    let state = examine_area(&area).unwrap();
    let mut seen = Seen::default();
    if let LogState::Dirty(log) = state {
        let mut assembler = TransactionAssembler::new();
        let mut reader = RecordReader::new(area, log.tail.block(), log.head.block());
        while let Some(record) = reader.next_record() {
            let record = record.unwrap();
            for operation in record.operations() {
                assembler.operation(&operation.unwrap(), record.header.lsn(), &mut seen).unwrap();
            }
        }
        assert_eq!(assembler.open().count(), 0);
    }
    (state, seen)
}

/// An item of two regions: its head, and `length` bytes.
fn item(seed: u32, length: usize) -> [Vec<u8>; 2] {
    let body = (0..length as u32).map(|index| (index.wrapping_mul(31) ^ seed) as u8).collect();
    let mut head = vec![0x3c, 0x12, 2, 0];
    head.extend_from_slice(&seed.to_le_bytes());
    [head, body]
}

fn checkpoint(
    device: &MemoryDevice,
    place: LogGeometry,
    head: LogHead,
    tail: Lsn,
    items: &[[Vec<u8>; 2]],
) -> Result<LogHead> {
    let mut window = Vec::new();
    let mut writer = RecordWriter::new(device, place, head, tail, &mut window);
    writer.begin(77, 0);
    for item in items {
        item.iter().for_each(|region| writer.region(region));
        writer.write_if_full()?;
    }
    Ok(writer.commit(true)?.0)
}

#[test]
fn checkpoints_of_every_size_come_back() {
    for (buffer, unit) in
        [(32 << 10, 512), (256 << 10, 512), (32 << 10, 4096), (256 << 10, 32 << 10), (64 << 10, 512)]
    {
        let device = MemoryDevice::new(vec![0; (BLOCKS as usize + 8) * BLOCK]);
        let place = place(buffer, unit);
        let mut head = LogHead { lsn: Lsn::from_parts(1, 0), previous_block: u32::MAX };
        for round in 0..60_u32 {
            let lengths: Vec<usize> = match round % 5 {
                0 => vec![4],
                1 => vec![128; 40],
                2 => vec![32 << 10, 4, 65536, 8],
                3 => (1..200).map(|index| index * 4).collect(),
                _ => vec![4096; 90],
            };
            let items: Vec<_> = lengths.iter().map(|length| item(round, *length)).collect();
            let began = head.lsn;
            head = checkpoint(&device, place, head, began, &items).unwrap();
            assert!((head.lsn.block() * 512).is_multiple_of(unit));
            let (state, seen) = read_all(&device);
            assert_eq!(state.head(), Some(head.lsn), "round {round}");
            assert_eq!(state.tail(), Some(began));
            assert_eq!(seen.commits, [began]);
            assert_eq!(seen.announced, [2 * items.len() as u32]);
            assert!(seen.items.iter().zip(&items).all(|(seen, item)| seen[..] == item[..]), "round {round}");
            assert_eq!(seen.items.len(), items.len());
        }
    }
}

#[test]
fn large_checkpoints_go_through_several_windows() {
    let device = MemoryDevice::new(vec![0; (BLOCKS as usize + 8) * BLOCK]);
    let place = place(32 << 10, 512);
    let head = LogHead { lsn: Lsn::from_parts(3, BLOCKS - 100), previous_block: 5 };
    // Blocks ahead are of the cycle before, or of this one behind the end of the ring.
    for block in 0..BLOCKS {
        let cycle: u32 = if block < BLOCKS - 100 { 3 } else { 2 };
        device.write(u64::from(8 + block) * 512, &cycle.to_be_bytes()).unwrap();
    }
    let items: Vec<_> = (0..760).map(|seed| item(seed, 4096)).collect();
    let end = checkpoint(&device, place, head, head.lsn, &items).unwrap();
    assert_eq!(end.lsn.cycle(), 4);
    let (state, seen) = read_all(&device);
    assert_eq!(state.head(), Some(end.lsn));
    assert_eq!(seen.items.len(), items.len());
    assert!(seen.items.iter().zip(&items).all(|(seen, item)| seen[..] == item[..]));
}

/// Invariant 2: flushes follow each other closely enough for the search for the head, and not more closely than they must.
#[test]
fn windows_are_bounded_by_flushes() {
    let device = CountingDevice::new(MemoryDevice::new(vec![0; (BLOCKS as usize + 8) * BLOCK]));
    for buffer_size_bytes in [32 << 10, 256 << 10] {
        let head = LogHead { lsn: Lsn::from_parts(1, 0), previous_block: u32::MAX };
        let mut window = Vec::new();
        let place = place(buffer_size_bytes, 512);
        let mut writer = RecordWriter::new(&device, place, head, head.lsn, &mut window);
        writer.begin(77, 0);
        let began = device.counters();
        let mut last = began;
        for seed in 0..56 {
            item(seed, 64 << 10).iter().for_each(|region| writer.region(region));
            writer.write_if_full().unwrap();
            let now = device.counters();
            let (bytes, flushes) = (now.write_bytes - last.write_bytes, now.flushes - last.flushes);
            assert!(bytes <= WINDOW_BYTES as u64, "{bytes} bytes in a window");
            assert_eq!(flushes, u64::from(bytes > 0));
            last = now;
        }
        writer.commit(false).unwrap();
        let written = device.counters();
        assert!(written.write_bytes - last.write_bytes <= WINDOW_BYTES as u64);
        assert!(written.flushes - began.flushes <= 4, "3.5 MiB of items");
    }
}

#[test]
fn the_head_never_reaches_the_tail() {
    let device = MemoryDevice::new(vec![0; (BLOCKS as usize + 8) * BLOCK]);
    let items: Vec<_> = (0..100).map(|seed| item(seed, 4096)).collect();
    let head = LogHead { lsn: Lsn::from_parts(2, 100), previous_block: 0 };
    let tail = Lsn::from_parts(1, 500);
    let error = checkpoint(&device, place(32 << 10, 512), head, tail, &items).unwrap_err();
    assert!(matches!(error, JournalError::LogFull { room_blocks: 400, .. }), "{error}");
}

#[test]
fn a_closed_log_is_clean() {
    let device = MemoryDevice::new(vec![0; (BLOCKS as usize + 8) * BLOCK]);
    let head = LogHead { lsn: Lsn::from_parts(1, 0), previous_block: u32::MAX };
    let place = place(32 << 10, 512);
    let head = checkpoint(&device, place, head, head.lsn, &[item(1, 100)]).unwrap();
    let mut window = Vec::new();
    let (end, _) = RecordWriter::new(&device, place, head, head.lsn, &mut window).unmount(true).unwrap();
    let (state, _) = read_all(&device);
    assert!(!state.is_dirty());
    assert_eq!(state.head(), Some(end.lsn));
}

/// Takes what direct I/O takes.
#[derive(Debug)]
struct Strict(MemoryDevice);

impl DeviceWrapper for Strict {
    type Inner = MemoryDevice;

    fn inner(&self) -> &MemoryDevice {
        &self.0
    }

    fn required_alignment(&self) -> Alignment {
        Alignment { offset_bytes: 512, memory_bytes: 512 }
    }

    fn before_write(&self, segments: &[WriteSegment<'_>]) -> std::result::Result<(), DeviceError> {
        for segment in segments {
            assert!(segment.offset_bytes.is_multiple_of(512));
            assert!(segment.bytes.as_ptr().addr().is_multiple_of(512));
        }
        Ok(())
    }
}

#[test]
fn direct_io_gets_aligned_memory() {
    let device = Strict(MemoryDevice::new(vec![0; (BLOCKS as usize + 8) * BLOCK]));
    let head = LogHead { lsn: Lsn::from_parts(1, 0), previous_block: u32::MAX };
    for shift in 0..4 {
        let mut window = Vec::with_capacity(1 << 20);
        window.resize(shift, 0);
        let mut writer = RecordWriter::new(&device, place(32 << 10, 512), head, head.lsn, &mut window);
        writer.begin(77, 0);
        item(shift as u32, 90_000).iter().for_each(|region| writer.region(region));
        writer.commit(false).unwrap();
    }
    assert_eq!(read_all(&device.0).1.items.len(), 1);
}

/// Looks at the order of writes at the ends of the log.
#[derive(Debug)]
struct Ordered {
    inner: MemoryDevice,
    is_end_unflushed: AtomicBool,
    rounds: AtomicU32,
}

impl DeviceWrapper for Ordered {
    type Inner = MemoryDevice;

    fn inner(&self) -> &MemoryDevice {
        &self.inner
    }

    fn before_write(&self, segments: &[WriteSegment<'_>]) -> std::result::Result<(), DeviceError> {
        for segment in segments {
            if segment.offset_bytes == 8 * 512 {
                assert!(!self.is_end_unflushed.load(SeqCst), "the end may be lost, and the beginning not");
                self.rounds.fetch_add(1, SeqCst);
            }
            if segment.offset_bytes + segment.bytes.len() as u64 == self.size_bytes() {
                self.is_end_unflushed.store(true, SeqCst);
            }
        }
        Ok(())
    }

    fn before_flush(&self) -> std::result::Result<(), DeviceError> {
        self.is_end_unflushed.store(false, SeqCst);
        Ok(())
    }
}

#[test]
fn the_end_of_the_log_is_durable_before_its_beginning_is_written_again() {
    let device = Ordered {
        inner: MemoryDevice::new(vec![0; (BLOCKS as usize + 8) * BLOCK]),
        is_end_unflushed: AtomicBool::new(false),
        rounds: AtomicU32::new(0),
    };
    let mut head = LogHead { lsn: Lsn::from_parts(1, 0), previous_block: u32::MAX };
    for round in 0..80 {
        let mut window = Vec::new();
        let mut writer = RecordWriter::new(&device, place(32 << 10, 512), head, head.lsn, &mut window);
        writer.begin(77, 0);
        item(round, 200_000 + 512 * round as usize).iter().for_each(|region| writer.region(region));
        head = writer.commit(true).unwrap().0;
        assert_eq!(read_all(&device.inner).0.head(), Some(head.lsn));
    }
    assert!(device.rounds.load(SeqCst) > 3, "otherwise this tests less than it says");
}

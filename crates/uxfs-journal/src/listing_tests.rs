use std::collections::BTreeMap;

use uxfs_format::log::{
    item::{ItemType, LogItem},
    operation::OperationKind,
};

use super::*;
use crate::area::BLOCK;
use crate::testing::{Dump, expectations, items_of_logprint};

/// The sums of a listing.
#[derive(Debug, Default)]
struct Sums {
    kinds: BTreeMap<String, u64>,
    /// Of the numbers of all buffers and inodes.
    numbers: u64,
    faults: Vec<String>,
    records: u32,
    begun: u32,
    committed: u32,
}

impl Sums {
    fn of(dump: &Dump, range: ListingRange) -> Self {
        let mut sums = Self::default();
        for record in Listing::new(dump.area(), range).unwrap() {
            match record {
                Ok(record) => sums.add(&record),
                Err(error) => sums.faults.push(error.to_string()),
            }
        }
        sums
    }

    fn add(&mut self, record: &LoggedRecord) {
        self.records += 1;
        self.faults.extend(record.faults.iter().map(|fault| format!("{}: {fault}", record.block)));
        for item in &record.items {
            *self.kinds.entry(item.name().to_owned()).or_insert(0) += 1;
            self.faults.extend(item.fault.map(|fault| format!("{}: {fault}", record.block)));
            self.numbers += number_of(item);
        }
        for event in &record.events {
            match event {
                TransactionEvent::Begin(..) => self.begun += 1,
                TransactionEvent::Commit(_) => self.committed += 1,
                TransactionEvent::Unmount => {}
            }
        }
    }
}

/// The block or inode number in an item's first part, by its field table.
fn number_of(item: &LoggedItem) -> u64 {
    let name = match item.kind {
        Some(ItemType::Buffer) => "blkno",
        Some(ItemType::Inode) => "ino",
        _ => return 0,
    };
    let field = item.parts[0].fields.iter().find(|field| field.name == name).unwrap();
    assert!(field.little_endian && field.bit_length == 64);
    let start = field.bit_offset as usize / 8;
    u64::from_le_bytes(item.parts[0].bytes[start..start + 8].try_into().unwrap())
}

#[test]
fn what_replay_would_read_decodes_without_a_fault() {
    for expected in expectations() {
        let dump = Dump::load(&expected.name);
        let sums = Sums::of(&dump, ListingRange::Active);
        assert_eq!(sums.faults, Vec::<String>::new(), "{}", expected.name);
        let LogState::Dirty(dirty) = examine_area(&dump.area()).unwrap() else {
            assert_eq!(sums.records, 0);
            continue;
        };
        assert_eq!(sums.records, dirty.records, "{}", expected.name);
        assert!(sums.committed <= sums.begun, "{}", expected.name);
    }
}

#[test]
fn everything_in_a_log_is_what_xfs_logprint_finds() {
    let mut kinds = std::collections::BTreeSet::new();
    for (name, expected, numbers) in items_of_logprint() {
        let sums = Sums::of(&Dump::load(&name), ListingRange::Everything);
        if !sums.faults.is_empty() {
            // xfs_logprint does not look at checksums; records that uxfs leaves out are in its counts.
            assert!(["torn", "hole", "cut", "front"].iter().any(|kind| name.starts_with(kind)), "{sums:?}");
            continue;
        }
        assert_eq!(sums.kinds, expected, "{name}");
        assert_eq!(sums.numbers, numbers.unwrap_or(sums.numbers), "{name}");
        kinds.extend(expected.into_keys());
    }
    for kind in
        ["BUF", "INODE", "ICREATE", "EFI", "EFD", "RUI", "RUD", "CUI", "CUD", "BUI", "BUD", "ATTRI", "XMI"]
    {
        assert!(kinds.contains(kind), "otherwise these tests aren't testing {kind}");
    }
}

/// A record far behind the head of a log that has never come to its end is none: that part is not read.
#[test]
fn what_was_never_written_is_not_read() {
    for (name, is_read) in [("clean", false), ("clean-wrapped", true)] {
        let dump = Dump::load(name);
        let before = Sums::of(&dump, ListingRange::Everything).records;
        let Some(Ok(first)) = Listing::new(dump.area(), ListingRange::Everything).unwrap().next() else {
            panic!("{name} has a record")
        };
        let mut record = vec![0; first.blocks as usize * BLOCK];
        dump.area().read(first.block, &mut record).unwrap();
        // Its header says where it lies.
        let place = dump.area().blocks() - 2 * first.blocks;
        record[20..24].copy_from_slice(&place.to_be_bytes());
        dump.log.write(u64::from(place) * BLOCK as u64, &record).unwrap();
        let head = examine_area(&dump.area()).unwrap().head().unwrap();
        assert_eq!(never_written(&dump.area(), head).unwrap().contains(&place), !is_read, "{name}");
        if !is_read {
            assert_eq!(Sums::of(&dump, ListingRange::Everything).records, before, "{name}");
        }
    }
}

#[test]
fn a_clean_log_ends_with_its_unmount_record() {
    let dump = Dump::load("clean");
    assert_eq!(Sums::of(&dump, ListingRange::Active).records, 0);
    let listing = Listing::new(dump.area(), ListingRange::Everything).unwrap();
    let last = listing.map(Result::unwrap).last().unwrap();
    assert_eq!(last.events, [TransactionEvent::Unmount]);
    assert_eq!(last.operations.len(), 1);
    assert_eq!(last.operations[0].kind, OperationKind::Unmount);
    assert_eq!(last.checksum, ChecksumState::Right);
    let LogState::Clean(clean) = examine_area(&dump.area()).unwrap() else { panic!("not clean") };
    assert_eq!(clean.newest, last.lsn);
}

#[test]
fn the_listing_goes_through_the_geometry_too() {
    let dump = Dump::load("exchange");
    let geometry = dump.geometry();
    let image = dump.into_image();
    let summary = summary(&image, &geometry).unwrap();
    assert!(summary.state.is_dirty());
    let mut verified = 0;
    for record in log_listing(&image, &geometry, ListingRange::Active).unwrap() {
        for item in record.unwrap().items {
            assert_eq!(item.fault, None);
            verified += 1;
        }
    }
    assert!(verified > 100);
}

/// All items of all dumps also lie within their file systems.
#[test]
fn numbers_in_real_items_lie_in_their_file_systems() {
    struct Verify(Geometry, u32);
    impl TransactionSink for Verify {
        fn item(&mut self, _: &TransactionInfo, regions: &[&[u8]]) {
            let item = LogItem::decode(regions).unwrap();
            assert_eq!(item.verify(&self.0), Ok(()), "{item:?}");
            self.1 += 1;
        }
    }
    for expected in expectations().iter().filter(|expected| expected.is_dirty) {
        let dump = Dump::load(&expected.name);
        let state = examine_area(&dump.area()).unwrap();
        let (tail, head) = (state.tail().unwrap().block(), state.head().unwrap().block());
        let mut reader = RecordReader::new(dump.area(), tail, head);
        let (mut sink, mut assembler) = (Verify(dump.geometry(), 0), TransactionAssembler::new());
        while let Some(record) = reader.next_record() {
            let record = record.unwrap();
            for operation in record.operations() {
                assembler.operation(&operation.unwrap(), record.header.lsn(), &mut sink).unwrap();
            }
        }
        assert!(sink.1 > 0, "{}", expected.name);
    }
}

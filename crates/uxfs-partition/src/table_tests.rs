use proptest::prelude::*;
use uxfs_block::{device::BlockDevice, engine::memory::MemoryDevice};

use super::*;
use crate::selection::{SelectionError, Selector};

const SECTOR: usize = 512;
const GUID: [u8; 16] =
    [0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4];

fn put(disk: &mut [u8], at: usize, bytes: &[u8]) {
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

fn device(disk: Vec<u8>) -> MemoryDevice {
    MemoryDevice::new(disk)
}

/// An entry of a master boot record.
fn record_entry(disk: &mut [u8], sector: usize, index: usize, kind: u8, first: u32, count: u32) {
    let at = sector * SECTOR + 446 + 16 * index;
    disk[at + 4] = kind;
    put(disk, at + 8, &first.to_le_bytes());
    put(disk, at + 12, &count.to_le_bytes());
    put(disk, sector * SECTOR + 510, &[0x55, 0xaa]);
}

/// A header in `sector` with its array of entries in `array_sector`.
fn gpt_header(
    disk: &mut [u8],
    sector_bytes: usize,
    sector: u64,
    array_sector: u64,
    change: impl Fn(&mut [u8]),
) {
    let array = array_sector as usize * sector_bytes;
    let mut header = [0; 92];
    put(&mut header, 0, b"EFI PART");
    put(&mut header, 8, &[0, 0, 1, 0, 92, 0, 0, 0]);
    put(&mut header, 24, &sector.to_le_bytes());
    // As sgdisk has it: all between the arrays.
    let (sectors, array_sectors) = ((disk.len() / sector_bytes) as u64, (128 * 128 / sector_bytes) as u64);
    put(&mut header, 32, &(if sector == 1 { sectors - 1 } else { 1 }).to_le_bytes());
    put(&mut header, 40, &(2 + array_sectors).to_le_bytes());
    put(&mut header, 48, &(sectors - 2 - array_sectors).to_le_bytes());
    put(&mut header, 72, &array_sector.to_le_bytes());
    put(&mut header, 80, &[128, 0, 0, 0, 128, 0, 0, 0]);
    let checksum = crc32fast::hash(&disk[array..array + 128 * 128]);
    put(&mut header, 88, &checksum.to_le_bytes());
    change(&mut header);
    let checksum = crc32fast::hash(&header);
    put(&mut header, 16, &checksum.to_le_bytes());
    put(disk, sector as usize * sector_bytes, &header);
}

fn gpt_entry(disk: &mut [u8], array: usize, index: usize, range: (u64, u64), name: &str) {
    let at = array + 128 * index;
    put(disk, at, &GUID);
    put(disk, at + 16, &[index as u8 + 1; 16]);
    put(disk, at + 32, &range.0.to_le_bytes());
    put(disk, at + 40, &range.1.to_le_bytes());
    for (place, unit) in name.encode_utf16().enumerate() {
        put(disk, at + 56 + 2 * place, &unit.to_le_bytes());
    }
}

/// A disk with both copies of a table.
fn gpt_disk(sector_bytes: usize, change: impl Fn(&mut [u8]) + Copy) -> Vec<u8> {
    let mut disk = vec![0; 4 << 20];
    let sectors = disk.len() / sector_bytes;
    record_entry(&mut disk, 0, 0, 0xee, 1, u32::MAX);
    let backup_array = (sectors - 1) - 128 * 128 / sector_bytes;
    for array in [2 * sector_bytes, backup_array * sector_bytes] {
        gpt_entry(&mut disk, array, 0, (40, 47), "boot");
        gpt_entry(&mut disk, array, 4, (48, sectors as u64 - 40), "rööt");
        gpt_entry(&mut disk, array, 5, (9, 8), "backwards");
        gpt_entry(&mut disk, array, 6, (1 << 60, u64::MAX), "far");
    }
    gpt_header(&mut disk, sector_bytes, 1, 2, change);
    gpt_header(&mut disk, sector_bytes, sectors as u64 - 1, backup_array as u64, change);
    disk
}

fn read(disk: &[u8]) -> Result<Option<PartitionTable>, TableError> {
    PartitionTable::read(&device(disk.to_vec()), 512)
}

#[test]
fn guid_tables_with_sectors_of_any_size() {
    for sector_bytes in [512, 4096] {
        let mut disk = gpt_disk(sector_bytes, |_| {});
        // The image is shorter than the disk was.
        disk.truncate(2 << 20);
        let table = read(&disk).unwrap().unwrap();
        assert!(!table.is_backup && table.scheme == Scheme::Gpt);
        assert_eq!(table.impossible, [6, 7]);
        let [boot, root] = table.partitions.as_slice() else { panic!("{table:?}") };
        assert_eq!((boot.number, boot.name.as_str()), (1, "boot"));
        assert_eq!(boot.unique_id, "01010101-0101-0101-0101-010101010101");
        assert_eq!(boot.range(), 40 * sector_bytes as u64..48 * sector_bytes as u64);
        assert_eq!((root.number, root.name.as_str()), (5, "rööt"));
        assert!(root.is_cut() && root.range().end == disk.len() as u64);
    }
}

#[test]
fn the_copy_of_a_guid_table_is_used_when_the_first_is_damaged() {
    let sound = gpt_disk(512, |_| {});
    let expected = read(&sound).unwrap().unwrap();
    // Signature, checksum, place, array.
    for damage in [512, 512 + 16, 512 + 24, 1024 + 60] {
        let mut disk = sound.clone();
        disk[damage] ^= 1;
        let table = read(&disk).unwrap().unwrap();
        assert!(table.is_backup && table.partitions == expected.partitions, "{damage}");
        let last = disk.len() - 512;
        disk[last + 30] ^= 1;
        assert!(matches!(read(&disk), Err(TableError::Damaged)));
    }
}

#[test]
fn no_partition_of_a_guid_table_lies_over_it_or_outside_of_its_range() {
    let sectors = 8192;
    for (range, usable, is_there) in [
        ((34, 100), (34, 8000), true),
        ((33, 100), (34, 8000), false),
        ((34, 8001), (34, 8000), false),
        // The header lies about its range.
        ((0, 100), (0, 9000), false),
        ((1, 100), (0, 9000), false),
        ((2, 2), (0, 9000), false),
        ((33, 40), (0, 9000), false),
        ((100, sectors - 1), (0, 9000), false),
        ((40, sectors - 2), (0, 9000), true),
    ] {
        let mut disk = vec![0; sectors as usize * SECTOR];
        record_entry(&mut disk, 0, 0, 0xee, 1, u32::MAX);
        gpt_entry(&mut disk, 2 * SECTOR, 1, range, "one");
        gpt_header(&mut disk, SECTOR, 1, 2, |header| {
            put(header, 40, &u64::to_le_bytes(usable.0));
            put(header, 48, &u64::to_le_bytes(usable.1));
        });
        let table = read(&disk).unwrap().unwrap();
        assert_eq!(
            (table.partitions.len() == 1, table.impossible.is_empty()),
            (is_there, is_there),
            "{range:?}"
        );
    }
}

#[test]
fn a_guid_table_of_any_size_takes_little_memory() {
    for (field, value) in [(80, u32::MAX), (84, 1 << 30), (84, 100), (84, 0), (80, 1 << 16)] {
        let disk = gpt_disk(512, |header| put(header, field, &value.to_le_bytes()));
        assert!(matches!(read(&disk), Err(TableError::Damaged)), "{field} {value}");
    }
}

#[test]
fn master_boot_records_with_logical_partitions() {
    let mut disk = vec![0; 4 << 20];
    put(&mut disk, 440, &[0x78, 0x56, 0x34, 0x12]);
    record_entry(&mut disk, 0, 0, 0x83, 64, 100);
    record_entry(&mut disk, 0, 2, 0x0f, 1000, 4000);
    record_entry(&mut disk, 1000, 0, 0x83, 63, 10);
    record_entry(&mut disk, 1000, 1, 0x05, 200, 100);
    record_entry(&mut disk, 1200, 0, 0x83, 63, 20);
    let table = read(&disk).unwrap().unwrap();
    let found: Vec<_> = table.partitions.iter().map(|one| (one.number, one.start_bytes / 512)).collect();
    assert_eq!((table.scheme, found.as_slice()), (Scheme::Mbr, [(1, 64), (5, 1063), (6, 1263)].as_slice()));
    assert_eq!(table.partitions[2].unique_id, "12345678-06");
    // The chain leads back to its beginning, with and without partitions: those before that are there, as for Linux.
    record_entry(&mut disk, 1200, 1, 0x05, 0, 100);
    assert_eq!(read(&disk).unwrap().unwrap(), table);
    record_entry(&mut disk, 1000, 0, 0, 0, 0);
    record_entry(&mut disk, 1200, 0, 0, 0, 0);
    let numbers = |disk: &[u8]| {
        read(disk).unwrap().unwrap().partitions.iter().map(|one| one.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&disk), [1]);
    // Only an entry of no length is unused; a second chain goes on counting; the last two entries of a record count where they can be.
    record_entry(&mut disk, 0, 1, 0, 300, 10);
    record_entry(&mut disk, 0, 3, 0x05, 6000, 400);
    for (index, first, count) in [(0, 1, 5), (1, 10, 5), (2, 20, 5), (3, 399, 2)] {
        record_entry(&mut disk, 6000, index, 0, first, count);
    }
    assert_eq!(numbers(&disk), [1, 2, 5, 6, 7]);
}

#[test]
fn other_beginnings_have_no_table() {
    let mut boot_sector = vec![0xcc; 1 << 20];
    put(&mut boot_sector, 510, &[0x55, 0xaa]);
    for disk in [vec![0; 1 << 20], vec![0; 100], Vec::new(), boot_sector] {
        assert_eq!(read(&disk).unwrap(), None);
    }
}

#[test]
fn partitions_are_chosen_by_number_name_and_identity() {
    let mut disk = gpt_disk(512, |_| {});
    let superblock = include_bytes!("../../uxfs-format/testdata/superblock.bin");
    put(&mut disk, 48 * 512, superblock);
    put(&mut disk, 48 * 512 + 108, b"boot\0\0\0\0\0\0\0\0");
    let device = device(disk);
    let table = PartitionTable::read(&device, 512).unwrap().unwrap();
    let uuid = crate::file_system::XfsIdentity::read(&device, &table.partitions[1]).unwrap().unwrap().uuid;
    let number = |text: &str| {
        let selector: Selector = text.parse().unwrap();
        assert_eq!(selector.to_string(), text);
        table.select(&device, &selector).map(|partition| partition.number)
    };
    for (text, expected) in [
        ("1", 1),
        ("5", 5),
        ("rööt", 5),
        ("PARTLABEL=boot", 1),
        ("LABEL=boot", 5),
        ("PARTUUID=01010101-0101-0101-0101-010101010101", 1),
        (uuid.as_str(), 5),
        (&format!("UUID={}", uuid.to_uppercase()), 5),
    ] {
        assert_eq!(number(text).unwrap(), expected, "{text}");
    }
    assert!(matches!(number("boot"), Err(SelectionError::Several { numbers, .. }) if numbers == [1, 5]));
    assert!(matches!(number("6"), Err(SelectionError::Impossible(6))));
    for text in ["2", "bot", "LABEL=rööt", "4294967296"] {
        assert!(matches!(number(text), Err(SelectionError::None(_))), "{text}");
    }
    assert!("".parse::<Selector>().is_err() && "UUID=".parse::<Selector>().is_err());
}

proptest! {
    /// Invariants 1 and 2.
    #[test]
    fn every_partition_lies_on_the_disk(
        bytes in proptest::collection::vec((0_usize..3 << 10, any::<u8>()), 1..40),
        has_gpt in any::<bool>(),
        length in 0_usize..=4 << 20,
    ) {
        let mut disk = gpt_disk(512, |_| {});
        if !has_gpt {
            disk[446 + 4] = 0x0f;
        }
        bytes.into_iter().for_each(|(at, byte)| disk[at] = byte);
        // Headers whose checksums are right, whatever they say.
        let mut header = disk[512..604].to_vec();
        header[16..20].fill(0);
        let checksum = crc32fast::hash(&header);
        put(&mut disk, 512 + 16, &checksum.to_le_bytes());
        disk.truncate(length);
        let device = device(disk);
        if let Ok(Some(table)) = PartitionTable::read(&device, 512) {
            prop_assert!(table.partitions.len() <= MOST_PARTITIONS);
            for partition in &table.partitions {
                let range = partition.range();
                prop_assert!(range.start < range.end && range.end <= device.size_bytes());
            }
        }
    }
}

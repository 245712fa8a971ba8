use super::*;
use crate::{
    fault::Structure::DirectoryData,
    name_tree::golden::{geometry, golden, patched},
};

#[test]
fn golden_block_reads_as_xfs_db_prints_it() {
    let (golden, geometry) = (golden(DirectoryData), geometry());
    let data = DataBlock::parse(&golden.bytes, &geometry).unwrap();
    let records: Vec<_> = data.records().map(Result::unwrap).collect();
    let DataRecord::Entry(first) = records[0] else { panic!("an entry") };
    assert_eq!((first.offset_bytes, first.tag, first.name), (0x40, 0x40, &b"a_longer_name_126"[..]));
    assert_eq!((first.inode.get(), first.file_type()), (0xc00be, Some(FileType::Regular)));
    assert_eq!(records[3], DataRecord::Free { offset_bytes: 0xa0, length_bytes: 0x20 });
    let free = records.iter().filter(|record| matches!(record, DataRecord::Free { .. })).count();
    assert_eq!((records.len(), free), (126, 18));
    assert_eq!(data.entry_at(0x60).unwrap().name, b"a_longer_name_127");
    assert_eq!(data.entry_at(0xa0), Err(DirectoryDataFault::Tag { offset_bytes: 0xa0, tag: FREE_TAG }));
    assert!(data.entry_at(0x48).is_err(), "the middle of an entry");
}

#[test]
fn each_check_of_records_rejects_its_damage() {
    use DirectoryDataFault as F;
    let past_end = F::RecordPastEnd { offset_bytes: 0xfe0, length_bytes: 0x30, end_bytes: 0x1000 };
    let free_past_end = F::RecordPastEnd { offset_bytes: 0xf80, length_bytes: 0x88, end_bytes: 0x1000 };
    let cases: &[(&str, usize, &[u8], F)] = &[
        ("entry past the end", 0xfe8, &[29], past_end),
        ("free region past the end", 0xf82, &[0, 0x88], free_past_end),
        ("free length", 0xa2, &[0, 0x1e], F::FreeLength { offset_bytes: 0xa0, length_bytes: 0x1e }),
        ("no free length", 0xa2, &[0, 0], F::FreeLength { offset_bytes: 0xa0, length_bytes: 0 }),
        ("tag of an entry", 0x5e, &[0, 0x48], F::Tag { offset_bytes: 0x40, tag: 0x48 }),
        ("tag of a free region", 0xbe, &[0, 0x40], F::Tag { offset_bytes: 0xa0, tag: 0x40 }),
        ("slash", 0x4a, b"/", F::NameCharacter { offset_bytes: 0x40 }),
        ("zero byte", 0x4a, &[0], F::NameCharacter { offset_bytes: 0x40 }),
        ("file type", 0x5a, &[9], F::FileType { offset_bytes: 0x40, value: 9 }),
        (
            "inode",
            0x40,
            &[0, 1],
            F::InodeNumber { offset_bytes: 0x40, inode: InodeNumber::new(0x1_0000_000c_00be) },
        ),
        (
            "best free length",
            0x36,
            &[0, 0x18],
            F::BestFree { index: 1, offset_bytes: 0x180, length_bytes: 0x18 },
        ),
        (
            "best free offset",
            0x34,
            &[1, 0x40],
            F::BestFree { index: 1, offset_bytes: 0x140, length_bytes: 0x20 },
        ),
        (
            "best free twice",
            0x34,
            &[0, 0xa0],
            F::BestFree { index: 1, offset_bytes: 0xa0, length_bytes: 0x20 },
        ),
        ("best free missing", 0x38, &[0; 4], F::BestFreeMissing { offset_bytes: 0x260, length_bytes: 0x20 }),
    ];
    for (name, offset, value, fault) in cases {
        assert_eq!(patched(DirectoryData, &[(*offset, value)]), Err((*fault).into()), "{name}");
    }
}

#[test]
fn a_name_of_no_length_is_rejected() {
    // The smallest entry, so that the next one is found: 16 bytes, then a free region for the rest.
    let entry = [0, 0, 0, 0, 0, 0x0c, 0, 0xbe, 0, 1, 0, 0, 0, 0, 0, 0x40];
    let free = [0xff, 0xff, 0, 0x10];
    let patches: [(usize, &[u8]); 3] = [(0x40, &entry), (0x50, &free), (0x5e, &[0, 0x50])];
    let fault = DirectoryDataFault::NameLength { offset_bytes: 0x40 };
    assert_eq!(patched(DirectoryData, &patches), Err(fault.into()));
}

#[test]
fn free_regions_side_by_side_are_rejected() {
    let patches: [(usize, &[u8]); 2] = [(0xa2, &[0, 0x10]), (0xae, &[0, 0xa0])];
    let second: [(usize, &[u8]); 3] =
        [(0xb0, &[0xff, 0xff, 0, 0x10]), (0xbe, &[0, 0xb0]), (0x32, &[0, 0x10])];
    let result = patched(DirectoryData, &[patches.as_slice(), &second].concat());
    // The first region is the longest in the header, so the list is met first; make it agree.
    assert_eq!(result, Err(DirectoryDataFault::AdjacentFree { offset_bytes: 0xb0 }.into()));
}

#[test]
fn entries_without_a_file_type_are_a_byte_shorter() {
    let (with, without) = (EntryFormat { has_file_type: true }, EntryFormat { has_file_type: false });
    assert_eq!((with.entry_size_bytes(5), without.entry_size_bytes(5)), (24, 16));
    assert_eq!((with.first_offset_bytes(), without.first_offset_bytes()), (0x60, 0x60));
    let entry = [0, 0, 0, 0, 0, 0, 0, 9, 5, b'a', b'b', b'c', b'd', b'e', 0, 0];
    let entry = entry_at(&entry, 0, 16, without).unwrap();
    assert_eq!((entry.name, entry.inode.get(), entry.file_type()), (&b"abcde"[..], 9, None));
}

use super::*;
use crate::{
    fault::Structure::DirectoryShortform,
    name_tree::golden::{Golden, geometry, golden, patched},
};

#[test]
fn golden_directory_reads_as_xfs_db_prints_it() {
    let (golden, geometry) = (golden(DirectoryShortform), geometry());
    let directory = Shortform::parse(&golden.bytes, &geometry).unwrap();
    assert_eq!((directory.count, directory.large_count, directory.parent.get()), (2, 0, 0x40));
    let entries: Vec<_> = directory.entries().map(Result::unwrap).collect();
    assert_eq!((entries[0].name, entries[0].data_offset), (&b"a"[..], 0x60));
    assert_eq!((entries[0].inode.get(), entries[0].file_type()), (0x44, Some(FileType::Regular)));
    assert_eq!((entries[1].name, entries[1].pointer().get()), (&b"ccc"[..], 0x80 >> 3));
}

#[test]
fn each_check_rejects_its_damage() {
    use DirectoryShortformFault as F;
    let far = InodeNumber::new(0xff00_0044);
    let cases: &[(&str, usize, &[u8], F)] = &[
        ("parent", 2, &[0; 4], F::Parent { inode: InodeNumber::new(0) }),
        ("count", 0, &[1], F::TrailingBytes { count: 1, walked_bytes: 15, end_bytes: 26 }),
        ("more", 0, &[3], F::EntryPastEnd { index: 2, offset_bytes: 26, end_bytes: 26 }),
        ("name length", 15, &[200], F::EntryPastEnd { index: 1, offset_bytes: 15, end_bytes: 26 }),
        ("no name", 6, &[0], F::NameLength { index: 0 }),
        ("slash", 9, b"/", F::NameCharacter { index: 0 }),
        ("file type", 10, &[9], F::FileType { index: 0, value: 9 }),
        ("inode", 11, &[0xff], F::InodeNumber { index: 0, inode: far }),
        ("place", 7, &[0, 0x58], F::DataOffset { index: 0, found: 0x58, least: 0x60 }),
        ("alignment", 7, &[0, 0x61], F::DataOffsetAlignment { index: 0, found: 0x61 }),
        ("order", 16, &[0, 0x68], F::DataOffset { index: 1, found: 0x68, least: 0x70 }),
        ("overflow", 16, &[0x0f, 0xd0], F::BlockOverflow { needed_bytes: 0xfe0 + 40 }),
    ];
    for (name, offset, value, fault) in cases {
        assert_eq!(patched(DirectoryShortform, &[(*offset, value)]), Err((*fault).into()), "{name}");
    }
}

/// The golden directory with all inode numbers of 8 bytes, `large_count` of them said to need that.
fn large(large_count: u8) -> Golden {
    let mut golden = golden(DirectoryShortform);
    golden.bytes = vec![2, large_count, 0, 0, 0, 0, 0, 0, 0, 0x40];
    golden.bytes.extend([1, 0, 0x60, b'a', 1, 0, 0, 0, 0, 0, 0, 0, 0x44]);
    golden.bytes.extend([3, 0, 0x80, b'c', b'c', b'c', 1, 0, 0, 0, 0, 0, 0, 0, 0x46]);
    golden
}

#[test]
fn inode_numbers_take_eight_bytes_only_where_one_needs_them() {
    let fault = DirectoryShortformFault::LargeCount { count: 1, found: 0 };
    assert_eq!(large(1).verify(), Err(fault.into()));
    let geometry = geometry();
    let bytes = large(1).bytes;
    let directory = Shortform::parse(&bytes, &geometry).unwrap();
    let inodes: Vec<u64> = directory.entries().map(|entry| entry.unwrap().inode.get()).collect();
    assert_eq!((directory.parent.get(), inodes), (0x40, vec![0x44, 0x46]));
}

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use uxfs_format::superblock::Superblock;

use super::*;

fn geometry() -> Geometry {
    let bytes = include_bytes!("../../../uxfs-format/testdata/superblock.bin");
    Geometry::new(Superblock::parse(bytes).unwrap().0)
}

const CHUNK: usize = INODES_PER_CHUNK as usize;

/// Two groups, the second with two chunks; every inode is in use.
fn table_within(memory_limit_bytes: usize) -> InodeTable {
    let mut table = InodeTable::new(memory_limit_bytes);
    for starts in [&[64][..], &[64, 192]] {
        table.begin_group();
        for start in starts {
            let chunk = InodeChunk { free: 0, free_count: 0, ..InodeChunk::new(AgInode::new(*start)) };
            table.add(&chunk);
        }
    }
    table
}

/// One in memory and one in a file.
fn tables() -> [InodeTable; 2] {
    [table_within(usize::MAX), table_within(0)]
}

fn find(table: &InodeTable, group: u32, inode: u32) -> Option<Ordinal> {
    let geometry = geometry();
    table.find(&geometry, geometry.inode_number(AgNumber::new(group), AgInode::new(inode)))
}

#[test]
fn numbers_and_ordinals_belong_together() {
    let geometry = geometry();
    for table in tables() {
        let all: Vec<Ordinal> = table.iter().collect();
        assert_eq!(all.len(), 3 * CHUNK);
        for ordinal in all {
            assert_eq!(table.find(&geometry, table.number(&geometry, ordinal)), Some(ordinal));
        }
        for (group, inode) in [(0, 63), (0, 128), (1, 128), (1, 256), (2, 64)] {
            assert_eq!(find(&table, group, inode), None, "{group} {inode}");
        }
    }
}

/// What a table says in a file is what it says in memory, however little memory it has.
#[test]
fn a_table_that_does_not_fit_into_memory_says_the_same() {
    let geometry = geometry();
    let groups = geometry.ag_count;
    let fill = |memory_limit_bytes| {
        let mut table = InodeTable::new(memory_limit_bytes);
        for group in 0..groups {
            table.begin_group();
            // Group 1 has no chunks; all others end within a page.
            for place in 0..if group == 1 { 0 } else { 100 + group } {
                let start = 64 + 64 * (place + place / 7);
                let free = u64::from(place) * 0x0101_0101;
                let mut chunk = InodeChunk { free, ..InodeChunk::new(AgInode::new(start)) };
                chunk.free_count = free.count_ones();
                table.add(&chunk);
            }
            for inode in (64..6400).step_by(97) {
                if let Some(ordinal) = find(&table, group, inode) {
                    assert_eq!(table.note_unlinked(ordinal), Some(true));
                    assert_eq!(table.note_unlinked(ordinal), Some(false));
                }
            }
        }
        for (index, ordinal) in table.iter().enumerate().filter(|(index, _)| index % 5 != 0) {
            let file_type = if index % 3 == 0 { FileType::Directory } else { FileType::Regular };
            table.set(ordinal, file_type, 3);
        }
        let all: Vec<Ordinal> = table.iter().collect();
        for (index, ordinal) in all.iter().enumerate() {
            match table.file_type(*ordinal) {
                Some(FileType::Directory) => {
                    let parent = all[(index * 7919) % all.len()];
                    table.note_parent(*ordinal, parent, ParentWitness::Entry);
                }
                _ => table.add_name(*ordinal),
            }
        }
        table
    };
    let describe = |table: &InodeTable| -> Vec<_> {
        let describe = |ordinal| {
            let number = table.number(&geometry, ordinal);
            let (group, _) = geometry.split_inode_number(number).unwrap();
            let marks = (table.may_be_unlinked(group, ordinal), table.is_named(ordinal));
            (number, table.file_type(ordinal), table.missing_names(ordinal), marks, table.follow(ordinal))
        };
        table.iter().map(describe).collect()
    };
    let in_memory = describe(&fill(usize::MAX));
    assert!(in_memory.len() > 10_000);
    for memory_limit_bytes in [0, 40_000, 100_000] {
        let table = fill(memory_limit_bytes);
        assert_eq!(describe(&table), in_memory);
        assert!(table.take_failure().is_none());
    }
}

#[test]
fn parents_must_agree() {
    let table = table_within(usize::MAX);
    let at = |inode| find(&table, 0, inode).unwrap();
    let (directory, one, other) = (at(64), at(65), at(66));
    use ParentWitness::{DotDot, Entry};
    assert_eq!(table.note_parent(directory, one, DotDot), ParentNote::Agrees);
    assert!(!table.is_named(directory));
    assert_eq!(table.note_parent(directory, one, Entry), ParentNote::Agrees);
    assert_eq!(table.note_parent(directory, one, Entry), ParentNote::NamedBefore);
    let contradiction = ParentNote::Contradicts { dot_dot: other, named_in: one };
    assert_eq!(table.note_parent(directory, other, DotDot), contradiction);
    assert_eq!(table.note_parent(at(67), other, DotDot), ParentNote::Agrees);
    assert_eq!(table.note_parent(at(67), one, Entry), contradiction);
}

#[test]
fn each_cycle_is_found_once() {
    let table = table_within(0);
    let at = |inode| find(&table, 0, inode).unwrap();
    let below = |inode, parent| table.note_parent(at(inode), at(parent), ParentWitness::Entry);
    table.reach(at(64));
    for (inode, parent) in [(65, 64), (66, 65), (70, 71), (71, 72), (72, 70), (73, 72), (80, 80)] {
        assert_eq!(below(inode, parent), ParentNote::Agrees);
    }
    let found: Vec<_> = (64..=80).filter_map(|inode| table.follow(at(inode))).collect();
    assert_eq!(found, [at(70), at(80)]);
}

#![allow(clippy::unwrap_used)]

use std::mem::size_of;

use uxfs_format::superblock::Superblock;

use super::*;

fn geometry() -> Geometry {
    let bytes = include_bytes!("../../../uxfs-format/testdata/superblock.bin");
    Geometry::new(Superblock::parse(bytes).unwrap().0)
}

/// Two groups, the second with two chunks; every inode is in use.
fn table() -> InodeTable {
    let mut table = InodeTable::default();
    for starts in [&[64][..], &[64, 192]] {
        table.begin_group();
        for start in starts {
            let chunk = InodeChunk { free: 0, free_count: 0, ..InodeChunk::new(AgInode::new(*start)) };
            table.add(&chunk);
        }
        table.end_group();
    }
    table
}

fn find(table: &InodeTable, group: u32, inode: u32) -> Option<Ordinal> {
    let geometry = geometry();
    table.find(&geometry, geometry.inode_number(AgNumber::new(group), AgInode::new(inode)))
}

#[test]
fn a_chunk_takes_as_much_memory_as_the_crate_says() {
    assert_eq!(size_of::<Chunk>(), 336);
}

#[test]
fn numbers_and_ordinals_belong_together() {
    let (table, geometry) = (table(), geometry());
    let all: Vec<Ordinal> = table.iter().collect();
    assert_eq!(all.len(), 3 * CHUNK);
    for ordinal in all {
        assert_eq!(table.find(&geometry, table.number(&geometry, ordinal)), Some(ordinal));
    }
    for (group, inode) in [(0, 63), (0, 128), (1, 128), (1, 256), (2, 64)] {
        assert_eq!(find(&table, group, inode), None, "{group} {inode}");
    }
}

#[test]
fn parents_must_agree() {
    let table = table();
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
    let table = table();
    let at = |inode| find(&table, 0, inode).unwrap();
    let below = |inode, parent| table.note_parent(at(inode), at(parent), ParentWitness::Entry);
    table.reach(at(64));
    for (inode, parent) in [(65, 64), (66, 65), (70, 71), (71, 72), (72, 70), (73, 72), (80, 80)] {
        assert_eq!(below(inode, parent), ParentNote::Agrees);
    }
    let found: Vec<_> = (64..=80).filter_map(|inode| table.follow(at(inode))).collect();
    assert_eq!(found, [at(70), at(80)]);
}

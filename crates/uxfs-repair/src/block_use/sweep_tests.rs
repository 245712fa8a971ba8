#![allow(clippy::unwrap_used)]

use uxfs_format::{
    btree::reverse_map::Mapping,
    units::{FileBlock, InodeNumber},
};

use super::*;
use crate::block_use::{
    edges::{EdgeSorter, Edges},
    list::BlockUse,
};

const LENGTH: u32 = 100;
const KNOWN: Known = Known {
    group: AgNumber::new(3),
    are_structures_complete: true,
    are_files_complete: true,
    is_reverse_map_complete: true,
    has_reference_counts: true,
};

fn one(kind: UseKind, mapping: Mapping) -> BlockUse {
    let (start, end) = (mapping.start.get(), mapping.end().get());
    BlockUse { group: 3, start, end, kind, owner: UseOwner::of(&mapping) }
}

fn own(blocks: Range<u32>, owner: Owner) -> Mapping {
    Mapping::of_group(AgBlock::new(blocks.start), blocks.end - blocks.start, owner)
}

fn file(blocks: Range<u32>, inode: u64, file_block: u64) -> Mapping {
    let file_block = FileBlock::new(file_block);
    Mapping { file_block, ..own(blocks, Owner::Inode(InodeNumber::new(inode))) }
}

fn free(blocks: Range<u32>) -> BlockUse {
    one(UseKind::Free, own(blocks, Owner::GroupBtrees))
}

fn shown(mapping: Mapping) -> BlockUse {
    one(UseKind::Shown, mapping)
}

fn counted(blocks: Range<u32>, count: u32) -> BlockUse {
    one(UseKind::Counted(count), own(blocks, Owner::ReferenceCountBtree))
}

fn sentences(compare: impl FnOnce(&Sink<'_>)) -> Vec<String> {
    let mut all = Vec::new();
    let mut take = |finding: Finding| {
        all.push(finding.to_string());
        std::ops::ControlFlow::Continue(())
    };
    compare(&Sink::new(&mut take));
    all
}

fn edges(uses: &[BlockUse]) -> Edges {
    let mut sorter = EdgeSorter::new(0);
    uses.iter().for_each(|one| sorter.add(one));
    sorter.finish().unwrap()
}

fn space(known: &Known, uses: &[BlockUse]) -> Vec<String> {
    sentences(|sink| compare_space(sink, known, &mut edges(uses).space, LENGTH).unwrap())
}

fn owners(known: &Known, uses: Vec<BlockUse>) -> Vec<String> {
    sentences(|sink| compare_owners(sink, known, &mut edges(&uses).owners).unwrap())
}

/// Far more than is kept in memory: the one fault is found all the same.
#[test]
fn a_group_may_have_any_number_of_extents() {
    const EXTENTS: u32 = 50_000;
    let mut uses = Vec::new();
    for index in (0..EXTENTS).rev() {
        let blocks = index * 2..index * 2 + 2;
        let mapping = file(blocks, 128 + u64::from(index % 1000), u64::from(index) * 3);
        uses.push(shown(mapping));
        if index != 33_333 {
            uses.push(one(UseKind::Mapped, mapping));
        }
    }
    uses.push(free(40_000..40_001));
    let mut edges = edges(&uses);
    let found = sentences(|sink| {
        compare_space(sink, &KNOWN, &mut edges.space, EXTENTS * 2).unwrap();
        compare_owners(sink, &KNOWN, &mut edges.owners).unwrap();
    });
    assert_eq!(
        found,
        [
            "free and in use by inode 128: block 40000 of allocation group 3",
            "the reverse mapping btree does not name inode 461 as owner: blocks 66666 to 66667 of allocation group 3",
        ]
    );
}

#[test]
fn blocks_that_are_used_once_or_as_often_as_counted_are_sound() {
    let uses = [
        shown(own(0..4, Owner::GroupHeaders)),
        shown(file(4..20, 128, 0)),
        shown(file(10..14, 129, 7)),
        counted(10..14, 2),
        shown(own(20..30, Owner::CowStaging)),
        free(30..100),
    ];
    assert!(space(&KNOWN, &uses).is_empty());
}

#[test]
fn each_fault_is_found_with_all_of_its_blocks() {
    let uses = [
        shown(own(0..4, Owner::GroupHeaders)),
        shown(file(3..6, 128, 0)),
        free(5..10),
        shown(file(12..20, 128, 9)),
        shown(file(12..20, 129, 0)),
        counted(12..16, 3),
        free(20..100),
        counted(30..32, 2),
    ];
    assert_eq!(
        space(&KNOWN, &uses),
        [
            "used by inode 128 and by group headers: block 3 of allocation group 3",
            "free and in use by inode 128: block 5 of allocation group 3",
            "neither free nor in use: blocks 10 to 11 of allocation group 3",
            "reference count 3 where 2 files share the blocks: blocks 12 to 15 of allocation group 3",
            "reference count 1 where 2 files share the blocks: blocks 16 to 19 of allocation group 3",
            "reference count 2 where 0 files share the blocks: blocks 30 to 31 of allocation group 3",
        ]
    );
    let without_counts = Known { has_reference_counts: false, ..KNOWN };
    let found = space(&without_counts, &[free(0..10), shown(file(10..20, 1, 0)), shown(file(15..100, 2, 0))]);
    assert_eq!(found, ["used by inode 1 and by inode 2: blocks 15 to 19 of allocation group 3"]);
}

#[test]
fn what_could_not_be_read_is_no_proof() {
    let partly = Known { are_files_complete: false, ..KNOWN };
    let uses = [free(0..50), shown(file(60..70, 1, 0)), counted(60..70, 2), shown(file(40..41, 1, 20))];
    assert_eq!(space(&partly, &uses), ["free and in use by inode 1: block 40 of allocation group 3"]);
    let mapped = vec![one(UseKind::Mapped, file(60..70, 2, 0)), shown(file(0..5, 1, 0))];
    let missing =
        "the reverse mapping btree does not name inode 1 as owner: blocks 0 to 4 of allocation group 3";
    assert_eq!(owners(&partly, mapped.clone()), [missing]);
    let no_map = Known { is_reverse_map_complete: false, are_files_complete: false, ..KNOWN };
    assert!(owners(&no_map, mapped).is_empty());
}

#[test]
fn owners_are_compared_however_extents_are_divided() {
    let mut uses = vec![
        one(UseKind::Mapped, file(10..30, 128, 100)),
        shown(file(20..30, 128, 110)),
        shown(file(10..20, 128, 100)),
        one(UseKind::Mapped, own(0..4, Owner::GroupHeaders)),
        shown(own(0..4, Owner::GroupHeaders)),
    ];
    assert!(owners(&KNOWN, uses.clone()).is_empty());
    // Other blocks of the file, and a block of another file.
    uses.push(shown(file(40..42, 128, 500)));
    uses.push(one(UseKind::Mapped, file(40..42, 128, 501)));
    uses.push(one(UseKind::Mapped, file(50..51, 129, 0)));
    assert_eq!(
        owners(&KNOWN, uses),
        [
            "the reverse mapping btree does not name inode 128 as owner: blocks 40 to 41 of allocation group 3",
            "the reverse mapping btree names inode 128 as owner, which does not have them: blocks 40 to 41 of allocation group 3",
            "the reverse mapping btree names inode 129 as owner, which does not have them: block 50 of allocation group 3",
        ]
    );
}

//! Work and the extents of intents, both ways, on the sizes of a golden superblock.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use uxfs_format::{
    log::{
        extent_map::ExtentMapOperation, reference_count::ReferenceCountOperation,
        reverse_map::ReverseMapOperation,
    },
    superblock::{Copy, Superblock},
};

use super::*;

fn geometry() -> Geometry {
    let bytes = include_bytes!("../../../../uxfs-format/testdata/superblock.bin");
    let (superblock, sector) = Superblock::parse(bytes).unwrap();
    superblock.verify(sector, Copy::Primary).unwrap();
    Geometry::new(superblock)
}

fn owners(operation: ReverseMapOperation, mapping: Mapping) -> Work {
    Work::Owners { operation, group: AgNumber::new(2), mapping }
}

#[test]
fn work_becomes_an_intent_and_back() {
    let geometry = geometry();
    let file = Mapping {
        file_block: FileBlock::new(1 << 40),
        is_unwritten: true,
        ..Mapping::of_group(AgBlock::new(77), 5, Owner::Inode(InodeNumber::new(4711)))
    };
    let attribute = Mapping { is_unwritten: false, is_attribute_fork: true, ..file };
    let extent_map = Mapping::of_extent_map(AgBlock::new(8), InodeNumber::new(99), true);
    let staging = Mapping::of_group(AgBlock::new(9), 3, Owner::CowStaging);
    let mut all = vec![
        owners(ReverseMapOperation::Map, file),
        owners(ReverseMapOperation::MapShared, file),
        owners(ReverseMapOperation::Unmap, attribute),
        owners(ReverseMapOperation::UnmapShared, file),
        owners(ReverseMapOperation::Convert, file),
        owners(ReverseMapOperation::ConvertShared, file),
        owners(ReverseMapOperation::Unmap, extent_map),
        owners(ReverseMapOperation::Allocate, staging),
        owners(ReverseMapOperation::Free, staging),
    ];
    let operations = [
        ReferenceCountOperation::Increase,
        ReferenceCountOperation::Decrease,
        ReferenceCountOperation::AllocateCow,
        ReferenceCountOperation::FreeCow,
    ];
    all.extend(operations.map(|operation| Work::References {
        operation,
        group: AgNumber::new(3),
        start: AgBlock::new(1000),
        length_blocks: 17,
    }));
    for (operation, fork, is_unwritten) in [
        (ExtentMapOperation::Map, Fork::Data, true),
        (ExtentMapOperation::Unmap, Fork::Data, false),
        (ExtentMapOperation::Unmap, Fork::Attribute, false),
    ] {
        let start = geometry.fs_block(AgNumber::new(3), AgBlock::new(800)).unwrap();
        let extent = Extent { file_block: FileBlock::new(1 << 33), start, length_blocks: 70, is_unwritten };
        all.push(Work::ExtentMap { operation, inode: InodeNumber::new(131), fork, extent });
    }
    let owner = FreedOwner::Unknown;
    let (group, start) = (AgNumber::new(1), AgBlock::new(500));
    all.push(Work::Free { group, start, length_blocks: 1, owner });
    for work in all {
        let intent = work.to_intent(&geometry).unwrap();
        assert_eq!(Work::from_intent(&intent, &geometry), Some(work));
    }
}

#[test]
fn flags_are_those_of_the_log() {
    let file = Mapping {
        is_unwritten: true,
        ..Mapping::of_group(AgBlock::new(77), 5, Owner::Inode(InodeNumber::new(4711)))
    };
    let Some(IntentExtent::ReverseMap(extent)) =
        owners(ReverseMapOperation::MapShared, file).to_intent(&geometry())
    else {
        unreachable!("an RUI");
    };
    assert_eq!(extent.flags.get(), 1 << 29 | 2);
    assert_eq!((extent.owner.get(), extent.start_block.get()), (4711, 2 << 15 | 77));
}

#[test]
fn intents_that_make_no_sense_are_no_work() {
    let geometry = geometry();
    let free = |start, length_blocks| {
        let extent = FreedExtent {
            start_block: U64::new(start),
            length_blocks: U32::new(length_blocks),
            padding: U32::new(0),
        };
        Work::from_intent(&IntentExtent::Free(extent), &geometry)
    };
    assert!(free(500, 1).is_some());
    assert_eq!(free(32767, 2), None, "over the end of a group");
    assert_eq!(free(4 << 15, 1), None, "no such group");
    assert_eq!(free(500, 0), None);
    let extent = PhysicalExtent { start_block: U64::new(9), length_blocks: U32::new(1), flags: U32::new(5) };
    assert_eq!(Work::from_intent(&IntentExtent::ReferenceCount(extent), &geometry), None);
}

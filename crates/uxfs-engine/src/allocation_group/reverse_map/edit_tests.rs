//! Beside a naive model that knows the owners of each block.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use proptest::prelude::*;
use uxfs_format::{fault::Fault, units::InodeNumber};
use uxfs_testkit::ownership::OwnerModel;

use super::*;
use crate::allocation_group::record_tree::list::ListTree;

type Tree = ListTree<ReverseMap>;

const BOTH: [Sharing; 2] = [Sharing::Exclusive, Sharing::Possible];

fn mapping(start: u32, length_blocks: u32, owner: u64, file_block: u64) -> Mapping {
    Mapping {
        start: AgBlock::new(start),
        length_blocks,
        owner: Owner::Inode(InodeNumber::new(owner)),
        file_block: FileBlock::new(file_block),
        is_attribute_fork: false,
        is_extent_map_block: false,
        is_unwritten: false,
    }
}

fn read(tree: &Tree) -> Vec<Mapping> {
    tree.records.iter().map(ReverseMapRecord::get).collect()
}

fn fault_of(result: Result<()>) -> ReverseMapFault {
    match result {
        Err(Error::Corrupt(corruption)) => match corruption.fault {
            Fault::ReverseMap(fault) => fault,
            other => panic!("{other}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The tree that holds a model's list.
fn tree_of(model: &OwnerModel) -> Tree {
    let mut tree = Tree::new();
    tree.records = model.mappings().into_iter().map(ReverseMapRecord::from).collect();
    tree
}

/// Each of five blocks of one file, in a row in the file too, is free, written or unwritten: all such states, all
/// changes of each.
#[test]
fn all_changes_of_all_states_of_five_blocks_end_merged() {
    let state_of = |number: u32, block: u32| number / 3u32.pow(block) % 3;
    for number in 0..3u32.pow(5) {
        let mut model = OwnerModel::default();
        for block in (0..5).filter(|block| state_of(number, *block) > 0) {
            let is_unwritten = state_of(number, block) == 2;
            model.map(&Mapping { is_unwritten, ..mapping(10 + block, 1, 99, 50 + u64::from(block)) });
        }
        for sharing in BOTH {
            let base = if sharing == Sharing::Possible { with_others(&model) } else { model.clone() };
            for (start, length, is_unwritten) in ranges(5) {
                let whole = mapping(10 + start, length, 99, 50 + u64::from(start));
                change_in_all_ways(&base, Mapping { is_unwritten, ..whole }, sharing);
            }
        }
    }
}

/// Other files with the same blocks, so that their records lie between those of the first.
fn with_others(model: &OwnerModel) -> OwnerModel {
    let mut model = model.clone();
    model.map(&mapping(9, 7, 98, 9));
    model.map(&mapping(11, 1, 100, 7));
    model.map(&mapping(12, 2, 97, 0));
    // The same file has some of its blocks a second time.
    model.map(&mapping(12, 3, 99, 4));
    model
}

fn ranges(blocks: u32) -> impl Iterator<Item = (u32, u32, bool)> {
    let ranges = (0..blocks).flat_map(move |start| (1..=blocks - start).map(move |length| (start, length)));
    ranges.flat_map(|(start, length)| [(start, length, false), (start, length, true)])
}

fn change_in_all_ways(base: &OwnerModel, wanted: Mapping, sharing: Sharing) {
    let opposite = Mapping { is_unwritten: !wanted.is_unwritten, ..wanted };
    let single = |block: u32| {
        let skip = u64::from(block - wanted.start.get());
        let file_block = FileBlock::new(wanted.file_block.get() + skip);
        Mapping { start: AgBlock::new(block), length_blocks: 1, file_block, ..wanted }
    };
    let blocks = || wanted.start.get()..wanted.end().get();
    let is_free = blocks()
        .map(single)
        .all(|one| !base.has(&one) && !base.has(&Mapping { is_unwritten: !one.is_unwritten, ..one }));
    let check = |change: &dyn Fn(&mut Tree) -> Result<()>, model: OwnerModel| {
        let mut tree = tree_of(base);
        change(&mut tree).unwrap();
        assert_eq!(read(&tree), model.mappings(), "{wanted:?} {sharing:?} from {:?}", base.mappings());
    };
    let mut model = base.clone();
    if is_free {
        model.map(&wanted);
        check(&|tree| map(tree, wanted, sharing), model);
    } else if base.has(&wanted) {
        model.unmap(&wanted);
        check(&|tree| unmap(tree, wanted, sharing), model);
        if sharing == Sharing::Exclusive {
            let mut tree = tree_of(base);
            let fault = fault_of(unmap_unknown(&mut tree, wanted.start, wanted.length_blocks));
            assert!(matches!(fault, ReverseMapFault::NotOwned { .. }), "a file's");
            assert_eq!(tree.changes, 0);
        }
    } else if base.has(&opposite) {
        model.convert(&wanted);
        check(&|tree| convert(tree, wanted, sharing), model);
    } else if sharing == Sharing::Exclusive {
        // Some of it only: whatever is tried, the tree is left as it was.
        let mut tree = tree_of(base);
        let fault = fault_of(map(&mut tree, wanted, sharing));
        assert!(matches!(fault, ReverseMapFault::AlreadyOwned { .. }));
        assert!(matches!(fault_of(unmap(&mut tree, wanted, sharing)), ReverseMapFault::NotOwned { .. }));
        assert!(matches!(fault_of(convert(&mut tree, wanted, sharing)), ReverseMapFault::NotOwned { .. }));
        assert_eq!(tree.changes, 0);
    }
}

#[test]
fn owners_that_are_no_files_merge_whatever_lies_between() {
    let special = |start, length_blocks, owner| Mapping { owner, ..mapping(start, length_blocks, 0, 0) };
    let block = |start, inode| Mapping { is_extent_map_block: true, ..mapping(start, 1, inode, 0) };
    let attribute = |start, inode| Mapping { is_attribute_fork: true, ..block(start, inode) };
    let owners = [Owner::GroupBtrees, Owner::InodeChunks, Owner::CowStaging, Owner::ReferenceCountBtree];
    let mut tree = Tree::new();
    for owner in owners {
        tree.records.clear();
        for start in [10, 12, 11] {
            map(&mut tree, special(start, 1, owner), Sharing::Exclusive).unwrap();
        }
        assert_eq!(read(&tree), [special(10, 3, owner)]);
        unmap(&mut tree, special(11, 1, owner), Sharing::Exclusive).unwrap();
        assert_eq!(read(&tree), [special(10, 1, owner), special(12, 1, owner)]);
    }
    tree.records.clear();
    for mapping in [block(5, 70), block(6, 70), attribute(7, 70), block(8, 70), block(9, 71)] {
        map(&mut tree, mapping, Sharing::Exclusive).unwrap();
    }
    let two = Mapping { length_blocks: 2, ..block(5, 70) };
    assert_eq!(read(&tree), [two, attribute(7, 70), block(8, 70), block(9, 71)]);
    unmap(&mut tree, block(6, 70), Sharing::Exclusive).unwrap();
    unmap(&mut tree, attribute(7, 70), Sharing::Exclusive).unwrap();
    assert_eq!(read(&tree), [block(5, 70), block(8, 70), block(9, 71)]);
    let fault = fault_of(unmap(&mut tree, block(9, 70), Sharing::Exclusive));
    let owner = Owner::Inode(InodeNumber::new(70));
    assert_eq!(fault, ReverseMapFault::NotOwned { start: AgBlock::new(9), length_blocks: 1, owner });
}

#[test]
fn file_blocks_decide_what_goes_on() {
    let mut tree = Tree::new();
    let pieces =
        [mapping(10, 5, 70, 0), mapping(15, 5, 70, 6), mapping(20, 5, 70, 11), mapping(25, 5, 71, 16)];
    for piece in pieces {
        map(&mut tree, piece, Sharing::Exclusive).unwrap();
    }
    assert_eq!(read(&tree), [pieces[0], mapping(15, 10, 70, 6), pieces[3]]);
    let attribute = Mapping { is_attribute_fork: true, ..mapping(30, 5, 71, 21) };
    map(&mut tree, attribute, Sharing::Exclusive).unwrap();
    assert_eq!(tree.records.len(), 4, "the other fork");
}

#[test]
fn an_intent_without_owner_takes_all_or_finds_nothing() {
    let btrees = |first, length| Mapping::of_group(AgBlock::new(first), length, Owner::GroupBtrees);
    let block = Mapping::of_extent_map(AgBlock::new(30), InodeNumber::new(71), false);
    let start = [btrees(10, 10), Mapping { length_blocks: 10, ..block }, mapping(50, 10, 72, 0)];
    let tree = || tree_of(&OwnerModel::of(start));
    let unknown = |tree: &mut Tree, first, length| unmap_unknown(tree, AgBlock::new(first), length);
    for (first, length) in [(5, 5), (20, 10), (40, 1), (0, 10)] {
        let mut tree = tree();
        unknown(&mut tree, first, length).unwrap();
        assert_eq!(read(&tree), start, "done before");
    }
    for (first, length) in [(5, 6), (15, 10), (20, 11), (29, 2), (15, 20), (39, 2), (50, 10), (52, 3)] {
        let mut tree = tree();
        let fault = fault_of(unknown(&mut tree, first, length));
        assert!(matches!(fault, ReverseMapFault::NotOwned { .. }), "{first} {length}");
        assert_eq!(read(&tree), start);
    }
    let mut tree = tree();
    unknown(&mut tree, 12, 3).unwrap();
    unknown(&mut tree, 30, 10).unwrap();
    assert_eq!(read(&tree), [btrees(10, 2), btrees(15, 5), start[2]]);
}

/// One step of a random history: what, where, how long, and who.
#[derive(Debug, Clone, Copy)]
struct Step {
    kind: u8,
    start: u32,
    length_blocks: u32,
    owner: u64,
    shift: u64,
    is_unwritten: bool,
    is_attribute_fork: bool,
}

fn steps(owners: u64) -> impl Strategy<Value = Vec<Step>> {
    let step = (0..6u8, 1..90u32, 1..12u32, 0..owners, 0..3u64, any::<bool>(), any::<bool>());
    let step = step.prop_map(|(kind, start, length_blocks, owner, shift, is_unwritten, attribute)| Step {
        kind,
        start,
        length_blocks,
        owner: 128 + owner,
        shift: shift * 1000,
        is_unwritten,
        is_attribute_fork: attribute && !is_unwritten && owner == 0,
    });
    proptest::collection::vec(step, 1..120)
}

impl Step {
    fn mapping(&self) -> Mapping {
        let file_block = u64::from(self.start) + self.shift;
        Mapping {
            is_unwritten: self.is_unwritten,
            is_attribute_fork: self.is_attribute_fork,
            ..mapping(self.start, self.length_blocks, self.owner, file_block)
        }
    }
}

/// Takes the step if the model allows it; gives whether it does.
fn take(step: &Step, model: &mut OwnerModel, tree: &mut Tree, sharing: Sharing) -> bool {
    let wanted = step.mapping();
    let opposite = Mapping { is_unwritten: !wanted.is_unwritten, ..wanted };
    let single = |mapping: &Mapping, skip: u32| Mapping {
        start: AgBlock::new(mapping.start.get() + skip),
        length_blocks: 1,
        file_block: FileBlock::new(mapping.file_block.get() + u64::from(skip)),
        ..*mapping
    };
    let is_free = match sharing {
        Sharing::Exclusive => !model.is_any_owned(wanted.start, wanted.length_blocks),
        Sharing::Possible => (0..wanted.length_blocks)
            .all(|skip| !model.has(&single(&wanted, skip)) && !model.has(&single(&opposite, skip))),
    };
    if is_free {
        model.map(&wanted);
        map(tree, wanted, sharing).unwrap();
    } else if step.kind < 3 && model.has(&wanted) {
        model.unmap(&wanted);
        unmap(tree, wanted, sharing).unwrap();
    } else if model.has(&opposite) && !wanted.is_attribute_fork {
        model.convert(&wanted);
        convert(tree, wanted, sharing).unwrap();
    } else {
        return false;
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn mappings_in_ascending_order_need_few_lookups(steps in steps(3), others in steps(3)) {
        let (mut model, mut tree) = (OwnerModel::default(), Tree::new());
        for step in &others {
            take(step, &mut model, &mut tree, Sharing::Exclusive);
        }
        let mut mappings: Vec<Mapping> = Vec::new();
        for step in &steps {
            let wanted = step.mapping();
            if !model.is_any_owned(wanted.start, wanted.length_blocks) {
                model.map(&wanted);
                mappings.push(wanted);
            }
        }
        mappings.sort_by_key(|mapping| mapping.start);
        let mut ascending = Ascending::default();
        for mapping in &mappings {
            ascending.map(&mut tree, *mapping).unwrap();
        }
        prop_assert_eq!(read(&tree), model.mappings());
        // Blocks that have an owner are noticed.
        for mapping in &mappings {
            let fault = fault_of(ascending.map(&mut tree, *mapping));
            let is_noticed = matches!(fault, ReverseMapFault::AlreadyOwned { .. });
            prop_assert!(is_noticed);
        }
    }

    #[test]
    fn histories_without_sharing_end_as_the_model_says(steps in steps(3)) {
        let (mut model, mut tree) = (OwnerModel::default(), Tree::new());
        for step in &steps {
            if take(step, &mut model, &mut tree, Sharing::Exclusive) {
                prop_assert_eq!(read(&tree), model.mappings());
            }
        }
    }

    #[test]
    fn histories_with_sharing_end_as_the_model_says(steps in steps(5)) {
        let (mut model, mut tree) = (OwnerModel::default(), Tree::new());
        for step in &steps {
            if take(step, &mut model, &mut tree, Sharing::Possible) {
                prop_assert_eq!(read(&tree), model.mappings());
            }
        }
    }
}

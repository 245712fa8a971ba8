use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The truth: each file block on its own.
type Model = BTreeMap<u64, (u64, bool)>;

#[derive(Debug, Clone)]
enum Step {
    Insert { file_block: u64, start: u64, length: u64, is_unwritten: bool },
    Remove { start: u64, end: u64 },
    Convert { start: u64, end: u64, is_unwritten: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = (0..96u64, 1..24u64).prop_map(|(start, length)| (start, start + length));
    let step = prop_oneof![
        // Few places on disk at fixed distances from the file block, so that neighbours often continue each other.
        (0..96u64, 0..3u64, 1..9u64, any::<bool>()).prop_map(|(file_block, place, length, is_unwritten)| {
            Step::Insert { file_block, start: 1000 * (place + 1) + file_block, length, is_unwritten }
        }),
        range.clone().prop_map(|(start, end)| Step::Remove { start, end }),
        (range, any::<bool>()).prop_map(|((start, end), is_unwritten)| Step::Convert {
            start,
            end,
            is_unwritten
        }),
    ];
    proptest::collection::vec(step, 1..80)
}

fn extent(file_block: u64, start: u64, length_blocks: u64, is_unwritten: bool) -> Extent {
    Extent { file_block: FileBlock::new(file_block), start: FsBlock::new(start), length_blocks, is_unwritten }
}

fn flattened(extents: &ExtentMap) -> Model {
    let blocks = |extent: Extent| {
        let (file_block, start, is_unwritten) =
            (extent.file_block.get(), extent.start.get(), extent.is_unwritten);
        (0..extent.length_blocks).map(move |index| (file_block + index, (start + index, is_unwritten)))
    };
    extents.iter().flat_map(blocks).collect()
}

fn step_model(model: &mut Model, step: &Step) {
    match *step {
        Step::Insert { file_block, start, length, is_unwritten } => {
            if model.range(file_block..file_block + length).next().is_none() {
                model.extend((0..length).map(|index| (file_block + index, (start + index, is_unwritten))));
            }
        }
        Step::Remove { start, end } => model.retain(|block, _| !(start..end).contains(block)),
        Step::Convert { start, end, is_unwritten } => {
            model.range_mut(start..end).for_each(|(_, (_, state))| *state = is_unwritten);
        }
    }
}

fn step_list(extents: &mut ExtentMap, step: &Step) {
    match *step {
        Step::Insert { file_block, start, length, is_unwritten } => {
            if let Some(splice) = insertion(extents, &extent(file_block, start, length, is_unwritten)) {
                apply(extents, &splice);
            }
        }
        Step::Remove { start, end } => {
            let splice = removal(extents, FileBlock::new(start), FileBlock::new(end));
            apply(extents, &splice);
        }
        Step::Convert { start, end, is_unwritten } => {
            let (start, end) = (FileBlock::new(start), FileBlock::new(end));
            let mut converted = 0;
            while let Some((part, splice)) = conversion(extents, start, end, is_unwritten) {
                assert!(part.file_block >= start && part.end() <= end && part.is_unwritten != is_unwritten);
                apply(extents, &splice);
                converted += part.length_blocks;
                assert!(converted <= 24);
            }
        }
    }
}

fn apply(extents: &mut ExtentMap, splice: &Splice) {
    let (length, removed) = (extents.len(), splice.removed(extents).len());
    assert_eq!(removed, splice.removed);
    change(splice, extents);
    assert_eq!(extents.len() as i64, length as i64 + splice.growth());
    let added = extents.range(splice.index..splice.index + splice.added().len());
    assert!(added.eq(splice.added().iter().copied()));
}

fn change(splice: &Splice, extents: &mut ExtentMap) {
    splice.apply(extents, &splice.records().unwrap(), None);
}

proptest! {
    #[test]
    fn lists_hold_what_single_blocks_hold(steps in steps()) {
        let (mut extents, mut model) = (ExtentMap::EMPTY, Model::new());
        for step in &steps {
            step_list(&mut extents, step);
            step_model(&mut model, step);
            prop_assert_eq!(&flattened(&extents), &model, "after {:?}", step);
            let list = extents.to_vec();
            for pair in list.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].file_block);
            }
            // Only taking away leaves neighbours that could be one: never, as it makes holes.
            for pair in list.windows(2) {
                prop_assert_eq!(joined(&pair[0], &pair[1]), None, "after {:?}", step);
            }
        }
    }
}

fn map(extents: &[Extent]) -> ExtentMap {
    ExtentMap::of(extents.iter().copied()).unwrap()
}

#[test]
fn what_no_record_can_hold_stays_apart() {
    let most = MAX_EXTENT_BLOCKS;
    let mut extents = map(&[extent(0, 1000, most - 5, false)]);
    let splice = insertion(&extents, &extent(most - 5, 1000 + most - 5, 10, false)).unwrap();
    change(&splice, &mut extents);
    let apart = [extent(0, 1000, most - 5, false), extent(most - 5, 1000 + most - 5, 10, false)];
    assert_eq!(extents.to_vec(), apart);
    // The one between joins with the left one as long as that fits, and all three never do.
    let mut extents = map(&[extent(0, 1000, most - 5, false), extent(most, 1000 + most, 10, false)]);
    let splice = insertion(&extents, &extent(most - 5, 1000 + most - 5, 5, false)).unwrap();
    change(&splice, &mut extents);
    assert_eq!(extents.to_vec(), [extent(0, 1000, most, false), extent(most, 1000 + most, 10, false)]);
}

#[test]
fn what_is_mapped_is_not_mapped_again() {
    let extents = map(&[extent(10, 100, 10, false)]);
    assert_eq!(insertion(&extents, &extent(19, 500, 1, false)), None);
    assert_eq!(insertion(&extents, &extent(5, 500, 6, false)), None);
    assert!(insertion(&extents, &extent(5, 500, 5, false)).is_some());
    assert!(insertion(&extents, &extent(20, 500, 5, false)).is_some());
}

/// An intent from a log can say anything.
#[test]
fn what_no_record_can_hold_is_not_added() {
    let extents = ExtentMap::EMPTY;
    for new in [extent(1 << 54, 100, 1, false), extent(1, 1 << 52, 1, false), extent(1, 100, 1 << 21, false)]
    {
        assert!(insertion(&extents, &new).unwrap().records().is_none());
    }
}

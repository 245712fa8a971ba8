//! Maps beside plain lists.

use proptest::prelude::*;
use uxfs_block::cache::{Cache, CacheOptions, MemoryAccount};
use uxfs_block::engine::memory::MemoryDevice;
use uxfs_format::units::FsBlock;

use super::*;

fn extent(file_block: u64, length_blocks: u64) -> Extent {
    let start = FsBlock::new(file_block * 3 + 7);
    Extent {
        file_block: FileBlock::new(file_block),
        start,
        length_blocks,
        is_unwritten: file_block.is_multiple_of(3),
    }
}

fn records(extents: &[Extent]) -> Vec<ExtentRecord> {
    extents.iter().map(|extent| ExtentRecord::new(extent).unwrap()).collect()
}

fn cache() -> Cache {
    let options = CacheOptions { shards: Some(1), ..CacheOptions::with_budget(1 << 30) };
    Cache::new(std::sync::Arc::new(MemoryDevice::new(vec![0; 4096])), &options)
}

/// A map beside a list that holds the same.
struct Both<'c> {
    map: ExtentMap,
    list: Vec<Extent>,
    account: &'c MemoryAccount,
}

impl<'c> Both<'c> {
    fn new(account: &'c MemoryAccount) -> Self {
        Self { map: ExtentMap::EMPTY, list: Vec::new(), account }
    }

    fn splice(&mut self, range: Range<usize>, added: &[Extent]) {
        self.map.splice(range.clone(), &records(added), Some(self.account));
        self.list.splice(range, added.iter().copied());
    }

    fn check_structure(&self) {
        match &self.map.form {
            Form::One(_) => {}
            Form::Few(records) => assert!(records.len() <= FEW_RECORDS && records.len() != 1),
            Form::Many(tree) => tree.check(),
        }
    }

    /// All that can be asked of the whole map.
    fn check(&self) {
        self.check_structure();
        assert_eq!((self.map.len(), self.map.is_empty()), (self.list.len(), self.list.is_empty()));
        assert_eq!(self.map.to_vec(), self.list);
        assert_eq!(self.map.blocks(), self.list.iter().map(|extent| extent.length_blocks).sum::<u64>());
        assert_eq!(
            (self.map.first(), self.map.last()),
            (self.list.first().copied(), self.list.last().copied())
        );
        assert_eq!(self.map.end(), self.list.last().map_or(FileBlock::new(0), Extent::end));
        assert!(self.map.iter().rev().eq(self.list.iter().rev().copied()));
    }

    /// Compares all lookups at one file block with the model.
    fn check_at(&self, index: usize, file_block: FileBlock) {
        assert_eq!(self.map.get(index), self.list.get(index).copied());
        let at_or_after = self.list.partition_point(|extent| extent.end() <= file_block);
        assert_eq!(self.map.index_at_or_after(file_block), at_or_after);
        let beginning = self.list.partition_point(|extent| extent.file_block < file_block);
        assert_eq!(self.map.index_beginning_at_or_after(file_block), beginning);
        let next = self.list.get(at_or_after).copied();
        assert_eq!(self.map.next_at_or_after(file_block), next);
        assert_eq!(self.map.lookup(file_block), next.filter(|extent| extent.file_block <= file_block));
        assert!(self.map.from(file_block).take(300).eq(self.list[at_or_after..].iter().copied().take(300)));
        let end = (index + 5).min(self.list.len());
        let (found, expected) = (self.map.range(index..index + 5), &self.list[index.min(end)..end]);
        assert_eq!((found.len(), found.clone().rev().count()), (expected.len(), expected.len()));
        assert!(found.eq(expected.iter().copied()));
    }
}

#[derive(Debug, Clone)]
struct Step {
    /// Where in the list, in parts of 1000.
    place: usize,
    removed: usize,
    added: usize,
    asked: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = || prop_oneof![6 => 0..4_usize, 2 => 0..80_usize, 1 => 0..1500_usize];
    let place = prop_oneof![3 => 0..=1000_usize, 1 => Just(1000_usize), 1 => Just(0_usize)];
    let step = (place, size(), size(), 0..60_000_u64).prop_map(|(place, removed, added, asked)| Step {
        place,
        removed,
        added,
        asked,
    });
    proptest::collection::vec(step, 1..60)
}

/// So many extents anew for a place: spread over the hole between its neighbours, so that the order stays.
fn between(list: &[Extent], range: &Range<usize>, added: usize) -> Vec<Extent> {
    let first = range.start.checked_sub(1).map_or(0, |before| list[before].end().get());
    let most = list.get(range.end).map_or(1 << 50, |next| next.file_block.get());
    let fitting = usize::try_from(most - first).unwrap_or(usize::MAX).min(added);
    let stride = if range.end == list.len() { 32 } else { (most - first) / fitting.max(1) as u64 };
    (0..fitting as u64).map(|index| extent(first + index * stride, (stride / 2).clamp(1, 9))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn maps_hold_what_lists_hold(steps in steps(), initial in 0..3000_usize) {
        let cache = cache();
        let mut both = Both::new(cache.memory_account());
        both.splice(0..0, &between(&[], &(0..0), initial));
        let mut snapshots = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let start = both.list.len() * step.place / 1000;
            let range = start..(start + step.removed).min(both.list.len());
            let added = between(&both.list, &range, step.added);
            both.splice(range, &added);
            both.check_structure();
            both.check_at(start, FileBlock::new(step.asked));
            if number % 8 == 0 {
                // A clone shares what it has with the map, and does not change with it.
                snapshots.push((both.map.clone(), both.list.clone()));
                both.check();
            }
        }
        both.check();
        for (map, list) in &snapshots {
            prop_assert_eq!(&map.to_vec(), list);
        }
        drop((snapshots, both));
        prop_assert_eq!(cache.memory_account().charged_bytes(), 0);
    }

    /// Trees of three levels, of which whole branches go.
    #[test]
    fn much_comes_and_goes(
        initial in 20_000..80_000_usize,
        steps in proptest::collection::vec((0..=1000_usize, 0..30_000_usize, 0..3000_usize), 1..10),
    ) {
        let cache = cache();
        let mut both = Both::new(cache.memory_account());
        both.splice(0..0, &between(&[], &(0..0), initial));
        for (place, removed, added) in steps {
            let start = both.list.len() * place / 1000;
            let range = start..(start + removed).min(both.list.len());
            let added = between(&both.list, &range, added);
            both.splice(range, &added);
            both.check_structure();
        }
        both.check();
    }

    #[test]
    fn iterators_meet_in_the_middle(count in 0..1200_usize, turns in proptest::collection::vec((any::<bool>(), 0..40_usize), 0..200)) {
        let list = between(&[], &(0..0), count);
        let map = ExtentMap::of(list.iter().copied()).unwrap();
        let (mut found, mut expected) = (map.iter(), list.iter().copied());
        for (is_back, skipped) in turns {
            let pair = match (is_back, skipped) {
                (true, _) => (found.next_back(), expected.next_back()),
                (false, skipped) if skipped > 20 => (found.nth(skipped), expected.nth(skipped)),
                (false, _) => (found.next(), expected.next()),
            };
            prop_assert_eq!(pair.0, pair.1);
            prop_assert_eq!(found.len(), expected.len());
        }
    }
}

/// A branch of which one leaf is left, and of that little: it has no neighbour before the branch is joined.
#[test]
fn little_is_left_of_a_branch() {
    const BRANCH: usize = 64 * 256;
    let cache = cache();
    let list = between(&[], &(0..0), 5 * BRANCH);
    for (left, right) in [(10, 0), (0, 10), (10, 20), (200, 5), (300, 300), (1, BRANCH - 1)] {
        let mut both = Both::new(cache.memory_account());
        both.splice(0..0, &list);
        both.splice(BRANCH + left..3 * BRANCH - right, &[]);
        both.check();
        both.splice(0..BRANCH - 7, &[]);
        both.check();
    }
}

/// Memory charged for the map of one file.
fn memory_of(map: &ExtentMap) -> u64 {
    match &map.form {
        Form::One(_) => 0,
        Form::Few(records) => (records.capacity() * size_of::<ExtentRecord>()) as u64,
        Form::Many(tree) => tree.memory_bytes(),
    }
}

#[test]
fn few_extents_take_little() {
    assert_eq!(size_of::<ExtentMap>(), size_of::<Vec<Extent>>());
    let cache = cache();
    let mut both = Both::new(cache.memory_account());
    for (count, most_bytes) in [(1, 0), (2, 64), (4, 64), (5, 128), (17, 512), (32, 512)] {
        while both.list.len() < count {
            let end = both.list.len();
            let added = between(&both.list, &(end..end), 1);
            both.splice(end..end, &added);
        }
        assert!(memory_of(&both.map) <= most_bytes, "{count}: {}", memory_of(&both.map));
    }
    assert_eq!(cache.memory_account().charged_bytes(), 0);
    while both.list.len() > 1 {
        both.splice(0..1, &[]);
    }
    assert_eq!(memory_of(&both.map), 0);
}

/// A map that grew at its end, or was read, takes 16 bytes an extent and a little; one that grew anywhere at most twice that,
/// as long as nothing is taken away. What is charged is what is taken.
#[test]
fn memory_is_bounded_and_charged() {
    const COUNT: u64 = 60_000;
    let cache = cache();
    let account = cache.memory_account();
    let mut at_end = ExtentMap::EMPTY;
    for index in 0..COUNT {
        let record = records(&[extent(2 * index, 1)]);
        at_end.splice(at_end.len()..at_end.len(), &record, Some(account));
    }
    let most = COUNT * 17 + 4096;
    assert!(memory_of(&at_end) <= most, "{}", memory_of(&at_end));
    let charged = account.charged_bytes();
    assert!(charged <= most + most / 32 && charged >= COUNT * 16, "{charged}");
    let copy = at_end.clone();
    assert_eq!(account.charged_bytes(), charged, "a copy shares all");
    // One more in the middle copies one leaf of the shared ones.
    let middle = at_end.index_at_or_after(FileBlock::new(COUNT));
    at_end.splice(middle..middle, &records(&[extent(COUNT + 1, 1)]), Some(account));
    assert!(account.charged_bytes() <= charged + 3 * 4096 + 512);
    assert!(copy.get(middle) == Some(extent(COUNT, 1)) && at_end.get(middle) == Some(extent(COUNT + 1, 1)));
    drop((copy, at_end));
    assert_eq!(account.charged_bytes(), 0);

    let mut anywhere = ExtentMap::EMPTY;
    for number in 0..COUNT {
        let place = number * 48_271 % COUNT;
        let index = anywhere.index_at_or_after(FileBlock::new(2 * place));
        anywhere.splice(index..index, &records(&[extent(2 * place, 1)]), Some(account));
    }
    assert!(anywhere.iter().eq((0..COUNT).map(|index| extent(2 * index, 1))));
    let most = COUNT * 33 + 4096;
    assert!(memory_of(&anywhere) <= most && account.charged_bytes() <= most + most / 32);
    // Most of it goes again.
    for number in 0..COUNT {
        let place = number * 48_271 % COUNT;
        if !place.is_multiple_of(64) {
            let index = anywhere.index_at_or_after(FileBlock::new(2 * place));
            anywhere.splice(index..index + 1, &[], Some(account));
        }
    }
    let left = anywhere.len() as u64;
    assert!(anywhere.iter().eq((0..COUNT.div_ceil(64)).map(|index| extent(128 * index, 1))));
    assert!(memory_of(&anywhere) <= left * 40 + 3 * 4096, "{left}: {}", memory_of(&anywhere));
}

#[test]
fn what_no_record_holds_is_no_map() {
    assert_eq!(ExtentMap::of([extent(1 << 54, 1)]), None);
    assert_eq!(ExtentMap::of([extent(5, 1 << 21)]), None);
    assert_eq!(ExtentMap::of([]), Some(ExtentMap::EMPTY));
}

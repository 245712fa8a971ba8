//! Cuts at every write and flush, torn and with lost writes; other programs' changes.

use uxfs_block::device::BlockDevice;
use uxfs_testkit::seeds::{Random, Seed};

use super::{
    super::{
        CommitError, SECTOR_BYTES, State, UndoFile, UndoOptions, apply, apply_without_file, state_of, undo,
    },
    Fixture, SHAPES, assert_same, bytes_of, device,
    devices::{Cut, CutDevice, UnitDevice},
    is_refused,
};

const FORCE: UndoOptions = UndoOptions { force: true };
const USUAL: UndoOptions = UndoOptions { force: false };
const CUTS: [Cut; 3] = [Cut::Clean, Cut::Torn, Cut::Power];

/// A way to write, and what it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Apply,
    Undo,
}

impl Way {
    fn run(self, file: &UndoFile, device: &dyn BlockDevice) -> Result<(), CommitError> {
        match self {
            Self::Apply => apply(file, device).map(drop),
            Self::Undo => undo(file, device, USUAL).map(drop),
        }
    }

    fn begins_with(self, fixture: &Fixture) -> &[u8] {
        if self == Self::Apply { &fixture.old } else { &fixture.new }
    }

    fn ends_with(self, fixture: &Fixture) -> &[u8] {
        if self == Self::Apply { &fixture.new } else { &fixture.old }
    }
}

/// The invariants of what a cut has left, and that both ways lead out of it.
fn examine(fixture: &Fixture, file: &UndoFile, remains: &[u8], what: &str) {
    let state = state_of(file, &*device(remains)).unwrap();
    let is_old = remains == fixture.old;
    let expected = match (is_old, remains == fixture.new) {
        (true, _) => State::NotApplied,
        (_, true) => State::Applied,
        _ => State::Partly,
    };
    assert_eq!(state, expected, "{what}");
    assert!(expected != State::Partly || is_refused(remains), "{what}: Linux would mount what is half done");
    for way in [Way::Apply, Way::Undo] {
        let device = device(remains);
        way.run(file, &*device).unwrap();
        assert_same(&bytes_of(&*device), way.ends_with(fixture), &format!("{what}, then {way:?}"));
        let end = if way == Way::Apply { State::Applied } else { State::NotApplied };
        assert_eq!(state_of(file, &*device).unwrap(), end, "{what}");
    }
}

#[test]
fn every_cut_leads_to_the_new_and_to_the_old_bytes() {
    let seed = Seed::from_environment("every_cut_leads_to_the_new_and_to_the_old_bytes", 1);
    let mut random = seed.random();
    for shape in SHAPES {
        for _ in 0..4 {
            let fixture = Fixture::new(shape, &mut random);
            let file = fixture.prepare();
            for way in [Way::Apply, Way::Undo] {
                cut_everywhere(&fixture, &file, way, &format!("{shape:?} {way:?}"), &mut random);
            }
        }
    }
}

fn cut_everywhere(fixture: &Fixture, file: &UndoFile, way: Way, what: &str, random: &mut Random) {
    let begin = way.begins_with(fixture);
    let whole = CutDevice::new(begin, None, 0);
    way.run(file, &whole).unwrap();
    assert_same(&whole.remains(), way.ends_with(fixture), what);
    for at in 0..whole.requests() {
        for cut in CUTS {
            let what = format!("{what} {cut:?} at {at}");
            let device = CutDevice::new(begin, Some((at, cut)), random.next_u64());
            assert!(matches!(way.run(file, &device), Err(CommitError::Device(_))), "{what}");
            examine(fixture, file, &device.remains(), &what);
        }
    }
}

#[test]
fn cuts_of_what_takes_up_cuts_lead_out_too() {
    let seed = Seed::from_environment("cuts_of_what_takes_up_cuts_lead_out_too", 2);
    let mut random = seed.random();
    for round in 0..30 {
        let fixture = Fixture::new(SHAPES[random.index(SHAPES.len())], &mut random);
        let file = fixture.prepare();
        let mut remains = fixture.old.clone();
        for step in 0..12 {
            let way = if random.below(2) == 0 { Way::Apply } else { Way::Undo };
            let cut = (random.below(14), CUTS[random.index(3)]);
            let device = CutDevice::new(&remains, Some(cut), random.next_u64());
            let _ = way.run(&file, &device);
            remains = device.remains();
            examine(&fixture, &file, &remains, &format!("round {round}, step {step}"));
        }
    }
}

#[test]
fn without_a_file_the_bytes_and_the_order_are_the_same() {
    let mut random = Random::new(3);
    for shape in SHAPES {
        let fixture = Fixture::new(shape, &mut random);
        let file = fixture.prepare();
        let new = device(&fixture.new);
        let run = |cut| {
            let target = CutDevice::new(&fixture.old, cut, 9);
            let result = apply_without_file(&target, &*new, &fixture.ranges, &target);
            (result, target.remains(), target.requests())
        };
        let (changed, bytes, requests) = run(None);
        assert_eq!(changed.unwrap(), file.facts().changed_bytes);
        assert_same(&bytes, &fixture.new, "without a file");
        for at in 0..requests {
            for cut in CUTS {
                let (result, bytes, _) = run(Some((at, cut)));
                result.unwrap_err();
                examine(&fixture, &file, &bytes, &format!("{shape:?} without a file, {cut:?} at {at}"));
            }
        }
    }
    let fixture = Fixture::new(SHAPES[0], &mut random);
    let same = CutDevice::new(&fixture.old, None, 0);
    assert_eq!(apply_without_file(&same, &*device(&fixture.old), &fixture.ranges, &same).unwrap(), 0);
    assert_eq!(same.requests(), 0, "nothing differs");
}

#[test]
fn devices_that_take_whole_units_get_them() {
    let mut random = Random::new(4);
    for shape in SHAPES.into_iter().filter(|shape| shape.size_bytes.is_multiple_of(4096)) {
        let fixture = Fixture::new(shape, &mut random);
        let file = fixture.prepare();
        for at in 0.. {
            let device = UnitDevice(CutDevice::new(&fixture.old, Some((at, Cut::Torn)), random.next_u64()));
            let result = apply(&file, &device);
            examine(&fixture, &file, &device.0.remains(), &format!("{shape:?} in units, at {at}"));
            if result.is_ok() {
                break;
            }
        }
        let device = UnitDevice(CutDevice::new(&fixture.new, None, 0));
        undo(&file, &device, USUAL).unwrap();
        assert_same(&device.0.remains(), &fixture.old, "undone in units");
    }
}

#[test]
fn what_is_done_is_not_done_again() {
    let fixture = Fixture::new(SHAPES[0], &mut Random::new(5));
    let file = fixture.prepare();
    let done = CutDevice::new(&fixture.new, None, 0);
    assert_eq!(apply(&file, &done).unwrap(), State::Applied);
    let not_begun = CutDevice::new(&fixture.old, None, 0);
    assert_eq!(undo(&file, &not_begun, USUAL).unwrap().found, State::NotApplied);
    assert_eq!((done.requests(), not_begun.requests()), (0, 0));
}

#[test]
fn changes_of_other_programs_are_not_written_over() {
    let mut random = Random::new(6);
    for shape in SHAPES {
        let fixture = Fixture::new(shape, &mut random);
        let file = fixture.prepare();
        for sector in fixture.changed() {
            let mut bytes = if random.below(2) == 0 { fixture.old.clone() } else { fixture.new.clone() };
            let offset = sector * SECTOR_BYTES;
            bytes[offset + random.index(16)] ^= 0x80;
            let changed = CutDevice::new(&bytes, None, 0);
            assert_eq!(state_of(&file, &changed).unwrap(), State::Other);
            for result in [apply(&file, &changed).map(drop), undo(&file, &changed, USUAL).map(drop)] {
                let Err(CommitError::Foreign { offset_bytes }) = result else { panic!("{result:?}") };
                assert_eq!(offset_bytes, offset as u64, "{shape:?}");
            }
            assert_eq!(changed.requests(), 0, "nothing was written");
            assert_eq!(undo(&file, &changed, FORCE).unwrap().found, State::Other);
            assert_same(&changed.remains(), &fixture.old, "forced");
        }
    }
}

/// Damage like that of before, after a repair. A cut leaves no such mixture: the mark is written first, and taken away last.
#[test]
fn the_same_damage_again_is_no_cut() {
    let mut random = Random::new(8);
    for shape in SHAPES {
        let fixture = Fixture::new(shape, &mut random);
        let file = fixture.prepare();
        let behind = shape.sector_bytes..fixture.old.len();
        for (start, end) in [(&fixture.old, &fixture.new), (&fixture.new, &fixture.old)] {
            let mut bytes = start.clone();
            bytes[behind.clone()].copy_from_slice(&end[behind.clone()]);
            if bytes == fixture.old || bytes == fixture.new {
                continue;
            }
            let damaged = CutDevice::new(&bytes, None, 0);
            assert_eq!(state_of(&file, &damaged).unwrap(), State::Other, "{shape:?}");
            for result in [apply(&file, &damaged).map(drop), undo(&file, &damaged, USUAL).map(drop)] {
                assert!(
                    matches!(result, Err(CommitError::Foreign { offset_bytes: 0 })),
                    "{shape:?}: {result:?}"
                );
            }
            assert_eq!(damaged.requests(), 0, "nothing was written");
        }
    }
}

#[test]
fn changes_elsewhere_stay() {
    let fixture = Fixture::new(SHAPES[0], &mut Random::new(7));
    let file = fixture.prepare();
    let changed = fixture.changed();
    let untouched = (1..fixture.old.len() / SECTOR_BYTES).find(|sector| !changed.contains(sector)).unwrap();
    let (mut bytes, mut expected) = (fixture.new.clone(), fixture.old.clone());
    bytes[untouched * SECTOR_BYTES] ^= 1;
    expected[untouched * SECTOR_BYTES] ^= 1;
    let device = device(&bytes);
    undo(&file, &*device, USUAL).unwrap();
    assert_same(&bytes_of(&*device), &expected, "a change elsewhere");
}

#[test]
fn a_device_of_another_size_is_another_device() {
    let fixture = Fixture::new(SHAPES[0], &mut Random::new(8));
    let file = fixture.prepare();
    let mut longer = fixture.new.clone();
    longer.extend([1; 4096]);
    let shorter = &fixture.new[..fixture.new.len() - 4096];
    for bytes in [&longer[..], shorter] {
        let device = CutDevice::new(bytes, None, 0);
        assert!(matches!(state_of(&file, &device), Err(CommitError::OtherSize { .. })));
        assert!(matches!(apply(&file, &device), Err(CommitError::OtherSize { .. })));
        assert!(matches!(undo(&file, &device, USUAL), Err(CommitError::OtherSize { .. })));
        assert_eq!(device.requests(), 0);
    }
    // What grew can be restored by force, what shrank cannot.
    assert!(matches!(undo(&file, &*device(shorter), FORCE), Err(CommitError::OtherSize { .. })));
    let longer = device(&longer);
    undo(&file, &*longer, FORCE).unwrap();
    assert_same(&bytes_of(&*longer)[..fixture.old.len()], &fixture.old, "forced");
}

#[test]
fn pieces_that_touch_count_as_one_range() {
    let mut fixture = Fixture::new(SHAPES[0], &mut Random::new(10));
    let length = 5 << 20;
    fixture.old.resize(length, 1);
    fixture.new.resize(length, 1);
    fixture.new[(1 << 20) - 700..(4 << 20) + 10].fill(2);
    fixture.ranges = vec![0..length as u64];
    let file = fixture.prepare();
    let sectors = fixture.changed();
    let ranges = sectors.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count() + 1;
    let facts = file.facts();
    assert_eq!((facts.changed_bytes, facts.ranges), ((sectors.len() * SECTOR_BYTES) as u64, ranges as u64));
    let device = device(&fixture.old);
    apply(&file, &*device).unwrap();
    assert_same(&bytes_of(&*device), &fixture.new, "large pieces");
}

use uxfs_block::{device::BlockDevice, engine::memory::MemoryDevice};

use super::*;
use crate::{
    error::JournalError,
    testing::{Dump, expectations},
};

fn ends(state: &LogState) -> (u32, u32) {
    (state.tail().unwrap().block(), state.head().unwrap().block())
}

#[test]
fn head_tail_and_state_are_those_of_xfs_logprint_and_of_the_kernel() {
    let expectations = expectations();
    assert!(expectations.len() >= 20, "the judges' words are there");
    for expected in expectations {
        let dump = Dump::load(&expected.name);
        let state = examine_area(&dump.area()).unwrap_or_else(|error| panic!("{}: {error}", expected.name));
        let LogState::Dirty(dirty) = state else {
            assert!(!expected.is_dirty, "{}: {state:?}", expected.name);
            assert_eq!(ends(&state), expected.logprint, "{}", expected.name);
            continue;
        };
        assert!(expected.is_dirty, "{}: {state:?}", expected.name);
        let kernel = expected.kernel.unwrap();
        assert_eq!(ends(&state), kernel, "{}", expected.name);
        // xfs_logprint does not look at checksums, so it does not see torn records.
        if dirty.torn_block.is_none() {
            assert_eq!(ends(&state), expected.logprint, "{}", expected.name);
        }
        assert_eq!(dirty.torn_block.is_some(), expected.name.starts_with("torn"), "{}", expected.name);
        assert!(dirty.records > 0);
    }
}

#[test]
fn a_log_of_zeros_is_empty() {
    let dump = Dump::load("fresh");
    let zeros = MemoryDevice::new(vec![0; 4096 * 512]);
    let area = LogArea::at(&zeros, uxfs_format::units::Sector::new(0), 4096, dump.uuid).unwrap();
    assert_eq!(examine_area(&area).unwrap(), LogState::Empty);
}

#[test]
fn a_log_is_found_through_the_geometry() {
    let dump = Dump::load("killed-with-flush");
    let geometry = dump.geometry();
    let by_area = examine_area(&dump.area()).unwrap();
    let image = dump.into_image();
    assert_eq!(examine(&image, &geometry).unwrap(), by_area);
    assert!(by_area.is_dirty());
}

#[test]
fn an_external_log_is_refused_by_name() {
    use uxfs_format::features::Unsupported;
    let dump = Dump::load("clean");
    let mut geometry = dump.geometry();
    geometry.log_start = None;
    let error = examine(&dump.into_image(), &geometry).unwrap_err();
    assert!(matches!(error, JournalError::Unsupported(Unsupported::ExternalLog)), "{error}");
}

#[test]
fn a_damaged_tail_is_passed_over_only_where_new_records_may_have_begun() {
    let (mut refused, mut passed_over) = (0, 0);
    for expected in expectations().into_iter().filter(|expected| expected.is_dirty) {
        let dump = Dump::load(&expected.name);
        let state = examine_area(&dump.area()).unwrap();
        let LogState::Dirty(sound) = state else { panic!("{}: {state:?}", expected.name) };
        let tail = sound.tail.block();
        dump.log.write(u64::from(tail) * 512, &[0xff, 0xfe, 0xff, 0xff]).unwrap();
        let area = dump.area();
        let is_near = area.distance(sound.head.block(), tail) <= IN_FLIGHT_BLOCKS;
        match examine_area(&area) {
            Ok(LogState::Dirty(damaged)) => {
                assert!(is_near || sound.torn_block.is_some(), "{}: {damaged:?}", expected.name);
                passed_over += 1;
            }
            Err(JournalError::Corrupt(_)) => {
                let head = head_despite_damage(&area).unwrap();
                assert!(head.is_some_and(|head| head >= sound.head), "{}: {head:?}", expected.name);
                refused += 1;
            }
            other => panic!("{}: {other:?}", expected.name),
        }
    }
    assert!(refused > 0, "{refused} refused, {passed_over} passed over");
}

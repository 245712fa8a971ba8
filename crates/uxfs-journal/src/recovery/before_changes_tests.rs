use uxfs_block::engine::memory::MemoryDevice;
use uxfs_format::{
    fault::Fault,
    log::record::{LogRecordFault, checksum_state, seal},
    units::Sector,
};
use zerocopy::IntoBytes;

use super::*;
use crate::{
    error::JournalError,
    recovery::find_head_tail::examine_area,
    testing::{Dump, expectations},
};

fn fault_of(dump: &Dump) -> Option<Fault> {
    let state = examine_area(&dump.area()).unwrap();
    match check_before_changes(&dump.area(), &state) {
        Ok(()) => None,
        Err(JournalError::Corrupt(corruption)) => Some(corruption.fault),
        Err(error) => panic!("{error}"),
    }
}

/// Changes the newest record of a closed log and makes its checksum right.
fn change_newest(dump: &Dump, change: impl FnOnce(&mut RecordHeader)) {
    let LogState::Clean(log) = examine_area(&dump.area()).unwrap() else { panic!("it is closed") };
    let mut bytes = vec![0; BLOCK];
    dump.area().read(log.newest.block(), &mut bytes).unwrap();
    let header = RecordHeader::prefix_of_mut(&mut bytes).unwrap();
    change(header);
    let blocks = header.blocks() as usize;
    let length = header.length_bytes.get() as usize;
    let header_bytes = header.header_blocks() as usize * BLOCK;
    bytes.resize(blocks * BLOCK, 0);
    let mut rest = vec![0; (blocks - 1) * BLOCK];
    dump.area().read(log.newest.block() + 1, &mut rest).unwrap();
    bytes[BLOCK..].copy_from_slice(&rest);
    let (headers, payload) = bytes.split_at_mut(header_bytes);
    assert!(seal(headers, &payload[..length]));
    let _ = checksum_state(headers, &payload[..length]);
    dump.log.write(u64::from(log.newest.block()) * BLOCK as u64, &headers[..BLOCK]).unwrap();
}

#[test]
fn logs_of_linux_and_of_mkfs_can_be_written_on() {
    for expected in expectations() {
        let dump = Dump::load(&expected.name);
        assert_eq!(fault_of(&dump), None, "{}", expected.name);
    }
}

#[test]
fn a_newest_record_that_contradicts_itself_is_passed_over_by_readers_alone() {
    let dump = Dump::load("clean");
    change_newest(&dump, |header| header.cycle.set(77));
    assert!(matches!(fault_of(&dump), Some(Fault::LogRecord(LogRecordFault::Cycle { cycle: 77, .. }))));

    let dump = Dump::load("clean");
    change_newest(&dump, |header| header.lsn.set(0));
    assert!(matches!(fault_of(&dump), Some(Fault::LogRecord(LogRecordFault::WrongBlock { found: 0, .. }))));

    // Both agree with each other, and not with the rest of the log.
    let dump = Dump::load("clean");
    change_newest(&dump, |header| {
        header.lsn.set(Lsn::from_parts(77, header.lsn().block()).get());
        header.cycle.set(77);
    });
    assert!(matches!(fault_of(&dump), Some(Fault::Log(LogFault::WrongCycle { expected: 77 | 76, .. }))));

    let dump = Dump::load("clean");
    change_newest(&dump, |header| {
        header.lsn.set(Lsn::from_parts(LAST_CYCLE, header.lsn().block()).get());
        header.cycle.set(LAST_CYCLE);
    });
    assert_eq!(fault_of(&dump), Some(Fault::Log(LogFault::NoCycleLeft { cycle: LAST_CYCLE })));

    let dump = Dump::load("clean");
    change_newest(&dump, |header| header.tail_lsn.set(u64::from(u32::MAX)));
    assert!(matches!(fault_of(&dump), Some(Fault::LogRecord(LogRecordFault::TailOutside { .. }))));

    let dump = Dump::load("clean");
    change_newest(&dump, |header| header.uuid = Uuid::NIL);
    assert_eq!(fault_of(&dump), None, "the uuid of the file system is being changed");
}

#[test]
fn old_records_behind_a_beginning_of_zeros_are_removed() {
    let dump = Dump::load("killed-with-flush");
    dump.log.write(0, &[0; BLOCK]).unwrap();
    assert_eq!(examine_area(&dump.area()).unwrap(), LogState::Empty);
    let blocks = dump.area().blocks();
    let whole = MemoryDevice::new(vec![0; blocks as usize * BLOCK]);
    let mut bytes = vec![0; blocks as usize * BLOCK];
    dump.area().read(0, &mut bytes).unwrap();
    assert!(bytes.as_bytes().iter().any(|byte| *byte != 0));
    whole.write(0, &bytes).unwrap();
    let area = LogArea::at(&whole, Sector::new(0), blocks, dump.uuid).unwrap();
    clear_empty_log(&area, &whole).unwrap();
    area.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
}

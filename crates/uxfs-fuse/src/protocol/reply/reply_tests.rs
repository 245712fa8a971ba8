//! Bytes of replies.

use std::time::Duration;

use proptest::prelude::*;
use rustix::io::Errno;
use uxfs_format::inode::{DeviceNumber, Timestamp};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::protocol::{
    flags::{AttributeFlags, OpenReplyFlags},
    request::operation::{Lock, LockKind},
    wire::{
        attributes::*, extended_attributes::ExtendedAttributeSizeOut, files::*, header::OutHeader, ioctl::*,
        locks::LockOut, names::*,
    },
};

fn attributes() -> Attributes {
    Attributes {
        inode: 1,
        size_bytes: 2,
        sectors: 3,
        access: Timestamp { seconds: -4, nanoseconds: 5 },
        modification: Timestamp { seconds: 6, nanoseconds: 7 },
        change: Timestamp { seconds: 8, nanoseconds: 9 },
        mode: 0o60_640,
        link_count: 10,
        user_id: 11,
        group_id: 12,
        device: DeviceNumber { major: 8, minor: 0x712 },
        block_size_bytes: 4096,
        flags: AttributeFlags::SUBMOUNT,
    }
}

fn check(record: &AttributeRecord) {
    let times = (record.access_seconds, record.modification_seconds, record.change_seconds);
    assert_eq!(times, ((-4i64).cast_unsigned(), 6, 8));
    let rests = (record.access_nanoseconds, record.modification_nanoseconds, record.change_nanoseconds);
    assert_eq!(rests, (5, 7, 9));
    assert_eq!((record.inode, record.size_bytes, record.sectors), (1, 2, 3));
    assert_eq!((record.mode, record.link_count, record.user_id, record.group_id), (0o60_640, 10, 11, 12));
    assert_eq!((record.device, record.block_size_bytes, record.flags), (0x0070_0812, 4096, 1));
}

#[test]
fn headers_tell_size_and_error() {
    let header = ReplyHeader::success(1 << 63 | 5, 24).unwrap();
    assert_eq!(*header.wire(), OutHeader { size_bytes: 40, error: 0, unique: 1 << 63 | 5 });
    assert_eq!(header.as_bytes().len(), 16);
    let header = ReplyHeader::error(7, Errno::NOENT);
    assert_eq!(*header.wire(), OutHeader { size_bytes: 16, error: -2, unique: 7 });
    assert_eq!(ReplyHeader::success(1, u32::MAX as usize), Err(ReplyError::TooLong));
    assert_eq!(ReplyHeader::success(1, usize::MAX), Err(ReplyError::TooLong));
}

#[test]
fn errors_that_the_kernel_refuses_become_io_errors() {
    for (number, expected) in [(1, -1), (511, -511), (512, -5), (4095, -5)] {
        assert_eq!(ReplyHeader::error(7, Errno::from_raw_os_error(number)).wire().error, expected);
    }
}

#[test]
fn slices_hold_header_and_parts() {
    let mut header = ReplyHeader::default();
    let slices = reply_slices::<4>(&mut header, 9, &[b"ab", b"", b"cde"]).unwrap();
    assert_eq!(slices.len(), 4);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
    let (found, body) = OutHeader::read_from_prefix(&bytes).unwrap();
    assert_eq!(found, OutHeader { size_bytes: 21, error: 0, unique: 9 });
    assert_eq!(body, b"abcde");
    let slices = reply_slices::<4>(&mut header, 9, &[]).unwrap();
    assert_eq!((slices.len(), slices[0].len()), (1, 16));
    let error = reply_slices::<2>(&mut header, 9, &[b"ab", b"c"]).unwrap_err();
    assert_eq!(error, ReplyError::TooManyParts { parts: 2, slices: 2 });
}

#[test]
fn entries_and_attributes_have_all_values() {
    let entry = EntryReply {
        node_id: 20,
        generation: u32::MAX,
        entry_valid: Duration::new(3600, 1),
        attributes_valid: Duration::new(7200, 2),
        attributes: attributes(),
    };
    let wire = entry.encode();
    check(&wire.attributes);
    assert_eq!((wire.node_id, wire.generation), (20, u32::MAX.into()));
    assert_eq!((wire.entry_valid_seconds, wire.entry_valid_nanoseconds), (3600, 1));
    assert_eq!((wire.attributes_valid_seconds, wire.attributes_valid_nanoseconds), (7200, 2));
    let wire = AttributesReply { valid: Duration::from_millis(1500), attributes: attributes() }.encode();
    check(&wire.attributes);
    assert_eq!((wire.valid_seconds, wire.valid_nanoseconds), (1, 500_000_000));
    let open = OpenReply { handle: 5, flags: OpenReplyFlags::KEEP_CACHE };
    let create = CreateReply { entry, open }.encode();
    assert_eq!(create.entry, entry.encode());
    assert_eq!(create.open, OpenOut { handle: 5, open_flags: 2, backing_id: 0 });
    assert_eq!(create.as_bytes().len(), 144);
    let missing = EntryReply::missing(Duration::MAX).encode();
    let expected = EntryOut {
        entry_valid_seconds: u64::MAX,
        entry_valid_nanoseconds: 999_999_999,
        ..Default::default()
    };
    assert_eq!(missing, expected);
}

#[test]
fn statx_has_all_values() {
    let birth = Timestamp { seconds: -20, nanoseconds: 21 };
    let wire = StatxReply { valid: Duration::from_secs(1), attributes: attributes(), birth }.encode();
    assert_eq!((wire.valid_seconds, wire.flags), (1, 0));
    let found = wire.attributes;
    assert_eq!((found.mask, found.mode, found.link_count), (0xfff, 0o60_640, 10));
    assert_eq!((found.inode, found.size_bytes, found.sectors), (1, 2, 3));
    assert_eq!((found.user_id, found.group_id, found.block_size_bytes), (11, 12, 4096));
    assert_eq!((found.device_major, found.device_minor), (8, 0x712));
    let times = [found.access, found.birth, found.change, found.modification];
    assert_eq!(times.map(|time| (time.seconds, time.nanoseconds)), [(-4, 5), (-20, 21), (8, 9), (6, 7)]);
}

#[test]
fn small_replies_have_their_value() {
    assert_eq!(WriteOut::new(5).as_bytes(), [5u32, 0].as_bytes());
    assert_eq!(CopyFileRangeOut::new(1 << 40).as_bytes(), [1u64 << 40].as_bytes());
    assert_eq!(SeekOut::new(1 << 40).as_bytes(), [1u64 << 40].as_bytes());
    assert_eq!(BlockMapOut::new(6).as_bytes(), [6u64].as_bytes());
    assert_eq!(ExtendedAttributeSizeOut::new(7).as_bytes(), [7u32, 0].as_bytes());
    assert_eq!(PollOut::new(8).as_bytes(), [8u32, 0].as_bytes());
    assert_eq!(IoctlOut::new(-25).as_bytes(), [-25i32, 0, 0, 0].as_bytes());
    let lock = Lock { start_bytes: 1, last_bytes: 2, kind: LockKind::Unlock, process_id: 3 };
    let wire = LockOut::new(&lock).lock;
    assert_eq!((wire.start_bytes, wire.last_bytes, wire.kind, wire.process_id), (1, 2, 2, 3));
    for number in 0..4 {
        assert_eq!(
            LockKind::from_number(number).map(LockKind::number),
            Some(number).filter(|number| *number < 3)
        );
    }
    let statfs = StatfsReply {
        block_size_bytes: 4096,
        blocks: 1,
        free_blocks: 2,
        available_blocks: 3,
        files: 4,
        free_files: 5,
        name_bytes_max: 255,
    };
    let wire = statfs.encode();
    assert_eq!((wire.blocks, wire.free_blocks, wire.available_blocks), (1, 2, 3));
    assert_eq!((wire.files, wire.free_files, wire.name_bytes_max), (4, 5, 255));
    assert_eq!((wire.block_size_bytes, wire.fragment_size_bytes), (4096, 4096));
}

proptest! {
    #[test]
    fn slices_are_the_parts(unique: u64, parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..8)) {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let mut header = ReplyHeader::default();
        let slices = reply_slices::<6>(&mut header, unique, &parts);
        prop_assert_eq!(slices.is_err(), parts.len() > 5);
        if let Ok(slices) = slices {
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            let (found, body) = OutHeader::read_from_prefix(&bytes).unwrap();
            prop_assert_eq!(found, OutHeader { size_bytes: bytes.len() as u32, error: 0, unique });
            prop_assert_eq!(body, parts.concat());
        }
    }
}

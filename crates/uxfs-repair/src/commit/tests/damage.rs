//! Undo files that are damaged or made to deceive: refused before the device is written, and without much memory.

use std::fs;

use uxfs_testkit::seeds::Random;

use super::{
    super::{
        CommitError, FileFault, FileKind, UndoFile, UndoOptions, apply,
        header::{HEADER_BYTES, Header, RECORD_HEADER_BYTES, RecordHeader},
        state_of, undo,
    },
    Fixture, SHAPES, Shape,
    devices::CutDevice,
};

/// An undo file of a superblock and two records.
fn small() -> (Fixture, Vec<u8>) {
    let shape = Shape { size_bytes: 4096, runs: 0, ..SHAPES[0] };
    let mut fixture = Fixture::new(shape, &mut Random::new(1));
    fixture.new[1024] ^= 1;
    fixture.new[3000] ^= 1;
    fixture.ranges = vec![0..4096];
    let file = fixture.prepare();
    let bytes = fs::read(file.path()).unwrap();
    assert_eq!(bytes.len() as u64, HEADER_BYTES + 3 * (RECORD_HEADER_BYTES + 1024));
    (fixture, bytes)
}

/// What is wrong with the file; nothing is written.
fn refused(fixture: &Fixture, bytes: &[u8]) -> FileFault {
    let path = fixture.about().path;
    fs::write(&path, bytes).unwrap();
    let device = CutDevice::new(&fixture.new, None, 0);
    let all = UndoFile::open(&path).map(|file| {
        let force = UndoOptions { force: true };
        let results = [
            apply(&file, &device).map(drop),
            undo(&file, &device, force).map(drop),
            state_of(&file, &device).map(drop),
            file.check(),
        ];
        let mut faults = results.map(|result| fault(result.unwrap_err())).into_iter();
        let first = faults.next().unwrap();
        assert!(faults.all(|fault| fault == first));
        first
    });
    assert_eq!(device.requests(), 0, "the device was written");
    all.unwrap_or_else(fault)
}

fn fault(error: CommitError) -> FileFault {
    let CommitError::Unusable { fault, .. } = error else { panic!("{error}") };
    fault
}

#[test]
fn a_changed_bit_anywhere_is_seen() {
    let (fixture, bytes) = small();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        refused(&fixture, &damaged);
    }
}

#[test]
fn a_file_that_ends_early_or_late_is_seen() {
    let (fixture, bytes) = small();
    for length in 0..bytes.len() {
        refused(&fixture, &bytes[..length]);
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(refused(&fixture, &longer), FileFault::Length { .. }));
    // What a kill leaves under the other name has no header.
    let mut begun = bytes.clone();
    begun[..HEADER_BYTES as usize].fill(0);
    assert_eq!(refused(&fixture, &begun), FileFault::Magic(FileKind::Undo));
    assert!(matches!(refused(&fixture, &bytes[..10]), FileFault::Truncated { length_bytes: 10 }));
}

#[test]
fn a_later_version_is_named() {
    let (fixture, mut bytes) = small();
    bytes[8] = 2;
    assert_eq!(refused(&fixture, &bytes), FileFault::Version(2));
}

/// Another header, with a right checksum.
fn with_header(bytes: &[u8], change: impl Fn(&mut Header)) -> Vec<u8> {
    let (header, contents) = bytes.split_at(HEADER_BYTES as usize);
    let mut header = Header::decode(header, bytes.len() as u64, FileKind::Undo).unwrap();
    header.contents_checksum = crc32c::crc32c(contents);
    change(&mut header);
    [&header.encode()[..], contents].concat()
}

#[test]
fn headers_that_lie_are_refused() {
    let (fixture, bytes) = small();
    let lie = |change: fn(&mut Header)| refused(&fixture, &with_header(&bytes, change));
    for stored in [0, 2, 4, u64::MAX] {
        let lie = with_header(&bytes, |header| header.records = stored);
        assert_eq!(refused(&fixture, &lie), FileFault::Count { what: "records", stored, found: 3 });
    }
    assert!(matches!(lie(|header| header.facts.ranges = u64::MAX), FileFault::Count { what: "ranges", .. }));
    let fault = lie(|header| header.facts.changed_bytes = 0);
    assert_eq!(fault, FileFault::Count { what: "changed bytes", stored: 0, found: 3 * 512 });
    for superblock_bytes in [0, 1, 511, 513, 1024, 65536, u32::MAX] {
        let lie = with_header(&bytes, |header| header.superblock_bytes = superblock_bytes);
        assert!(matches!(refused(&fixture, &lie), FileFault::Count { .. }), "{superblock_bytes}");
    }
    assert!(matches!(lie(|header| header.facts.length_bytes = u64::MAX), FileFault::Length { .. }));
    assert!(matches!(lie(|header| header.contents_checksum ^= 1), FileFault::ContentsChecksum { .. }));
    // The records are for places behind such a device.
    assert!(matches!(lie(|header| header.facts.device_size_bytes = 2048), FileFault::Record { .. }));
}

#[test]
fn records_that_lie_are_refused() {
    let (fixture, bytes) = small();
    let second = (HEADER_BYTES + RECORD_HEADER_BYTES + 1024) as usize;
    let contents = second + RECORD_HEADER_BYTES as usize;
    let (old, new) = bytes[contents..contents + 1024].split_at(512);
    let with_record = |offset_bytes, length_bytes| {
        let mut header = RecordHeader { offset_bytes, length_bytes, checksum: 0 };
        header.checksum = header.compute(old, new);
        let mut lie = bytes.clone();
        lie[second..contents].copy_from_slice(&header.encode());
        refused(&fixture, &with_header(&lie, |_| {}))
    };
    let lies = [
        (1024, 0),
        (1024, 1 << 20),
        (1024, (1 << 20) + 1),
        (1024, u32::MAX),
        (0, 512),
        (511, 512),
        (3585, 512),
        (u64::MAX, 512),
    ];
    for (offset_bytes, length_bytes) in lies {
        let found = with_record(offset_bytes, length_bytes);
        let position_bytes = second as u64;
        assert_eq!(found, FileFault::Record { position_bytes, offset_bytes, length_bytes });
    }
    // A length that the file has room for.
    assert!(matches!(with_record(1024, 513), FileFault::RecordChecksum { .. }));
    // Contents whose superblock is none.
    let mut lie = bytes.clone();
    let first = (HEADER_BYTES + RECORD_HEADER_BYTES) as usize;
    lie[first..first + 1024].fill(1);
    let header = RecordHeader::of(0, &lie[first..first + 512], &lie[first + 512..first + 1024]);
    lie[HEADER_BYTES as usize..first].copy_from_slice(&header.encode());
    let path = fixture.about().path;
    fs::write(&path, with_header(&lie, |_| {})).unwrap();
    assert!(UndoFile::open(&path).unwrap().check().is_err());
}

#[test]
fn a_file_without_records_is_refused() {
    let (fixture, bytes) = small();
    let header = Header::decode(&bytes[..HEADER_BYTES as usize], bytes.len() as u64, FileKind::Undo).unwrap();
    let mut empty = Header { records: 0, contents_checksum: 0, ..header };
    empty.facts.length_bytes = HEADER_BYTES;
    (empty.facts.ranges, empty.facts.changed_bytes) = (0, 0);
    assert!(matches!(refused(&fixture, &empty.encode()), FileFault::Count { what: "superblocks", .. }));
}

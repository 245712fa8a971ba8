use proptest::prelude::*;

use super::*;
use crate::fault::Fault;
use crate::{geometry::Geometry, superblock::Superblock};

const RECORD: &[u8; 2048] = include_bytes!("../../testdata/log/record.bin");
const RECORD_LARGE: &[u8; 37888] = include_bytes!("../../testdata/log/record_large.bin");
const RECORD_MKFS: &[u8; 1024] = include_bytes!("../../testdata/log/record_mkfs.bin");

fn place(block: u32) -> RecordLocation {
    let superblock = Superblock::prefix_of(include_bytes!("../../testdata/log/superblock.bin")).unwrap();
    let geometry = Geometry::new(superblock);
    RecordLocation {
        block,
        log_blocks: geometry.log_blocks * geometry.sectors_per_block(),
        uuid: geometry.uuid,
    }
}

fn verify(record: &[u8], block: u32) -> Result<(), Fault> {
    let header = RecordHeader::parse(record)?;
    header.verify(&place(block))?;
    Ok(header.verify_format()?)
}

/// Changes bytes of the golden record and gives what its verifier says.
fn patched(offset: usize, value: &[u8]) -> Result<(), Fault> {
    let mut bytes = *RECORD;
    bytes[offset..offset + value.len()].copy_from_slice(value);
    verify(&bytes, 194)
}

#[test]
fn records_of_the_kernel_and_of_mkfs_are_accepted() {
    assert_eq!(verify(RECORD, 194), Ok(()));
    let header = RecordHeader::parse(RECORD).unwrap();
    assert_eq!((header.header_blocks(), header.payload_blocks(), header.blocks()), (1, 3, 4));
    assert_eq!(header.operation_count.get(), 13);
    let (headers, payload) = RECORD.split_at(512);
    assert_eq!(checksum_state(headers, payload), ChecksumState::Right);

    assert_eq!(verify(RECORD_MKFS, 0), Ok(()));
    let (headers, payload) = RECORD_MKFS.split_at(512);
    assert_eq!(checksum_state(headers, payload), ChecksumState::Absent);
}

#[test]
fn headers_of_large_buffers_are_counted_by_the_buffer_and_checked_by_the_payload() {
    let header = RecordHeader::parse(RECORD_LARGE).unwrap();
    assert_eq!(header.verify(&place(1579)), Ok(()));
    assert_eq!((header.header_blocks(), header.payload_blocks()), (8, 66));
    let (headers, payload) = RECORD_LARGE.split_at(8 * 512);
    assert_eq!(checksum_state(headers, payload), ChecksumState::Right);
    // The third header block is not covered; the second is.
    let mut headers = headers.to_vec();
    headers[2 * 512 + 8] ^= 1;
    assert_eq!(checksum_state(&headers, payload), ChecksumState::Right);
    headers[512 + 8] ^= 1;
    assert!(matches!(checksum_state(&headers, payload), ChecksumState::Wrong(_)));
}

#[test]
fn stamping_what_was_restored_gives_the_kernels_bytes() {
    for (record, header_blocks, block) in [(&RECORD[..], 1, 194), (&RECORD_LARGE[..], 8, 1579)] {
        let mut bytes = record.to_vec();
        let (headers, payload) = bytes.split_at_mut(header_blocks * 512);
        restore_payload(headers, payload);
        assert_ne!(&headers[..], &[] as &[u8]);
        assert_ne!(&payload[..], &record[header_blocks * 512..], "the payload held cycle stamps");
        RecordHeader::prefix_of_mut(headers).unwrap().checksum.set(0);
        stamp_payload(headers, payload, block, 16800);
        assert!(seal(headers, payload));
        assert_eq!(bytes, record);
    }
}

#[test]
fn what_wraps_gets_the_next_cycle() {
    let mut bytes = RECORD.to_vec();
    let (headers, payload) = bytes.split_at_mut(512);
    restore_payload(headers, payload);
    stamp_payload(headers, payload, 197, 200);
    let cycles: Vec<_> = payload.chunks(512).map(|block| cycle_of_block(block).unwrap()).collect();
    assert_eq!(cycles, [1, 1, 2]);
    assert_eq!(next_cycle(MAGIC - 1), MAGIC + 1);
    assert_eq!(cycle_of_block(headers), Some(1), "a header has its cycle in the second word");
}

#[test]
fn each_check_rejects_its_damage() {
    use LogRecordFault as F;
    let lsn = Lsn::from_parts;
    let cases: &[(&str, usize, &[u8], F)] = &[
        ("version", 8, &[0, 0, 0, 3], F::Version { version: 3 }),
        ("format", 300, &[0, 0, 0, 2], F::Format { format: 2 }),
        ("size", 320, &[0, 4, 2, 0], F::BufferSize { size_bytes: 0x40200 }),
        ("length", 12, &[0, 0, 0x90, 0], F::Length { length_bytes: 0x9000, buffer_size_bytes: 0x8000 }),
        ("no length", 12, &[0; 4], F::Length { length_bytes: 0, buffer_size_bytes: 0x8000 }),
        ("block", 23, &[195], F::WrongBlock { found: 195, expected: 194 }),
        ("cycle", 7, &[2], F::Cycle { cycle: 2, lsn: lsn(1, 194) }),
        ("tail", 28, &[0, 1, 0, 0], F::TailOutside { tail: lsn(1, 65536), log_blocks: 16800 }),
        ("operations", 40, &[0, 0, 0, 129], F::OperationCount { count: 129, length_bytes: 1536 }),
    ];
    for (name, offset, value, fault) in cases {
        assert_eq!(patched(*offset, value), Err((*fault).into()), "{name}");
    }
    let found = HeaderFault::BadMagic { found: 0, expected: MAGIC };
    assert_eq!(patched(0, &[0; 4]), Err(found.into()));
    let found = Uuid([0; 16]);
    let expected = place(0).uuid;
    assert_eq!(patched(304, &[0; 16]), Err(HeaderFault::WrongUuid { found, expected }.into()));
    let short = HeaderFault::Truncated { length_bytes: 500, needed_bytes: 512 };
    assert_eq!(verify(&RECORD[..500], 194), Err(short.into()));
}

#[test]
fn a_record_is_verified_where_it_lies() {
    use crate::units::Sector;
    let geometry =
        Geometry::new(Superblock::prefix_of(include_bytes!("../../testdata/log/superblock.bin")).unwrap());
    let start = geometry.sector_of_block(geometry.log_start.unwrap()).unwrap();
    let verify_at = |bytes: &[u8], block: u64| {
        let sector = Sector::new(start.get() + block);
        crate::verify::verify(
            crate::fault::Structure::LogRecord,
            bytes,
            &VerifyContext::new(&geometry, sector),
        )
    };
    assert_eq!(verify_at(RECORD, 194), Ok(()));
    assert_eq!(verify_at(&RECORD[..512], 194), Ok(()), "the header alone");
    let misdirected = LogRecordFault::WrongBlock { found: 194, expected: 193 };
    assert_eq!(verify_at(RECORD, 193), Err(misdirected.into()));
    let mut bytes = *RECORD;
    bytes[1000] ^= 1;
    assert!(matches!(verify_at(&bytes, 194), Err(Fault::Header(HeaderFault::BadChecksum { .. }))));
}

#[test]
fn fillers_are_told_from_records() {
    let mut bytes = *RECORD;
    assert!(!RecordHeader::parse(&bytes).unwrap().is_filler());
    bytes[12..16].fill(0);
    bytes[40..44].fill(0);
    assert!(RecordHeader::parse(&bytes).unwrap().is_filler());
}

proptest! {
    #[test]
    fn any_bytes_give_an_answer(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..4096),
        changes in proptest::collection::vec((0usize..37888, any::<u8>()), 0..8),
        split in 0usize..4096,
    ) {
        let _ = verify(&bytes, 0);
        let at = split.min(bytes.len());
        let (headers, payload) = bytes.split_at_mut(at);
        let _ = checksum_state(headers, payload);
        restore_payload(headers, payload);
        stamp_payload(headers, payload, 0, 3);
        let mut bytes = RECORD_LARGE.to_vec();
        for (offset, value) in changes {
            bytes[offset] = value;
        }
        if let Ok(header) = RecordHeader::parse(&bytes) {
            let _ = header.verify(&place(1579));
            let headers = (header.header_blocks() as usize * 512).min(bytes.len());
            let (headers, payload) = bytes.split_at_mut(headers);
            let _ = checksum_state(headers, payload);
            restore_payload(headers, payload);
        }
    }
}

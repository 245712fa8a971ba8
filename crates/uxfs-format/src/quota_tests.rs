use super::{QuotaFault as F, *};
use crate::fault::Fault;
use crate::{
    fault::Structure,
    superblock::{Copy, Superblock},
    units::Sector,
    verify,
};

/// 30 records of a user quota file: see `testdata/quota/README.md`.
const BLOCK: &[u8; 4096] = include_bytes!("../testdata/quota/block.bin");

fn verify_as(structure: Structure, bytes: &[u8]) -> Result<(), Fault> {
    let (superblock, sector) = Superblock::parse(include_bytes!("../testdata/superblock.bin")).unwrap();
    superblock.verify(sector, Copy::Primary).unwrap();
    let geometry = Geometry::new(superblock);
    verify::verify(structure, bytes, &VerifyContext::new(&geometry, Sector::new(800)))
}

/// Changes a record, seals it again and gives what the verifier says of the block.
fn patched(index: usize, offset: usize, value: &[u8]) -> Result<(), Fault> {
    let mut bytes = *BLOCK;
    let record = &mut bytes[136 * index..136 * (index + 1)];
    record[offset..offset + value.len()].copy_from_slice(value);
    assert!(checksum::seal(record, CHECKSUM_OFFSET_BYTES));
    verify_as(Structure::QuotaBlock, &bytes)
}

#[test]
fn golden_block_is_accepted_and_reads_as_xfs_db_prints_it() {
    assert_eq!(verify_as(Structure::QuotaBlock, BLOCK), Ok(()));
    assert_eq!(verify_as(Structure::Quota, &BLOCK[136 * 7..]), Ok(()));
    let records = records_of(BLOCK);
    assert_eq!(records.len(), 30);
    let record = &records[7];
    assert_eq!((record.id.get(), record.blocks.get(), record.block_soft_limit.get()), (7, 77, 50));
    assert_eq!(record.record_type(), RecordType::USER | RecordType::BIG_TIME);
    // Wed Apr 16 19:07:44 2025
    assert_eq!(record.timer_seconds(record.block_timer), 1_744_830_464);
}

#[test]
fn each_check_rejects_its_damage() {
    let fault = |fault: F| Err(Fault::from(fault));
    assert_eq!(patched(3, 0, &[0, 0]), fault(F::Magic { index: 3, found: 0 }));
    assert!(matches!(patched(3, 120, &[0]), Err(Fault::Quota(F::Uuid { index: 3, .. }))));
    assert_eq!(patched(29, 2, &[2]), fault(F::Version { index: 29, version: 2 }));
    for (index, record_type) in [(1, 0), (1, 0x80), (1, 3), (1, 0x89), (0, 0x81)] {
        let result = patched(index as usize, 3, &[record_type]);
        assert_eq!(result, fault(F::Type { index, record_type }));
    }
    assert_eq!(patched(4, 7, &[9]), fault(F::Id { index: 4, id: 9, expected: 4 }));
    let timer = F::Timer { index: 7, what: "blocks", used: 77, limit: 50 };
    assert_eq!(patched(7, 60, &[0; 4]), fault(timer));
    let timer = F::Timer { index: 7, what: "inodes", used: 11, limit: 10 };
    assert_eq!(patched(7, 55, &[11]), fault(timer));
    let mut bytes = *BLOCK;
    bytes[136 * 2 + 50] ^= 1;
    assert!(matches!(
        verify_as(Structure::QuotaBlock, &bytes),
        Err(Fault::Quota(F::Checksum { index: 2, .. }))
    ));
    let short = HeaderFault::Truncated { length_bytes: 100, needed_bytes: 136 };
    assert_eq!(verify_as(Structure::Quota, &BLOCK[..100]), Err(short.into()));
}

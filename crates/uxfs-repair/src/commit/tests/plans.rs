//! Plans: what they hold beside an undo file, and those that are damaged or made to deceive.

use std::{fs, sync::Arc};

use uxfs_block::{device::BlockDevice, engine::memory::MemoryDevice};
use uxfs_testkit::seeds::Random;

use super::{
    super::{
        CommitError, Existing, FileFault, FileKind, PlanFacts, Planned, UndoFile,
        header::{HEADER_BYTES, Header, RECORD_HEADER_BYTES, RecordHeader},
        write_plan,
    },
    Fixture, SHAPES, Shape, assert_same, bytes_of, device,
};

const FACTS: PlanFacts =
    PlanFacts { findings: 5, actions: 4, guesses: 3, losses: 2, files_lost: 1, remaining: u32::MAX };

/// A plan that changes one sector behind the superblock, the AGF.
fn small() -> (Fixture, Vec<u8>) {
    let shape = Shape { size_bytes: 4096, runs: 0, changes_superblock: false, ..SHAPES[0] };
    let mut fixture = Fixture::new(shape, &mut Random::new(1));
    fixture.new[600] ^= 1;
    fixture.ranges = vec![512..1024];
    let mut about = fixture.about();
    about.existing = Existing::Replace;
    write_plan(&*device(&fixture.old), &*device(&fixture.new), &fixture.ranges, &about, FACTS).unwrap();
    let bytes = fs::read(&about.path).unwrap();
    (fixture, bytes)
}

fn open(fixture: &Fixture, bytes: &[u8], old: &[u8]) -> Result<Planned, CommitError> {
    let path = fixture.about().path;
    fs::write(&path, bytes).unwrap();
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device(old));
    Planned::open(&path, &device)
}

#[test]
fn a_plan_shows_the_new_contents_over_the_old_or_the_new() {
    let (fixture, bytes) = small();
    for (old, is_done) in [(&fixture.old, false), (&fixture.new, true)] {
        let planned = open(&fixture, &bytes, old).unwrap();
        assert_eq!((*planned.facts(), planned.is_done()), (FACTS, is_done));
        assert_same(&bytes_of(planned.overlay().as_ref()), &fixture.new, "planned");
    }
    let error = UndoFile::open(&fixture.about().path).unwrap_err();
    assert!(
        matches!(error, CommitError::Unusable { fault: FileFault::Magic(FileKind::Undo), .. }),
        "{error}"
    );
}

/// The AGI does not change, and is in the plan.
#[test]
fn a_changed_header_of_a_group_is_seen() {
    let (fixture, bytes) = small();
    let mut old = fixture.old.clone();
    old[1024 + 100] ^= 1;
    let error = open(&fixture, &bytes, &old).unwrap_err();
    assert!(matches!(error, CommitError::Foreign { offset_bytes: 1024 }), "{error}");
    // Nothing tells of a sector that is neither changed nor watched.
    old = fixture.old.clone();
    old[2048] ^= 1;
    assert!(open(&fixture, &bytes, &old).is_ok());
}

#[test]
fn a_changed_bit_or_a_missing_end_is_seen() {
    let (fixture, bytes) = small();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        for lie in [&damaged[..], &bytes[..place]] {
            let error = open(&fixture, lie, &fixture.old).unwrap_err();
            assert!(matches!(error, CommitError::Unusable { kind: FileKind::Plan, .. }), "{place}: {error}");
        }
    }
}

/// Many small records would take a page of memory each.
#[test]
fn records_that_are_no_sectors_are_refused() {
    let (fixture, bytes) = small();
    let head = (HEADER_BYTES + RECORD_HEADER_BYTES + 1024) as usize;
    for (offset_bytes, length) in [(512, 1), (513, 512), (512, 511)] {
        let record = &vec![0; length][..];
        let header = RecordHeader::of(offset_bytes, record, record);
        let mut lie = [&bytes[..head], &header.encode()[..], record, record].concat();
        let (first, contents) = lie.split_at_mut(HEADER_BYTES as usize);
        let mut header = Header::decode(first, bytes.len() as u64, FileKind::Plan).unwrap();
        header.facts.length_bytes = (first.len() + contents.len()) as u64;
        header.contents_checksum = crc32c::crc32c(contents);
        (header.records, header.facts.ranges, header.facts.changed_bytes) = (2, 0, 0);
        first.copy_from_slice(&header.encode());
        let error = open(&fixture, &lie, &fixture.old).unwrap_err();
        assert!(matches!(error, CommitError::Unusable { fault: FileFault::Record { .. }, .. }), "{error}");
    }
}

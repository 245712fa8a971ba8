//! Damaged logs: whatever they hold, reading ends in time and with an answer.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    field_table::OnDisk,
    log::record::{MAGIC, RecordHeader, checksum_state, seal},
};

use crate::{
    area::BLOCK,
    listing::{Listing, ListingRange},
    recovery::find_head_tail::examine_area,
    testing::Dump,
};

/// Examines and lists; the counts say that neither ran wild.
fn read_all(dump: &Dump) {
    let begin = Instant::now();
    let _ = examine_area(&dump.area());
    for range in [ListingRange::Active, ListingRange::Everything] {
        let Ok(listing) = Listing::new(dump.area(), range) else { continue };
        let entries = listing.inspect(|record| {
            if let Ok(record) = record {
                let bytes: usize =
                    record.items.iter().flat_map(|item| &item.parts).map(|part| part.bytes.len()).sum();
                assert!(bytes < 4 << 20, "{bytes} bytes of items in one record");
            }
        });
        assert!(entries.count() <= dump.area().blocks() as usize + 1);
    }
    assert!(begin.elapsed() < Duration::from_secs(10));
}

fn patch(dump: &Dump, offset_bytes: u64, bytes: &[u8]) {
    dump.log.write(offset_bytes % (dump.log.size_bytes() - bytes.len() as u64), bytes).unwrap();
}

/// Where the records of a dump lie.
fn record_blocks(dump: &Dump) -> Vec<u32> {
    let mut block_bytes = [0; BLOCK];
    let blocks = (0..dump.area().blocks()).filter(|block| {
        dump.area().read(*block, &mut block_bytes).unwrap();
        block_bytes[..4] == MAGIC.to_be_bytes()
    });
    blocks.collect()
}

/// Gives the record at `block` a right checksum again, if it is still one.
fn reseal(dump: &Dump, block: u32) {
    let mut bytes = vec![0; BLOCK];
    dump.area().read(block, &mut bytes).unwrap();
    let Ok(header) = RecordHeader::parse(&bytes).copied() else { return };
    if header.verify_sizes().is_err() {
        return;
    }
    bytes.resize(header.blocks() as usize * BLOCK, 0);
    dump.area().read(block, &mut bytes).unwrap();
    let (headers, payload) = bytes.split_at_mut(header.header_blocks() as usize * BLOCK);
    let length = (header.length_bytes.get() as usize).min(payload.len());
    assert!(seal(headers, &payload[..length]));
    let _ = checksum_state(headers, &payload[..length]);
    dump.log.write(u64::from(block) * BLOCK as u64, &headers[..BLOCK]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn noise_anywhere(changes in proptest::collection::vec((any::<u64>(), any::<[u8; 8]>()), 1..200)) {
        let dump = Dump::load("killed-with-flush");
        // The written part is at the start.
        for (offset, bytes) in changes {
            patch(&dump, offset % (400 * BLOCK as u64), &bytes);
        }
        read_all(&dump);
    }

    #[test]
    fn header_fields_of_any_value(
        field in any::<prop::sample::Index>(),
        record in any::<prop::sample::Index>(),
        value in prop_oneof![Just(0u32), Just(u32::MAX), Just(1), any::<u32>()],
        name in prop::sample::select(vec!["exchange", "killed-wrapped-su256k", "killed-logbsize256k"]),
    ) {
        let dump = Dump::load(name);
        let blocks = record_blocks(&dump);
        let block = blocks[record.index(blocks.len())];
        let fields = RecordHeader::FIELDS;
        let field = &fields[field.index(fields.len())];
        let offset = u64::from(block) * BLOCK as u64 + u64::from(field.bit_offset / 8);
        patch(&dump, offset, &value.to_be_bytes());
        reseal(&dump, block);
        read_all(&dump);
    }

    #[test]
    fn payloads_of_any_content_with_a_right_checksum(
        record in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((0u64..32768, any::<[u8; 4]>()), 1..40),
    ) {
        let dump = Dump::load("exchange");
        let blocks = record_blocks(&dump);
        let block = blocks[record.index(blocks.len())];
        for (offset, bytes) in changes {
            let offset = u64::from(block + 1) * BLOCK as u64 + offset;
            // Cycle stamps stay, or the head would move.
            if offset % (BLOCK as u64) >= 4 && offset % (BLOCK as u64) <= 508 {
                patch(&dump, offset, &bytes);
            }
        }
        reseal(&dump, block);
        read_all(&dump);
    }

    #[test]
    fn cycles_of_any_value(changes in proptest::collection::vec((any::<u32>(), 0u32..6), 1..60)) {
        let dump = Dump::load("killed-wrapped-su32k");
        for (block, cycle) in changes {
            let block = block % dump.area().blocks();
            patch(&dump, u64::from(block) * BLOCK as u64, &cycle.to_be_bytes());
        }
        read_all(&dump);
    }
}

/// Every block reserves to be a record as long as they come: the worst case for the number of bytes read.
#[test]
fn a_log_of_nothing_but_headers() {
    let dump = Dump::load("killed-logbsize256k");
    let mut header = vec![0; BLOCK];
    dump.area().read(2, &mut header).unwrap();
    for block in 0..dump.area().blocks() {
        let typed = RecordHeader::prefix_of_mut(&mut header).unwrap();
        typed.lsn.set(1 << 32 | u64::from(block));
        typed.tail_lsn.set(1 << 32 | u64::from(block.saturating_sub(3000)));
        dump.log.write(u64::from(block) * BLOCK as u64, &header).unwrap();
    }
    read_all(&dump);
}

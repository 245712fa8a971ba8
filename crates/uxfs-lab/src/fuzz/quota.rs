//! A block of quota records, each with a right magic number, uuid and checksum, so that the fuzzer gets behind them.

use uxfs_format::{
    checksum,
    describe::{describe, text},
    fault::Structure,
    features::Incompatible,
    field_table::OnDisk,
    geometry::Geometry,
    quota::{CHECKSUM_OFFSET_BYTES, MAGIC, QuotaRecord, RecordType, VERSION},
    verify::{VerifyContext, verify},
};
use zerocopy::{FromZeros, IntoBytes};

use super::blocks::{GEOMETRY, SECTOR};

/// Where the uuid lies in a record.
const UUID_OFFSET_BYTES: usize = 120;

/// Runs one input: a byte that says what is made right, and the block.
pub fn quota(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else { return };
    let geometry = &*GEOMETRY;
    let mut block = vec![0; geometry.block_size()];
    let length = input.len().min(block.len());
    block[..length].copy_from_slice(&input[..length]);
    let first_id = block[4..8].to_owned();
    for (index, record) in (0_u32..).zip(block.chunks_exact_mut(QuotaRecord::SIZE_BYTES)) {
        if choice & 1 != 0 {
            record[..2].copy_from_slice(&MAGIC.to_be_bytes());
            record[2] = VERSION;
            record[UUID_OFFSET_BYTES..][..16].copy_from_slice(&geometry.metadata_uuid.0);
        }
        if choice & 2 != 0 {
            let first = u32::from_be_bytes(first_id.as_slice().try_into().unwrap_or_default());
            record[4..8].copy_from_slice(&first.wrapping_add(index).to_be_bytes());
        }
        if choice & 4 == 0 {
            checksum::seal(record, CHECKSUM_OFFSET_BYTES);
        }
    }
    let context = VerifyContext::new(geometry, SECTOR);
    let _ = verify(Structure::QuotaBlock, &block, &context);
    for record in block.chunks_exact(QuotaRecord::SIZE_BYTES) {
        let is_sound = verify(Structure::Quota, record, &context).is_ok();
        if is_sound || choice & 8 != 0 {
            let mut sink = String::new();
            let _ = text::write(&describe(Structure::Quota, record, geometry), record, &mut sink);
        }
    }
}

/// Sound records of this file system, from an id on, as the kernel leaves them in a block.
pub fn block(first_id: u32, geometry: &Geometry) -> Vec<u8> {
    let has_big_time = geometry.features.incompatible.contains(Incompatible::BIG_TIME);
    let timers = if has_big_time { RecordType::BIG_TIME } else { RecordType::empty() };
    let mut block = vec![0; geometry.block_size()];
    for (index, bytes) in (0_u32..).zip(block.chunks_exact_mut(QuotaRecord::SIZE_BYTES)) {
        let mut record = QuotaRecord::new_zeroed();
        record.magic.set(MAGIC);
        record.version = VERSION;
        record.id.set(first_id + index);
        // Id 0 holds lengths of time, which are never in the large unit.
        let timers = if record.id.get() == 0 { RecordType::empty() } else { timers };
        record.record_type = (RecordType::USER | timers).bits();
        record.block_hard_limit.set(1000 + u64::from(index));
        record.block_soft_limit.set(900);
        record.inode_hard_limit.set(100);
        record.blocks.set(u64::from(index));
        record.inodes.set(1);
        record.uuid = geometry.metadata_uuid;
        bytes.copy_from_slice(record.as_bytes());
        checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
    }
    block
}

/// First inputs: a sound block, whole and with what is made right left to the target.
pub fn seeds() -> Vec<Vec<u8>> {
    let block = block(0, &GEOMETRY);
    [0_u8, 7, 15].into_iter().map(|choice| [&[choice], block.as_slice()].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_sound() {
        let context = VerifyContext::new(&GEOMETRY, SECTOR);
        for seed in seeds() {
            verify(Structure::QuotaBlock, &seed[1..], &context).unwrap();
            quota(&seed);
        }
    }
}

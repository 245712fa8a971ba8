//! Damaged logs whose checksums are right: whatever they say, recovery ends in time, with an answer, and with the image as it
//! was.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use uxfs_block::device::BlockDevice;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery::recover;
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::record::{RecordHeader, seal},
    superblock::Superblock,
};
use uxfs_journal::{LogState, area::LogArea, examine};

use crate::crash::{
    image::{Image, ImageDevice},
    tree::Tree,
};
use uxfs_testkit::seeds::Random;

const BLOCK: usize = 512;
/// No damage may take longer.
const MOST_TIME: Duration = Duration::from_secs(30);

/// Counts of damaged logs.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostileTally {
    /// In all.
    pub cases: u64,
    /// Replayed all the same, and read from end to end.
    pub replayed: u64,
    /// Replayed, and then reading met damage.
    pub unreadable: u64,
    /// Refused.
    pub refused: u64,
    /// Clean logs, which have nothing to damage.
    pub clean: u64,
}

/// Where the records of a dirty log lie: first byte on the device, header blocks, blocks.
fn records(device: &dyn BlockDevice) -> Result<Vec<(u64, usize, usize)>> {
    let mut sector = vec![0; 4096];
    device.read(0, &mut sector)?;
    let geometry = Geometry::new(Superblock::prefix_of(&sector).context("no superblock")?);
    let LogState::Dirty(log) = examine(device, &geometry)? else { return Ok(Vec::new()) };
    let area = LogArea::new(device, &geometry)?;
    let (mut block, mut found) = (log.tail.block(), Vec::new());
    while block != log.head.block() {
        let mut bytes = vec![0; BLOCK];
        area.read(block, &mut bytes)?;
        let header = RecordHeader::parse(&bytes).map_err(|fault| anyhow::anyhow!("{fault}"))?;
        let (headers, blocks) = (header.header_blocks() as usize, header.blocks() as usize);
        // A record round the end of the ring would have to be sealed in two pieces.
        if block as usize + blocks <= area.blocks() as usize {
            found.push((Geometry::byte_of_sector(area.sector(block)), headers, blocks));
        }
        block = area.advance(block, blocks as u32);
    }
    Ok(found)
}

/// Damages the log of the image at `path` in `count` ways and recovers.
///
/// # Errors
/// Recovery takes too long, or changes the image.
///
/// # Panics
/// Recovery panics.
pub fn damage(path: &Path, count: u64, seed: u64, tally: &mut HostileTally) -> Result<()> {
    let base = Image::load(path)?;
    let records = records(&ImageDevice::new(base.clone()))?;
    if records.is_empty() {
        tally.clean += 1;
        return Ok(());
    }
    for case in 0..count {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(case));
        let mut image = base.clone();
        for _ in 0..1 + random.below(3) {
            let (start, headers, blocks) = records[random.below(records.len() as u64) as usize];
            let mut bytes = vec![0; blocks * BLOCK];
            image.read(start, &mut bytes)?;
            for _ in 0..1 + random.below(4) {
                damage_payload(&mut bytes[headers * BLOCK..], &mut random);
            }
            let length =
                RecordHeader::prefix_of(&bytes).map_or(0, |header| header.length_bytes.get() as usize);
            let (headers, payload) = bytes.split_at_mut(headers * BLOCK);
            let length = length.min(payload.len());
            seal(headers, &payload[..length]);
            image.write(start, &bytes)?;
        }
        let digest = image.digest();
        let device = Arc::new(ImageDevice::new(image));
        let begin = Instant::now();
        let outcome = read(&(Arc::clone(&device) as Arc<dyn BlockDevice>));
        let name = || format!("seed {seed}, case {case}");
        ensure!(begin.elapsed() < MOST_TIME, "{}: took {:?}", name(), begin.elapsed());
        ensure!(device.image().digest() == digest, "{}: the image was changed", name());
        tally.cases += 1;
        match outcome {
            Outcome::Replayed => tally.replayed += 1,
            Outcome::Unreadable => tally.unreadable += 1,
            Outcome::Refused => tally.refused += 1,
        }
    }
    Ok(())
}

enum Outcome {
    Replayed,
    Unreadable,
    Refused,
}

fn read(device: &Arc<dyn BlockDevice>) -> Outcome {
    let options = MountOptions { cache_budget_bytes: Some(8 << 20), ..MountOptions::default() };
    let Ok(Some(recovered)) = recover(device, &options, &mut ()) else { return Outcome::Refused };
    match recovered.mount(&options).map(|file_system| Tree::read(&file_system)) {
        Ok(Ok(_)) => Outcome::Replayed,
        _ => Outcome::Unreadable,
    }
}

/// Changes one number of a payload: to an extreme, a neighbour, a bit less or more, or anything. The first word of each block
/// stays: it is the stamp by which the head is found.
fn damage_payload(payload: &mut [u8], random: &mut Random) {
    // Most of what items say of themselves lies at the start of a region, in fours.
    let at = random.below(payload.len() as u64) as usize & !3;
    let length = [1, 2, 4, 8][random.below(4) as usize];
    let Some(field) =
        payload.get_mut(at..at + length).filter(|_| at % BLOCK >= 4 && at % BLOCK + length <= BLOCK)
    else {
        return;
    };
    let mut number = field.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    number = match random.below(7) {
        0 => 0,
        1 => u64::MAX,
        2 => number.wrapping_add(1),
        3 => number.wrapping_sub(1),
        4 => number ^ (1 << random.below(length as u64 * 8)),
        5 => u64::MAX >> random.below(64),
        _ => random.next_u64(),
    };
    field.copy_from_slice(&number.to_le_bytes()[..length]);
}

//! The geometry of a file system that has lost all of its superblocks, or whose superblocks all lie: from what its other structures say.
//!
//! ```text
//! survey of the device ─▶ evidence, by uuid ─▶ the uuid with the most ─▶ sizes ─▶ groups ─▶ log, features, root ─▶ a superblock
//! ```
//!
//! | fact | witnesses, the first that there are |
//! |---|---|
//! | uuid | the one of group 0's headers; the one that most sound structures at their own place carry |
//! | sector size | checksums of group headers; the reverse map's length of the headers; the first block that is no header |
//! | block size | checksums of btree blocks and attribute blocks |
//! | inode size, directory block size | checksums of inodes and of directory blocks |
//! | blocks in a group | places of headers, their lengths; numbers of inodes beside their places; ends of free space and of owned space |
//! | groups | headers, btree blocks, extents |
//! | length of the last group | its headers; the end of its owned space; the end of the device |
//! | place of the log | the reverse map; records of the log; what is neither free nor used behind the roots of a group |
//! | features | btrees that exist, flags of inodes, forms of records, hashes of names, parent pointers |
//! | root directory | a directory that is its own parent; the place that mkfs.xfs computes |
//!
//! What nothing says gets the value of mkfs.xfs: label, stripe unit and width, the share of inodes.
//!
//! Invariants:
//! 1. Only structures with a right checksum that lie where they say count. The blocks of another file system whose image is a file
//!    here say other places, so that it cannot win by its number of blocks.
//! 2. Work and memory are bounded: [`survey::MOST_BYTES`] of the device are read, of larger ones the beginnings of groups first. Wrong
//!    checksums in a piece are limited, and so are tables.

use std::ops::Range;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    checksum,
    field_table::OnDisk,
    superblock::{CHECKSUM_OFFSET_BYTES, Copy, Superblock},
};

mod contradicted;
mod evidence;
mod features;
mod groups;
mod look;
mod place_of_log;
mod solve;
pub(crate) mod survey;
mod votes;

use evidence::{Collected, Evidence};

/// A geometry that was inferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inferred {
    /// Its counters are zero.
    pub superblock: Box<Superblock>,
    /// From what.
    pub witnesses: Witnesses,
}

/// How many structures were heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Witnesses {
    /// Headers of allocation groups.
    pub group_headers: u64,
    /// Blocks of btrees.
    pub btree_blocks: u64,
    /// Inodes.
    pub inodes: u64,
    /// Blocks of directories and attributes.
    pub name_blocks: u64,
    /// Records of the log.
    pub log_records: u64,
}

impl std::fmt::Display for Witnesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group_headers, btree_blocks, inodes, name_blocks, log_records } = self;
        write!(
            f,
            "{group_headers} group headers, {btree_blocks} btree blocks, {inodes} inodes, {name_blocks} blocks of directories and \
             attributes, {log_records} log records"
        )
    }
}

impl Inferred {
    /// The bytes of its sector, with the right checksum.
    pub fn sector(&self) -> Vec<u8> {
        let mut bytes =
            vec![0; usize::from(self.superblock.sector_size_bytes.get()).max(Superblock::SIZE_BYTES)];
        if let Some(place) = bytes.get_mut(..Superblock::SIZE_BYTES) {
            place.copy_from_slice(self.superblock.disk_bytes());
        }
        checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
        bytes
    }

    fn is_sound(&self) -> bool {
        Superblock::parse(&self.sector())
            .is_ok_and(|(superblock, sector)| superblock.verify(sector, Copy::Primary).is_ok())
    }
}

/// Where a device is too large to be read, group 0 tells where the others begin, and so many bytes of each of them are read.
const NEAR_BYTES: u64 = 4 << 20;
const OF_FIRST_GROUP_BYTES: u64 = 256 << 20;

/// Infers the geometry of the file system on `device`. `None` where too little is left. Parts that cannot be read are passed over.
pub fn infer(device: &dyn BlockDevice) -> Option<Inferred> {
    let mut collected = Collected::default();
    if device.size_bytes() > survey::MOST_BYTES {
        collected.survey(device, 0..OF_FIRST_GROUP_BYTES);
        let first = collected.conclude(device);
        collected.survey_groups(device, first.as_ref());
        if let Some(inferred) = collected.conclude(device) {
            return Some(inferred);
        }
    }
    collected.survey(device, 0..device.size_bytes());
    collected.conclude(device)
}

/// Where a superblock that is sound in itself describes another file system than the structures on the device: the geometry that they
/// show. `None` where they agree with it, or with no other one.
pub fn outvoting(device: &dyn BlockDevice, superblock: &Superblock) -> Option<Inferred> {
    if !contradicted::is_contradicted(device, superblock) {
        return None;
    }
    let places = |superblock: &Superblock| {
        let Superblock { block_log, sector_log, inode_log, ag_blocks, .. } = superblock;
        (*block_log, *sector_log, *inode_log, *ag_blocks, superblock.effective_metadata_uuid())
    };
    let mut inferred = infer(device)?;
    let is_other = places(&inferred.superblock) != places(superblock);
    inferred.superblock.label = superblock.label;
    (is_other && !contradicted::is_contradicted(device, &inferred.superblock)).then_some(inferred)
}

impl Collected {
    fn survey(&mut self, device: &dyn BlockDevice, range: Range<u64>) {
        survey::survey(device, range, &mut |structure| self.add(structure));
    }

    /// The beginning of each group but the first, where a first solution says that it lies.
    fn survey_groups(&mut self, device: &dyn BlockDevice, first: Option<&Inferred>) {
        let Some(superblock) = first.map(|first| &first.superblock) else { return };
        let group_bytes = u64::from(superblock.ag_blocks.get()) << superblock.block_log;
        let starts = (group_bytes..device.size_bytes())
            .step_by(usize::try_from(group_bytes).unwrap_or(usize::MAX).max(1));
        for start in starts.take(usize::try_from(survey::MOST_BYTES / NEAR_BYTES).unwrap_or(0)) {
            self.survey(device, start..start.saturating_add(NEAR_BYTES));
        }
    }

    fn conclude(&self, device: &dyn BlockDevice) -> Option<Inferred> {
        let (uuid, evidence) = self.by_uuid.iter().max_by_key(|(_, evidence)| evidence.rank())?;
        let superblock = solve::solve(device, *uuid, evidence, &self.logs)?;
        let witnesses = witnesses(evidence, &self.logs, &superblock);
        Some(Inferred { superblock: Box::new(superblock), witnesses }).filter(Inferred::is_sound)
    }
}

fn witnesses(evidence: &Evidence, logs: &evidence::Logs, superblock: &Superblock) -> Witnesses {
    Witnesses { log_records: logs.records_of(superblock), ..evidence.witnesses }
}

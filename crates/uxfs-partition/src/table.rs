//! The partitions of a disk.
//!
//! Invariants:
//! 1. Every partition of a table begins within the disk, and ends within it: one that the table lets end later is cut, and says so.
//! 2. Memory and reads are bounded, whatever the disk holds: at most [`MOST_PARTITIONS`] entries, and an array of at most
//!    [`MOST_ARRAY_BYTES`].

use std::ops::Range;

use thiserror::Error;
use uxfs_block::device::{BlockDevice, DeviceError};

use crate::{gpt, mbr};

/// Partitions of a disk, at most: as many as Linux has minor numbers for.
pub const MOST_PARTITIONS: usize = 256;
/// Bytes of the entries of a GUID partition table, at most: 64 times what they usually have.
pub const MOST_ARRAY_BYTES: u64 = 1 << 20;

/// The kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// GUID partition table.
    Gpt,
    /// Master boot record.
    #[doc(alias = "dos")]
    Mbr,
}

impl Scheme {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        }
    }
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// As Linux counts them: from 1; logical partitions of a master boot record from 5.
    pub number: u32,
    /// First byte on the disk.
    pub start_bytes: u64,
    /// How many of its bytes the disk has.
    pub length_bytes: u64,
    /// How many it has by the table.
    pub claimed_bytes: u64,
    /// Its name; empty where it has none.
    #[doc(alias = "PARTLABEL")]
    pub name: String,
    /// What tells it from all others: a GUID, or for a master boot record the signature of the disk and the number.
    #[doc(alias = "PARTUUID")]
    pub unique_id: String,
}

impl Partition {
    /// Its bytes on the disk.
    pub fn range(&self) -> Range<u64> {
        self.start_bytes..self.start_bytes + self.length_bytes
    }

    /// Whether the disk ends before it does.
    pub fn is_cut(&self) -> bool {
        self.length_bytes < self.claimed_bytes
    }
}

/// The partitions of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTable {
    /// Its kind.
    pub scheme: Scheme,
    /// By number.
    pub partitions: Vec<Partition>,
    /// Numbers of entries that no part of the disk belongs to: they begin behind its end, end before they begin, or lie where the table lets no
    /// partition lie.
    pub impossible: Vec<u32>,
    /// Parts of the disk that the table itself takes, in bytes.
    pub table_ranges: Vec<Range<u64>>,
    /// The table at the beginning of the disk is damaged, and this is the copy at its end.
    pub is_backup: bool,
}

/// Why there is no table to be had.
#[derive(Debug, Error)]
pub enum TableError {
    /// The disk cannot be read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// There is a table, and neither copy of it is right.
    #[error("its partition table (GPT) is damaged, and so is the copy of it at the end of the disk")]
    Damaged,
}

/// An entry as the table has it, in sectors.
#[derive(Debug)]
pub(crate) struct Entry {
    pub number: u32,
    pub first_sector: u64,
    /// None where it ends before it begins, or cannot lie there.
    pub length_sectors: Option<u64>,
    pub name: String,
    pub unique_id: String,
}

impl PartitionTable {
    /// Reads the table of a disk; `None` where it has none. Sectors of a master boot record have `sector_size_bytes`; those of a GUID
    /// partition table are found by trying.
    ///
    /// # Errors
    /// The disk cannot be read; the table is damaged beyond use.
    pub fn read(device: &dyn BlockDevice, sector_size_bytes: u32) -> Result<Option<Self>, TableError> {
        let record = mbr::read_record(device)?;
        if record.is_none_or(|record| mbr::is_protective(&record))
            && let Some(table) = gpt::read(device, record.is_some())?
        {
            return Ok(Some(table));
        }
        match record {
            Some(record) => mbr::table(device, &record, sector_size_bytes.into()),
            None => Ok(None),
        }
    }

    /// The number of another partition that shares bytes with one.
    pub fn overlapping(&self, partition: &Partition) -> Option<u32> {
        let own = partition.range();
        self.in_part(&own).map(|other| other.number).find(|number| *number != partition.number)
    }

    /// The partitions that have some of these bytes.
    pub fn in_part(&self, part: &Range<u64>) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().filter(|partition| share(&partition.range(), part))
    }

    /// Whether the table itself takes some of these bytes.
    pub fn is_itself_in(&self, part: &Range<u64>) -> bool {
        self.table_ranges.iter().any(|range| share(range, part))
    }

    /// From what is on the disk.
    pub(crate) fn of(
        device: &dyn BlockDevice,
        scheme: Scheme,
        sector_size_bytes: u64,
        entries: Vec<Entry>,
        table_ranges: Vec<Range<u64>>,
    ) -> Self {
        let (partitions, impossible) = (Vec::new(), Vec::new());
        let mut table = Self { scheme, partitions, impossible, table_ranges, is_backup: false };
        for entry in entries {
            let number = entry.number;
            match partition(entry, sector_size_bytes, device.size_bytes()) {
                Some(partition) => table.partitions.push(partition),
                None => table.impossible.push(number),
            }
        }
        table
    }
}

fn share(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn partition(entry: Entry, sector_size_bytes: u64, disk_bytes: u64) -> Option<Partition> {
    let start_bytes = entry.first_sector.checked_mul(sector_size_bytes)?;
    let claimed_bytes = entry.length_sectors?.checked_mul(sector_size_bytes)?;
    let available_bytes = disk_bytes.checked_sub(start_bytes)?;
    if available_bytes == 0 || claimed_bytes == 0 {
        return None;
    }
    Some(Partition {
        number: entry.number,
        start_bytes,
        length_bytes: claimed_bytes.min(available_bytes),
        claimed_bytes,
        name: entry.name,
        unique_id: entry.unique_id,
    })
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;

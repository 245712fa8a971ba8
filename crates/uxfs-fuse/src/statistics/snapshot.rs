//! All counters at one moment. They travel as structures in the byte order of the machine: both processes run on it.

use std::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::histogram::{BUCKETS, Times};
use crate::{protocol::opcode::Opcode, transport::Way};

/// Begins a snapshot.
const MAGIC: [u8; 8] = *b"uxfsstat";
/// Of this form. A program that gets another one says so.
const VERSION: u32 = 1;
/// Most bytes of a snapshot: an ioctl through FUSE takes no more than 16,383.
pub const MOST_BYTES: usize = 16_000;

/// What the server counts of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Since it began.
    pub uptime: Duration,
    /// By the way they came: see [`Way`].
    pub requests: [u64; Way::ALL.len()],
    /// Operations that came at least once.
    pub operations: Vec<Operation>,
}

/// Of one kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Its number.
    pub opcode: u32,
    /// How many were answered with an error.
    pub errors: u64,
    /// How long they took.
    pub times: Times,
}

impl Operation {
    /// The name in the kernel's header, in lower case and without its prefix.
    #[must_use]
    pub fn name(&self) -> String {
        let name = Opcode::from_number(self.opcode).kernel_name();
        name.strip_prefix("FUSE_").unwrap_or(name).to_ascii_lowercase()
    }
}

/// A number with a name, of the file system below.
pub type Named = (&'static str, u64);

/// Names of the numbers of the cache, the journal and the mount, in the order in which they travel.
pub const NAMES: [&str; NUMBERS] = [
    "nodes",
    "open_files",
    "cache_budget_bytes",
    "cache_resident_bytes",
    "cache_hits",
    "cache_misses",
    "cache_evictions",
    "cache_read_bytes",
    "cache_prefetched",
    "cache_prefetch_used",
    "journal_transactions",
    "journal_checkpoints",
    "journal_log_bytes",
    "journal_changed_bytes",
    "journal_forces",
    "journal_force_nanoseconds",
    "journal_buffers_written_back",
];
/// How many numbers there are beside those of requests.
pub const NUMBERS: usize = 17;

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Requests.
    pub counted: Counted,
    /// In the order of [`NAMES`].
    pub numbers: [u64; NUMBERS],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    version: u32,
    operations: u32,
    uptime_nanoseconds: u64,
    requests: [u64; Way::ALL.len()],
    numbers: [u64; NUMBERS],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Row {
    opcode: u64,
    errors: u64,
    sum_nanoseconds: u64,
    most_nanoseconds: u64,
    buckets: [u64; BUCKETS],
}

impl Snapshot {
    /// The form in which it travels.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let rows = &self.counted.operations;
        let head = Head {
            magic: MAGIC,
            version: VERSION,
            operations: u32::try_from(rows.len()).unwrap_or(0),
            uptime_nanoseconds: u64::try_from(self.counted.uptime.as_nanos()).unwrap_or(u64::MAX),
            requests: self.counted.requests,
            numbers: self.numbers,
        };
        let mut bytes = head.as_bytes().to_vec();
        for operation in rows {
            let Times { sum_nanoseconds, most_nanoseconds, buckets, .. } = operation.times;
            let (opcode, errors) = (operation.opcode.into(), operation.errors);
            let row = Row { opcode, errors, sum_nanoseconds, most_nanoseconds, buckets };
            bytes.extend_from_slice(row.as_bytes());
        }
        bytes
    }

    /// From that form. `None` where it is another one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, mut rest) = Head::read_from_prefix(bytes).ok()?;
        if head.magic != MAGIC || head.version != VERSION {
            return None;
        }
        let mut operations = Vec::new();
        for _ in 0..head.operations {
            let (row, behind) = Row::read_from_prefix(rest).ok()?;
            rest = behind;
            let Row { opcode, errors, sum_nanoseconds, most_nanoseconds, buckets } = row;
            let count = buckets.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
            let times = Times { count, sum_nanoseconds, most_nanoseconds, buckets };
            operations.push(Operation { opcode: u32::try_from(opcode).ok()?, errors, times });
        }
        let counted = Counted {
            uptime: Duration::from_nanos(head.uptime_nanoseconds),
            requests: head.requests,
            operations,
        };
        Some(Self { counted, numbers: head.numbers })
    }

    /// The numbers with their names.
    pub fn named(&self) -> impl Iterator<Item = Named> + '_ {
        NAMES.into_iter().zip(self.numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(operations: u32) -> Snapshot {
        let mut numbers = [0; NUMBERS];
        numbers.iter_mut().zip(1..).for_each(|(number, value)| *number = value);
        let times = Times { count: 3, sum_nanoseconds: 9000, most_nanoseconds: 4000, ..Times::default() };
        let mut times = times;
        times.buckets[2] = 3;
        let operations = (0..operations).map(|opcode| Operation { opcode, errors: 1, times });
        let counted =
            Counted { uptime: Duration::from_secs(5), requests: [7, 8], operations: operations.collect() };
        Snapshot { counted, numbers }
    }

    #[test]
    fn a_snapshot_comes_back_and_fits() {
        for operations in [0, 1, 64] {
            let snapshot = snapshot(operations);
            let bytes = snapshot.encode();
            assert!(bytes.len() <= MOST_BYTES, "{}", bytes.len());
            // What follows is room that was not used.
            let padded = [bytes.as_slice(), &[0; 100]].concat();
            assert_eq!(Snapshot::decode(&padded), Some(snapshot));
            assert_eq!(Snapshot::decode(bytes.get(..bytes.len() - 1).unwrap()), None);
        }
        let mut other = snapshot(1).encode();
        other[8] ^= 1;
        assert_eq!(Snapshot::decode(&other), None);
        assert_eq!(snapshot(4).counted.operations[3].name(), "getattr");
    }
}

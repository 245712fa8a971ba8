//! What is done to the file.

use uxfs_testkit::seeds::Random;

/// The file never gets longer.
pub const LONGEST_BYTES: u64 = 1 << 20;
/// Of O_DIRECT.
const SECTOR_BYTES: u64 = 512;
const PAGE_BYTES: u64 = 4096;

/// Names, in the order of [`Operation::kind`].
pub const KINDS: [&str; 18] = [
    "read",
    "write",
    "append",
    "mapped read",
    "mapped write",
    "truncate",
    "punch hole",
    "zero range",
    "allocate",
    "copy range",
    "direct read",
    "direct write",
    "fsync",
    "fdatasync",
    "open again",
    "drop cache",
    "seek",
    "set time",
];

/// One operation. Places and lengths are in bytes.
#[derive(Debug, Clone, Copy)]
pub enum Operation {
    Read { at: u64, length: u64 },
    Write { at: u64, length: u64 },
    Append { length: u64 },
    MappedRead { at: u64, length: u64 },
    MappedWrite { at: u64, length: u64, is_synced: bool },
    Truncate { to: u64 },
    Punch { at: u64, length: u64 },
    Zero { at: u64, length: u64, keeps_size: bool },
    Allocate { at: u64, length: u64, keeps_size: bool },
    Copy { from: u64, to: u64, length: u64 },
    DirectRead { at: u64, length: u64 },
    DirectWrite { at: u64, length: u64 },
    Fsync,
    Fdatasync,
    OpenAgain,
    DropCache,
    Seek { at: u64 },
    SetTime,
}

/// What is likely, out of the sum of all.
const WEIGHTS: [(usize, u64); 18] = [
    (0, 16),
    (1, 18),
    (2, 3),
    (3, 10),
    (4, 12),
    (5, 6),
    (6, 5),
    (7, 5),
    (8, 4),
    (9, 6),
    (10, 5),
    (11, 5),
    (12, 1),
    (13, 1),
    (14, 1),
    (15, 1),
    (16, 3),
    (17, 1),
];

impl Operation {
    /// The next one on a file of this length.
    pub fn choose(random: &mut Random, file: u64) -> Self {
        let mut at = random.below(WEIGHTS.iter().map(|(_, weight)| weight).sum());
        let kind = WEIGHTS.iter().find(|(_, weight)| {
            let is_it = at < *weight;
            at = at.saturating_sub(*weight);
            is_it
        });
        let kind = kind.map_or(0, |(kind, _)| *kind);
        // Changes may begin behind the end of the file; readers and maps stay within it.
        let (at, length) = range(random, LONGEST_BYTES);
        let (inside, part) = range(random, file);
        let flag = random.below(2) == 0;
        match kind {
            0 => Self::Read { at, length },
            1 => Self::Write { at, length },
            2 => Self::Append { length: length.min(20_000).min(LONGEST_BYTES - file) },
            3 => Self::MappedRead { at: inside, length: part },
            4 => Self::MappedWrite { at: inside, length: part, is_synced: random.below(16) == 0 },
            5 => Self::Truncate { to: if flag { at } else { inside } },
            6 => Self::Punch { at, length },
            7 => Self::Zero { at, length, keeps_size: flag },
            8 => Self::Allocate { at, length, keeps_size: flag },
            9 => Self::copy(random, (inside, part), at),
            10 => Self::DirectRead { at: sectors(at), length: sectors(length) },
            11 => Self::DirectWrite { at: sectors(at), length: sectors(length) },
            12 => Self::Fsync,
            13 => Self::Fdatasync,
            14 => Self::OpenAgain,
            15 => Self::DropCache,
            16 => Self::Seek { at: inside },
            _ => Self::SetTime,
        }
    }

    /// Ranges of whole blocks share blocks; the ranges must not overlap.
    fn copy(random: &mut Random, (from, length): (u64, u64), to: u64) -> Self {
        let (mut from, mut to, mut length) = (from, to, length);
        if random.below(3) > 0 {
            (from, to) = (from - from % PAGE_BYTES, to - to % PAGE_BYTES);
            length -= length % PAGE_BYTES;
        }
        let room = to.abs_diff(from);
        Self::Copy { from, to, length: length.min(room).min(LONGEST_BYTES - to) }
    }

    /// The place of its name.
    pub fn kind(self) -> usize {
        match self {
            Self::Read { .. } => 0,
            Self::Write { .. } => 1,
            Self::Append { .. } => 2,
            Self::MappedRead { .. } => 3,
            Self::MappedWrite { .. } => 4,
            Self::Truncate { .. } => 5,
            Self::Punch { .. } => 6,
            Self::Zero { .. } => 7,
            Self::Allocate { .. } => 8,
            Self::Copy { .. } => 9,
            Self::DirectRead { .. } => 10,
            Self::DirectWrite { .. } => 11,
            Self::Fsync => 12,
            Self::Fdatasync => 13,
            Self::OpenAgain => 14,
            Self::DropCache => 15,
            Self::Seek { .. } => 16,
            Self::SetTime => 17,
        }
    }
}

/// A place and a length below `limit`: often at the bounds of pages, often short.
fn range(random: &mut Random, limit: u64) -> (u64, u64) {
    let mut at = random.below(limit.max(1));
    match random.below(4) {
        0 => at -= at % PAGE_BYTES,
        1 => at = (at - at % PAGE_BYTES).saturating_sub(random.below(3)),
        _ => {}
    }
    let most = 1 << (4 + random.below(14));
    let mut length = 1 + random.below(most);
    if random.below(4) == 0 {
        length = length.next_multiple_of(PAGE_BYTES);
    }
    (at, length.min(limit.saturating_sub(at)))
}

fn sectors(bytes: u64) -> u64 {
    bytes - bytes % SECTOR_BYTES
}

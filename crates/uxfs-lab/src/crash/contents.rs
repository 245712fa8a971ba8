//! Contents of files: every byte says which file it was written to, where, and by which operation.
//!
//! So a byte that turns up where it does not belong (of another file, or of one long deleted) is recognised, and so is one
//! that is too old. Bytes of a file are described by segments, not kept.

use std::ops::Range;

use super::image::mix;

/// The most that a file's number can be.
pub const MAX_FILE: u32 = (1 << 16) - 1;

/// Where bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The file that they were written to first.
    pub file: u32,
    /// The operation that wrote them.
    pub version: u32,
    /// Where in the file.
    pub offset: u64,
}

/// A run of bytes that were written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    start: u64,
    end: u64,
    /// Of the first byte.
    origin: Origin,
}

impl Segment {
    fn part(&self, range: &Range<u64>) -> Option<Self> {
        let (start, end) = (self.start.max(range.start), self.end.min(range.end));
        let origin = Origin { offset: self.origin.offset.wrapping_add(start - self.start), ..self.origin };
        (start < end).then_some(Self { start, end, origin })
    }
}

/// The word of eight bytes that an operation writes.
fn word(file: u32, version: u32, index: u64) -> u64 {
    mix(u64::from(file) << 48 | u64::from(version & 0xf_ffff) << 28 | index & 0xfff_ffff)
}

/// The write of a workload that eight bytes are from, if they are.
pub fn origin_of(bytes: [u8; 8]) -> Option<Origin> {
    // The inverse of `mix`.
    let mut value = u64::from_le_bytes(bytes);
    value = value ^ (value >> 31) ^ (value >> 62);
    value = value.wrapping_mul(0x3196_42b2_d24d_8ec3);
    value = value ^ (value >> 27) ^ (value >> 54);
    value = value.wrapping_mul(0x96de_1b17_3f11_9089);
    value = value ^ (value >> 30) ^ (value >> 60);
    let origin = Origin {
        file: (value >> 48) as u32,
        version: (value >> 28) as u32 & 0xf_ffff,
        offset: (value & 0xfff_ffff) * 8,
    };
    // Any eight bytes decode to something; what a workload writes is small in all three.
    let is_likely =
        origin.file != 0 && origin.file < 8192 && origin.version < 1 << 17 && origin.offset < 1 << 28;
    is_likely.then_some(origin)
}

/// Fills `bytes` with what the operation writes from `origin` on.
pub fn pattern(origin: Origin, bytes: &mut [u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let position = origin.offset + done as u64;
        let word = word(origin.file, origin.version, position / 8).to_le_bytes();
        let within = (position % 8) as usize;
        let length = (8 - within).min(bytes.len() - done);
        bytes[done..done + length].copy_from_slice(&word[within..within + length]);
        done += length;
    }
}

/// The bytes of a file; what no segment covers is zeros.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// In order, apart from each other.
    segments: Vec<Segment>,
}

impl Contents {
    /// Writes a range.
    pub fn write(&mut self, range: Range<u64>, origin: Origin) {
        if range.is_empty() {
            return;
        }
        self.zero(range.clone());
        self.segments.push(Segment { start: range.start, end: range.end, origin });
        self.segments.sort_unstable_by_key(|segment| segment.start);
    }

    /// Makes a range zeros.
    pub fn zero(&mut self, range: Range<u64>) {
        let sides = [0..range.start, range.end..u64::MAX];
        self.segments =
            self.segments.iter().flat_map(|old| sides.iter().filter_map(|side| old.part(side))).collect();
    }

    /// The contents of a range, moved to `to`.
    fn moved(&self, range: &Range<u64>, to: u64) -> impl Iterator<Item = Segment> {
        self.segments.iter().filter_map(|segment| segment.part(range)).map(move |part| Segment {
            start: part.start - range.start + to,
            end: part.end - range.start + to,
            ..part
        })
    }

    /// Puts a range of another file (or of an earlier state of this one) at `to`.
    pub fn copy(&mut self, source: &Self, range: &Range<u64>, to: u64) {
        let parts: Vec<Segment> = source.moved(range, to).collect();
        self.zero(to..to + (range.end - range.start));
        self.segments.extend(parts);
        self.segments.sort_unstable_by_key(|segment| segment.start);
    }

    /// Removes a range; the bytes behind it move down.
    pub fn collapse(&mut self, range: &Range<u64>) {
        let before = self.clone();
        self.zero(range.start..u64::MAX);
        self.segments.extend(before.moved(&(range.end..u64::MAX), range.start));
    }

    /// Makes room for a range of zeros; what was there moves up.
    pub fn insert(&mut self, range: &Range<u64>) {
        let before = self.clone();
        self.zero(range.start..u64::MAX);
        self.segments.extend(before.moved(&(range.start..u64::MAX), range.end));
    }

    /// Fills `bytes` with what lies from `offset` on.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let range = offset..offset + bytes.len() as u64;
        let first = self.segments.partition_point(|segment| segment.end <= offset);
        for segment in &self.segments[first..] {
            let Some(part) = segment.part(&range) else { break };
            pattern(part.origin, &mut bytes[(part.start - offset) as usize..(part.end - offset) as usize]);
        }
    }
}

const CHUNK: usize = 4096;

/// Whether `found` may be what a file holds whose contents went through `versions`, the first of which is certain to have
/// reached the device: each byte is that of one version, or zero where versions differ. Gives the first byte that is not.
pub fn first_foreign(versions: &[&Contents], found: &[u8]) -> Option<usize> {
    let mut expected: Vec<[u8; CHUNK]> = vec![[0; CHUNK]; versions.len()];
    for (index, chunk) in found.chunks(CHUNK).enumerate() {
        let offset = (index * CHUNK) as u64;
        let mut is_equal = false;
        for (version, expected) in versions.iter().zip(&mut expected) {
            version.read(offset, expected);
            is_equal = expected[..chunk.len()] == *chunk;
            if is_equal {
                break;
            }
        }
        if is_equal {
            continue;
        }
        let is_foreign = |(at, byte): (usize, &u8)| {
            // Bytes of two versions may be equal by chance, but not eight of them.
            let word = at / 8 * 8..at / 8 * 8 + 8;
            let may_be_zero =
                *byte == 0 && expected.windows(2).any(|two| two[0][word.clone()] != two[1][word.clone()]);
            !may_be_zero && !expected.iter().any(|version| version[at] == *byte)
        };
        if let Some(at) = chunk.iter().enumerate().position(is_foreign) {
            return Some(index * CHUNK + at);
        }
    }
    None
}

/// Says what lies at `at`, for a person.
pub fn describe(found: &[u8], at: usize) -> String {
    let start = at / 8 * 8;
    let Some(bytes) = found.get(start..start + 8).and_then(|bytes| bytes.try_into().ok()) else {
        return format!("{:02x?}", &found[start..]);
    };
    match origin_of(bytes) {
        Some(origin) => format!(
            "byte {} of file {} as operation {} wrote it",
            origin.offset,
            origin.file - 1,
            origin.version - 1
        ),
        None if bytes == [super::geometry::CANARY; 8] => "blocks that were never written".into(),
        None if bytes == [0; 8] => "zeros".into(),
        None => format!("{bytes:02x?}, which no operation wrote"),
    }
}

#[cfg(test)]
#[path = "contents_tests.rs"]
mod tests;

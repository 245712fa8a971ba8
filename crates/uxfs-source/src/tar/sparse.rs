//! Maps of holes, in the four ways in which archives have them.
//!
//! | format | where the map is |
//! |---|---|
//! | old GNU, type `S` | four ranges in the header, 21 in each block that follows |
//! | 0.0 | pairs of pax records, `GNU.sparse.offset` and `GNU.sparse.numbytes` |
//! | 0.1 | one pax record, `GNU.sparse.map` |
//! | 1.0 | decimal lines in front of the data, up to a block's end |

use super::{
    header::{BLOCK_BYTES, Header, gnu_sparse_extension},
    input::Input,
    pax::{SparseRecords, bounded_map},
};
use crate::{
    content::ByteRange,
    error::{ArchiveFault, Shown, SourceError},
};

/// Where a file has data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// Of the file.
    pub(super) size_bytes: u64,
    pub(super) ranges: Vec<ByteRange>,
    /// How many bytes of the member's data the map itself took.
    pub(super) map_bytes: u64,
}

/// The map of a member whose header says that it is sparse.
pub(super) fn read_gnu(header: &Header<'_>, input: &mut Input) -> Result<Map, SourceError> {
    let fault = |input: &Input, fault| input.fault(fault);
    let (mut ranges, mut has_more, size_bytes) = header.gnu_sparse().map_err(|error| fault(input, error))?;
    while has_more {
        let block = input.block()?;
        let truncated = ArchiveFault::Truncated { within: "a map of holes" };
        let block = block.ok_or_else(|| fault(input, truncated))?;
        let (more, has_still_more) = gnu_sparse_extension(&block).map_err(|error| fault(input, error))?;
        ranges.extend(more);
        bounded_map(2 * ranges.len()).map_err(|error| fault(input, error))?;
        has_more = has_still_more;
    }
    Ok(Map { size_bytes, ranges: byte_ranges(ranges), map_bytes: 0 })
}

/// The map of a member whose records say that it is sparse; `None` where they do not. `data_bytes` follow.
pub(super) fn read_pax(
    records: &SparseRecords,
    path: &[u8],
    data_bytes: u64,
    input: &mut Input,
) -> Result<Option<Map>, SourceError> {
    let numbers = match (records.major, &records.map) {
        (Some(1), _) => {
            let (numbers, map_bytes) = read_front(path, data_bytes, input)?;
            let size_bytes = records.real_size_bytes.unwrap_or(0);
            return Ok(Some(Map { size_bytes, ranges: byte_ranges(pairs(&numbers)), map_bytes }));
        }
        (Some(2..), _) => return Err(input.fault(ArchiveFault::Number { field: "GNU.sparse.major" })),
        (_, Some(map)) => map,
        _ if records.numbers.is_empty() && records.real_size_bytes.is_none() => return Ok(None),
        _ => &records.numbers,
    };
    let size_bytes = records.real_size_bytes.unwrap_or(0);
    Ok(Some(Map { size_bytes, ranges: byte_ranges(pairs(numbers)), map_bytes: 0 }))
}

/// Reads the decimal lines in front of the data.
fn read_front(path: &[u8], data_bytes: u64, input: &mut Input) -> Result<(Vec<u64>, u64), SourceError> {
    let malformed = |input: &Input| input.fault(ArchiveFault::SparseMap(Shown::from(path)));
    let mut numbers: Vec<u64> = Vec::new();
    let mut count: Option<u64> = None;
    let mut line: Option<u64> = None;
    let mut map_bytes = 0;
    while count.is_none_or(|count| (numbers.len() as u64) < count) {
        map_bytes += BLOCK_BYTES as u64;
        if map_bytes > data_bytes {
            return Err(malformed(input));
        }
        let Some(block) = input.block()? else { return Err(malformed(input)) };
        for byte in block {
            match (byte, line) {
                (b'0'..=b'9', line_so_far) => {
                    let value = line_so_far.unwrap_or(0).checked_mul(10);
                    let value = value.and_then(|value| value.checked_add(u64::from(byte - b'0')));
                    line = Some(value.ok_or_else(|| malformed(input))?);
                }
                (b'\n', Some(value)) => {
                    line = None;
                    if count.is_none() {
                        let numbers = usize::try_from(value).ok().and_then(|count| count.checked_mul(2));
                        bounded_map(numbers.unwrap_or(usize::MAX)).map_err(|error| input.fault(error))?;
                        count = Some(2 * value);
                    } else {
                        numbers.push(value);
                    }
                    if count == Some(numbers.len() as u64) {
                        break;
                    }
                }
                _ => return Err(malformed(input)),
            }
        }
    }
    Ok((numbers, map_bytes))
}

fn pairs(numbers: &[u64]) -> Vec<(u64, u64)> {
    numbers
        .chunks(2)
        .map(|pair| (pair.first().copied().unwrap_or(0), pair.get(1).copied().unwrap_or(0)))
        .collect()
}

/// Without the empty ones, which mark ends.
fn byte_ranges(ranges: Vec<(u64, u64)>) -> Vec<ByteRange> {
    let ranges = ranges.into_iter().filter(|(_, length)| *length > 0);
    ranges.map(|(offset_bytes, length_bytes)| ByteRange { offset_bytes, length_bytes }).collect()
}

impl Map {
    /// Whether the ranges are in order, within the file, and have so many bytes of data. Joins neighbours.
    pub(super) fn verify(&mut self, path: &[u8], data_bytes: u64) -> Result<(), ArchiveFault> {
        let mut end = 0;
        let mut sum: u64 = 0;
        for range in &self.ranges {
            let next = range.offset_bytes.checked_add(range.length_bytes);
            match next.filter(|next| range.offset_bytes >= end && *next <= self.size_bytes) {
                Some(next) => end = next,
                None => return Err(ArchiveFault::SparseMap(Shown::from(path))),
            }
            sum += range.length_bytes;
        }
        if sum != data_bytes {
            return Err(ArchiveFault::SparseMap(Shown::from(path)));
        }
        self.ranges.dedup_by(|next, before| {
            let touches = before.offset_bytes + before.length_bytes == next.offset_bytes;
            before.length_bytes += if touches { next.length_bytes } else { 0 };
            touches
        });
        Ok(())
    }
}

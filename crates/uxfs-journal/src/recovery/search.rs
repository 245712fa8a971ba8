//! Searches over the ring of blocks: by cycle, and for record headers. Each looks at any block at most once.

use uxfs_format::{
    field_table::OnDisk,
    log::record::{RecordHeader, cycle_of_block},
    units::Lsn,
};

use crate::{
    area::{BLOCK, LogArea},
    error::Result,
};

/// Blocks read at once by a scan.
const SCAN_BLOCKS: u32 = 512;

/// The cycle of one block.
pub(crate) fn cycle_at(area: &LogArea<'_>, block: u32) -> Result<u32> {
    let mut bytes = [0; BLOCK];
    area.read(block, &mut bytes)?;
    Ok(cycle_of_block(&bytes).unwrap_or(0))
}

/// Narrows `(before, end]` down to the first block of `cycle`, given that `end` has it, and that it and all blocks up
/// to `end` differ from those before it.
pub(crate) fn first_of_cycle(area: &LogArea<'_>, before: u32, end: u32, cycle: u32) -> Result<u32> {
    let (mut low, mut high) = (before, end);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if cycle_at(area, middle)? == cycle {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// The first block of `cycle` in `start..end`. Does not wrap.
pub(crate) fn find_cycle(area: &LogArea<'_>, start: u32, end: u32, cycle: u32) -> Result<Option<u32>> {
    let mut buffer = vec![0; (SCAN_BLOCKS as usize) * BLOCK];
    let mut first = start;
    while first < end {
        let count = SCAN_BLOCKS.min(end - first);
        let bytes = buffer.get_mut(..(count as usize) * BLOCK).unwrap_or_default();
        area.read(first, bytes)?;
        let found = bytes.chunks_exact(BLOCK).position(|block| cycle_of_block(block) == Some(cycle));
        if let Some(index) = found {
            return Ok(Some(first + index as u32));
        }
        first += count;
    }
    Ok(None)
}

/// A record header and where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundHeader {
    /// Its block.
    pub block: u32,
    /// It, as yet not verified.
    pub header: RecordHeader,
}

impl FoundHeader {
    /// Its number, by where it lies.
    pub(crate) fn lsn(&self) -> Lsn {
        Lsn::from_parts(self.header.cycle.get(), self.block)
    }
}

fn header_of(block: &[u8]) -> Option<RecordHeader> {
    RecordHeader::parse(block).ok().copied()
}

/// The last record headers in `start..end`, newest first, at most `count`. Does not wrap.
pub(crate) fn headers_before(
    area: &LogArea<'_>,
    start: u32,
    end: u32,
    count: usize,
) -> Result<Vec<FoundHeader>> {
    let mut found = Vec::new();
    let mut buffer = vec![0; (SCAN_BLOCKS as usize) * BLOCK];
    let mut last = end;
    while last > start && found.len() < count {
        let blocks = SCAN_BLOCKS.min(last - start);
        let first = last - blocks;
        let bytes = buffer.get_mut(..(blocks as usize) * BLOCK).unwrap_or_default();
        area.read(first, bytes)?;
        for (index, block) in bytes.chunks_exact(BLOCK).enumerate().rev() {
            if let Some(header) = header_of(block) {
                found.push(FoundHeader { block: first + index as u32, header });
                if found.len() == count {
                    break;
                }
            }
        }
        last = first;
    }
    Ok(found)
}

/// The last record headers before `end`, back to `start` round the ring, newest first, at most `count`. The whole
/// ring where the two are equal.
pub(crate) fn headers_back(
    area: &LogArea<'_>,
    start: u32,
    end: u32,
    count: usize,
) -> Result<Vec<FoundHeader>> {
    if start < end {
        return headers_before(area, start, end, count);
    }
    let mut found = headers_before(area, 0, end, count)?;
    let rest = count.saturating_sub(found.len());
    if rest > 0 {
        found.extend(headers_before(area, start, area.blocks(), rest)?);
    }
    Ok(found)
}

/// The first record header from `from` on, in at most `blocks` blocks round the ring.
pub(crate) fn next_header(area: &LogArea<'_>, from: u32, blocks: u32) -> Result<Option<FoundHeader>> {
    // The header is usually in the first block. Only a longer search allocates.
    let mut short = [0; 8 * BLOCK];
    let mut long = Vec::new();
    let mut done = 0;
    while done < blocks {
        let buffer = if done == 0 {
            &mut short[..]
        } else {
            long.resize(SCAN_BLOCKS as usize * BLOCK, 0);
            &mut long[..]
        };
        let count = ((buffer.len() / BLOCK) as u32).min(blocks - done);
        let first = area.advance(from, done);
        let bytes = buffer.get_mut(..(count as usize) * BLOCK).unwrap_or_default();
        area.read(first, bytes)?;
        for (index, block) in bytes.chunks_exact(BLOCK).enumerate() {
            if let Some(header) = header_of(block) {
                return Ok(Some(FoundHeader { block: area.advance(first, index as u32), header }));
            }
        }
        done += count;
    }
    Ok(None)
}

const _: () = assert!(RecordHeader::SIZE_BYTES == BLOCK);

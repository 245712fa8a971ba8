//! Blocks in their order: read, changed, written.

use std::io;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::Structure,
    geometry::Geometry,
    seal::{own_sector, structure_of},
    units::{InodeNumber, Sector},
};

use super::{Event, log::LogPart, writer::ExtentWriter};
use crate::{
    gather::{Found, Warning, first_inode, holds_inodes, length_blocks, place_of},
    transform::Transform,
};

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Sectors of headers that each group begins with.
const HEADER_SECTORS: usize = 4;

/// All blocks of a dump.
pub(super) struct Pieces<'p> {
    pub device: &'p dyn BlockDevice,
    pub found: &'p Found,
    pub transform: Transform<'p>,
    pub log: LogPart,
    /// The first sector is in the stream already.
    pub skips_first_sector: bool,
}

/// What lies at a block.
enum Unit<'u> {
    /// Headers of a group; which of their blocks.
    Headers(usize),
    Log,
    /// Contents of internal files, which have no names.
    Internal,
    Inodes(InodeNumber),
    /// A block of a directory block that lies in several pieces.
    Scattered(&'u [u64]),
    /// One structure, of so many blocks.
    Structure(Structure, u32),
    Unknown,
}

impl Pieces<'_> {
    /// Writes all blocks. Gives the number of those that cannot be read.
    pub(super) fn write(
        &self,
        writer: &mut ExtentWriter<'_>,
        tell: &mut dyn FnMut(Event),
    ) -> io::Result<u64> {
        let block_log = self.geometry().block_log;
        let most = (PIECE_BYTES >> block_log).max(1);
        let mut unreadable = 0;
        let mut bytes = Vec::new();
        for (start, count) in self.found.blocks.runs(u64::MAX) {
            let (mut next, end) = (start, start + count);
            while next < end {
                let length = (end - next).min(most);
                bytes.resize((length << block_log) as usize, 0);
                let done = match self.device.read(next << block_log, &mut bytes) {
                    Ok(()) => self.write_units(next, &mut bytes, writer)?,
                    Err(error) if length == 1 => {
                        unreadable += 1;
                        let sector = self.sector_of(next);
                        tell(Event::Warning(Warning::Unreadable { sector, error: error.into() }));
                        1
                    }
                    Err(_) => self.write_readable(next, length, writer, tell, &mut unreadable)?,
                };
                next += done;
                tell(Event::Done { blocks: done });
            }
        }
        Ok(unreadable)
    }

    /// Writes blocks one by one where they cannot be read together.
    fn write_readable(
        &self,
        start: u64,
        count: u64,
        writer: &mut ExtentWriter<'_>,
        tell: &mut dyn FnMut(Event),
        unreadable: &mut u64,
    ) -> io::Result<u64> {
        let block_log = self.geometry().block_log;
        let mut bytes = vec![0; self.geometry().block_size()];
        for number in start..start + count {
            match self.device.read(number << block_log, &mut bytes) {
                Ok(()) => {
                    self.write_units(number, &mut bytes, writer)?;
                }
                Err(error) => {
                    *unreadable += 1;
                    let sector = self.sector_of(number);
                    tell(Event::Warning(Warning::Unreadable { sector, error: error.into() }));
                }
            }
        }
        Ok(count)
    }

    /// Writes what begins in these blocks and ends in them, at least one block. Gives how many.
    fn write_units(&self, start: u64, bytes: &mut [u8], writer: &mut ExtentWriter<'_>) -> io::Result<u64> {
        let block_size = self.geometry().block_size();
        let count = bytes.len() / block_size.max(1);
        let mut index = 0;
        while index < count {
            let number = start + index as u64;
            let Some(rest) = bytes.get_mut(index * block_size..) else { break };
            let unit = self.unit(number, rest);
            let blocks = match unit {
                Unit::Structure(_, blocks) => blocks as usize,
                _ => 1,
            };
            if index + blocks > count && index > 0 {
                break;
            }
            let length = rest.len().min(blocks * block_size);
            let Some(piece) = rest.get_mut(..length) else { break };
            self.change(number, unit, piece);
            self.put(number, piece, writer)?;
            index += blocks.min(count - index);
        }
        Ok(index as u64)
    }

    fn put(&self, number: u64, bytes: &[u8], writer: &mut ExtentWriter<'_>) -> io::Result<()> {
        let skipped = match number == 0 && self.skips_first_sector {
            true => self.geometry().sector_size_bytes as usize,
            false => 0,
        };
        let sector = Sector::new(self.sector_of(number).get() + skipped as u64 / 512);
        match bytes.get(skipped..) {
            Some(rest) if !rest.is_empty() => writer.add(sector, rest),
            _ => Ok(()),
        }
    }

    fn change(&self, number: u64, unit: Unit<'_>, bytes: &mut [u8]) {
        if self.transform.is_idle() {
            return;
        }
        let sector = self.sector_of(number);
        match unit {
            Unit::Headers(index) => self.zero_behind_headers(index, bytes),
            Unit::Log => self.log.replace(number, bytes),
            Unit::Internal => {}
            Unit::Inodes(first) => self.transform.inodes(bytes, first),
            Unit::Structure(structure, _) => self.transform.structure(structure, bytes, sector),
            Unit::Scattered(pieces) => self.change_scattered(number, pieces, bytes),
            Unit::Unknown => self.transform.unknown(bytes),
        }
    }

    fn zero_behind_headers(&self, index: usize, bytes: &mut [u8]) {
        let headers = HEADER_SECTORS * self.geometry().sector_size_bytes as usize;
        let used = headers.saturating_sub(index * self.geometry().block_size());
        if self.transform.zero_unused
            && let Some(unused) = bytes.get_mut(used..)
        {
            unused.fill(0);
        }
    }

    /// Changes one block of a directory block, which is read whole.
    fn change_scattered(&self, number: u64, pieces: &[u64], bytes: &mut [u8]) {
        let block_size = self.geometry().block_size();
        let mut whole = vec![0; pieces.len() * block_size];
        for (piece, place) in pieces.iter().zip(whole.chunks_exact_mut(block_size.max(1))) {
            if self.device.read(piece << self.geometry().block_log, place).is_err() {
                return self.transform.unknown(bytes);
            }
        }
        let (first, structure) = (pieces.first().copied(), structure_of(&whole, self.geometry()));
        let (Some(first), Some(structure)) = (first, structure) else { return self.transform.unknown(bytes) };
        self.transform.structure(structure, &mut whole, self.sector_of(first));
        let index = pieces.iter().position(|piece| *piece == number).unwrap_or(0);
        if let Some(changed) = whole.chunks_exact(block_size.max(1)).nth(index) {
            bytes.copy_from_slice(changed);
        }
    }

    fn unit(&self, number: u64, bytes: &[u8]) -> Unit<'_> {
        if self.transform.is_idle() {
            return Unit::Unknown;
        }
        let geometry = self.geometry();
        let Some((group, block)) = place_of(geometry, number) else { return Unit::Unknown };
        if block.get() < geometry.group_header_blocks() {
            return Unit::Headers(block.get() as usize);
        }
        if self.log.has(number) {
            return Unit::Log;
        }
        if self.found.internal_blocks.contains(number) {
            return Unit::Internal;
        }
        let head = bytes.get(..geometry.block_size()).unwrap_or(bytes);
        if (self.found.inode_blocks.contains(number) || holds_inodes(geometry, group, block, head))
            && let Some(first) = first_inode(geometry, group, block)
        {
            return Unit::Inodes(first);
        }
        if let Some(pieces) = self.found.scattered.get(&number) {
            return Unit::Scattered(pieces);
        }
        self.structure(number, head)
    }

    /// What a block says that it is.
    fn structure(&self, number: u64, head: &[u8]) -> Unit<'_> {
        let geometry = self.geometry();
        let Some(structure) = structure_of(head, geometry) else { return Unit::Unknown };
        let blocks = length_blocks(structure, head, geometry);
        if blocks == 1 {
            return Unit::Structure(structure, 1);
        }
        // Of one that lies elsewhere, or not whole here, the blocks behind are something else.
        let is_here = own_sector(head, geometry) == Some(self.sector_of(number));
        match is_here && self.found.blocks.contains_run(number, blocks.into()) {
            true => Unit::Structure(structure, blocks),
            false => Unit::Unknown,
        }
    }

    fn sector_of(&self, number: u64) -> Sector {
        Sector::new(number.saturating_mul(self.geometry().sectors_per_block().into()))
    }

    fn geometry(&self) -> &Geometry {
        self.transform.geometry
    }
}

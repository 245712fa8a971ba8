//! Where a file has data and where it has holes, as `SEEK_DATA` and `SEEK_HOLE` tell it.

use uxfs_format::{btree::extent_map::Extent, geometry::Geometry, units::FileBlock};

use crate::{
    error::{OperationError, Result},
    extent_map::ExtentMap,
    inode::Inode,
    volume::Volume,
};

/// A run of bytes of a file that lie one after another on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataRange {
    /// First byte in the file.
    pub offset_bytes: u64,
    /// How many, at least one.
    pub length_bytes: u64,
    /// First byte on the device.
    pub device_offset_bytes: u64,
}

impl DataRange {
    /// First byte of the file behind the range.
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }

    /// The part between two bytes of the file, if any of it lies there.
    fn between(&self, start_bytes: u64, end_bytes: u64) -> Option<Self> {
        let offset_bytes = self.offset_bytes.max(start_bytes);
        let length_bytes = self.end_bytes().min(end_bytes).checked_sub(offset_bytes)?;
        let device_offset_bytes = self.device_offset_bytes + (offset_bytes - self.offset_bytes);
        (length_bytes > 0).then_some(Self { offset_bytes, length_bytes, device_offset_bytes })
    }

    /// The range without its first bytes, unless those are all.
    pub(super) fn without_first(&self, count_bytes: u64) -> Option<Self> {
        self.between(self.offset_bytes.saturating_add(count_bytes), self.end_bytes())
    }

    /// Both as one, if `next` continues this on disk as in the file.
    fn joined(&self, next: &Self) -> Option<Self> {
        let continues = next.offset_bytes == self.end_bytes()
            && next.device_offset_bytes == self.device_offset_bytes.saturating_add(self.length_bytes);
        continues.then_some(Self { length_bytes: self.length_bytes + next.length_bytes, ..*self })
    }
}

/// Iterates over the data of a part of a file in order. What lies between the ranges is zero.
#[derive(Debug, Clone)]
pub struct DataRanges<'a> {
    geometry: &'a Geometry,
    map: &'a ExtentMap,
    /// The next extent to look at.
    index: usize,
    start_bytes: u64,
    end_bytes: u64,
}

/// As [`data_ranges_between`](Volume::data_ranges_between), also where a tolerant volume has left extents out.
pub(super) fn known_ranges<'a>(
    volume: &'a Volume,
    inode: &'a Inode,
    start_bytes: u64,
    end_bytes: u64,
) -> Result<DataRanges<'a>> {
    let map = volume.readable_extents(inode)?;
    let geometry = volume.geometry();
    let index = map.index_at_or_after(FileBlock::new(start_bytes >> geometry.block_log));
    Ok(DataRanges { geometry, map, index, start_bytes, end_bytes: end_bytes.min(inode.size_bytes()) })
}

impl Volume {
    /// Where a regular file has data, from its first byte to its size. Neighbours on disk come as one range; two
    /// ranges may still touch in the file.
    ///
    /// # Errors
    /// No regular file, or a realtime one; damage in its extent map; the device.
    pub fn data_ranges<'a>(&'a self, inode: &'a Inode) -> Result<DataRanges<'a>> {
        self.data_ranges_between(inode, 0, inode.size_bytes())
    }

    /// As [`data_ranges`](Self::data_ranges), for a part of the file.
    ///
    /// # Errors
    /// As there.
    pub fn data_ranges_between<'a>(
        &'a self,
        inode: &'a Inode,
        start_bytes: u64,
        end_bytes: u64,
    ) -> Result<DataRanges<'a>> {
        let ranges = known_ranges(self, inode, start_bytes, end_bytes)?;
        self.require_extents(inode, start_bytes..end_bytes.min(inode.size_bytes()))?;
        Ok(ranges)
    }

    /// The first byte at or behind `offset_bytes` that is data: `SEEK_DATA`. Unwritten blocks count as holes.
    ///
    /// # Errors
    /// There is none ([`NoSuchOffset`](OperationError::NoSuchOffset)); as [`data_ranges`](Self::data_ranges).
    pub fn seek_data(&self, inode: &Inode, offset_bytes: u64) -> Result<u64> {
        let mut ranges = self.data_ranges_between(inode, offset_bytes, u64::MAX)?;
        let next = ranges.next().map(|range| range.offset_bytes);
        next.ok_or_else(|| OperationError::NoSuchOffset.into())
    }

    /// The first byte at or behind `offset_bytes` that is in a hole: `SEEK_HOLE`. At the end of the file there is one.
    ///
    /// # Errors
    /// The offset lies behind the end ([`NoSuchOffset`](OperationError::NoSuchOffset)); as
    /// [`data_ranges`](Self::data_ranges).
    pub fn seek_hole(&self, inode: &Inode, offset_bytes: u64) -> Result<u64> {
        let ranges = self.data_ranges_between(inode, offset_bytes, u64::MAX)?;
        if offset_bytes >= inode.size_bytes() {
            return Err(OperationError::NoSuchOffset.into());
        }
        let mut hole = offset_bytes;
        for range in ranges {
            if range.offset_bytes > hole {
                break;
            }
            hole = range.end_bytes();
        }
        Ok(hole)
    }
}

impl DataRanges<'_> {
    /// The bytes of an extent, as far as they are data of the part asked for.
    fn range_of(&self, extent: &Extent) -> Option<DataRange> {
        if extent.is_unwritten {
            return None;
        }
        let sector = self.geometry.sector_of_block(extent.start)?;
        let range = DataRange {
            // The map's extents end before 2^54 blocks, the file's size before 2^63 bytes.
            offset_bytes: extent.file_block.get().checked_mul(self.geometry.block_size_bytes.into())?,
            length_bytes: extent.length_blocks << self.geometry.block_log,
            device_offset_bytes: Geometry::byte_of_sector(sector),
        };
        range.between(self.start_bytes, self.end_bytes)
    }

    /// Whether an extent and all behind it lie behind the part asked for.
    fn is_behind(&self, extent: &Extent) -> bool {
        extent.file_block.get() > self.end_bytes >> self.geometry.block_log
    }
}

impl Iterator for DataRanges<'_> {
    type Item = DataRange;

    fn next(&mut self) -> Option<DataRange> {
        let mut range: Option<DataRange> = None;
        while let Some(extent) = self.map.get(self.index) {
            if self.is_behind(&extent) {
                break;
            }
            match (range, self.range_of(&extent)) {
                (None, found) => range = found,
                (Some(_), None) => {}
                (Some(known), Some(found)) => match known.joined(&found) {
                    Some(joined) => range = Some(joined),
                    None => break,
                },
            }
            self.index += 1;
        }
        range
    }
}

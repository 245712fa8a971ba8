//! The log as a ring of 512-byte blocks.

use uxfs_block::device::{BlockDevice, DeviceError};
use uxfs_format::{
    fault::{Corruption, Fault, Location, Structure},
    features::Unsupported,
    geometry::Geometry,
    log::{LOG_BLOCK_SIZE_BYTES, LogFault, record},
    units::{SECTOR_SIZE_BYTES, Sector, Uuid},
};

use crate::error::{JournalError, Result};

/// No log is larger: 2 GiB in blocks.
#[doc(alias = "XFS_MAX_LOG_BYTES")]
const MAX_LOG_BLOCKS: u32 = (1 << 31) / LOG_BLOCK_SIZE_BYTES;

/// Bytes in a block of the log.
pub(crate) const BLOCK: usize = LOG_BLOCK_SIZE_BYTES as usize;

/// Where the log lies, and whose it is.
#[derive(Debug, Clone, Copy)]
pub struct LogArea<'a> {
    device: &'a dyn BlockDevice,
    start: Sector,
    blocks: u32,
    uuid: Uuid,
}

impl<'a> LogArea<'a> {
    /// The log of the file system on `device`.
    ///
    /// # Errors
    /// The log is external, or its size cannot be.
    pub fn new(device: &'a dyn BlockDevice, geometry: &Geometry) -> Result<Self> {
        let start = geometry.log_start.ok_or(Unsupported::ExternalLog)?;
        let start = geometry.sector_of_block(start).unwrap_or(Sector::NULL);
        let blocks = geometry.log_blocks.saturating_mul(geometry.sectors_per_block());
        Self::at(device, start, blocks, geometry.uuid)
    }

    /// A log of `blocks` blocks from `start` on, of the file system that users know as `uuid`.
    ///
    /// # Errors
    /// It cannot be a log, or does not lie on the device.
    pub fn at(device: &'a dyn BlockDevice, start: Sector, blocks: u32, uuid: Uuid) -> Result<Self> {
        let area = Self { device, start, blocks, uuid };
        if blocks < record::MAX_RECORD_BLOCKS {
            return Err(area.fault_of_log(LogFault::TooShort { blocks }));
        }
        if blocks > MAX_LOG_BLOCKS {
            return Err(area.fault_of_log(LogFault::TooLong { blocks }));
        }
        let end_bytes = start
            .get()
            .checked_add(blocks.into())
            .and_then(|end| end.checked_mul(SECTOR_SIZE_BYTES))
            .unwrap_or(u64::MAX);
        let device_bytes = device.size_bytes();
        if end_bytes > device_bytes {
            return Err(area.fault_of_log(LogFault::OutsideDevice { end_bytes, device_bytes }));
        }
        Ok(area)
    }

    /// Blocks of 512 bytes in the log.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// First 512-byte unit of the log on the device.
    pub fn start(&self) -> Sector {
        self.start
    }

    /// The file system's user-visible uuid, which every record carries.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The same log, with records that carry another uuid.
    pub(crate) fn with_uuid(self, uuid: Uuid) -> Self {
        Self { uuid, ..self }
    }

    /// Where a block lies on the device.
    pub fn sector(&self, block: u32) -> Sector {
        Sector::new(self.start.get().saturating_add(block.into()))
    }

    /// `block` plus `count`, round the ring.
    pub fn advance(&self, block: u32, count: u32) -> u32 {
        let sum = (u64::from(block) + u64::from(count)) % u64::from(self.blocks);
        // Less than `blocks`, which is 32 bits wide.
        sum as u32
    }

    /// Blocks from `from` forward to `to`, round the ring; 0 where they are equal.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { self.blocks - from + to }
    }

    /// Fills `buffer` with the blocks from `block` on, round the ring. Both must be whole blocks within the log.
    ///
    /// # Errors
    /// The device failed.
    pub fn read(&self, block: u32, buffer: &mut [u8]) -> std::result::Result<(), DeviceError> {
        let to_end = (self.blocks.saturating_sub(block) as usize).saturating_mul(BLOCK);
        let (first, wrapped) = buffer.split_at_mut(to_end.min(buffer.len()));
        if !first.is_empty() {
            self.device.read(Geometry::byte_of_sector(self.sector(block)), first)?;
        }
        if !wrapped.is_empty() {
            self.device.read(Geometry::byte_of_sector(self.start), wrapped)?;
        }
        Ok(())
    }

    /// A fault in the record at `block`.
    pub(crate) fn fault_at(&self, block: u32, fault: impl Into<Fault>) -> JournalError {
        let location = Location::at_sector(self.sector(block));
        Corruption::new(Structure::LogRecord, location, fault).into()
    }

    /// A fault in the log as a whole.
    pub(crate) fn fault_of_log(&self, fault: impl Into<Fault>) -> JournalError {
        Corruption::new(Structure::Log, Location::at_sector(self.start), fault).into()
    }
}

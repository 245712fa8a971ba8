//! Sizes of blocks, sectors, inodes, directory blocks, and of the whole.

use super::{DeviceFacts, DeviceKind, LayoutError, Warning};
use crate::options::{Options, grammar::Setting, number::Units};

const MAX_INODE_BYTES: u32 = 2048;
const MIN_DIRECTORY_BLOCK_BYTES: u32 = 4096;
const MIN_BLOCK_BYTES: u32 = 1024;

/// The sizes that everything else is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Block.
    pub block_bytes: u32,
    /// Sector.
    pub sector_bytes: u32,
    /// Inode.
    pub inode_bytes: u32,
    /// Directory block.
    pub directory_block_bytes: u32,
}

impl Sizes {
    /// Block size until an option says otherwise.
    pub const DEFAULT_BLOCK_BYTES: u32 = 4096;
    /// Inode size until an option says otherwise; also the smallest.
    pub const DEFAULT_INODE_BYTES: u32 = 512;

    /// Directory block size until an option says otherwise.
    pub fn default_directory_block_bytes(block_bytes: u32) -> u32 {
        block_bytes.max(MIN_DIRECTORY_BLOCK_BYTES)
    }

    /// Takes the sizes from the options and the device.
    ///
    /// # Errors
    /// A size that cannot be, alone or beside the others.
    pub fn resolve(options: &Options, facts: &DeviceFacts) -> Result<Self, LayoutError> {
        let block_bytes = block_size(options)?;
        let sector_bytes = sector_size(options, facts, block_bytes)?;
        let units = Units { block_bytes: Some(block_bytes.into()), sector_bytes: Some(sector_bytes.into()) };
        if let Some(log_bytes) = small_size(options, Setting::LogSectorSize, NO_UNITS)?
            && log_bytes != sector_bytes
        {
            return Err(LayoutError::LogSectorSize { log_bytes, data_bytes: sector_bytes });
        }
        Ok(Self {
            block_bytes,
            sector_bytes,
            inode_bytes: inode_size(options, block_bytes)?,
            directory_block_bytes: directory_block_size(options, block_bytes, units)?,
        })
    }

    /// The sizes of the units `b` and `s`.
    pub fn units(&self) -> Units {
        Units { block_bytes: Some(self.block_bytes.into()), sector_bytes: Some(self.sector_bytes.into()) }
    }

    /// log2 of the block size.
    pub fn block_log(&self) -> u32 {
        self.block_bytes.ilog2()
    }

    /// Inodes in a block.
    pub fn inodes_per_block(&self) -> u32 {
        self.block_bytes / self.inode_bytes
    }

    /// Blocks that the four header sectors of a group take.
    pub fn group_header_blocks(&self) -> u32 {
        (self.sector_bytes * 4).div_ceil(self.block_bytes)
    }

    /// Blocks of a chunk of 64 inodes.
    pub fn chunk_blocks(&self) -> u32 {
        (64 / self.inodes_per_block()).max(1)
    }

    /// Inodes made at once: a chunk, or the chunks of a block that holds several.
    pub fn inodes_at_once(&self) -> u32 {
        self.chunk_blocks() * self.inodes_per_block()
    }

    /// Smallest and largest allocation group in blocks.
    pub fn group_limits(&self) -> (u64, u64) {
        ((16 << 20) >> self.block_log(), ((1u64 << 40) >> self.block_log()) - 1)
    }
}

const NO_UNITS: Units = Units { block_bytes: None, sector_bytes: None };

/// A size that its rule bounds to 32 bits.
fn small_size(options: &Options, setting: Setting, units: Units) -> Result<Option<u32>, LayoutError> {
    Ok(options.size(setting, units)?.and_then(|bytes| u32::try_from(bytes).ok()))
}

fn block_size(options: &Options) -> Result<u32, LayoutError> {
    let bytes = small_size(options, Setting::BlockSize, NO_UNITS)?.unwrap_or(Sizes::DEFAULT_BLOCK_BYTES);
    if bytes < MIN_BLOCK_BYTES { Err(LayoutError::BlockSize { bytes }) } else { Ok(bytes) }
}

fn sector_size(options: &Options, facts: &DeviceFacts, block_bytes: u32) -> Result<u32, LayoutError> {
    let asked = match small_size(options, Setting::SectorSize, NO_UNITS)? {
        Some(bytes) => Some(bytes),
        None => small_size(options, Setting::DataSectorSize, NO_UNITS)?,
    };
    let device_bytes = facts.logical_sector_bytes;
    let sector_bytes = match asked {
        Some(bytes) => bytes,
        // The medium's own sectors where blocks are made of them, otherwise what the device pretends to have.
        None if facts.physical_sector_bytes <= block_bytes => facts.physical_sector_bytes,
        None => device_bytes,
    };
    if block_bytes < sector_bytes {
        return Err(LayoutError::BlockSmallerThanSector { block_bytes, sector_bytes });
    }
    if sector_bytes < device_bytes {
        return Err(LayoutError::SectorSmallerThanDevice { bytes: sector_bytes, device_bytes });
    }
    Ok(sector_bytes)
}

fn inode_size(options: &Options, block_bytes: u32) -> Result<u32, LayoutError> {
    let max = MAX_INODE_BYTES.min(block_bytes / 2);
    let bytes = match (options.number(Setting::InodeSize), options.number(Setting::InodePerBlock)) {
        (Some(bytes), _) => bytes,
        (None, Some(count)) if count.is_power_of_two() => u64::from(block_bytes) / count,
        (None, Some(count)) => u64::from(block_bytes) / count + 1,
        (None, None) => Sizes::DEFAULT_INODE_BYTES.into(),
    };
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() && (Sizes::DEFAULT_INODE_BYTES..=max).contains(&bytes) => {
            Ok(bytes)
        }
        _ => Err(LayoutError::InodeSize { bytes, min: Sizes::DEFAULT_INODE_BYTES, max }),
    }
}

fn directory_block_size(options: &Options, block_bytes: u32, units: Units) -> Result<u32, LayoutError> {
    match small_size(options, Setting::NamingSize, units)? {
        Some(bytes) if bytes < block_bytes => {
            Err(LayoutError::DirectoryBlockSize { bytes: bytes.into(), block_bytes })
        }
        Some(bytes) => Ok(bytes),
        None => Ok(Sizes::default_directory_block_bytes(block_bytes)),
    }
}

/// Turns a length in bytes into blocks, leaving out what does not fill one.
///
/// # Errors
/// Not even whole 512-byte units.
pub fn length_in_blocks(
    bytes: u64,
    block_bytes: u32,
    option: &'static str,
    warnings: &mut Vec<Warning>,
) -> Result<u64, LayoutError> {
    if !bytes.is_multiple_of(512) {
        return Err(LayoutError::NotSectors { option, bytes });
    }
    let blocks = bytes / u64::from(block_bytes);
    let used_bytes = blocks * u64::from(block_bytes);
    if used_bytes != bytes {
        warnings.push(Warning::Truncated { option, bytes, used_bytes });
    }
    Ok(blocks)
}

/// Blocks of the data section before groups are cut.
pub fn data_blocks(
    options: &Options,
    facts: &DeviceFacts,
    sizes: &Sizes,
    warnings: &mut Vec<Warning>,
) -> Result<u64, LayoutError> {
    let named = options.size(Setting::DataSize, sizes.units())?;
    let asked = match (options.size_bytes, named) {
        (Some(_), Some(_)) => return Err(LayoutError::SizeTwice),
        (plain, named) => plain.or(named),
    };
    let device_blocks = facts.size_bytes / u64::from(sizes.block_bytes);
    let blocks = match asked {
        Some(bytes) => length_in_blocks(bytes, sizes.block_bytes, "-d size", warnings)?,
        None => device_blocks,
    };
    if blocks > device_blocks {
        let bytes = asked.unwrap_or(0);
        return Err(LayoutError::LargerThanDevice { bytes, device_bytes: facts.size_bytes });
    }
    if blocks < sizes.group_limits().0 {
        return Err(LayoutError::TooSmall { bytes: blocks * u64::from(sizes.block_bytes) });
    }
    Ok(blocks)
}

/// Whether the device's groups should be as many as there are processors, unless an option says otherwise.
pub fn is_fast_device(facts: &DeviceFacts) -> bool {
    facts.kind == (DeviceKind::Block { is_rotational: false })
}

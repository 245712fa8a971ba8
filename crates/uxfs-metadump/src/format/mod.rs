//! The bytes of a dump, in both versions that `xfs_mdrestore` reads.
//!
//! Version 2 is a header, and then extents: 12 bytes that say where the extent lies and how long it is, and its bytes. The first extent
//! is the superblock. Version 1 is a sequence of index blocks, each followed by the blocks of 512 bytes that it names. All
//! numbers are big-endian.

use uxfs_format::units::{SECTOR_SIZE_BYTES, Sector};

/// "XMD2".
#[doc(alias = "XFS_MD_MAGIC_V2")]
pub const MAGIC_V2: u32 = 0x584d_4432;
/// "XFSM".
#[doc(alias = "XFS_MD_MAGIC_V1")]
pub const MAGIC_V1: u32 = 0x5846_534d;
/// Bytes in the header of version 2, the magic number included.
pub const HEADER_BYTES: usize = 24;
/// Bytes before an extent of version 2.
pub const EXTENT_HEADER_BYTES: usize = 12;

/// Bits of an address; the two above them name a device.
const ADDRESS_BITS: u32 = 54;

bitflags::bitflags! {
    /// What a dump of version 2 says of itself.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct DumpFlags: u32 {
        /// Names are obfuscated, values of attributes are zeros.
        const OBFUSCATED = 1;
        /// Unused bytes of metadata are there.
        const FULL_BLOCKS = 2;
        /// The log has changes that are not in the metadata yet. It is not obfuscated.
        const DIRTY_LOG = 4;
        /// Some extents are of an external log.
        const EXTERNAL_LOG = 8;
    }
}

bitflags::bitflags! {
    /// What a program must know to restore a dump of version 2.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct NeededFlags: u32 {
        /// Some extents are of a realtime device.
        const REALTIME_DEVICE = 1;
    }
}

/// The header of version 2.
#[doc(alias = "xfs_metadump_header")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// What the dump says of itself.
    pub flags: DumpFlags,
    /// What is needed to restore it.
    pub needed: NeededFlags,
}

impl Header {
    /// As it lies in a dump.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let words = [MAGIC_V2, 2, self.flags.bits(), self.needed.bits()];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// The header without its magic number: version, both words of flags, and a reserved word, which is 0.
    pub fn decode(rest: &[u8; HEADER_BYTES - 4]) -> (u32, Self, u64) {
        let mut words =
            rest.chunks_exact(4).map(|word| word.first_chunk().copied().map_or(0, u32::from_be_bytes));
        let mut next = || words.next().unwrap_or(0);
        let (version, flags, needed) = (next(), next(), next());
        let reserved = u64::from(next()) << 32 | u64::from(next());
        let header =
            Self { flags: DumpFlags::from_bits_retain(flags), needed: NeededFlags::from_bits_retain(needed) };
        (version, header, reserved)
    }
}

/// The device that an extent is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentDevice {
    /// The data device.
    Data,
    /// An external log.
    Log,
    /// A realtime device.
    Realtime,
    /// None that is known.
    Unknown,
}

/// What stands before an extent of version 2.
#[doc(alias = "xfs_meta_extent")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentHeader {
    /// The device.
    pub device: ExtentDevice,
    /// Its first 512 bytes.
    pub start: Sector,
    /// Its length in units of 512 bytes.
    pub length_sectors: u32,
}

impl ExtentHeader {
    /// An extent of the data device.
    pub fn of_data(start: Sector, length_sectors: u32) -> Self {
        Self { device: ExtentDevice::Data, start, length_sectors }
    }

    /// As it lies in a dump. Only extents of the data device are written.
    pub fn encode(&self) -> [u8; EXTENT_HEADER_BYTES] {
        let mut bytes = [0; EXTENT_HEADER_BYTES];
        let (address, length) = bytes.split_at_mut(8);
        address.copy_from_slice(&self.start.get().to_be_bytes());
        length.copy_from_slice(&self.length_sectors.to_be_bytes());
        bytes
    }

    /// From a dump.
    pub fn decode(bytes: &[u8; EXTENT_HEADER_BYTES]) -> Self {
        let address = bytes.first_chunk().copied().map_or(0, u64::from_be_bytes);
        let length_sectors = bytes.last_chunk().copied().map_or(0, u32::from_be_bytes);
        let device = match address >> ADDRESS_BITS {
            0 => ExtentDevice::Data,
            1 => ExtentDevice::Log,
            2 => ExtentDevice::Realtime,
            _ => ExtentDevice::Unknown,
        };
        Self { device, start: Sector::new(address & ((1 << ADDRESS_BITS) - 1)), length_sectors }
    }

    /// Its length in bytes.
    pub fn length_bytes(&self) -> u64 {
        u64::from(self.length_sectors) * SECTOR_SIZE_BYTES
    }
}

/// What stands at the start of an index block of version 1. Places of blocks follow.
#[doc(alias = "xfs_metablock")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexHeader {
    /// Blocks that it names.
    pub count: u16,
    /// log2 of the size of a block, and of the index block.
    pub block_log: u8,
    /// Flags: whether there are any, and then as [`DumpFlags`], one bit further up.
    pub info: u8,
}

impl IndexHeader {
    /// Bytes that it takes, the magic number included.
    pub const BYTES: usize = 8;

    /// Without the magic number.
    pub fn decode(rest: &[u8; Self::BYTES - 4]) -> Self {
        let [high, low, block_log, info] = *rest;
        Self { count: u16::from_be_bytes([high, low]), block_log, info }
    }

    /// The flags, if the program that made the dump wrote any.
    pub fn flags(&self) -> Option<DumpFlags> {
        (self.info & 1 != 0).then(|| DumpFlags::from_bits_truncate(u32::from(self.info >> 1) & 7))
    }

    /// Blocks that an index block can name.
    pub fn capacity(&self) -> usize {
        (1_usize << self.block_log.min(31)).saturating_sub(Self::BYTES) / 8
    }
}

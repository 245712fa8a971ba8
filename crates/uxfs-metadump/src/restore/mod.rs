//! From a stream to a device.
//!
//! The stream is read once, from its start to its end. Its first block is the superblock, which says how long the device must be; it is written
//! last, so that what was cut off is no file system. Where a dump has the first sector twice, the later one stays: the
//! first one only says the size there, and the later one is how the device was.

mod stream;
mod version1;
mod version2;

use std::io::{self, Read};

use thiserror::Error;
use uxfs_block::device::DeviceError;
use uxfs_format::{
    checksum,
    field_table::OnDisk,
    superblock::{self, Superblock},
    units::SECTOR_SIZE_BYTES,
};

use crate::format::{DumpFlags, Header, IndexHeader, MAGIC_V1, MAGIC_V2};
use stream::Stream;

/// What a dump says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpInformation {
    /// 1 or 2.
    pub version: u32,
    /// `None` in dumps of version 1 that do not say it.
    pub flags: Option<DumpFlags>,
}

/// What was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreSummary {
    /// What the dump says of itself.
    pub information: DumpInformation,
    /// Length of the file system.
    pub size_bytes: u64,
    /// Extents of the dump; of version 1, blocks of 512 bytes.
    pub extents: u64,
    /// Bytes of metadata.
    pub bytes: u64,
}

/// Why a dump was not restored.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// Another magic number.
    #[error("not a metadata dump: it begins with {found:#010x}")]
    NotADump {
        /// The first four bytes.
        found: u32,
    },
    /// Another version than its magic number says.
    #[error("version {version} of the dump format is not known")]
    Version {
        /// In the header.
        version: u32,
    },
    /// It needs something that is not there.
    #[error("the dump {0}, which is not supported")]
    Unsupported(&'static str),
    /// The header says what it must not.
    #[error("the header of the dump is damaged: {0}")]
    Header(&'static str),
    /// It ends too early.
    #[error("the dump ends within {0}: it was cut off")]
    CutOff(&'static str),
    /// The first extent is not the superblock.
    #[error("the dump does not begin with a superblock: {0}")]
    NoSuperblock(&'static str),
    /// An extent lies outside the file system.
    #[error(
        "the dump is damaged: {length_bytes} bytes at byte {start_bytes} lie outside the file system, which has {size_bytes}"
    )]
    Outside {
        /// Where it begins.
        start_bytes: u64,
        /// How long it is.
        length_bytes: u64,
        /// The size of the file system.
        size_bytes: u64,
    },
    /// An extent of no bytes, or of an unknown device.
    #[error("the dump is damaged: an extent at byte {start_bytes} {fault}")]
    Extent {
        /// Where it begins.
        start_bytes: u64,
        /// What is wrong.
        fault: &'static str,
    },
    /// The target is too small.
    #[error("the file system takes {needed_bytes} bytes, and the target has {size_bytes}")]
    TargetTooShort {
        /// The file system.
        needed_bytes: u64,
        /// The target.
        size_bytes: u64,
    },
    /// The stream cannot be read.
    #[error("cannot read the dump: {0}")]
    Read(io::Error),
    /// The target cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] DeviceError),
    /// The target cannot be made.
    #[error("cannot write: {0}")]
    Target(io::Error),
}

/// Where a dump is restored to.
pub trait Target {
    /// Makes it ready for a file system of this size. Called once, before all writes.
    ///
    /// # Errors
    /// It cannot be made, or is too short.
    fn prepare(&mut self, size_bytes: u64) -> Result<(), RestoreError>;

    /// Writes bytes within that size.
    ///
    /// # Errors
    /// The device.
    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), RestoreError>;

    /// Makes all of it durable.
    ///
    /// # Errors
    /// The device.
    fn finish(&mut self) -> Result<(), RestoreError>;
}

/// Reads what a dump says of itself, from its first bytes.
///
/// # Errors
/// It is no dump; the stream.
pub fn information(source: &mut dyn Read) -> Result<DumpInformation, RestoreError> {
    Ok(Start::read(&mut Stream::new(source))?.information())
}

/// Restores a dump. `progress` is told how many bytes of metadata are done.
///
/// # Errors
/// The dump is damaged, or needs what is not supported; the stream or the target failed.
pub fn restore(
    source: &mut dyn Read,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(u64),
) -> Result<RestoreSummary, RestoreError> {
    let mut stream = Stream::new(source);
    let start = Start::read(&mut stream)?;
    let mut restored = match start {
        Start::Version1(index) => version1::restore(&mut stream, index, target, progress)?,
        Start::Version2(_) => version2::restore(&mut stream, target, progress)?,
    };
    restored.put_superblock(target)?;
    let Restored { size_bytes, extents, bytes, .. } = restored;
    Ok(RestoreSummary { information: start.information(), size_bytes, extents, bytes })
}

/// The first header of a dump.
#[derive(Debug, Clone, Copy)]
enum Start {
    Version1(IndexHeader),
    Version2(Header),
}

impl Start {
    fn read(stream: &mut Stream<'_>) -> Result<Self, RestoreError> {
        let found = u32::from_be_bytes(stream.array("its header")?);
        match found {
            MAGIC_V1 => Ok(Self::Version1(IndexHeader::decode(&stream.array("its header")?))),
            MAGIC_V2 => version2::header(stream).map(Self::Version2),
            _ => Err(RestoreError::NotADump { found }),
        }
    }

    fn information(&self) -> DumpInformation {
        match self {
            Self::Version1(index) => DumpInformation { version: 1, flags: index.flags() },
            Self::Version2(header) => DumpInformation { version: 2, flags: Some(header.flags) },
        }
    }
}

/// A device that is being restored.
struct Restored {
    size_bytes: u64,
    /// The first sector as it will be.
    first_sector: Vec<u8>,
    extents: u64,
    bytes: u64,
}

impl Restored {
    /// Takes the superblock, and makes the target ready.
    fn begin(bytes: &[u8], target: &mut dyn Target) -> Result<Self, RestoreError> {
        let (size_bytes, sector_bytes) = sizes_of(bytes)?;
        target.prepare(size_bytes)?;
        let first_sector = bytes.get(..sector_bytes).unwrap_or(bytes).to_vec();
        target.write(0, &unfinished(&first_sector))?;
        let rest = bytes.get(sector_bytes..).unwrap_or_default();
        if !rest.is_empty() {
            target.write(sector_bytes as u64, rest)?;
        }
        Ok(Self { size_bytes, first_sector, extents: 1, bytes: bytes.len() as u64 })
    }

    /// Whether bytes lie within the file system.
    fn check(&self, start_bytes: u64, length_bytes: u64) -> Result<(), RestoreError> {
        match start_bytes.checked_add(length_bytes) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(RestoreError::Outside { start_bytes, length_bytes, size_bytes: self.size_bytes }),
        }
    }

    /// Writes bytes, which [`check`](Self::check) has accepted; those of the first sector are kept.
    fn put(&mut self, start_bytes: u64, bytes: &[u8], target: &mut dyn Target) -> Result<(), RestoreError> {
        self.bytes += bytes.len() as u64;
        let sector_bytes = self.first_sector.len() as u64;
        if start_bytes >= sector_bytes {
            return target.write(start_bytes, bytes);
        }
        let start = start_bytes as usize;
        let kept = bytes.len().min(self.first_sector.len() - start);
        let (first, rest) = bytes.split_at_checked(kept).unwrap_or((bytes, &[]));
        if let Some(place) = self.first_sector.get_mut(start..start + kept) {
            place.copy_from_slice(first);
        }
        if rest.is_empty() { Ok(()) } else { target.write(sector_bytes, rest) }
    }

    fn put_superblock(&mut self, target: &mut dyn Target) -> Result<(), RestoreError> {
        target.write(0, &self.first_sector)?;
        target.finish()
    }
}

/// The first sector while the rest is not complete: it says so, and no copy of it in another group is taken for it.
fn unfinished(first_sector: &[u8]) -> Vec<u8> {
    let mut sector = first_sector.to_vec();
    if let Some(superblock) = Superblock::prefix_of_mut(&mut sector) {
        superblock.in_progress = 1;
    }
    checksum::seal(&mut sector, superblock::CHECKSUM_OFFSET_BYTES);
    sector
}

/// Bytes of the file system and of its sectors, as a superblock says, sound or not.
fn sizes_of(bytes: &[u8]) -> Result<(u64, usize), RestoreError> {
    let Ok((superblock, _)) = Superblock::parse(bytes) else {
        return Err(RestoreError::NoSuperblock("it is too short"));
    };
    if superblock.magic.get() != superblock::MAGIC {
        return Err(RestoreError::NoSuperblock("it has another magic number"));
    }
    let (block, sector) = (superblock.block_size_bytes.get(), superblock.sector_size_bytes.get());
    if !block.is_power_of_two() || !(512..=65536).contains(&block) {
        return Err(RestoreError::NoSuperblock("its block size is none that there is"));
    }
    if !sector.is_power_of_two() || u64::from(sector) < SECTOR_SIZE_BYTES || usize::from(sector) > bytes.len()
    {
        return Err(RestoreError::NoSuperblock("its sector size is none that there is"));
    }
    let size = superblock.data_blocks.get().checked_mul(block.into());
    match size.filter(|size| *size >= block.into() && i64::try_from(*size).is_ok()) {
        Some(size) => Ok((size, sector.into())),
        None => Err(RestoreError::NoSuperblock("its size is none that there is")),
    }
}

//! From a device to a stream.

mod log;
mod pieces;
mod writer;

use std::{
    io::{self, Write},
    sync::Arc,
};

use thiserror::Error;
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    checksum,
    directory::name_hash::NameRule,
    field_table::OnDisk,
    geometry::Geometry,
    superblock::{Copy, Superblock},
    units::Sector,
};
use uxfs_repair::opening::{self, LogComparison, OpeningOptions};
use uxfs_volume::{error::Error, tolerant::SuperblockChoice, volume::Volume};

use crate::{
    format::{DumpFlags, Header},
    gather::{Found, Warning, gather},
    obfuscate::NameCipher,
    transform::Transform,
};
use log::LogPart;
use pieces::Pieces;
use writer::ExtentWriter;

/// The longest extent of metadata that is believed, in blocks, unless another is asked for.
pub const MOST_EXTENT_BLOCKS: u64 = 2_097_151;
/// Where the superblock keeps its checksum.
const SUPERBLOCK_CHECKSUM_OFFSET_BYTES: u32 = 224;

/// How to dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpOptions {
    /// Names become others, values of attributes zeros.
    pub obfuscate: bool,
    /// Unused bytes become zeros.
    pub zero_unused: bool,
    /// Longer extents of metadata are left out.
    pub most_extent_blocks: u64,
    /// Which superblock describes the file system.
    pub superblock: SuperblockChoice,
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self {
            obfuscate: true,
            zero_unused: true,
            most_extent_blocks: MOST_EXTENT_BLOCKS,
            superblock: SuperblockChoice::Automatic,
            cache_budget_bytes: None,
        }
    }
}

/// What happens while a dump is made.
#[derive(Debug)]
pub enum Event {
    /// All metadata was found: this many blocks.
    Found {
        /// Blocks that will be dumped.
        blocks: u64,
    },
    /// This many more blocks are done.
    Done {
        /// Blocks.
        blocks: u64,
    },
    /// Something is damaged or cannot be read.
    Warning(Warning),
    /// The log has changes that are not in the metadata yet, or it cannot be read. It is dumped as it is.
    LogNotObfuscated,
    /// The log lies on another device. It is not dumped.
    ExternalLog,
}

/// What a dump holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DumpSummary {
    /// What it says of itself.
    pub flags: DumpFlags,
    /// Blocks of the file system.
    pub blocks: u64,
    /// Extents of the dump.
    pub extents: u64,
    /// Length of the dump.
    pub bytes: u64,
    /// Places that were found damaged while looking for metadata.
    pub damages: u64,
    /// Blocks that could not be read.
    pub unreadable_blocks: u64,
}

/// Why a dump was not finished.
#[derive(Debug, Error)]
pub enum DumpError {
    /// The file system cannot be opened.
    #[error(transparent)]
    Open(#[from] Error),
    /// The stream cannot be written.
    #[error("cannot write the dump: {0}")]
    Write(#[from] io::Error),
}

/// Writes the metadata of the file system on `device` to `output`. Damage is no error: damaged metadata is dumped as it is, and what
/// cannot be read is left out.
///
/// # Errors
/// No superblock describes a file system; one with features that uxfs does not know; `output` failed.
pub fn dump(
    device: &Arc<dyn BlockDevice>,
    options: &DumpOptions,
    output: &mut dyn Write,
    tell: &mut dyn FnMut(Event),
) -> Result<DumpSummary, DumpError> {
    let opening = |ignore_log| OpeningOptions {
        cache_budget_bytes: options.cache_budget_bytes,
        superblock: options.superblock.clone(),
        ignore_log,
        comparison: LogComparison::None,
    };
    let volume = opening::open(device, &opening(true))?.volume;
    let geometry = volume.geometry().clone();
    let mut found = Found::default();
    gather(&volume, options.most_extent_blocks, &mut found, &mut |warning| tell(Event::Warning(warning)));
    let damages = found.damages;
    let changes_bytes = options.obfuscate || options.zero_unused;
    let log = LogPart::new(&volume, changes_bytes);
    if log.is_dirty {
        // What only recovery would put in its place.
        let recovered = opening::open(device, &opening(false))?;
        if recovered.recovery.is_some() {
            gather(&recovered.volume, options.most_extent_blocks, &mut found, &mut |_| {});
        }
        if options.obfuscate {
            tell(Event::LogNotObfuscated);
        }
    }
    if geometry.log_start.is_none() {
        tell(Event::ExternalLog);
    }
    tell(Event::Found { blocks: found.blocks.len() });
    let mut flags = DumpFlags::empty();
    flags.set(DumpFlags::OBFUSCATED, options.obfuscate);
    flags.set(DumpFlags::FULL_BLOCKS, !options.zero_unused);
    flags.set(DumpFlags::DIRTY_LOG, log.is_dirty);
    let mut writer = ExtentWriter::new(output, &Header { flags, ..Header::default() })?;
    let skips_first_sector = write_superblock(&volume, device.as_ref(), &mut writer)?;
    let cipher = options.obfuscate.then(|| NameCipher::new(NameRule::of(&geometry)));
    let transform = Transform {
        geometry: &geometry,
        cipher: cipher.as_ref(),
        zero_unused: options.zero_unused,
        internal_inodes: &found.internal_inodes,
    };
    let pieces = Pieces { device: device.as_ref(), found: &found, transform, log, skips_first_sector };
    let unreadable_blocks = pieces.write(&mut writer, tell)?;
    let (extents, bytes) = writer.finish()?;
    let blocks = found.blocks.len() - unreadable_blocks;
    Ok(DumpSummary { flags, blocks, extents, bytes, damages, unreadable_blocks })
}

/// Writes the first extent, from which restoring learns the size of the file system. Where the first superblock is
/// damaged that is the one that was used instead, and the damaged one comes later. Gives whether the first sector is done.
fn write_superblock(
    volume: &Volume,
    device: &dyn BlockDevice,
    writer: &mut ExtentWriter<'_>,
) -> io::Result<bool> {
    let mut sector = vec![0; volume.geometry().sector_size_bytes as usize];
    let is_sound = device.read(0, &mut sector).is_ok() && is_sound(&sector, volume.geometry());
    if !is_sound {
        sector.fill(0);
        let bytes = volume.superblock().disk_bytes();
        if let Some(place) = sector.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
        checksum::seal(&mut sector, SUPERBLOCK_CHECKSUM_OFFSET_BYTES);
    }
    writer.add(Sector::new(0), &sector)?;
    writer.flush()?;
    Ok(is_sound)
}

/// Whether these bytes are a superblock that says what was used.
fn is_sound(bytes: &[u8], used: &Geometry) -> bool {
    Superblock::parse(bytes).is_ok_and(|(superblock, sector)| {
        superblock.verify(sector, Copy::Primary).is_ok()
            && Geometry::new(superblock).has_fixed_fields_of(used)
    })
}

//! The buffers that a replay changes: held in memory while transactions of one log sequence number go by, then sealed,
//! verified and written together.
//!
//! Several checkpoints may begin in one record and so have one number. A buffer that said it had that number while some
//! of their changes were missing would be passed over by the next replay: so nothing is sealed with a number before all
//! transactions of that number have been replayed. (Where memory is short, buffers go to the device below earlier, which
//! is an overlay; `early` remembers them.)
//!
//! A buffer that was torn while it was written back is a mixture of old and new. The log holds all that was being written,
//! so that it is whole at the end; in between it need not make sense, and is not verified before.

use std::collections::{BTreeMap, HashSet};

use uxfs_block::{
    cache::batch_reader::BatchReader,
    device::{BlockDevice, WriteSegment},
};
use uxfs_format::{
    checksum,
    fault::{Corruption, HeaderFault, Location, Structure},
    field_table::OnDisk,
    geometry::Geometry,
    inode::InodeCore,
    log::inode_change::is_inode,
    seal::{lsn_of, seal, structure_of},
    units::{InodeNumber, Lsn, SECTOR_SIZE_BYTES, Sector},
    verify::{VerifyContext, verify},
};

use crate::error::Result;

/// Bytes that are held before they go to the device although their number is not done.
const HELD_BYTES_MAX: usize = 64 << 20;

/// The treatment of a buffer before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Nothing: its structure is unknown, or it is a part of a buffer.
    Raw,
    /// Number, checksum and verifier.
    Seal(Structure),
    /// The verifier alone: its parts have been sealed one by one.
    Verify(Structure),
}

/// A buffer in memory.
#[derive(Debug)]
pub(super) struct Held {
    pub bytes: Vec<u8>,
    pub treatment: Treatment,
    /// Something has been changed in it.
    pub is_changed: bool,
}

/// The buffers of one log sequence number.
#[derive(Debug)]
pub(super) struct Buffers<'a> {
    pub(super) device: &'a dyn BlockDevice,
    pub(super) reader: BatchReader,
    /// Buffers of items that come next, as the device has them: nothing was written since they were read.
    pub(super) ahead: BTreeMap<u64, Vec<u8>>,
    /// Where the log ends.
    head: Lsn,
    lsn: Lsn,
    /// By first sector. No two overlap.
    pub(super) held: BTreeMap<u64, Held>,
    held_bytes: usize,
    /// Written before their number was done.
    early: HashSet<u64>,
    /// Buffers that were damaged when they were first read, with their lengths in sectors.
    torn: BTreeMap<u64, u32>,
    /// The same for single inodes, by the sector in which each begins and its number.
    torn_inodes: BTreeMap<u64, InodeNumber>,
    /// Buffers written in all.
    pub written: u64,
}

impl<'a> Buffers<'a> {
    pub fn new(device: &'a dyn BlockDevice, head: Lsn) -> Self {
        Self {
            device,
            reader: BatchReader::default(),
            ahead: BTreeMap::new(),
            head,
            lsn: Lsn::default(),
            held: BTreeMap::new(),
            held_bytes: 0,
            early: HashSet::new(),
            torn: BTreeMap::new(),
            torn_inodes: BTreeMap::new(),
            written: 0,
        }
    }

    /// A transaction of this number comes: writes what older ones have changed.
    pub fn begin(&mut self, lsn: Lsn, geometry: &Geometry) -> Result<()> {
        if lsn != self.lsn {
            self.write(geometry)?;
            self.early.clear();
            self.lsn = lsn;
        }
        Ok(())
    }

    /// Where the log ends.
    pub fn head(&self) -> Lsn {
        self.head
    }

    /// The number of the transactions that go by.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// A buffer to be changed: from memory, or read.
    pub fn open(&mut self, sector: u64, sectors: u32, geometry: &Geometry) -> Result<&mut Held> {
        let length = length_bytes(sectors);
        if self.conflicts(sector, sectors) || self.held_bytes > HELD_BYTES_MAX {
            self.write(geometry)?;
        }
        // Looked up twice: a borrow that is returned cannot end before.
        if !self.held.contains_key(&sector) {
            let bytes = match self.take_ahead(sector, length) {
                Some(bytes) => bytes,
                None => {
                    let mut bytes = vec![0; length];
                    self.device.read(Geometry::byte_of_sector(Sector::new(sector)), &mut bytes)?;
                    bytes
                }
            };
            if lsn_of(&bytes, geometry).is_some() && !is_sound(sector, &bytes, geometry) {
                self.torn.insert(sector, sectors);
            }
            self.held_bytes += length;
            self.held.insert(sector, Held { bytes, treatment: Treatment::Raw, is_changed: false });
        }
        let fresh = || Held { bytes: Vec::new(), treatment: Treatment::Raw, is_changed: false };
        Ok(self.held.entry(sector).or_insert_with(fresh))
    }

    /// Whether a buffer of another extent overlaps.
    fn conflicts(&self, sector: u64, sectors: u32) -> bool {
        let sectors_of = |held: &Held| held.bytes.len() as u64 / SECTOR_SIZE_BYTES;
        let end = sector + u64::from(sectors);
        let before = self.held.range(..sector).next_back();
        before.is_some_and(|(start, held)| start + sectors_of(held) > sector)
            || self.held.get(&sector).is_some_and(|held| sectors_of(held) != u64::from(sectors))
            || self.held.range(sector + 1..).next().is_some_and(|(start, _)| *start < end)
    }

    /// Whether the buffer holds what transactions of this number have changed, or something newer: then it must not be
    /// changed any more. What this number's transactions did themselves does not count, and the number of a damaged
    /// buffer says nothing: it was torn while it was written, and the log holds all that was being written.
    pub fn is_newer(&mut self, sector: u64, sectors: u32, geometry: &Geometry) -> Result<bool> {
        let (lsn, head, was_early) = (self.lsn, self.head, self.early.contains(&sector));
        let held = self.open(sector, sectors, geometry)?;
        if held.is_changed || was_early {
            return Ok(false);
        }
        let found = lsn_of(&held.bytes, geometry).filter(|found| is_a_number(*found, head) && *found >= lsn);
        Ok(found.is_some() && is_sound(sector, &held.bytes, geometry))
    }

    /// An inode was damaged when it was first read.
    pub fn note_torn_inode(&mut self, sector: u64, number: InodeNumber) {
        self.torn_inodes.insert(sector, number);
    }

    /// Whether an inode was damaged when it was first read.
    pub fn was_inode_torn(&self, sector: u64) -> bool {
        self.torn_inodes.contains_key(&sector)
    }

    /// Whether a buffer was damaged when it was first read.
    pub fn was_torn(&self, sector: u64) -> bool {
        self.torn.contains_key(&sector)
    }

    /// Says what is to be done to a buffer that is in memory.
    pub fn set_treatment(&mut self, sector: u64, treatment: Treatment) {
        if let Some(held) = self.held.get_mut(&sector) {
            held.treatment = treatment;
        }
    }

    /// A buffer was damaged when it was first read.
    pub fn note_torn(&mut self, sector: u64, sectors: u32) {
        self.torn.insert(sector, sectors);
    }

    /// Writes what is left, and verifies what was damaged before: it must be whole now.
    pub fn finish(&mut self, geometry: &Geometry) -> Result<()> {
        self.write(geometry)?;
        let mut bytes = Vec::new();
        for (sector, sectors) in std::mem::take(&mut self.torn) {
            bytes.resize(sectors as usize * SECTOR_SIZE_BYTES as usize, 0);
            self.device.read(Geometry::byte_of_sector(Sector::new(sector)), &mut bytes)?;
            let context = VerifyContext::new(geometry, Sector::new(sector));
            // What turned into something else, or is free now, is of no interest.
            if let Some(structure) = structure_of(&bytes, geometry)
                && structure != Structure::Superblock
                && !is_part(structure, bytes.len(), geometry)
            {
                verify(structure, &bytes, &context).map_err(|fault| damaged(structure, sector, fault))?;
            }
        }
        for (sector, number) in std::mem::take(&mut self.torn_inodes) {
            bytes.resize(geometry.inode_size(), 0);
            self.device.read(Geometry::byte_of_sector(Sector::new(sector)), &mut bytes)?;
            let is_there = InodeCore::prefix_of(&bytes).is_some_and(|core| core.inode_number() == number);
            if !is_inode(&bytes) || !is_there {
                continue;
            }
            let context = VerifyContext::new(geometry, Sector::new(sector));
            let location = Location { sector: Some(Sector::new(sector)), ..Location::of_inode(number) };
            verify(Structure::Inode, &bytes, &context)
                .map_err(|fault| Corruption::new(Structure::Inode, location, fault))?;
        }
        Ok(())
    }

    /// Seals, verifies and writes everything that has been changed, and forgets it.
    pub fn write(&mut self, geometry: &Geometry) -> Result<()> {
        for (sector, held) in &mut self.held {
            if held.is_changed {
                prepare(*sector, held, self.lsn, geometry, self.torn.contains_key(sector))?;
            }
        }
        let changed = self.held.iter().filter(|(_, held)| held.is_changed);
        let segments: Vec<WriteSegment<'_>> = changed
            .map(|(sector, held)| WriteSegment {
                offset_bytes: Geometry::byte_of_sector(Sector::new(*sector)),
                bytes: &held.bytes,
            })
            .collect();
        self.device.write_batch(&segments)?;
        self.written += segments.len() as u64;
        if !segments.is_empty() {
            self.ahead.clear();
        }
        let changed = self.held.iter().filter(|(_, held)| held.is_changed).map(|(sector, _)| *sector);
        self.early.extend(changed);
        self.held.clear();
        self.held_bytes = 0;
        Ok(())
    }
}

/// The length of so many sectors.
pub(super) fn length_bytes(sectors: u32) -> usize {
    sectors as usize * SECTOR_SIZE_BYTES as usize
}

/// Whether a buffer is what it says that it is, in whole.
fn is_sound(sector: u64, bytes: &[u8], geometry: &Geometry) -> bool {
    let context = VerifyContext::new(geometry, Sector::new(sector));
    match structure_of(bytes, geometry) {
        // Its verifier wants to know which of the superblocks it is.
        Some(Structure::Superblock) => {
            checksum::check(bytes, uxfs_format::superblock::CHECKSUM_OFFSET_BYTES).is_ok()
        }
        Some(structure) => verify(structure, bytes, &context).is_ok(),
        None => false,
    }
}

/// Whether a log sequence number on disk says anything: zero and all ones do not, nor does one ahead of the log. That is from
/// another log, which lay here before, and what this log holds was changed later.
pub(super) fn is_a_number(lsn: Lsn, head: Lsn) -> bool {
    lsn.get() != 0 && lsn <= head
}

/// Whether bytes are a piece of a directory block that lies in several extents.
fn is_part(structure: Structure, length: usize, geometry: &Geometry) -> bool {
    let is_directory = matches!(
        structure,
        Structure::DirectoryBlock
            | Structure::DirectoryData
            | Structure::DirectoryFreeIndex
            | Structure::DirectoryLeaf
            | Structure::DirectoryLeafNode
            | Structure::DirectoryNode
    );
    is_directory && length < geometry.directory_block_size_bytes as usize
}

fn prepare(sector: u64, held: &mut Held, lsn: Lsn, geometry: &Geometry, was_torn: bool) -> Result<()> {
    let structure = match held.treatment {
        Treatment::Raw => return Ok(()),
        Treatment::Verify(structure) => structure,
        Treatment::Seal(structure) => {
            let sealed = seal(&mut held.bytes, Some(lsn), geometry);
            if sealed.is_none() {
                let found = held.bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                return Err(damaged(structure, sector, HeaderFault::BadMagic { found, expected: 0 }));
            }
            structure
        }
    };
    if was_torn {
        return Ok(());
    }
    let context = VerifyContext::new(geometry, Sector::new(sector));
    verify(structure, &held.bytes, &context).map_err(|fault| damaged(structure, sector, fault))
}

fn damaged(
    structure: Structure,
    sector: u64,
    fault: impl Into<uxfs_format::fault::Fault>,
) -> crate::error::JournalError {
    Corruption::new(structure, Location::at_sector(Sector::new(sector)), fault).into()
}

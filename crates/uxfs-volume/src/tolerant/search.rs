//! The superblocks of groups on a device whose geometry is not known.
//!
//! Every group begins with a copy of the superblock. A copy says how large groups are, so that its place tells whether it
//! is the copy of a group or lies in the contents of a file: group K begins at K times the size of a group. A file may hold the
//! image of another file system just there. So the headers behind the copy are asked, too: they say which group they belong to.
//! Where they say K the copy is taken at once, where they say another group it is passed over, and where both are damaged it is
//! taken if nothing better is found.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use uxfs_block::device::{BlockDevice, DeviceError, DeviceOperation};
use uxfs_format::{
    allocation_group::{
        free_space_header::{self, FreeSpaceHeader},
        inode_header::{self, InodeHeader},
    },
    checksum,
    fault::{Corruption, HeaderFault, Location, Structure},
    features::Incompatible,
    field_table::OnDisk,
    geometry::Geometry,
    superblock::{CHECKSUM_OFFSET_BYTES, Copy, MAGIC, Superblock, SuperblockError},
    units::{AgNumber, InodeNumber, SECTOR_SIZE_BYTES, Sector},
};

use zerocopy::IntoBytes;

use super::root::named_root;
use crate::{
    error::{Error, OperationError, Result},
    superblock::read_superblock_sector,
};

/// Bytes that the search reads at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Groups begin at blocks, and the smallest blocks have this size.
const STEP_BYTES: usize = 1024;
/// The largest group has 1 TiB, so that the second one begins here at the latest.
const SEARCHED_BYTES: u64 = 1 << 40;
/// Places with a superblock's magic number that the search looks at.
const MOST_CANDIDATES: u32 = 10_000;
/// Fewer copies do not outvote the first superblock.
const FEWEST_COPIES: usize = 2;
/// Groups that are asked for the root directory, besides the last and the middle one.
const ASKED_GROUPS: u32 = 16;

/// Reads the superblock that begins at `offset_bytes`, and checks everything but what a tolerant volume passes over.
///
/// # Errors
/// None there, a damaged one, one with unknown features; the device.
pub fn read_group_superblock(device: &dyn BlockDevice, offset_bytes: u64) -> Result<Superblock> {
    let left = device.size_bytes().saturating_sub(offset_bytes);
    if left == 0 && offset_bytes > 0 {
        return Err(DeviceError::outside(DeviceOperation::Read, offset_bytes, SECTOR_SIZE_BYTES).into());
    }
    let bytes = read_superblock_sector(device, offset_bytes)?;
    let verified = Superblock::parse(&bytes).and_then(|(superblock, sector)| {
        passed_over(superblock).verify(sector, Copy::Secondary)?;
        Ok(*superblock)
    });
    let location = Location::at_sector(Sector::new(offset_bytes / SECTOR_SIZE_BYTES));
    verified.map_err(|error| located(error, location))
}

fn located(error: SuperblockError, location: Location) -> Error {
    match error {
        SuperblockError::Header(fault) => Corruption::new(Structure::Superblock, location, fault).into(),
        SuperblockError::Fault(fault) => Corruption::new(Structure::Superblock, location, fault).into(),
        SuperblockError::Unsupported(unsupported) => unsupported.into(),
    }
}

/// A superblock of the caller's, after all checks but that of its checksum.
pub(super) fn verified(superblock: &Superblock) -> Result<Superblock> {
    let mut sector = superblock.as_bytes().to_vec();
    checksum::seal(&mut sector, CHECKSUM_OFFSET_BYTES);
    passed_over(superblock)
        .verify(&sector, Copy::Secondary)
        .map_err(|error| located(error, Location::default()))?;
    Ok(*superblock)
}

/// The superblock without the marks that only matter to those who mount.
fn passed_over(superblock: &Superblock) -> Superblock {
    let mut superblock = *superblock;
    let words = superblock.feature_words();
    superblock.incompatible.set((words.incompatible - Incompatible::NEEDS_REPAIR).bits());
    superblock.in_progress = 0;
    superblock
}

/// Finds a sound copy of the superblock: that of `wanted`, or of the first group after 0 that has one.
///
/// # Errors
/// There is none.
pub fn find_superblock(device: &dyn BlockDevice, wanted: Option<AgNumber>) -> Result<(AgNumber, Superblock)> {
    let is_wanted = |group: AgNumber| wanted.is_none_or(|wanted| wanted == group);
    let mut candidates = 0;
    let mut bytes = vec![0; CHUNK_BYTES];
    let mut start = 0;
    // A copy that was found tells where the wanted one lies.
    let mut known: Option<Superblock> = None;
    let mut unconfirmed: Option<(AgNumber, Superblock)> = None;
    let mut failure = None;
    while start < device.size_bytes().min(SEARCHED_BYTES + CHUNK_BYTES as u64) {
        let left = usize::try_from(device.size_bytes() - start).unwrap_or(usize::MAX);
        let chunk = bytes.get_mut(..CHUNK_BYTES.min(left)).unwrap_or_default();
        // Unreadable parts of the device hide what lies in them only.
        let is_read = device.read(start, chunk).is_ok();
        for (index, block) in chunk.chunks(STEP_BYTES).enumerate().filter(|_| is_read) {
            if !block.starts_with(&MAGIC.to_be_bytes()) || candidates == MOST_CANDIDATES {
                continue;
            }
            candidates += 1;
            let offset_bytes = start + (index * STEP_BYTES) as u64;
            let Ok(superblock) = read_group_superblock(device, offset_bytes) else { continue };
            let Some(group) = group_at(&superblock, offset_bytes) else { continue };
            let is_wanted = is_wanted(group) && (group.get() != 0 || wanted.is_some());
            match (group_in_headers(device, &superblock, offset_bytes), is_wanted) {
                (Some(found), _) if found != group => {}
                (Some(_), true) => return Ok((group, superblock)),
                (Some(_), false) => known = known.or(Some(superblock)),
                (None, true) => unconfirmed = unconfirmed.or(Some((group, superblock))),
                (None, false) => {}
            }
        }
        if let (Some(candidate), Some(wanted)) = (&known, wanted) {
            match copy_of(device, candidate, wanted) {
                Ok(superblock) => return Ok((wanted, superblock)),
                Err(error) if copy_of(device, candidate, AgNumber::new(1)).is_ok() => return Err(error),
                // Group 0 may have the superblock of another file system, whose groups are as long as no others.
                Err(error) => failure = failure.or(Some(error)),
            }
            known = None;
        }
        start += CHUNK_BYTES as u64;
    }
    if let Some(unconfirmed) = unconfirmed {
        return Ok(unconfirmed);
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    let fault = HeaderFault::BadMagic { found: 0, expected: MAGIC };
    Err(Corruption::new(Structure::Superblock, Location::default(), fault).into())
}

/// Whether the first superblock has a right checksum, which old versions do not have: only its version is wrong then.
pub(super) fn has_checksum(device: &dyn BlockDevice) -> bool {
    let Ok(bytes) = read_superblock_sector(device, 0) else { return false };
    let size = Superblock::prefix_of(&bytes).map_or(0, |first| usize::from(first.sector_size_bytes.get()));
    let sector = bytes.get(..size).filter(|_| size >= Superblock::SIZE_BYTES);
    sector.is_some_and(|sector| checksum::check(sector, CHECKSUM_OFFSET_BYTES).is_ok())
}

/// The first superblock with the features of its copies, where all copies agree that there are no unknown ones, and that all else is as
/// it says: such features are set in all superblocks. One copy alone does not outvote it.
pub(super) fn without_unknown_features(device: &dyn BlockDevice) -> Option<(AgNumber, Superblock)> {
    let bytes = read_superblock_sector(device, 0).ok()?;
    let first = Superblock::prefix_of(&bytes).copied()?;
    let mut known = passed_over(&first);
    // While features are being added, the first superblock alone has them. Of a word with all bits set none is believed.
    let is_changing = first.incompatible.get() & Incompatible::NEEDS_REPAIR.bits() != 0;
    if is_changing && first.incompatible.get() != u32::MAX {
        known.incompatible.set(known.incompatible.get() & Incompatible::KNOWN.bits());
    } else {
        known.incompatible = passed_over(&second_of(device, &first)?).incompatible;
    }
    let geometry = Geometry::new(&verified(&known).ok()?);
    let sector = bytes.get(..geometry.sector_size_bytes as usize)?;
    checksum::check(sector, CHECKSUM_OFFSET_BYTES).ok()?;
    let copies: Option<Vec<Superblock>> = (1..first.ag_count.get().min(ASKED_GROUPS))
        .map(|group| copy_of(device, &known, AgNumber::new(group)).ok())
        .collect();
    let copies = copies.filter(|copies| copies.len() >= FEWEST_COPIES)?;
    let is_same = |copy: &Superblock| {
        let (one, other) = (Geometry::new(copy), &geometry);
        passed_over(copy).incompatible == known.incompatible
            && (one.ag_blocks, one.ag_count, one.block_log)
                == (other.ag_blocks, other.ag_count, other.block_log)
            && one.metadata_uuid == other.metadata_uuid
    };
    copies.iter().all(is_same).then_some(())?;
    // Its root directory and counters are right.
    known.in_progress = first.in_progress;
    Some((AgNumber::new(1), known))
}

/// The copy behind the first group, as large as the first superblock says.
fn second_of(device: &dyn BlockDevice, first: &Superblock) -> Option<Superblock> {
    let block_bytes = 1_u64.checked_shl(first.block_log.into())?;
    let offset_bytes =
        u64::from(first.ag_blocks.get()).checked_mul(block_bytes).filter(|offset| *offset > 0)?;
    read_group_superblock(device, offset_bytes).ok()
}

/// The copy of a group, where another copy is known.
fn copy_of(device: &dyn BlockDevice, known: &Superblock, group: AgNumber) -> Result<Superblock> {
    if group.get() >= known.ag_count.get() {
        return Err(OperationError::NoSuchGroup.into());
    }
    let offset_bytes = u64::from(group.get()) * group_bytes(known);
    let superblock = read_group_superblock(device, offset_bytes)?;
    match group_at(&superblock, offset_bytes) {
        Some(_) => Ok(superblock),
        None => Err(Error::from(OperationError::NoSuchGroup)),
    }
}

fn group_bytes(superblock: &Superblock) -> u64 {
    u64::from(superblock.ag_blocks.get()) << superblock.block_log
}

/// The group that begins at a place, as a verified superblock there says. `None` where none does.
fn group_at(superblock: &Superblock, offset_bytes: u64) -> Option<AgNumber> {
    let group_bytes = group_bytes(superblock);
    let is_start = offset_bytes.checked_rem(group_bytes) == Some(0);
    let group = u32::try_from(offset_bytes.checked_div(group_bytes)?).ok()?;
    (is_start && group < superblock.ag_count.get()).then_some(AgNumber::new(group))
}

/// The group that the headers behind a copy of the superblock belong to, as the first sound one says. `None` where both are
/// damaged.
fn group_in_headers(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    offset_bytes: u64,
) -> Option<AgNumber> {
    let geometry = Geometry::new(superblock);
    let sector_bytes = u64::from(geometry.sector_size_bytes);
    let mut bytes = vec![0; usize::try_from(sector_bytes).ok()?];
    let mut read = |index: u64| {
        device.read(offset_bytes + index * sector_bytes, &mut bytes).ok().map(|()| bytes.clone())
    };
    if let Some(bytes) = read(1)
        && let Ok(header) = FreeSpaceHeader::parse(&bytes)
        && header.magic.get() == free_space_header::MAGIC
        && header.uuid == geometry.metadata_uuid
        && checksum::check(&bytes, free_space_header::CHECKSUM_OFFSET_BYTES).is_ok()
    {
        return Some(AgNumber::new(header.group.get()));
    }
    let bytes = read(2)?;
    let header = InodeHeader::parse(&bytes).ok()?;
    let is_sound = header.magic.get() == inode_header::MAGIC
        && header.uuid == geometry.metadata_uuid
        && checksum::check(&bytes, inode_header::CHECKSUM_OFFSET_BYTES).is_ok();
    is_sound.then(|| AgNumber::new(header.group.get()))
}

/// The root directories that copies in other groups name, the one that most of them name first. Of the copies that mkfs makes only
/// some know it.
pub(super) fn root_inodes_elsewhere(device: &dyn BlockDevice, superblock: &Superblock) -> Vec<InodeNumber> {
    let count = superblock.ag_count.get();
    let groups: BTreeSet<u32> = [count.saturating_sub(1), count.saturating_sub(1) / 2]
        .into_iter()
        .chain(0..count.min(ASKED_GROUPS))
        .collect();
    let copies =
        groups.into_iter().filter_map(|group| copy_of(device, superblock, AgNumber::new(group)).ok());
    let mut votes: BTreeMap<InodeNumber, u32> = BTreeMap::new();
    for copy in copies.filter(|copy| copy.uuid == superblock.uuid) {
        if let Some(root) = named_root(&copy, &Geometry::new(&copy)) {
            *votes.entry(root).or_default() += 1;
        }
    }
    let mut roots: Vec<_> = votes.into_iter().collect();
    roots.sort_by_key(|(_, count)| Reverse(*count));
    roots.into_iter().map(|(root, _)| root).collect()
}

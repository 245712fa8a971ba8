//! The superblock at the start of the device: old, new, and the one that stands there while others are written.

use uxfs_block::{
    device::BlockDevice,
    engine::unreadable::{has_filler, read_or_fill},
};
use uxfs_format::{
    checksum,
    features::Incompatible,
    field_table::OnDisk,
    superblock::{CHECKSUM_OFFSET_BYTES, Copy, MAX_SECTOR_SIZE_BYTES, Superblock},
};

use super::{Result, SECTOR_BYTES, differences::keep_unknown, error::CommitError};

/// Least bytes of a superblock's sector.
pub const HEAD_BYTES_MIN: u32 = SECTOR_BYTES as u32;
/// Most bytes of a superblock's sector.
pub const HEAD_BYTES_MAX: u32 = MAX_SECTOR_SIZE_BYTES as u32;

/// The first sector of the file system, as large as its sectors are, three times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Before the repair.
    pub old: Vec<u8>,
    /// The old one with `NEEDSREPAIR` set. Where the old one is not sound, the new one with it: a checksum that was wrong must
    /// not become right.
    pub marked: Vec<u8>,
    /// After the repair.
    pub new: Vec<u8>,
}

impl Head {
    /// Reads the start of both devices.
    pub fn read(old: &dyn BlockDevice, new: &dyn BlockDevice) -> Result<Self> {
        let (expected_bytes, found_bytes) = (old.size_bytes(), new.size_bytes());
        if expected_bytes != found_bytes {
            return Err(CommitError::OtherSize { expected_bytes, found_bytes });
        }
        let length = usize::try_from(expected_bytes).unwrap_or(usize::MAX).min(MAX_SECTOR_SIZE_BYTES);
        let (mut old_bytes, mut new_bytes) = (vec![0; length], vec![0; length]);
        let _ = read_or_fill(old, 0, &mut old_bytes)?;
        let error = read_or_fill(new, 0, &mut new_bytes)?;
        let claimed = |bytes: &[u8]| Superblock::parse(bytes).ok().map(|(_, sector)| sector.len());
        let sound = is_sound(&old_bytes).then(|| claimed(&old_bytes)).flatten();
        let length = sound.max(claimed(&new_bytes)).ok_or(CommitError::NoSuperblock)?;
        old_bytes.truncate(length);
        new_bytes.truncate(length);
        match error {
            Some(error) if has_filler(&new_bytes) => return Err(error.into()),
            _ => keep_unknown(&old_bytes, &mut new_bytes),
        }
        Self::of(old_bytes, new_bytes)
    }

    /// Of both contents; they decide alone what the marked one is.
    pub fn of(old: Vec<u8>, new: Vec<u8>) -> Result<Self> {
        let mut marked = if is_sound(&old) { old.clone() } else { new.clone() };
        match mark(&mut marked) {
            Some(()) => Ok(Self { old, marked, new }),
            None => Err(CommitError::NoSuperblock),
        }
    }

    /// Bytes of each.
    pub fn length_bytes(&self) -> u64 {
        self.old.len() as u64
    }

    /// Bytes of the sectors in which old and new differ.
    pub fn changed_bytes(&self) -> u64 {
        let sectors = self.old.chunks(SECTOR_BYTES).zip(self.new.chunks(SECTOR_BYTES));
        sectors.filter(|(old, new)| old != new).map(|(old, _)| old.len() as u64).sum()
    }
}

/// Sets `NEEDSREPAIR` in a superblock whose checksum is right.
fn mark(bytes: &mut [u8]) -> Option<()> {
    set_incompatible(bytes, |features| features | Incompatible::NEEDS_REPAIR)
}

/// Whether it is a superblock without a fault, apart from the mark.
fn is_sound(bytes: &[u8]) -> bool {
    let mut unmarked = bytes.to_vec();
    let changed = set_incompatible(&mut unmarked, |features| features - Incompatible::NEEDS_REPAIR);
    changed.is_some()
        && Superblock::parse(&unmarked)
            .is_ok_and(|(superblock, sector)| superblock.verify(sector, Copy::Primary).is_ok())
}

/// Changes the incompatible features of a superblock whose checksum is right, and makes it right again.
fn set_incompatible(bytes: &mut [u8], change: impl Fn(Incompatible) -> Incompatible) -> Option<()> {
    let (superblock, sector) = Superblock::parse(bytes).ok()?;
    checksum::check(sector, CHECKSUM_OFFSET_BYTES).ok()?;
    let (features, length) = (superblock.feature_words().incompatible, sector.len());
    Superblock::prefix_of_mut(bytes)?.incompatible.set(change(features).bits());
    checksum::seal(bytes.get_mut(..length)?, CHECKSUM_OFFSET_BYTES).then_some(())
}

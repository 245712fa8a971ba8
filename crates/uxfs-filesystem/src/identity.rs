//! Label and uuid of a file system, in the superblocks of all groups.
//!
//! They change on an image that is not mounted and whose log is clean. Metadata keeps its old uuid (`METADATA_UUID` says so),
//! but the log carries the new one. Each of these steps ends with a flush, so that Linux mounts the image after a crash
//! at any of them, and repeating the change finishes it:
//!
//! 1. clear the uuid in the log's newest record, which fits any file system then;
//! 2. write the primary superblock;
//! 3. write the new uuid into the log's newest record;
//! 4. write the secondary superblocks.
//!
//! After a crash before step 4 the next change of any kind updates the secondary superblocks first ([`finish_change`]).
//! Until then `xfs_repair` reports them; Linux never reads them.

use uxfs_block::device::{BlockDevice, ReadSegment};
use uxfs_format::{
    fault::{Corruption, Location, Structure},
    features::{Incompatible, Unsupported},
    field_table::OnDisk,
    geometry::Geometry,
    seal::seal,
    superblock::{Copy, Superblock, SuperblockError},
    units::{AgNumber, Sector, Uuid},
};
use uxfs_journal::{LogState, area::LogArea, recovery::before_changes::check_before_changes};

use uxfs_volume::{
    error::{Error, OperationError, Result},
    superblock::{read_superblock, refuse_unwritable},
};

use crate::{filesystem::FileSystem, log_extent::require_same_log};

/// Most bytes of a label.
#[doc(alias = "XFSLABEL_MAX")]
pub const LABEL_BYTES_MAX: usize = 12;

/// The new uuid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UuidChange {
    /// This one; not the nil uuid.
    To(Uuid),
    /// The uuid of mkfs, which all metadata carries.
    Restore,
}

/// A change of label, uuid or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdentityChange<'a> {
    /// Up to [`LABEL_BYTES_MAX`] bytes without a zero among them; none for no label.
    pub label: Option<&'a [u8]>,
    /// The uuid.
    pub uuid: Option<UuidChange>,
}

impl IdentityChange<'_> {
    fn check(&self) -> Result<()> {
        let is_bad = |label: &[u8]| label.len() > LABEL_BYTES_MAX || label.contains(&0);
        if self.label.is_some_and(is_bad) || self.uuid == Some(UuidChange::To(Uuid::NIL)) {
            return Err(OperationError::InvalidArgument.into());
        }
        Ok(())
    }

    /// The same change in every superblock, so that they agree afterwards.
    fn apply(&self, superblock: &mut Superblock) {
        if let Some(label) = self.label {
            superblock.label = [0; LABEL_BYTES_MAX];
            superblock.label.iter_mut().zip(label).for_each(|(target, byte)| *target = *byte);
        }
        let Some(change) = self.uuid else { return };
        let original = superblock.effective_metadata_uuid();
        let uuid = match change {
            UuidChange::To(uuid) => uuid,
            UuidChange::Restore => original,
        };
        let mut features = superblock.incompatible.get();
        if uuid == original {
            features &= !Incompatible::METADATA_UUID.bits();
            superblock.metadata_uuid = Uuid::NIL;
        } else {
            features |= Incompatible::METADATA_UUID.bits();
            superblock.metadata_uuid = original;
        }
        superblock.uuid = uuid;
        superblock.incompatible.set(features);
    }
}

/// The first superblock of a device.
///
/// # Errors
/// As for mounting.
pub fn superblock_of(device: &dyn BlockDevice) -> Result<Superblock> {
    read_superblock(device, false)
}

/// Gives a file system, which must not be mounted, another label or uuid.
///
/// # Errors
/// An invalid label or uuid; an external log or one that is not clean; damage, with nothing changed; the device.
#[doc(alias = "xfs_admin")]
pub fn change(device: &dyn BlockDevice, change: &IdentityChange<'_>) -> Result<()> {
    change.check()?;
    let superblock = superblock_of(device)?;
    refuse_unwritable(device, &superblock)?;
    if superblock.realtime_blocks.get() > 0 {
        // The realtime section has a superblock of its own.
        return Err(Unsupported::RealtimeData.into());
    }
    let geometry = Geometry::new(&superblock);
    let area = LogArea::new(device, &geometry)?;
    let state = uxfs_journal::examine(device, &geometry)?;
    check_before_changes(&area, &state)?;
    let newest = match state {
        LogState::Empty => None,
        LogState::Clean(log) => Some(log.newest),
        LogState::Dirty(log) => {
            let error = OperationError::DirtyLog { records: log.records, tail: log.tail, head: log.head };
            return Err(error.into());
        }
    };
    for group in geometry.groups() {
        let (_, bytes) = verified_superblock(device, &geometry, group)?;
        if let Some(copy) = Superblock::prefix_of(&bytes) {
            require_same_log(&superblock, copy, group)?;
        }
    }
    let mut changed = superblock;
    change.apply(&mut changed);
    let newest = newest.filter(|_| changed.uuid != superblock.uuid || change.uuid.is_some());
    if let Some(newest) = newest {
        uxfs_journal::identity::set_uuid(device, &area, newest, Uuid::NIL)?;
    }
    let mut groups = geometry.groups();
    if let Some(first) = groups.next() {
        change_superblock(device, &geometry, first, change)?;
        device.flush()?;
    }
    if let Some(newest) = newest {
        uxfs_journal::identity::set_uuid(device, &area, newest, changed.uuid)?;
    }
    for group in groups {
        change_superblock(device, &geometry, group, change)?;
    }
    Ok(device.flush()?)
}

/// Gives a file system that is mounted another label, durably: first the superblock, through the log, then its copies. After a crash in
/// between, the next mount brings these up.
///
/// # Errors
/// An invalid label; the file system cannot be changed; the device.
#[doc(alias = "FS_IOC_SETFSLABEL")]
pub fn set_label(file_system: &FileSystem, label: &[u8]) -> Result<()> {
    IdentityChange { label: Some(label), uuid: None }.check()?;
    let engine = file_system.logged().ok_or(OperationError::ReadOnly)?;
    engine.set_label(label)?;
    finish_change(file_system.device().as_ref(), file_system.geometry(), &file_system.superblock_now())
}

/// Superblocks that one batch reads.
const BATCH_GROUPS: usize = 256;

/// Finishes an interrupted change of label or uuid: secondary superblocks follow `primary`, except for those that are damaged
/// or belong to another file system.
///
/// # Errors
/// The device.
pub(crate) fn finish_change(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    primary: &Superblock,
) -> Result<()> {
    let sector_bytes = geometry.sector_size_bytes as usize;
    let sectors = geometry.groups().skip(1).filter_map(|group| geometry.sector_of_group_header(group, 0));
    let sectors: Vec<Sector> = sectors.collect();
    let mut bytes = vec![0; sector_bytes * BATCH_GROUPS.min(sectors.len())];
    let mut is_changed = false;
    for sectors in sectors.chunks(BATCH_GROUPS) {
        let places = bytes.chunks_exact_mut(sector_bytes).zip(sectors);
        let mut segments: Vec<_> = places
            .map(|(buffer, sector)| ReadSegment { offset_bytes: Geometry::byte_of_sector(*sector), buffer })
            .collect();
        device.read_batch(&mut segments)?;
        for (bytes, sector) in bytes.chunks_exact_mut(sector_bytes).zip(sectors) {
            if bring_up(bytes, primary) {
                seal(bytes, None, geometry);
                device.write(Geometry::byte_of_sector(*sector), bytes)?;
                is_changed = true;
            }
        }
    }
    if is_changed {
        device.flush()?;
    }
    Ok(())
}

/// Gives a sound superblock of the same file system the identity of `primary`; returns whether it had another.
fn bring_up(bytes: &mut [u8], primary: &Superblock) -> bool {
    const BIT: u32 = Incompatible::METADATA_UUID.bits();
    let identity =
        |superblock: &Superblock| (superblock.uuid, superblock.label, superblock.incompatible.get() & BIT);
    let is_behind = Superblock::parse(bytes).and_then(|(superblock, bytes)| {
        superblock.verify(bytes, Copy::Secondary)?;
        let is_ours = superblock.effective_metadata_uuid() == primary.effective_metadata_uuid();
        Ok(is_ours && identity(superblock) != identity(primary))
    });
    if !is_behind.unwrap_or(false) {
        return false;
    }
    if let Some(superblock) = Superblock::prefix_of_mut(bytes) {
        (superblock.uuid, superblock.metadata_uuid, superblock.label) =
            (primary.uuid, primary.metadata_uuid, primary.label);
        let others = superblock.incompatible.get() & !BIT;
        superblock.incompatible.set(others | primary.incompatible.get() & BIT);
    }
    true
}

/// The verified superblock of a group, and its sector.
fn verified_superblock(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    group: AgNumber,
) -> Result<(Sector, Vec<u8>)> {
    let sector = geometry.sector_of_group_header(group, 0).unwrap_or(Sector::NULL);
    let mut bytes = vec![0; geometry.sector_size_bytes as usize];
    device.read(Geometry::byte_of_sector(sector), &mut bytes)?;
    let copy = if group.get() == 0 { Copy::Primary } else { Copy::Secondary };
    let verified = Superblock::parse(&bytes).and_then(|(superblock, bytes)| superblock.verify(bytes, copy));
    verified.map_err(|error| corrupt(sector, error))?;
    Ok((sector, bytes))
}

fn corrupt(sector: Sector, error: SuperblockError) -> Error {
    let location = Location::at_sector(sector);
    match error {
        SuperblockError::Header(fault) => Corruption::new(Structure::Superblock, location, fault).into(),
        SuperblockError::Fault(fault) => Corruption::new(Structure::Superblock, location, fault).into(),
        SuperblockError::Unsupported(unsupported) => unsupported.into(),
    }
}

fn change_superblock(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    group: AgNumber,
    change: &IdentityChange<'_>,
) -> Result<()> {
    let (sector, mut bytes) = verified_superblock(device, geometry, group)?;
    if let Some(superblock) = Superblock::prefix_of_mut(&mut bytes) {
        change.apply(superblock);
    }
    seal(&mut bytes, None, geometry);
    Ok(device.write(Geometry::byte_of_sector(sector), &bytes)?)
}

//! Inodes that say something else than their last change in the log, under the same number: what nothing but the log repeats becomes what the
//! log says. The rest of the inode has other witnesses, which may know of a later repair: it stays.

use std::collections::BTreeSet;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    checksum,
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{FileType, ForkFormat, InodeCore, InodeFlags2, core, timestamp::DiskTimestamp, verify_inode},
    units::{InodeNumber, Lsn, SECTOR_SIZE_BYTES, Sector},
};
use uxfs_journal::copies::{InodeCopy, LogCopies, OwnFacts, Wanted};
use uxfs_volume::error::Result;

use super::{
    action::{Action, InodeSource},
    stage::Stage,
};
use crate::inode::gather::{byte_of, change_core, put_inode, read_inode};

/// Brings these inodes back to what the log says. `log` is the device with the log as it was found, where its copies may be used; without
/// them an inode stays as it is, and loses the number by which it is compared.
///
/// # Errors
/// The device.
pub(super) fn follow(
    stage: &Stage,
    log: Option<&dyn BlockDevice>,
    inodes: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<()> {
    let geometry = stage.geometry();
    let mut wanted = Wanted::default();
    inodes.iter().for_each(|inode| wanted.add_inode(*inode));
    let copies = log.and_then(|log| LogCopies::gather(log, geometry, &wanted).ok()).unwrap_or_default();
    for inode in inodes.iter().copied() {
        let device = read_inode(stage, inode)?;
        match copies.inode(inode).and_then(|copy| told(copy, &device, inode, geometry)) {
            Some(bytes) => {
                put_inode(stage, inode, &bytes)?;
                actions.push(Action::InodeRebuilt { inode, source: InodeSource::Log, fault: None });
            }
            None => {
                change_core(stage, inode, |core, _| core.lsn.set(0))?;
                let sector = Sector::new(byte_of(geometry, inode).unwrap_or(0) / SECTOR_SIZE_BYTES);
                actions.push(Action::OlderKept { structure: Structure::Inode, inode, sector });
            }
        }
    }
    Ok(())
}

/// The inode on the device with the facts of the copy; `None` where that is no sound inode.
fn told(copy: &InodeCopy, device: &[u8], inode: InodeNumber, geometry: &Geometry) -> Option<Vec<u8>> {
    let mut bytes = device.to_vec();
    let logged = copy.core().filter(|core| !core.is_free())?;
    let (core_bytes, fork) = bytes.split_at_mut_checked(InodeCore::SIZE_BYTES)?;
    let core = InodeCore::prefix_of_mut(core_bytes)?;
    if copy.lsn != Lsn::new(core.lsn.get()) {
        return None;
    }
    take_facts(core, logged);
    // The forms of a device and of a short link cannot change: the whole fork is that of the copy.
    let is_alone = matches!(
        (core.file_type()?, ForkFormat::from_code(core.format)?),
        (FileType::BlockDevice | FileType::CharacterDevice, ForkFormat::Device)
            | (FileType::SymbolicLink, ForkFormat::Local)
    );
    if is_alone
        && copy.has_data_fork
        && core.fork_offset == logged.fork_offset
        && core.format == logged.format
    {
        let room = match core.fork_offset {
            0 => fork.len(),
            units => (usize::from(units) * 8).min(fork.len()),
        };
        let logged = copy.bytes.get(InodeCore::SIZE_BYTES..)?.get(..room)?;
        fork.get_mut(..room)?.copy_from_slice(logged);
    }
    checksum::seal(&mut bytes, core::CHECKSUM_OFFSET_BYTES);
    verify_inode(&bytes, inode, geometry).ok()?;
    let (logged, made) = (OwnFacts::of(&copy.bytes, copy.has_data_fork)?, OwnFacts::of(&bytes, true)?);
    logged.contradicted_by(&made).is_empty().then_some(bytes)
}

fn take_facts(core: &mut InodeCore, logged: &InodeCore) {
    let is_big = core.flags2().contains(InodeFlags2::BIG_TIME);
    let time = |found: DiskTimestamp, time: DiskTimestamp, is_exact: bool| {
        let (found_time, logged_time) = (found.decode(is_big), logged.time(time));
        let is_kept = match is_exact {
            true => found_time == logged_time,
            false => {
                (found_time.seconds, found_time.nanoseconds) >= (logged_time.seconds, logged_time.nanoseconds)
            }
        };
        if is_kept { found } else { DiskTimestamp::encode_clamped(logged_time, is_big) }
    };
    core.access_time = time(core.access_time, logged.access_time, false);
    core.modification_time = time(core.modification_time, logged.modification_time, false);
    core.change_time = time(core.change_time, logged.change_time, false);
    core.creation_time = time(core.creation_time, logged.creation_time, true);
    (core.uid, core.gid) = (logged.uid, logged.gid);
    (core.project_id_low, core.project_id_high) = (logged.project_id_low, logged.project_id_high);
    core.mode = logged.mode;
    core.generation = logged.generation;
    let others = core.flags.get() & !OwnFacts::FLAGS.bits();
    core.flags.set(others | logged.flags.get() & OwnFacts::FLAGS.bits());
    if matches!(core.file_type(), Some(FileType::Regular | FileType::SymbolicLink)) {
        core.size_bytes = logged.size_bytes;
    }
}

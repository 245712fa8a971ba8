//! Mending single fields of inodes: what is wrong about them has a neutral value, so that the inode need not be given up.

use std::collections::BTreeSet;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    btree::extent_map::{Extent, ExtentRecord},
    checksum,
    features::Incompatible,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFault, InodeFlags2, core, verify_inode},
    units::InodeNumber,
};
use uxfs_volume::{error::Result, inode::Inode, volume::Volume};

use super::{
    fields,
    gather::{change_core, make_free, put_inode, read_inode},
    neutral,
    witnesses::copies_of,
};
use crate::{
    extent_map, metadata_directory,
    repair::{action::Action, identity::of_inode, misplaced::number_elsewhere, stage::Stage, work::Work},
};

/// An extent as it lies in an inode.
const EXTENT_BYTES: usize = 16;

/// Mends the inodes of `work` as far as that is possible. Gives whether something was changed. Damaged inodes that the log has are left to
/// [`rebuild`](super::rebuild). `unproved` gets those that are kept with a wrong checksum.
pub(crate) fn mend(
    volume: &Volume,
    stage: &Stage,
    work: &Work,
    log: Option<&dyn BlockDevice>,
    unproved: &mut BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let before = actions.len();
    for inode in &work.free_inodes {
        make_free(stage, *inode)?;
        actions.push(Action::FreeInode { inode: *inode });
    }
    metadata_directory::mend::mend(volume, stage, work, actions)?;
    for inode in &work.inode_fields {
        let mut done = Vec::new();
        let found = volume.inode(*inode).ok();
        change_core(stage, *inode, |core, forks| {
            done = mend_fields(core, forks, *inode, volume);
            if let Some(found) = &found {
                done.extend(mend_by_extents(core, found, volume));
            }
        })?;
        actions.extend(done);
        extent_map::mend::mark_what_must_be(volume, stage, *inode, actions)?;
    }
    extent_map::marks::mend(volume, stage, &work.unwritten, log, actions)?;
    let copies = log.map(|log| copies_of(volume, log, &work.damaged_inodes, &[])).unwrap_or_default();
    let is_logged = |inode: &InodeNumber| {
        let copy = copies.inode(*inode);
        copy.is_some_and(|copy| copy.is_whole() && copy.core().is_some_and(|core| !core.is_free()))
    };
    for inode in work.damaged_inodes.iter().filter(|inode| !is_logged(inode)) {
        let bytes = read_inode(stage, *inode)?;
        let is_sealed = checksum::check(&bytes, core::CHECKSUM_OFFSET_BYTES).is_ok();
        if let Some(sealed) = sealed_inode(&bytes, *inode, stage.geometry()) {
            put_inode(stage, *inode, &sealed)?;
            actions.push(Action::InodeChecksum { inode: *inode });
        } else if let Some((mended, fault)) = neutral_inode(bytes, *inode, (volume, stage), work) {
            put_inode(stage, *inode, &mended)?;
            actions.push(Action::InodeMended { inode: *inode, fault });
        } else {
            continue;
        }
        unproved.extend(Some(*inode).filter(|_| !is_sealed));
    }
    Ok(actions.len() > before)
}

/// The bytes of an inode in use that is sound but for its checksum, with the right one.
fn sealed_inode(bytes: &[u8], inode: InodeNumber, geometry: &Geometry) -> Option<Vec<u8>> {
    let mut sealed = bytes.to_vec();
    checksum::seal(&mut sealed, core::CHECKSUM_OFFSET_BYTES);
    let is_in_use = verify_inode(&sealed, inode, geometry).is_ok_and(|core| !core.is_free());
    (is_in_use && sealed != bytes).then_some(sealed)
}

/// Restores the known fields of an inode with a wrong checksum, if most of them are right, and seals it. Returns whether they are.
fn put_known_values(bytes: &mut [u8], inode: InodeNumber, geometry: &Geometry) -> bool {
    let known = of_inode(inode, geometry);
    let wrong = known.iter().filter(|field| field.put(bytes)).count();
    checksum::seal(bytes, core::CHECKSUM_OFFSET_BYTES);
    wrong.saturating_mul(2) <= known.len()
}

/// The bytes of a damaged inode with neutral values, which pass the verifier, and what was wrong first.
fn neutral_inode(
    mut bytes: Vec<u8>,
    inode: InodeNumber,
    (volume, stage): (&Volume, &Stage),
    work: &Work,
) -> Option<(Vec<u8>, InodeFault)> {
    let geometry = stage.geometry();
    let fault = verify_inode(&bytes, inode, geometry).err()?;
    let other = number_elsewhere(&bytes, inode, stage);
    if other.is_some_and(|other| work.damaged_inodes.contains(&other) || is_elsewhere(stage, other, &bytes)) {
        return None;
    }
    if other.is_some() && is_internal(volume, inode) {
        // An empty one is right in any case: without a realtime section they hold nothing.
        return None;
    }
    let is_sealed = checksum::check(&bytes, core::CHECKSUM_OFFSET_BYTES).is_ok();
    if !is_sealed && !put_known_values(&mut bytes, inode, geometry) {
        return None;
    }
    let is_made = neutral::make(&mut bytes, inode, geometry);
    // Its mode is gone as well: what names it may say which type it had.
    let is_free = InodeCore::prefix_of(&bytes).is_none_or(InodeCore::is_free);
    (is_made && !is_free).then_some((bytes, fault))
}

/// Whether this is an inode that the superblock names, of a file system without a realtime section.
fn is_internal(volume: &Volume, inode: InodeNumber) -> bool {
    let superblock = volume.superblock();
    let internal = [superblock.realtime_bitmap_inode.get(), superblock.realtime_summary_inode.get()];
    superblock.realtime_blocks.get() == 0 && internal.contains(&inode.get())
}

/// Whether an inode lies at its own place too: then this one was written to the wrong place. There it may have been removed since, which
/// adds one to its generation.
fn is_elsewhere(stage: &Stage, number: InodeNumber, bytes: &[u8]) -> bool {
    let is_own = read_inode(stage, number).is_ok_and(|there| {
        let (there, here) = (InodeCore::prefix_of(&there), InodeCore::prefix_of(bytes));
        there.zip(here).is_some_and(|(there, here)| {
            let lives = u32::from(there.is_free());
            there.number == here.number && there.generation.get() == here.generation.get().wrapping_add(lives)
        })
    });
    stage.geometry().split_inode_number(number).is_some() && is_own
}

fn mend_fields(core: &mut InodeCore, forks: &mut [u8], inode: InodeNumber, volume: &Volume) -> Vec<Action> {
    let mut done = Vec::new();
    let (flags, flags2) = fields::unfit_flags(core, inode, volume.superblock());
    if !flags.is_empty() || !flags2.is_empty() {
        core.flags.set(core.flags().difference(flags).bits());
        core.flags2.set(core.flags2().difference(flags2).bits());
        done.push(Action::InodeFlags { inode, flags: flags.bits(), flags2: flags2.bits() });
    }
    if are_big_times(core, volume.geometry()) {
        let flags2 = core.flags2() | InodeFlags2::BIG_TIME;
        core.flags2.set(flags2.bits());
        done.push(Action::BigTimes { inode });
    }
    if fields::unfit_times(core).next().is_some() {
        let unfit: Vec<_> = fields::unfit_times(core).map(|(time, _)| time).collect();
        for time in unfit {
            let place = time.of_mut(core);
            *place = fields::whole_seconds(*place);
        }
        done.push(Action::InodeTimes { inode });
    }
    if fields::ahead_of_log(core, volume).is_some() {
        core.lsn.set(0);
        done.push(Action::InodeLsn { inode });
    }
    if fields::has_useless_size(core, inode, volume.superblock()) {
        done.push(Action::SizeOfSpecialFile { inode, found: core.size_bytes.get() });
        core.size_bytes.set(0);
    }
    if trim_symlink(core, forks, volume.geometry()) {
        done.push(Action::SymlinkBlocks { inode });
    }
    done
}

/// Whether the times of an inode are numbers of 64 bits without the flag that says so: read as seconds and nanoseconds, several of them
/// are impossible.
fn are_big_times(core: &InodeCore, geometry: &Geometry) -> bool {
    geometry.features.incompatible.contains(Incompatible::BIG_TIME) && fields::unfit_times(core).count() > 1
}

/// What the extents of an inode tell.
fn mend_by_extents(core: &mut InodeCore, inode: &Inode, volume: &Volume) -> Vec<Action> {
    let mut done = Vec::new();
    let number = inode.number;
    if !core.flags2().contains(InodeFlags2::REFLINK) && fields::has_shared_blocks(core, inode, volume) {
        core.flags2.set(core.flags2().union(InodeFlags2::REFLINK).bits());
        done.push(Action::InodeShares { inode: number });
    }
    if let Some(expected) = fields::directory_size(inode, volume)
        && expected != core.size_bytes.get()
    {
        let found = core.size_bytes.get();
        core.size_bytes.set(expected);
        done.push(Action::DirectorySize { inode: number, found, expected });
    }
    done
}

/// Takes blocks from the last extent of a symbolic link that has more than its target takes. Whose they are the groups tell, which are
/// rebuilt where they contradict.
fn trim_symlink(core: &mut InodeCore, forks: &mut [u8], geometry: &Geometry) -> bool {
    let is_remote = core.file_type() == Some(FileType::SymbolicLink)
        && core.fork_format(Fork::Data) == Some(ForkFormat::Extents);
    let Some(needed) = fields::symlink_blocks(core.size_bytes.get(), geometry).filter(|_| is_remote) else {
        return false;
    };
    let count = usize::try_from(core.extent_count(Fork::Data)).unwrap_or(usize::MAX);
    let mut records =
        forks.chunks_exact_mut(EXTENT_BYTES).take(count).filter_map(ExtentRecord::prefix_of_mut);
    let Some(last) = records.next_back() else { return false };
    let before: u64 = records.map(|record| record.get().length_blocks).sum();
    let extent = last.get();
    let length_blocks = needed.saturating_sub(before);
    if length_blocks == 0 || length_blocks >= extent.length_blocks {
        return false;
    }
    let Some(trimmed) = ExtentRecord::new(&Extent { length_blocks, ..extent }) else { return false };
    *last = trimmed;
    true
}

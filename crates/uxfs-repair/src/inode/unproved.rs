//! Inodes that were kept although their checksum is wrong, and neither what is known of them nor a few changed bits make it right: nothing
//! proves any of their fields.
//!
//! Each field gets the value that a sound structure says: the type that of the entry, the generation that of parent pointers. What nothing
//! confirms gets a value that gives no access away and does no harm.
//!
//! | field | confirmed by | else |
//! |---|---|---|
//! | owner, group, project | a sound inode that has the same | those of the directory that names it, or 0 |
//! | permissions | | no set-id and sticky bits; a device, or an inode of another type than its entry says, is private to the owner |
//! | flags | | none that forbid changes; none at all where there are some that the file cannot have |
//! | size of a file | its blocks | the last byte that is not zero |
//!
//! A size behind the last block is kept only where it can be that of a file with a hole at its end: it is a multiple of 512 bytes, and no
//! larger than the file system.

use std::{collections::BTreeSet, ops::ControlFlow};

use uxfs_format::{
    checksum,
    field_table::OnDisk,
    inode::{FileType, Fork, InodeCore, InodeFlags, InodeFlags2, core, verify_inode},
    units::InodeNumber,
};
use uxfs_journal::copies::LogCopies;
use uxfs_volume::{
    error::Result,
    inode::{
        Inode,
        scan::{ScanEvent, ScanOptions, ScannedInode},
    },
    volume::Volume,
};

use super::{
    fields,
    gather::{put_inode, read_inode},
    neutral,
    rebuild::{end_of_contents, private_permissions},
    witnesses::{Named, Witnesses},
};
use crate::repair::{
    action::{Action, ChangedField},
    stage::Stage,
};

const PERMISSIONS: u16 = 0o7777;
const SET_ID_AND_STICKY: u16 = 0o7000;
const STICKY: u16 = 0o1000;
const WRITE_OF_OTHERS: u16 = 0o022;
const SECTOR_BYTES: u64 = 512;
/// Most owners of each kind kept in memory.
const MOST_OWNERS: usize = 1 << 16;

/// Sets fields of these inodes to the values that other structures confirm, and to neutral ones otherwise. Skips unreadable inodes.
///
/// # Errors
/// The device.
pub(crate) fn settle(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    scan: ScanOptions,
    actions: &mut Vec<Action>,
) -> Result<()> {
    if inodes.is_empty() {
        return Ok(());
    }
    // Those of which flags were taken that the inode may not have: the others are as doubtful.
    let wrong_flags: BTreeSet<InodeNumber> = actions.iter().filter_map(Action::inode_of_flags).collect();
    let witnesses = Witnesses::gather(volume, LogCopies::default(), inodes, scan);
    let owners = Owners::of_others(volume, inodes, scan);
    for number in inodes {
        let (mut bytes, geometry) = (read_inode(stage, *number)?, stage.geometry());
        let core = verify_inode(&bytes, *number, geometry).ok().filter(|core| !core.is_free()).copied();
        let Some(core) = core.filter(|core| !is_internal(core, *number, volume)) else { continue };
        let named = witnesses.named(*number).copied().unwrap_or_default();
        let mut unproved = Unproved { volume, number: *number, core, changed: Vec::new() };
        unproved.settle(&bytes, &named, &owners, wrong_flags.contains(number));
        let Unproved { core, changed, .. } = unproved;
        if changed.is_empty() {
            continue;
        }
        if let Some(place) = InodeCore::prefix_of_mut(&mut bytes) {
            *place = core;
        }
        put_inode(stage, *number, &bytes)?;
        actions.push(Action::InodeUnproved { inode: *number, fields: changed });
    }
    Ok(())
}

/// Whether the superblock names an inode, or it belongs to the metadata directory: Linux asks for certain values there.
fn is_internal(core: &InodeCore, number: InodeNumber, volume: &Volume) -> bool {
    let internal = volume.superblock().internal_inodes();
    internal.contains(&number.get()) || core.flags2().contains(InodeFlags2::METADATA)
}

/// Owners that inodes with a right checksum have.
#[derive(Debug, Default)]
struct Owners {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    projects: BTreeSet<u32>,
}

impl Owners {
    fn of_others(volume: &Volume, inodes: &BTreeSet<InodeNumber>, scan: ScanOptions) -> Self {
        let (_, parts) = volume.scan_inodes(&scan, Self::default, |owners, event| {
            if let ScanEvent::Inode(ScannedInode { core: Ok(core), .. }) = event
                && !inodes.contains(&core.inode_number())
            {
                owners.add([core.uid.get(), core.gid.get(), project(core)]);
            }
            ControlFlow::<()>::Continue(())
        });
        let mut all = Self::default();
        for part in parts {
            all.users.extend(part.users);
            all.groups.extend(part.groups);
            all.projects.extend(part.projects);
        }
        all
    }

    fn add(&mut self, [user, group, project]: [u32; 3]) {
        for (set, id) in [(&mut self.users, user), (&mut self.groups, group), (&mut self.projects, project)] {
            if set.len() < MOST_OWNERS {
                set.insert(id);
            }
        }
    }
}

fn project(core: &InodeCore) -> u32 {
    u32::from(core.project_id_high.get()) << 16 | u32::from(core.project_id_low.get())
}

/// An inode with an unproved checksum.
struct Unproved<'v> {
    volume: &'v Volume,
    number: InodeNumber,
    core: InodeCore,
    changed: Vec<ChangedField>,
}

impl Unproved<'_> {
    fn settle(&mut self, bytes: &[u8], named: &Named, owners: &Owners, has_wrong_flags: bool) {
        let is_other_type = self.take_type(bytes, named);
        self.restrict_permissions(is_other_type);
        self.settle_owners(named, owners);
        self.settle_flags(has_wrong_flags);
        if let Some(generation) = named.generation {
            self.change("generation", self.core.generation.get().into(), generation.into());
            self.core.generation.set(generation);
        }
        self.settle_size(bytes);
    }

    fn change(&mut self, name: &'static str, found: u64, now: u64) {
        if found != now {
            self.changed.push(ChangedField { name, found, now });
        }
    }

    /// Takes the file type of the directory entry if the inode can have it. Returns whether the type changed.
    fn take_type(&mut self, bytes: &[u8], named: &Named) -> bool {
        let geometry = self.volume.geometry();
        let is_root = self.number == geometry.root_inode;
        let Some(kind) = named.file_type.filter(|kind| !is_root && self.core.file_type() != Some(*kind))
        else {
            return false;
        };
        let mut changed = bytes.to_vec();
        if let Some(core) = InodeCore::prefix_of_mut(&mut changed) {
            core.mode.set(kind.mode_bits() | private_permissions(kind));
        }
        checksum::seal(&mut changed, core::CHECKSUM_OFFSET_BYTES);
        // Its format may have been made to fit the wrong type.
        let can_be = neutral::make(&mut changed, self.number, geometry);
        if let Some(core) = InodeCore::prefix_of(&changed).filter(|_| can_be) {
            self.change("type", (self.core.mode.get() & !PERMISSIONS).into(), kind.mode_bits().into());
            self.core = *core;
        }
        true
    }

    fn restrict_permissions(&mut self, is_other_type: bool) {
        let found = self.core.mode.get() & PERMISSIONS;
        let Some(kind) = self.core.file_type() else { return };
        let is_device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
        let mut permissions = found & !SET_ID_AND_STICKY;
        if is_other_type || is_device {
            permissions &= private_permissions(kind);
        }
        // Without the sticky bit every user with write permission could remove other users' files.
        if found & STICKY != 0 && kind == FileType::Directory {
            permissions &= !WRITE_OF_OTHERS;
        }
        self.change("permissions", found.into(), permissions.into());
        self.core.mode.set(self.core.mode.get() & !PERMISSIONS | permissions);
    }

    fn settle_owners(&mut self, named: &Named, owners: &Owners) {
        let directory = named.directory.and_then(|directory| self.volume.inode(directory).ok());
        let [user, group, of_project] = directory
            .map(|directory| [directory.uid(), directory.gid(), directory.project_id()])
            .unwrap_or_default();
        let settled = |found: u32, known: &BTreeSet<u32>, neutral: u32| match known.contains(&found) {
            true => found,
            false => neutral,
        };
        let found = [self.core.uid.get(), self.core.gid.get(), project(&self.core)];
        let now = [
            settled(found[0], &owners.users, user),
            settled(found[1], &owners.groups, group),
            settled(found[2], &owners.projects, of_project),
        ];
        for ((name, found), now) in ["owner", "group", "project"].into_iter().zip(found).zip(now) {
            self.change(name, found.into(), now.into());
        }
        self.core.uid.set(now[0]);
        self.core.gid.set(now[1]);
        self.core.project_id_high.set((now[2] >> 16) as u16);
        self.core.project_id_low.set(now[2] as u16);
    }

    fn settle_flags(&mut self, has_wrong_flags: bool) {
        let found = self.core.flags();
        let (unfit, unfit2) = fields::unfit_flags(&self.core, self.number, self.volume.superblock());
        // Whether data lie in the realtime section, and whether a hint is in use, other fields depend on.
        let kept = InodeFlags::REALTIME
            | InodeFlags::EXTENT_SIZE
            | InodeFlags::EXTENT_SIZE_INHERIT
            | InodeFlags::REALTIME_INHERIT;
        let now = match unfit.is_empty() && unfit2.is_empty() && !has_wrong_flags {
            true => found.difference(InodeFlags::IMMUTABLE | InodeFlags::APPEND),
            false => found & kept & !unfit,
        };
        self.change("flags", found.bits().into(), now.bits().into());
        self.core.flags.set(now.bits());
        let found2 = self.core.flags2();
        let now2 = found2.difference(unfit2);
        self.change("flags2", found2.bits(), now2.bits());
        self.core.flags2.set(now2.bits());
        self.core.dmapi_event_mask.set(0);
        self.core.dmapi_state.set(0);
    }

    fn settle_size(&mut self, bytes: &[u8]) {
        let geometry = self.volume.geometry();
        if self.core.file_type() != Some(FileType::Regular) {
            return;
        }
        let Some(inode) = Inode::decode(bytes, &self.core, geometry) else { return };
        let Ok(map) = self.volume.extent_map(&inode, Fork::Data) else { return };
        if inode.is_realtime() {
            return;
        }
        let extents: Vec<_> = map.iter().collect();
        let (found, block_bytes) = (self.core.size_bytes.get(), geometry.block_size() as u64);
        let end_of = |is_counted: &dyn Fn(bool) -> bool| {
            let counted = extents.iter().filter(|extent| is_counted(extent.is_unwritten));
            counted.map(|extent| extent.end().get()).max().unwrap_or(0).saturating_mul(block_bytes)
        };
        let (end, written_end) = (end_of(&|_| true), end_of(&|is_unwritten| !is_unwritten));
        let may_end_with_hole = found % SECTOR_BYTES == 0 && found <= geometry.data_size_bytes();
        // A reverse map has confirmed the places of the blocks in the file; without one they may be wrong as well.
        let is_too_small = geometry.features.has_reverse_map()
            && found.saturating_add(block_bytes) <= written_end
            && end_of_contents(self.volume, &extents) > found;
        let now = if found > end && !may_end_with_hole || is_too_small {
            end_of_contents(self.volume, &extents)
        } else {
            found
        };
        self.change("size", found, now);
        self.core.size_bytes.set(now);
    }
}

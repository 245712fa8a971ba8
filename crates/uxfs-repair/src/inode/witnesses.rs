//! What others say about inodes that are gone: copies in the log, entries and parent pointers that name them, and the reverse map.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use parking_lot::Mutex;
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    inode::{FileType, Fork},
    units::{AgNumber, InodeNumber},
};
use uxfs_journal::copies::{LogCopies, Wanted};
use uxfs_volume::{
    inode::{
        Inode,
        scan::{ScanEvent, ScanOptions, ScannedInode},
    },
    volume::Volume,
};

use crate::extent_map::rebuild::{Owned, OwnedByInode, gather};

/// What names say of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Named {
    /// As the entry says.
    pub file_type: Option<FileType>,
    /// The directory of the entry.
    pub directory: Option<InodeNumber>,
    /// Parent pointers name it: it is a directory, and this is its generation.
    pub generation: Option<u32>,
}

/// All witnesses of some inodes.
#[derive(Debug, Default)]
pub(crate) struct Witnesses {
    copies: LogCopies,
    named: BTreeMap<InodeNumber, Named>,
    owned: OwnedByInode,
    /// Starts and ends of shared extents, once they are asked for.
    shared: OnceCell<BTreeMap<u64, u64>>,
}

impl Witnesses {
    /// Of these inodes, with these copies in the log.
    pub fn gather(volume: &Volume, copies: LogCopies, inodes: &BTreeSet<InodeNumber>) -> Self {
        if inodes.is_empty() {
            return Self::default();
        }
        let (named, owned) = (names_of(volume, inodes), gather(volume, inodes));
        Self { copies, named, owned, shared: OnceCell::new() }
    }

    /// Whether files share some of these extents.
    pub fn is_shared(&self, volume: &Volume, owned: &Owned) -> bool {
        let shared = self.shared.get_or_init(|| shared_extents(volume));
        owned.extents.iter().any(|extent| {
            let start = extent.start.get();
            let end = start.saturating_add(extent.length_blocks);
            shared.range(..end).next_back().is_some_and(|(_, shared_end)| *shared_end > start)
        })
    }

    /// The newest copy in the log.
    pub fn copy(&self, inode: InodeNumber) -> Option<&uxfs_journal::copies::InodeCopy> {
        self.copies.inode(inode)
    }

    /// What names say.
    pub fn named(&self, inode: InodeNumber) -> Option<&Named> {
        self.named.get(&inode)
    }

    /// What the reverse map says of a fork.
    pub fn owned(&self, inode: InodeNumber, fork: Fork) -> Owned {
        self.owned.forks.get(&(inode, fork == Fork::Attribute)).cloned().unwrap_or_default()
    }

    /// The reverse maps of all groups could be read, and there are some.
    pub fn has_whole_reverse_map(&self) -> bool {
        self.owned.is_complete
    }
}

fn shared_extents(volume: &Volume) -> BTreeMap<u64, u64> {
    let geometry = volume.geometry();
    let mut shared = BTreeMap::new();
    for group in geometry.groups() {
        let Ok(extents) = volume.group(group).shared_extents() else { continue };
        for extent in extents.map_while(Result::ok).filter(|extent| !extent.is_cow_staging) {
            if let Some(start) = geometry.fs_block(group, extent.start) {
                shared.insert(start.get(), start.get().saturating_add(extent.length_blocks.into()));
            }
        }
    }
    shared
}

/// The newest copies in the log of these inodes, and of all inodes of some groups. A log that cannot be read has none.
pub(crate) fn copies_of(
    volume: &Volume,
    log: &dyn BlockDevice,
    inodes: &BTreeSet<InodeNumber>,
    groups: &[AgNumber],
) -> LogCopies {
    let mut wanted = Wanted::default();
    inodes.iter().for_each(|inode| wanted.add_inode(*inode));
    groups.iter().for_each(|group| wanted.add_group(volume.geometry(), *group));
    if wanted.is_empty() {
        return LogCopies::default();
    }
    LogCopies::gather(log, volume.geometry(), &wanted).unwrap_or_default()
}

/// Visits all inodes for entries and parent pointers that name some.
fn names_of(volume: &Volume, inodes: &BTreeSet<InodeNumber>) -> BTreeMap<InodeNumber, Named> {
    let geometry = volume.geometry();
    let found: Mutex<BTreeMap<InodeNumber, Named>> = Mutex::default();
    volume.scan_inodes(
        &ScanOptions::in_order(),
        || (),
        |(), event| {
            if let ScanEvent::Inode(ScannedInode { bytes, core: Ok(core), .. }) = event
                && let Some(inode) = Inode::decode(bytes, core, geometry)
            {
                if inode.file_type() == Some(FileType::Directory) {
                    note_entries(volume, &inode, inodes, &found);
                }
                let _ = volume.visit_parent_pointers(&inode, |pointer| {
                    if inodes.contains(&pointer.parent) {
                        let mut found = found.lock();
                        let named = found.entry(pointer.parent).or_default();
                        named.generation.get_or_insert(pointer.generation);
                    }
                    Ok(ControlFlow::Continue(()))
                });
            }
            ControlFlow::<()>::Continue(())
        },
    );
    found.into_inner()
}

fn note_entries(
    volume: &Volume,
    directory: &Inode,
    inodes: &BTreeSet<InodeNumber>,
    found: &Mutex<BTreeMap<InodeNumber, Named>>,
) {
    let Ok(mut reader) = volume.open_directory(directory, 0) else { return };
    // The walk moves ahead of each block that cannot be read.
    let mut faults = 0_u32;
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) if entry.name == b"." => {}
            Ok(Some(entry)) if inodes.contains(&entry.inode) => {
                let is_above = entry.name == b"..";
                let mut found = found.lock();
                let named = found.entry(entry.inode).or_default();
                if is_above {
                    named.file_type = Some(FileType::Directory);
                } else {
                    named.file_type = entry.file_type.or(named.file_type);
                    named.directory = Some(directory.number);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(_) if faults >= 1000 => return,
            Err(_) => faults += 1,
        }
    }
}

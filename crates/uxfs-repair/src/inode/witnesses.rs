//! What others say about inodes that are gone: copies in the log, entries and parent pointers that name them, and the reverse map.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

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

use super::lost_directories;
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
    pub fn gather(
        volume: &Volume,
        copies: LogCopies,
        inodes: &BTreeSet<InodeNumber>,
        scan: ScanOptions,
    ) -> Self {
        if inodes.is_empty() {
            return Self::default();
        }
        let owned = gather(volume, inodes);
        let entries = lost_directories::entries(volume, &owned, inodes);
        let named = names_of(volume, inodes, entries, scan);
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

/// What one thread has seen of names.
#[derive(Debug, Default)]
struct Seen {
    /// The generation, and the inode whose parent pointer says it: of several, the first one says it.
    generations: BTreeMap<InodeNumber, (InodeNumber, u32)>,
    /// What entries say, in the order of each directory.
    entries: Vec<SeenEntry>,
}

/// An entry that names an inode.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenEntry {
    pub directory: InodeNumber,
    pub inode: InodeNumber,
    pub file_type: Option<FileType>,
    /// It is "..".
    pub is_above: bool,
}

/// Visits all inodes for entries and parent pointers that name some; `entries` are those of directories that are lost. What comes out does not depend on the number of threads.
fn names_of(
    volume: &Volume,
    inodes: &BTreeSet<InodeNumber>,
    mut entries: Vec<SeenEntry>,
    scan: ScanOptions,
) -> BTreeMap<InodeNumber, Named> {
    let geometry = volume.geometry();
    let (_, all) = volume.scan_inodes(&scan, Seen::default, |seen, event| {
        if let ScanEvent::Inode(ScannedInode { bytes, core: Ok(core), .. }) = event
            && let Some(inode) = Inode::decode(bytes, core, geometry)
        {
            if inode.file_type() == Some(FileType::Directory) {
                seen.note_entries(volume, &inode, inodes);
            }
            seen.note_pointers(volume, &inode, inodes);
        }
        ControlFlow::<()>::Continue(())
    });
    let mut found: BTreeMap<InodeNumber, Named> = BTreeMap::new();
    let mut generations: BTreeMap<InodeNumber, (InodeNumber, u32)> = BTreeMap::new();
    for seen in all {
        for (inode, said) in seen.generations {
            let first = generations.entry(inode).or_insert(said);
            *first = said.min(*first);
        }
        entries.extend(seen.entries);
    }
    // Each directory was read by one thread: a stable sort keeps the order of its entries.
    entries.sort_by_key(|entry| entry.directory);
    for entry in entries {
        let named = found.entry(entry.inode).or_default();
        if entry.is_above {
            named.file_type = Some(FileType::Directory);
        } else {
            named.file_type = entry.file_type.or(named.file_type);
            named.directory = Some(entry.directory);
        }
    }
    for (inode, (_, generation)) in generations {
        found.entry(inode).or_default().generation = Some(generation);
    }
    found
}

impl Seen {
    fn note_pointers(&mut self, volume: &Volume, inode: &Inode, inodes: &BTreeSet<InodeNumber>) {
        let _ = volume.visit_parent_pointers(inode, |pointer| {
            if inodes.contains(&pointer.parent) {
                let said = (inode.number, pointer.generation);
                let first = self.generations.entry(pointer.parent).or_insert(said);
                if said.0 < first.0 {
                    *first = said;
                }
            }
            Ok(ControlFlow::Continue(()))
        });
    }

    fn note_entries(&mut self, volume: &Volume, directory: &Inode, inodes: &BTreeSet<InodeNumber>) {
        let Ok(mut reader) = volume.open_directory(directory, 0) else { return };
        // The walk moves ahead of each block that cannot be read.
        let mut faults = 0_u32;
        loop {
            match reader.next_entry() {
                Ok(Some(entry)) if entry.name == b"." => {}
                Ok(Some(entry)) if inodes.contains(&entry.inode) => self.entries.push(SeenEntry {
                    directory: directory.number,
                    inode: entry.inode,
                    file_type: entry.file_type,
                    is_above: entry.name == b"..",
                }),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) if faults >= 1000 => return,
                Err(_) => faults += 1,
            }
        }
    }
}

//! Entries in directory blocks that no map leads to any more.
//!
//! A directory block says which directory it belongs to and where it lies. Where the directory's inode is gone, and neither the reverse
//! map nor parent pointers know more, its blocks still hold the names. But blocks that directories have given back keep their
//! contents, so that an entry may be old. Hence the rule: such an entry counts only where the directory's inode or map was made again, only for
//! an inode that has fewer names than links, only where its file type is the inode's, and only where the reverse map gives the block to
//! no other inode; of several the one in the block that was written last.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    btree::reverse_map::Owner,
    directory::{
        EntryFormat,
        data::{DataRecord, DataRecords},
        header::DirectoryBlockHeader,
    },
    fault::Structure as Kind,
    field_table::OnDisk,
    inode::FileType,
    units::{AgNumber, InodeNumber, Lsn, SECTOR_SIZE_BYTES, Sector},
};
use uxfs_volume::volume::Volume;

use super::{
    decide::Decision,
    facts::{Facts, Link},
};
use crate::{geometry::survey::survey, reverse_map::read::visit_group};

/// Entries that are kept.
const MOST_STRAYS: usize = 1 << 20;

/// An entry in a block that no map leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stray {
    pub file_type: Option<FileType>,
    /// Of the last write of its block.
    pub lsn: Lsn,
}

/// How many names of each inode are missing in a decision; inodes that have all of them are left out, and so are undisputed ones.
pub(super) fn missing_names(facts: &Facts, decision: &Decision) -> BTreeMap<InodeNumber, u32> {
    let mut names: BTreeMap<InodeNumber, u32> = BTreeMap::new();
    for inode in decision.links.values() {
        *names.entry(*inode).or_default() += 1;
    }
    let is_root = |inode: InodeNumber| inode == facts.root || Some(inode) == facts.metadata_root;
    let disputed = facts.inodes.iter().enumerate();
    let disputed =
        disputed.filter(|(index, (_, fact))| !fact.is_internal && !decision.undisputed.has_inode(*index));
    let in_use = disputed.map(|(_, (inode, fact))| {
        let is_directory = fact.file_type == FileType::Directory;
        let is_unlinked = fact.link_count == 0 && !is_directory;
        (
            *inode,
            if is_directory {
                1
            } else if is_unlinked {
                0
            } else if facts.uncounted.contains(inode) {
                u32::MAX
            } else {
                fact.link_count.max(1)
            },
        )
    });
    let made_again = decision.directories.keys().map(|inode| (*inode, 1));
    let missing = in_use
        .chain(made_again)
        .filter(|(inode, _)| !is_root(*inode))
        .map(|(inode, links)| (inode, links.saturating_sub(names.get(&inode).copied().unwrap_or(0))));
    missing.filter(|(inode, missing)| *missing > 0 && !facts.partial.contains(inode)).collect()
}

/// Decides about names. Those that are missing then are looked for in all directory blocks of the device. `remade` are directories whose
/// inodes or maps were made again: of all others a block that is not in the map is old.
pub(crate) fn decide_with(
    volume: &Volume,
    device: &dyn BlockDevice,
    remade: &BTreeSet<InodeNumber>,
    facts: &mut Facts,
) -> Decision {
    let decision = Decision::of(facts);
    let missing = missing_names(facts, &decision);
    let is_remade =
        |directory: InodeNumber| remade.contains(&directory) || decision.directories.contains_key(&directory);
    if missing.is_empty() || remade.is_empty() && decision.directories.is_empty() {
        return decision;
    }
    let geometry = volume.geometry();
    let mut found: BTreeMap<Link, (Stray, Sector)> = BTreeMap::new();
    survey(device, 0..geometry.data_size_bytes(), &mut |structure| {
        let is_block = matches!(structure.kind, Kind::DirectoryBlock | Kind::DirectoryData)
            && structure.uuid == geometry.metadata_uuid
            && structure.bytes.len() == geometry.directory_block_size_bytes as usize;
        let Some(header) = DirectoryBlockHeader::prefix_of(structure.bytes).filter(|_| is_block) else {
            return;
        };
        let directory = InodeNumber::new(header.owner.get());
        let is_directory =
            facts.directory(directory).is_some() || decision.directories.contains_key(&directory);
        if !is_directory || !is_remade(directory) {
            return;
        }
        let lsn = Lsn::new(header.lsn.get());
        let end = u32::try_from(structure.bytes.len()).unwrap_or(0);
        let records = DataRecords::new(structure.bytes, end, EntryFormat::of(geometry));
        for record in records.map_while(Result::ok) {
            // The index at the end of a single block is no record.
            let DataRecord::Entry(entry) = record else { continue };
            if u32::from(entry.tag) != entry.offset_bytes
                || !missing.contains_key(&entry.inode)
                || found.len() >= MOST_STRAYS
            {
                continue;
            }
            let link = Link { directory, name: entry.name.into(), inode: entry.inode };
            let stray = Stray { file_type: entry.file_type(), lsn };
            let sector = Sector::new(structure.offset_bytes / SECTOR_SIZE_BYTES);
            let known = found.entry(link).or_insert((stray, sector));
            if known.0.lsn < lsn {
                *known = (stray, sector);
            }
        }
    });
    leave_out_others_blocks(volume, &mut found);
    if found.is_empty() {
        return decision;
    }
    // The directory gets an entry only if it is chosen.
    facts.links.add_missing(found.keys().cloned());
    facts.strays = found.into_iter().map(|(link, (stray, _))| (link, stray)).collect();
    Decision::of(facts)
}

/// The links of a decision that have no other witness.
pub(crate) fn taken<'f>(facts: &'f Facts, decision: &'f Decision) -> impl Iterator<Item = &'f Link> {
    facts.strays.keys().filter(|link| {
        let place = (link.directory, link.name.clone());
        let witnesses = facts.links.get(*link).copied().unwrap_or_default();
        decision.links.get(&place) == Some(&link.inode)
            && !witnesses.has_entry
            && witnesses.pointer_generation.is_none()
    })
}

/// Leaves out entries in blocks that the reverse map gives to another inode.
fn leave_out_others_blocks(volume: &Volume, found: &mut BTreeMap<Link, (Stray, Sector)>) {
    let geometry = volume.geometry();
    let groups: BTreeSet<AgNumber> = found
        .values()
        .filter_map(|(_, sector)| geometry.block_of_sector(*sector))
        .map(|(group, _, _)| group)
        .collect();
    for group in groups {
        let mut owners: BTreeMap<u32, (u32, InodeNumber)> = BTreeMap::new();
        visit_group(volume, group, &mut |mapping| {
            if let Owner::Inode(inode) = mapping.owner {
                owners.insert(mapping.start.get(), (mapping.end().get(), inode));
            }
        });
        found.retain(|link, (_, sector)| {
            let Some((of_group, block, _)) = geometry.block_of_sector(*sector) else { return false };
            let owner = owners.range(..=block.get()).next_back().filter(|(_, (end, _))| block.get() < *end);
            of_group != group || owner.is_none_or(|(_, (_, inode))| *inode == link.directory)
        });
    }
}

//! Which objects a repair has to rebuild, from the findings of a check.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_format::{
    btree::reverse_map::{Mapping, Owner},
    fault::{Corruption, Fault, HeaderFault, Location, Structure},
    geometry::Geometry,
    units::{AgBlock, AgNumber, InodeNumber, Lsn},
};
use uxfs_volume::{
    metadata::{ContradictedInode, MetadataOwner, OlderMetadata},
    tolerant,
};

use super::bit_flips::Suspects;
use super::log_copies::{DamagedBlock, is_of_directory};
use super::lsn;
use crate::{
    finding::{Finding, Name},
    inode_index::gather::Trust,
    quota::mend::QuotaWork,
    superblock::fields::ATTRIBUTE_BIT,
};

/// More inodes ahead of the log than these are right, and the log is wrong.
const MOST_INODES_AHEAD: u64 = 16;

/// Objects that must be rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Work {
    /// The superblock of group 0.
    pub primary_superblock: bool,
    /// Fields of the superblock of group 0 that get neutral values.
    pub superblock_fields: bool,
    /// The attribute bit of the superblock is missing.
    pub attribute_bit: bool,
    /// Other superblocks.
    pub superblock_copies: BTreeSet<AgNumber>,
    /// The log cannot be used.
    pub log: bool,
    /// Metadata is ahead of the log: a cycle that is newer than all of it.
    pub log_cycle: u32,
    /// Inodes that are ahead of the log, and the cycle of a log that is ahead of them.
    pub inodes_ahead: u64,
    pub ahead_cycle: u32,
    /// Blocks whose log sequence number no log can have reached.
    pub absurd_lsns: Vec<(Structure, Location)>,
    /// The counters of the superblock.
    pub counters: bool,
    /// Headers and btrees of groups.
    pub groups: BTreeSet<AgNumber>,
    /// Groups whose inode btrees do not name all chunks.
    pub inode_indexes: BTreeSet<AgNumber>,
    /// Inodes that the superblock names, and that are not in use.
    pub internal_inodes: BTreeSet<InodeNumber>,
    /// The root of the metadata directory tree, where that is no directory of the tree.
    pub metadata_root: Option<InodeNumber>,
    /// Entries that lead from one of the two directory trees into the other: directory, name and inode.
    pub metadata_entries: BTreeSet<(InodeNumber, Name, InodeNumber)>,
    /// Damaged structures in which a bit may have changed.
    pub suspects: Suspects,
    /// Damaged blocks of files: the log may have them.
    pub blocks: Vec<DamagedBlock>,
    /// Inodes and blocks of files that are older than the log says.
    pub older: Vec<OlderMetadata>,
    /// Groups of which some of these are.
    pub older_groups: BTreeSet<AgNumber>,
    /// Inodes that the log contradicts.
    pub contradicted: BTreeSet<InodeNumber>,
    /// Inodes whose extent maps the reverse map contradicts.
    pub contradicted_maps: BTreeSet<InodeNumber>,
    /// Inodes with blocks that are free: the inode, the group, the first block and the number of blocks.
    pub in_free_space: BTreeSet<(InodeNumber, AgNumber, AgBlock, u32)>,
    /// Blocks that are neither free nor in use: their number by the first.
    pub unused: BTreeMap<(AgNumber, AgBlock), u32>,
    /// Blocks of inodes that another owner has as well: their number by the first.
    pub used_twice: BTreeMap<(InodeNumber, AgNumber, AgBlock), u32>,
    /// Extents that the free space btree by block has alone, and those that the one by length has alone: their ends by their starts.
    pub free_by_block_alone: BTreeMap<(AgNumber, AgBlock), AgBlock>,
    pub free_by_length_alone: BTreeMap<(AgNumber, AgBlock), AgBlock>,
    /// Inodes that lack a parent pointer.
    pub without_pointers: BTreeSet<InodeNumber>,
    /// Symbolic links whose targets are lost.
    pub symlinks: BTreeSet<InodeNumber>,
    /// Some inodes are damaged, or free against the index.
    pub inodes: bool,
    /// Free inodes that fail their verifier.
    pub free_inodes: BTreeSet<InodeNumber>,
    /// Inodes that are in use, and free by the index.
    pub free_in_use: BTreeSet<InodeNumber>,
    /// Inodes with fields that do not fit.
    pub inode_fields: BTreeSet<InodeNumber>,
    /// Inodes in use that fail their verifier.
    pub damaged_inodes: BTreeSet<InodeNumber>,
    /// Inodes with extents marked as never written that the reverse map does not know as such.
    pub unwritten: BTreeSet<InodeNumber>,
    /// Extent maps of inodes.
    pub extent_maps: BTreeSet<InodeNumber>,
    /// Directories whose blocks or index are wrong.
    pub directories: BTreeSet<InodeNumber>,
    /// Attribute forks.
    pub attributes: BTreeSet<InodeNumber>,
    /// Block counts of inodes, with the right ones.
    pub inode_blocks: BTreeSet<(InodeNumber, u64)>,
    /// Quota records and counts.
    pub quota: QuotaWork,
    /// Names, parent pointers or link counts contradict each other.
    pub names: bool,
    /// The device is too short, or the geometry wrong: nothing may be rebuilt by it.
    pub is_without_geometry: bool,
    /// There are findings that no repair exists for yet.
    pub others: u64,
}

impl Work {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Many inodes ahead of the log say that the log is wrong, and not each of them.
    pub fn judge_log(&mut self) {
        if self.inodes_ahead > MOST_INODES_AHEAD {
            self.log = true;
            self.log_cycle = self.log_cycle.max(self.ahead_cycle);
        }
    }

    /// Puts what came in any order from several threads in one order.
    pub fn sort(&mut self) {
        self.blocks.sort_by_key(|block| (block.inode, block.sector));
        self.blocks.dedup();
        self.absurd_lsns.sort_by_key(|(_, location)| (location.sector, location.inode));
    }

    /// Whether inodes or groups have to be rebuilt.
    pub fn has_space_work(&self) -> bool {
        self.inodes
            || !self.groups.is_empty()
            || !self.inode_blocks.is_empty()
            || !self.symlinks.is_empty()
            || !self.internal_inodes.is_empty()
    }

    /// How far the inode btrees of a group are believed.
    pub fn trust_in(&self, group: AgNumber) -> Trust {
        if self.older_groups.contains(&group) {
            Trust::Older
        } else if self.inode_indexes.contains(&group) {
            Trust::Suspect
        } else {
            Trust::Sound
        }
    }

    /// Inodes with blocks that both free space btrees have, or that the reverse map does not give them: they may be older than the free
    /// space.
    pub fn perhaps_older(&self) -> impl Iterator<Item = InodeNumber> + '_ {
        let is_doubtful = |(inode, group, start, length_blocks): &&(_, AgNumber, AgBlock, u32)| {
            let behind = AgBlock::new(start.get().saturating_add(*length_blocks));
            let is_in = |alone: &BTreeMap<(AgNumber, AgBlock), AgBlock>| {
                let last = alone.range((*group, AgBlock::new(0))..(*group, behind)).next_back();
                last.is_some_and(|(_, end)| end > start)
            };
            let is_in_one = is_in(&self.free_by_block_alone) && !is_in(&self.free_by_length_alone);
            !is_in_one || self.contradicted_maps.contains(inode) || self.older_groups.contains(group)
        };
        self.in_free_space.iter().filter(is_doubtful).map(|(inode, ..)| *inode)
    }

    /// Inodes that are older than the log says.
    pub fn older_inodes(&self) -> impl Iterator<Item = InodeNumber> + '_ {
        self.older.iter().filter_map(|older| match older.owner {
            MetadataOwner::Inode(inode) if older.structure == Structure::Inode => Some(inode),
            _ => None,
        })
    }

    /// Whether names or attributes have to be rebuilt.
    pub fn has_name_work(&self) -> bool {
        self.names || !self.directories.is_empty() || !self.attributes.is_empty()
    }

    /// Takes a finding in.
    pub fn add(&mut self, finding: &Finding, geometry: &Geometry) {
        let object = finding.object(geometry);
        match finding {
            Finding::Damaged { corruption } if corruption.structure != Structure::Quota => {
                if let Fault::Header(HeaderFault::AheadOfLog { found, .. }) = corruption.fault {
                    return self.add_ahead(corruption, found);
                }
                self.suspects.add(corruption.structure, corruption.location.sector, object.inode);
                if let (Some(inode), Some(sector)) = (object.inode, corruption.location.sector) {
                    self.blocks.push(DamagedBlock { inode, sector, structure: corruption.structure });
                }
                self.add_damage(corruption.structure, object.group, object.inode);
            }
            Finding::Opening {
                finding:
                    tolerant::Finding::PrimarySuperblock(_)
                    | tolerant::Finding::OtherSuperblock { .. }
                    | tolerant::Finding::InferredSuperblock { .. }
                    | tolerant::Finding::NeedsRepair
                    | tolerant::Finding::Unfinished,
            } => self.primary_superblock = true,
            Finding::SuperblockFields { fields: ATTRIBUTE_BIT, .. } => self.attribute_bit = true,
            Finding::SuperblockFields { group, .. } if group.get() == 0 => self.superblock_fields = true,
            Finding::SuperblockCopy { group } | Finding::SuperblockFields { group, .. } => {
                self.superblock_copies.insert(*group);
            }
            Finding::UncheckedGroups { .. }
            | Finding::Opening { finding: tolerant::Finding::DeviceTooShort { .. } } => {
                self.is_without_geometry = true;
            }
            Finding::OlderThanLog { older } => self.add_older(older),
            Finding::InodeAgainstLog(ContradictedInode { inode, .. }) => {
                self.contradicted.insert(*inode);
            }
            Finding::SuperblockCount { .. } => self.counters = true,
            Finding::LogNotReplayed { .. } => self.log = true,
            Finding::LogUnwritten => self.add_new_log(1),
            Finding::InodeChunk { group, .. } | Finding::InodeChunkMissing { group, .. } => {
                self.inode_indexes.insert(*group);
                self.groups.insert(*group);
            }
            Finding::MappingWithoutOwner { group, mapping } => {
                if mapping.owner == Owner::InodeChunks {
                    self.inode_indexes.insert(*group);
                }
                self.add_contradicted_map(*group, mapping);
            }
            Finding::MappingMissing { group, mapping } => self.add_contradicted_map(*group, mapping),
            Finding::FreeBlocksInUse { .. }
            | Finding::FreeExtent { .. }
            | Finding::BlocksUnused { .. }
            | Finding::BlocksUsedTwice { .. } => self.add_of_space(finding),
            Finding::GroupCount { .. }
            | Finding::ReferenceCount { .. }
            | Finding::CowStaging { .. }
            | Finding::SpaceSum { .. }
            | Finding::UnlinkedTwice { .. }
            | Finding::UnlinkedWithLinks { .. }
            | Finding::UnlinkedFree { .. } => self.groups.extend(object.group),
            _ => self.add_of_inode(finding, object.group),
        }
    }

    fn add_of_space(&mut self, finding: &Finding) {
        match finding {
            Finding::BlocksUnused { group, start, length_blocks } => {
                self.unused.insert((*group, *start), *length_blocks);
                self.groups.insert(*group);
            }
            Finding::BlocksUsedTwice { group, start, length_blocks, first, second } => {
                for owner in [first, second] {
                    if let Owner::Inode(inode) = owner {
                        self.used_twice.insert((*inode, *group, *start), *length_blocks);
                    }
                }
                self.groups.insert(*group);
            }
            Finding::FreeBlocksInUse { group, owner, start, length_blocks } => {
                if let Owner::Inode(inode) = owner {
                    self.in_free_space.insert((*inode, *group, *start, *length_blocks));
                }
                self.groups.insert(*group);
            }
            Finding::FreeExtent { group, extent, only_in } => {
                let alone = match only_in {
                    Structure::FreeSpaceByBlock => &mut self.free_by_block_alone,
                    _ => &mut self.free_by_length_alone,
                };
                alone.insert((*group, extent.start), extent.end());
                self.groups.insert(*group);
            }
            _ => {}
        }
    }

    fn add_contradicted_map(&mut self, group: AgNumber, mapping: &Mapping) {
        if let Owner::Inode(inode) = mapping.owner {
            self.contradicted_maps.insert(inode);
            self.unwritten.extend(mapping.is_unwritten.then_some(inode));
        }
        self.groups.insert(group);
    }

    fn add_ahead(&mut self, corruption: &Corruption, found: Lsn) {
        if lsn::is_absurd(found) {
            self.absurd_lsns.push((corruption.structure, corruption.location));
        } else {
            self.add_new_log(found.cycle().saturating_add(1));
        }
    }

    /// A new log, whose cycle is at least this one. The old one holds nothing that is given up.
    fn add_new_log(&mut self, cycle: u32) {
        self.log = true;
        self.log_cycle = self.log_cycle.max(cycle);
    }

    fn add_older(&mut self, older: &OlderMetadata) {
        self.older.push(*older);
        if let MetadataOwner::Group(group) = older.owner {
            self.groups.insert(group);
            self.older_groups.insert(group);
        }
    }

    /// Findings of inodes and names.
    fn add_of_inode(&mut self, finding: &Finding, group: Option<AgNumber>) {
        match finding {
            Finding::BtreeKey { inode: Some(inode), .. } | Finding::BtreeFill { inode: Some(inode), .. } => {
                self.extent_maps.insert(*inode);
            }
            Finding::BtreeKey { inode: None, .. } | Finding::BtreeFill { inode: None, .. } => {
                self.groups.extend(group)
            }
            Finding::NotUnlinked { .. } => self.names = true,
            Finding::FreeInodeInUse { inode } => {
                self.free_in_use.insert(*inode);
                self.inodes = true;
                self.groups.extend(group);
            }
            Finding::UnreadInodes { .. } | Finding::Unlinked { .. } | Finding::NextUnlinked { .. } => {
                self.inodes = true;
                self.groups.extend(group);
            }
            Finding::InternalInodeMissing { inode } => {
                self.internal_inodes.insert(*inode);
                // It may be the root directory.
                self.names = true;
            }
            Finding::FreeInode { inode, .. } => {
                self.suspects.inodes.insert(*inode);
                self.free_inodes.insert(*inode);
            }
            Finding::InodeBlocks { inode, expected, .. } => {
                self.inode_blocks.insert((*inode, *expected));
            }
            Finding::EntryNotIndexed { directory, .. }
            | Finding::IndexEntry { directory, .. }
            | Finding::FreeIndex { directory, .. }
            | Finding::Dot { directory, .. }
            | Finding::NameTwice { directory, .. }
            | Finding::EntryFileType { directory, .. } => {
                self.directories.insert(*directory);
                self.names = true;
            }
            Finding::NodeHash { inode, structure, .. } => {
                let is_directory =
                    matches!(structure, Structure::DirectoryNode | Structure::DirectoryAnyIndex);
                let objects = if is_directory { &mut self.directories } else { &mut self.attributes };
                objects.insert(*inode);
                self.names |= is_directory;
            }
            // An attribute that is half set has never been visible: it goes.
            Finding::AttributeIncomplete { inode, .. }
            | Finding::AttributeTwice { inode, .. }
            | Finding::AttributeValueShared { inode, .. } => {
                self.attributes.insert(*inode);
            }
            Finding::ParentPointerMissing { inode, .. } => {
                self.names = true;
                // Without any attribute the format of the fork may be wrong.
                self.without_pointers.insert(*inode);
            }
            Finding::DotDot { .. }
            | Finding::EntryOfFreeInode { .. }
            | Finding::ParentPointerWithoutEntry { .. }
            | Finding::LinkCount { .. }
            | Finding::DirectoryNamedTwice { .. }
            | Finding::NoName { .. }
            | Finding::Cycle { .. } => self.names = true,
            _ => self.add_of_fields(finding),
        }
    }

    /// Findings of single fields of inodes, of the metadata directory tree, and of quotas.
    fn add_of_fields(&mut self, finding: &Finding) {
        match finding {
            Finding::InodeFlags { inode, .. }
            | Finding::InodeTime { inode, .. }
            | Finding::UnwrittenExtent { inode, .. }
            | Finding::SymlinkBlocks { inode, .. }
            | Finding::SharedWithoutFlag { inode, .. }
            | Finding::DirectorySize { directory: inode, .. }
            | Finding::SizeOfSpecialFile { inode, .. } => {
                self.inode_fields.insert(*inode);
            }
            Finding::InodeAheadOfLog { inode, found, .. } => {
                self.inode_fields.insert(*inode);
                if !lsn::is_absurd(*found) {
                    self.inodes_ahead += 1;
                    self.ahead_cycle = self.ahead_cycle.max(found.cycle().saturating_add(1));
                }
            }
            Finding::MetadataRoot { inode } => self.metadata_root = Some(*inode),
            Finding::MetadataEntry { directory, name, inode } => {
                self.metadata_entries.insert((*directory, name.clone(), *inode));
                self.names = true;
            }
            _ if self.quota.add(finding) => {}
            _ => self.others += 1,
        }
    }

    fn add_damage(&mut self, structure: Structure, group: Option<AgNumber>, inode: Option<InodeNumber>) {
        use Structure as S;
        match (structure, group, inode) {
            (S::Superblock, Some(group), _) if group.get() == 0 => self.primary_superblock = true,
            (S::Superblock, Some(group), _) => {
                self.superblock_copies.insert(group);
            }
            (S::FreeSpaceHeader | S::InodeHeader | S::FreeList, Some(group), _) => {
                self.groups.insert(group);
            }
            (structure, Some(group), _) if structure.is_group_btree() => {
                self.groups.insert(group);
            }
            (S::Inode | S::InodeCluster, group, inode) => {
                self.inodes = true;
                self.groups.extend(group);
                self.damaged_inodes.extend(inode);
            }
            (S::Log | S::LogRecord | S::LogItem, _, _) => self.log = true,
            (S::Symlink | S::SymlinkLocal, _, Some(inode)) => {
                self.symlinks.insert(inode);
            }
            (S::ExtentMap, _, Some(inode)) => {
                self.extent_maps.insert(inode);
            }
            (structure, _, Some(inode)) if is_of_directory(structure) => {
                self.directories.insert(inode);
                self.names = true;
            }
            (
                S::AttributeShortform
                | S::AttributeLeaf
                | S::AttributeNode
                | S::AttributeAnyIndex
                | S::AttributeRemoteValue
                | S::ParentPointer
                | S::AccessControlList,
                _,
                Some(inode),
            ) => {
                self.attributes.insert(inode);
            }
            _ => self.others += 1,
        }
    }
}

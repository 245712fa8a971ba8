//! Changes of a repair, for programs: which object, by which witness, and by which rule.

use uxfs_format::{
    geometry::Geometry,
    units::{AgNumber, InodeNumber},
};

use super::{Action, InodeSource, PointerCause, RecordSource, Rejection, room::Room};
use crate::{
    finding::fields::{Object, Value},
    repair::weighing::Rule,
};

/// What kind of object is changed. Programs may rely on [`name`](Self::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum ObjectKind {
    Superblock,
    Log,
    Block,
    Group,
    InodeChunk,
    Inode,
    ExtentMap,
    Attributes,
    Directory,
    Name,
    ParentPointer,
    QuotaRecord,
}

impl ObjectKind {
    /// As a word for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::Log => "log",
            Self::Block => "block",
            Self::Group => "allocation_group",
            Self::InodeChunk => "inode_chunk",
            Self::Inode => "inode",
            Self::ExtentMap => "extent_map",
            Self::Attributes => "attributes",
            Self::Directory => "directory",
            Self::Name => "name",
            Self::ParentPointer => "parent_pointer",
            Self::QuotaRecord => "quota_record",
        }
    }
}

/// What says that the change is right. Programs may rely on [`name`](Self::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum Witness {
    SuperblockCopies,
    Superblock,
    Log,
    LogAndReverseMap,
    Checksum,
    GroupHeaders,
    InodesAndExtents,
    Inode,
    Mode,
    ReverseMap,
    ReferenceCounts,
    Extents,
    Block,
    Entry,
    ParentPointers,
    EntriesAndParentPointers,
    /// None is left, or none is asked.
    None,
}

impl Witness {
    /// As a word for programs; `None` where there is none.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::SuperblockCopies => "superblock_copies",
            Self::Superblock => "superblock",
            Self::Log => "log",
            Self::LogAndReverseMap => "log_and_reverse_map",
            Self::Checksum => "checksum",
            Self::GroupHeaders => "group_headers",
            Self::InodesAndExtents => "inodes_and_extents",
            Self::Inode => "inode",
            Self::Mode => "mode",
            Self::ReverseMap => "reverse_map",
            Self::ReferenceCounts => "reference_counts",
            Self::Extents => "extents",
            Self::Block => "block",
            Self::Entry => "entry",
            Self::ParentPointers => "parent_pointers",
            Self::EntriesAndParentPointers => "entries_and_parent_pointers",
            Self::None => return None,
        })
    }
}

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// The kind of change, as a word for programs.
    pub what: &'static str,
    /// The kind of object.
    pub object: ObjectKind,
    /// What says that it is right.
    pub witness: Witness,
    /// What decided.
    pub rule: Rule,
}

const fn of(what: &'static str, object: ObjectKind, witness: Witness, rule: Rule) -> Description {
    Description { what, object, witness, rule }
}

/// Of a change that the function for its room forgets: a test fails then.
const UNKNOWN: Description = of("unknown", ObjectKind::Inode, Witness::None, Rule::InodeFields);

impl Action {
    /// Kind, object, witness and rule.
    pub fn description(&self) -> Description {
        match self.room() {
            Room::FileSystem => self.description_of_file_system(),
            Room::Block => self.description_of_block(),
            Room::Inode => self.description_of_inode(),
            Room::InodeField => self.description_of_inode_field(),
            Room::Fork => self.description_of_fork(),
            Room::Name => self.description_of_name(),
            Room::Quota => self.description_of_quota(),
        }
    }

    fn description_of_file_system(&self) -> Description {
        use {ObjectKind as O, Rule as R, Witness as W};
        match self {
            Self::PrimarySuperblock => {
                of("superblock_from_copy", O::Superblock, W::SuperblockCopies, R::Superblock)
            }
            Self::SuperblockFromLog => of("superblock_from_log", O::Superblock, W::Log, R::Superblock),
            Self::SuperblockInferred { .. } => {
                of("superblock_inferred", O::Superblock, W::GroupHeaders, R::Superblock)
            }
            Self::SuperblockFields => {
                of("superblock_fields_cleared", O::Superblock, W::None, R::SuperblockFields)
            }
            Self::SuperblockAttributes => {
                of("superblock_attribute_bit", O::Superblock, W::Inode, R::SuperblockFields)
            }
            Self::SuperblockByCopies => {
                of("superblock_by_copies", O::Superblock, W::SuperblockCopies, R::Superblock)
            }
            Self::SuperblockLog { .. } => {
                of("superblock_log", O::Superblock, W::ReverseMap, R::SuperblockWitnesses)
            }
            Self::SuperblockRoot { .. } => {
                of("superblock_root", O::Superblock, W::Inode, R::SuperblockWitnesses)
            }
            Self::SuperblockCopy { .. } => of("superblock_copy", O::Superblock, W::Superblock, R::Superblock),
            Self::Counters => of("counters", O::Superblock, W::GroupHeaders, R::SuperblockCounters),
            Self::LogReplayed { .. } => of("log_replayed", O::Log, W::Log, R::DirtyLog),
            Self::LogReplayedInPart { .. } => of("log_replayed_in_part", O::Log, W::Log, R::DirtyLog),
            Self::LsnCleared { .. } => of("lsn_cleared", O::Block, W::None, R::LogSequenceNumber),
            Self::NewLog { .. } => of("new_log", O::Log, W::None, R::NewLog),
            Self::Group { .. } => of("group_rebuilt", O::Group, W::InodesAndExtents, R::Group),
            Self::InodeChunk { .. } => of("inode_chunk", O::InodeChunk, W::ParentPointers, R::InodeChunk),
            _ => UNKNOWN,
        }
    }

    fn description_of_block(&self) -> Description {
        use {ObjectKind as O, Rule as R, Witness as W};
        match self {
            Self::BitFlippedBack { .. } => of("bit_flipped_back", O::Block, W::Checksum, R::ChangedBit),
            Self::ProvedByChecksum { .. } => of("proved_by_checksum", O::Block, W::Checksum, R::ChangedBit),
            Self::BlockFromLog { .. } => of("block_from_log", O::Block, W::Log, R::FileBlock),
            Self::BlockMoved { .. } => of("block_moved", O::Block, W::Block, R::FileBlock),
            Self::OlderKept { .. } => of("older_kept", O::Block, W::None, R::LostWrite),
            Self::BlockField { .. } => of("block_field", O::Block, W::Inode, R::FileBlock),
            Self::BlockChecksum { .. } => of("block_checksum", O::Block, W::Inode, R::FileBlock),
            _ => UNKNOWN,
        }
    }

    fn description_of_inode(&self) -> Description {
        use {ObjectKind as O, Rule as R, Witness as W};
        match self {
            Self::InodePerhapsOlder { .. } => of("inode_perhaps_older", O::Inode, W::None, R::LostWrite),
            Self::InodeChecksum { .. } => of("inode_checksum", O::Inode, W::Inode, R::InodeChecksum),
            Self::InodeRebuilt { source, .. } => {
                let witness = match source {
                    InodeSource::Log | InodeSource::DamagedLog => W::Log,
                    InodeSource::LogAndReverseMap | InodeSource::LogWithoutAttributes => W::LogAndReverseMap,
                    InodeSource::Elsewhere(_) | InodeSource::Displaced(_) | InodeSource::Remains => W::Inode,
                    InodeSource::Inferred(_) => W::Entry,
                };
                of("inode_rebuilt", O::Inode, witness, R::LostInode)
            }
            Self::InodeLost { .. } => of("inode_lost", O::Inode, W::None, R::LostInode),
            Self::FreeInode { .. } => of("free_inode", O::Inode, W::None, R::FreeInode),
            Self::FilePartial { .. } => of("file_partial", O::Inode, W::None, R::IncompleteFile),
            Self::SymlinkLost { .. } => of("symlink_lost", O::Inode, W::None, R::SymlinkTarget),
            Self::RealtimeInode { .. } => of("internal_inode", O::Inode, W::Superblock, R::InternalInode),
            Self::UnlinkedFreed { .. } => of("unlinked_freed", O::Inode, W::Inode, R::UnlinkedFile),
            _ => UNKNOWN,
        }
    }

    fn description_of_inode_field(&self) -> Description {
        use {ObjectKind as O, Rule as R, Witness as W};
        match self {
            Self::InodeMended { .. } => of("inode_mended", O::Inode, W::None, R::InodeFields),
            Self::MetadataFlags { .. } => of("metadata_flags", O::Inode, W::Entry, R::InodeFields),
            Self::InodeUnproved { .. } => of("inode_unproved", O::Inode, W::None, R::WrongChecksum),
            Self::InodeFlags { .. } => of("inode_flags", O::Inode, W::None, R::InodeFields),
            Self::InodeTimes { .. } => of("inode_times", O::Inode, W::None, R::InodeFields),
            Self::BigTimes { .. } => of("inode_big_times", O::Inode, W::Inode, R::InodeFields),
            Self::InodeLsn { .. } => of("inode_lsn", O::Inode, W::Log, R::InodeFields),
            Self::InodeShares { .. } => of("inode_shares", O::Inode, W::ReferenceCounts, R::InodeFields),
            Self::DirectorySize { .. } => of("directory_size", O::Inode, W::Extents, R::InodeFields),
            Self::SymlinkSize { .. } => of("symlink_size", O::Inode, W::Block, R::InodeFields),
            Self::SizeOfSpecialFile { .. } => of("special_file_size", O::Inode, W::Mode, R::InodeFields),
            Self::InodeBlocks { .. } => of("inode_blocks", O::Inode, W::Extents, R::InodeBlocks),
            Self::LinkCount { .. } => of("link_count", O::Inode, W::EntriesAndParentPointers, R::LinkCount),
            _ => UNKNOWN,
        }
    }

    fn description_of_fork(&self) -> Description {
        use {ObjectKind as O, Rule as R, Witness as W};
        match self {
            Self::ExtentMap { .. } => of("extent_map_rebuilt", O::ExtentMap, W::ReverseMap, R::ExtentMap),
            Self::ExtentMapOverruled { .. } => {
                of("extent_map_overruled", O::ExtentMap, W::ReverseMap, R::ContradictedMap)
            }
            Self::ExtentMapKept { .. } => of("extent_map_kept", O::ExtentMap, W::Extents, R::ContradictedMap),
            Self::BlocksGivenUp { .. } => of("blocks_given_up", O::ExtentMap, W::ReverseMap, R::BlocksOfTwo),
            Self::SymlinkBlocks { .. } => of("symlink_blocks", O::ExtentMap, W::Inode, R::InodeFields),
            Self::ExtentsWritten { .. } => of("extents_written", O::ExtentMap, W::Mode, R::InodeFields),
            Self::ExtentsUnwritten { .. } => {
                of("extents_unwritten", O::ExtentMap, W::ReverseMap, R::ContradictedMap)
            }
            Self::Attributes { .. } => of("attributes_rebuilt", O::Attributes, W::Inode, R::Attributes),
            Self::AccessList { .. } => of("access_list", O::Attributes, W::Mode, R::AccessList),
            _ => UNKNOWN,
        }
    }

    fn description_of_name(&self) -> Description {
        use {ObjectKind as O, Rule as R, Witness as W};
        match self {
            Self::Directory { .. } => {
                of("directory_rebuilt", O::Directory, W::EntriesAndParentPointers, R::LostDirectory)
            }
            Self::NameRemoved { because, .. } => {
                of("name_removed", O::Name, W::EntriesAndParentPointers, rule_of(because.as_ref()))
            }
            Self::NameAdded { .. } => of("name_added", O::Name, W::ParentPointers, R::PointerAlone),
            Self::NameFromBlock { .. } => of("name_from_block", O::Name, W::Entry, R::DirectoryBlock),
            Self::LostAndFound { .. } => of("lost_and_found", O::Name, W::None, R::NoName),
            Self::ParentPointerSet { cause, .. } => {
                let rule = match cause {
                    PointerCause::MadeAnew => R::Attributes,
                    PointerCause::OtherGeneration => R::PointerGeneration,
                    PointerCause::EntryAlone | PointerCause::Unmarked => R::EntryAlone,
                };
                of("parent_pointer_set", O::ParentPointer, W::Entry, rule)
            }
            Self::ParentPointerRemoved { because, .. } => {
                let rule = because.as_ref().map_or(R::PointerGeneration, |because| rule_of(Some(because)));
                of("parent_pointer_removed", O::ParentPointer, W::EntriesAndParentPointers, rule)
            }
            _ => UNKNOWN,
        }
    }

    fn description_of_quota(&self) -> Description {
        use {ObjectKind as O, Rule as R, Witness as W};
        match self {
            Self::QuotaRecord { source, .. } => {
                let witness = match source {
                    RecordSource::Checksum => W::Checksum,
                    RecordSource::Remains | RecordSource::Nothing => W::None,
                };
                of("quota_record", O::QuotaRecord, witness, R::QuotaRecord)
            }
            Self::QuotaCounts { .. } => {
                of("quota_counts", O::Superblock, W::InodesAndExtents, R::QuotaCounts)
            }
            Self::QuotaInodeSize { .. } => of("quota_inode_size", O::Inode, W::Superblock, R::InodeFields),
            Self::QuotaInode { .. } => of("quota_inode_forgotten", O::Superblock, W::Inode, R::QuotaInode),
            _ => UNKNOWN,
        }
    }

    /// Where its object lies, as for a [`Finding`](crate::Finding). Of a name or a parent pointer, `inode` is the directory.
    pub fn object(&self, geometry: &Geometry) -> Object {
        let mut object = Object::default();
        for (name, value) in self.fields() {
            let Value::Number(number) = value else { continue };
            match name {
                "group" => object.group = u32::try_from(number).ok().map(AgNumber::new),
                "directory" => object.inode = Some(InodeNumber::new(number)),
                "inode" if object.inode.is_some() => object.other_inode = Some(InodeNumber::new(number)),
                "inode" => object.inode = Some(InodeNumber::new(number)),
                _ => {}
            }
        }
        let of_inode = object.inode.and_then(|inode| geometry.split_inode_number(inode));
        let is_primary = self.description().object == ObjectKind::Superblock;
        let first = is_primary.then(|| AgNumber::new(0));
        object.group = object.group.or(of_inode.map(|(group, _)| group)).or(first);
        object
    }
}

fn rule_of(because: Option<&Rejection>) -> Rule {
    match because {
        Some(Rejection::OtherInode { .. }) => Rule::NameOfTwo,
        Some(Rejection::OtherName { is_directory: true, .. }) => Rule::NamesOfDirectory,
        Some(Rejection::OtherName { .. }) => Rule::HalvesOfName,
        Some(Rejection::Circle | Rejection::OfItself) => Rule::Circle,
        Some(Rejection::Incomplete) => Rule::IncompleteFile,
        Some(_) | None => Rule::NameOfNothing,
    }
}

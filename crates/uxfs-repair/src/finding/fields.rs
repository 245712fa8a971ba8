//! Findings as names and values, for programs.

use uxfs_format::{
    btree::{
        inode_index::InodeChunk,
        reverse_map::{Mapping, Owner},
    },
    geometry::Geometry,
    inode::{FileType, Fork},
    units::{AgBlock, AgInode, AgNumber, InodeNumber},
};

use uxfs_volume::metadata::{ContradictedInode, MetadataOwner};

use super::{Finding, MissingQuotaRecord, MissingRealtimeFile, Name, WrongQuotaCount};

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A word of a fixed set, or a sentence.
    Text(String),
    /// A name from the image: any bytes.
    Name(Name),
    /// Yes or no.
    Flag(bool),
    /// It is not there.
    None,
}

/// Fields in the order in which they are shown.
pub type Fields = Vec<(&'static str, Value)>;

/// Where the object of a finding lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Object {
    /// The allocation group that it lies in.
    pub group: Option<AgNumber>,
    /// The inode that it is or belongs to.
    pub inode: Option<InodeNumber>,
    /// Another inode that it is about: of an entry, the one that it names.
    pub other_inode: Option<InodeNumber>,
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&Name> for Value {
    fn from(name: &Name) -> Self {
        Self::Name(name.clone())
    }
}

impl From<InodeNumber> for Value {
    fn from(inode: InodeNumber) -> Self {
        Self::Number(inode.get())
    }
}

impl From<AgNumber> for Value {
    fn from(group: AgNumber) -> Self {
        Self::Number(group.get().into())
    }
}

impl From<AgBlock> for Value {
    fn from(block: AgBlock) -> Self {
        Self::Number(block.get().into())
    }
}

impl From<AgInode> for Value {
    fn from(inode: AgInode) -> Self {
        Self::Number(inode.get().into())
    }
}

impl From<FileType> for Value {
    fn from(file_type: FileType) -> Self {
        let word = match file_type {
            FileType::Regular => "regular",
            FileType::Directory => "directory",
            FileType::CharacterDevice => "character_device",
            FileType::BlockDevice => "block_device",
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
            FileType::SymbolicLink => "symlink",
        };
        word.into()
    }
}

impl From<Fork> for Value {
    fn from(fork: Fork) -> Self {
        match fork {
            Fork::Data => "data".into(),
            Fork::Attribute => "attribute".into(),
        }
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

macro_rules! fields {
    ($($name:literal: $value:expr),* $(,)?) => { vec![$(($name, Value::from($value))),*] };
}

fn extent(group: AgNumber, start: AgBlock, length_blocks: u32) -> Fields {
    fields!("group": group, "start_block": start, "length_blocks": length_blocks)
}

fn extent_and(group: AgNumber, start: AgBlock, length_blocks: u32, more: Fields) -> Fields {
    let mut fields = extent(group, start, length_blocks);
    fields.extend(more);
    fields
}

fn mapping(group: AgNumber, mapping: &Mapping) -> Fields {
    let more = fields!(
        "owner": mapping.owner.to_string(),
        "fork": if mapping.is_attribute_fork { Fork::Attribute } else { Fork::Data },
        "file_block": mapping.file_block.get(),
        "is_extent_map_block": mapping.is_extent_map_block,
        "is_unwritten": mapping.is_unwritten,
    );
    extent_and(group, mapping.start, mapping.length_blocks, more)
}

fn chunk(group: AgNumber, chunk: &InodeChunk, only_in: &str) -> Fields {
    fields!("group": group, "first_inode": chunk.start, "free_inodes": u64::from(chunk.free_count),
            "free_mask": chunk.free, "only_in": only_in)
}

impl Finding {
    /// All that the finding says, by name: what was found, what was expected, where.
    pub fn fields(&self) -> Fields {
        match self {
            Self::Damaged { corruption } => {
                let location = &corruption.location;
                fields!(
                    "structure": corruption.structure.name(),
                    "sector": location.sector.map(|sector| sector.get()),
                    "group": location.group,
                    "group_block": location.group_block,
                    "inode": location.inode,
                    "file_block": location.file_block.map(|block| block.get()),
                    "offset_bytes": location.offset_bytes,
                    "fault": corruption.fault.to_string(),
                )
            }
            Self::Unreadable { error } => fields!("error": error.to_string()),
            Self::NotChecked { error } | Self::LogNotReplayed { error } => {
                fields!("error": error.to_string())
            }
            Self::Opening { finding } => fields!("error": finding.to_string()),
            Self::NotCompared { error } => fields!("error": error.to_string()),
            Self::NotKept { count } => fields!("count": *count),
            Self::UnreadInodes { group, first, count } => {
                fields!("group": *group, "first_inode": *first, "count": *count)
            }
            Self::UncheckedGroups { count } => fields!("count": *count),
            Self::SuperblockCopy { group } | Self::SpaceSum { group } => fields!("group": *group),
            Self::SuperblockFields { group, fields } => fields!("group": *group, "fields": *fields),
            Self::SuperblockCount { counter, found, expected } => {
                fields!("counter": counter.name(), "found": *found, "expected": *expected)
            }
            Self::GroupCount { group, counter, found, expected } => {
                fields!("group": *group, "counter": counter.name(), "found": *found, "expected": *expected)
            }
            Self::BtreeFill { structure, group, inode, block, found, least } => fields!(
                "structure": structure.name(), "group": *group, "inode": *inode, "block": *block,
                "found": *found, "least": *least
            ),
            Self::BtreeKey { structure, group, inode, block } => {
                fields!("structure": structure.name(), "group": *group, "inode": *inode, "block": *block)
            }
            Self::FreeExtent { group, extent, only_in } => {
                extent_and(*group, extent.start, extent.length_blocks, fields!("only_in": only_in.name()))
            }
            Self::InodeChunk { group, chunk: found, only_in } => chunk(*group, found, only_in.name()),
            Self::InodeChunkMissing { group, first } => fields!("group": *group, "first_inode": *first),
            _ => self.fields_of_space(),
        }
    }

    /// Unlinked lists and blocks.
    fn fields_of_space(&self) -> Fields {
        match self {
            Self::Unlinked { group, bucket, inode }
            | Self::UnlinkedTwice { group, bucket, inode }
            | Self::UnlinkedFree { group, bucket, inode } => {
                fields!("group": *group, "bucket": *bucket, "inode": *inode)
            }
            Self::UnlinkedWithLinks { group, bucket, inode, links } => {
                fields!("group": *group, "bucket": *bucket, "inode": *inode, "links": *links)
            }
            Self::FreeBlocksInUse { group, start, length_blocks, owner } => {
                extent_and(*group, *start, *length_blocks, fields!("owner": owner.to_string()))
            }
            Self::BlocksUsedTwice { group, start, length_blocks, first, second } => {
                let more = fields!("first_owner": first.to_string(), "second_owner": second.to_string());
                extent_and(*group, *start, *length_blocks, more)
            }
            Self::BlocksUnused { group, start, length_blocks }
            | Self::CowStaging { group, start, length_blocks } => extent(*group, *start, *length_blocks),
            Self::ReferenceCount { group, start, length_blocks, found, expected } => {
                extent_and(*group, *start, *length_blocks, fields!("found": *found, "expected": *expected))
            }
            Self::MappingWithoutOwner { group, mapping: found }
            | Self::MappingMissing { group, mapping: found } => mapping(*group, found),
            _ => self.fields_of_inodes(),
        }
    }

    /// Inodes, attributes, links.
    fn fields_of_inodes(&self) -> Fields {
        match self {
            Self::FreeInodeInUse { inode }
            | Self::NotUnlinked { inode }
            | Self::InternalInodeMissing { inode }
            | Self::MetadataRoot { inode }
            | Self::NoName { inode }
            | Self::Cycle { inode } => fields!("inode": *inode),
            Self::FreeInode { inode, fault } => fields!("inode": *inode, "fault": fault.to_string()),
            Self::InodeFlags { inode, flags, flags2 } => {
                fields!("inode": *inode, "flags": *flags, "flags2": *flags2)
            }
            Self::InodeTime { inode, time, nanoseconds } => {
                fields!("inode": *inode, "time": time.name(), "nanoseconds": *nanoseconds)
            }
            Self::UnwrittenExtent { inode, file_block } => {
                fields!("inode": *inode, "file_block": file_block.get())
            }
            Self::NextUnlinked { inode, next } => fields!("inode": *inode, "next": *next),
            Self::InodeBlocks { inode, found, expected } => {
                fields!("inode": *inode, "found": *found, "expected": *expected)
            }
            Self::SymlinkBlocks { inode, found, expected } => {
                fields!("inode": *inode, "found": *found, "expected": *expected)
            }
            Self::LinkCount { inode, found, expected } => {
                fields!("inode": *inode, "found": *found, "expected": *expected)
            }
            Self::SizeOfSpecialFile { inode, size_bytes } => {
                fields!("inode": *inode, "size_bytes": *size_bytes)
            }
            Self::ExtentOverlap { inode, fork, file_block, start } => fields!(
                "inode": *inode, "fork": *fork, "file_block": file_block.get(), "start_block": start.get()
            ),
            Self::InodeAgainstLog(ContradictedInode { inode, facts }) => {
                fields!("inode": *inode, "facts": facts.join(", "))
            }
            Self::OlderThanLog { older } => {
                let mut fields = match older.owner {
                    MetadataOwner::Inode(inode) => fields!("inode": inode),
                    MetadataOwner::Group(group) => fields!("group": group),
                };
                fields.extend(fields!(
                    "structure": older.structure.name(), "sector": older.sector.get(),
                    "found": older.found.to_string(), "logged": older.logged.to_string()
                ));
                fields
            }
            Self::AttributeIncomplete { inode, name } => fields!("inode": *inode, "name": name),
            Self::ParentPointerMissing { inode, directory, name } => {
                fields!("inode": *inode, "directory": *directory, "name": name)
            }
            Self::ParentPointerWithoutEntry { inode, directory, generation, name } => fields!(
                "inode": *inode, "directory": *directory, "generation": *generation, "name": name
            ),
            Self::DirectoryNamedTwice { inode, directory, name } => {
                fields!("inode": *inode, "directory": *directory, "name": name)
            }
            _ => self.fields_of_directories(),
        }
    }

    fn fields_of_directories(&self) -> Fields {
        match self {
            Self::RealtimeFileMissing(MissingRealtimeFile { group, suffix }) => {
                fields!("realtime_group": *group, "file": *suffix)
            }
            Self::MetadataEntry { directory, name, inode }
            | Self::EntryOfFreeInode { directory, name, inode } => {
                fields!("directory": *directory, "name": name, "inode": *inode)
            }
            Self::EntryFileType { directory, name, inode, found, expected } => fields!(
                "directory": *directory, "name": name, "inode": *inode, "found": *found, "expected": *expected
            ),
            Self::Dot { directory, found } => fields!("directory": *directory, "found": *found),
            Self::DotDot { directory, found, expected } => {
                fields!("directory": *directory, "found": *found, "expected": *expected)
            }
            Self::NameTwice { directory, name } | Self::EntryNotIndexed { directory, name } => {
                fields!("directory": *directory, "name": name)
            }
            Self::IndexEntry { directory, hash, address } => {
                fields!("directory": *directory, "hash": *hash, "address": *address)
            }
            Self::FreeIndex { directory, data_block, found, expected } => fields!(
                "directory": *directory, "data_block": *data_block, "found": *found, "expected": *expected
            ),
            Self::NodeHash { inode, structure, block, found, expected } => fields!(
                "inode": *inode, "structure": structure.name(), "file_block": block.get(), "found": *found,
                "expected": *expected
            ),
            _ => self.fields_of_last(),
        }
    }

    fn fields_of_last(&self) -> Fields {
        match self {
            Self::SharedWithoutFlag { inode, file_block } => {
                fields!("inode": *inode, "file_block": file_block.get())
            }
            Self::InodeAheadOfLog { inode, found, head } => {
                fields!("inode": *inode, "found": found.to_string(), "head": head.to_string())
            }
            Self::DirectorySize { directory, found, expected } => {
                fields!("directory": *directory, "found": *found, "expected": *expected)
            }
            Self::AttributeTwice { inode, name } => fields!("inode": *inode, "name": name),
            Self::AttributeValueShared { inode, name, file_block } => {
                fields!("inode": *inode, "name": name, "file_block": file_block.get())
            }
            Self::QuotaCount(WrongQuotaCount { quota, id, counter, found, expected }) => fields!(
                "quota": quota.name(), "id": *id, "counter": counter.name(), "found": *found, "expected": *expected
            ),
            Self::QuotaRecordMissing(MissingQuotaRecord { quota, id, blocks, inodes, realtime_blocks }) => {
                fields!(
                    "quota": quota.name(), "id": *id, "blocks": *blocks, "inodes": *inodes,
                    "realtime_blocks": *realtime_blocks
                )
            }
            Self::QuotaInode { inode, quota, size_bytes } => {
                fields!("inode": *inode, "quota": quota.name(), "size_bytes": *size_bytes)
            }
            // Every other variant is in one of the functions above.
            _ => Fields::new(),
        }
    }

    /// Where its object lies. An inode, and a block of one, is in the allocation group of the inode unless the finding names a group.
    pub fn object(&self, geometry: &Geometry) -> Object {
        let mut object = self.named_object();
        let of_sector = match self {
            Self::Damaged { corruption } => corruption.location.sector,
            _ => None,
        };
        let of_inode = object.inode.and_then(|inode| geometry.split_inode_number(inode));
        let of_sector = of_sector.and_then(|sector| geometry.block_of_sector(sector));
        object.group =
            object.group.or(of_inode.map(|(group, _)| group)).or(of_sector.map(|(group, _, _)| group));
        object
    }

    /// What the fields say.
    fn named_object(&self) -> Object {
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
        let [first, second] = self.owners().map(inode_of);
        (object.inode, object.other_inode) =
            (object.inode.or(first).or(second), object.other_inode.or(first.and(second)));
        object
    }

    /// The owners of the blocks that it is about.
    fn owners(&self) -> [Option<Owner>; 2] {
        match self {
            Self::FreeBlocksInUse { owner, .. } => [Some(*owner), None],
            Self::BlocksUsedTwice { first, second, .. } => [Some(*first), Some(*second)],
            Self::MappingWithoutOwner { mapping, .. } | Self::MappingMissing { mapping, .. } => {
                [Some(mapping.owner), None]
            }
            _ => [None, None],
        }
    }
}

fn inode_of(owner: Option<Owner>) -> Option<InodeNumber> {
    match owner {
        Some(Owner::Inode(inode)) => Some(inode),
        _ => None,
    }
}

//! Findings as sentences.

use std::fmt;

use uxfs_format::{
    fault::Structure,
    inode::FileType,
    units::{AgBlock, AgNumber, InodeNumber},
};

use uxfs_volume::metadata::{ContradictedInode, MetadataOwner, OlderMetadata};

use super::{Finding, MissingQuotaRecord, MissingRealtimeFile, WrongQuotaCount};

fn quoted(name: &[u8]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| write!(f, "\"{}\"", name.escape_ascii()))
}

fn blocks(group: AgNumber, start: AgBlock, length_blocks: u32) -> impl fmt::Display {
    fmt::from_fn(move |f| match length_blocks {
        1 => write!(f, "block {start} of allocation group {group}"),
        _ => write!(f, "blocks {start} to {} of allocation group {group}", last(start, length_blocks)),
    })
}

fn last(start: AgBlock, length_blocks: u32) -> u32 {
    start.get().saturating_add(length_blocks.saturating_sub(1))
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "a regular file",
        FileType::Directory => "a directory",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::SymbolicLink => "a symbolic link",
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { corruption } => write!(f, "{corruption}"),
            Self::Unreadable { error } => write!(f, "{error}"),
            Self::NotChecked { error } => write!(f, "not checked: {error}"),
            Self::LogUnwritten => f.write_str("the log has no record, not even the first one"),
            Self::LogNotReplayed { error } => write!(f, "the log is dirty and was not replayed: {error}"),
            _ => self.write_space(f),
        }
    }
}

fn write_btree(
    f: &mut fmt::Formatter<'_>,
    structure: Structure,
    group: Option<AgNumber>,
    inode: Option<InodeNumber>,
) -> fmt::Result {
    write!(f, "{}", structure.name())?;
    if let Some(group) = group {
        write!(f, " of allocation group {group}")?;
    }
    if let Some(inode) = inode {
        write!(f, " of inode {inode}")?;
    }
    Ok(())
}

impl Finding {
    /// Superblocks, allocation groups, blocks.
    fn write_space(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnreadInodes { group, first, count } => {
                write!(
                    f,
                    "{count} inodes from inode {first} of allocation group {group} on could not be read"
                )
            }
            Self::Opening { finding } => write!(f, "{finding}"),
            Self::NotCompared { error } => write!(f, "not everything could be compared: {error}"),
            Self::NotKept { count } => write!(f, "{count} more faults were passed over"),
            Self::UncheckedGroups { count } => {
                write!(f, "{count} allocation groups were not checked, since too many others are damaged")
            }
            Self::SuperblockCopy { group } => {
                write!(f, "the superblock of allocation group {group} describes another geometry")
            }
            Self::SuperblockCount { counter, found, expected } => {
                write!(f, "the superblock counts {found} {}, and there are {expected}", counter.name())
            }
            Self::InternalInodeMissing { inode } => {
                write!(f, "the superblock names inode {inode}, which is not in use")
            }
            Self::MetadataRoot { inode } => write!(
                f,
                "the superblock names inode {inode} as the root of the metadata directory tree; it is no directory of that tree, and Linux does not mount"
            ),
            Self::GroupCount { group, counter, found, expected } => {
                let name = counter.name();
                write!(
                    f,
                    "a header of allocation group {group} counts {found} {name}, and there are {expected}"
                )
            }
            Self::BtreeFill { structure, group, inode, block, found, least } => {
                write_btree(f, *structure, *group, *inode)?;
                write!(f, ": block {block} has {found} records, and must have {least}")
            }
            Self::BtreeKey { structure, group, inode, block } => {
                write_btree(f, *structure, *group, *inode)?;
                write!(f, ": the key that leads to block {block} is not that of its contents")
            }
            Self::FreeExtent { group, extent, only_in } => {
                let place = blocks(*group, extent.start, extent.length_blocks);
                write!(f, "{place} are a free extent in the {} only", only_in.name())
            }
            Self::InodeChunk { group, chunk, only_in } => write!(
                f,
                "the inode chunk at inode {} of allocation group {group} has {} free inodes (mask {:#x}) in the {} only",
                chunk.start,
                chunk.free_count,
                chunk.free,
                only_in.name()
            ),
            Self::InodeChunkMissing { group, first } => write!(
                f,
                "the inode btree of allocation group {group} lacks the inode chunk at inode {first}, and has another one of the same block"
            ),
            Self::FreeInodeInUse { inode } => {
                write!(f, "inode {inode} is in use, and the inode btree says that it is free")
            }
            _ => self.write_unlinked(f),
        }
    }

    /// Lists of unlinked inodes.
    fn write_unlinked(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlinked { group, bucket, inode } => {
                write!(f, "unlinked list {bucket} of allocation group {group} holds inode {inode}")
            }
            Self::UnlinkedTwice { group, bucket, inode } => write!(
                f,
                "unlinked list {bucket} of allocation group {group} leads to inode {inode}, which a list has led to before"
            ),
            Self::UnlinkedWithLinks { group, bucket, inode, links } => write!(
                f,
                "unlinked list {bucket} of allocation group {group} holds inode {inode}, which has a link count of {links}"
            ),
            Self::UnlinkedFree { group, bucket, inode } => write!(
                f,
                "unlinked list {bucket} of allocation group {group} leads to inode {inode}, which is not in use"
            ),
            Self::NotUnlinked { inode } => {
                write!(f, "inode {inode} is in use with a link count of 0, and is in no unlinked list")
            }
            _ => self.write_block_use(f),
        }
    }

    fn write_block_use(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FreeBlocksInUse { group, start, length_blocks, owner } => {
                write!(f, "free and in use by {owner}: {}", blocks(*group, *start, *length_blocks))
            }
            Self::BlocksUsedTwice { group, start, length_blocks, first, second } => {
                let place = blocks(*group, *start, *length_blocks);
                write!(f, "used by {first} and by {second}: {place}")
            }
            Self::BlocksUnused { group, start, length_blocks } => {
                write!(f, "neither free nor in use: {}", blocks(*group, *start, *length_blocks))
            }
            Self::ReferenceCount { group, start, length_blocks, found, expected } => {
                let place = blocks(*group, *start, *length_blocks);
                write!(f, "reference count {found} where {expected} files share the blocks: {place}")
            }
            Self::CowStaging { group, start, length_blocks } => {
                let place = blocks(*group, *start, *length_blocks);
                write!(f, "set aside for a copy on write that will not be finished: {place}")
            }
            Self::SpaceSum { group } => write!(
                f,
                "the free and used blocks of allocation group {group} do not add up; it has too many extents to compare each"
            ),
            Self::MappingWithoutOwner { group, mapping } => {
                let place = blocks(*group, mapping.start, mapping.length_blocks);
                write!(
                    f,
                    "the reverse mapping btree names {} as owner, which does not have them: {place}",
                    mapping.owner
                )
            }
            Self::MappingMissing { group, mapping } => {
                let place = blocks(*group, mapping.start, mapping.length_blocks);
                write!(f, "the reverse mapping btree does not name {} as owner: {place}", mapping.owner)
            }
            _ => self.write_files(f),
        }
    }

    /// Inodes and names.
    fn write_files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InodeBlocks { inode, found, expected } => {
                write!(f, "inode {inode} counts {found} blocks, and has {expected}")
            }
            Self::SizeOfSpecialFile { inode, size_bytes } => {
                write!(
                    f,
                    "inode {inode} is a special file, or of no realtime section, and has a size of {size_bytes} bytes"
                )
            }
            Self::ExtentOverlap { inode, file_block, start, .. } => {
                write!(
                    f,
                    "inode {inode}: the extent at file block {file_block} (block {start}) overlaps the one before"
                )
            }
            Self::OlderThanLog { older } => write_older(f, older),
            Self::AttributeIncomplete { inode, name } => {
                write!(f, "inode {inode}: attribute {} is only half set", quoted(name))
            }
            Self::ParentPointerMissing { inode, directory, name } => {
                write!(f, "inode {inode} has no parent pointer for {} in directory {directory}", quoted(name))
            }
            Self::ParentPointerWithoutEntry { inode, directory, generation, name } => write!(
                f,
                "inode {inode} has a parent pointer for {} in directory {directory} (generation {generation}), which has no such entry",
                quoted(name)
            ),
            Self::LinkCount { inode, found, expected } => {
                write!(f, "inode {inode} has a link count of {found}, and {expected} links")
            }
            Self::DirectoryNamedTwice { inode, directory, name } => {
                write!(f, "directory {inode} has a second name, {} in directory {directory}", quoted(name))
            }
            Self::NoName { inode } => write!(f, "inode {inode} is in use and has no name"),
            Self::Cycle { inode } => write!(f, "directory {inode} lies below itself"),
            Self::NextUnlinked { inode, next } => write!(
                f,
                "inode {inode} is in no unlinked list, and names inode {next} of its group as the next one of a list"
            ),
            Self::SuperblockFields { group, fields } => {
                write!(f, "the superblock of allocation group {group} has wrong values: {fields}")
            }
            Self::FreeInode { inode, fault } => write!(f, "free inode {inode} cannot be used: {fault}"),
            Self::InodeFlags { inode, flags, flags2 } => {
                write!(
                    f,
                    "inode {inode} has flags that it may not have: {flags:#x}, and in the second word {flags2:#x}"
                )
            }
            Self::InodeTime { inode, time, nanoseconds } => {
                write!(f, "the {} time of inode {inode} has {nanoseconds} nanoseconds", time.name())
            }
            Self::SymlinkBlocks { inode, found, expected } => {
                write!(f, "symbolic link {inode} has {found} blocks, and its target takes {expected}")
            }
            Self::UnwrittenExtent { inode, file_block } => write!(
                f,
                "inode {inode}: the extent at file block {file_block} is marked as never written; it is no contents of a regular file, or it is shared"
            ),
            _ => self.write_fields_of_inodes(f),
        }
    }

    fn write_fields_of_inodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InodeAgainstLog(ContradictedInode { inode, facts }) => {
                write!(
                    f,
                    "inode {inode}: other values than in its last change in the log: {}",
                    facts.join(", ")
                )
            }
            Self::SharedWithoutFlag { inode, file_block } => write!(
                f,
                "inode {inode} shares the extent at file block {file_block} with others, and lacks the flag that says so"
            ),
            Self::InodeAheadOfLog { inode, found, head } => {
                write!(f, "inode {inode}: log sequence number {found} lies ahead of the log at {head}")
            }
            Self::AttributeTwice { inode, name } => {
                write!(f, "inode {inode} has the attribute {} twice", quoted(name))
            }
            Self::AttributeValueShared { inode, name, file_block } => write!(
                f,
                "inode {inode}: the value of attribute {} at file block {file_block} of the fork has blocks of another value",
                quoted(name)
            ),
            _ => self.write_directory(f),
        }
    }

    fn write_directory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RealtimeFileMissing(MissingRealtimeFile { group, suffix }) => write!(
                f,
                "realtime group {group} has no sound file \"{group}.{suffix}\" in the metadata directory tree, and Linux does not mount"
            ),
            Self::MetadataEntry { directory, name, inode } => write!(
                f,
                "directory {directory}: {} names inode {inode}; one of them belongs to the metadata directory tree, the other does not",
                quoted(name)
            ),
            Self::EntryOfFreeInode { directory, name, inode } => {
                write!(f, "directory {directory}: {} names inode {inode}, which is not in use", quoted(name))
            }
            Self::EntryFileType { directory, name, inode, found, expected } => {
                let found = found.map_or("of no type", type_name);
                let (name, expected) = (quoted(name), type_name(*expected));
                write!(
                    f,
                    "directory {directory}: {name} says that inode {inode} is {found}, and it is {expected}"
                )
            }
            Self::Dot { directory, found: Some(found) } => {
                write!(f, "directory {directory}: \".\" names inode {found}")
            }
            Self::Dot { directory, found: None } => write!(f, "directory {directory} has no \".\""),
            Self::DotDot { directory, found: None, .. } => write!(f, "directory {directory} has no \"..\""),
            Self::DotDot { directory, found: Some(found), expected: Some(expected) } => {
                write!(
                    f,
                    "directory {directory}: \"..\" names inode {found}, and its name is in directory {expected}"
                )
            }
            Self::DotDot { directory, found: Some(found), expected: None } => {
                write!(f, "directory {directory}: \"..\" names inode {found}, which is no directory in use")
            }
            Self::NameTwice { directory, name } => {
                write!(f, "directory {directory} has the name {} twice", quoted(name))
            }
            Self::EntryNotIndexed { directory, name } => {
                write!(f, "directory {directory}: the index does not lead to {}", quoted(name))
            }
            Self::IndexEntry { directory, hash, address } => write!(
                f,
                "directory {directory}: the index entry for hash {hash:#x} at {address:#x} leads to no name with this hash"
            ),
            Self::FreeIndex { directory, data_block, found, expected } => {
                write!(f, "directory {directory}: the free index says that data block {data_block} ")?;
                write_room(f, *found)?;
                f.write_str(", and it ")?;
                write_room(f, *expected)
            }
            Self::NodeHash { inode, structure, block, found, expected } => write!(
                f,
                "{} of inode {inode}: the node above file block {block} has hash {found:#x}, the block ends with {expected:#x}",
                structure.name()
            ),
            Self::DirectorySize { directory, found, expected } => {
                write!(
                    f,
                    "directory {directory} has a size of {found} bytes, and its data ends at {expected}"
                )
            }
            _ => self.write_quota(f),
        }
    }

    fn write_quota(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QuotaCount(WrongQuotaCount { quota, id, counter, found, expected }) => write!(
                f,
                "the quota record of {} {id} counts {found} {}, and its inodes have {expected}",
                quota.name(),
                counter.name()
            ),
            Self::QuotaRecordMissing(MissingQuotaRecord { quota, id, blocks, inodes, .. }) => write!(
                f,
                "{} {id} has no quota record, and {inodes} inodes with {blocks} blocks",
                quota.name()
            ),
            Self::QuotaInode { inode, quota, size_bytes: Some(size_bytes) } => write!(
                f,
                "inode {inode}, which holds the {} quotas, has a size of {size_bytes} bytes, not 0",
                quota.name()
            ),
            Self::QuotaInode { inode, quota, size_bytes: None } => {
                write!(f, "inode {inode}, which should hold the {} quotas, is no regular file", quota.name())
            }
            _ => write!(f, "finding {}", self.number()),
        }
    }
}

fn write_room(f: &mut fmt::Formatter<'_>, room: Option<u16>) -> fmt::Result {
    match room {
        Some(bytes) => write!(f, "has {bytes} bytes free in one piece"),
        None => f.write_str("does not exist"),
    }
}

fn write_older(f: &mut fmt::Formatter<'_>, older: &OlderMetadata) -> fmt::Result {
    f.write_str(older.structure.name())?;
    match older.owner {
        MetadataOwner::Inode(inode) if older.structure == Structure::Inode => write!(f, " {inode}")?,
        MetadataOwner::Inode(inode) => write!(f, " of inode {inode}")?,
        MetadataOwner::Group(group) => write!(f, " of allocation group {group}")?,
    }
    let OlderMetadata { found, logged, .. } = older;
    if found == logged {
        return write!(f, " holds something else than its last change in the log, {logged}");
    }
    write!(f, " is older than the log says: its last change is {found}, and that in the log {logged}")?;
    match older.owner {
        MetadataOwner::Inode(_) => Ok(()),
        MetadataOwner::Group(_) => f.write_str("; contents of files in the group may be older as well"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_space_above_39_have_a_sentence() {
        let (group, inode) = (Some(AgNumber::new(2)), None);
        let short = Finding::BtreeFill {
            structure: Structure::FreeSpaceByBlock,
            group,
            inode,
            block: 7,
            found: 1,
            least: 9,
        };
        assert!(
            short.to_string().ends_with("of allocation group 2: block 7 has 1 records, and must have 9"),
            "{short}"
        );
        let fields = "a field";
        let wrong = Finding::SuperblockFields { group: AgNumber::new(0), fields };
        assert_eq!(wrong.to_string(), "the superblock of allocation group 0 has wrong values: a field");
    }
}

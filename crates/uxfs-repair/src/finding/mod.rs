//! Findings of a check: one variant for each contradiction, with the object, the value found and the value expected.
//! Callers make text from it: [`Display`](std::fmt::Display) gives one sentence in plain English.

use uxfs_block::{device::DeviceError, spill::SpillError};
use uxfs_format::{
    btree::{
        free_space::FreeExtent,
        inode_index::InodeChunk,
        reverse_map::{Mapping, Owner},
    },
    fault::{Corruption, Structure},
    inode::{FileType, Fork, InodeFault},
    quota::QuotaKind,
    units::{AgBlock, AgInode, AgNumber, FileBlock, FsBlock, InodeNumber, Lsn},
};
use uxfs_volume::{
    error::Error,
    metadata::{ContradictedInode, OlderMetadata},
    tolerant,
};

mod counted;
pub mod fields;
mod kind;
pub mod place;
pub mod severity;
mod text;

pub use counted::{
    GroupCounter, InodeTime, MissingQuotaRecord, MissingRealtimeFile, QuotaCounter, SuperblockCounter,
    WrongQuotaCount,
};

/// A name of a directory entry, an attribute or a parent pointer, at most 255 bytes in whatever encoding.
pub type Name = Box<[u8]>;

/// One thing that is wrong with a file system.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// A structure fails its verifier, or is not what the pointer to it says.
    Damaged {
        /// Which structure, where, and what is wrong with it.
        corruption: Box<Corruption>,
    },
    /// The device failed.
    Unreadable {
        /// The request.
        error: DeviceError,
    },
    /// An object could not be looked at for a reason that is not damage: it is not supported, or it does not exist.
    NotChecked {
        /// Why.
        error: Error,
    },
    /// Opening the volume tolerantly passed over something.
    Opening {
        /// What.
        finding: tolerant::Finding,
    },
    /// A tolerant volume passed over more than it keeps.
    NotKept {
        /// How many more times.
        count: u64,
    },
    /// What does not fit into memory could not be compared: a temporary file failed.
    NotCompared {
        /// Why.
        error: SpillError,
    },
    /// The log is dirty and was not replayed: what follows may be what the log would mend.
    LogNotReplayed {
        /// Why.
        error: Error,
    },
    /// The log is all zeros. Each program that makes an XFS file system writes a first record.
    LogUnwritten,
    /// Some inodes could not be read.
    UnreadInodes {
        /// Their allocation group.
        group: AgNumber,
        /// The first of them in the group.
        first: AgInode,
        /// How many are in use.
        count: u64,
    },
    /// So many allocation groups are damaged that the rest was not looked at.
    UncheckedGroups {
        /// How many.
        count: u32,
    },
    /// A copy of the superblock describes another geometry than the superblock in use.
    SuperblockCopy {
        /// The allocation group that it belongs to.
        group: AgNumber,
    },
    /// A header of an allocation group miscounts.
    GroupCount {
        /// The allocation group.
        group: AgNumber,
        /// The counter.
        counter: GroupCounter,
        /// In the header.
        found: u64,
        /// The value computed.
        expected: u64,
    },
    /// A key of a btree node is not that of the child it leads to.
    BtreeKey {
        /// Which btree.
        structure: Structure,
        /// The allocation group, or that of the block.
        group: Option<AgNumber>,
        /// The inode that the btree belongs to.
        inode: Option<InodeNumber>,
        /// The child.
        block: u64,
    },
    /// A block of a btree that is not the root has fewer records than it must.
    BtreeFill {
        /// Which btree.
        structure: Structure,
        /// The allocation group that the btree belongs to.
        group: Option<AgNumber>,
        /// The inode that it belongs to.
        inode: Option<InodeNumber>,
        /// The block.
        block: u64,
        /// Its records, or keys.
        found: u64,
        /// The fewest that it may have.
        least: u32,
    },
    /// One free space btree has an extent that the other has not.
    FreeExtent {
        /// The allocation group.
        group: AgNumber,
        /// The extent.
        extent: FreeExtent,
        /// The btree that has it.
        only_in: Structure,
    },
    /// The inode btree and the free inode btree contradict each other.
    InodeChunk {
        /// The allocation group.
        group: AgNumber,
        /// The chunk, as the btree that has it says.
        chunk: InodeChunk,
        /// The btree that has it in this form.
        only_in: Structure,
    },
    /// The inode btree has some, not all of the inode chunks that one block holds.
    InodeChunkMissing {
        /// The allocation group.
        group: AgNumber,
        /// First inode of the chunk that it lacks.
        first: AgInode,
    },
    /// The inode btree says that an inode is free, and the inode itself that it is in use.
    FreeInodeInUse {
        /// The inode.
        inode: InodeNumber,
    },
    /// A list of unlinked inodes has an entry: the inode waits for its blocks to be freed.
    Unlinked {
        /// The allocation group.
        group: AgNumber,
        /// Which of the 64 lists.
        bucket: u32,
        /// Its first inode.
        inode: InodeNumber,
    },
    /// A list of unlinked inodes leads to an inode that another list, or the same one, has led to before.
    UnlinkedTwice {
        /// The allocation group.
        group: AgNumber,
        /// Which of the 64 lists.
        bucket: u32,
        /// The inode.
        inode: InodeNumber,
    },
    /// An inode in a list of unlinked inodes has links.
    UnlinkedWithLinks {
        /// The allocation group.
        group: AgNumber,
        /// Which of the 64 lists.
        bucket: u32,
        /// The inode.
        inode: InodeNumber,
        /// Its link count.
        links: u32,
    },
    /// A list of unlinked inodes leads to an inode that is not in use.
    UnlinkedFree {
        /// The allocation group.
        group: AgNumber,
        /// Which of the 64 lists.
        bucket: u32,
        /// The inode.
        inode: InodeNumber,
    },
    /// An inode in use has a link count of 0, and is in no list of unlinked inodes.
    NotUnlinked {
        /// The inode.
        inode: InodeNumber,
    },
    /// An inode in use names a next inode of a list of unlinked inodes, and is in no such list.
    NextUnlinked {
        /// The inode.
        inode: InodeNumber,
        /// The next inode, by its number in the group.
        next: AgInode,
    },
    /// Blocks are free, and something uses them.
    FreeBlocksInUse {
        /// The allocation group.
        group: AgNumber,
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
        /// Their owner.
        owner: Owner,
    },
    /// Two objects use the same blocks, and one of them is not a file or the file system cannot share blocks.
    BlocksUsedTwice {
        /// The allocation group.
        group: AgNumber,
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
        /// One.
        first: Owner,
        /// The other.
        second: Owner,
    },
    /// Blocks are neither free nor used.
    BlocksUnused {
        /// The allocation group.
        group: AgNumber,
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
    },
    /// The reference count of blocks is not the number of files that have them.
    ReferenceCount {
        /// The allocation group.
        group: AgNumber,
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
        /// In the btree; 1 for blocks that it does not hold.
        found: u32,
        /// Files that have them.
        expected: u32,
    },
    /// Blocks are set aside for a copy on write that will not be finished.
    CowStaging {
        /// The allocation group.
        group: AgNumber,
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
    },
    /// The space of an allocation group does not add up, and a temporary file to say where failed.
    SpaceSum {
        /// The allocation group.
        group: AgNumber,
    },
    /// The reverse mapping btree names an owner that does not have the blocks in this way.
    MappingWithoutOwner {
        /// The allocation group.
        group: AgNumber,
        /// The record.
        mapping: Mapping,
    },
    /// The reverse mapping btree lacks blocks of an owner.
    MappingMissing {
        /// The allocation group.
        group: AgNumber,
        /// The record that there should be, or a part of it.
        mapping: Mapping,
    },
    /// An inode miscounts its blocks.
    InodeBlocks {
        /// The inode.
        inode: InodeNumber,
        /// In the inode.
        found: u64,
        /// In its extents and their btrees.
        expected: u64,
    },
    /// A file that has no contents has a size.
    SizeOfSpecialFile {
        /// The inode.
        inode: InodeNumber,
        /// In the inode.
        size_bytes: u64,
    },
    /// An extent of a fork overlaps the one before it.
    ExtentOverlap {
        /// The inode.
        inode: InodeNumber,
        /// Which fork.
        fork: Fork,
        /// First block of the extent in the fork.
        file_block: FileBlock,
        /// Where it lies.
        start: FsBlock,
    },
    /// An inode that must exist does not.
    InternalInodeMissing {
        /// Its number in the superblock.
        inode: InodeNumber,
    },
    /// The inode that the superblock names as the root of the metadata directory tree is no directory of that tree.
    MetadataRoot {
        /// Its number in the superblock.
        inode: InodeNumber,
    },
    /// A realtime group lacks a file in the metadata directory tree, or has another one at its path.
    RealtimeFileMissing(MissingRealtimeFile),
    /// A directory entry leads from the metadata directory tree to a file of users, or from a directory of users into that tree.
    MetadataEntry {
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
        /// The inode.
        inode: InodeNumber,
    },
    /// A directory entry names an inode that is not in use.
    EntryOfFreeInode {
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
        /// The inode.
        inode: InodeNumber,
    },
    /// A directory entry says another file type than the inode.
    EntryFileType {
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
        /// The inode.
        inode: InodeNumber,
        /// In the entry.
        found: Option<FileType>,
        /// In the inode.
        expected: FileType,
    },
    /// `.` is not the directory itself, or is missing.
    Dot {
        /// The directory.
        directory: InodeNumber,
        /// The inode that `.` names.
        found: Option<InodeNumber>,
    },
    /// `..` is missing, or is not the directory that has the entry.
    DotDot {
        /// The directory.
        directory: InodeNumber,
        /// The inode that `..` names.
        found: Option<InodeNumber>,
        /// The directory with the entry, where it is known.
        expected: Option<InodeNumber>,
    },
    /// A name is in a directory twice.
    NameTwice {
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
    },
    /// An entry that a lookup does not find: the index of the directory lacks it.
    EntryNotIndexed {
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
    },
    /// The index of a directory has an entry whose name has another hash or is not there.
    IndexEntry {
        /// The directory.
        directory: InodeNumber,
        /// The hash in the index.
        hash: u32,
        /// Where the name should lie, in units of 8 bytes.
        address: u32,
    },
    /// The free index of a directory is wrong about a data block.
    FreeIndex {
        /// The directory.
        directory: InodeNumber,
        /// The data block.
        data_block: u32,
        /// Longest free region in the index; `None` where it has no such block.
        found: Option<u16>,
        /// Longest free region in the block; `None` where there is no such block.
        expected: Option<u16>,
    },
    /// A node of a directory's or attribute btree does not say the last hash of its child.
    NodeHash {
        /// The inode.
        inode: InodeNumber,
        /// Which btree.
        structure: Structure,
        /// The child.
        block: FileBlock,
        /// In the node.
        found: u32,
        /// In the child.
        expected: u32,
    },
    /// An inode says something else than its last change in the log, and has the number of that change.
    InodeAgainstLog(ContradictedInode),
    /// An inode, a block of a file, a header or a btree block of a group is older than its last change in the log: a write was lost.
    OlderThanLog {
        /// What, its owner, where, and both log sequence numbers.
        older: OlderMetadata,
    },
    /// An attribute that was being set or removed.
    AttributeIncomplete {
        /// The inode.
        inode: InodeNumber,
        /// Its name.
        name: Name,
    },
    /// A directory entry has no parent pointer.
    ParentPointerMissing {
        /// The inode that should have it.
        inode: InodeNumber,
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
    },
    /// A parent pointer that has no directory entry.
    ParentPointerWithoutEntry {
        /// The inode that has it.
        inode: InodeNumber,
        /// The directory that it names.
        directory: InodeNumber,
        /// The generation of that directory in the parent pointer.
        generation: u32,
        /// The name.
        name: Name,
    },
    /// An inode has another number of names than its link count says.
    LinkCount {
        /// The inode.
        inode: InodeNumber,
        /// In the inode.
        found: u32,
        /// Names; for a directory 2 and its subdirectories.
        expected: u32,
    },
    /// A directory has two entries.
    DirectoryNamedTwice {
        /// The directory.
        inode: InodeNumber,
        /// The directory that has the second entry.
        directory: InodeNumber,
        /// The second name.
        name: Name,
    },
    /// No directory entry leads to an inode in use.
    NoName {
        /// The inode.
        inode: InodeNumber,
    },
    /// A directory has a name but lies below itself, so that the root does not lead to it.
    Cycle {
        /// The directory.
        inode: InodeNumber,
    },
    /// A free inode fails its verifier: it cannot be allocated.
    FreeInode {
        /// The inode.
        inode: InodeNumber,
        /// What is wrong with it.
        fault: InodeFault,
    },
    /// An inode has flags that mean nothing, or that do not fit what it is.
    InodeFlags {
        /// The inode.
        inode: InodeNumber,
        /// Those of its first word.
        flags: u16,
        /// Those of its second word.
        flags2: u64,
    },
    /// A time of an inode has a second of nanoseconds or more.
    InodeTime {
        /// The inode.
        inode: InodeNumber,
        /// Which time.
        time: InodeTime,
        /// Its nanoseconds.
        nanoseconds: u32,
    },
    /// An inode that is no regular file has blocks that were never written, or a file shares such blocks.
    UnwrittenExtent {
        /// The inode.
        inode: InodeNumber,
        /// First block of the extent in the data fork.
        file_block: FileBlock,
    },
    /// A symbolic link has more or fewer blocks than its target takes.
    SymlinkBlocks {
        /// The inode.
        inode: InodeNumber,
        /// In its extents.
        found: u64,
        /// For a target of its size.
        expected: u64,
    },
    /// A file without the flag for shared blocks has blocks that others have as well.
    SharedWithoutFlag {
        /// The inode.
        inode: InodeNumber,
        /// First block of the extent in the data fork.
        file_block: FileBlock,
    },
    /// An inode is from behind the end of the log: a recovery would pass over what the log has of it.
    InodeAheadOfLog {
        /// The inode.
        inode: InodeNumber,
        /// In the inode.
        found: Lsn,
        /// The end of the log.
        head: Lsn,
    },
    /// The size of a directory is not the end of its last data block.
    DirectorySize {
        /// The directory.
        directory: InodeNumber,
        /// In the inode.
        found: u64,
        /// By its extents.
        expected: u64,
    },
    /// Two attributes of an inode have one name.
    AttributeTwice {
        /// The inode.
        inode: InodeNumber,
        /// The name.
        name: Name,
    },
    /// Two attributes of an inode have their values in the same blocks.
    AttributeValueShared {
        /// The inode.
        inode: InodeNumber,
        /// The name of one of them.
        name: Name,
        /// The first block of its value in the attribute fork.
        file_block: FileBlock,
    },
    /// A superblock has values that it may not have, in fields that nothing reads without their feature.
    SuperblockFields {
        /// The allocation group that it belongs to.
        group: AgNumber,
        /// Which fields.
        fields: &'static str,
    },
    /// A counter of the superblock is wrong.
    SuperblockCount {
        /// Which one.
        counter: SuperblockCounter,
        /// In the superblock.
        found: u64,
        /// In all allocation groups.
        expected: u64,
    },
    /// The superblock says that the counts of quotas are complete, and one is not what the inodes of its owner use.
    QuotaCount(WrongQuotaCount),
    /// The superblock says that the counts of quotas are complete, and an owner of inodes has no record.
    QuotaRecordMissing(MissingQuotaRecord),
    /// An inode that should hold quota records is no regular file, or has a size: records lie behind the end of the file.
    QuotaInode {
        /// The inode.
        inode: InodeNumber,
        /// Which quota.
        quota: QuotaKind,
        /// Its size, where it is a regular file.
        size_bytes: Option<u64>,
    },
}

//! What a repair does.
//!
//! | module | holds |
//! |---|---|
//! | here | one variant for each kind of change |
//! | [`room`] | what a change is about: the list of all kinds, by which the others are divided |
//! | [`text`] | the sentences |
//! | [`description`] | for programs: object, witness, rule |
//! | [`fields`] | for programs: all that the sentence says, by name |
//! | [`kind_words`] | what a kind of change is called where changes are counted |
//! | [`map_witness`] | what decides between an extent map and the reverse map |
//! | [`changed_field`] | a field of an inode that gets another value |
//! | [`inode_source`] | from what an inode was made again |
//! | [`certainty`] | how sure a change is, and what else may be true |

use uxfs_format::{
    fault::Structure,
    inode::{Fork, InodeFault},
    quota::QuotaKind,
    units::{AgBlock, AgInode, AgNumber, FsBlock, InodeNumber, Sector},
};

pub use crate::names::rejection::{Rejection, Strength};
use crate::{finding::Name, geometry::Witnesses};

pub mod certainty;
pub mod changed_field;
pub mod description;
mod fields;
pub mod inode_source;
mod kind_words;
pub mod map_witness;
mod room;
mod text;

pub use super::loss::FileLoss;
pub use certainty::Certainty;
pub use changed_field::ChangedField;
pub use description::{Description, ObjectKind, Witness};
pub use inode_source::{Inference, InodeSource, TypeSource};
pub use map_witness::MapWitness;

/// Why a parent pointer is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointerCause {
    /// The inode or its attribute fork was rebuilt.
    MadeAnew,
    /// It had another generation of the directory.
    OtherGeneration,
    /// Only the entry says the name.
    EntryAlone,
    /// An attribute of the same name and value was there, without the mark of a parent pointer: it is gone.
    Unmarked,
}

impl Action {
    /// The place of a block of a file that was put right.
    pub(crate) fn mended_block(&self) -> Option<Sector> {
        match self {
            Self::BlockMoved { sector, .. }
            | Self::BlockField { sector, .. }
            | Self::BlockChecksum { sector, .. }
            | Self::BlockFromLog { sector, .. } => Some(*sector),
            _ => None,
        }
    }

    /// The inode that loses flags which it may not have.
    pub(crate) fn inode_of_flags(&self) -> Option<InodeNumber> {
        match self {
            Self::InodeFlags { inode, .. } => Some(*inode),
            _ => None,
        }
    }
}

/// From what a quota record was made right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordSource {
    /// Its checksum proves that only these bits were wrong.
    Checksum,
    /// Its limits are as it has them; its checksum does not tell whether they are right.
    Remains,
    /// There was none: it has no limits.
    Nothing,
}

impl RecordSource {
    /// As a word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Checksum => "checksum",
            Self::Remains => "remains",
            Self::Nothing => "nothing",
        }
    }
}

/// One change of a repair. The compiler asks for the room and the certainty of a new variant, a test for the rest: see [`room`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The superblock of group 0 is written from another group's.
    PrimarySuperblock,
    /// No group has a superblock: that of group 0 is written as the log has it.
    SuperblockFromLog,
    /// Neither a group nor the log has a superblock: it is inferred from other structures. The label is lost.
    SuperblockInferred {
        /// From which ones.
        witnesses: Witnesses,
    },
    /// Fields of the superblock of group 0 get neutral values.
    SuperblockFields,
    /// The attribute bit of the superblock of group 0 is set.
    SuperblockAttributes,
    /// The superblock of group 0 is written as all copies say.
    SuperblockByCopies,
    /// The superblock of group 0 gets the place of the log that the reverse map knows.
    SuperblockLog {
        /// The first block.
        start: FsBlock,
        /// Blocks.
        length_blocks: u32,
    },
    /// The superblock of group 0 gets another root directory: the one it named is none.
    SuperblockRoot {
        /// The root directory.
        inode: InodeNumber,
        /// It is that of the metadata directory tree.
        is_metadata: bool,
    },
    /// An inode gets the flags and the type of the metadata directory tree, or loses them.
    MetadataFlags {
        /// The inode.
        inode: InodeNumber,
        /// It belongs to the tree.
        is_metadata: bool,
    },
    /// A copy of the superblock is written from that of group 0.
    SuperblockCopy {
        /// The copy's group.
        group: AgNumber,
    },
    /// The counters of the superblock are recomputed.
    Counters,
    /// The log is replayed.
    LogReplayed {
        /// Transactions.
        transactions: u64,
    },
    /// The log is replayed, but for what its intents would still have done.
    LogReplayedInPart {
        /// Transactions.
        transactions: u64,
        /// Intents.
        intents: u64,
    },
    /// A log sequence number that no log has reached is cleared.
    LsnCleared {
        /// The structure.
        structure: Structure,
        /// Where it lies.
        sector: Sector,
    },
    /// One bit of a structure was wrong, as its checksum tells.
    BitFlippedBack {
        /// The structure.
        structure: Structure,
        /// Its owner.
        inode: Option<InodeNumber>,
        /// Where it lies; `None` for inodes.
        sector: Option<Sector>,
        /// From the first byte's most significant bit on.
        bit: usize,
    },
    /// The checksum of a structure is right once a few wrong bits are corrected.
    ProvedByChecksum {
        /// The structure.
        structure: Structure,
        /// Its owner.
        inode: Option<InodeNumber>,
        /// Where it lies; `None` for inodes.
        sector: Option<Sector>,
        /// Fields whose values are known: magic number, uuid, owner, own number or place.
        fields: usize,
        /// Other bits, from the first byte's most significant bit on.
        bits: Vec<usize>,
        /// In a large structure other damage may look like two changed bits.
        is_guess: bool,
    },
    /// A new log is written.
    NewLog {
        /// Its cycle.
        cycle: u32,
        /// The old one could not be read or replayed.
        is_unread: bool,
    },
    /// Headers, free list and btrees of a group are rebuilt from its inodes and their extents.
    Group {
        /// Which group.
        group: AgNumber,
        /// Inode chunks that no inode btree named.
        chunks_without_index: u32,
    },
    /// An inode that is sound but for its checksum gets the right one.
    InodeChecksum {
        /// The inode.
        inode: InodeNumber,
    },
    /// Fields of an inode that was kept with a wrong checksum get the values that sound structures say, or neutral ones.
    InodeUnproved {
        /// The inode.
        inode: InodeNumber,
        /// Which fields.
        fields: Vec<ChangedField>,
    },
    /// An inode that was gone is made again.
    InodeRebuilt {
        /// The inode.
        inode: InodeNumber,
        /// From what.
        source: InodeSource,
        /// What its place held.
        fault: Option<InodeFault>,
    },
    /// Something of a regular file is missing, and reads as zeros. It lies in `lost+found`.
    FilePartial {
        /// The inode.
        inode: InodeNumber,
    },
    /// A block is put back as the log has it.
    BlockFromLog {
        /// What it is.
        structure: Structure,
        /// Its owner.
        inode: InodeNumber,
        /// Where it lies.
        sector: Sector,
    },
    /// A block that was written to the place of another one is put where it belongs.
    BlockMoved {
        /// What it is.
        structure: Structure,
        /// Its owner.
        inode: InodeNumber,
        /// Where it belongs.
        sector: Sector,
        /// Where it lies.
        from: Sector,
    },
    /// An inode or block is older than the log says, and the log no longer has what changed: it is kept as it is.
    OlderKept {
        /// What it is.
        structure: Structure,
        /// Whose it is, or which.
        inode: InodeNumber,
        /// Where it lies.
        sector: Sector,
    },
    /// Inodes beside this one missed a write, and the log does not have all changes since: it may have missed the same write.
    InodePerhapsOlder {
        /// The inode.
        inode: InodeNumber,
    },
    /// A field of a block whose checksum is right gets the value that others tell.
    BlockField {
        /// What it is.
        structure: Structure,
        /// Its owner.
        inode: InodeNumber,
        /// Where it lies.
        sector: Sector,
        /// Attributes of it that could not be kept.
        removed: u32,
        /// Attributes of it whose value may be up to three zero bytes longer, or that of another.
        guessed: u32,
    },
    /// The times of an inode are marked as the numbers of 64 bits that they are.
    BigTimes {
        /// The inode.
        inode: InodeNumber,
    },
    /// A target, a value or a leaf of attributes whose checksum alone is wrong is kept.
    BlockChecksum {
        /// What it is.
        structure: Structure,
        /// Its owner.
        inode: InodeNumber,
        /// Where it lies.
        sector: Sector,
    },
    /// An inode is lost: its place becomes a free inode.
    InodeLost {
        /// The inode.
        inode: InodeNumber,
        /// What its place holds.
        fault: InodeFault,
    },
    /// An inode that fails its verifier gets neutral values.
    InodeMended {
        /// The inode.
        inode: InodeNumber,
        /// What was wrong first.
        fault: InodeFault,
    },
    /// A free inode is rebuilt.
    FreeInode {
        /// The inode.
        inode: InodeNumber,
    },
    /// Flags of an inode are cleared, which it may not have.
    InodeFlags {
        /// The inode.
        inode: InodeNumber,
        /// Of the first word.
        flags: u16,
        /// Of the second word.
        flags2: u64,
    },
    /// Nanoseconds of times of an inode are cleared, which made a second or more.
    InodeTimes {
        /// The inode.
        inode: InodeNumber,
    },
    /// The log sequence number of an inode is cleared, which the log has not reached.
    InodeLsn {
        /// The inode.
        inode: InodeNumber,
    },
    /// A file that shares blocks with others is marked as one that does.
    InodeShares {
        /// The inode.
        inode: InodeNumber,
    },
    /// The size of a directory is set to the end of its data.
    DirectorySize {
        /// The directory.
        inode: InodeNumber,
        /// Before.
        found: u64,
        /// Now.
        expected: u64,
    },
    /// The size of a symbolic link is set to the length of its target.
    SymlinkSize {
        /// The symbolic link.
        inode: InodeNumber,
        /// Before.
        found: u64,
        /// Now.
        expected: u64,
        /// The target lies in the inode: nothing but the zeros behind it tells where it ends.
        is_guessed: bool,
    },
    /// The size of a special file is cleared.
    SizeOfSpecialFile {
        /// The inode.
        inode: InodeNumber,
        /// The size that it had.
        found: u64,
    },
    /// Blocks behind the target of a symbolic link are taken from it.
    SymlinkBlocks {
        /// The inode.
        inode: InodeNumber,
    },
    /// Extents of a directory or a symbolic link are marked as written.
    ExtentsWritten {
        /// The inode.
        inode: InodeNumber,
    },
    /// Extents of zeros are marked as never written, as the reverse map has them.
    ExtentsUnwritten {
        /// The inode.
        inode: InodeNumber,
    },
    /// A symbolic link is given up, because its target cannot be read.
    SymlinkLost {
        /// The inode.
        inode: InodeNumber,
    },
    /// A chunk of free inodes is made where inodes were that others name.
    InodeChunk {
        /// The allocation group.
        group: AgNumber,
        /// The first inode.
        first: AgInode,
    },
    /// The realtime bitmap or summary inode is made again, empty.
    RealtimeInode {
        /// The inode.
        inode: InodeNumber,
    },
    /// An inode that is in use without links and names is freed.
    UnlinkedFreed {
        /// The inode.
        inode: InodeNumber,
    },
    /// The extent map of a fork is rebuilt from the reverse map.
    ExtentMap {
        /// The inode.
        inode: InodeNumber,
        /// Which fork.
        fork: Fork,
        /// Extents that it has now.
        extents: u64,
    },
    /// The reverse map contradicts the extent map of a fork, and a third witness agrees with the reverse map: the extent map follows it.
    ExtentMapOverruled {
        /// The inode.
        inode: InodeNumber,
        /// Which fork.
        fork: Fork,
        /// Extents that it has now.
        extents: u64,
        /// The third witness.
        by: MapWitness,
    },
    /// The reverse map or the free space contradicts the extent map of a fork, and no other witness says which is right: the extent map
    /// stays, and the others follow it.
    ExtentMapKept {
        /// The inode.
        inode: InodeNumber,
        /// Which fork.
        fork: Fork,
    },
    /// A fork gives up blocks that it may not share with what has them as well.
    BlocksGivenUp {
        /// The inode that gives them up.
        inode: InodeNumber,
        /// Which fork.
        fork: Fork,
        /// The allocation group of the blocks.
        group: AgNumber,
        /// The first of them.
        start: AgBlock,
        /// How many there are in all.
        blocks: u64,
        /// The inode that keeps the first of them; `None` for a structure of the group.
        kept_by: Option<InodeNumber>,
        /// The reverse map does not tell whose they are.
        is_chosen: bool,
    },
    /// The block count of an inode.
    InodeBlocks {
        /// The inode.
        inode: InodeNumber,
        /// Before.
        found: u64,
        /// Now.
        expected: u64,
    },
    /// The link count of an inode.
    LinkCount {
        /// The inode.
        inode: InodeNumber,
        /// Before.
        found: u32,
        /// Now.
        expected: u32,
    },
    /// A directory is rebuilt from its entries and from the parent pointers that name it.
    Directory {
        /// The directory.
        inode: InodeNumber,
        /// Names that it has now.
        names: u64,
        /// Of these, names that only parent pointers knew.
        from_parent_pointers: u64,
        /// Names that it had, of inodes that are gone or have another name.
        removed: u64,
        /// Entries of it could not be read: names that no parent pointer tells are lost.
        is_any_unread: bool,
    },
    /// The attribute fork of an inode is rebuilt.
    Attributes {
        /// The inode.
        inode: InodeNumber,
        /// Attributes that could be read, without parent pointers.
        attributes: u64,
        /// Others could not be read.
        is_any_lost: bool,
    },
    /// An access control list that Linux refuses keeps its sound entries, with those that the mode says.
    AccessList {
        /// The inode.
        inode: InodeNumber,
        /// Entries that are gone; `None` where the whole list is.
        removed: Option<u64>,
    },
    /// A name is removed.
    NameRemoved {
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
        /// The inode that it named.
        inode: InodeNumber,
        /// Why.
        because: Option<Rejection>,
    },
    /// A name that only a parent pointer says is added to a directory that is sound.
    NameAdded {
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
        /// The inode that it names.
        inode: InodeNumber,
    },
    /// A file or directory that nothing names gets a name in `lost+found`.
    LostAndFound {
        /// The inode.
        inode: InodeNumber,
        /// The name of the folder in the root directory: `lost+found`, or another where that is no directory.
        folder: Name,
        /// The name in it.
        name: Name,
    },
    /// A parent pointer is set.
    ParentPointerSet {
        /// The inode that gets it.
        inode: InodeNumber,
        /// The directory that it names.
        directory: InodeNumber,
        /// The name.
        name: Name,
        /// Why.
        cause: PointerCause,
    },
    /// A name comes from a directory block that no map leads to: the block may be old.
    NameFromBlock {
        /// The inode.
        inode: InodeNumber,
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
    },
    /// A parent pointer is removed.
    ParentPointerRemoved {
        /// The inode that had it.
        inode: InodeNumber,
        /// The directory that it named.
        directory: InodeNumber,
        /// The name.
        name: Name,
        /// Why; `None` where it is set again with the right generation.
        because: Option<Rejection>,
    },
    /// A damaged quota record is made right.
    QuotaRecord {
        /// The inode that holds it.
        inode: InodeNumber,
        /// Which quota.
        quota: QuotaKind,
        /// The user, group or project.
        id: u32,
        /// From what.
        source: RecordSource,
    },
    /// The superblock no longer says that the counts of quotas are complete: Linux makes them at the next mount with quotas.
    QuotaCounts {
        /// Which quota.
        quota: QuotaKind,
    },
    /// The size of a quota inode is cleared: its records lie behind the end of the file.
    QuotaInodeSize {
        /// The inode.
        inode: InodeNumber,
        /// The size that it had.
        found: u64,
    },
    /// The superblock no longer names a quota inode, which is no file.
    QuotaInode {
        /// The inode.
        inode: InodeNumber,
        /// Which quota.
        quota: QuotaKind,
    },
}

//! What decides where witnesses contradict each other, or where one of them is all there is: one table for all objects.
//!
//! Every [`Action`](super::action::Action) names its row. `docs/repair.md` shows the same table, and a test compares the two.

/// A row of [`TABLE`], by its permanent number: a number is never given to another rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
#[allow(missing_docs, reason = "the table says what each is about")]
#[non_exhaustive]
pub enum Rule {
    Superblock = 1,
    SuperblockFields = 2,
    SuperblockCounters = 3,
    SuperblockWitnesses = 4,
    DirtyLog = 10,
    NewLog = 11,
    LogSequenceNumber = 12,
    ChangedBit = 13,
    LostWrite = 14,
    WrongChecksum = 15,
    Group = 20,
    InodeChunk = 21,
    BlocksOfTwo = 22,
    LostInode = 30,
    InodeType = 31,
    InodeChecksum = 32,
    FreeInode = 33,
    InodeFields = 34,
    InternalInode = 35,
    ExtentMap = 40,
    IncompleteFile = 41,
    InodeBlocks = 42,
    FileBlock = 43,
    SymlinkTarget = 44,
    ContradictedMap = 45,
    Attributes = 50,
    AccessList = 51,
    LostDirectory = 60,
    NameOfTwo = 61,
    EntryAlone = 62,
    PointerAlone = 63,
    PointerGeneration = 64,
    HalvesOfName = 65,
    NamesOfDirectory = 66,
    Circle = 67,
    NameOfNothing = 68,
    NoName = 69,
    UnlinkedFile = 70,
    LinkCount = 71,
    DirectoryBlock = 72,
    QuotaRecord = 80,
    QuotaCounts = 81,
    QuotaInode = 82,
}

impl Rule {
    /// Its permanent number.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Its row.
    pub fn weighing(self) -> Option<&'static Weighing> {
        TABLE.iter().find(|row| row.rule == self)
    }
}

/// How one question is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weighing {
    /// Its number.
    pub rule: Rule,
    /// What is asked.
    pub question: &'static str,
    /// What is believed, in this order.
    pub order: &'static str,
    /// Why.
    pub reason: &'static str,
}

const fn row(rule: Rule, question: &'static str, order: &'static str, reason: &'static str) -> Weighing {
    Weighing { rule, question, order, reason }
}

/// All rules, by their numbers.
pub const TABLE: [Weighing; 43] = [
    row(
        Rule::Superblock,
        "which superblock describes the file system",
        "the first one where it is sound, unless all copies contradict it in one voice, Linux would mount with their word, and with it no more \
         is wrong beside the copies, or less where there is one copy and Linux would mount with the first one, too; then any sound copy; then \
         the newest one in the log; then one inferred from other structures, also where nothing lies where a sound one says",
        "only the first one is kept up to date, and one sector is damaged more easily than all",
    ),
    row(
        Rule::SuperblockFields,
        "fields of a superblock that contradict its features or each other; compatible features that no program knows",
        "neutral values",
        "the features decide how everything is read; a field without its feature has no meaning",
    ),
    row(
        Rule::SuperblockCounters,
        "counters of the superblock",
        "the headers of all groups",
        "they are a sum",
    ),
    row(
        Rule::SuperblockWitnesses,
        "where the log lies and which inodes are the root directory and that of the metadata directory tree, before anything else",
        "the superblock; the reverse map of the log, and directories that are their own parents, where fewer findings are left with their word",
        "a log at the wrong place would be written over what lies there, and all names hang on the roots",
    ),
    row(
        Rule::DirtyLog,
        "a dirty log",
        "the log; without what its intents would still do, where damage prevents that",
        "it is newer than what lies on the device",
    ),
    row(
        Rule::NewLog,
        "a log that cannot be read, or that metadata is ahead of",
        "a new log, in a later cycle",
        "Linux refuses metadata that is ahead of the log",
    ),
    row(
        Rule::LogSequenceNumber,
        "a log sequence number that no log can have reached",
        "none",
        "the field is damaged; a log ahead of it could not be used",
    ),
    row(
        Rule::ChangedBit,
        "a structure whose checksum is right, and that is sound, once what is known of it is put in (magic number, uuid, owner, own number or place), with nothing else, one or two bits, or the bits of one byte changed",
        "the checksum; two bits of a large structure that is sound without them only where the log has no copy",
        "each bit changes the checksum in a way of its own; all the rest is proved then",
    ),
    row(
        Rule::LostWrite,
        "an inode or a block of a file that is older than its last change in the log; all inodes of a group whose headers or btrees are; \
         what an inode alone tells, where it has the number of that change",
        "the log, over what lies on the device; where the log has overwritten a part, the device",
        "a write that the log says was done went elsewhere or nowhere, or was changed since",
    ),
    row(
        Rule::WrongChecksum,
        "what a structure with a wrong checksum says, where the row of changed bits does not prove it",
        "in every row, field by field: what a structure with a right checksum says; of an inode, its extents as the reverse map has them, the type that the entry says, the generation that parent pointers say, names as the other side says them, an owner that a sound inode has too; else permissions without set-id and sticky bits, a size within the blocks, no flags that forbid changes, the owner of the directory that names it",
        "in a structure that is known to be damaged a wrong field is likelier than in one that is not; what nothing confirms must not give access away",
    ),
    row(
        Rule::Group,
        "free space, owners, reference counts, inode index and headers of a group",
        "the inodes and their extents",
        "all of it follows from them",
    ),
    row(
        Rule::InodeChunk,
        "which inode chunks there are",
        "both inode btrees; the reverse map; where the header of the group is lost, the newest whole inode btree that a search finds: a chunk that it lacks was freed unless an inode there is newer than the leaf; inodes with their own number and the uuid in their place; inodes that the log has in use; the \
         root, and directories that parent pointers name; beside sound inodes of a chunk, also inodes that an entry names; all chunks of a block where one of them is known",
        "an inode tells where it belongs; the log, the roots and names say only that there was a chunk; Linux makes all chunks of a block at once, and never frees them",
    ),
    row(
        Rule::BlocksOfTwo,
        "blocks that two have and may not share",
        "structures of the group; then the fork that the reverse map names; where it names none or all of them, the one that the contents name; else the lowest inode of those whose checksum was right, and the others keep the rest of their maps",
        "the reverse map is a second record of the same fact",
    ),
    row(
        Rule::LostInode,
        "owner, permissions, times, flags and size of an inode that is gone",
        "the newest copy in the log, its extents only where the reverse map says the same; attributes in the inode that were not logged, from its place, where the rest of it is the same inode; the inode itself, where its mode alone is gone; \
         else the owner and times of the directory that names it, a mode private to the owner, and the size from the last byte that is not zero",
        "the log is the only second copy; what is made up must not give access away",
    ),
    row(
        Rule::InodeType,
        "the file type of an inode that is gone",
        "the log; the entry; parent pointers that name it: a directory; the magic number of its first block; a regular file, where it has blocks",
        "the entry repeats the type; blocks of directories and symbolic links have a magic number",
    ),
    row(
        Rule::InodeChecksum,
        "an inode that is sound but for its checksum",
        "the log, where its copy is not older; else the inode, each field as the row of wrong checksums says",
        "the verifier passes every field; which bits are wrong nothing tells",
    ),
    row(
        Rule::FreeInode,
        "a free inode that fails its verifier, or that the index has in use",
        "the log, where its copy is not older; the inode, where its mode alone is gone; else it is free",
        "a free inode holds nothing that is of use",
    ),
    row(
        Rule::InodeFields,
        "fields of an inode that cannot be",
        "the log, where it has the whole inode; else neutral values",
        "with a neutral value the inode keeps its contents, names and attributes",
    ),
    row(
        Rule::InternalInode,
        "an inode that the superblock names and that is not in use",
        "an empty one",
        "without a realtime section it holds nothing",
    ),
    row(
        Rule::ExtentMap,
        "a damaged extent map",
        "without a reverse map, if one length alone is wrong, the blocks that the inode counts; else the reverse map and the sound blocks of the map; where two extents overlap, the one that begins first in the file",
        "the reverse map says of each block which file block it is",
    ),
    row(
        Rule::IncompleteFile,
        "a regular file of which blocks are missing",
        "lost+found, with .partial behind its name",
        "at its path it would pass for whole",
    ),
    row(
        Rule::InodeBlocks,
        "the block count of an inode",
        "its extents; without a reverse map, the count, if the free space says which one extent is wrong",
        "it is a sum",
    ),
    row(
        Rule::FileBlock,
        "a damaged block of a directory, an attribute fork, an extent map or a symbolic link",
        "the log, where it has all bytes in use, or bytes that give the checksum on disk; a target, a value or a leaf of attributes whose checksum alone is wrong, as it is; else the object is rebuilt",
        "the checksum proves that the bytes are the old ones",
    ),
    row(
        Rule::SymlinkTarget,
        "a symbolic link whose target cannot be read",
        "the log; else it is given up",
        "nothing else repeats a target",
    ),
    row(
        Rule::ContradictedMap,
        "an extent map and a reverse map that contradict each other, both sound",
        "the reverse map, where the checksum of the inode was wrong; else the one that agrees with the log; else the reverse map, where the free space and the reference counts say the same and their blocks are newer than the inode; else the one that agrees with the block count of the inode; else with the free space; else with the blocks, \
         where their headers say whose they are; else with how many owners the free space and the reference counts give to the blocks; \
         else with the size of the file; else the extent map",
        "the third witness decides; a changed record in either looks the same",
    ),
    row(
        Rule::Attributes,
        "a damaged attribute fork",
        "the attributes that can be read, and parent pointers from entries",
        "nothing else repeats other attributes",
    ),
    row(
        Rule::AccessList,
        "an access control list that Linux refuses",
        "its sound entries; those of owner, group and others from the mode",
        "no one gets more than a sound entry or the mode says",
    ),
    row(
        Rule::LostDirectory,
        "a directory that is gone, and that parent pointers or an entry of the type directory name",
        "it is made again, under its number, with the generation that most parent pointers say; in the metadata directory tree with the flags of that tree, and where its name is lost with the one that goes with what it holds",
        "the files in it know its number and their names",
    ),
    row(
        Rule::NameOfTwo,
        "one name in one directory, several inodes",
        "entry and parent pointer together; then the inode that would have no name otherwise; then the parent pointer; then the lower number; without parent pointers, for an entry of another type than its inode, the one inode of its type that has no name",
        "two witnesses say more than one, and an entry alone says less than a parent pointer: a wrong inode number is one field",
    ),
    row(
        Rule::EntryAlone,
        "an entry without a parent pointer",
        "it stays, and the parent pointer is set",
        "what only one side says is kept where that is consistent",
    ),
    row(
        Rule::PointerAlone,
        "a parent pointer without an entry",
        "the entry is added",
        "what only one side says is kept where that is consistent",
    ),
    row(
        Rule::PointerGeneration,
        "a parent pointer with another generation of its directory",
        "it counts, after those with the right generation, and is set again",
        "the number of a directory is used again only after it was removed, which is rarer than a damaged field",
    ),
    row(
        Rule::HalvesOfName,
        "an entry alone and a parent pointer alone of a file that has fewer links than names, with the name or the directory in common",
        "one name: not that of the side that lies in an inode with a wrong checksum; else that of the entry, unless the index of its directory does not lead to it, or the pointer alone has a name in UTF-8 or a hash",
        "one field of one side is wrong, and the link count says so",
    ),
    row(
        Rule::NamesOfDirectory,
        "a directory with several names",
        "entry and parent pointer together; then the name in the directory of its ..; then a name in UTF-8; then a hash beside the name; then the parent pointer; the others go",
        "a directory has one name, and .. is a third witness",
    ),
    row(
        Rule::Circle,
        "directories that lie below themselves",
        "the weakest name of the circle goes, and its directory to lost+found",
        "every directory must lead to the root",
    ),
    row(
        Rule::NameOfNothing,
        "a name of an inode that is not in use, or a name that no file may have",
        "it goes",
        "no witness of the inode is left",
    ),
    row(
        Rule::NoName,
        "an inode that nothing names",
        "lost+found, under the best name that is known",
        "its contents are whole",
    ),
    row(
        Rule::UnlinkedFile,
        "a file without links that nothing names",
        "it is freed",
        "it was removed while it was open; a mount frees it as well",
    ),
    row(Rule::LinkCount, "a link count", "the names", "it is a sum"),
    row(
        Rule::DirectoryBlock,
        "an entry in a directory block that no map leads to",
        "it counts for an inode with fewer names than links, if its directory was made again, the types agree, the name is free, and the reverse map gives the block to no other inode; the block written last comes first",
        "blocks that were given back keep their contents, so that the name may be old",
    ),
    row(
        Rule::QuotaRecord,
        "a damaged quota record",
        "the checksum, with known values put in and one or two bits flipped back; else its own limits, where no more than one other field is wrong; else a record without limits",
        "nothing repeats a limit; Linux gives up every record that fails its verifier",
    ),
    row(
        Rule::QuotaCounts,
        "counts of quotas",
        "what the inodes use, as Linux counts it at the next mount with quotas",
        "it is a sum, and Linux makes it where the superblock does not say that it is complete",
    ),
    row(
        Rule::QuotaInode,
        "an inode that should hold quota records and is no regular file, or is not in use",
        "Linux makes a new one; the limits are lost",
        "nothing repeats a limit",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The page has exactly these rows, in this order.
    #[test]
    fn the_page_shows_the_table() {
        let page = include_str!("../../../../docs/repair.md");
        let shown: Vec<String> =
            page.lines().filter(|line| line.starts_with("| ")).map(str::to_owned).collect();
        let rows: Vec<String> = TABLE
            .iter()
            .map(|row| {
                format!("| {} | {} | {} | {} |", row.rule.number(), row.question, row.order, row.reason)
            })
            .collect();
        let first = shown.iter().position(|line| Some(line) == rows.first());
        let part = first.and_then(|first| shown.get(first..first + rows.len()));
        assert!(part == Some(rows.as_slice()), "docs/repair.md must show:\n{}", rows.join("\n"));
    }

    #[test]
    fn numbers_ascend_and_every_rule_has_a_row() {
        assert!(TABLE.is_sorted_by(|a, b| a.rule < b.rule));
        assert!(TABLE.iter().all(|row| row.rule.weighing() == Some(row)));
    }
}

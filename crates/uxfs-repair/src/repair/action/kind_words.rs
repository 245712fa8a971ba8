//! What a kind of change is called where changes are counted: in the plural, so that "12" can stand in front.

use super::Action;

/// The word for programs, and the words for people.
const WORDS: [(&str, &str); 64] = [
    ("superblock_from_copy", "primary superblocks written from a secondary one"),
    ("superblock_from_log", "primary superblocks written from the log"),
    ("superblock_inferred", "primary superblocks inferred from other structures"),
    ("superblock_fields_cleared", "superblocks with impossible fields cleared"),
    ("superblock_attribute_bit", "superblocks that get the attribute feature bit"),
    ("superblock_by_copies", "primary superblocks overruled by all secondary ones"),
    ("superblock_log", "superblocks that get another place of the log"),
    ("superblock_root", "superblocks that get another root directory"),
    ("superblock_copy", "secondary superblocks rewritten"),
    ("counters", "recounts of inodes and free blocks for the superblock"),
    ("log_replayed", "logs replayed"),
    ("log_replayed_in_part", "logs replayed without their unfinished intents"),
    ("lsn_cleared", "impossible log sequence numbers cleared"),
    ("new_log", "logs replaced by an empty one"),
    ("group_rebuilt", "rebuilds of the headers and btrees of an allocation group"),
    ("inode_chunk", "inode chunks recreated"),
    ("bit_flipped_back", "single flipped bits corrected"),
    ("proved_by_checksum", "structures corrected until their checksum matched"),
    ("block_from_log", "blocks restored from the log"),
    ("block_moved", "blocks moved from the place of another"),
    ("older_kept", "structures kept although the log has had newer ones"),
    ("block_field", "blocks with a corrected field"),
    ("block_checksum", "blocks kept although their checksum is wrong"),
    ("inode_checksum", "inodes kept although their checksum is wrong"),
    ("inode_rebuilt", "inodes recreated"),
    ("inode_lost", "inodes given up"),
    ("free_inode", "free inodes reinitialized"),
    ("file_partial", "files with missing parts, in lost+found"),
    ("symlink_lost", "symbolic links given up"),
    ("internal_inode", "realtime inodes recreated empty"),
    ("unlinked_freed", "unlinked inodes freed"),
    ("inode_mended", "inodes with impossible fields set to neutral values"),
    ("metadata_flags", "inodes moved into or out of the metadata directory tree"),
    ("inode_unproved", "inodes with a wrong checksum that get other values"),
    ("inode_flags", "inodes with impossible flags cleared"),
    ("inode_times", "inodes with impossible nanoseconds cleared"),
    ("inode_big_times", "inodes marked as having 64-bit times"),
    ("inode_lsn", "inodes with an impossible log sequence number cleared"),
    ("inode_shares", "inodes marked as sharing blocks"),
    ("directory_size", "directory sizes corrected"),
    ("symlink_size", "symbolic link sizes corrected"),
    ("special_file_size", "sizes of special files cleared"),
    ("inode_blocks", "block counts of inodes corrected"),
    ("link_count", "link counts corrected"),
    ("extent_map_rebuilt", "extent maps rebuilt"),
    ("extent_map_overruled", "extent maps overruled by the reverse map"),
    ("extent_map_kept", "extent maps kept against the reverse map"),
    ("blocks_given_up", "extents taken from a file because something else has their blocks"),
    ("symlink_blocks", "symbolic links with surplus blocks freed"),
    ("extents_written", "inodes with extents marked as written"),
    ("extents_unwritten", "inodes with extents marked as unwritten"),
    ("attributes_rebuilt", "attribute forks rebuilt"),
    ("access_list", "access control lists corrected or removed"),
    ("directory_rebuilt", "directories rebuilt"),
    ("name_removed", "directory entries removed"),
    ("name_added", "directory entries added from parent pointers"),
    ("name_from_block", "directory entries taken from an unmapped block"),
    ("lost_and_found", "files and directories moved to lost+found"),
    ("parent_pointer_set", "parent pointers set"),
    ("parent_pointer_removed", "parent pointers removed"),
    ("quota_record", "quota records corrected"),
    ("quota_counts", "quotas to be counted by the next mount"),
    ("quota_inode_size", "sizes of quota inodes cleared"),
    ("quota_inode_forgotten", "quota inodes dropped"),
];

impl Action {
    /// What changes of this kind are called, in the plural.
    pub fn words_of_kind(&self) -> &'static str {
        let what = self.description().what;
        WORDS.iter().find(|(kind, _)| *kind == what).map_or(what, |(_, words)| words)
    }
}

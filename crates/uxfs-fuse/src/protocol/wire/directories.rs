//! Directory records. The name follows without a NUL, and then padding to eight bytes.

use super::names::EntryOut;

wire_structures! {
    /// Record of READDIR.
    #[doc(alias = "fuse_dirent")]
    pub struct DirectoryRecord {
        /// Inode number.
        pub inode: u64,
        /// Cookie of the next record.
        #[doc(alias = "off")]
        pub next_offset: u64,
        /// Bytes of the name.
        pub name_bytes: u32,
        /// File type: the upper four bits of a mode.
        pub kind: u32,
    }

    /// Record of READDIRPLUS.
    #[doc(alias = "fuse_direntplus")]
    pub struct DirectoryPlusRecord {
        /// Node and attributes; node id 0 where none are given.
        pub entry: EntryOut,
        /// The entry itself.
        pub record: DirectoryRecord,
    }
}

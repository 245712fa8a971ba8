//! The two words of inode flags.

bitflags::bitflags! {
    /// `di_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct InodeFlags: u16 {
        /// Data lies on the realtime device.
        const REALTIME = 0x0001;
        /// Space was reserved ahead.
        const PREALLOCATED = 0x0002;
        /// The realtime bitmap inode uses its access time as a counter.
        const NEW_REALTIME_BITMAP = 0x0004;
        /// Cannot be changed.
        const IMMUTABLE = 0x0008;
        /// Can only be appended to.
        const APPEND = 0x0010;
        /// Writes are synchronous.
        const SYNCHRONOUS = 0x0020;
        /// Reading leaves the access time.
        const NO_ACCESS_TIME = 0x0040;
        /// Left out of backups.
        const NO_DUMP = 0x0080;
        /// New files in this directory get [`REALTIME`](Self::REALTIME).
        const REALTIME_INHERIT = 0x0100;
        /// New files in this directory get its project id.
        const PROJECT_INHERIT = 0x0200;
        /// No symbolic links may be made in this directory.
        const NO_SYMLINKS = 0x0400;
        /// The extent size hint is in use.
        const EXTENT_SIZE = 0x0800;
        /// New files in this directory get its extent size hint.
        const EXTENT_SIZE_INHERIT = 0x1000;
        /// Left alone by the defragmenter.
        const NO_DEFRAGMENT = 0x2000;
        /// New files in this directory are kept in one group.
        const FILE_STREAM = 0x4000;
        const _ = !0;
    }

    /// `di_flags2`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct InodeFlags2: u64 {
        /// Direct access to persistent memory.
        const DAX = 0x01;
        /// Some extents may be shared.
        const REFLINK = 0x02;
        /// The copy-on-write extent size hint is in use.
        const COPY_ON_WRITE_EXTENT_SIZE = 0x04;
        /// Timestamps are 64-bit counts of nanoseconds.
        const BIG_TIME = 0x08;
        /// Extent counters are in their large places.
        const LARGE_EXTENT_COUNTS = 0x10;
        /// Part of the metadata directory tree.
        const METADATA = 0x20;
        const _ = !0;
    }
}

impl InodeFlags {
    /// The flags of every file of the metadata directory tree.
    #[doc(alias = "XFS_METAFILE_DIFLAGS")]
    pub const METADATA_FILE: Self = Self::IMMUTABLE
        .union(Self::SYNCHRONOUS)
        .union(Self::NO_ACCESS_TIME)
        .union(Self::NO_DUMP)
        .union(Self::NO_DEFRAGMENT);
    /// The flags of every directory of that tree.
    #[doc(alias = "XFS_METADIR_DIFLAGS")]
    pub const METADATA_DIRECTORY: Self = Self::METADATA_FILE.union(Self::NO_SYMLINKS);
}

//! Open files: open, read, write, sync, space, seek, copy.

wire_structures! {
    /// OPEN and OPENDIR.
    #[doc(alias = "fuse_open_in")]
    pub struct OpenIn {
        /// Flags of open(2).
        pub flags: u32,
        /// [`OpenRequestFlags`](crate::protocol::flags::OpenRequestFlags).
        pub open_flags: u32,
    }

    /// Reply to OPEN and OPENDIR.
    #[doc(alias = "fuse_open_out")]
    pub struct OpenOut {
        /// Names the open file.
        #[doc(alias = "fh")]
        pub handle: u64,
        /// [`OpenReplyFlags`](crate::protocol::flags::OpenReplyFlags).
        pub open_flags: u32,
        /// For passthrough.
        pub backing_id: i32,
    }

    /// READ, READDIR and READDIRPLUS.
    #[doc(alias = "fuse_read_in")]
    pub struct ReadIn {
        /// Open file.
        pub handle: u64,
        /// First byte, or the cookie of a directory record.
        pub offset_bytes: u64,
        /// Bytes that are wanted.
        pub size_bytes: u32,
        /// [`ReadFlags`](crate::protocol::flags::ReadFlags).
        pub read_flags: u32,
        /// Owner of locks.
        pub lock_owner: u64,
        /// Flags of open(2).
        pub flags: u32,
        pub(crate) padding: u32,
    }

    /// WRITE; the data follow.
    #[doc(alias = "fuse_write_in")]
    pub struct WriteIn {
        /// Open file.
        pub handle: u64,
        /// First byte.
        pub offset_bytes: u64,
        /// Bytes that follow.
        pub size_bytes: u32,
        /// [`WriteFlags`](crate::protocol::flags::WriteFlags).
        pub write_flags: u32,
        /// Owner of locks.
        pub lock_owner: u64,
        /// Flags of open(2).
        pub flags: u32,
        pub(crate) padding: u32,
    }

    /// Reply to WRITE and COPY_FILE_RANGE.
    #[doc(alias = "fuse_write_out")]
    pub struct WriteOut {
        /// Bytes that were written.
        pub size_bytes: u32,
        pub(crate) padding: u32,
    }

    /// RELEASE and RELEASEDIR.
    #[doc(alias = "fuse_release_in")]
    pub struct ReleaseIn {
        /// Open file.
        pub handle: u64,
        /// Flags of open(2).
        pub flags: u32,
        /// [`ReleaseFlags`](crate::protocol::flags::ReleaseFlags).
        pub release_flags: u32,
        /// Owner of locks.
        pub lock_owner: u64,
    }

    /// FLUSH.
    #[doc(alias = "fuse_flush_in")]
    pub struct FlushIn {
        /// Open file.
        pub handle: u64,
        pub(crate) unused: u32,
        pub(crate) padding: u32,
        /// Owner of locks.
        pub lock_owner: u64,
    }

    /// FSYNC and FSYNCDIR.
    #[doc(alias = "fuse_fsync_in")]
    pub struct FsyncIn {
        /// Open file.
        pub handle: u64,
        /// [`FsyncFlags`](crate::protocol::flags::FsyncFlags).
        pub flags: u32,
        pub(crate) padding: u32,
    }

    /// SYNCFS.
    #[doc(alias = "fuse_syncfs_in")]
    pub struct SyncfsIn {
        pub(crate) padding: u64,
    }

    /// FALLOCATE.
    #[doc(alias = "fuse_fallocate_in")]
    pub struct FallocateIn {
        /// Open file.
        pub handle: u64,
        /// First byte.
        pub offset_bytes: u64,
        /// Bytes of the range.
        pub size_bytes: u64,
        /// [`FallocateMode`](crate::protocol::flags::FallocateMode).
        pub mode: u32,
        pub(crate) padding: u32,
    }

    /// LSEEK.
    #[doc(alias = "fuse_lseek_in")]
    pub struct SeekIn {
        /// Open file.
        pub handle: u64,
        /// Where the search begins.
        pub offset_bytes: u64,
        /// 3 for data, 4 for a hole.
        pub whence: u32,
        pub(crate) padding: u32,
    }

    /// Reply to LSEEK.
    #[doc(alias = "fuse_lseek_out")]
    pub struct SeekOut {
        /// Where the search ended.
        pub offset_bytes: u64,
    }

    /// COPY_FILE_RANGE and COPY_FILE_RANGE_64; the header names the source node.
    #[doc(alias = "fuse_copy_file_range_in")]
    pub struct CopyFileRangeIn {
        /// Open source file.
        pub source_handle: u64,
        /// First byte of the source.
        pub source_offset_bytes: u64,
        /// The target node.
        pub target_node_id: u64,
        /// Open target file.
        pub target_handle: u64,
        /// First byte of the target.
        pub target_offset_bytes: u64,
        /// Bytes to copy.
        pub size_bytes: u64,
        /// Flags of copy_file_range(2).
        pub flags: u64,
    }

    /// Reply to COPY_FILE_RANGE_64.
    #[doc(alias = "fuse_copy_file_range_out")]
    pub struct CopyFileRangeOut {
        /// Bytes that were copied.
        pub size_bytes: u64,
    }

    /// BMAP.
    #[doc(alias = "fuse_bmap_in")]
    pub struct BlockMapIn {
        /// Block of the file.
        pub block: u64,
        /// Size of a block.
        pub block_size_bytes: u32,
        pub(crate) padding: u32,
    }

    /// Reply to BMAP.
    #[doc(alias = "fuse_bmap_out")]
    pub struct BlockMapOut {
        /// Block of the device; 0 for a hole.
        pub block: u64,
    }
}

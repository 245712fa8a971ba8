//! File locks.

wire_structures! {
    /// A lock.
    #[doc(alias = "fuse_file_lock")]
    pub struct LockRecord {
        /// First byte.
        pub start_bytes: u64,
        /// Last byte.
        pub last_bytes: u64,
        /// Type of fcntl(2).
        pub kind: u32,
        /// Process that holds it.
        pub process_id: u32,
    }

    /// GETLK, SETLK and SETLKW.
    #[doc(alias = "fuse_lk_in")]
    pub struct LockIn {
        /// Open file.
        pub handle: u64,
        /// Owner of the lock.
        pub owner: u64,
        /// The lock.
        pub lock: LockRecord,
        /// [`LockFlags`](crate::protocol::flags::LockFlags).
        pub flags: u32,
        pub(crate) padding: u32,
    }

    /// Reply to GETLK.
    #[doc(alias = "fuse_lk_out")]
    pub struct LockOut {
        /// A lock in the way, or one of type unlock.
        pub lock: LockRecord,
    }
}

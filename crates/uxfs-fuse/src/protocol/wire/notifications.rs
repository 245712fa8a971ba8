//! Messages that the server sends unasked, each after an [`OutHeader`](super::header::OutHeader).

wire_structures! {
    /// Events are ready.
    #[doc(alias = "fuse_notify_poll_wakeup_out")]
    pub struct NotifyPollOut {
        /// From the POLL request.
        #[doc(alias = "kh")]
        pub poll_handle: u64,
    }

    /// Drop attributes and pages of an inode.
    #[doc(alias = "fuse_notify_inval_inode_out")]
    pub struct NotifyInvalidateInodeOut {
        /// The node.
        pub node_id: u64,
        /// First byte; negative for attributes and ACLs only.
        pub offset_bytes: i64,
        /// Length; 0 or less for the whole rest of the file.
        pub size_bytes: i64,
    }

    /// Drop a name; the name and a NUL follow.
    #[doc(alias = "fuse_notify_inval_entry_out")]
    pub struct NotifyInvalidateEntryOut {
        /// The directory.
        pub parent: u64,
        /// Bytes of the name.
        pub name_bytes: u32,
        /// [`InvalidateEntryFlags`](crate::protocol::flags::InvalidateEntryFlags).
        pub flags: u32,
    }

    /// Put data into the page cache; the data follow.
    #[doc(alias = "fuse_notify_store_out")]
    pub struct NotifyStoreOut {
        /// The node.
        pub node_id: u64,
        /// First byte.
        pub offset_bytes: u64,
        /// Bytes that follow.
        pub size_bytes: u32,
        pub(crate) padding: u32,
    }

    /// Send data of the page cache.
    #[doc(alias = "fuse_notify_retrieve_out")]
    pub struct NotifyRetrieveOut {
        /// Number of the answer.
        pub notify_unique: u64,
        /// The node.
        pub node_id: u64,
        /// First byte.
        pub offset_bytes: u64,
        /// Most bytes.
        pub size_bytes: u32,
        pub(crate) padding: u32,
    }

    /// NOTIFY_REPLY, the answer of the kernel: its place is that of a WRITE; the data follow.
    #[doc(alias = "fuse_notify_retrieve_in")]
    pub struct NotifyRetrieveIn {
        pub(crate) padding_before: u64,
        /// First byte.
        pub offset_bytes: u64,
        /// Bytes that follow.
        pub size_bytes: u32,
        pub(crate) padding: u32,
        pub(crate) padding_after: [u64; 2],
    }

    /// A name was removed; the name and a NUL follow.
    #[doc(alias = "fuse_notify_delete_out")]
    pub struct NotifyDeleteOut {
        /// The directory.
        pub parent: u64,
        /// The node that had the name.
        pub child: u64,
        /// Bytes of the name.
        pub name_bytes: u32,
        pub(crate) padding: u32,
    }

    /// Forget nodes that are not in use; their ids follow.
    #[doc(alias = "fuse_notify_prune_out")]
    pub struct NotifyPruneOut {
        /// Ids that follow.
        pub count: u32,
        pub(crate) padding: u32,
        pub(crate) spare: u64,
    }
}

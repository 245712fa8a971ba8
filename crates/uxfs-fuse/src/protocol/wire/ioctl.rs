//! Ioctl and poll.

wire_structures! {
    /// IOCTL; the input follows.
    #[doc(alias = "fuse_ioctl_in")]
    pub struct IoctlIn {
        /// Open file.
        pub handle: u64,
        /// [`IoctlFlags`](crate::protocol::flags::IoctlFlags).
        pub flags: u32,
        /// Number of the ioctl.
        pub command: u32,
        /// Argument of ioctl(2): an address of the caller, or a number.
        pub argument: u64,
        /// Bytes of input.
        pub input_bytes: u32,
        /// Most bytes of output.
        pub output_bytes: u32,
    }

    /// Memory of the caller, for an ioctl that is to be sent again.
    #[doc(alias = "fuse_ioctl_iovec")]
    pub struct IoctlVector {
        /// Address.
        pub base: u64,
        /// Length.
        pub size_bytes: u64,
    }

    /// Reply to IOCTL; the output follows.
    #[doc(alias = "fuse_ioctl_out")]
    pub struct IoctlOut {
        /// What ioctl(2) returns.
        pub result: i32,
        /// [`IoctlFlags`](crate::protocol::flags::IoctlFlags).
        pub flags: u32,
        /// Vectors of input, for an ioctl that is to be sent again.
        pub input_vectors: u32,
        /// Vectors of output.
        pub output_vectors: u32,
    }

    /// POLL.
    #[doc(alias = "fuse_poll_in")]
    pub struct PollIn {
        /// Open file.
        pub handle: u64,
        /// Names the wait in a notification.
        #[doc(alias = "kh")]
        pub poll_handle: u64,
        /// [`PollFlags`](crate::protocol::flags::PollFlags).
        pub flags: u32,
        /// Events of poll(2).
        pub events: u32,
    }

    /// Reply to POLL.
    #[doc(alias = "fuse_poll_out")]
    pub struct PollOut {
        /// Events that are ready.
        pub events: u32,
        pub(crate) padding: u32,
    }
}

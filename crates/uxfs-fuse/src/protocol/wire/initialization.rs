//! INIT.

wire_structures! {
    /// INIT. Kernels before 7.36 send the first 16 bytes.
    #[doc(alias = "fuse_init_in")]
    pub struct InitIn {
        /// Major version.
        pub major: u32,
        /// Minor version.
        pub minor: u32,
        /// Most bytes that the kernel reads ahead.
        pub max_readahead_bytes: u32,
        /// Lower half of [`Capabilities`](crate::protocol::initialization::Capabilities).
        pub flags: u32,
        /// Upper half of it.
        pub flags2: u32,
        pub(crate) unused: [u32; 11],
    }

    /// Reply to INIT.
    #[doc(alias = "fuse_init_out")]
    pub struct InitOut {
        /// Major version.
        pub major: u32,
        /// Minor version.
        pub minor: u32,
        /// Most bytes that the kernel reads ahead.
        pub max_readahead_bytes: u32,
        /// Lower half of [`Capabilities`](crate::protocol::initialization::Capabilities).
        pub flags: u32,
        /// Most requests in the background.
        pub max_background: u16,
        /// Requests in the background at which the kernel takes the server for congested.
        pub congestion_threshold: u16,
        /// Most bytes of a WRITE.
        pub max_write_bytes: u32,
        /// Granularity of times.
        #[doc(alias = "time_gran")]
        pub time_granularity_nanoseconds: u32,
        /// Most pages of a request.
        pub max_pages: u16,
        /// For DAX.
        pub map_alignment: u16,
        /// Upper half of the capabilities.
        pub flags2: u32,
        /// For passthrough.
        pub max_stack_depth: u32,
        /// Seconds after which an unanswered request ends the connection; 0 for none.
        pub request_timeout_seconds: u16,
        pub(crate) unused: [u16; 11],
    }

    /// Reply to INIT of another major version.
    pub struct VersionOut {
        /// Major version.
        pub major: u32,
        /// Minor version.
        pub minor: u32,
    }
}

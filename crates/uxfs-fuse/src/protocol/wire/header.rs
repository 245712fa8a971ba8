//! Headers of requests and replies, forgets and interrupts.

wire_structures! {
    /// Header of a request.
    #[doc(alias = "fuse_in_header")]
    pub struct InHeader {
        /// Bytes of the whole request.
        #[doc(alias = "len")]
        pub size_bytes: u32,
        /// [`Opcode`](crate::protocol::opcode::Opcode).
        pub opcode: u32,
        /// Names the request; the reply repeats it.
        pub unique: u64,
        /// The node that the request is about.
        pub node_id: u64,
        /// File system user id of the caller.
        pub user_id: u32,
        /// File system group id of the caller.
        pub group_id: u32,
        /// Thread id of the caller, 0 where the server's pid namespace has none.
        pub process_id: u32,
        /// Extensions at the end of the request, in units of eight bytes.
        #[doc(alias = "total_extlen")]
        pub extension_units: u16,
        pub(crate) padding: u16,
    }

    /// Header of a reply or of a notification.
    #[doc(alias = "fuse_out_header")]
    pub struct OutHeader {
        /// Bytes of the whole reply.
        #[doc(alias = "len")]
        pub size_bytes: u32,
        /// 0, a negative error number, or the positive code of a notification.
        pub error: i32,
        /// Of the request; 0 for notifications.
        pub unique: u64,
    }

    /// FORGET.
    #[doc(alias = "fuse_forget_in")]
    pub struct ForgetIn {
        /// Lookups that the kernel drops.
        #[doc(alias = "nlookup")]
        pub lookups: u64,
    }

    /// BATCH_FORGET: `count` times [`ForgetOne`] follow.
    #[doc(alias = "fuse_batch_forget_in")]
    pub struct BatchForgetIn {
        /// Structures that follow.
        pub count: u32,
        pub(crate) padding: u32,
    }

    /// One node of BATCH_FORGET.
    #[doc(alias = "fuse_forget_one")]
    pub struct ForgetOne {
        /// The node.
        pub node_id: u64,
        /// Lookups that the kernel drops.
        #[doc(alias = "nlookup")]
        pub lookups: u64,
    }

    /// INTERRUPT.
    #[doc(alias = "fuse_interrupt_in")]
    pub struct InterruptIn {
        /// The interrupted request.
        pub unique: u64,
    }
}

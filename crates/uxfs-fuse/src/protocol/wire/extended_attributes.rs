//! Extended attributes and access checks.

wire_structures! {
    /// SETXATTR without [`SETXATTR_EXT`](crate::protocol::initialization::Capabilities::SETXATTR_EXT); name and value follow.
    pub struct SetExtendedAttributeShortIn {
        /// Bytes of the value.
        pub value_bytes: u32,
        /// [`SetExtendedAttributeMode`](crate::protocol::flags::SetExtendedAttributeMode).
        pub mode: u32,
    }

    /// SETXATTR with [`SETXATTR_EXT`](crate::protocol::initialization::Capabilities::SETXATTR_EXT); name and value follow.
    #[doc(alias = "fuse_setxattr_in")]
    pub struct SetExtendedAttributeIn {
        /// Bytes of the value.
        pub value_bytes: u32,
        /// [`SetExtendedAttributeMode`](crate::protocol::flags::SetExtendedAttributeMode).
        #[doc(alias = "flags")]
        pub mode: u32,
        /// [`SetExtendedAttributeFlags`](crate::protocol::flags::SetExtendedAttributeFlags).
        #[doc(alias = "setxattr_flags")]
        pub flags: u32,
        pub(crate) padding: u32,
    }

    /// GETXATTR, whose name follows, and LISTXATTR.
    #[doc(alias = "fuse_getxattr_in")]
    pub struct GetExtendedAttributeIn {
        /// Bytes that the caller has room for; 0 asks for the size.
        pub size_bytes: u32,
        pub(crate) padding: u32,
    }

    /// Reply to GETXATTR and LISTXATTR that ask for the size.
    #[doc(alias = "fuse_getxattr_out")]
    pub struct ExtendedAttributeSizeOut {
        /// Bytes of the value or of the list.
        pub size_bytes: u32,
        pub(crate) padding: u32,
    }

    /// ACCESS.
    #[doc(alias = "fuse_access_in")]
    pub struct AccessIn {
        /// [`AccessMask`](crate::protocol::flags::AccessMask).
        pub mask: u32,
        pub(crate) padding: u32,
    }
}

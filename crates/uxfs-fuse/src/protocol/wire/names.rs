//! Entries, creation, rename, link, and the extensions of requests that create inodes.

use super::{attributes::AttributeRecord, files::OpenOut};

wire_structures! {
    /// Reply to all operations that give a node.
    #[doc(alias = "fuse_entry_out")]
    pub struct EntryOut {
        /// The node; 0 for a name that does not exist.
        pub node_id: u64,
        /// Tells inodes apart that had the same number one after the other; the kernel keeps 32 bits.
        pub generation: u64,
        /// How long the kernel may keep the name.
        pub entry_valid_seconds: u64,
        /// How long the kernel may keep the attributes.
        pub attributes_valid_seconds: u64,
        /// The rest of the name's time.
        pub entry_valid_nanoseconds: u32,
        /// The rest of the attributes' time.
        pub attributes_valid_nanoseconds: u32,
        /// The attributes.
        pub attributes: AttributeRecord,
    }

    /// Reply to CREATE and TMPFILE.
    pub struct CreateOut {
        /// The new inode.
        pub entry: EntryOut,
        /// The open file.
        pub open: OpenOut,
    }

    /// MKNOD; the name follows.
    #[doc(alias = "fuse_mknod_in")]
    pub struct MakeNodeIn {
        /// File type and permissions.
        pub mode: u32,
        /// Device number: 12 bits of major between 8 and 12 of minor number.
        #[doc(alias = "rdev")]
        pub device: u32,
        /// Of the caller.
        pub umask: u32,
        pub(crate) padding: u32,
    }

    /// MKDIR; the name follows.
    #[doc(alias = "fuse_mkdir_in")]
    pub struct MakeDirectoryIn {
        /// Permissions.
        pub mode: u32,
        /// Of the caller.
        pub umask: u32,
    }

    /// CREATE and TMPFILE; the name follows.
    #[doc(alias = "fuse_create_in")]
    pub struct CreateIn {
        /// Flags of open(2).
        pub flags: u32,
        /// File type and permissions.
        pub mode: u32,
        /// Of the caller.
        pub umask: u32,
        /// [`OpenRequestFlags`](crate::protocol::flags::OpenRequestFlags).
        pub open_flags: u32,
    }

    /// RENAME; the old and the new name follow.
    #[doc(alias = "fuse_rename_in")]
    pub struct RenameIn {
        /// The new parent directory.
        pub new_parent: u64,
    }

    /// RENAME2; the old and the new name follow.
    #[doc(alias = "fuse_rename2_in")]
    pub struct Rename2In {
        /// The new parent directory.
        pub new_parent: u64,
        /// [`RenameFlags`](crate::protocol::flags::RenameFlags).
        pub flags: u32,
        pub(crate) padding: u32,
    }

    /// LINK; the new name follows.
    #[doc(alias = "fuse_link_in")]
    pub struct LinkIn {
        /// The inode that gets another name.
        pub old_node_id: u64,
    }

    /// Header of an extension. A type below 32 is the header of security contexts, with their number.
    #[doc(alias = "fuse_ext_header")]
    #[doc(alias = "fuse_secctx_header")]
    pub struct ExtensionHeader {
        /// Bytes of the extension, this header included.
        pub size_bytes: u32,
        /// Type, or number of security contexts.
        pub kind: u32,
    }

    /// Before a security context: its name and value follow.
    #[doc(alias = "fuse_secctx")]
    pub struct SecurityContextHeader {
        /// Bytes of the value.
        pub value_bytes: u32,
        pub(crate) padding: u32,
    }
}

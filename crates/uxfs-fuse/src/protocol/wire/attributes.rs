//! Attributes of inodes and of the file system.

wire_structures! {
    /// Attributes of an inode.
    #[doc(alias = "fuse_attr")]
    pub struct AttributeRecord {
        /// Inode number, as stat(2) shows it.
        pub inode: u64,
        /// Bytes of the file.
        pub size_bytes: u64,
        /// Allocated blocks of 512 bytes.
        pub sectors: u64,
        /// Last access: seconds since 1970, of which the kernel takes the bits as a signed number; as below.
        #[doc(alias = "atime")]
        pub access_seconds: u64,
        /// Last change of the contents.
        #[doc(alias = "mtime")]
        pub modification_seconds: u64,
        /// Last change of the inode.
        #[doc(alias = "ctime")]
        pub change_seconds: u64,
        /// Nanoseconds of the last access.
        #[doc(alias = "atimensec")]
        pub access_nanoseconds: u32,
        /// Nanoseconds of the last change of the contents.
        #[doc(alias = "mtimensec")]
        pub modification_nanoseconds: u32,
        /// Nanoseconds of the last change of the inode.
        #[doc(alias = "ctimensec")]
        pub change_nanoseconds: u32,
        /// File type and permissions.
        pub mode: u32,
        /// Hard links.
        #[doc(alias = "nlink")]
        pub link_count: u32,
        /// Owner.
        pub user_id: u32,
        /// Group.
        pub group_id: u32,
        /// Device number: 12 bits of major between 8 and 12 of minor number.
        #[doc(alias = "rdev")]
        pub device: u32,
        /// Preferred size of I/O; 0, or a power of two.
        #[doc(alias = "blksize")]
        pub block_size_bytes: u32,
        /// [`AttributeFlags`](crate::protocol::flags::AttributeFlags).
        pub flags: u32,
    }

    /// Reply to GETATTR and SETATTR.
    #[doc(alias = "fuse_attr_out")]
    pub struct AttributesOut {
        /// How long the kernel may keep the attributes.
        #[doc(alias = "attr_valid")]
        pub valid_seconds: u64,
        /// The rest of that time.
        pub valid_nanoseconds: u32,
        pub(crate) padding: u32,
        /// The attributes.
        pub attributes: AttributeRecord,
    }

    /// GETATTR.
    #[doc(alias = "fuse_getattr_in")]
    pub struct GetAttributesIn {
        /// [`GetAttributesFlags`](crate::protocol::flags::GetAttributesFlags).
        pub flags: u32,
        pub(crate) padding: u32,
        /// Open file, if the flags say so.
        pub handle: u64,
    }

    /// SETATTR.
    #[doc(alias = "fuse_setattr_in")]
    pub struct SetAttributesIn {
        /// [`AttributeChanges`](crate::protocol::flags::AttributeChanges).
        pub valid: u32,
        pub(crate) padding: u32,
        /// Open file.
        pub handle: u64,
        /// New size.
        pub size_bytes: u64,
        /// Owner of locks.
        pub lock_owner: u64,
        /// Last access: seconds since 1970, the bits of a signed number; as below.
        pub access_seconds: u64,
        /// Last change of the contents.
        pub modification_seconds: u64,
        /// Last change of the inode.
        pub change_seconds: u64,
        /// Nanoseconds of the last access.
        pub access_nanoseconds: u32,
        /// Nanoseconds of the last change of the contents.
        pub modification_nanoseconds: u32,
        /// Nanoseconds of the last change of the inode.
        pub change_nanoseconds: u32,
        /// File type and permissions.
        pub mode: u32,
        pub(crate) unused_after_mode: u32,
        /// Owner.
        pub user_id: u32,
        /// Group.
        pub group_id: u32,
        pub(crate) unused_after_group: u32,
    }

    /// A time of [`StatxRecord`].
    #[doc(alias = "fuse_sx_time")]
    pub struct StatxTime {
        /// Since 1970.
        pub seconds: i64,
        /// The rest.
        pub nanoseconds: u32,
        pub(crate) reserved: u32,
    }

    /// STATX.
    #[doc(alias = "fuse_statx_in")]
    pub struct StatxIn {
        /// [`GetAttributesFlags`](crate::protocol::flags::GetAttributesFlags).
        pub flags: u32,
        pub(crate) reserved: u32,
        /// Open file, if the flags say so.
        pub handle: u64,
        /// Flags of statx(2).
        pub statx_flags: u32,
        /// Attributes that the caller wants.
        pub statx_mask: u32,
    }

    /// Attributes of an inode, with its time of birth.
    #[doc(alias = "fuse_statx")]
    pub struct StatxRecord {
        /// Attributes that are there.
        pub mask: u32,
        /// Preferred size of I/O.
        pub block_size_bytes: u32,
        /// Flags of statx(2).
        pub attributes: u64,
        /// Hard links.
        pub link_count: u32,
        /// Owner.
        pub user_id: u32,
        /// Group.
        pub group_id: u32,
        /// File type and permissions.
        pub mode: u16,
        pub(crate) spare_after_mode: u16,
        /// Inode number.
        pub inode: u64,
        /// Bytes of the file.
        pub size_bytes: u64,
        /// Allocated blocks of 512 bytes.
        pub sectors: u64,
        /// Flags that `attributes` may have.
        pub attributes_mask: u64,
        /// Last access.
        pub access: StatxTime,
        /// Birth.
        pub birth: StatxTime,
        /// Last change of the inode.
        pub change: StatxTime,
        /// Last change of the contents.
        pub modification: StatxTime,
        /// Of a device file.
        pub device_major: u32,
        /// Of a device file.
        pub device_minor: u32,
        /// Device that holds the file system.
        pub file_system_major: u32,
        /// Device that holds the file system.
        pub file_system_minor: u32,
        pub(crate) spare: [u64; 14],
    }

    /// Reply to STATX.
    #[doc(alias = "fuse_statx_out")]
    pub struct StatxOut {
        /// How long the kernel may keep the attributes.
        pub valid_seconds: u64,
        /// The rest of that time.
        pub valid_nanoseconds: u32,
        /// 0.
        pub flags: u32,
        pub(crate) spare: [u64; 2],
        /// The attributes.
        pub attributes: StatxRecord,
    }

    /// Reply to STATFS.
    #[doc(alias = "fuse_kstatfs")]
    pub struct StatfsOut {
        /// Blocks of the file system.
        pub blocks: u64,
        /// Free ones.
        pub free_blocks: u64,
        /// Free ones, for users other than root.
        pub available_blocks: u64,
        /// Inodes.
        pub files: u64,
        /// Free ones.
        pub free_files: u64,
        /// Preferred size of I/O.
        pub block_size_bytes: u32,
        /// Longest name.
        pub name_bytes_max: u32,
        /// Size of the blocks that are counted.
        #[doc(alias = "frsize")]
        pub fragment_size_bytes: u32,
        pub(crate) padding: u32,
        pub(crate) spare: [u32; 6],
    }
}

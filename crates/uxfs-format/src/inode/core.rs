//! The fixed part of an inode, version 3, and what its fields mean together.

use zerocopy::{
    FromZeros,
    big_endian::{U16, U32, U64},
};

use crate::{
    checksum::Checksum,
    geometry::Geometry,
    inode::{
        file_type::{FileType, MODE_PERMISSION_MASK},
        flags::{InodeFlags, InodeFlags2},
        timestamp::{DiskTimestamp, Timestamp},
    },
    on_disk,
    units::{AgInode, InodeNumber, Uuid},
};

/// "IN".
#[doc(alias = "XFS_DINODE_MAGIC")]
pub const MAGIC: u16 = 0x494e;
/// The only version that V5 file systems have.
pub const VERSION: u8 = 3;
/// Where the checksum lies. It covers the whole inode, forks included.
pub const CHECKSUM_OFFSET_BYTES: u32 = 100;

on_disk! {
    /// Core of an inode. The forks follow it.
    #[doc(alias = "xfs_dinode")]
    pub struct InodeCore {
        /// [`MAGIC`].
        pub magic: U16 => "core.magic" Hexadecimal,
        /// File type and permissions; 0 for a free inode.
        pub mode: U16 => "core.mode" Octal,
        /// [`VERSION`].
        pub version: u8 => "core.version" Decimal,
        /// Format of the data fork.
        pub format: u8 => "core.format" InodeFormat,
        /// The type of a file of the metadata directory tree; 0 in all others (it was the link count of version 1).
        #[doc(alias = "di_onlink")]
        pub metadata_type: U16 => "core.onlink" Decimal,
        /// Owner.
        pub uid: U32 => "core.uid" Decimal,
        /// Group.
        pub gid: U32 => "core.gid" Decimal,
        /// Names of the inode; for directories 2 more than its directories.
        pub link_count: U32 => "core.nlinkv2" Decimal,
        /// Low half of the project id.
        pub project_id_low: U16 => "core.projid_lo" Decimal,
        /// High half of the project id.
        pub project_id_high: U16 => "core.projid_hi" Decimal,
        /// Extents of the data fork where [`InodeFlags2::LARGE_EXTENT_COUNTS`] is set, else 0.
        #[doc(alias = "di_big_nextents")]
        pub large_extent_count: U64 => "core.big_nextents" Decimal,
        /// Last access.
        pub access_time: DiskTimestamp => "core.atime" Timestamp,
        /// Last change of contents.
        pub modification_time: DiskTimestamp => "core.mtime" Timestamp,
        /// Last change of anything.
        pub change_time: DiskTimestamp => "core.ctime" Timestamp,
        /// Length of the file.
        pub size_bytes: U64 => "core.size" Decimal,
        /// Blocks of both forks, btree blocks included.
        pub blocks: U64 => "core.nblocks" Decimal,
        /// Extent size hint.
        pub extent_size_blocks: U32 => "core.extsize" Decimal,
        /// Extents of the data fork, or of the attribute fork where counts are large.
        #[doc(alias = "di_nextents")]
        #[doc(alias = "di_big_anextents")]
        pub extent_count: U32 => "core.nextents" Decimal,
        /// Extents of the attribute fork, or 0 where counts are large.
        #[doc(alias = "di_anextents")]
        pub attribute_extent_count: U16 => "core.naextents" Decimal,
        /// Start of the attribute fork behind the core in units of 8 bytes; 0 for none.
        #[doc(alias = "di_forkoff")]
        pub fork_offset: u8 => "core.forkoff" Decimal,
        /// Format of the attribute fork.
        #[doc(alias = "di_aformat")]
        pub attribute_format: u8 => "core.aformat" InodeFormat,
        /// Unused: DMAPI events.
        pub dmapi_event_mask: U32 => "core.dmevmask" Hexadecimal,
        /// Unused: DMAPI state.
        pub dmapi_state: U16 => "core.dmstate" Hexadecimal,
        /// [`InodeFlags`].
        pub flags: U16 => "core.flags" Hexadecimal,
        /// Changes whenever the inode is used anew.
        pub generation: U32 => "core.gen" Decimal,
        /// Next inode in the unlinked list.
        pub next_unlinked: U32 => "next_unlinked" DecimalOrNull,
        /// CRC32C of the inode.
        pub checksum: Checksum => "v3.crc" Checksum,
        /// Counts changes.
        pub change_count: U64 => "v3.change_count" Decimal,
        /// Log sequence number of the last write.
        pub lsn: U64 => "v3.lsn" Hexadecimal,
        /// [`InodeFlags2`].
        pub flags2: U64 => "v3.flags2" Hexadecimal,
        /// Extent size hint for copies on write; used blocks in the reverse map inode of a zone.
        pub cow_extent_size_blocks: U32 => "v3.cowextsize" Decimal,
        /// Zero.
        pub padding: [u8; 12] => "v3.pad2" Padding,
        /// When the inode was made.
        pub creation_time: DiskTimestamp => "v3.crtime" Timestamp,
        /// Its own number.
        pub number: U64 => "v3.inumber" Decimal,
        /// The file system's metadata uuid.
        pub uuid: Uuid => "v3.uuid" Uuid,
    }
}

impl InodeCore {
    /// An inode that has never been in use, not sealed: what lies in a new chunk.
    #[doc(alias = "xfs_ialloc_inode_init")]
    pub fn never_used(number: InodeNumber, generation: u32, geometry: &Geometry) -> Self {
        let mut core = Self::new_zeroed();
        core.magic = U16::new(MAGIC);
        core.version = VERSION;
        core.generation = U32::new(generation);
        core.next_unlinked = U32::new(AgInode::NULL.get());
        core.number = U64::new(number.get());
        core.uuid = geometry.metadata_uuid;
        core
    }

    /// File type, or `None` for a free inode and for modes without one.
    #[inline]
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode.get())
    }

    /// Permissions with set-id bits and the sticky bit.
    #[inline]
    pub fn permissions(&self) -> u16 {
        self.mode.get() & MODE_PERMISSION_MASK
    }

    /// Whether the inode is not in use.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.mode.get() == 0
    }

    /// Whether a free inode has never been in use: freeing leaves format 2 (extents), a new chunk has 0.
    #[inline]
    pub fn was_never_used(&self) -> bool {
        self.is_free() && self.format == 0
    }

    /// Its own number, as it says.
    #[inline]
    pub fn inode_number(&self) -> InodeNumber {
        InodeNumber::new(self.number.get())
    }

    /// Flags, typed.
    #[inline]
    pub fn flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.flags.get())
    }

    /// Second word of flags, typed.
    #[inline]
    pub fn flags2(&self) -> InodeFlags2 {
        InodeFlags2::from_bits_retain(self.flags2.get())
    }

    /// Project id.
    #[inline]
    pub fn project_id(&self) -> u32 {
        u32::from(self.project_id_high.get()).wrapping_shl(16) | u32::from(self.project_id_low.get())
    }

    /// Decodes one of this inode's times.
    #[inline]
    pub fn time(&self, time: DiskTimestamp) -> Timestamp {
        time.decode(self.flags2().contains(InodeFlags2::BIG_TIME))
    }
}

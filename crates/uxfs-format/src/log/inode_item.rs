//! A changed inode (INODE): the format, the core in host byte order, and the forks that changed.

use zerocopy::little_endian::{I32, I64, U16, U32, U64};

use crate::{
    convert::to_usize,
    field_table::OnDisk,
    geometry::Geometry,
    log::{
        buffer_item::check_buffer,
        item::{ItemPart, ItemType, LogItemFault, Regions},
    },
    on_disk,
    units::{InodeNumber, Uuid},
};

/// "IN": magic number of an inode.
const INODE_MAGIC: u16 = 0x494e;

bitflags::bitflags! {
    /// Which parts of the inode the item holds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct InodeItemFields: u32 {
        /// The core. Always set.
        #[doc(alias = "XFS_ILOG_CORE")]
        const CORE = 0x1;
        /// Data fork: contents.
        #[doc(alias = "XFS_ILOG_DDATA")]
        const DATA_LOCAL = 0x2;
        /// Data fork: extent records.
        #[doc(alias = "XFS_ILOG_DEXT")]
        const DATA_EXTENTS = 0x4;
        /// Data fork: root of the extent map btree.
        #[doc(alias = "XFS_ILOG_DBROOT")]
        const DATA_BTREE_ROOT = 0x8;
        /// Device number, in the format itself.
        #[doc(alias = "XFS_ILOG_DEV")]
        const DEVICE = 0x10;
        /// Never used.
        #[doc(alias = "XFS_ILOG_UUID")]
        const UUID = 0x20;
        /// Attribute fork: contents.
        #[doc(alias = "XFS_ILOG_ADATA")]
        const ATTRIBUTE_LOCAL = 0x40;
        /// Attribute fork: extent records.
        #[doc(alias = "XFS_ILOG_AEXT")]
        const ATTRIBUTE_EXTENTS = 0x80;
        /// Attribute fork: root of the extent map btree.
        #[doc(alias = "XFS_ILOG_ABROOT")]
        const ATTRIBUTE_BTREE_ROOT = 0x100;
        /// The blocks of the data fork's btree get this inode as owner.
        #[doc(alias = "XFS_ILOG_DOWNER")]
        const DATA_OWNER = 0x200;
        /// The blocks of the attribute fork's btree get this inode as owner.
        #[doc(alias = "XFS_ILOG_AOWNER")]
        const ATTRIBUTE_OWNER = 0x400;
        /// Any form of the data fork.
        const DATA_FORK = 0x2 | 0x4 | 0x8;
        /// Any form of the attribute fork.
        const ATTRIBUTE_FORK = 0x40 | 0x80 | 0x100;
    }
}

on_disk! {
    /// First region of an INODE.
    #[doc(alias = "xfs_inode_log_format")]
    pub struct InodeFormat {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions: 2 to 4.
        pub region_count: U16 => "size" Decimal little,
        /// [`InodeItemFields`].
        pub fields: U32 => "fields" Hexadecimal little,
        /// Bytes of the attribute fork, without padding.
        pub attribute_bytes: U16 => "asize" Decimal little,
        /// Bytes of the data fork, without padding.
        pub data_bytes: U16 => "dsize" Decimal little,
        /// Zero.
        pub padding: U32 => "pad" Padding little,
        /// The inode.
        pub inode: U64 => "ino" Decimal little,
        /// Device number, where [`InodeItemFields::DEVICE`] is set.
        pub device: U32 => "rdev" Hexadecimal little,
        /// Zero.
        pub padding2: [u8; 12] => "pad" Padding,
        /// First 512-byte unit of the inode's buffer.
        pub buffer_sector: I64 => "blkno" SignedDecimal little,
        /// 512-byte units in that buffer.
        pub buffer_sectors: I32 => "len" SignedDecimal little,
        /// Byte of the inode in that buffer.
        pub buffer_offset_bytes: I32 => "boffset" SignedDecimal little,
    }

    /// First region of an INODE from a machine that aligns 64-bit numbers to four bytes.
    #[doc(alias = "xfs_inode_log_format_32")]
    pub struct PackedInodeFormat {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions: 2 to 4.
        pub region_count: U16 => "size" Decimal little,
        /// [`InodeItemFields`].
        pub fields: U32 => "fields" Hexadecimal little,
        /// Bytes of the attribute fork, without padding.
        pub attribute_bytes: U16 => "asize" Decimal little,
        /// Bytes of the data fork, without padding.
        pub data_bytes: U16 => "dsize" Decimal little,
        /// The inode.
        pub inode: U64 => "ino" Decimal little,
        /// Device number, where [`InodeItemFields::DEVICE`] is set.
        pub device: U32 => "rdev" Hexadecimal little,
        /// Zero.
        pub padding2: [u8; 12] => "pad" Padding,
        /// First 512-byte unit of the inode's buffer.
        pub buffer_sector: I64 => "blkno" SignedDecimal little,
        /// 512-byte units in that buffer.
        pub buffer_sectors: I32 => "len" SignedDecimal little,
        /// Byte of the inode in that buffer.
        pub buffer_offset_bytes: I32 => "boffset" SignedDecimal little,
    }

    /// Second region of an INODE: the inode's core, as on disk but in the byte order of the machine. Times, extent
    /// counts and flags mean what they mean there. `next_unlinked`, checksum and `lsn` are not to be used.
    #[doc(alias = "xfs_log_dinode")]
    pub struct LoggedInodeCore {
        /// "IN".
        pub magic: U16 => "magic" Hexadecimal little,
        /// Type and permissions.
        pub mode: U16 => "mode" Octal little,
        /// 3.
        pub version: u8 => "version" Decimal,
        /// Form of the data fork.
        pub data_format: u8 => "format" InodeFormat,
        /// Kind of metadata file.
        pub metadata_type: U16 => "metatype" Decimal little,
        /// Owner.
        pub user_id: U32 => "uid" Decimal little,
        /// Group.
        pub group_id: U32 => "gid" Decimal little,
        /// Links.
        pub link_count: U32 => "nlink" Decimal little,
        /// Low half of the project.
        pub project_id_low: U16 => "projid_lo" Decimal little,
        /// High half of the project.
        pub project_id_high: U16 => "projid_hi" Decimal little,
        /// Extents of the data fork, with large extent counts; else padding.
        pub large_data_extents: U64 => "big_nextents" Decimal little,
        /// Last access.
        pub access_time: U64 => "atime" Hexadecimal little,
        /// Last change of contents.
        pub modification_time: U64 => "mtime" Hexadecimal little,
        /// Last change.
        pub change_time: U64 => "ctime" Hexadecimal little,
        /// Bytes in the file.
        pub size_bytes: U64 => "size" Decimal little,
        /// Blocks that it takes.
        pub blocks: U64 => "nblocks" Decimal little,
        /// Hint: allocate in multiples of so many blocks.
        pub extent_size_blocks: U32 => "extsize" Decimal little,
        /// Extents of the data fork; of the attribute fork with large extent counts.
        pub data_extents: U32 => "nextents" Decimal little,
        /// Extents of the attribute fork; padding with large extent counts.
        pub attribute_extents: U16 => "naextents" Decimal little,
        /// Start of the attribute fork, in eight bytes.
        pub fork_offset: u8 => "forkoff" Decimal,
        /// Form of the attribute fork.
        pub attribute_format: u8 => "aformat" InodeFormat,
        /// Not used.
        pub dmapi_mask: U32 => "dmevmask" Hexadecimal little,
        /// Not used.
        pub dmapi_state: U16 => "dmstate" Hexadecimal little,
        /// Flags.
        pub flags: U16 => "flags" Hexadecimal little,
        /// Generation.
        pub generation: U32 => "gen" Decimal little,
        /// Not to be used.
        pub next_unlinked: U32 => "next_unlinked" DecimalOrNull little,
        /// Not to be used.
        pub checksum: U32 => "crc" Hexadecimal little,
        /// Changes so far.
        pub change_count: U64 => "change_count" Decimal little,
        /// Not to be used.
        pub lsn: U64 => "lsn" Hexadecimal little,
        /// More flags.
        pub flags2: U64 => "flags2" Hexadecimal little,
        /// Hint: copy on write in multiples of so many blocks.
        pub cow_extent_size_blocks: U32 => "cowextsize" Decimal little,
        /// Zero.
        pub padding: [u8; 12] => "pad2" Padding,
        /// When it was made.
        pub creation_time: U64 => "crtime" Hexadecimal little,
        /// Its own number.
        pub inode: U64 => "inumber" Decimal little,
        /// The metadata uuid.
        pub uuid: Uuid => "uuid" Uuid,
    }
}

/// The first region, in either form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InodeFormatForm<'a> {
    /// 56 bytes.
    Padded(&'a InodeFormat),
    /// 52 bytes.
    Packed(&'a PackedInodeFormat),
}

/// INODE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeItem<'a> {
    /// First region as it lies in the log.
    pub form: InodeFormatForm<'a>,
    /// Which parts the item holds.
    pub fields: InodeItemFields,
    /// The core.
    pub core: &'a LoggedInodeCore,
    /// The data fork, without padding: contents or big-endian extent records as on disk; a btree root in the long
    /// form that btree *blocks* have, not in the short one of inodes.
    pub data_fork: Option<&'a [u8]>,
    /// The attribute fork, likewise.
    pub attribute_fork: Option<&'a [u8]>,
}

impl InodeFormatForm<'_> {
    /// The first region in the form that all current machines write.
    pub fn to_format(self) -> InodeFormat {
        match self {
            Self::Padded(format) => *format,
            Self::Packed(packed) => InodeFormat {
                kind: packed.kind,
                region_count: packed.region_count,
                fields: packed.fields,
                attribute_bytes: packed.attribute_bytes,
                data_bytes: packed.data_bytes,
                padding: U32::ZERO,
                inode: packed.inode,
                device: packed.device,
                padding2: packed.padding2,
                buffer_sector: packed.buffer_sector,
                buffer_sectors: packed.buffer_sectors,
                buffer_offset_bytes: packed.buffer_offset_bytes,
            },
        }
    }
}

impl<'a> InodeItem<'a> {
    /// The first region in the form that all current machines write.
    pub fn format(&self) -> InodeFormat {
        self.form.to_format()
    }

    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        let form = if regions.get(0).len() == PackedInodeFormat::SIZE_BYTES {
            InodeFormatForm::Packed(regions.exactly(0)?)
        } else {
            InodeFormatForm::Padded(regions.exactly(0)?)
        };
        let format = form.to_format();
        let fields = decode_fields(regions.item, format.fields.get())?;
        let core = regions.exactly::<LoggedInodeCore>(1)?;
        let (magic, version) = (core.magic.get(), core.version);
        if magic != INODE_MAGIC || version != 3 {
            return Err(LogItemFault::InodeCore { magic, version });
        }
        let (inode, in_core) = (format.inode.get(), core.inode.get());
        if inode != in_core {
            return Err(LogItemFault::InodeNumber { inode, core: in_core });
        }
        let mut next = 2usize;
        let mut fork = |kinds: InodeItemFields, length: u16| {
            let index = next;
            fields.intersects(kinds).then(|| {
                next = next.saturating_add(1);
                regions.padded(index, to_usize(length.into()))
            })
        };
        let data_fork = fork(InodeItemFields::DATA_FORK, format.data_bytes.get()).transpose()?;
        let attribute_fork =
            fork(InodeItemFields::ATTRIBUTE_FORK, format.attribute_bytes.get()).transpose()?;
        regions.expect_count(crate::convert::low_u32(crate::convert::to_u64(next)))?;
        Ok(Self { form, fields, core, data_fork, attribute_fork })
    }

    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        let format = self.format();
        let inode = format.inode.get();
        if geometry.inode_place(InodeNumber::new(inode)).is_none() {
            return Err(LogItemFault::NoSuchInode { item: ItemType::Inode, inode });
        }
        let offset = u64::try_from(format.buffer_offset_bytes.get()).unwrap_or(u64::MAX);
        let (sector, sectors) = (format.buffer_sector.get(), format.buffer_sectors.get().into());
        check_buffer(ItemType::Inode, geometry, sector, sectors, offset, geometry.inode_size_bytes.into())
    }

    pub(crate) fn parts(&self) -> Vec<ItemPart<'a>> {
        let format = match self.form {
            InodeFormatForm::Padded(format) => ItemPart::table("inode", format),
            InodeFormatForm::Packed(format) => ItemPart::table("inode", format),
        };
        let mut parts = vec![format, ItemPart::table("core", self.core)];
        parts.extend(self.data_fork.map(|fork| ItemPart::raw("data_fork", fork)));
        parts.extend(self.attribute_fork.map(|fork| ItemPart::raw("attr_fork", fork)));
        parts
    }
}

/// The known fields, with at most one form of each fork.
fn decode_fields(item: ItemType, bits: u32) -> Result<InodeItemFields, LogItemFault> {
    let fault = LogItemFault::Flags { item, flags: bits.into() };
    let fields = InodeItemFields::from_bits(bits).ok_or(fault)?;
    let forms = |kinds: InodeItemFields| fields.intersection(kinds).bits().count_ones();
    let single = forms(InodeItemFields::DATA_FORK) <= 1 && forms(InodeItemFields::ATTRIBUTE_FORK) <= 1;
    if single && fields.contains(InodeItemFields::CORE) { Ok(fields) } else { Err(fault) }
}

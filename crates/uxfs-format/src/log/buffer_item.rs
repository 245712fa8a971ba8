//! A changed buffer (BUF): a bitmap of its 128-byte chunks and the contents of those that changed.
//!
//! The format region is followed by one region for each run of marked chunks; a long run may be split. A buffer that
//! lies in several pieces on the device is logged as one such item for each piece.

use zerocopy::{
    FromBytes,
    little_endian::{I64, U16, U32},
};

use crate::{
    convert::{low_u32, to_u64, to_usize},
    field_table::OnDisk,
    geometry::Geometry,
    log::item::{ItemPart, ItemType, LogItemFault, Regions},
    on_disk,
    structure::Structure,
    units::{SECTOR_SIZE_BYTES, Sector},
};

/// Bytes for which one bit of the bitmap stands.
#[doc(alias = "XFS_BLF_CHUNK")]
pub const CHUNK_SIZE_BYTES: u32 = 128;
const CHUNKS_PER_SECTOR: u32 = 4;

bitflags::bitflags! {
    /// Properties of the buffer, in the low eleven bits of `flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct BufferFlags: u16 {
        /// Inodes; only their unlinked-list fields are logged.
        #[doc(alias = "XFS_BLF_INODE_BUF")]
        const INODES = 1;
        /// The blocks were freed: do not replay older changes.
        #[doc(alias = "XFS_BLF_CANCEL")]
        const CANCEL = 1 << 1;
        /// User quota records.
        #[doc(alias = "XFS_BLF_UDQUOT_BUF")]
        const USER_QUOTA = 1 << 2;
        /// Project quota records.
        #[doc(alias = "XFS_BLF_PDQUOT_BUF")]
        const PROJECT_QUOTA = 1 << 3;
        /// Group quota records.
        #[doc(alias = "XFS_BLF_GDQUOT_BUF")]
        const GROUP_QUOTA = 1 << 4;
    }
}

/// Bits of `flags` that hold the [`BufferContents`].
const CONTENTS_SHIFT: u32 = 11;

macro_rules! buffer_contents {
    ($($(#[$meta:meta])* $variant:ident = $raw:literal $name:literal,)*) => {
        /// The type of the buffer, in the high five bits of `flags`: it tells verifier and checksum.
        #[doc(alias = "xfs_blft")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum BufferContents {
            $( $(#[$meta])* $variant, )*
        }

        impl BufferContents {
            /// The type that `raw` stands for.
            pub const fn from_raw(raw: u16) -> Option<Self> {
                match raw {
                    $( $raw => Some(Self::$variant), )*
                    _ => None,
                }
            }

            /// The number in the log.
            pub const fn raw(self) -> u16 {
                match self {
                    $( Self::$variant => $raw, )*
                }
            }

            /// For people.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

/// `flags` of a buffer's item.
pub const fn buffer_flags(flags: BufferFlags, contents: BufferContents) -> u16 {
    flags.bits() | contents.raw().wrapping_shl(CONTENTS_SHIFT)
}

buffer_contents! {
    /// Not said: cancelled buffers.
    Unknown = 0 "unknown",
    /// User quota records.
    UserQuota = 1 "user quota",
    /// Project quota records.
    ProjectQuota = 2 "project quota",
    /// Group quota records.
    GroupQuota = 3 "group quota",
    /// A btree block.
    Btree = 4 "btree",
    /// AGF.
    FreeSpaceHeader = 5 "AGF",
    /// AGFL.
    FreeList = 6 "AGFL",
    /// AGI.
    InodeHeader = 7 "AGI",
    /// Inodes.
    Inodes = 8 "inodes",
    /// Symbolic link.
    Symlink = 9 "symlink",
    /// Single-block directory.
    DirectoryBlock = 10 "directory block",
    /// Directory data.
    DirectoryData = 11 "directory data",
    /// Directory free index.
    DirectoryFreeIndex = 12 "directory free index",
    /// Leaf of a leaf directory.
    DirectoryLeaf = 13 "directory leaf",
    /// Leaf of a node directory.
    DirectoryLeafNode = 14 "directory leaf node",
    /// Interior block of a directory or attribute tree.
    NameTreeNode = 15 "directory or attribute node",
    /// Attribute leaf.
    AttributeLeaf = 16 "attribute leaf",
    /// Remote attribute value.
    AttributeRemoteValue = 17 "remote attribute value",
    /// Superblock.
    Superblock = 18 "superblock",
    /// Realtime bitmap.
    RealtimeBitmap = 19 "realtime bitmap",
    /// Realtime summary.
    RealtimeSummary = 20 "realtime summary",
}

impl BufferContents {
    /// The log's type of a structure; `None` for one without buffers of its own.
    pub const fn of(structure: Structure) -> Option<Self> {
        Some(match structure {
            Structure::Superblock => Self::Superblock,
            Structure::FreeSpaceHeader => Self::FreeSpaceHeader,
            Structure::InodeHeader => Self::InodeHeader,
            Structure::FreeList => Self::FreeList,
            Structure::FreeSpaceByBlock
            | Structure::FreeSpaceByLength
            | Structure::InodeIndex
            | Structure::FreeInodeIndex
            | Structure::ReverseMap
            | Structure::ReferenceCount
            | Structure::ExtentMap => Self::Btree,
            Structure::InodeCluster => Self::Inodes,
            Structure::DirectoryBlock => Self::DirectoryBlock,
            Structure::DirectoryData => Self::DirectoryData,
            Structure::DirectoryFreeIndex => Self::DirectoryFreeIndex,
            Structure::DirectoryLeaf => Self::DirectoryLeaf,
            Structure::DirectoryLeafNode => Self::DirectoryLeafNode,
            Structure::DirectoryNode | Structure::AttributeNode => Self::NameTreeNode,
            Structure::AttributeLeaf => Self::AttributeLeaf,
            Structure::AttributeRemoteValue => Self::AttributeRemoteValue,
            Structure::Symlink => Self::Symlink,
            _ => return None,
        })
    }
}

on_disk! {
    /// First region of a BUF, without the bitmap words that follow.
    #[doc(alias = "xfs_buf_log_format")]
    pub struct BufferFormat {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions, this one included.
        pub region_count: U16 => "size" Decimal little,
        /// [`BufferFlags`] and [`BufferContents`].
        pub flags: U16 => "flags" Hexadecimal little,
        /// 512-byte units in the buffer.
        pub length_sectors: U16 => "len" Decimal little,
        /// First 512-byte unit of the buffer.
        pub sector: I64 => "blkno" SignedDecimal little,
        /// Words of the bitmap.
        pub map_words: U32 => "map_size" Decimal little,
    }
}

impl BufferFormat {
    /// Properties.
    pub fn buffer_flags(&self) -> BufferFlags {
        BufferFlags::from_bits_truncate(self.flags.get())
    }

    /// The type of the buffer, or `None` where that is unknown.
    pub fn contents(&self) -> Option<BufferContents> {
        BufferContents::from_raw(self.flags.get().wrapping_shr(CONTENTS_SHIFT))
    }
}

/// BUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferItem<'a> {
    /// First region.
    pub format: &'a BufferFormat,
    /// Bitmap of changed chunks, least significant bit first.
    pub map: &'a [U32],
    /// Contents of the marked chunks, in order.
    pub contents: &'a [&'a [u8]],
}

impl<'a> BufferItem<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        let (format, rest) = regions.prefix::<BufferFormat>(0)?;
        let words = format.map_words.get();
        let map = <[U32]>::ref_from_prefix_with_elems(rest, to_usize(words));
        let needed = u64::from(words).saturating_mul(4).saturating_add(to_u64(BufferFormat::SIZE_BYTES));
        let (map, _) = map.map_err(|_| regions.length_fault(0, needed))?;
        let known = BufferFlags::all().bits();
        let low_flags = format.flags.get() & 0x7ff;
        if low_flags & !known != 0 || format.contents().is_none() || format.length_sectors.get() == 0 {
            let flags = format.flags.get().into();
            return Err(LogItemFault::Flags { item: regions.item, flags });
        }
        let contents = regions.all.get(1..).unwrap_or_default();
        let item = Self { format, map, contents };
        if format.buffer_flags().contains(BufferFlags::CANCEL) {
            regions.expect_count(1)?;
        } else {
            item.check_runs()?;
        }
        Ok(item)
    }

    /// Checks that the regions are whole chunks which fill the marked runs in order.
    fn check_runs(&self) -> Result<(), LogItemFault> {
        let chunks = u32::from(self.format.length_sectors.get()).saturating_mul(CHUNKS_PER_SECTOR);
        let mut chunk = self.next_marked(0);
        for (index, contents) in self.contents.iter().enumerate() {
            let run = chunk.map_or(0, |chunk| self.run_length(chunk));
            let run_bytes = u64::from(run).saturating_mul(CHUNK_SIZE_BYTES.into());
            let length_bytes = to_u64(contents.len());
            let whole = length_bytes > 0 && length_bytes.is_multiple_of(CHUNK_SIZE_BYTES.into());
            let Some(first) = chunk.filter(|_| whole && length_bytes <= run_bytes) else {
                let region = low_u32(to_u64(index)).saturating_add(1);
                return Err(LogItemFault::ChunkRun { region, length_bytes, run_bytes });
            };
            let filled = chunks_in(contents);
            let end = first.saturating_add(filled);
            if end > chunks {
                return Err(LogItemFault::ChunkOutside { chunk: end.saturating_sub(1), chunks });
            }
            chunk = self.next_marked(end);
        }
        chunk.map_or(Ok(()), |chunk| Err(LogItemFault::ChunkMissing { chunk }))
    }

    fn is_marked(&self, chunk: u32) -> bool {
        let word = self.map.get(to_usize(chunk / 32)).map_or(0, |word| word.get());
        word & 1u32.wrapping_shl(chunk & 31) != 0
    }

    fn map_bits(&self) -> u32 {
        low_u32(to_u64(self.map.len())).saturating_mul(32)
    }

    /// The first marked chunk from `chunk` on.
    fn next_marked(&self, chunk: u32) -> Option<u32> {
        (chunk..self.map_bits()).find(|chunk| self.is_marked(*chunk))
    }

    fn run_length(&self, chunk: u32) -> u32 {
        let end = (chunk..self.map_bits()).find(|chunk| !self.is_marked(*chunk)).unwrap_or(self.map_bits());
        end.saturating_sub(chunk)
    }

    /// Byte in the buffer and new contents of each logged stretch. Nothing for a cancelled buffer.
    pub fn changes(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let item = *self;
        let mut next = 0;
        let is_cancel = self.format.buffer_flags().contains(BufferFlags::CANCEL);
        let regions = if is_cancel { &[][..] } else { item.contents };
        regions.iter().filter_map(move |contents| {
            let chunk = item.next_marked(next)?;
            next = chunk.saturating_add(chunks_in(contents));
            Some((chunk.saturating_mul(CHUNK_SIZE_BYTES), *contents))
        })
    }

    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        let contents = self.format.contents();
        // These lie on the realtime section, of which nothing is known here.
        if matches!(contents, Some(BufferContents::RealtimeBitmap | BufferContents::RealtimeSummary)) {
            return Ok(());
        }
        let length = i64::from(self.format.length_sectors.get());
        check_buffer(ItemType::Buffer, geometry, self.format.sector.get(), length, 0, 0)
    }

    pub(crate) fn parts(&self) -> Vec<ItemPart<'a>> {
        use zerocopy::IntoBytes;
        let mut parts =
            vec![ItemPart::table("buf", self.format), ItemPart::raw("data_map", self.map.as_bytes())];
        parts.extend(self.contents.iter().map(|contents| ItemPart::raw("data", contents)));
        parts
    }
}

fn chunks_in(contents: &[u8]) -> u32 {
    low_u32(to_u64(contents.len())) / CHUNK_SIZE_BYTES
}

/// Checks that a buffer lies in the data section and that `part_bytes` bytes at `offset_bytes` lie in the buffer.
pub(crate) fn check_buffer(
    item: ItemType,
    geometry: &Geometry,
    sector: i64,
    sectors: i64,
    offset_bytes: u64,
    part_bytes: u64,
) -> Result<(), LogItemFault> {
    let start = u64::try_from(sector).unwrap_or(u64::MAX);
    let length = u64::try_from(sectors).unwrap_or(0);
    let last = start.checked_add(length).and_then(|end| end.checked_sub(1));
    let lies_inside = last.is_some_and(|last| geometry.block_of_sector(Sector::new(last)).is_some());
    let end = offset_bytes.checked_add(part_bytes);
    let part_inside = end.is_some_and(|end| end <= length.saturating_mul(SECTOR_SIZE_BYTES));
    if length > 0 && lies_inside && part_inside {
        return Ok(());
    }
    Err(LogItemFault::OutsideFileSystem { item, start, length })
}

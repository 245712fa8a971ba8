//! The verifiers: of one inode when it is used, and of a buffer of inodes when it is read.
//!
//! Every check is one that Linux makes before it lets an inode be used, and none is stricter: what the kernel reads,
//! uxfs reads. [`verify_inode`] runs for every inode of a bulk scan and neither allocates nor loops.

use crate::{
    checksum,
    convert::to_u64,
    features::Incompatible,
    field_table::OnDisk,
    geometry::{DIRECTORY_SPACE_BYTES, Geometry, INODE_CORE_SIZE_BYTES},
    header_fault::HeaderFault,
    inode::{
        core::{CHECKSUM_OFFSET_BYTES, InodeCore, MAGIC, VERSION},
        fault::InodeFault,
        file_type::FileType,
        flags::{InodeFlags, InodeFlags2},
        fork::{EXTENT_RECORD_SIZE_BYTES, Fork, ForkFormat},
    },
    units::{AgInode, AgNumber, InodeNumber},
    verify_context::VerifyContext,
};

/// The longest extent, and so the largest hint.
#[doc(alias = "XFS_MAX_BMBT_EXTLEN")]
pub const EXTENT_LENGTH_MAX_BLOCKS: u32 = (1 << 21) - 1;
/// Codes of [`InodeCore::metadata_type`] lie below this.
#[doc(alias = "XFS_METAFILE_MAX")]
const METADATA_TYPE_END: u16 = 9;
/// Reverse map of a realtime group.
#[doc(alias = "XFS_METAFILE_RTRMAP")]
pub(crate) const METADATA_TYPE_REVERSE_MAP: u16 = 7;
/// Reference counts of a realtime group.
#[doc(alias = "XFS_METAFILE_RTREFCOUNT")]
pub(crate) const METADATA_TYPE_REFERENCE_COUNT: u16 = 8;

/// Verifies the bytes of one inode, which should be inode `number`. Free inodes pass; see [`InodeCore::is_free`].
///
/// # Errors
/// The first check that fails.
pub fn verify_inode<'a>(
    bytes: &'a [u8],
    number: InodeNumber,
    geometry: &Geometry,
) -> Result<&'a InodeCore, InodeFault> {
    let inode =
        bytes.get(..geometry.inode_size()).ok_or_else(|| truncated(bytes, geometry.inode_size_bytes))?;
    let core = InodeCore::prefix_of(inode).ok_or_else(|| truncated(bytes, INODE_CORE_SIZE_BYTES))?;
    verify_identity(core, inode, number, geometry)?;
    verify_inode_fields(core, geometry)?;
    Ok(core)
}

/// Verifies what the fields of an inode say about each other: all of [`verify_inode`] but magic, version, checksum, number and
/// uuid. Writers hold an inode to it before they store it.
///
/// # Errors
/// The first check that fails.
pub fn verify_inode_fields(core: &InodeCore, geometry: &Geometry) -> Result<(), InodeFault> {
    Check { core, geometry, mode: core.mode.get(), kind: core.file_type() }.contents()
}

/// Verifies a buffer of inodes as far as concerns them all: that they are inodes, and that the lists of inodes without
/// names stay within the group. Linux refuses the whole buffer for one bad inode, and so must a writer.
///
/// # Errors
/// The first check that fails.
pub fn verify_inode_cluster(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), InodeFault> {
    let geometry = context.geometry;
    let (group, _, _) = geometry.block_of_sector(context.sector).unwrap_or_default();
    if bytes.is_empty() || to_u64(bytes.len()) & u64::from(geometry.inode_size_bytes.wrapping_sub(1)) != 0 {
        return Err(truncated(bytes, geometry.inode_size_bytes));
    }
    for (index, inode) in (0..).zip(bytes.chunks_exact(geometry.inode_size().max(1))) {
        let core = InodeCore::prefix_of(inode).ok_or_else(|| truncated(bytes, INODE_CORE_SIZE_BYTES))?;
        verify_cluster_member(core, index, group, geometry)?;
    }
    Ok(())
}

/// Verifies one inode whose number follows from where it lies.
///
/// # Errors
/// The first check that fails.
pub fn verify_inode_in_place(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), InodeFault> {
    let geometry = context.geometry;
    let number = geometry.block_of_sector(context.sector).and_then(|(group, block, offset_bytes)| {
        let first = block.get().checked_shl(geometry.inodes_per_block_log)?;
        let index = offset_bytes.wrapping_shr(geometry.inode_log);
        Some(geometry.inode_number(group, AgInode::new(first.checked_add(index)?)))
    });
    verify_inode(bytes, number.unwrap_or(InodeNumber::NULL), geometry).map(|_| ())
}

fn truncated(bytes: &[u8], needed_bytes: u32) -> InodeFault {
    HeaderFault::Truncated { length_bytes: to_u64(bytes.len()), needed_bytes: needed_bytes.into() }.into()
}

fn verify_cluster_member(
    core: &InodeCore,
    index: u32,
    group: AgNumber,
    geometry: &Geometry,
) -> Result<(), InodeFault> {
    if core.magic.get() != MAGIC {
        return Err(InodeFault::ClusterMagic { index, found: core.magic.get() });
    }
    if core.version != VERSION {
        return Err(InodeFault::ClusterVersion { index, found: core.version });
    }
    let next = AgInode::new(core.next_unlinked.get());
    if !next.is_null() && !geometry.group_may_hold_inode(group, next) {
        return Err(InodeFault::NextUnlinked { index, found: next.get() });
    }
    Ok(())
}

fn verify_identity(
    core: &InodeCore,
    inode: &[u8],
    number: InodeNumber,
    geometry: &Geometry,
) -> Result<(), InodeFault> {
    if core.magic.get() != MAGIC {
        let (found, expected) = (core.magic.get().into(), MAGIC.into());
        return Err(HeaderFault::BadMagic { found, expected }.into());
    }
    if core.version != VERSION {
        return Err(InodeFault::Version { found: core.version });
    }
    checksum::check(inode, CHECKSUM_OFFSET_BYTES).map_err(HeaderFault::from)?;
    if core.inode_number() != number {
        let (found, expected) = (core.number.get(), number.get());
        return Err(InodeFault::Number { found, expected });
    }
    if core.uuid != geometry.metadata_uuid {
        let (found, expected) = (core.uuid, geometry.metadata_uuid);
        return Err(HeaderFault::WrongUuid { found, expected }.into());
    }
    Ok(())
}

/// One inode under verification, with what most checks look at.
struct Check<'a> {
    core: &'a InodeCore,
    geometry: &'a Geometry,
    mode: u16,
    kind: Option<FileType>,
}

impl Check<'_> {
    fn contents(&self) -> Result<(), InodeFault> {
        self.basics()?;
        self.extent_counts()?;
        if !self.core.is_free() && self.has_flag(InodeFlags::REALTIME) && self.geometry.realtime_blocks == 0 {
            return Err(InodeFault::RealtimeWithoutDevice);
        }
        self.fork_offset()?;
        self.data_fork()?;
        self.attribute_fork()?;
        self.extent_size()?;
        self.reflink()?;
        self.cow_extent_size()?;
        if self.has_flag2(InodeFlags2::BIG_TIME) && !self.has_feature(Incompatible::BIG_TIME) {
            return Err(InodeFault::BigTimeWithoutFeature);
        }
        if self.has_flag2(InodeFlags2::METADATA) {
            self.metadata_file()?;
        }
        self.blocks_have_extents()
    }

    fn has_flag(&self, flag: InodeFlags) -> bool {
        self.core.flags().intersects(flag)
    }

    fn has_flag2(&self, flag: InodeFlags2) -> bool {
        self.core.flags2().intersects(flag)
    }

    fn has_feature(&self, feature: Incompatible) -> bool {
        self.geometry.features.incompatible.contains(feature)
    }

    fn basics(&self) -> Result<(), InodeFault> {
        let core = self.core;
        if core.metadata_type.get() != 0 && !self.has_flag2(InodeFlags2::METADATA) {
            return Err(InodeFault::OldLinkCount { value: core.metadata_type.get() });
        }
        let size_bytes = core.size_bytes.get();
        if size_bytes >= 1 << 63 {
            return Err(InodeFault::NegativeSize { size_bytes });
        }
        if self.mode != 0 && self.kind.is_none() {
            return Err(InodeFault::Mode { mode: self.mode });
        }
        let link_count = core.link_count.get();
        let needs_size = matches!(self.kind, Some(FileType::Directory | FileType::SymbolicLink));
        // Those without links are being deleted, and lose their contents first.
        if needs_size && size_bytes == 0 && link_count != 0 {
            return Err(InodeFault::ZeroSize { mode: self.mode, link_count });
        }
        Ok(())
    }

    fn extent_counts(&self) -> Result<(), InodeFault> {
        let core = self.core;
        if self.has_flag2(InodeFlags2::LARGE_EXTENT_COUNTS) {
            if !self.has_feature(Incompatible::LARGE_EXTENT_COUNTS) {
                return Err(InodeFault::LargeCountsWithoutFeature);
            }
            if core.attribute_extent_count.get() != 0 {
                return Err(InodeFault::LargeCountsPadding { value: core.attribute_extent_count.get() });
            }
        } else if core.large_extent_count.get() != 0 {
            return Err(InodeFault::SmallCountsPadding { value: core.large_extent_count.get() });
        }
        let (extents, attribute_extents) =
            (core.extent_count(Fork::Data), core.extent_count(Fork::Attribute));
        let blocks = core.blocks.get();
        if self.mode != 0 && extents.saturating_add(attribute_extents) > blocks {
            return Err(InodeFault::MoreExtentsThanBlocks { extents, attribute_extents, blocks });
        }
        let extents_max = self.directory_extents_max();
        if self.kind == Some(FileType::Directory) && extents > extents_max {
            return Err(InodeFault::DirectoryExtents { extents, extents_max });
        }
        Ok(())
    }

    /// Three address spaces of single-block extents, where counters can say so many.
    fn directory_extents_max(&self) -> u64 {
        if self.has_feature(Incompatible::LARGE_EXTENT_COUNTS) {
            DIRECTORY_SPACE_BYTES.wrapping_mul(3).wrapping_shr(self.geometry.block_log)
        } else {
            (1 << 31) - 1
        }
    }

    fn fork_offset(&self) -> Result<(), InodeFault> {
        let fork_offset = self.core.fork_offset;
        if fork_offset == 0 {
            return Ok(());
        }
        match self.core.fork_format(Fork::Data) {
            None => Err(InodeFault::UnknownFormat { fork: Fork::Data, format: self.core.format }),
            Some(ForkFormat::Device) if fork_offset != 1 => Err(InodeFault::DeviceForkOffset { fork_offset }),
            Some(ForkFormat::Device) => Ok(()),
            Some(ForkFormat::MetadataBtree)
                if !self.geometry.features.has_metadata_directory()
                    || !self.geometry.features.has_parent_pointers() =>
            {
                Err(InodeFault::MetadataBtreeForkOffset { fork_offset })
            }
            Some(_) => {
                let literal_size_bytes = self.geometry.literal_size_bytes();
                if self.core.fork_offset_bytes() >= literal_size_bytes & !7 {
                    return Err(InodeFault::ForkOffset { fork_offset, literal_size_bytes });
                }
                Ok(())
            }
        }
    }

    fn data_fork(&self) -> Result<(), InodeFault> {
        let format = self.core.format;
        match self.kind {
            None => Ok(()),
            Some(kind) if kind.is_special() => {
                if self.core.fork_format(Fork::Data) != Some(ForkFormat::Device) {
                    return Err(InodeFault::SpecialFileFormat { mode: self.mode, format });
                }
                Ok(())
            }
            Some(kind) => {
                self.local_or_not(kind)?;
                self.fork(Fork::Data, format)
            }
        }
    }

    /// Contents that fit the inode lie in it, others do not.
    fn local_or_not(&self, kind: FileType) -> Result<(), InodeFault> {
        let size_bytes = self.core.size_bytes.get();
        let fork_size_bytes = self.core.fork_size_bytes(Fork::Data, self.geometry.inode_size_bytes);
        let fits = size_bytes <= fork_size_bytes.into();
        let format = self.core.fork_format(Fork::Data);
        if kind == FileType::Directory && size_bytes != 0 && fits && format != Some(ForkFormat::Local) {
            return Err(InodeFault::DirectoryNotLocal { size_bytes, fork_size_bytes });
        }
        // Attributes may have driven a short link out of the inode and have gone since.
        let link_format = matches!(format, Some(ForkFormat::Local | ForkFormat::Extents));
        if kind == FileType::SymbolicLink && fits && !link_format {
            return Err(InodeFault::SymlinkFormat { size_bytes, format: self.core.format });
        }
        if !fits && format == Some(ForkFormat::Local) {
            return Err(InodeFault::LocalTooLarge { size_bytes, fork_size_bytes });
        }
        if kind == FileType::Regular && format == Some(ForkFormat::Local) {
            return Err(InodeFault::LocalRegularFile);
        }
        Ok(())
    }

    fn attribute_fork(&self) -> Result<(), InodeFault> {
        let format = self.core.attribute_format;
        if self.core.has_attribute_fork() {
            return self.fork(Fork::Attribute, format);
        }
        // A chunk of new inodes has format 0.
        if !matches!(ForkFormat::from_code(format), Some(ForkFormat::Device | ForkFormat::Extents)) {
            return Err(InodeFault::AttributeFormatWithoutFork { format });
        }
        let extents = self.core.extent_count(Fork::Attribute);
        if extents != 0 {
            return Err(InodeFault::AttributeExtentsWithoutFork { extents });
        }
        Ok(())
    }

    fn fork(&self, fork: Fork, format: u8) -> Result<(), InodeFault> {
        let extents = self.core.extent_count(fork);
        let size_bytes = self.core.fork_size_bytes(fork, self.geometry.inode_size_bytes);
        let inline_extents_max = u64::from(size_bytes.wrapping_div(EXTENT_RECORD_SIZE_BYTES));
        match ForkFormat::from_code(format) {
            None => Err(InodeFault::UnknownFormat { fork, format }),
            Some(ForkFormat::Device) => Err(InodeFault::Format { fork, format }),
            Some(ForkFormat::Local) if extents != 0 => Err(InodeFault::LocalWithExtents { fork, extents }),
            Some(ForkFormat::Local) => Ok(()),
            Some(ForkFormat::Extents) if extents > inline_extents_max => {
                Err(InodeFault::TooManyInlineExtents { fork, extents, extents_max: inline_extents_max })
            }
            Some(ForkFormat::Extents) => Ok(()),
            Some(ForkFormat::Btree) => {
                let extents_max = self.core.extent_count_max(fork);
                if extents > extents_max {
                    return Err(InodeFault::TooManyExtents { fork, extents, extents_max });
                }
                if extents <= inline_extents_max && self.mode != 0 {
                    return Err(InodeFault::BtreeNotNeeded { fork, extents, inline_extents_max });
                }
                Ok(())
            }
            Some(ForkFormat::MetadataBtree) => self.metadata_btree(fork),
        }
    }

    fn metadata_btree(&self, fork: Fork) -> Result<(), InodeFault> {
        let features = &self.geometry.features;
        if !features.has_metadata_directory() {
            return Err(InodeFault::MetadataBtreeWithoutFeature { fork });
        }
        if !self.has_flag2(InodeFlags2::METADATA) {
            return Err(InodeFault::MetadataBtreeFlag { fork });
        }
        let metadata_type = self.core.metadata_type.get();
        let has_btree = match metadata_type {
            METADATA_TYPE_REVERSE_MAP => features.has_reverse_map(),
            METADATA_TYPE_REFERENCE_COUNT => features.has_reflink(),
            _ => false,
        };
        if has_btree { Ok(()) } else { Err(InodeFault::MetadataBtreeType { fork, metadata_type }) }
    }

    fn extent_size(&self) -> Result<(), InodeFault> {
        let blocks = self.core.extent_size_blocks.get();
        let hint = self.has_flag(InodeFlags::EXTENT_SIZE);
        let inherit = self.has_flag(InodeFlags::EXTENT_SIZE_INHERIT);
        let fits_type = (!hint || self.kind == Some(FileType::Regular))
            && (!inherit || self.kind == Some(FileType::Directory));
        if !fits_type {
            return Err(InodeFault::ExtentSizeFileType { mode: self.mode, flags: self.core.flags.get() });
        }
        if (hint || inherit) && blocks == 0 {
            return Err(InodeFault::ExtentSizeZero);
        }
        // Freeing an inode clears its flags and leaves the hint.
        if self.mode != 0 && !(hint || inherit) && blocks != 0 {
            return Err(InodeFault::ExtentSizeUnflagged { blocks });
        }
        let (unit_blocks, blocks_max) = self.hint_limits();
        if blocks.checked_rem(unit_blocks).unwrap_or(0) != 0 {
            return Err(InodeFault::ExtentSizeAlignment { blocks, unit_blocks });
        }
        if blocks > blocks_max {
            return Err(InodeFault::ExtentSizeTooLarge { blocks, blocks_max });
        }
        Ok(())
    }

    fn cow_extent_size(&self) -> Result<(), InodeFault> {
        let blocks = self.core.cow_extent_size_blocks.get();
        if self.has_feature(Incompatible::ZONED) && self.core.metadata_type.get() == METADATA_TYPE_REVERSE_MAP
        {
            let blocks_max = self.geometry.realtime_group_extents;
            if blocks > blocks_max {
                return Err(InodeFault::ZoneUsedBlocks { blocks, blocks_max });
            }
            return Ok(());
        }
        let hint = self.has_flag2(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE);
        if hint && !matches!(self.kind, Some(FileType::Regular | FileType::Directory)) {
            return Err(InodeFault::CowExtentSizeFileType { mode: self.mode });
        }
        if hint && blocks == 0 {
            return Err(InodeFault::CowExtentSizeZero);
        }
        if self.mode != 0 && !hint && blocks != 0 {
            return Err(InodeFault::CowExtentSizeUnflagged { blocks });
        }
        let (unit_blocks, blocks_max) = self.hint_limits();
        if blocks.checked_rem(unit_blocks).unwrap_or(0) != 0 {
            return Err(InodeFault::CowExtentSizeAlignment { blocks, unit_blocks });
        }
        if blocks > blocks_max {
            return Err(InodeFault::CowExtentSizeTooLarge { blocks, blocks_max });
        }
        Ok(())
    }

    /// The unit of a hint, and its limit: half a group, so that alignment never drives an extent out
    /// of it.
    fn hint_limits(&self) -> (u32, u32) {
        if self.has_flag(InodeFlags::REALTIME) {
            (self.geometry.realtime_extent_size_blocks, EXTENT_LENGTH_MAX_BLOCKS)
        } else {
            (1, EXTENT_LENGTH_MAX_BLOCKS.min(self.geometry.ag_blocks.wrapping_shr(1)))
        }
    }

    fn reflink(&self) -> Result<(), InodeFault> {
        let sharing = InodeFlags2::REFLINK | InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE;
        if self.has_flag2(sharing) && !self.geometry.features.has_reflink() {
            return Err(InodeFault::ReflinkWithoutFeature { flags2: self.core.flags2.get() });
        }
        if !self.has_flag2(InodeFlags2::REFLINK) {
            return Ok(());
        }
        if self.kind != Some(FileType::Regular) {
            return Err(InodeFault::ReflinkFileType { mode: self.mode });
        }
        // Realtime groups, which come with the metadata directory, can share extents.
        if self.has_flag(InodeFlags::REALTIME) && !self.geometry.features.has_metadata_directory() {
            return Err(InodeFault::ReflinkRealtime);
        }
        Ok(())
    }

    fn metadata_file(&self) -> Result<(), InodeFault> {
        let core = self.core;
        if !self.geometry.features.has_metadata_directory() {
            return Err(InodeFault::MetadataWithoutFeature);
        }
        let metadata_type = core.metadata_type.get();
        if metadata_type >= METADATA_TYPE_END {
            return Err(InodeFault::MetadataType { metadata_type });
        }
        let needed = match self.kind {
            Some(FileType::Directory) => InodeFlags::METADATA_DIRECTORY,
            Some(FileType::Regular) => InodeFlags::METADATA_FILE,
            _ => return Err(InodeFault::MetadataFileType { mode: self.mode }),
        };
        if self.mode & 0o777 != 0 {
            return Err(InodeFault::MetadataPermissions { mode: self.mode });
        }
        let (event_mask, state) = (core.dmapi_event_mask.get(), core.dmapi_state.get());
        if event_mask != 0 || state != 0 {
            return Err(InodeFault::MetadataDmapi { event_mask, state });
        }
        let (uid, gid) = (core.uid.get(), core.gid.get());
        if uid != 0 || gid != 0 {
            return Err(InodeFault::MetadataOwner { uid, gid });
        }
        if !core.flags().contains(needed) {
            return Err(InodeFault::MetadataFlags { flags: core.flags.get(), needed: needed.bits() });
        }
        if self.has_flag2(InodeFlags2::DAX) {
            return Err(InodeFault::MetadataDax);
        }
        Ok(())
    }

    fn blocks_have_extents(&self) -> Result<(), InodeFault> {
        let blocks = self.core.blocks.get();
        let extents = self.core.extent_count(Fork::Data) | self.core.extent_count(Fork::Attribute);
        // Btrees of realtime metadata are not counted as extents.
        if self.core.fork_format(Fork::Data) != Some(ForkFormat::MetadataBtree) && extents == 0 && blocks != 0
        {
            return Err(InodeFault::BlocksWithoutExtents { blocks });
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;

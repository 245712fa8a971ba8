//! Fields of an inode core that no verifier looks at: Linux reads the inode whatever they say, and `xfs_repair` objects.

use uxfs_format::{
    btree::extent_map::Extent,
    geometry::Geometry,
    inode::{
        FileType, Fork, InodeCore, InodeFlags, InodeFlags2,
        symlink::{target_blocks, verify_target_length},
        timestamp::DiskTimestamp,
    },
    superblock::Superblock,
    units::{InodeNumber, Lsn},
};

use uxfs_volume::{inode::Inode, volume::Volume};

use crate::{
    check::Context,
    finding::{Finding, InodeTime},
    reference_count,
};

/// Flags that only directories have.
const OF_DIRECTORIES: InodeFlags = InodeFlags::REALTIME_INHERIT
    .union(InodeFlags::PROJECT_INHERIT)
    .union(InodeFlags::NO_SYMLINKS)
    .union(InodeFlags::EXTENT_SIZE_INHERIT);
/// Flags that only regular files have.
const OF_FILES: InodeFlags = InodeFlags::REALTIME.union(InodeFlags::EXTENT_SIZE);
/// The bit that means nothing.
const UNKNOWN: InodeFlags = InodeFlags::from_bits_retain(0x8000);
/// Bits of the second word that mean something.
const KNOWN2: InodeFlags2 = InodeFlags2::from_bits_retain(0x3f);
/// Type of a realtime bitmap in the metadata directory tree.
#[doc(alias = "XFS_METAFILE_RTBITMAP")]
const METADATA_TYPE_BITMAP: u16 = 5;
/// Nanoseconds lie below this.
const SECOND: u32 = 1_000_000_000;

/// Flags of an inode that it may not have.
pub(crate) fn unfit_flags(
    core: &InodeCore,
    number: InodeNumber,
    superblock: &Superblock,
) -> (InodeFlags, InodeFlags2) {
    let (flags, flags2) = (core.flags(), core.flags2());
    let mut unfit = UNKNOWN;
    let mut unfit2 = !KNOWN2;
    let is_bitmap = superblock.realtime_bitmap_inode.get() == number.get()
        || flags2.contains(InodeFlags2::METADATA) && core.metadata_type.get() == METADATA_TYPE_BITMAP;
    if !is_bitmap {
        unfit |= InodeFlags::NEW_REALTIME_BITMAP;
    }
    match core.file_type() {
        // What freeing an inode leaves does no harm.
        _ if core.is_free() => {
            if superblock.realtime_blocks.get() == 0 {
                unfit |= InodeFlags::REALTIME;
            }
        }
        Some(FileType::Regular) => unfit |= OF_DIRECTORIES,
        Some(FileType::Directory) => unfit |= OF_FILES,
        _ => {
            unfit |= OF_DIRECTORIES | OF_FILES;
            unfit2 |= InodeFlags2::DAX;
        }
    }
    (flags & unfit, flags2 & unfit2)
}

/// Times of an inode whose nanoseconds make a second or more. Times that are one number of 64 bits cannot have that.
pub(crate) fn unfit_times(core: &InodeCore) -> impl Iterator<Item = (InodeTime, u32)> {
    let is_big = core.flags2().contains(InodeFlags2::BIG_TIME) || core.is_free();
    let times = [
        (InodeTime::Access, core.access_time),
        (InodeTime::Modification, core.modification_time),
        (InodeTime::Change, core.change_time),
        (InodeTime::Creation, core.creation_time),
    ];
    let found = times.into_iter().map(|(name, time)| (name, nanoseconds(time)));
    found.filter(move |(_, nanoseconds)| !is_big && *nanoseconds >= SECOND)
}

fn nanoseconds(time: DiskTimestamp) -> u32 {
    (time.0.get() & u64::from(u32::MAX)) as u32
}

/// The time without its nanoseconds.
pub(crate) fn whole_seconds(time: DiskTimestamp) -> DiskTimestamp {
    DiskTimestamp((time.0.get() & !u64::from(u32::MAX)).into())
}

/// Blocks that a target of this size takes outside the inode; `None` where there is no such target.
pub(crate) fn symlink_blocks(size_bytes: u64, geometry: &Geometry) -> Option<u64> {
    let length_bytes = verify_target_length(size_bytes).ok()?;
    Some(target_blocks(length_bytes, geometry).into())
}

/// Whether an extent of a data fork may be marked as never written: contents of regular files may, and only what has been written is shared.
pub(crate) fn may_be_unwritten(volume: &Volume, core: &InodeCore, extent: &Extent) -> bool {
    core.file_type() == Some(FileType::Regular)
        && !(core.flags2().contains(InodeFlags2::REFLINK)
            && reference_count::check::is_shared(volume, extent))
}

/// The log sequence number of an inode that the log has not reached, and where the log ends.
pub(crate) fn ahead_of_log(core: &InodeCore, volume: &Volume) -> Option<(Lsn, Lsn)> {
    let (found, head) = (Lsn::new(core.lsn.get()), volume.newest_lsn().get()?);
    (found > head && found != Lsn::NULL).then_some((found, head))
}

/// Whether a regular file has blocks that others have as well.
pub(crate) fn has_shared_blocks(core: &InodeCore, inode: &Inode, volume: &Volume) -> bool {
    let may_have = core.file_type() == Some(FileType::Regular) && !inode.is_realtime();
    let map = may_have.then(|| volume.extent_map(inode, Fork::Data).ok()).flatten();
    map.is_some_and(|map| map.iter().any(|extent| reference_count::check::is_shared(volume, &extent)))
}

/// Where the data of a directory ends that has blocks: the size that it must have.
pub(crate) fn directory_size(inode: &Inode, volume: &Volume) -> Option<u64> {
    if inode.file_type() != Some(FileType::Directory) || !inode.has_extents(Fork::Data) {
        return None;
    }
    let geometry = volume.geometry();
    let map = volume.extent_map(inode, Fork::Data).ok()?;
    let is_data = |extent: &Extent| extent.file_block < geometry.directory_leaf_start();
    let last = map.iter().take_while(is_data).last()?;
    last.end().get().checked_mul(geometry.block_size_bytes.into())
}

/// Reports what is unfit about an inode, in use or free.
pub(crate) fn check(context: &Context<'_>, inode: InodeNumber, core: &InodeCore) {
    let (flags, flags2) = unfit_flags(core, inode, context.volume.superblock());
    if !flags.is_empty() || !flags2.is_empty() {
        context.sink.add(Finding::InodeFlags { inode, flags: flags.bits(), flags2: flags2.bits() });
    }
    if let Some((found, head)) = ahead_of_log(core, context.volume) {
        context.sink.add(Finding::InodeAheadOfLog { inode, found, head });
    }
    for (time, nanoseconds) in unfit_times(core) {
        context.sink.add(Finding::InodeTime { inode, time, nanoseconds });
    }
}

/// Whether the size of an inode stands for nothing: that of a special file, or of a bitmap of a realtime section that does not exist.
pub(crate) fn has_useless_size(core: &InodeCore, inode: InodeNumber, superblock: &Superblock) -> bool {
    let internal = [superblock.realtime_bitmap_inode.get(), superblock.realtime_summary_inode.get()];
    let is_unused = superblock.realtime_blocks.get() == 0 && internal.contains(&inode.get());
    (is_unused || core.file_type().is_some_and(FileType::is_special)) && core.size_bytes.get() != 0
}

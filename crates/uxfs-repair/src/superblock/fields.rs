//! Fields of a superblock that its verifier passes over, and that Linux or `xfs_repair` object to.

use uxfs_format::{
    features::{Features2, Incompatible, LogIncompatible, VersionBits},
    field_table::OnDisk,
    superblock::Superblock,
};

use super::{realtime, sectors};

/// Where the uuid of metadata begins, which only file systems with that feature have.
const METADATA_UUID_OFFSET_BYTES: usize = 248;
/// Where the fields of the metadata directory begin.
const METADATA_DIRECTORY_OFFSET_BYTES: usize = 264;
/// The widest stripe that Linux takes.
const MOST_STRIPE_WIDTH_BYTES: u64 = (1 << 31) - 1;
/// Text of the finding for a clear attribute bit.
pub(crate) const ATTRIBUTE_BIT: &str = "attribute bit 0, but inodes have attributes";
/// "There is none", beside 0.
const NULL_INODE: u64 = u64::MAX;

fn has(superblock: &Superblock, feature: Incompatible) -> bool {
    Incompatible::from_bits_retain(superblock.incompatible.get()).intersects(feature)
}

fn has_bit(superblock: &Superblock, bit: VersionBits) -> bool {
    VersionBits::from_bits_retain(superblock.version_number.get()).contains(bit)
}

/// The bytes of a superblock that its features use. All others of its sector are 0.
pub(crate) fn used_bytes(superblock: &Superblock) -> usize {
    if has(superblock, Incompatible::METADATA_DIRECTORY | Incompatible::ZONED) {
        Superblock::SIZE_BYTES
    } else if has(superblock, Incompatible::METADATA_UUID) {
        METADATA_DIRECTORY_OFFSET_BYTES
    } else {
        METADATA_UUID_OFFSET_BYTES
    }
}

fn is_stripe_sound(superblock: &Superblock) -> bool {
    let (unit, width) = (superblock.stripe_unit_blocks.get(), superblock.stripe_width_blocks.get());
    let has_stripe = has_bit(superblock, VersionBits::STRIPE_ALIGNMENT);
    match unit {
        0 => width == 0 && !has_stripe,
        unit => {
            let width_bytes = u64::from(width).saturating_mul(superblock.block_size_bytes.get().into());
            let fits = width_bytes <= MOST_STRIPE_WIDTH_BYTES;
            has_stripe && width != 0 && width.checked_rem(unit) == Some(0) && fits
        }
    }
}

/// With a metadata directory the superblock names no other inode of the realtime section.
fn names_inodes_of_the_directory(superblock: &Superblock) -> bool {
    let named = [superblock.realtime_bitmap_inode.get(), superblock.realtime_summary_inode.get()];
    has(superblock, Incompatible::METADATA_DIRECTORY) && named != [0, 0]
}

fn has_quota(superblock: &Superblock) -> bool {
    let inodes = [
        superblock.user_quota_inode.get(),
        superblock.group_quota_inode.get(),
        superblock.project_quota_inode.get(),
    ];
    superblock.quota_flags.get() != 0 || inodes.iter().any(|inode| *inode != 0 && *inode != NULL_INODE)
}

/// Without the bit for quota nothing reads the inodes and flags; where they name a user's file, it must not be taken for one of quotas.
fn has_quota_without_bit(superblock: &Superblock) -> bool {
    has_quota(superblock) && !has_bit(superblock, VersionBits::QUOTA)
}

/// Bits of `qflags` that version 5 does not have: one word stood for groups and projects. Linux refuses them.
#[doc(alias = "XFS_OQUOTA_ENFD")]
#[doc(alias = "XFS_OQUOTA_CHKD")]
const OLD_QUOTA_FLAGS: u16 = 0x30;

fn are_quota_flags_sound(superblock: &Superblock) -> bool {
    superblock.quota_flags.get() & OLD_QUOTA_FLAGS == 0
}

/// Whether a copy names the same inodes as the first superblock. Copies that mkfs.xfs made early name none.
fn are_inodes_sound(copy: &Superblock, primary: &Superblock) -> bool {
    let pairs = [
        (copy.root_inode, primary.root_inode),
        (copy.realtime_bitmap_inode, primary.realtime_bitmap_inode),
        (copy.realtime_summary_inode, primary.realtime_summary_inode),
    ];
    pairs.iter().all(|(copy, primary)| copy == primary || matches!(copy.get(), 0 | NULL_INODE))
}

fn unknown_log_features(superblock: &Superblock) -> u32 {
    superblock.log_incompatible.get() & !LogIncompatible::KNOWN.bits()
}

/// Bits of the version that no program knows, or without one that every file system has: Linux refuses both.
fn are_version_bits_sound(superblock: &Superblock) -> bool {
    let bits = superblock.feature_words().version_bits;
    bits.contains(VersionBits::ALIGNMENT) && !bits.intersects(UNKNOWN_VERSION_BITS)
}

/// One that version 5 does not have.
#[doc(alias = "XFS_SB_VERSION_SHAREDBIT")]
const UNKNOWN_VERSION_BITS: VersionBits = VersionBits::from_bits_retain(0x0200);

/// The one value that the second word of features has in version 5; and its copy beside it.
const FEATURES2: Features2 = Features2::LAZY_COUNTERS
    .union(Features2::ATTRIBUTES_V2)
    .union(Features2::PROJECT_ID_32)
    .union(Features2::CHECKSUMS);

fn are_features2_sound(superblock: &Superblock) -> bool {
    [superblock.features2, superblock.bad_features2].iter().all(|word| word.get() == FEATURES2.bits())
}

/// The inodes of the realtime bitmap and summary, where the superblock names them: they follow the root directory.
fn realtime_inodes(superblock: &Superblock) -> Option<[u64; 2]> {
    let root = superblock.root_inode.get();
    let has_directory = has(superblock, Incompatible::METADATA_DIRECTORY);
    let is_named = root != 0 && root != NULL_INODE && !has_directory;
    is_named.then(|| [root.wrapping_add(1), root.wrapping_add(2)])
}

fn are_realtime_inodes_sound(superblock: &Superblock) -> bool {
    let found = [superblock.realtime_bitmap_inode.get(), superblock.realtime_summary_inode.get()];
    realtime_inodes(superblock).is_none_or(|expected| found == expected)
}

/// Linux wants no alignment of sparse chunks without the feature. Where the alignment is the one that the feature needs, the bit is lost.
fn lacks_sparse_inodes(superblock: &Superblock) -> bool {
    superblock.sparse_inode_alignment_blocks.get() != 0 && !has(superblock, Incompatible::SPARSE_INODES)
}

fn restore_sparse_inodes(superblock: &mut Superblock) {
    let chunk_blocks = 64_u32.checked_shr(superblock.inodes_per_block_log.into()).unwrap_or(0);
    let is_theirs = chunk_blocks > 1
        && superblock.inode_alignment_blocks.get() == chunk_blocks
        && superblock.sparse_inode_alignment_blocks.get() == chunk_blocks / 2;
    match is_theirs {
        true => {
            superblock.incompatible.set(superblock.incompatible.get() | Incompatible::SPARSE_INODES.bits())
        }
        false => superblock.sparse_inode_alignment_blocks.set(0),
    }
}

/// Fields that are the same in all copies, and that are no part of the geometry.
pub(super) fn of_all_copies(superblock: &Superblock) -> (u32, u8) {
    (superblock.sparse_inode_alignment_blocks.get(), superblock.inode_max_percent)
}

/// The first fields that are wrong in a superblock, which `sector` begins with. `primary` is the one that a copy must follow.
pub(crate) fn unfit(
    superblock: &Superblock,
    sector: &[u8],
    primary: Option<&Superblock>,
) -> Option<&'static str> {
    if sector.iter().skip(used_bytes(superblock)).any(|byte| *byte != 0) {
        return Some("bytes that no feature uses");
    }
    if let Some(fields) = unfit_alone(superblock) {
        return Some(fields);
    }
    match primary {
        None => unfit_in_first(superblock),
        Some(primary) => unfit_in_copy(superblock, primary),
    }
}

/// The first fields that are wrong in a superblock, whatever others say, in any group.
pub(super) fn unfit_alone(superblock: &Superblock) -> Option<&'static str> {
    if !is_stripe_sound(superblock) {
        return Some("stripe unit and width");
    }
    if let Some(fields) = realtime::unfit(superblock) {
        return Some(fields);
    }
    if !are_version_bits_sound(superblock) {
        return Some("bits of the version");
    }
    if !sectors::are_sound(superblock) {
        return Some("sectors of the log");
    }
    if superblock.compatible.get() != 0 {
        return Some("features that no program knows");
    }
    if unknown_log_features(superblock) != 0 {
        return Some("log features");
    }
    if !are_features2_sound(superblock) {
        return Some("the second word of features and its copy");
    }
    if names_inodes_of_the_directory(superblock) {
        return Some("realtime bitmap and summary, which the metadata directory holds");
    }
    if !are_quota_flags_sound(superblock) {
        return Some("quota flags");
    }
    lacks_sparse_inodes(superblock).then_some("an alignment of sparse inode chunks without the feature")
}

fn unfit_in_first(superblock: &Superblock) -> Option<&'static str> {
    if has_quota_without_bit(superblock) {
        return Some("quota inodes without the feature");
    }
    (!are_realtime_inodes_sound(superblock)).then_some("realtime bitmap and summary")
}

/// Linux sets and clears features of the log in the first superblock only, as the log needs them: a copy may lack them, not have more.
fn unfit_in_copy(superblock: &Superblock, primary: &Superblock) -> Option<&'static str> {
    if superblock.log_incompatible.get() & !primary.log_incompatible.get() != 0 {
        return Some("log features");
    }
    if !are_inodes_sound(superblock, primary) {
        return Some("root directory, realtime bitmap and summary");
    }
    if superblock.in_progress > 1 {
        return Some("in progress");
    }
    // Without a metadata directory mkfs.xfs sets no quotas. They come into copies where growing the file system writes these, which are no
    // longer in progress then.
    let may_have_quota = has(primary, Incompatible::METADATA_DIRECTORY)
        || superblock.in_progress == 0 && (has_quota(primary) || has_bit(primary, VersionBits::QUOTA));
    (has_quota(superblock) && !may_have_quota).then_some("quota inodes")
}

/// Gives neutral values to all fields that [`unfit`] looks at. `sector` begins with a superblock.
pub(crate) fn make_neutral(sector: &mut [u8]) {
    let Some(superblock) = Superblock::prefix_of_mut(sector) else { return };
    if !is_stripe_sound(superblock) {
        superblock.stripe_unit_blocks.set(0);
        superblock.stripe_width_blocks.set(0);
        superblock
            .version_number
            .set(superblock.version_number.get() & !VersionBits::STRIPE_ALIGNMENT.bits());
    }
    realtime::make_fit(superblock);
    if !are_version_bits_sound(superblock) {
        let bits = superblock.version_number.get() & !UNKNOWN_VERSION_BITS.bits();
        superblock.version_number.set(bits | VersionBits::ALIGNMENT.bits());
    }
    sectors::make_sound(superblock);
    superblock.compatible.set(0);
    if names_inodes_of_the_directory(superblock) {
        superblock.realtime_bitmap_inode.set(0);
        superblock.realtime_summary_inode.set(0);
    }
    if unknown_log_features(superblock) != 0 {
        superblock.log_incompatible.set(0);
    }
    if !are_quota_flags_sound(superblock) {
        superblock.quota_flags.set(superblock.quota_flags.get() & !OLD_QUOTA_FLAGS);
    }
    if has_quota_without_bit(superblock) {
        superblock.user_quota_inode.set(0);
        superblock.group_quota_inode.set(0);
        superblock.project_quota_inode.set(0);
        superblock.quota_flags.set(0);
    }
    if lacks_sparse_inodes(superblock) {
        restore_sparse_inodes(superblock);
    }
    superblock.features2.set(FEATURES2.bits());
    superblock.bad_features2.set(FEATURES2.bits());
    if let Some([bitmap, summary]) = realtime_inodes(superblock) {
        superblock.realtime_bitmap_inode.set(bitmap);
        superblock.realtime_summary_inode.set(summary);
    }
    let used = used_bytes(superblock);
    sector.iter_mut().skip(used).for_each(|byte| *byte = 0);
}

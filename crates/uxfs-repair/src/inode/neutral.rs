//! Neutral values of fields that make an inode fail its verifier. An inode keeps its contents, names and attributes.
//!
//! Each fault has a few possible values, the likeliest first; one is taken if the whole inode passes the verifier with it. Counters are
//! compared with the extents by the next check.

use uxfs_format::{
    checksum,
    fault::HeaderFault,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFault, InodeFlags, InodeFlags2, core, verify_inode},
    units::InodeNumber,
};

use super::told;

/// Faults of one inode that are mended one after the other.
const MOST_FAULTS: u32 = 6;

type Change = fn(&mut InodeCore);

/// Changes an inode until it passes the verifier. Gives whether it does; the bytes are of no use otherwise.
pub(super) fn make(bytes: &mut Vec<u8>, inode: InodeNumber, geometry: &Geometry) -> bool {
    for _ in 0..MOST_FAULTS {
        let fault = match verify_inode(bytes, inode, geometry) {
            Ok(_) => return true,
            Err(fault) => fault,
        };
        let Some(next) = mend_one(bytes, inode, &fault, geometry) else { return false };
        *bytes = next;
    }
    verify_inode(bytes, inode, geometry).is_ok()
}

/// The inode with the first change that makes this fault go away, or all faults.
fn mend_one(bytes: &[u8], inode: InodeNumber, fault: &InodeFault, geometry: &Geometry) -> Option<Vec<u8>> {
    let mut is_better = None;
    let simple = changes(fault).iter().filter_map(|change| {
        let mut changed = bytes.to_vec();
        change(InodeCore::prefix_of_mut(&mut changed)?);
        Some(changed)
    });
    // What the rest of the inode tells is likelier than a neutral value.
    for mut changed in told::candidates(bytes, inode, fault, geometry).into_iter().chain(simple) {
        checksum::seal(&mut changed, core::CHECKSUM_OFFSET_BYTES);
        match verify_inode(&changed, inode, geometry) {
            Ok(_) => return Some(changed),
            Err(other) if other != *fault => is_better = is_better.or(Some(changed)),
            Err(_) => {}
        }
    }
    is_better
}

fn changes(fault: &InodeFault) -> &'static [Change] {
    use InodeFault as F;
    match fault {
        // The number and the uuid are compared next: it is this inode.
        F::Header(HeaderFault::BadMagic { .. }) => &[|core| core.magic.set(core::MAGIC)],
        F::Version { .. } => &[|core| core.version = core::VERSION],
        F::OldLinkCount { .. } => &[|core| core.metadata_type.set(0)],
        F::LargeCountsWithoutFeature | F::LargeCountsPadding { .. } => &[
            |core| core.attribute_extent_count.set(0),
            |core| change_flags2(core, InodeFlags2::LARGE_EXTENT_COUNTS, false),
        ],
        F::SmallCountsPadding { .. } => &[
            |core| change_flags2(core, InodeFlags2::LARGE_EXTENT_COUNTS, true),
            |core| core.large_extent_count.set(0),
        ],
        F::MoreExtentsThanBlocks { .. } | F::BlocksWithoutExtents { .. } => &[|core| {
            let extents = [Fork::Data, Fork::Attribute].map(|fork| core.extent_count(fork));
            core.blocks.set(extents.into_iter().fold(0, u64::saturating_add));
        }],
        F::RealtimeWithoutDevice => &[|core| change_flags(core, InodeFlags::REALTIME)],
        F::DeviceForkOffset { .. } => &[|core| core.fork_offset = 1],
        F::SpecialFileFormat { .. } => &[|core| core.format = ForkFormat::Device.code()],
        F::AttributeExtentsWithoutFork { .. } => &[|core| {
            if core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS) {
                core.extent_count.set(0);
            } else {
                core.attribute_extent_count.set(0);
            }
        }],
        // Without a fork nothing has this format.
        F::AttributeFormatWithoutFork { .. } => &[|core| core.attribute_format = ForkFormat::Extents.code()],
        F::MetadataWithoutFeature => &[|core| change_flags2(core, InodeFlags2::METADATA, false)],
        F::BigTimeWithoutFeature => &[|core| change_flags2(core, InodeFlags2::BIG_TIME, false)],
        _ => changes_of_hints(fault),
    }
}

/// Hints: without one the file is as good.
fn changes_of_hints(fault: &InodeFault) -> &'static [Change] {
    use InodeFault as F;
    match fault {
        F::ExtentSizeFileType { .. } => &[
            |core| {
                let of_type = if core.file_type() == Some(FileType::Directory) {
                    InodeFlags::EXTENT_SIZE
                } else {
                    InodeFlags::EXTENT_SIZE_INHERIT
                };
                change_flags(core, of_type);
            },
            clear_hint,
        ],
        F::ExtentSizeZero
        | F::ExtentSizeUnflagged { .. }
        | F::ExtentSizeAlignment { .. }
        | F::ExtentSizeTooLarge { .. } => &[clear_hint],
        F::ReflinkWithoutFeature { .. } => &[|core| {
            clear_copy_hint(core);
            change_flags2(core, InodeFlags2::REFLINK, false);
        }],
        F::ReflinkFileType { .. } | F::ReflinkRealtime => {
            &[|core| change_flags2(core, InodeFlags2::REFLINK, false)]
        }
        F::CowExtentSizeFileType { .. }
        | F::CowExtentSizeZero
        | F::CowExtentSizeUnflagged { .. }
        | F::CowExtentSizeAlignment { .. }
        | F::CowExtentSizeTooLarge { .. } => &[clear_copy_hint],
        _ => &[],
    }
}

fn change_flags(core: &mut InodeCore, clear: InodeFlags) {
    core.flags.set(core.flags().difference(clear).bits());
}

fn change_flags2(core: &mut InodeCore, flag: InodeFlags2, is_set: bool) {
    let mut flags2 = core.flags2();
    flags2.set(flag, is_set);
    core.flags2.set(flags2.bits());
}

fn clear_hint(core: &mut InodeCore) {
    change_flags(core, InodeFlags::EXTENT_SIZE | InodeFlags::EXTENT_SIZE_INHERIT);
    core.extent_size_blocks.set(0);
}

fn clear_copy_hint(core: &mut InodeCore) {
    change_flags2(core, InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE, false);
    core.cow_extent_size_blocks.set(0);
}

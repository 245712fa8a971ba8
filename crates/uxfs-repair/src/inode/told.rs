//! Values of fields of an inode that the rest of the inode tells: what file system it is of, its number, where its forks meet.

use crate::extent_map::rebuild::set_extent_count;
use uxfs_format::{
    attribute::shortform::Shortform as AttributeShortform,
    btree::{
        extent_map::{ExtentMapRoot, ExtentRecord},
        levels::ForkRoom,
    },
    directory::shortform::Shortform,
    fault::HeaderFault,
    features::Incompatible,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFault, InodeFlags2},
    units::InodeNumber,
};

/// Steps of the fork offset.
const FORK_UNIT_BYTES: usize = 8;
/// An extent as it lies in an inode.
const EXTENT_BYTES: usize = 16;
/// The sign of a size.
const SIGN: u64 = 1 << 63;

/// The inode with other values of the fields that a fault is about, the likeliest first.
pub(super) fn candidates(
    bytes: &[u8],
    inode: InodeNumber,
    fault: &InodeFault,
    geometry: &Geometry,
) -> Vec<Vec<u8>> {
    use InodeFault as F;
    let with = |change: &dyn Fn(&mut InodeCore)| {
        let mut changed = bytes.to_vec();
        InodeCore::prefix_of_mut(&mut changed).map(change);
        changed
    };
    match fault {
        F::Header(HeaderFault::WrongUuid { .. }) => vec![with(&|core| core.uuid = geometry.metadata_uuid)],
        F::Number { .. } => vec![with(&|core| core.number.set(inode.get()))],
        F::NegativeSize { size_bytes } => {
            let told = sizes(bytes, geometry).into_iter();
            let all = [size_bytes & !SIGN].into_iter().chain(told);
            all.map(|size| with(&|core| core.size_bytes.set(size))).collect()
        }
        F::ZeroSize { .. }
        | F::DirectoryNotLocal { .. }
        | F::SymlinkFormat { .. }
        | F::LocalTooLarge { .. } => {
            let sizes = sizes(bytes, geometry).into_iter();
            let mut all: Vec<_> = sizes.map(|size| with(&|core| core.size_bytes.set(size))).collect();
            all.extend(fork_offsets(bytes, geometry));
            all.extend(formats(bytes));
            all
        }
        F::AttributeFormatWithoutFork { .. } | F::ForkOffset { .. } => fork_offsets(bytes, geometry),
        F::BtreeNotNeeded { fork, inline_extents_max, .. } => {
            of_needless_btree(bytes, *fork, *inline_extents_max, geometry)
        }
        F::MoreExtentsThanBlocks { .. } => {
            let counted = blocks_of_counted(bytes, geometry).into_iter();
            let counted = counted.map(|blocks| with(&|core| core.blocks.set(blocks)));
            counted.chain(counts(bytes, geometry)).collect()
        }
        F::BlocksWithoutExtents { .. } | F::TooManyExtents { .. } => {
            with_other_width(bytes, geometry).into_iter().chain(counts(bytes, geometry)).collect()
        }
        F::TooManyInlineExtents { .. } | F::DirectoryExtents { .. } => {
            let mut all = counts(bytes, geometry);
            all.extend(with_other_width(bytes, geometry));
            all.extend(fork_offsets(bytes, geometry));
            all
        }
        // Files outside the metadata directory have no such flag.
        F::MetadataType { .. }
        | F::MetadataFileType { .. }
        | F::MetadataPermissions { .. }
        | F::MetadataDmapi { .. }
        | F::MetadataOwner { .. }
        | F::MetadataFlags { .. }
        | F::MetadataDax => vec![with(&|core| {
            core.flags2.set(core.flags2().difference(InodeFlags2::METADATA).bits());
        })],
        F::UnknownFormat { .. }
        | F::LocalWithExtents { .. }
        | F::Format { .. }
        | F::LocalRegularFile
        | F::MetadataBtreeForkOffset { .. }
        | F::MetadataBtreeWithoutFeature { .. }
        | F::MetadataBtreeFlag { .. }
        | F::DeviceForkOffset { .. } => of_format(bytes, fault, geometry),
        _ => Vec::new(),
    }
}

/// Its format is another one, or what it says about the fork is wrong.
fn of_format(bytes: &[u8], fault: &InodeFault, geometry: &Geometry) -> Vec<Vec<u8>> {
    let mut all = match fault {
        InodeFault::UnknownFormat { fork: Fork::Attribute, .. } => fork_offsets(bytes, geometry),
        InodeFault::LocalWithExtents { .. } => without_extents(bytes).into_iter().collect(),
        _ => Vec::new(),
    };
    all.extend(formats(bytes));
    all
}

/// Its extents are counted in a field of the other width, or not at all, or it has no btree.
fn of_needless_btree(bytes: &[u8], fork: Fork, inline_extents_max: u64, geometry: &Geometry) -> Vec<Vec<u8>> {
    let counts = other_width(bytes, geometry).into_iter();
    counts.chain(with_btree(bytes, fork, inline_extents_max, geometry)).chain(formats(bytes)).collect()
}

/// The inode with extent counts of the other width, where both forks have as many extents and blocks then as it counts.
pub(crate) fn with_other_width(bytes: &[u8], geometry: &Geometry) -> Option<Vec<u8>> {
    let blocks = InodeCore::prefix_of(bytes)?.blocks.get();
    let is_right = |bytes: &[u8]| blocks_of_counted(bytes, geometry) == Some(blocks);
    other_width(bytes, geometry).filter(|changed| !is_right(bytes) && is_right(changed))
}

fn other_width(bytes: &[u8], geometry: &Geometry) -> Option<Vec<u8>> {
    if !geometry.features.incompatible.contains(Incompatible::LARGE_EXTENT_COUNTS) {
        return None;
    }
    let mut changed = bytes.to_vec();
    let core = InodeCore::prefix_of_mut(&mut changed)?;
    core.flags2.set((core.flags2() ^ InodeFlags2::LARGE_EXTENT_COUNTS).bits());
    Some(changed)
}

/// The inode with more extents than fit into a fork that has a sound root of a btree. How many there are the btree tells, once it is read.
fn with_btree(bytes: &[u8], fork: Fork, inline_extents_max: u64, geometry: &Geometry) -> Option<Vec<u8>> {
    let core = InodeCore::prefix_of(bytes)?;
    let end = usize::from(core.fork_offset).saturating_mul(FORK_UNIT_BYTES);
    let (own, room) = match fork {
        Fork::Data if end == 0 => (forks(bytes), ForkRoom::Data),
        Fork::Data => (forks(bytes).get(..end)?, ForkRoom::Data),
        Fork::Attribute => (forks(bytes).get(end..)?, ForkRoom::Attribute),
    };
    ExtentMapRoot::parse(own).ok()?.verify(geometry, room).ok()?;
    let mut changed = bytes.to_vec();
    set_extent_count(InodeCore::prefix_of_mut(&mut changed)?, fork, inline_extents_max.checked_add(1)?);
    Some(changed)
}

fn forks(bytes: &[u8]) -> &[u8] {
    bytes.get(InodeCore::SIZE_BYTES..).unwrap_or_default()
}

/// Sizes that the data fork tells.
fn sizes(bytes: &[u8], geometry: &Geometry) -> Vec<u64> {
    let (Some(core), forks) = (InodeCore::prefix_of(bytes), forks(bytes)) else { return Vec::new() };
    let data = match usize::from(core.fork_offset).saturating_mul(FORK_UNIT_BYTES) {
        0 => forks,
        end => forks.get(..end).unwrap_or(forks),
    };
    match (core.file_type(), core.fork_format(Fork::Data)) {
        (Some(FileType::SymbolicLink), Some(ForkFormat::Local)) => {
            let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
            vec![end as u64]
        }
        (Some(FileType::Directory), Some(ForkFormat::Local)) => {
            let is_whole = |size: &usize| {
                data.get(..*size).is_some_and(|list| Shortform::verify(list, geometry).is_ok())
            };
            (1..=data.len()).filter(is_whole).map(|size| size as u64).collect()
        }
        (_, Some(ForkFormat::Extents)) => {
            let block = geometry.block_size() as u64;
            let leaf = geometry.directory_leaf_start();
            let count = usize::try_from(core.extent_count(Fork::Data)).unwrap_or(0);
            let extents = data.chunks_exact(EXTENT_BYTES).take(count).filter_map(ExtentRecord::prefix_of);
            let is_directory = core.file_type() == Some(FileType::Directory);
            let ends =
                extents.map(ExtentRecord::get).filter(|extent| !is_directory || extent.file_block < leaf);
            ends.map(|extent| extent.end().get().saturating_mul(block)).max().into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The blocks of all extents that an inode counts, where so many sound ones lie in it.
fn blocks_of_counted(bytes: &[u8], geometry: &Geometry) -> Option<u64> {
    let core = InodeCore::prefix_of(bytes)?;
    let room = usize::from(core.fork_offset).saturating_mul(FORK_UNIT_BYTES);
    let forks = forks(bytes);
    let (data, attributes) = if room == 0 { (forks, &[][..]) } else { forks.split_at_checked(room)? };
    let blocks_of = |fork: Fork, bytes: &[u8]| match core.fork_format(fork) {
        Some(ForkFormat::Extents) => {
            let count = usize::try_from(core.extent_count(fork)).ok()?;
            sound_extents(bytes, geometry).get(count).copied()
        }
        Some(ForkFormat::Local | ForkFormat::Device) | None => Some(0),
        _ => None,
    };
    blocks_of(Fork::Data, data)?.checked_add(blocks_of(Fork::Attribute, attributes)?)
}

/// Other numbers of extents: as many as lie in the fork, one behind the other in the file, and are as many blocks as the inode counts; or
/// none.
fn counts(bytes: &[u8], geometry: &Geometry) -> Vec<Vec<u8>> {
    let Some(core) = InodeCore::prefix_of(bytes) else { return Vec::new() };
    let room = usize::from(core.fork_offset).saturating_mul(FORK_UNIT_BYTES);
    let forks = forks(bytes);
    let (data, attributes) =
        if room == 0 { (forks, &[][..]) } else { forks.split_at_checked(room).unwrap_or((forks, &[])) };
    let known = |fork: Fork, bytes: &[u8]| match core.fork_format(fork) {
        Some(ForkFormat::Extents) => sound_extents(bytes, geometry),
        Some(ForkFormat::Local | ForkFormat::Device) | None => vec![0],
        _ => Vec::new(),
    };
    let (data, attributes) = (known(Fork::Data, data), known(Fork::Attribute, attributes));
    // The last number of each list is that of all extents that lie there: which of them are in use the blocks tell.
    let mut all = Vec::new();
    for (data_count, data_blocks) in (0_u64..).zip(&data) {
        for (attribute_count, attribute_blocks) in (0_u64..).zip(&attributes) {
            if data_blocks.saturating_add(*attribute_blocks) != core.blocks.get() {
                continue;
            }
            let mut changed = bytes.to_vec();
            if let Some(core) = InodeCore::prefix_of_mut(&mut changed) {
                set_extent_count(core, Fork::Data, data_count);
                set_extent_count(core, Fork::Attribute, attribute_count);
                all.push(changed);
            }
        }
    }
    all.extend(without_extents(bytes));
    all
}

/// The blocks of the first extents of a fork: of none, one, two and so on, as long as they can be extents of one file.
fn sound_extents(fork: &[u8], geometry: &Geometry) -> Vec<u64> {
    let mut blocks = vec![0];
    let (mut sum, mut end) = (0_u64, 0);
    for extent in fork.chunks_exact(EXTENT_BYTES).filter_map(ExtentRecord::prefix_of).map(ExtentRecord::get) {
        let is_next = extent.length_blocks > 0 && extent.file_block.get() >= end;
        if !is_next || extent.verify_place(geometry).is_err() {
            break;
        }
        (sum, end) = (sum.saturating_add(extent.length_blocks), extent.end().get());
        blocks.push(sum);
    }
    blocks
}

/// Other formats of both forks. Where no extent is counted, what lies in the inode is likelier than nothing.
fn formats(bytes: &[u8]) -> Vec<Vec<u8>> {
    let Some(core) = InodeCore::prefix_of(bytes) else { return Vec::new() };
    let of = |fork: Fork| match core.extent_count(fork) {
        0 => [ForkFormat::Local, ForkFormat::Extents, ForkFormat::Btree, ForkFormat::Device],
        _ => [ForkFormat::Extents, ForkFormat::Btree, ForkFormat::Local, ForkFormat::Device],
    };
    let is_special = core.file_type().is_some_and(FileType::is_special);
    let data = of(Fork::Data).into_iter().filter(|format| (*format == ForkFormat::Device) == is_special);
    let data = data.map(|format| (Fork::Data, format));
    let attributes = of(Fork::Attribute).into_iter().map(|format| (Fork::Attribute, format));
    let changed = data.chain(attributes).filter_map(|(fork, format)| {
        let mut changed = bytes.to_vec();
        let core = InodeCore::prefix_of_mut(&mut changed)?;
        match fork {
            Fork::Data => core.format = format.code(),
            Fork::Attribute => core.attribute_format = format.code(),
        }
        has_attributes(&changed).then_some(changed)
    });
    changed.collect()
}

/// Without extents and blocks, where both forks have their contents in the inode.
fn without_extents(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut changed = bytes.to_vec();
    let core = InodeCore::prefix_of_mut(&mut changed)?;
    let is_inside = |fork| matches!(core.fork_format(fork), Some(ForkFormat::Local | ForkFormat::Device));
    let has_attributes = core.fork_offset != 0;
    if !is_inside(Fork::Data) || has_attributes && !is_inside(Fork::Attribute) {
        return None;
    }
    set_extent_count(core, Fork::Data, 0);
    set_extent_count(core, Fork::Attribute, 0);
    core.blocks.set(0);
    Some(changed)
}

/// Other places where the attribute fork may begin: those at which there is one. Where its format is none, it may be a list in the inode; and
/// where there is no list, there may be no fork.
fn fork_offsets(bytes: &[u8], geometry: &Geometry) -> Vec<Vec<u8>> {
    let most = forks(bytes).len() / FORK_UNIT_BYTES;
    let has_format =
        InodeCore::prefix_of(bytes).is_some_and(|core| core.fork_format(Fork::Attribute).is_some());
    let with = |place: usize, format: ForkFormat| {
        let mut changed = bytes.to_vec();
        let core = InodeCore::prefix_of_mut(&mut changed)?;
        core.fork_offset = u8::try_from(place).ok()?;
        if !has_format {
            core.attribute_format = format.code();
        }
        (has_attributes(&changed) && is_in_use(&changed, geometry)).then_some(changed)
    };
    let mut places: Vec<_> = (1..most).filter_map(|place| with(place, ForkFormat::Local)).collect();
    if !has_format {
        places.extend(with(0, ForkFormat::Extents));
    }
    places
}

/// Whether the attribute fork of an inode holds attributes, where its format says that they lie in the inode.
fn has_attributes(bytes: &[u8]) -> bool {
    let Some(core) = InodeCore::prefix_of(bytes) else { return false };
    if core.fork_offset == 0 {
        return true;
    }
    let start = usize::from(core.fork_offset).saturating_mul(FORK_UNIT_BYTES);
    let attributes = forks(bytes).get(start..).unwrap_or_default();
    core.fork_format(Fork::Attribute) != Some(ForkFormat::Local)
        || AttributeShortform::verify(attributes).is_ok()
}

/// Whether extents of the attribute fork can be extents: at a wrong place they are nothing, or anything.
fn is_in_use(bytes: &[u8], geometry: &Geometry) -> bool {
    let Some(core) = InodeCore::prefix_of(bytes) else { return false };
    if core.fork_format(Fork::Attribute) != Some(ForkFormat::Extents) {
        return true;
    }
    let start = usize::from(core.fork_offset).saturating_mul(FORK_UNIT_BYTES);
    let count = usize::try_from(core.extent_count(Fork::Attribute)).unwrap_or(0);
    let records = forks(bytes).get(start..).unwrap_or_default().chunks_exact(EXTENT_BYTES);
    let mut extents = records.take(count).filter_map(ExtentRecord::prefix_of).map(ExtentRecord::get);
    extents.all(|extent| extent.length_blocks > 0 && extent.verify_place(geometry).is_ok())
}

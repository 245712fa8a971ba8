//! From evidence to a superblock.

use std::cell::RefCell;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    features::{Incompatible, VersionBits},
    geometry::Geometry,
    superblock::{MAGIC, Superblock},
    units::Uuid,
};
use uxfs_volume::tolerant::root::computed_roots;
use zerocopy::{
    FromZeros,
    big_endian::{U16, U32, U64},
};

use super::{
    evidence::{Evidence, Logs},
    features::FeatureEvidence,
    groups::{Groups, groups},
    place_of_log::Known,
};

/// Bytes of a chunk of inodes, and of a cluster, for each byte of an inode.
const CHUNK_INODES: usize = 64;
const CLUSTER_INODES: usize = 32;
/// As mkfs.xfs makes them where nothing was asked.
const USUAL_DIRECTORY_BLOCK_BYTES: usize = 4096;
const USUAL_SECTOR_BYTES: usize = 512;
const LARGE_SECTOR_BYTES: usize = 4096;
/// The smallest realtime extent, and the largest realtime group, also where there is no realtime section.
const MIN_REALTIME_EXTENT_BYTES: usize = 4096;
const REALTIME_GROUP_BYTES_LOG: u32 = 40;

/// Sizes in bytes.
struct Sizes {
    sector: usize,
    block: usize,
    inode: usize,
    directory_block: usize,
}

impl Sizes {
    fn of(evidence: &Evidence) -> Option<Self> {
        let block = evidence.block_sizes.best()?;
        let inode = evidence.inode_sizes.best()?;
        let directory_block = evidence.directory_block_sizes.best();
        let directory_block = directory_block.unwrap_or(USUAL_DIRECTORY_BLOCK_BYTES).max(block);
        let sector = evidence.sector_sizes.best().unwrap_or_else(|| sector_size(evidence, block));
        (sector <= block && inode <= block).then_some(Self { sector, block, inode, directory_block })
    }
}

/// Where no header is left: headers are four sectors, and the first root follows them.
fn sector_size(evidence: &Evidence, block: usize) -> usize {
    let header_blocks = |sector: usize| (4 * sector).div_ceil(block) as u64;
    let named = evidence.header_blocks.best().map(u64::from);
    // Group 0 begins where the device does.
    let first = evidence.groups.get(&0).and_then(|group| group.blocks);
    let first = first.map(|(first, _)| first / block as u64);
    let is_large = |blocks: u64| blocks >= header_blocks(LARGE_SECTOR_BYTES);
    let is_told = header_blocks(LARGE_SECTOR_BYTES) != header_blocks(USUAL_SECTOR_BYTES);
    if is_told && named.or(first).is_some_and(is_large) { LARGE_SECTOR_BYTES } else { USUAL_SECTOR_BYTES }
}

/// The superblock that the evidence describes, with counters of zero. `None` where too little is known, or what uxfs does not support.
pub(super) fn solve(
    device: &dyn BlockDevice,
    uuid: Uuid,
    evidence: &Evidence,
    logs: &Logs,
) -> Option<Superblock> {
    if evidence.features.realtime > 0 {
        return None;
    }
    let sizes = Sizes::of(evidence)?;
    let groups = groups(device.size_bytes(), evidence, sizes.block as u64)?;
    let mut superblock = Superblock::new_zeroed();
    superblock.magic = U32::new(MAGIC);
    superblock.uuid = uuid;
    put_sizes(&mut superblock, &sizes)?;
    put_groups(&mut superblock, &groups);
    put_features(&mut superblock, &evidence.features, &sizes);
    put_inode_alignment(&mut superblock, &sizes, evidence.features.has_sparse_inodes())?;
    superblock.inode_max_percent = usual_inode_percent(groups.data_blocks.saturating_mul(sizes.block as u64));
    let geometry = Geometry::new(&superblock);
    put_log(
        &mut superblock,
        &Known { device, geometry: &geometry, evidence, logs, in_use: RefCell::default() },
    )?;
    put_roots(&mut superblock, evidence);
    Some(superblock)
}

fn log_of(size: usize) -> u8 {
    u8::try_from(size.max(1).ilog2()).unwrap_or(0)
}

fn put_sizes(superblock: &mut Superblock, sizes: &Sizes) -> Option<()> {
    let inodes_per_block = sizes.block / sizes.inode;
    superblock.block_size_bytes = U32::new(u32::try_from(sizes.block).ok()?);
    superblock.block_log = log_of(sizes.block);
    superblock.sector_size_bytes = U16::new(u16::try_from(sizes.sector).ok()?);
    superblock.sector_log = log_of(sizes.sector);
    superblock.inode_size_bytes = U16::new(u16::try_from(sizes.inode).ok()?);
    superblock.inode_log = log_of(sizes.inode);
    superblock.inodes_per_block = U16::new(u16::try_from(inodes_per_block).ok()?);
    superblock.inodes_per_block_log = log_of(inodes_per_block);
    superblock.directory_block_log = log_of(sizes.directory_block / sizes.block);
    if sizes.sector > USUAL_SECTOR_BYTES {
        superblock.log_sector_size_bytes = superblock.sector_size_bytes;
        superblock.log_sector_log = superblock.sector_log;
    }
    let realtime_extent = (MIN_REALTIME_EXTENT_BYTES / sizes.block).max(1);
    superblock.realtime_extent_size_blocks = U32::new(u32::try_from(realtime_extent).ok()?);
    Some(())
}

fn put_groups(superblock: &mut Superblock, groups: &Groups) {
    superblock.ag_blocks = U32::new(groups.blocks);
    superblock.ag_block_log = u8::try_from(u64::from(groups.blocks).next_power_of_two().ilog2()).unwrap_or(0);
    superblock.ag_count = U32::new(groups.count);
    superblock.data_blocks = U64::new(groups.data_blocks);
}

fn put_features(superblock: &mut Superblock, features: &FeatureEvidence, sizes: &Sizes) {
    let version_bits: VersionBits = features.version_bits(sizes.sector > USUAL_SECTOR_BYTES);
    superblock.version_number = U16::new(5 | version_bits.bits());
    superblock.features2 = U32::new(FeatureEvidence::features2().bits());
    superblock.bad_features2 = superblock.features2;
    superblock.ro_compatible = U32::new(features.ro_compatible().bits());
    superblock.incompatible = U32::new(features.incompatible().bits());
    if features.metadata_directory > 0 {
        let extent_log = superblock.realtime_extent_size_blocks.get().max(1).ilog2();
        let blocks_log = REALTIME_GROUP_BYTES_LOG.saturating_sub(superblock.block_log.into());
        superblock.realtime_group_block_log = u8::try_from(blocks_log).unwrap_or(0);
        superblock.realtime_group_extents =
            U32::new(1_u32.wrapping_shl(blocks_log.saturating_sub(extent_log)));
    }
}

/// As mkfs.xfs aligns chunks of inodes.
fn put_inode_alignment(superblock: &mut Superblock, sizes: &Sizes, is_sparse: bool) -> Option<()> {
    let cluster_blocks = u32::try_from(CLUSTER_INODES * sizes.inode / sizes.block).ok()?;
    let chunk_blocks = u32::try_from(CHUNK_INODES * sizes.inode / sizes.block).ok()?;
    if is_sparse {
        superblock.inode_alignment_blocks = U32::new(chunk_blocks);
        superblock.sparse_inode_alignment_blocks = U32::new(cluster_blocks);
    } else {
        superblock.inode_alignment_blocks = U32::new(cluster_blocks);
    }
    Some(())
}

/// As mkfs.xfs chooses it.
fn usual_inode_percent(data_bytes: u64) -> u8 {
    const TIB: u64 = 1 << 40;
    match data_bytes {
        ..TIB => 25,
        bytes if bytes < 50 * TIB => 5,
        _ => 1,
    }
}

fn put_log(superblock: &mut Superblock, known: &Known<'_>) -> Option<()> {
    let Some(log) = known.log() else {
        // An external log: nothing on this device tells more.
        superblock.log_stripe_unit_bytes = U32::new(1);
        return Some(());
    };
    superblock.log_start = U64::new(known.geometry.fs_block(log.group, log.start)?.get());
    superblock.log_blocks = U32::new(log.length_blocks);
    superblock.log_stripe_unit_bytes = U32::new(log.unit_bytes);
    if log.uuid != superblock.uuid {
        superblock.metadata_uuid = superblock.uuid;
        superblock.uuid = log.uuid;
        superblock.incompatible.set(superblock.incompatible.get() | Incompatible::METADATA_UUID.bits());
    }
    Some(())
}

fn put_roots(superblock: &mut Superblock, evidence: &Evidence) {
    let geometry = Geometry::new(superblock);
    let root = evidence.roots.iter().find(|root| !evidence.metadata_roots.contains(root)).copied();
    let root = root.unwrap_or_else(|| computed_roots(superblock, &geometry)[0].get());
    superblock.root_inode = U64::new(root);
    if geometry.features.has_metadata_directory() {
        let named = evidence.metadata_roots.first().copied();
        superblock.metadata_directory_inode = U64::new(named.unwrap_or(root.saturating_add(1)));
    } else {
        superblock.realtime_bitmap_inode = U64::new(root.saturating_add(1));
        superblock.realtime_summary_inode = U64::new(root.saturating_add(2));
    }
}

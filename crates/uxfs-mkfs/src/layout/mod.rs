//! The layout: from options and a device to every number of the superblock. Nothing is read or written.
//!
//! | module | holds |
//! |---|---|
//! | [`facts`] | facts about the device |
//! | [`sizes`] | blocks, sectors, inodes, directory blocks |
//! | [`features`] | the feature switches |
//! | [`stripe`] | stripe unit and width |
//! | [`groups`] | allocation groups |
//! | [`log`] | the log |
//! | [`inodes`] | inode alignment, root directory, inherited hints |
//! | [`tables`] | where the trees of a group begin |
//! | [`space`] | which blocks of a group are used, by whom, and which are free |
//! | [`smallest`] | the smallest file system that is large enough |
//! | [`error`] | refusals and warnings |
//!
//! The decisions are those of mkfs.xfs 7.2, whose output for some hundred option sets the tests compare. A layout costs
//! microseconds, so that a search for a size can try many.
//!
//! # Made to grow
//! With [`grow_to_bytes`](Options::grow_to_bytes) groups have the size that a file system of that size would have, so
//! that growing it to there adds few and large ones: XFS never changes the group size later. The file system may then
//! be one short group. Limits of this:
//! * one group means no second superblock: until the file system has grown, `xfs_repair` has nothing to compare the
//!   first one with and wants `-o force_geometry`, and nothing to rebuild it from if it is lost;
//! * one group means one lock for all who allocate space or inodes, until it has grown;
//! * a tail of less than 16 MiB behind the last whole group is left out, as always;
//! * the log does not grow: it has the size that fits the file system as it is made (`-l size=` makes it larger);
//! * the largest possible trees, and with them the smallest log and the space that the kernel keeps back, are those of
//!   the large group size.

use uxfs_format::{
    features::FeatureWords,
    geometry::Geometry,
    superblock::{self, Superblock},
    units::Uuid,
};
use zerocopy::{
    FromZeros,
    big_endian::{U16, U32, U64},
};

pub mod error;
pub mod facts;
pub mod features;
pub mod groups;
pub mod inodes;
pub mod log;
pub mod sizes;
pub mod smallest;
pub mod space;
pub mod stripe;
pub mod tables;

pub use error::{LayoutError, Warning};
pub use facts::{DeviceFacts, DeviceKind};
pub use features::Features;
pub use groups::Groups;
pub use inodes::{Inheritance, InodeAlignment};
pub use log::Log;
pub use sizes::Sizes;
pub use space::{GroupSpace, Run};
pub use stripe::Stripe;
pub use tables::Tables;

use crate::options::{Options, grammar::Setting};

/// Smaller file systems are not supported.
const MIN_SUPPORTED_BYTES: u64 = 300 << 20;
const MIN_SUPPORTED_LOG_BYTES: u64 = 64 << 20;
/// The smallest realtime extent, also where there is no realtime section.
const MIN_REALTIME_EXTENT_BYTES: u32 = 4096;

/// A file system laid out: everything but identity and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Blocks, sectors, inodes, directory blocks.
    pub sizes: Sizes,
    /// Switches.
    pub features: Features,
    /// Stripe of the data section.
    pub stripe: Stripe,
    /// Allocation groups.
    pub groups: Groups,
    /// Log.
    pub log: Log,
    /// Alignment of inode chunks.
    pub inode_alignment: InodeAlignment,
    /// Most of the space that inodes may take, in per cent.
    pub inode_max_percent: u8,
    /// First block of the first inode chunk, in group 0.
    pub root_chunk_block: u32,
    /// Where the trees of a group begin.
    pub tables: Tables,
    /// Blocks on the free list of a group.
    pub free_list_blocks: u32,
    /// Blocks in a realtime extent, though there is no realtime section.
    pub realtime_extent_blocks: u32,
    /// Settings of the first inodes.
    pub inheritance: Inheritance,
    /// The value of the root directory's attribute `xfs:autofsck`, if it has one.
    pub autofsck: Option<&'static str>,
    /// Padded with zeros.
    pub label: [u8; 12],
}

impl Layout {
    /// Lays out a file system.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn resolve(options: &Options, facts: &DeviceFacts) -> Result<(Self, Vec<Warning>), LayoutError> {
        let mut warnings = Vec::new();
        let layout = Self::try_resolve(options, facts, &mut warnings)?;
        if options.allow_unsupported {
            warnings.push(Warning::Unsupported);
        } else {
            layout.verify_supported(options)?;
        }
        Ok((layout, warnings))
    }

    fn try_resolve(
        options: &Options,
        facts: &DeviceFacts,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, LayoutError> {
        let sizes = Sizes::resolve(options, facts)?;
        let features = Features::resolve(options, warnings)?;
        let realtime_extent_blocks = realtime_extent(options, &sizes)?;
        let asked_blocks = sizes::data_blocks(options, facts, &sizes, warnings)?;
        verify_grow_to(options, asked_blocks << sizes.block_log())?;
        let stripe = Stripe::resolve(options, facts, &sizes, asked_blocks, warnings)?;
        let stripe_unit_bytes = log::stripe_unit(options, &sizes, stripe, warnings)?;
        let groups = Groups::resolve(options, facts, &sizes, stripe, asked_blocks, warnings)?;
        let mut layout = Self {
            sizes,
            features,
            stripe,
            groups,
            log: Log { group: 0, start_block: 0, blocks: 0, stripe_unit_bytes },
            inode_alignment: InodeAlignment::new(&sizes, &features),
            inode_max_percent: inodes::max_percent(options, groups.data_blocks << sizes.block_log()),
            root_chunk_block: 0,
            tables: Tables::new(&sizes, &features),
            free_list_blocks: 0,
            realtime_extent_blocks,
            inheritance: Inheritance::resolve(options, groups.blocks, realtime_extent_blocks)?,
            autofsck: autofsck(options, &features, warnings),
            label: [0; 12],
        };
        layout.label[..options.label.len()].copy_from_slice(&options.label);
        let geometry = layout.geometry();
        let atomic_write_bytes = options.size(Setting::InodeMaxAtomicWrite, sizes.units())?.unwrap_or(0);
        let plan = log::LogPlan {
            options,
            facts,
            sizes: &sizes,
            features: &features,
            stripe,
            groups,
            geometry: &geometry,
            first_free_block: layout.tables.first_free_block,
            stripe_unit_bytes,
            atomic_write_blocks: atomic_write_bytes >> sizes.block_log(),
        };
        layout.log = plan.resolve(warnings)?;
        layout.free_list_blocks = tables::free_list_blocks(&geometry);
        layout.root_chunk_block = layout.first_chunk_block();
        layout.verify_space()?;
        Ok(layout)
    }

    /// `xfs_repair` computes the place of the root directory, so that it cannot be chosen by what is free.
    fn first_chunk_block(&self) -> u32 {
        let log_blocks = if self.log.group == 0 { self.log.blocks } else { 0 };
        let first_free = u64::from(self.tables.first_free_block)
            + u64::from(self.free_list_blocks)
            + u64::from(log_blocks);
        // A group has fewer than 2^32 blocks, and the log left room for the chunk.
        inodes::first_chunk_block(first_free, self.inode_alignment, self.stripe) as u32
    }

    /// Whether everything has its place. All groups but these three are alike, and roomier than they.
    fn verify_space(&self) -> Result<(), LayoutError> {
        let last = self.groups.count as u32 - 1; // Verified with the groups.
        let has_room = |group| GroupSpace::new(self, group).is_some();
        if [0, self.log.group, last].into_iter().all(has_room) {
            return Ok(());
        }
        Err(LayoutError::NoRoomForRoot { block: self.root_chunk_block })
    }

    /// The space of a group of an empty image.
    ///
    /// # Panics
    /// There is no such group.
    pub fn space(&self, group: u32) -> GroupSpace {
        GroupSpace::new(self, group).expect("resolving the layout made sure that everything has its place")
    }

    fn verify_supported(&self, options: &Options) -> Result<(), LayoutError> {
        let refuse = |what| Err(LayoutError::Unsupported { what });
        let block_log = self.sizes.block_log();
        if self.data_bytes() < MIN_SUPPORTED_BYTES {
            return refuse("a file system has at least 300 MiB");
        }
        if self.groups.blocks << block_log <= MIN_SUPPORTED_LOG_BYTES {
            return refuse("allocation groups are larger than 64 MiB, or no supported log fits into one");
        }
        if u64::from(self.log.blocks) << block_log < MIN_SUPPORTED_LOG_BYTES {
            return refuse("a log has at least 64 MiB");
        }
        if self.groups.count < 2 && options.grow_to_bytes.is_none() {
            return refuse("a file system has at least two groups, for a second superblock");
        }
        Ok(())
    }

    /// Size of the data section in bytes.
    pub fn data_bytes(&self) -> u64 {
        self.groups.data_blocks << self.sizes.block_log()
    }

    /// Blocks in a group.
    pub fn group_blocks(&self, group: u32) -> u32 {
        let before = u64::from(group) * self.groups.blocks;
        // No group has 2^32 blocks.
        self.groups.blocks.min(self.groups.data_blocks.saturating_sub(before)) as u32
    }

    /// The root directory's number, which is that in group 0 as well.
    pub fn root_inode(&self) -> u32 {
        // Less than the inodes of the largest group.
        self.root_chunk_block << self.sizes.inodes_per_block().ilog2()
    }

    /// Byte ranges of the device that must read as zeros before [`format()`](crate::empty::format): the log behind
    /// its first record.
    pub fn must_read_as_zeros(&self) -> std::ops::Range<u64> {
        let first_block = u64::from(self.log.group) * self.groups.blocks + u64::from(self.log.start_block);
        let start_bytes = first_block << self.sizes.block_log();
        start_bytes..start_bytes + (u64::from(self.log.blocks) << self.sizes.block_log())
    }

    /// The feature words.
    pub fn feature_words(&self) -> FeatureWords {
        self.features.words(
            self.stripe.unit_blocks != 0,
            self.sizes.sector_bytes > 512,
            self.autofsck.is_some(),
        )
    }

    /// Sizes and conversions of this file system, without identity.
    pub fn geometry(&self) -> Geometry {
        Geometry::new(&self.superblock(Uuid::NIL))
    }

    /// The superblock without its counters, unfinished.
    pub fn superblock(&self, uuid: Uuid) -> Superblock {
        let sizes = &self.sizes;
        let words = self.feature_words();
        let group_log = self.groups.blocks.next_power_of_two().ilog2();
        let inodes_per_block = sizes.inodes_per_block();
        let sector_log = sizes.sector_bytes.ilog2();
        let has_large_sectors = sizes.sector_bytes > 512;
        let chunk_inode = u64::from(self.root_inode());
        let log_start = (u64::from(self.log.group) << group_log) | u64::from(self.log.start_block);
        let mut superblock = Superblock::new_zeroed();
        superblock.magic = U32::new(superblock::MAGIC);
        superblock.block_size_bytes = U32::new(sizes.block_bytes);
        superblock.data_blocks = U64::new(self.groups.data_blocks);
        superblock.uuid = uuid;
        superblock.log_start = U64::new(log_start);
        superblock.root_inode = U64::new(chunk_inode);
        superblock.realtime_bitmap_inode = U64::new(chunk_inode + 1);
        superblock.realtime_summary_inode = U64::new(chunk_inode + 2);
        superblock.realtime_extent_size_blocks = U32::new(self.realtime_extent_blocks);
        // Numbers of groups and of their blocks were verified to have 32 bits, sizes and logarithms far less.
        superblock.ag_blocks = U32::new(self.groups.blocks as u32);
        superblock.ag_count = U32::new(self.groups.count as u32);
        superblock.log_blocks = U32::new(self.log.blocks);
        superblock.version_number = U16::new(5 | words.version_bits.bits());
        superblock.sector_size_bytes = U16::new(sizes.sector_bytes as u16);
        superblock.inode_size_bytes = U16::new(sizes.inode_bytes as u16);
        superblock.inodes_per_block = U16::new(inodes_per_block as u16);
        superblock.label = self.label;
        superblock.block_log = sizes.block_log() as u8;
        superblock.sector_log = sector_log as u8;
        superblock.inode_log = sizes.inode_bytes.ilog2() as u8;
        superblock.inodes_per_block_log = inodes_per_block.ilog2() as u8;
        superblock.ag_block_log = group_log as u8;
        superblock.in_progress = 1;
        superblock.inode_max_percent = self.inode_max_percent;
        superblock.inode_alignment_blocks = U32::new(self.inode_alignment.chunk_blocks);
        superblock.stripe_unit_blocks = U32::new(self.stripe.unit_blocks);
        superblock.stripe_width_blocks = U32::new(self.stripe.width_blocks);
        superblock.directory_block_log = (sizes.directory_block_bytes / sizes.block_bytes).ilog2() as u8;
        superblock.log_sector_log = if has_large_sectors { sector_log as u8 } else { 0 };
        superblock.log_sector_size_bytes =
            U16::new(if has_large_sectors { sizes.sector_bytes as u16 } else { 0 });
        // 1 stands for none.
        superblock.log_stripe_unit_bytes = U32::new(self.log.stripe_unit_bytes.max(1));
        superblock.features2 = U32::new(words.features2.bits());
        superblock.bad_features2 = superblock.features2;
        superblock.ro_compatible = U32::new(words.ro_compatible.bits());
        superblock.incompatible = U32::new(words.incompatible.bits());
        superblock.sparse_inode_alignment_blocks = U32::new(self.inode_alignment.sparse_blocks);
        superblock
    }
}

fn realtime_extent(options: &Options, sizes: &Sizes) -> Result<u32, LayoutError> {
    let block_bytes = sizes.block_bytes;
    match options.size(Setting::RealtimeExtentSize, sizes.units())? {
        None => Ok((MIN_REALTIME_EXTENT_BYTES / block_bytes).max(1)),
        Some(bytes) if bytes % u64::from(block_bytes) != 0 => {
            Err(LayoutError::NotBlocks { option: "-r extsize", bytes, block_bytes })
        }
        Some(bytes) => Ok((bytes / u64::from(block_bytes)) as u32), // At most 1 GiB.
    }
}

fn verify_grow_to(options: &Options, now_bytes: u64) -> Result<(), LayoutError> {
    let Some(bytes) = options.grow_to_bytes else { return Ok(()) };
    if bytes < now_bytes {
        return Err(LayoutError::GrowTo { bytes, now_bytes });
    }
    let excluded = [
        (Setting::DataAgCount, "-d agcount"),
        (Setting::DataAgSize, "-d agsize"),
        (Setting::DataConcurrency, "-d concurrency"),
    ];
    match excluded.into_iter().find(|(setting, _)| options.has(*setting)) {
        Some((_, option)) => Err(LayoutError::GrowToConflict { option }),
        None => Ok(()),
    }
}

/// The value of `xfs:autofsck`: whether Linux may check and repair the file system by itself while it is mounted.
fn autofsck(options: &Options, features: &Features, warnings: &mut Vec<Warning>) -> Option<&'static str> {
    let can_check = features.reverse_map && features.parent_pointers;
    if !options.has(Setting::MetadataAutoFsck) {
        return can_check.then_some("repair");
    }
    let value = match (options.text(Setting::MetadataAutoFsck), options.number(Setting::MetadataAutoFsck)) {
        (_, Some(0)) | (Some("none"), _) => "none",
        (Some("check"), _) => "check",
        (Some("optimize"), _) => "optimize",
        _ => "repair",
    };
    if value != "none" && !features.reverse_map {
        warnings.push(Warning::AutoFsck { feature: "the reverse map (-m rmapbt)" });
    }
    if value != "none" && !features.parent_pointers {
        warnings.push(Warning::AutoFsck { feature: "parent pointers (-n parent)" });
    }
    Some(value)
}

#[cfg(test)]
mod layout_tests;

//! The root directory of an image whose superblock does not name it.
//!
//! A candidate is the root directory if it is a directory in use that is its own parent. The superblocks of other groups are asked
//! first, those that agree with each other before others. Then comes the place where mkfs.xfs puts the root directory, which
//! follows from the superblock, and the first inode chunk that there is.

use std::fmt;

use uxfs_format::{
    btree::{
        BtreeKind,
        free_space::{ByBlock, ByLength},
        reverse_map::ReverseMap,
    },
    geometry::Geometry,
    inode::FileType,
    superblock::Superblock,
    units::{AgInode, AgNumber, InodeNumber},
};

use super::{Finding, Findings, search::root_inodes_elsewhere};
use crate::{
    error::{Error, OperationError},
    volume::Volume,
};

/// Why an inode is taken for the root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootOrigin {
    /// The superblock of another allocation group names it.
    OtherSuperblock,
    /// It lies where mkfs.xfs puts the root directory.
    Computed,
    /// It is the first inode of the first chunk of allocation group 0.
    FirstChunk,
}

impl fmt::Display for RootOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherSuperblock => "another superblock names it",
            Self::Computed => "it lies where mkfs.xfs puts the root directory, and is its own parent",
            Self::FirstChunk => "it is the first inode of allocation group 0, and its own parent",
        })
    }
}

/// Whether an inode can be the root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    /// A directory that is its own parent.
    Root,
    /// Free, no directory, or a directory in another one.
    Other,
    /// It cannot be read.
    Unreadable,
}

/// Takes another root directory where the superblock names none, or something else.
pub(super) fn find_root(volume: &mut Volume) {
    let named = named_root(volume.superblock(), volume.geometry());
    let judged = named.map(|named| judge_root(volume, named));
    if judged == Some(Judgement::Root) {
        return;
    }
    let elsewhere = root_inodes_elsewhere(volume.device().as_ref(), volume.superblock());
    let candidates = candidates(volume, &elsewhere)
        .find(|(_, inode)| Some(*inode) != named && judge_root(volume, *inode) == Judgement::Root);
    // Where the root directory itself is damaged, the number of a copy is better than none.
    let unproved = || elsewhere.first().map(|inode| (RootOrigin::OtherSuperblock, *inode));
    let found = candidates.or_else(|| if named.is_none() { unproved() } else { None });
    if let Some((origin, inode)) = found {
        if let Some(findings) = volume.findings() {
            findings.add(Finding::RootInode { named, inode, origin });
        }
        volume.set_root(inode);
    }
}

/// In a copy of the superblock that mkfs.xfs wrote early: the realtime bitmap and summary inodes, which mkfs.xfs makes behind
/// the root directory, also where there is no realtime section.
pub(super) fn name_realtime_inodes(volume: &mut Volume) {
    let uses_copy = volume.findings().is_some_and(Findings::uses_copy);
    if !uses_copy || volume.geometry().features.has_metadata_directory() {
        return;
    }
    let root = volume.geometry().root_inode.get();
    let superblock = &mut volume.superblock;
    let named = [&mut superblock.realtime_bitmap_inode, &mut superblock.realtime_summary_inode];
    for (number, inode) in (root.saturating_add(1)..).zip(named) {
        if inode.get() == u64::MAX || inode.get() == 0 {
            inode.set(number);
        }
    }
}

fn candidates<'c>(
    volume: &'c Volume,
    elsewhere: &'c [InodeNumber],
) -> impl Iterator<Item = (RootOrigin, InodeNumber)> + 'c {
    let elsewhere = elsewhere.iter().map(|inode| (RootOrigin::OtherSuperblock, *inode));
    let computed = computed_roots(volume.superblock(), volume.geometry()).into_iter();
    let computed = computed.map(|inode| (RootOrigin::Computed, inode));
    // Only read where the others are not the root directory.
    let first = std::iter::once_with(|| first_inode(volume)).flatten();
    elsewhere.chain(computed).chain(first.map(|inode| (RootOrigin::FirstChunk, inode)))
}

fn first_inode(volume: &Volume) -> Option<InodeNumber> {
    let group = AgNumber::new(0);
    let first = volume.group(group).inode_chunks().ok()?.next()?.ok()?;
    Some(volume.geometry().inode_number(group, AgInode::new(first.start.get())))
}

fn judge_root(volume: &Volume, number: InodeNumber) -> Judgement {
    let inode = match volume.inode(number) {
        Ok(inode) => inode,
        Err(Error::Operation(OperationError::NoSuchInode)) => return Judgement::Other,
        Err(_) => return Judgement::Unreadable,
    };
    if inode.file_type() != Some(FileType::Directory) {
        return Judgement::Other;
    }
    match volume.lookup(&inode, b"..") {
        Ok(Some(parent)) if parent.inode == number => Judgement::Root,
        Ok(_) => Judgement::Other,
        Err(_) => Judgement::Unreadable,
    }
}

/// The root directory that a superblock names, if an inode can have the number.
pub(super) fn named_root(superblock: &Superblock, geometry: &Geometry) -> Option<InodeNumber> {
    let root = InodeNumber::new(superblock.root_inode.get());
    (root.get() != 0 && geometry.inode_place(root).is_some()).then_some(root)
}

/// The first inode of the first chunk that mkfs.xfs places: with the stripe unit of the superblock, which a mount may have changed,
/// and without.
#[doc(alias = "xfs_ialloc_calc_rootino")]
pub fn computed_roots(superblock: &Superblock, geometry: &Geometry) -> [InodeNumber; 2] {
    let features = &geometry.features;
    let roots = 3
        + u64::from(features.has_free_inode_btree())
        + u64::from(features.has_reverse_map())
        + u64::from(features.has_reflink());
    let reverse_map = if features.has_reverse_map() { ReverseMap::max_levels(geometry) } else { 0 };
    // Two blocks for each btree that allocations change and that may get a second level.
    let levels = [ByBlock::max_levels(geometry), ByLength::max_levels(geometry), reverse_map];
    let free_list = 2 * levels.into_iter().filter(|levels| *levels > 1).count() as u64;
    let log_group = geometry.log_start.and_then(|start| geometry.split_fs_block(start));
    let has_log = log_group.is_some_and(|(group, _)| group.get() == 0);
    let log = if has_log { u64::from(geometry.log_blocks) } else { 0 };
    let first_free = u64::from(geometry.group_header_blocks()) + roots + free_list + log;

    let alignment = u64::from(geometry.inode_alignment_blocks.max(1));
    let stripe = u64::from(superblock.stripe_unit_blocks.get());
    let is_striped = alignment > 1 && stripe >= alignment && stripe.is_multiple_of(alignment);
    let with_stripe = if is_striped { stripe } else { alignment };
    [with_stripe, alignment].map(|multiple| {
        InodeNumber::new(first_free.next_multiple_of(multiple) << geometry.inodes_per_block_log)
    })
}

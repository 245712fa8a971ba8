//! The smallest image for what it is to hold.
//!
//! The content is put, without the bytes of its files, into a scratch image that is large enough; what it takes there
//! says how large the real one must be. That size is tried in the same way before it is used.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use uxfs_block::{
    claim::{Claimed, Lock},
    device::BlockDevice,
    engine,
};
use uxfs_engine::{
    allocation_group::free_space::reservation::Reservation,
    engine::statistics::{counted_blocks, kept_blocks, most_inodes},
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::geometry::Geometry;
use uxfs_mkfs::{
    empty,
    identity::Identity,
    layout::{DeviceFacts, Layout},
    options::Options as MkfsOptions,
};
use uxfs_source::{error::SourceError, tree::Reading};
use uxfs_volume::error::{Error, OperationError};

use crate::{
    Options,
    adjust::Adjustments,
    contents::Contents,
    error::PopulateError,
    make::{MakeError, mount_options},
    report::Progress,
};

/// Smaller file systems are not supported.
const LEAST_SUPPORTED_BYTES: u64 = 300 << 20;
/// Below this there is none.
const LEAST_BYTES: u64 = 16 << 20;
/// Sizes are multiples of this.
const STEP_BYTES: u64 = 1 << 20;
/// Up to here each multiple is tried; above, sizes grow by a share, because the larger a file system is the more sizes suit a geometry.
const LARGEST_STEPWISE_BYTES: u64 = 4 << 30;
const GROWTH_SHARE: u64 = 64;
/// No size above makes a geometry possible that none below does.
const MOST_BYTES: u64 = 1 << 50;
/// Where the first attempt measures.
const FIRST_SCRATCH_BYTES: u64 = 1 << 40;
const LARGEST_SCRATCH_BYTES: u64 = 8 << 40;
const MOST_ATTEMPTS: u32 = 12;

/// What contents take.
struct Need {
    blocks: u64,
    /// In whole chunks: a share of the space is the most that inodes may take.
    inodes: u64,
}

/// The contents that must fit, and the directory for scratch images.
pub struct Fit<'a> {
    /// Options of the new file system.
    pub mkfs: &'a MkfsOptions,
    /// Time and numbers.
    pub identity: &'a Identity,
    /// Where scratch files may lie.
    pub directory: &'a Path,
    /// How it will be filled.
    pub options: Options,
    /// Changes of the source's metadata.
    pub adjustments: &'a mut Adjustments,
    /// Memory for metadata.
    pub cache_bytes: Option<u64>,
    /// Share of the space that `df` shows as available on the mounted file system.
    pub free_percent: u64,
    /// Counts the files of the attempt at hand.
    pub progress: &'a Progress,
}

impl Fit<'_> {
    /// The size in bytes. The contents are at their beginning again afterwards.
    ///
    /// # Errors
    /// A source cannot be read; options that make no file system; no room for scratch files.
    pub fn size_bytes(&mut self, contents: &mut Contents) -> Result<u64, MakeError> {
        contents.restart(Reading::Metadata)?;
        let need = self.measure(contents)?;
        let mut size_bytes = self.size_for(&need)?;
        for _ in 0..MOST_ATTEMPTS {
            contents.restart(Reading::Metadata)?;
            match self.try_size(contents, size_bytes)? {
                Some(_) => {
                    contents.restart(Reading::Everything)?;
                    return Ok(size_bytes);
                }
                // More space is left over in the groups than estimated.
                None => {
                    let larger_bytes = (size_bytes + size_bytes / 64).next_multiple_of(STEP_BYTES);
                    (size_bytes, _) = self.possible_from(larger_bytes)?;
                }
            }
        }
        Err(MakeError::NoSize)
    }

    /// What the content takes in an image with room to spare.
    fn measure(&mut self, contents: &mut Contents) -> Result<Need, MakeError> {
        let mut scratch_bytes = FIRST_SCRATCH_BYTES;
        loop {
            let possible_bytes = self.possible_up_to(scratch_bytes)?;
            if let Some(need) = self.try_size(contents, possible_bytes)? {
                return Ok(need);
            }
            if scratch_bytes >= LARGEST_SCRATCH_BYTES {
                return Err(MakeError::TooLarge);
            }
            scratch_bytes = LARGEST_SCRATCH_BYTES;
            contents.restart(Reading::Metadata)?;
        }
    }

    /// A size up to this one that the options make possible: few groups, or small ones, do not hold everything.
    fn possible_up_to(&self, size_bytes: u64) -> Result<u64, MakeError> {
        let halves = std::iter::successors(Some(size_bytes), |size| Some(size / 2));
        let mut halves = halves.take_while(|size| *size >= LEAST_BYTES);
        match halves.find(|size| self.layout(*size).is_ok()) {
            Some(size) => Ok(size),
            // Of a size that nothing else is wrong with, the error tells more.
            None => match self.possible_from(LEAST_BYTES) {
                Ok((size, _)) => Ok(size),
                Err(error) => Err(self.layout(size_bytes).err().unwrap_or(error)),
            },
        }
    }

    /// What the content takes in an image of `size_bytes`; nothing where it does not fit.
    fn try_size(&mut self, contents: &mut Contents, size_bytes: u64) -> Result<Option<Need>, MakeError> {
        let layout = self.layout(size_bytes)?;
        let device = self.scratch(size_bytes)?;
        let _unfinished = empty::begin(&*device, &layout, self.identity)?;
        let mount = mount_options(self.identity, self.cache_bytes);
        let file_system = FileSystem::mount_bulk(device.clone(), &mount)?;
        let before = file_system.free_blocks();
        let options = Options { writes_contents: false, ..self.options };
        self.progress.entries.store(0, Relaxed);
        match contents.fill(&file_system, self.adjustments, &options, self.progress) {
            Ok(_) => Ok(Some(Need {
                blocks: before.saturating_sub(file_system.free_blocks()),
                inodes: file_system.inode_count(),
            })),
            Err(error) if is_full(&error) => Ok(None),
            // Files have not been opened yet: reading everything names all that cannot be read.
            Err(PopulateError::Source(error @ SourceError::Unreadable(_))) => {
                Err(contents.whole_error().unwrap_or(error).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// An unlinked file of this size: it may be in the directory that is being read.
    fn scratch(&self, size_bytes: u64) -> Result<Arc<dyn BlockDevice>, MakeError> {
        let failed = |error| MakeError::Scratch { size_bytes, error };
        let file = tempfile::tempfile_in(self.directory).map_err(failed)?;
        file.set_len(size_bytes).map_err(failed)?;
        let claimed = Claimed::of(file, Lock::None).map_err(|error| failed(io::Error::other(error)))?;
        let options = engine::OpenOptions { writable: true, ..engine::OpenOptions::default() };
        Ok(engine::open_claimed(claimed, &options).map_err(Error::from)?)
    }

    /// The first size whose free blocks, without those that groups keep for themselves, hold the content and leave
    /// the share that is to be free, and that may have as many inodes.
    fn size_for(&self, need: &Need) -> Result<u64, MakeError> {
        let is_small_allowed = self.mkfs.allow_unsupported;
        let mut size_bytes = if is_small_allowed { LEAST_BYTES } else { LEAST_SUPPORTED_BYTES };
        loop {
            let layout;
            (size_bytes, layout) = self.possible_from(size_bytes)?;
            let missing_bytes = self.missing_bytes(&layout, need);
            if missing_bytes == 0 {
                return Ok(size_bytes);
            }
            size_bytes = size_bytes.saturating_add(missing_bytes).next_multiple_of(STEP_BYTES);
        }
    }

    /// The first size from this one on that the options make possible: they may ask for a stripe, for groups or for a log that need a larger
    /// file system. One that `xfs_repair` can look at, if there is any.
    fn possible_from(&self, size_bytes: u64) -> Result<(u64, Layout), MakeError> {
        let (mut size, mut unchecked, mut refused) = (size_bytes, None, None);
        while size <= size_bytes.max(MOST_BYTES) {
            match self.layout(size) {
                Ok(layout) if is_checkable(&layout, self.mkfs) => return Ok((size, layout)),
                Ok(layout) => drop(unchecked.get_or_insert((size, layout))),
                Err(error) => drop(refused.get_or_insert(error)),
            }
            let step = if size < LARGEST_STEPWISE_BYTES { STEP_BYTES } else { size / GROWTH_SHARE };
            size = size.saturating_add(step).next_multiple_of(STEP_BYTES);
        }
        unchecked.map_or_else(|| Err(refused.unwrap_or(MakeError::NoSize)), Ok)
    }

    /// By how much at least the image must become larger; 0 where it is large enough.
    fn missing_bytes(&self, layout: &Layout, need: &Need) -> u64 {
        let geometry = layout.geometry();
        let wanted_blocks = need.blocks.saturating_add(self.free_blocks(&geometry));
        let missing_blocks = wanted_blocks.saturating_sub(room(layout));
        // A part of what is added is to be free as well.
        let missing_blocks =
            missing_blocks.saturating_mul(100).div_ceil(100_u64.saturating_sub(self.free_percent).max(1));
        let most = most_inodes(&geometry, layout.inode_max_percent).unwrap_or(u64::MAX);
        let missing_inodes = need.inodes.saturating_sub(most);
        let for_inodes = missing_inodes.div_ceil(1 << geometry.inodes_per_block_log).saturating_mul(100)
            / u64::from(layout.inode_max_percent.max(1));
        let for_all = missing_blocks.max(for_inodes).saturating_mul(u64::from(geometry.block_size_bytes));
        for_all.max(u64::from(missing_inodes > 0))
    }

    /// Blocks that are to be free, so that `df` shows the wanted share as available: a mounted file system keeps some more for itself.
    fn free_blocks(&self, geometry: &Geometry) -> u64 {
        match self.free_percent {
            0 => 0,
            percent => counted_blocks(geometry).saturating_mul(percent).div_ceil(100) + kept_blocks(geometry),
        }
    }

    fn layout(&self, size_bytes: u64) -> Result<Layout, MakeError> {
        let mut options = self.mkfs.clone();
        options.size_bytes = Some(size_bytes);
        Ok(Layout::resolve(&options, &DeviceFacts::file(size_bytes))?.0)
    }
}

/// With a single group `xfs_repair` has nothing to compare the superblock with, and refuses to look at it. Images that
/// will be grown get more groups then.
fn is_checkable(layout: &Layout, options: &MkfsOptions) -> bool {
    layout.geometry().ag_count > 1 || options.grow_to_bytes.is_some()
}

/// Whether the image is full.
pub fn is_full(error: &PopulateError) -> bool {
    matches!(
        error,
        PopulateError::At { error: Error::Operation(OperationError::NoSpace), .. }
            | PopulateError::Image(Error::Operation(OperationError::NoSpace))
    )
}

/// Blocks for files in an empty image.
fn room(layout: &Layout) -> u64 {
    let geometry = layout.geometry();
    let in_group = |group| {
        let free = u64::from(layout.space(group).free_blocks());
        let kept = Reservation::new(&geometry, uxfs_format::units::AgNumber::new(group));
        let kept = u64::from(kept.reference_count_blocks)
            + u64::from(kept.free_inode_blocks)
            + u64::from(kept.reverse_map_blocks);
        free.saturating_sub(kept)
    };
    (0..geometry.ag_count).map(in_group).sum()
}

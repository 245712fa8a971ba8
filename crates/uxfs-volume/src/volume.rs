//! A device that holds a file system, to be read.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use uxfs_block::{
    cache::{
        Buffer, Cache, CacheOptions, ReadError,
        prefetcher::Prefetcher,
        pressure::{self, default_budget_bytes},
    },
    device::BlockDevice,
};
use uxfs_format::{
    fault::{Corruption, HeaderFault, Location, Structure},
    geometry::Geometry,
    superblock::Superblock,
    units::{InodeNumber, Lsn, Sector},
};

use crate::{
    damaged_blocks::DamagedBlocks,
    error::{Error, Result},
    metadata::{NewestLsn, sector_of_byte},
    superblock::{check_device_size, read_superblock},
    tolerant::Findings,
};

/// Threads that read ahead on a slow device: one waits for a batch while another prepares the next.
const PREFETCH_THREADS: usize = 2;

/// How to open a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VolumeOptions {
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
    /// Take an image whose superblock says that it is not finished, to finish it.
    pub is_unfinished: bool,
}

/// A file system on a device, to be read: its geometry, and a cache of verified metadata. It knows nothing of the log: what it
/// shows is what lies on the device (or in the overlay that it was opened on).
#[derive(Debug)]
pub struct Volume {
    cache: Arc<Cache>,
    /// Started when the device turns out to be slow; none where no thread could be started.
    prefetcher: OnceLock<Option<Prefetcher>>,
    geometry: Geometry,
    pub(crate) superblock: Superblock,
    /// Where the log ends; only known of a volume that is open for changes.
    newest_lsn: Arc<NewestLsn>,
    reclaim: Reclaim,
    /// The findings of a volume that was opened tolerantly.
    pub(crate) tolerance: Option<Findings>,
    pub(crate) damaged_blocks: DamagedBlocks,
}

/// A hook of the layer above that frees memory when extents take much of the cache's budget.
#[derive(Default)]
struct Reclaim(OnceLock<Box<ReclaimMemory>>);

type ReclaimMemory = dyn Fn(&Cache) + Send + Sync;

impl fmt::Debug for Reclaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reclaim").field(&self.0.get().is_some()).finish()
    }
}

/// Verified metadata, one or several blocks of it: a handle of a buffer in the cache, which keeps it in memory.
#[derive(Debug, Clone)]
pub struct MetadataBuffer {
    pub(crate) buffer: Buffer,
}

impl MetadataBuffer {
    /// First sector of the (first piece of the) buffer.
    pub fn sector(&self) -> Sector {
        sector_of_byte(self.buffer.offset_bytes())
    }
}

impl std::ops::Deref for MetadataBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl From<ReadError<Box<Corruption>>> for Error {
    fn from(error: ReadError<Box<Corruption>>) -> Self {
        match error {
            ReadError::Device(error) => error.into(),
            ReadError::Verify(corruption) => (*corruption).into(),
        }
    }
}

impl Volume {
    /// Reads and verifies the superblock of `device`, and sees that the device is as long as it says.
    ///
    /// # Errors
    /// Not an XFS V5 file system, a damaged one, one with unknown features; a device error.
    pub fn open(device: Arc<dyn BlockDevice>, options: &VolumeOptions) -> Result<Self> {
        let superblock = read_superblock(device.as_ref(), options.is_unfinished)?;
        let geometry = Geometry::new(&superblock);
        check_device_size(device.as_ref(), &geometry)?;
        Ok(Self::of_parts(device, superblock, options.cache_budget_bytes, None))
    }

    /// A volume with this superblock, which has been checked.
    pub(crate) fn of_parts(
        device: Arc<dyn BlockDevice>,
        superblock: Superblock,
        cache_budget_bytes: Option<u64>,
        tolerance: Option<Findings>,
    ) -> Self {
        let budget = cache_budget_bytes.unwrap_or_else(default_budget_bytes);
        let cache = Arc::new(Cache::new(device, &CacheOptions::with_budget(budget)));
        pressure::register(&cache);
        Self {
            cache,
            prefetcher: OnceLock::new(),
            geometry: Geometry::new(&superblock),
            superblock,
            newest_lsn: Arc::default(),
            reclaim: Reclaim::default(),
            tolerance,
            damaged_blocks: DamagedBlocks::default(),
        }
    }

    /// Sizes and address conversions.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Takes an inode for the root directory, whatever the superblock names.
    pub(crate) fn set_root(&mut self, inode: InodeNumber) {
        self.superblock.root_inode.set(inode.get());
        self.geometry.root_inode = inode;
    }

    /// The superblock that the volume was opened with, the primary one in a strict volume, as it was when the volume was opened.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.cache.device()
    }

    /// Where the log ends, once that is known: see [`begin_log_at`](Self::begin_log_at).
    pub fn newest_lsn(&self) -> &Arc<NewestLsn> {
        &self.newest_lsn
    }

    /// From now on no metadata is read that has a log sequence number ahead of `head`.
    ///
    /// # Errors
    /// The superblock has one.
    #[doc(alias = "xfs_log_check_lsn")]
    pub fn begin_log_at(&self, head: Lsn) -> Result<()> {
        let found = Lsn::new(self.superblock.lsn.get());
        if found > head && found != Lsn::NULL {
            let location = Location::at_sector(Sector::new(0));
            let fault = HeaderFault::AheadOfLog { found, head };
            return Err(Corruption::new(Structure::Superblock, location, fault).into());
        }
        self.newest_lsn.set(head);
        Ok(())
    }

    /// Where extents in memory take much of the cache's budget, `reclaim` is called before buffers are given up. Only the first
    /// call of this has an effect.
    pub fn on_memory_shortage(&self, reclaim: impl Fn(&Cache) + Send + Sync + 'static) {
        let _ = self.reclaim.0.set(Box::new(reclaim));
    }

    /// Gives up memory for extents: what the layer above can spare, and buffers.
    #[cold]
    pub fn make_way_for_extents(&self) {
        if let Some(reclaim) = self.reclaim.0.get() {
            reclaim(self.cache());
        }
        self.cache().make_way();
    }

    /// The cache of metadata.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The threads that read ahead; none where they cannot be started.
    pub(crate) fn prefetcher(&self) -> Option<&Prefetcher> {
        let start = || Prefetcher::start(Arc::clone(&self.cache), PREFETCH_THREADS).ok();
        self.prefetcher.get_or_init(start).as_ref()
    }
}

//! The file system object. Everything is reached through `&FileSystem`, from as many threads as the caller has.

mod background;
mod counters;
mod log_room;
mod logged;
mod moved;
mod sources;
mod writing;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use uxfs_block::{
    cache::{
        Buffer, Cache, CacheCounters, CacheOptions, Piece, ReadError,
        prefetcher::Prefetcher,
        pressure::{PressureWatch, default_budget_bytes},
    },
    device::BlockDevice,
};
use uxfs_format::{
    fault::{Corruption, Structure},
    geometry::Geometry,
    superblock::Superblock,
    units::Sector,
};
use uxfs_journal::{
    LogState,
    metadata::{StructureVerifier, piece, sector_of_byte},
};

use self::writing::Writing;
use crate::{
    error::{Error, Result},
    inode::table::InodeTable,
    mount::MountOptions,
    transaction::reservation::Needs,
};

/// Threads that read ahead on a slow device: one waits for a batch while another prepares the next.
const PREFETCH_THREADS: usize = 2;

/// A mounted file system.
#[derive(Debug)]
pub struct FileSystem {
    cache: Arc<Cache>,
    /// Started when the device turns out to be slow; none where no thread could be started.
    prefetcher: OnceLock<Option<Prefetcher>>,
    geometry: Geometry,
    superblock: Superblock,
    log_state: Option<LogState>,
    options: MountOptions,
    /// Inodes that are open, and those that were.
    inodes: InodeTable,
    /// What operations may take.
    needs: Needs,
    /// Held while a directory gets another parent.
    tree_lock: Mutex<()>,
    /// What changing takes; none for a file system mounted for reading.
    writing: Option<Writing>,
}

/// Verified metadata, one or several blocks of it: a handle of a buffer in the cache, which keeps it in memory.
#[derive(Debug, Clone)]
pub struct MetadataBuffer {
    buffer: Buffer,
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

impl FileSystem {
    pub(crate) fn new(
        device: Arc<dyn BlockDevice>,
        geometry: Geometry,
        superblock: Superblock,
        log_state: Option<LogState>,
        options: MountOptions,
    ) -> Self {
        let budget = options.cache_budget_bytes.unwrap_or_else(default_budget_bytes);
        let cache = Arc::new(Cache::new(device, &CacheOptions::with_budget(budget)));
        let prefetcher = OnceLock::new();
        let needs = Needs::new(&geometry);
        let inodes = InodeTable::default();
        Self {
            cache,
            prefetcher,
            geometry,
            superblock,
            log_state,
            options,
            inodes,
            tree_lock: Mutex::default(),
            needs,
            writing: None,
        }
    }

    /// Sizes and address conversions.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The primary superblock as it was at mount.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.cache.device()
    }

    /// What operations may take.
    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    /// What keeps directories where they are. It comes before the locks of inodes.
    #[doc(alias = "s_vfs_rename_mutex")]
    pub(crate) fn tree_lock(&self) -> &Mutex<()> {
        &self.tree_lock
    }

    pub(crate) fn inode_table(&self) -> &InodeTable {
        &self.inodes
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// What the log said at mount: never that it is dirty. `None` where it was ignored.
    pub fn log_state(&self) -> Option<&LogState> {
        self.log_state.as_ref()
    }

    /// How it was mounted.
    pub fn options(&self) -> MountOptions {
        self.options
    }

    /// Reads metadata that lies in one piece and verifies it as `structure`.
    ///
    /// # Errors
    /// The device failed or the bytes are damaged.
    pub fn read_metadata(
        &self,
        structure: Structure,
        sector: Sector,
        length_bytes: u32,
    ) -> Result<MetadataBuffer> {
        let pieces = [piece((sector, length_bytes))];
        Ok(MetadataBuffer { buffer: self.cache.read(&pieces, &self.verifier(structure))? })
    }

    /// Reads metadata that lies in several pieces (a directory block over several extents) as one buffer.
    ///
    /// # Errors
    /// As [`read_metadata`](Self::read_metadata).
    pub fn read_metadata_pieces(
        &self,
        structure: Structure,
        pieces: &[(Sector, u32)],
    ) -> Result<MetadataBuffer> {
        if let [(sector, length_bytes)] = pieces {
            return self.read_metadata(structure, *sector, *length_bytes);
        }
        let pieces: Vec<Piece> = pieces.iter().copied().map(piece).collect();
        Ok(MetadataBuffer { buffer: self.cache.read(&pieces, &self.verifier(structure))? })
    }

    /// Reads several pieces of metadata, those that are not in memory in as few submissions as possible. The results
    /// are in the order of the requests.
    pub fn read_metadata_many(&self, requests: &[(Structure, Sector, u32)]) -> Vec<Result<MetadataBuffer>> {
        let pieces: Vec<[Piece; 1]> =
            requests.iter().map(|(_, sector, length_bytes)| [piece((*sector, *length_bytes))]).collect();
        let verifiers = requests.iter().map(|(structure, ..)| self.verifier(*structure));
        let requests: Vec<(&[Piece], _)> = pieces.iter().map(<[Piece; 1]>::as_slice).zip(verifiers).collect();
        let buffers = self.cache.read_many(&requests).into_iter();
        buffers.map(|result| Ok(MetadataBuffer { buffer: result? })).collect()
    }

    /// Brings metadata into the cache that will be read soon. It is verified when it is read; errors are left for
    /// then. Takes at most about a tenth of the cache's budget at once. Where the device is slow another thread reads it:
    /// ask for what comes after the next thing, not for the next.
    pub fn prefetch_metadata(&self, requests: &[(Structure, Sector, u32)]) {
        let pieces: Vec<Piece> =
            requests.iter().map(|(_, sector, length_bytes)| piece((*sector, *length_bytes))).collect();
        if self.cache.is_device_slow()
            && let Some(prefetcher) = self.prefetcher()
        {
            prefetcher.request(pieces);
        } else {
            self.cache.prefetch(pieces.iter().map(std::slice::from_ref));
        }
    }

    fn prefetcher(&self) -> Option<&Prefetcher> {
        let start = || Prefetcher::start(Arc::clone(&self.cache), PREFETCH_THREADS).ok();
        self.prefetcher.get_or_init(start).as_ref()
    }

    /// What the cache has done so far.
    pub fn cache_counters(&self) -> CacheCounters {
        self.cache.counters()
    }

    /// Starts a thread that shrinks the cache while memory is scarce, and lets it grow again; it ends when the result is
    /// dropped.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn watch_memory_pressure(&self) -> std::io::Result<PressureWatch> {
        PressureWatch::start(Arc::clone(&self.cache))
    }

    fn verifier(&self, structure: Structure) -> StructureVerifier<'_> {
        StructureVerifier { structure, geometry: &self.geometry }
    }
}

//! The file system object: everything is reached through `&FileSystem`, from as many threads as the caller has.

use std::{ops::Deref, sync::Arc};

use parking_lot::Mutex;
use uxfs_block::device::BlockDevice;
use uxfs_engine::engine::{Engine, unfinished::Unfinished};
use uxfs_journal::{LogState, journal::LogStart};
use uxfs_volume::{
    superblock::{read_superblock, refuse_unwritable},
    volume::Volume,
};

use crate::{
    inode::table::InodeTable,
    mount,
    opening::{FIRST_LSN, check_volume},
    recovery,
};
use uxfs_engine::options::MountOptions;
use uxfs_volume::error::{Error, OperationError, Result};

/// A file system that is mounted for changes: an [`Engine`] with the inodes that are open.
#[derive(Debug)]
pub struct FileSystem {
    engine: Arc<Engine>,
    /// Inodes that are open, and those that were.
    inodes: Arc<InodeTable>,
    /// Held while a directory gets another parent.
    tree_lock: Mutex<()>,
}

impl Deref for FileSystem {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl FileSystem {
    fn of(engine: Arc<Engine>) -> Self {
        let inodes = Arc::<InodeTable>::default();
        let of_engine = Arc::clone(&inodes);
        if engine.mode().is_logged() {
            inodes.belongs_to(&engine);
        }
        engine.on_memory_shortage(move |cache| of_engine.make_way_for_extents(cache));
        Self { engine, inodes, tree_lock: Mutex::default() }
    }

    /// Mounts for changes in bulk mode: nothing is logged, so that the image is of use only after [`close`](Self::close).
    /// From the first write until then its superblock says that it is not finished: uxfs and Linux refuse it.
    ///
    /// # Errors
    /// As for [`open_volume`](mount::open_volume); the device is read-only or fails; features that uxfs cannot write.
    pub fn mount_bulk(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Self> {
        if options.is_unfinished {
            return Self::mount_bulk_unmarked(device, options);
        }
        let superblock = read_superblock(device.as_ref(), false)?;
        Self::mount_bulk_unmarked(Arc::new(Unfinished::new(device, &superblock)), options)
    }

    /// As [`mount_bulk`](Self::mount_bulk), on a device whose contents only this process sees before the file system is
    /// closed.
    pub(crate) fn mount_bulk_unmarked(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Self> {
        let volume = mount::open_volume(device, options)?;
        Ok(Self::of(Arc::new(Engine::bulk(volume, *options)?)))
    }

    /// Mounts for changes that survive a crash at any moment. A dirty log is replayed first, and the image is recovered.
    ///
    /// # Errors
    /// As for [`open_volume`](mount::open_volume); the device is read-only; features that uxfs cannot write.
    pub fn mount_logged(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Arc<Self>> {
        let (volume, log_state) = match mount::open_examined(Arc::clone(&device), options) {
            Err(Error::Operation(OperationError::DirtyLog { .. })) => {
                if let Some(recovered) = recovery::recover(&device, options, &mut ())? {
                    recovered.write()?;
                }
                mount::open_examined(device, options)?
            }
            result => result?,
        };
        refuse_unwritable(volume.device().as_ref(), volume.superblock())?;
        let state = log_state.ok_or(OperationError::ReadOnly)?;
        check_volume(&volume, &state)?;
        let previous_block = match state {
            LogState::Clean(log) => log.newest.block(),
            _ => u32::MAX,
        };
        let head = state.head().unwrap_or(FIRST_LSN);
        let start = LogStart { head, previous_block, recovered_tail: None };
        Self::with_log(volume, options, start).map(Arc::new)
    }

    /// Goes on from a volume to a file system mounted for changes, with the log at `start`.
    pub(crate) fn with_log(volume: Volume, options: &MountOptions, start: LogStart) -> Result<Self> {
        Ok(Self::of(Engine::logged(volume, *options, start)?))
    }

    /// What changes it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What keeps directories where they are. It comes before the locks of inodes.
    #[doc(alias = "s_vfs_rename_mutex")]
    pub(crate) fn tree_lock(&self) -> &Mutex<()> {
        &self.tree_lock
    }

    pub(crate) fn inode_table(&self) -> &InodeTable {
        &self.inodes
    }

    /// Frees what has neither names nor handles, brings everything home and makes the image whole. In logged mode the log is
    /// closed in good order; nothing can be changed any more.
    ///
    /// # Errors
    /// The device failed; bytes that must not be written. The image is then unfinished.
    pub fn close(&self) -> Result<()> {
        self.inactivate_pending()?;
        // A group that nobody has touched has gained nothing that is without a name.
        for group in self.loaded_groups() {
            self.inactivate_unlinked_of(group)?;
        }
        self.engine.close()
    }
}

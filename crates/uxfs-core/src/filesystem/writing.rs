//! What a file system mounted for changes has beside one that is only read.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use parking_lot::Mutex;
use uxfs_block::{cache::WriteBack, device::BlockDevice, own_line::OwnLine};
use uxfs_format::{
    fault::Structure,
    geometry::Geometry,
    superblock::Superblock,
    units::{AgNumber, Sector},
};
use uxfs_journal::{
    metadata::StructureSealer,
    transaction::{Mode, TransactionBuffers},
};

use super::{FileSystem, counters::Counters, logged::Logged, sources::RandomNumbers, unfinished::Unfinished};
use crate::{
    allocation_group::state::GroupState,
    error::{OperationError, Result},
    mount::{MountOptions, read_superblock},
    transaction::{CounterChanges, Transaction},
};

/// Groups, counters, and how changes become durable.
#[derive(Debug)]
pub(super) struct Writing {
    mode: Mode,
    groups: Box<[Arc<Mutex<GroupState>>]>,
    /// Counts allocations that may go anywhere.
    group_rotor: AtomicU32,
    pub(super) counters: OwnLine<Counters>,
    /// Group of the next directory.
    directory_rotor: AtomicU32,
    pub(super) random: OwnLine<RandomNumbers>,
    /// In logged mode.
    pub(super) logged: Option<Logged>,
}

impl Writing {
    pub fn new(mode: Mode, geometry: &Geometry, superblock: &Superblock) -> Self {
        let groups = geometry.groups().map(|group| Arc::new(Mutex::new(GroupState::new(group)))).collect();
        let counters = OwnLine(Counters::of(superblock));
        Self {
            mode,
            groups,
            group_rotor: AtomicU32::new(0),
            directory_rotor: AtomicU32::new(0),
            counters,
            random: OwnLine(RandomNumbers::new()),
            logged: None,
        }
    }
}

impl FileSystem {
    /// Mounts for changes in bulk mode: nothing is logged, so that the image is of use only after [`close`](Self::close).
    /// From the first write until then its superblock says that it is not finished: uxfs and Linux refuse it.
    ///
    /// # Errors
    /// As for [`mount`](Self::mount); the device is read-only or fails; features that uxfs cannot write.
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
        if device.is_read_only() {
            return Err(OperationError::ReadOnly.into());
        }
        let mut file_system = Self::mount(device, options)?;
        file_system.writing = Some(Writing::new(Mode::Bulk, &file_system.geometry, &file_system.superblock));
        Ok(file_system)
    }

    /// How changes become durable; `None` where there can be none.
    pub fn mode(&self) -> Option<Mode> {
        self.writing.as_ref().map(|writing| writing.mode)
    }

    /// The counters, of a file system that has a journal: in bulk mode nothing is held back.
    pub(super) fn logged_counters(&self) -> Option<&Counters> {
        let writing = self.writing.as_ref().filter(|writing| writing.logged.is_some())?;
        Some(&writing.counters)
    }

    /// Free blocks as the superblock's counter has them now.
    pub fn free_blocks(&self) -> u64 {
        let counter = self.writing.as_ref().map(|writing| writing.counters.free_blocks());
        counter.unwrap_or(self.superblock.free_data_blocks.get())
    }

    /// Inodes that exist, in use or free, as the superblock's counter has them now.
    pub fn inode_count(&self) -> u64 {
        let counter = self.writing.as_ref().map(|writing| writing.counters.inodes());
        counter.unwrap_or(self.superblock.inode_count.get())
    }

    /// Inodes that exist and are not in use, as the superblock's counter has them now.
    pub fn free_inode_count(&self) -> u64 {
        let counter = self.writing.as_ref().map(|writing| writing.counters.free_inodes());
        counter.unwrap_or(self.superblock.free_inodes.get())
    }

    /// Whose turn it is when an allocation may go anywhere.
    pub(crate) fn group_rotor(&self) -> &AtomicU32 {
        static NOBODY_ALLOCATES: AtomicU32 = AtomicU32::new(0);
        self.writing.as_ref().map_or(&NOBODY_ALLOCATES, |writing| &writing.group_rotor)
    }

    /// The group in which the next directory is to begin: one after the other, so that their files spread too.
    #[doc(alias = "m_agirotor")]
    pub(crate) fn next_directory_group(&self) -> AgNumber {
        let turn = self.writing.as_ref().map_or(0, |writing| writing.directory_rotor.fetch_add(1, Relaxed));
        AgNumber::new(turn % self.geometry.ag_count.max(1))
    }

    pub(crate) fn group_state(&self, group: AgNumber) -> Result<&Arc<Mutex<GroupState>>> {
        let writing = self.writing.as_ref().ok_or(OperationError::ReadOnly)?;
        let state = usize::try_from(group.get()).ok().and_then(|index| writing.groups.get(index));
        state.ok_or_else(|| OperationError::NoSuchGroup.into())
    }

    /// The superblock with the counters as they are now.
    pub(super) fn superblock_now(&self) -> Superblock {
        let mut superblock = self.superblock;
        if let Some(writing) = &self.writing {
            writing.counters.store_in(&mut superblock);
        }
        superblock
    }

    pub(crate) fn apply_counters(&self, changes: CounterChanges) {
        if let Some(writing) = &self.writing {
            writing.counters.apply(changes);
        }
    }

    /// Writes cold buffers home where changed ones take half of the cache's budget.
    pub(crate) fn write_back_if_crowded(&self) -> Result<()> {
        if self.cache.dirty_bytes() > self.cache.budget_bytes() / 2 {
            let sealer = StructureSealer { geometry: &self.geometry, lsn: None };
            self.cache.write_back(WriteBack::Cold, &sealer)?;
        }
        Ok(())
    }

    /// Has the trees of all groups told what waits in memory: inode chunks, owners.
    fn settle_groups(&self) -> Result<()> {
        let mut transaction = Transaction::begin(self)?;
        for group in self.geometry.groups() {
            // A group that nobody has touched is left alone.
            if self.group_state(group)?.lock().is_loaded() {
                transaction.group(group)?.settle()?;
            }
        }
        transaction.commit()
    }

    /// Brings everything home and makes the image whole: groups' headers, buffers, and last the superblock with its
    /// counters, each behind a flush. In logged mode the log is closed in good order; nothing can be changed any more.
    ///
    /// # Errors
    /// The device failed; bytes that must not be written. The image is then unfinished.
    pub fn close(&self) -> Result<()> {
        let Some(writing) = &self.writing else { return Ok(()) };
        self.inactivate_pending()?;
        for group in self.geometry.groups() {
            // A group that nobody has touched has gained nothing that is without a name.
            if self.group_state(group)?.lock().is_loaded() {
                self.inactivate_orphans_of(group)?;
            }
        }
        if writing.mode.is_logged() {
            return self.close_logged();
        }
        self.settle_groups()?;
        let mut buffers = TransactionBuffers::new(&self.cache, &self.geometry, writing.mode, None);
        for group in &writing.groups {
            group.lock().store(&mut buffers)?;
        }
        let sealer = StructureSealer { geometry: &self.geometry, lsn: None };
        self.cache.write_back(WriteBack::All, &sealer)?;
        self.device().flush()?;
        let length_bytes = self.geometry.sector_size_bytes;
        let mut buffer = buffers.edit(Structure::Superblock, Sector::new(0), length_bytes)?;
        buffer.edit().put_value(0, &self.superblock_now());
        drop(buffer);
        self.cache.write_back(WriteBack::All, &sealer)?;
        Ok(self.device().flush()?)
    }
}

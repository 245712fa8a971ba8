//! Changing without a log: nothing is in order on the device until the image is closed.

use uxfs_block::cache::WriteBack;
use uxfs_format::{fault::Structure, units::Sector};
use uxfs_journal::{
    metadata::StructureSealer,
    transaction::{Mode, TransactionBuffers},
};
use uxfs_volume::{superblock::refuse_unwritable, volume::Volume};

use super::Engine;
use crate::options::MountOptions;
use crate::transaction::Transaction;
use uxfs_volume::error::Result;

impl Engine {
    /// An engine in bulk mode: nothing is logged, so that the image is of use only after [`close`](Self::close). On a device that
    /// others see, put an [`Unfinished`](super::unfinished::Unfinished) around it first.
    ///
    /// # Errors
    /// The device is read-only; features that uxfs cannot write.
    pub fn bulk(volume: Volume, options: MountOptions) -> Result<Self> {
        refuse_unwritable(volume.device().as_ref(), volume.superblock())?;
        Ok(Self::new(volume, options))
    }

    /// Writes cold buffers home where changed ones take half of the cache's budget.
    pub fn write_back_if_crowded(&self) -> Result<()> {
        if self.cache().dirty_bytes() > self.cache().buffer_budget_bytes() / 2 {
            let sealer = StructureSealer { geometry: self.geometry(), lsn: None, is_verified: false };
            self.cache().write_back(WriteBack::Cold, &sealer)?;
        }
        Ok(())
    }

    /// Has the trees of all groups told what waits in memory: inode chunks, owners.
    fn flush_groups(&self) -> Result<()> {
        for group in self.loaded_groups() {
            let mut transaction = Transaction::begin(self)?;
            transaction.group(group)?.settle()?;
            transaction.commit()?;
        }
        Ok(())
    }

    pub(super) fn close_bulk(&self) -> Result<()> {
        self.flush_groups()?;
        let mut buffers = TransactionBuffers::new(self.cache(), self.geometry(), Mode::Bulk, None);
        for group in self.groups.known() {
            group.lock().store(&mut buffers)?;
        }
        let sealer = StructureSealer { geometry: self.geometry(), lsn: None, is_verified: false };
        self.cache().write_back(WriteBack::All, &sealer)?;
        self.device().flush()?;
        let length_bytes = self.geometry().sector_size_bytes;
        let mut buffer = buffers.edit(Structure::Superblock, Sector::new(0), length_bytes)?;
        buffer.edit().put_value(0, &self.superblock_now());
        drop(buffer);
        self.cache().write_back(WriteBack::All, &sealer)?;
        Ok(self.device().flush()?)
    }
}

//! Changing without a log: nothing is consistent on the device until the image is closed.

use uxfs_block::cache::WriteBack;
use uxfs_format::{fault::Structure, units::Sector};
use uxfs_journal::{metadata::StructureSealer, transaction::TransactionBuffers};
use uxfs_volume::{superblock::refuse_unwritable, volume::Volume};

use super::Engine;
use crate::allocation_group::state::GroupState;
use crate::options::MountOptions;
use crate::transaction::Transaction;
use uxfs_volume::error::{OperationError, Result};

/// An engine in bulk mode: nothing is logged, so that the image is of use only after [`close`](Self::close).
#[derive(Debug)]
pub struct BulkEngine {
    engine: Engine,
}

impl std::ops::Deref for BulkEngine {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl BulkEngine {
    /// An engine in bulk mode. On a device that others see, put an [`Unfinished`](super::unfinished::Unfinished) around it
    /// first.
    ///
    /// # Errors
    /// The device is read-only; features that uxfs cannot write.
    pub fn new(volume: Volume, options: MountOptions) -> Result<Self> {
        if !options.is_thrown_away {
            refuse_unwritable(volume.device().as_ref(), volume.superblock())?;
        }
        Ok(Self { engine: Engine::new(volume, options) })
    }

    /// Whether an operation may take so many blocks. Images are filled to the last block, and an operation that gives
    /// space back may try on a full one.
    pub(crate) fn require_blocks(&self, blocks: u64, kept_blocks: u64) -> Result<()> {
        if kept_blocks > 0 && blocks > 0 && self.free_blocks() < blocks {
            return Err(OperationError::NoSpace.into());
        }
        Ok(())
    }

    /// Writes cold buffers back where changed ones take half of the cache's budget.
    pub fn write_back_if_crowded(&self) -> Result<()> {
        if self.is_crowded() {
            self.cache().write_back(WriteBack::Cold, &self.sealer())?;
        }
        Ok(())
    }

    fn sealer(&self) -> StructureSealer<'_> {
        StructureSealer { geometry: self.geometry(), lsn: None }
    }

    /// Flushes the inode-index and reverse-map records of all groups that are only in memory.
    fn flush_groups(&self) -> Result<()> {
        for group in self.loaded_groups() {
            let mut transaction = Transaction::bulk(self);
            transaction.group(group)?.settle()?;
            transaction.commit()?;
        }
        Ok(())
    }

    pub(super) fn close(&self) -> Result<()> {
        self.flush_groups()?;
        let mut buffers = TransactionBuffers::bulk(self.cache(), self.geometry(), self.newest_lsn());
        for (group, state) in self.groups.known() {
            GroupState::lock(state, group).store(&mut buffers)?;
        }
        self.cache().write_back(WriteBack::All, &self.sealer())?;
        self.device().flush()?;
        let length_bytes = self.geometry().sector_size_bytes;
        let mut buffer = buffers.edit(Structure::Superblock, Sector::new(0), length_bytes)?;
        buffer.edit().put_value(0, &self.superblock_now());
        drop(buffer);
        self.cache().write_back(WriteBack::All, &self.sealer())?;
        Ok(self.device().flush()?)
    }
}

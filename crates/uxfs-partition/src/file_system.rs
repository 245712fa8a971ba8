//! What tells the XFS file systems in partitions apart.

use uxfs_block::device::{BlockDevice, DeviceError};
use uxfs_format::superblock::{MAX_SECTOR_SIZE_BYTES, Superblock};

use crate::table::Partition;

/// An XFS file system in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XfsIdentity {
    /// Its label; empty where it has none.
    pub label: Vec<u8>,
    /// The UUID that users see.
    pub uuid: String,
}

impl XfsIdentity {
    /// Of the file system that begins with the partition; `None` where that is no XFS.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub fn read(device: &dyn BlockDevice, partition: &Partition) -> Result<Option<Self>, DeviceError> {
        let length = usize::try_from(partition.length_bytes).unwrap_or(usize::MAX).min(MAX_SECTOR_SIZE_BYTES);
        let mut bytes = vec![0; length];
        device.read(partition.start_bytes, &mut bytes)?;
        let Ok((superblock, _)) = Superblock::parse(&bytes) else { return Ok(None) };
        Ok(Some(Self { label: superblock.label().to_vec(), uuid: superblock.uuid.to_string() }))
    }
}

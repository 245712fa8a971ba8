//! The tables of a disk, as far as they are asked for.

use std::{collections::HashMap, io, sync::Arc};

use parking_lot::RwLock;
use uxfs_block::device::BlockDevice;

/// Read and kept at once.
const BLOCK_BYTES: u64 = 4096;
/// Blocks that are kept: 8 MiB, which stand for 64 GiB of a disk with the usual clusters.
const MOST_BLOCKS: usize = 2048;

/// Numbers of eight bytes in a file, in blocks that are kept.
#[derive(Debug)]
pub(super) struct Tables {
    file: Arc<dyn BlockDevice>,
    blocks: RwLock<HashMap<u64, Arc<[u8]>>>,
}

impl Tables {
    pub fn new(file: Arc<dyn BlockDevice>) -> Self {
        Self { file, blocks: RwLock::default() }
    }

    /// The number at a byte of the file, which is a multiple of 8.
    pub fn number(&self, offset_bytes: u64) -> io::Result<u64> {
        let (block, at) = (offset_bytes / BLOCK_BYTES, (offset_bytes % BLOCK_BYTES) as usize);
        let known = self.blocks.read().get(&block).map(Arc::clone);
        let bytes = match known {
            Some(bytes) => bytes,
            None => self.read(block)?,
        };
        let number = bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok());
        number.map(u64::from_be_bytes).ok_or_else(|| damaged(offset_bytes))
    }

    fn read(&self, block: u64) -> io::Result<Arc<[u8]>> {
        let start = block.saturating_mul(BLOCK_BYTES);
        let length =
            self.file.size_bytes().checked_sub(start).ok_or_else(|| damaged(start))?.min(BLOCK_BYTES);
        let mut bytes = vec![0; length as usize];
        self.file.read(start, &mut bytes).map_err(|error| error.source)?;
        let bytes: Arc<[u8]> = bytes.into();
        let mut blocks = self.blocks.write();
        if blocks.len() >= MOST_BLOCKS {
            blocks.clear();
        }
        blocks.insert(block, Arc::clone(&bytes));
        Ok(bytes)
    }
}

fn damaged(offset_bytes: u64) -> io::Error {
    let words =
        format!("the qcow2 disk is damaged or cut off: no table can be at byte {offset_bytes} of the file");
    io::Error::new(io::ErrorKind::InvalidData, words)
}

//! What the attributes of one inode may not have in common: names, and blocks of their values.
//!
//! Invariants:
//! 1. Names are kept while their hash is the same: attributes come in the order of their hashes. Values are sorted. So the attributes of an
//!    inode take no more memory than [`MOST_NAME_BYTES`] and [`SORT_BYTES`], whatever their number.

use std::collections::HashSet;

use uxfs_block::spill::{SpillError, sorter::Sorter};
use uxfs_format::units::FileBlock;
use uxfs_volume::attribute::Namespace;

/// Names of one hash that are kept. Only an image that was made for it has more; those are not compared.
const MOST_NAME_BYTES: usize = 1 << 20;
/// Places of values that are sorted in memory.
const SORT_BYTES: usize = 1 << 20;

/// Names and values of an inode so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    hash: Option<u32>,
    names: HashSet<(u8, Box<[u8]>)>,
    name_bytes: usize,
    values: Option<Sorter>,
}

impl Seen {
    /// Whether an attribute has the name of one before. `hash` is `None` in an inode, where there are few. Parent pointers are told apart
    /// by their values, and compared with entries.
    pub fn is_name_twice(&mut self, hash: Option<u32>, namespace: Namespace, name: &[u8]) -> bool {
        if hash != self.hash {
            self.hash = hash;
            self.names.clear();
            self.name_bytes = 0;
        }
        if namespace == Namespace::Parent || self.name_bytes > MOST_NAME_BYTES {
            return false;
        }
        self.name_bytes += name.len();
        !self.names.insert((namespace as u8, name.into()))
    }

    /// Takes in where a value lies.
    ///
    /// # Errors
    /// A temporary file.
    pub fn add_value(&mut self, name: &[u8], first: FileBlock, length_blocks: u64) -> Result<(), SpillError> {
        let values = self.values.get_or_insert_with(|| Sorter::new(SORT_BYTES));
        let mut payload = length_blocks.to_le_bytes().to_vec();
        payload.extend_from_slice(name);
        values.push(&first.get().to_be_bytes(), &payload)
    }

    /// Tells `report` each value that begins in another one.
    ///
    /// # Errors
    /// A temporary file.
    pub fn report_shared(self, report: &mut dyn FnMut(&[u8], FileBlock)) -> Result<(), SpillError> {
        let Some(values) = self.values else { return Ok(()) };
        let mut merge = values.finish()?.read()?;
        let mut end = 0;
        while let Some((key, payload)) = merge.next_record()? {
            let (Some(first), Some((length_blocks, name))) = (key.first_chunk(), payload.split_first_chunk())
            else {
                return Err(SpillError::damaged());
            };
            let first = u64::from_be_bytes(*first);
            if first < end {
                report(name, FileBlock::new(first));
            }
            end = end.max(first.saturating_add(u64::from_le_bytes(*length_blocks)));
        }
        Ok(())
    }
}

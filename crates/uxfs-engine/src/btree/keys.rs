//! Keeping the keys in the nodes true (invariant 2).

use uxfs_format::btree::{BtreeKind, block_edit::key_of_block};

use super::{cursor::EditCursor, storage::BtreeStorage};
use uxfs_volume::error::Result;

impl<'fs, K: BtreeKind, H: BtreeStorage<'fs, K>> EditCursor<'fs, K, H> {
    /// Something with `key` has been added to the node of a level, as its first entry or not.
    pub(super) fn raise_keys(&mut self, level: usize, key: &K::Key, is_first: bool) -> Result<()> {
        let (mut level, mut is_first) = (level, is_first);
        while (is_first || K::HAS_HIGH_KEYS) && level + 1 < self.blocks.path.levels() {
            level += 1;
            let index = self.blocks.path.index(level);
            let (old, _) = self.blocks.expect_entry(level, index)?;
            let mut new = if is_first { *key } else { old };
            K::widen_key(&mut new, if is_first { &old } else { key });
            if new == old {
                break;
            }
            self.blocks.set_key(level, index, &new)?;
            is_first = is_first && index == 0;
        }
        Ok(())
    }

    /// The node of a level has changed in any way: gives its parents its key anew.
    pub(super) fn recompute_keys(&mut self, level: usize) -> Result<()> {
        let mut level = level;
        while level + 1 < self.blocks.path.levels() {
            let Some(key) = key_of_block(&self.blocks.view(level)?) else { break };
            level += 1;
            let index = self.blocks.path.index(level);
            if self.blocks.expect_entry(level, index)?.0 == key {
                break;
            }
            self.blocks.set_key(level, index, &key)?;
            if index > 0 && !K::HAS_HIGH_KEYS {
                break;
            }
        }
        Ok(())
    }

    /// Something with `key` is no longer at `index` of the node of a level.
    pub(super) fn lower_keys(&mut self, level: usize, key: &K::Key, index: usize) -> Result<()> {
        if level + 1 >= self.blocks.path.levels() {
            return Ok(());
        }
        let is_bound = K::HAS_HIGH_KEYS && {
            let (parent, _) = self.blocks.expect_entry(level + 1, self.blocks.path.index(level + 1))?;
            K::reaches_only_to(&parent, key)
        };
        if index == 0 || is_bound { self.recompute_keys(level) } else { Ok(()) }
    }
}

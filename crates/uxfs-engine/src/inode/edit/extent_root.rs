//! The root of an extent btree inside an inode, as the btree code changes it.

use uxfs_format::{
    btree::extent_map::{ExtentMap, ExtentMapKey},
    units::FsBlock,
};
use zerocopy::big_endian::U64;

use super::ExtentRoot;
use crate::btree::storage::InlineRoot;

impl InlineRoot<ExtentMap> for ExtentRoot {
    fn level(&self) -> u16 {
        self.level
    }

    fn set_level(&mut self, level: u16) {
        self.level = level;
    }

    fn len(&self) -> usize {
        self.keys.len().min(self.pointers.len())
    }

    fn entry(&self, index: usize) -> Option<(ExtentMapKey, U64)> {
        let key = ExtentMapKey { file_block: U64::new(*self.keys.get(index)?) };
        Some((key, U64::new(self.pointers.get(index)?.get())))
    }

    fn set_key(&mut self, index: usize, key: &ExtentMapKey) {
        if let Some(slot) = self.keys.get_mut(index) {
            *slot = key.file_block.get();
        }
    }

    fn insert(&mut self, index: usize, key: &ExtentMapKey, pointer: &U64) {
        if index <= self.keys.len() && index <= self.pointers.len() {
            self.keys.insert(index, key.file_block.get());
            self.pointers.insert(index, FsBlock::new(pointer.get()));
        }
    }

    fn remove(&mut self, index: usize) {
        if index < self.keys.len() && index < self.pointers.len() {
            self.keys.remove(index);
            self.pointers.remove(index);
        }
    }
}

//! Files as they should be: bytes, and which blocks hold data.

use uxfs_block::zeros::is_zero;

/// A regular file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    pub bytes: Vec<u8>,
    /// Of each block that the file has a byte in.
    pub is_data: Vec<bool>,
}

impl Model {
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the file has these bytes at offset `at`, with zeros past EOF.
    pub fn holds(&self, at: usize, bytes: &[u8]) -> bool {
        let end = (at + bytes.len()).min(self.size());
        let known = &self.bytes[at.min(end)..end];
        bytes.starts_with(known) && is_zero(&bytes[known.len()..])
    }

    pub fn resize(&mut self, size: usize, block: usize) {
        self.bytes.resize(size, 0);
        self.is_data.resize(size.div_ceil(block), false);
    }

    pub fn write(&mut self, offset: usize, bytes: &[u8], block: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if end > self.size() {
            self.resize(end, block);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
        self.is_data[offset / block..end.div_ceil(block)].fill(true);
    }

    /// Zeros, and no data in whole blocks.
    pub fn clear(&mut self, offset: usize, length: usize, block: usize) {
        let end = offset + length;
        let (first, last) = (offset.min(self.size()), end.min(self.size()));
        self.bytes[first..last].fill(0);
        let blocks = self.is_data.len();
        let (first, last) = (offset.div_ceil(block).min(blocks), (end / block).min(blocks));
        if first < last {
            self.is_data[first..last].fill(false);
        }
    }

    pub fn collapse(&mut self, offset: usize, length: usize, block: usize) {
        self.bytes.drain(offset..offset + length);
        self.is_data.drain(offset / block..(offset + length) / block);
    }

    pub fn insert(&mut self, offset: usize, length: usize, block: usize) {
        self.bytes.splice(offset..offset, std::iter::repeat_n(0, length));
        self.is_data.splice(offset / block..offset / block, std::iter::repeat_n(false, length / block));
    }

    pub fn put(&mut self, offset: usize, source: &Self, from: usize, length: usize, block: usize) {
        let end = offset + length;
        if end > self.size() {
            self.resize(end, block);
        }
        self.bytes[offset..end].copy_from_slice(&source.bytes[from..from + length]);
        let blocks = length.div_ceil(block);
        self.is_data[offset / block..offset / block + blocks]
            .copy_from_slice(&source.is_data[from / block..from / block + blocks]);
    }

    /// Where data begins and ends, from `SEEK_DATA` and `SEEK_HOLE` on.
    pub fn seek(&self, offset: usize, data: bool, block: usize) -> Option<usize> {
        if offset >= self.size() {
            return None;
        }
        let found = (offset / block..self.is_data.len()).find(|index| self.is_data[*index] == data);
        let found = found.map(|index| (index * block).max(offset));
        found.or((!data).then_some(self.size()))
    }
}

//! Items of the log in memory, packed: whatever a log holds, it takes about as much here as it takes there.
//!
//! A log may hold an item in some thirty bytes. A vector for each item and another for each of its regions would be several
//! times that.

use uxfs_format::convert::to_usize;

/// A chunk holds so many bytes, or one item.
const CHUNK_BYTES: usize = 1 << 20;
/// Before the regions: their number, and the tag.
const HEADER_BYTES: usize = 3;
/// Before the regions: the length of each.
const LENGTH_BYTES: usize = 4;

/// Regions of one item, packed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedItem<'p> {
    lengths: &'p [[u8; LENGTH_BYTES]],
    contents: &'p [u8],
}

impl<'p> PackedItem<'p> {
    /// The regions, as the log had them.
    pub fn regions(&self) -> Vec<&'p [u8]> {
        let mut rest = self.contents;
        let regions = self.lengths.iter().map(|length| {
            let length = to_usize(u32::from_le_bytes(*length));
            let (region, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = behind;
            region
        });
        regions.collect()
    }

    /// Takes the first item off `bytes`, with its tag.
    fn split_off(bytes: &mut &'p [u8]) -> Option<(u8, Self)> {
        let ([count_low, count_high, tag], rest) = bytes.split_first_chunk()?;
        let count = usize::from(u16::from_le_bytes([*count_low, *count_high]));
        let (lengths, rest) = rest.split_at_checked(count * LENGTH_BYTES)?;
        let lengths = lengths.as_chunks().0;
        let length = lengths.iter().map(|length| to_usize(u32::from_le_bytes(*length))).sum();
        let (contents, rest) = rest.split_at_checked(length)?;
        *bytes = rest;
        Some((*tag, Self { lengths, contents }))
    }
}

/// An item that is kept by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedItem(Box<[u8]>);

impl OwnedItem {
    pub fn new(regions: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(packed_bytes(regions));
        pack(&mut bytes, 0, regions);
        Self(bytes.into())
    }

    pub fn regions(&self) -> Vec<&[u8]> {
        PackedItem::split_off(&mut &*self.0).map_or_else(Vec::new, |(_, item)| item.regions())
    }
}

/// Items in the order in which they came, each with a tag.
#[derive(Debug, Default)]
pub(crate) struct PackedItems {
    chunks: Vec<Vec<u8>>,
}

impl PackedItems {
    pub fn push(&mut self, tag: u8, regions: &[&[u8]]) {
        let length = packed_bytes(regions);
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() + length <= CHUNK_BYTES => pack(chunk, tag, regions),
            last => {
                // The first chunk grows as it must: most transactions are small.
                let capacity = if last.is_some() { length.max(CHUNK_BYTES) } else { length };
                let mut chunk = Vec::with_capacity(capacity);
                pack(&mut chunk, tag, regions);
                self.chunks.push(chunk);
            }
        }
    }

    /// Those with a tag.
    pub fn tagged(&self, wanted: u8) -> impl Iterator<Item = PackedItem<'_>> {
        let items = self.chunks.iter().flat_map(|chunk| {
            let mut bytes = chunk.as_slice();
            std::iter::from_fn(move || PackedItem::split_off(&mut bytes))
        });
        items.filter(move |(tag, _)| *tag == wanted).map(|(_, item)| item)
    }
}

fn packed_bytes(regions: &[&[u8]]) -> usize {
    let contents: usize = regions.iter().map(|region| region.len()).sum();
    HEADER_BYTES + regions.len() * LENGTH_BYTES + contents
}

/// An item has a few hundred regions at most, and each is shorter than a mebibyte: see `MAX_REGIONS`.
fn pack(bytes: &mut Vec<u8>, tag: u8, regions: &[&[u8]]) {
    bytes.extend((regions.len() as u16).to_le_bytes());
    bytes.push(tag);
    bytes.extend(regions.iter().flat_map(|region| (region.len() as u32).to_le_bytes()));
    regions.iter().for_each(|region| bytes.extend_from_slice(region));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_by_tag_and_in_order() {
        let mut items = PackedItems::default();
        let large = vec![7; CHUNK_BYTES / 2];
        let all: [(u8, &[&[u8]]); 5] = [
            (1, &[b"first", b"", b"second"]),
            (0, &[&large]),
            (1, &[&large, &large, b"more than a chunk"]),
            (0, &[]),
            (1, &[b"last"]),
        ];
        all.iter().for_each(|(tag, regions)| items.push(*tag, regions));
        for wanted in 0..3 {
            let found: Vec<Vec<&[u8]>> = items.tagged(wanted).map(|item| item.regions()).collect();
            let expected = all.iter().filter(|(tag, _)| *tag == wanted);
            assert_eq!(found, expected.map(|(_, regions)| regions.to_vec()).collect::<Vec<_>>());
        }
        let owned = OwnedItem::new(all[0].1);
        assert_eq!(owned.regions(), all[0].1);
    }

    #[test]
    fn many_small_items_take_little_more_than_their_bytes() {
        let mut items = PackedItems::default();
        let count = 1_000_000;
        (0..count).for_each(|_| items.push(0, &[&[1; 16]]));
        let taken: usize = items.chunks.iter().map(Vec::capacity).sum();
        assert!(taken <= count * (16 + 8) + CHUNK_BYTES, "{taken}");
    }
}

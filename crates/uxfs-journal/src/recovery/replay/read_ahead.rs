//! The buffers of the items that come next, read in one batch.
//!
//! Replay changes one item after the other; alone, each of them would wait for the device. So before a window of items is
//! replayed, all buffers that they will open and that are not in memory are read together.

use std::collections::BTreeMap;

use uxfs_block::device::ReadSegment;
use uxfs_format::{
    geometry::Geometry,
    log::{
        buffer_item::BufferFlags,
        item::{ItemType, LogItem},
    },
    units::{SECTOR_SIZE_BYTES, Sector},
};

use super::{
    super::packed::PackedItem,
    buffers::{Buffers, length_bytes},
    items::Replayer,
};

/// Items whose buffers are read together: at most 16 MiB.
pub(super) const WINDOW_ITEMS: usize = 256;

impl Replayer<'_> {
    /// Reads what a window of items will open. Errors are left for when it is opened.
    pub fn read_ahead(&mut self, items: &[PackedItem<'_>]) {
        let mut places = BTreeMap::new();
        for item in items {
            let regions = item.regions();
            if let Ok(item) = LogItem::decode(&regions) {
                self.note_buffers(&item, &mut places);
            }
        }
        self.buffers.read_ahead(places);
    }

    /// Notes the buffers that an item will open, if it is replayed.
    fn note_buffers(&self, item: &LogItem<'_>, places: &mut BTreeMap<u64, u32>) {
        if item.verify(&self.geometry).is_err() {
            return;
        }
        if let LogItem::InodeCreate(item) = item {
            let clusters = self.new_clusters(item).unwrap_or_default();
            places.extend(clusters.into_iter().map(|(_, place)| place));
        } else if let Some((sector, sectors)) = self.buffer_of(item) {
            places.insert(sector, sectors);
        }
    }

    /// The one buffer that an item changes.
    fn buffer_of(&self, item: &LogItem<'_>) -> Option<(u64, u32)> {
        let place = |kind, sector, sectors: i64| self.buffer_place(kind, sector, sectors).ok();
        let (sector, sectors) = match item {
            LogItem::Buffer(item) if !item.format.buffer_flags().contains(BufferFlags::CANCEL) => {
                place(ItemType::Buffer, item.format.sector.get(), item.format.length_sectors.get().into())
            }
            LogItem::Inode(item) => {
                let format = item.format();
                place(ItemType::Inode, format.buffer_sector.get(), format.buffer_sectors.get().into())
            }
            LogItem::Quota(item) => {
                let format = item.format;
                place(ItemType::Quota, format.buffer_sector.get(), format.buffer_sectors(&self.geometry))
            }
            _ => None,
        }?;
        (!self.cancelled.contains(sector, sectors)).then_some((sector, sectors))
    }
}

impl Buffers<'_> {
    /// Reads buffers, by first sector with their lengths in sectors, that are not in memory.
    fn read_ahead(&mut self, mut places: BTreeMap<u64, u32>) {
        self.ahead.clear();
        places.retain(|sector, _| !self.held.contains_key(sector));
        // Of buffers that overlap only one is read: the others are rare.
        let mut end = 0;
        places.retain(|sector, sectors| {
            let is_apart = *sector >= end;
            if is_apart {
                end = sector.saturating_add((*sectors).into());
            }
            is_apart
        });
        if places.len() < 2 {
            return;
        }
        let mut buffers: Vec<(u64, Vec<u8>)> =
            places.into_iter().map(|(sector, sectors)| (sector, vec![0; length_bytes(sectors)])).collect();
        let segment = |(sector, bytes)| ReadSegment {
            offset_bytes: Geometry::byte_of_sector(Sector::new(sector)),
            buffer: bytes,
        };
        let mut segments: Vec<ReadSegment<'_>> =
            buffers.iter_mut().map(|(sector, bytes)| segment((*sector, bytes.as_mut_slice()))).collect();
        let is_read = self.reader.read(self.device, &mut segments).is_ok();
        drop(segments);
        if is_read {
            self.ahead = buffers.into_iter().collect();
        }
    }

    /// A buffer that was read ahead, if it has this length.
    pub(super) fn take_ahead(&mut self, sector: u64, length: usize) -> Option<Vec<u8>> {
        self.ahead.remove(&sector).filter(|bytes| bytes.len() == length)
    }
}

const _: () = assert!(WINDOW_ITEMS * 128 * SECTOR_SIZE_BYTES as usize <= 16 << 20);

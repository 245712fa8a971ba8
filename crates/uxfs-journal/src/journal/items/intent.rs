//! Intents and their ends, as bytes of one region, or of a few.

use uxfs_format::log::{
    free_extent::FreedExtent,
    intent::{DoneHeader, IntentHeader, MapExtent, PhysicalExtent},
    item::ItemType,
};
use zerocopy::{Immutable, IntoBytes};

/// The most extents in one intent.
#[doc(alias = "XFS_EFI_MAX_FAST_EXTENTS")]
pub const MAX_EXTENTS: usize = 16;

/// An item, whole: its regions, each padded to four bytes.
pub type Regions = Vec<Vec<u8>>;

/// The kind of item that ends an intent.
pub fn end_of(intent: ItemType) -> Option<ItemType> {
    Some(match intent {
        ItemType::FreeExtentIntent => ItemType::FreeExtentDone,
        ItemType::ReverseMapIntent => ItemType::ReverseMapDone,
        ItemType::ReferenceCountIntent => ItemType::ReferenceCountDone,
        ItemType::ExtentMapIntent => ItemType::ExtentMapDone,
        ItemType::AttributeIntent => ItemType::AttributeDone,
        ItemType::ExchangeIntent => ItemType::ExchangeDone,
        _ => return None,
    })
}

fn with_extents<T: IntoBytes + Immutable>(kind: ItemType, id: u64, extents: &[T]) -> Vec<u8> {
    let header = IntentHeader {
        kind: kind.raw().into(),
        region_count: 1.into(),
        extent_count: (extents.len() as u32).into(),
        id: id.into(),
    };
    let mut bytes = header.as_bytes().to_vec();
    extents.iter().for_each(|extent| bytes.extend_from_slice(extent.as_bytes()));
    bytes
}

/// EFI.
pub fn free_extents(id: u64, extents: &[FreedExtent]) -> Vec<u8> {
    with_extents(ItemType::FreeExtentIntent, id, extents)
}

/// EFD, which repeats what was freed.
pub fn freed_extents(id: u64, extents: &[FreedExtent]) -> Vec<u8> {
    with_extents(ItemType::FreeExtentDone, id, extents)
}

/// RUI.
pub fn reverse_maps(id: u64, extents: &[MapExtent]) -> Vec<u8> {
    with_extents(ItemType::ReverseMapIntent, id, extents)
}

/// BUI.
pub fn extent_map(id: u64, extent: &MapExtent) -> Vec<u8> {
    with_extents(ItemType::ExtentMapIntent, id, std::slice::from_ref(extent))
}

/// CUI.
pub fn reference_counts(id: u64, extents: &[PhysicalExtent]) -> Vec<u8> {
    with_extents(ItemType::ReferenceCountIntent, id, extents)
}

/// RUD, CUD, BUD, ATTRD or XMD.
pub fn done(kind: ItemType, id: u64) -> Vec<u8> {
    let header = DoneHeader {
        kind: kind.raw().into(),
        region_count: 1.into(),
        padding: 0.into(),
        intent_id: id.into(),
    };
    header.as_bytes().to_vec()
}

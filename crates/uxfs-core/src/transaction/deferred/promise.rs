//! Intents: deferred work that the log promises, so that whoever recovers it does what a crash left undone.

use uxfs_format::{
    geometry::Geometry,
    log::{
        free_extent::FreedExtent,
        intent::{MapExtent, PhysicalExtent},
        item::ItemType,
    },
};
use uxfs_journal::journal::{
    IntentId,
    items::intent::{self, Regions},
};
use zerocopy::IntoBytes;

use super::{
    Transaction,
    attribute::{AttributeChange, StoredChange},
    intent::IntentExtent,
    queue::{Promise, Work},
};
use crate::error::{OperationError, Result};

/// The extents of works that go together.
enum Extents {
    ReverseMaps(Vec<MapExtent>),
    ExtentMap(Box<MapExtent>),
    ReferenceCounts(Vec<PhysicalExtent>),
    Free(Vec<FreedExtent>),
}

impl Transaction<'_> {
    /// Logs intents for all deferred work that has none.
    pub(super) fn promise_deferred(&mut self) -> Result<()> {
        let geometry = self.file_system.geometry();
        let Some(ticket) = self.buffers.ticket() else { return Ok(()) };
        self.deferred.promise_all(|works, text| {
            if let [Work::Attribute(stored)] = works {
                let change = stored.change(text);
                let id = ticket.intent(|id| attribute_regions(&change, id));
                return Ok(Promise { end: ItemType::AttributeDone, id, extents: Vec::new() });
            }
            let extents = Extents::of(works, geometry).ok_or(OperationError::NoSuchGroup)?;
            let id = ticket.intent(|id| vec![extents.region(id)]);
            let end = extents.end();
            let extents = if let Extents::Free(extents) = extents { extents } else { Vec::new() };
            Ok(Promise { end, id, extents })
        })
    }

    /// Takes over what an intent promises that has no end in the log.
    pub fn adopt_intent(&mut self, works: impl IntoIterator<Item = Work>, promise: Promise) {
        self.deferred.push_promised(works, promise);
    }
}

impl Extents {
    fn of(works: &[Work], geometry: &Geometry) -> Option<Self> {
        let mut extents = None;
        for work in works {
            match (work.to_intent(geometry)?, &mut extents) {
                (IntentExtent::ReverseMap(extent), None) => extents = Some(Self::ReverseMaps(vec![extent])),
                (IntentExtent::ExtentMap(extent), None) => extents = Some(Self::ExtentMap(Box::new(extent))),
                (IntentExtent::ReferenceCount(extent), None) => {
                    extents = Some(Self::ReferenceCounts(vec![extent]));
                }
                (IntentExtent::Free(extent), None) => extents = Some(Self::Free(vec![extent])),
                (IntentExtent::ReverseMap(extent), Some(Self::ReverseMaps(all))) => all.push(extent),
                (IntentExtent::ReferenceCount(extent), Some(Self::ReferenceCounts(all))) => all.push(extent),
                (IntentExtent::Free(extent), Some(Self::Free(all))) => all.push(extent),
                _ => return None,
            }
        }
        extents
    }

    fn region(&self, id: IntentId) -> Vec<u8> {
        match self {
            Self::ReverseMaps(extents) => intent::reverse_maps(id, extents),
            Self::ExtentMap(extent) => intent::extent_map(id, extent),
            Self::ReferenceCounts(extents) => intent::reference_counts(id, extents),
            Self::Free(extents) => intent::free_extents(id, extents),
        }
    }

    fn end(&self) -> ItemType {
        match self {
            Self::ReverseMaps(_) => ItemType::ReverseMapDone,
            Self::ExtentMap(_) => ItemType::ExtentMapDone,
            Self::ReferenceCounts(_) => ItemType::ReferenceCountDone,
            Self::Free(_) => ItemType::FreeExtentDone,
        }
    }
}

impl StoredChange {
    fn change<'a>(&self, text: &'a [u8]) -> AttributeChange<'a> {
        self.within(text)
    }
}

fn attribute_regions(change: &AttributeChange<'_>, id: IntentId) -> Regions {
    let padded = |bytes: &[u8]| {
        let mut region = bytes.to_vec();
        region.resize(bytes.len().next_multiple_of(4), 0);
        region
    };
    let mut regions = vec![change.format(id).as_bytes().to_vec(), padded(change.name)];
    regions.extend(change.new_name.map(padded));
    if !change.value.is_empty() {
        regions.push(padded(change.value));
    }
    regions.extend(change.new_value.map(padded));
    regions
}

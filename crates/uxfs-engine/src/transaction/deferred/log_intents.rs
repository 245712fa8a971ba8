//! Intents: deferred work that the log announces, so that recovery does what a crash left undone.

use uxfs_format::{
    geometry::Geometry,
    log::{
        free_extent::FreedExtent,
        intent::{MapExtent, PhysicalExtent},
        item::ItemType,
    },
    units::FsBlock,
};
use uxfs_journal::journal::{
    IntentId, Ticket,
    items::intent::{self, Regions},
};
use zerocopy::IntoBytes;

use super::{
    FreedOwner, Transaction,
    attribute_change::{AttributeChange, StoredChange},
    intent::IntentExtent,
    place_of,
    queue::{LoggedIntent, Work},
};
use crate::{engine::EngineRef, transaction::steps::LoggedSteps};
use uxfs_volume::error::{OperationError, Result};

/// Log space of a done item, less the extents that it repeats.
const DONE_BYTES: u64 = 48;

/// The extents of works that go together.
enum Extents {
    ReverseMaps(Vec<MapExtent>),
    ExtentMap(Box<MapExtent>),
    ReferenceCounts(Vec<PhysicalExtent>),
    Free(Vec<FreedExtent>),
}

impl LoggedSteps<'_, '_> {
    /// Logs intents for all deferred work that has none.
    pub(in crate::transaction) fn log_intents(&mut self) -> Result<()> {
        let geometry = self.engine.geometry();
        let Transaction { buffers, deferred, .. } = &mut *self.transaction;
        let Some(ticket) = buffers.ticket() else { return Ok(()) };
        deferred.log_all_intents(|works, text| log_intent(ticket, works, text, geometry))
    }

    /// Logs an intent to free blocks that the transaction has allocated and that nothing leads to yet. `None` where the
    /// transaction has no ticket.
    ///
    /// # Errors
    /// The blocks do not lie within one group.
    pub(in crate::transaction) fn log_staged_intent(
        &mut self,
        start: FsBlock,
        length_blocks: u64,
    ) -> Result<Option<LoggedIntent>> {
        let geometry = self.engine.geometry();
        let (group, start, length_blocks) = place_of(geometry, start, length_blocks)?;
        let Some(ticket) = self.ticket() else { return Ok(None) };
        let work = Work::Free { group, start, length_blocks, owner: FreedOwner::NoOwner };
        log_intent(ticket, &[work], &[], geometry).map(Some)
    }

    /// The intents so far behind that other transactions may soon find no log space: they hold its tail until their work is
    /// done, and each step takes some of the log. Not more of them than fit into what an urgent reservation can be.
    ///
    /// # Errors
    /// Work outside of the file system.
    pub(in crate::transaction) fn old_intents(&mut self) -> Result<Option<OldIntents>> {
        let deferred = &mut self.transaction.deferred;
        let Some(oldest) = deferred.oldest_intent() else { return Ok(None) };
        let newest = self.engine.journal().newest_far_behind();
        let Some(newest) = newest.filter(|newest| oldest <= *newest) else { return Ok(None) };
        let geometry = self.engine.geometry();
        let most_bytes = self.engine.needs().log.renewal();
        let (mut found, mut left_bytes) = (OldIntents { newest, count: 0, bytes: 0 }, most_bytes);
        deferred.renew(newest, usize::MAX, |works, text, old| -> Result<()> {
            let regions = IntentWork::of(works, text, geometry)?.regions(0);
            // Of the end: its header, and what it repeats.
            let bytes = regions_bytes(&regions) + DONE_BYTES + (old.extents.as_bytes().len() as u64);
            // The first that does not fit ends it.
            left_bytes = left_bytes.saturating_sub(bytes);
            if left_bytes > 0 {
                (found.count, found.bytes) = (found.count + 1, found.bytes + bytes);
            }
            Ok(())
        })?;
        Ok(Some(found))
    }

    /// Ends these intents and logs others for their work.
    ///
    /// # Errors
    /// As [`old_intents`](Self::old_intents).
    #[doc(alias = "xfs_defer_relog")]
    pub(in crate::transaction) fn relog_intents(&mut self, old: OldIntents) -> Result<()> {
        let geometry = self.engine.geometry();
        let Transaction { buffers, deferred, .. } = &mut *self.transaction;
        let Some(ticket) = buffers.ticket() else { return Ok(()) };
        deferred.renew(old.newest, old.count, |works, text, old| {
            let new = log_intent(ticket, works, text, geometry)?;
            let old = std::mem::replace(old, new);
            ticket.done(old.end, old.id, &old.extents);
            Ok(())
        })
    }
}

impl Transaction<'_> {
    /// Takes over the work of an intent that has no end in the log.
    ///
    /// # Errors
    /// Work outside of the file system.
    pub fn adopt_intent(
        &mut self,
        works: impl IntoIterator<Item = Work>,
        log_intent: LoggedIntent,
    ) -> Result<()> {
        if !self.deferred.push_with_intent(works, &log_intent)
            && let EngineRef::Logged(engine) = self.mode
        {
            LoggedSteps::new(self, engine).log_intents()?;
            self.intent_done(log_intent.end, log_intent.id, &log_intent.extents);
        }
        Ok(())
    }
}

/// Intents that are to be logged anew.
#[derive(Debug, Clone, Copy)]
pub struct OldIntents {
    /// They are in checkpoints up to this one.
    newest: u64,
    /// The first so many.
    count: usize,
    /// Log space of that.
    pub bytes: u64,
}

fn regions_bytes(regions: &Regions) -> u64 {
    regions.iter().map(|region| region.len() as u64 + 16).sum()
}

/// Logs an intent.
fn log_intent(
    ticket: &mut Ticket<'_>,
    works: &[Work],
    text: &[u8],
    geometry: &Geometry,
) -> Result<LoggedIntent> {
    let with_intent = IntentWork::of(works, text, geometry)?;
    let id = ticket.intent(|id| with_intent.regions(id));
    let end = with_intent.end();
    let extents = with_intent.into_freed();
    Ok(LoggedIntent { end, id, extents, sequence: ticket.sequence() })
}

/// The contents of one intent.
enum IntentWork<'a> {
    Attribute(AttributeChange<'a>),
    Extents(Extents),
}

impl<'a> IntentWork<'a> {
    fn of(works: &[Work], text: &'a [u8], geometry: &Geometry) -> Result<Self> {
        if let [Work::Attribute(stored)] = works {
            return Ok(Self::Attribute(stored.change(text)));
        }
        let extents = Extents::of(works, geometry).ok_or(OperationError::NoSuchGroup)?;
        Ok(Self::Extents(extents))
    }

    fn regions(&self, id: IntentId) -> Regions {
        match self {
            Self::Attribute(change) => attribute_regions(change, id),
            Self::Extents(extents) => vec![extents.region(id)],
        }
    }

    fn end(&self) -> ItemType {
        match self {
            Self::Attribute(_) => ItemType::AttributeDone,
            Self::Extents(extents) => extents.end(),
        }
    }

    /// The extents that the done item repeats.
    fn into_freed(self) -> Vec<FreedExtent> {
        if let Self::Extents(Extents::Free(extents)) = self { extents } else { Vec::new() }
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

//! The records of each quota inode: each verified, and its counts compared with what the inodes of its owner use.

use uxfs_block::spill::SpillError;
use uxfs_format::{
    btree::extent_map::Extent,
    fault::{Corruption, Location, Structure},
    geometry::Geometry,
    inode::{FileType, Fork},
    quota::{QuotaKind, QuotaRecord, records_of, records_per_block},
    units::{FileBlock, FsBlock, InodeNumber, Sector},
    verify::VerifyContext,
};
use uxfs_volume::{error::Error, inode::Inode, volume::Volume};

use super::{
    QuotaInode,
    usage::{Totals, Usage, Used},
};
use crate::{
    check::Context,
    finding::{Finding, MissingQuotaRecord, QuotaCounter, WrongQuotaCount},
};

/// Looks at all records. Without sums (`None`) counts are not compared: some inodes could not be read.
pub(crate) fn check(context: &Context<'_>, inodes: &[QuotaInode], usage: Option<Usage>) {
    let mut totals = match usage.map(Usage::into_totals).transpose() {
        Ok(totals) => totals,
        Err(error) => {
            context.sink.add(Finding::NotCompared { error });
            None
        }
    };
    for inode in inodes {
        if context.sink.is_stopped() {
            return;
        }
        let totals = totals.as_mut().filter(|_| inode.is_checked);
        if let Err(error) = (InodeCheck { context, inode, totals }).run() {
            context.sink.add(Finding::NotCompared { error });
            return;
        }
    }
}

/// One block of a quota inode.
pub(super) struct RecordBlock<'b> {
    pub sector: Sector,
    /// The id of the first record.
    pub first_id: u32,
    pub records: Result<&'b [QuotaRecord], Error>,
}

/// Calls `visit` with each block of the file of a quota inode, by ascending ids; those that no id leads to are left out. Gives false where
/// it has no readable extent map: it is no file, or damaged.
pub(super) fn visit_blocks<E>(
    volume: &Volume,
    inode: InodeNumber,
    visit: &mut dyn FnMut(RecordBlock<'_>) -> Result<(), E>,
) -> Result<bool, E> {
    let geometry = volume.geometry();
    let Ok(inode) = volume.inode(inode) else { return Ok(false) };
    if !is_file(&inode) {
        return Ok(false);
    }
    let Ok(map) = volume.extent_map(&inode, Fork::Data) else { return Ok(false) };
    let per_block = records_per_block(geometry);
    // Extents that lie over each other cannot make this read more than there is.
    let mut left = geometry.data_blocks;
    let mut bytes = vec![0; geometry.block_size()];
    for (file_block, block) in map.iter().flat_map(|extent| blocks_of(&extent)) {
        let first_id = file_block.get().checked_mul(per_block.into());
        let Some(first_id) = first_id.and_then(|id| u32::try_from(id).ok()) else { break };
        let Some(sector) = geometry.sector_of_block(block) else { break };
        let Some(rest) = left.checked_sub(1) else { break };
        left = rest;
        let read = volume.device().read(Geometry::byte_of_sector(sector), &mut bytes);
        let records = read.map_err(Error::from).map(|()| with_ids(records_of(&bytes), first_id));
        visit(RecordBlock { sector, first_id, records })?;
    }
    Ok(true)
}

/// Records behind the highest id are none.
fn with_ids(records: &[QuotaRecord], first_id: u32) -> &[QuotaRecord] {
    let most = usize::try_from(u64::from(u32::MAX - first_id) + 1).unwrap_or(usize::MAX);
    records.get(..most.min(records.len())).unwrap_or_default()
}

pub(super) fn is_file(inode: &Inode) -> bool {
    inode.file_type() == Some(FileType::Regular) && !inode.is_realtime()
}

fn blocks_of(extent: &Extent) -> impl Iterator<Item = (FileBlock, FsBlock)> + use<> {
    let (file_block, start) = (extent.file_block.get(), extent.start.get());
    (0..extent.length_blocks).map(move |index| {
        (FileBlock::new(file_block.wrapping_add(index)), FsBlock::new(start.wrapping_add(index)))
    })
}

struct InodeCheck<'i, 'c> {
    context: &'i Context<'c>,
    inode: &'i QuotaInode,
    totals: Option<&'i mut Totals>,
}

impl InodeCheck<'_, '_> {
    fn run(mut self) -> Result<(), SpillError> {
        let (context, QuotaInode { number, kind, .. }) = (self.context, *self.inode);
        if let Ok(inode) = context.volume.inode(number)
            && (!is_file(&inode) || inode.size_bytes() != 0)
        {
            let size_bytes = is_file(&inode).then(|| inode.size_bytes());
            context.sink.add(Finding::QuotaInode { inode: number, quota: kind, size_bytes });
        }
        let is_read = visit_blocks(context.volume, number, &mut |block| self.block(block))?;
        match is_read {
            true => self.rest_is_missing(),
            false => self.pass_over(),
        }
    }

    fn block(&mut self, block: RecordBlock<'_>) -> Result<(), SpillError> {
        let RecordBlock { sector, first_id, records } = block;
        let context = self.context;
        let records = match records {
            Ok(records) => records,
            Err(error) => {
                context.sink.add_error_of(self.inode.number, error);
                return self.pass_over_ids(first_id);
            }
        };
        let verify = VerifyContext::new(context.volume.geometry(), sector);
        for (index, record) in (0_u32..).zip(records) {
            let owner = (self.inode.kind, first_id.saturating_add(index));
            let verified = record.verify_of(index, owner, &verify);
            if let Err(fault) = verified {
                let location = Location { inode: Some(self.inode.number), ..Location::at_sector(sector) };
                let corruption = Corruption::new(Structure::Quota, location, fault);
                context.sink.add(Finding::Damaged { corruption: Box::new(corruption) });
            }
            if let Some(totals) = &mut self.totals {
                compare(context, totals, owner, verified.is_ok().then_some(record))?;
            }
        }
        Ok(())
    }

    /// The records of a block cannot be read.
    fn pass_over_ids(&mut self, first: u32) -> Result<(), SpillError> {
        let Some(totals) = &mut self.totals else { return Ok(()) };
        let count = records_per_block(self.context.volume.geometry());
        for id in first..=first.saturating_add(count.saturating_sub(1)) {
            compare(self.context, totals, (self.inode.kind, id), None)?;
        }
        Ok(())
    }

    /// Sums of this kind behind the last record.
    fn rest_is_missing(self) -> Result<(), SpillError> {
        let Some(totals) = self.totals else { return Ok(()) };
        while let Some(((kind, id), used)) = totals.peek().filter(|((kind, _), _)| *kind == self.inode.kind) {
            report_missing(self.context, kind, id, used);
            totals.pop()?;
        }
        Ok(())
    }

    /// Its records are not known.
    fn pass_over(self) -> Result<(), SpillError> {
        let Some(totals) = self.totals else { return Ok(()) };
        while totals.peek().is_some_and(|((kind, _), _)| kind == self.inode.kind) {
            totals.pop()?;
        }
        Ok(())
    }
}

fn report_missing(context: &Context<'_>, quota: QuotaKind, id: u32, used: Used) {
    let Used { blocks, inodes, realtime_blocks } = used;
    let missing = MissingQuotaRecord { quota, id, blocks, inodes, realtime_blocks };
    context.sink.add(Finding::QuotaRecordMissing(missing));
}

/// Compares a record with the sum of its owner; `None` for a damaged one.
fn compare(
    context: &Context<'_>,
    totals: &mut Totals,
    (quota, id): (QuotaKind, u32),
    record: Option<&QuotaRecord>,
) -> Result<(), SpillError> {
    let mut used = Used::default();
    while let Some((owner, found)) = totals.peek().filter(|(owner, _)| *owner <= (quota, id)) {
        totals.pop()?;
        match owner == (quota, id) {
            true => used = found,
            false if owner.0 == quota => report_missing(context, quota, owner.1, found),
            false => {}
        }
    }
    let Some(record) = record else { return Ok(()) };
    let counters = [
        (QuotaCounter::Blocks, record.blocks, used.blocks),
        (QuotaCounter::Inodes, record.inodes, used.inodes),
        (QuotaCounter::RealtimeBlocks, record.realtime_blocks, used.realtime_blocks),
    ];
    for (counter, found, expected) in counters {
        let found = found.get();
        if found != expected {
            let wrong = WrongQuotaCount { quota, id, counter, found, expected };
            context.sink.add(Finding::QuotaCount(wrong));
        }
    }
    Ok(())
}

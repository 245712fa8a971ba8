//! Repair of quotas: damaged records keep their limits where these can be read, and the superblock no longer says that the counts are
//! complete, so that Linux counts at the next mount with quotas.

use std::collections::BTreeSet;

use uxfs_format::{
    checksum::{
        self,
        changed_bits::{ChangedBits, flip},
    },
    fault::Structure,
    features::Incompatible,
    field_table::OnDisk,
    geometry::Geometry,
    quota::{CHECKSUM_OFFSET_BYTES, MAGIC, QuotaFlags, QuotaKind, QuotaRecord, RecordType, VERSION},
    superblock::{self, Superblock},
    units::{AgNumber, InodeNumber},
    verify::VerifyContext,
};
use uxfs_volume::{
    error::{OperationError, Result},
    volume::Volume,
};
use zerocopy::{FromZeros, IntoBytes};

use super::{
    QuotaInode,
    check::{RecordBlock, is_file, visit_blocks},
    inodes,
};
use crate::{
    finding::{Finding, MissingQuotaRecord, WrongQuotaCount},
    inode::gather::change_core,
    repair::{
        action::{Action, RecordSource},
        stage::Stage,
    },
};

/// What is wrong with quotas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QuotaWork {
    /// Quota inodes with damaged records.
    pub damaged: BTreeSet<InodeNumber>,
    /// Kinds whose counts are wrong.
    pub counts: BTreeSet<QuotaKind>,
    /// Quota inodes with a size.
    pub sizes: BTreeSet<(InodeNumber, u64)>,
    /// Inodes that should hold records and are no files.
    pub lost: BTreeSet<InodeNumber>,
}

impl QuotaWork {
    /// Takes a finding in; gives false where it is about something else.
    pub fn add(&mut self, finding: &Finding) -> bool {
        match finding {
            Finding::Damaged { corruption } if corruption.structure == Structure::Quota => {
                self.damaged.extend(corruption.location.inode);
                true
            }
            Finding::QuotaCount(WrongQuotaCount { quota, .. })
            | Finding::QuotaRecordMissing(MissingQuotaRecord { quota, .. }) => self.counts.insert(*quota),
            Finding::QuotaInode { inode, size_bytes: None, .. } => self.lost.insert(*inode),
            Finding::QuotaInode { inode, size_bytes: Some(size_bytes), .. } => {
                self.sizes.insert((*inode, *size_bytes))
            }
            _ => return false,
        };
        true
    }
}

/// Corrects damaged records, and has counts made again.
///
/// # Errors
/// The device.
pub(crate) fn mend(
    volume: &Volume,
    stage: &Stage,
    work: &QuotaWork,
    actions: &mut Vec<Action>,
) -> Result<()> {
    for (inode, found) in &work.sizes {
        change_core(stage, *inode, |core, _| core.size_bytes.set(0))?;
        actions.push(Action::QuotaInodeSize { inode: *inode, found: *found });
    }
    let mut kinds = work.counts.clone();
    for inode in inodes(volume) {
        if work.damaged.contains(&inode.number) {
            let before = actions.len();
            mend_records(volume, stage, inode, actions)?;
            if inode.is_checked && actions.len() > before {
                kinds.insert(inode.kind);
            }
        }
    }
    if !kinds.is_empty() {
        change_superblock(stage, |superblock| {
            let unchecked = kinds.iter().fold(QuotaFlags::empty(), |flags, kind| flags | kind.checked());
            let flags = QuotaFlags::from_bits_retain(superblock.quota_flags.get()).difference(unchecked);
            superblock.quota_flags.set(flags.bits());
        })?;
        actions.extend(kinds.into_iter().map(|quota| Action::QuotaCounts { quota }));
    }
    Ok(())
}

/// Forgets quota inodes that are no files, or are not in use: Linux makes new ones. Gives whether there were any.
///
/// # Errors
/// The device.
pub(crate) fn forget_lost(
    volume: &Volume,
    stage: &Stage,
    lost: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let before = actions.len();
    if volume.geometry().features.has_metadata_directory() {
        return Ok(false);
    }
    for QuotaInode { kind, number, .. } in inodes(volume) {
        if !lost.contains(&number) || volume.inode(number).is_ok_and(|inode| is_file(&inode)) {
            continue;
        }
        change_superblock(stage, |superblock| {
            let field = match kind {
                QuotaKind::User => &mut superblock.user_quota_inode,
                QuotaKind::Group => &mut superblock.group_quota_inode,
                QuotaKind::Project => &mut superblock.project_quota_inode,
            };
            field.set(0);
            let flags = QuotaFlags::from_bits_retain(superblock.quota_flags.get());
            let left = flags.difference(kind.checked() | kind.in_use());
            superblock.quota_flags.set(left.bits());
        })?;
        actions.push(Action::QuotaInode { inode: number, quota: kind });
    }
    Ok(actions.len() > before)
}

fn change_superblock(stage: &Stage, change: impl FnOnce(&mut Superblock)) -> Result<()> {
    let geometry = stage.geometry();
    let sector = geometry.sector_of_group_header(AgNumber::new(0), 0).ok_or(OperationError::NoSuchGroup)?;
    let mut bytes = vec![0; geometry.sector_size_bytes as usize];
    stage.read_at(sector, &mut bytes)?;
    if let Some(superblock) = Superblock::prefix_of_mut(&mut bytes) {
        change(superblock);
    }
    checksum::seal(&mut bytes, superblock::CHECKSUM_OFFSET_BYTES);
    stage.write_at(sector, &bytes)
}

fn mend_records(volume: &Volume, stage: &Stage, inode: QuotaInode, actions: &mut Vec<Action>) -> Result<()> {
    visit_blocks(volume, inode.number, &mut |block: RecordBlock<'_>| {
        let RecordBlock { sector, first_id, records } = block;
        let Ok(records) = records else { return Ok(()) };
        let context = VerifyContext::new(stage.geometry(), sector);
        let mut bytes = Vec::new();
        for (index, record) in (0_u32..).zip(records) {
            let owner = (inode.kind, first_id.saturating_add(index));
            if record.verify_of(index, owner, &context).is_ok() {
                continue;
            }
            let (record, source) = mended(record, index, owner, &context);
            if bytes.is_empty() {
                bytes = vec![0; stage.geometry().block_size()];
                stage.read_at(sector, &mut bytes)?;
            }
            let place = (index as usize).saturating_mul(QuotaRecord::SIZE_BYTES);
            if let Some(place) = bytes.get_mut(place..place.saturating_add(QuotaRecord::SIZE_BYTES)) {
                place.copy_from_slice(record.as_bytes());
            }
            let (quota, id) = owner;
            actions.push(Action::QuotaRecord { inode: inode.number, quota, id, source });
        }
        if bytes.is_empty() { Ok(()) } else { stage.write_at(sector, &bytes) }
    })
    .map(|_| ())
}

/// A sound record in place of a damaged one, and its source.
fn mended(
    found: &QuotaRecord,
    index: u32,
    owner: (QuotaKind, u32),
    context: &VerifyContext<'_>,
) -> (QuotaRecord, RecordSource) {
    if let Some(record) = proved(found, index, owner, context) {
        return (record, RecordSource::Checksum);
    }
    let kept = with_identity(*found, owner, context.geometry);
    let identity = |record: &QuotaRecord| {
        let owner = record.record_type().difference(RecordType::BIG_TIME);
        let number = (record.magic.get(), record.version);
        [u64::from(number.0), number.1.into(), owner.bits().into(), record.id.get().into()]
    };
    let pairs = identity(found).into_iter().zip(identity(&kept));
    let wrong = pairs.filter(|(found, kept)| found != kept).count() + usize::from(found.uuid != kept.uuid);
    // What has several wrong fields is something else, and its limits mean nothing.
    if wrong <= 1 && kept.verify_of(index, owner, context).is_ok() {
        return (kept, RecordSource::Remains);
    }
    (with_identity(QuotaRecord::new_zeroed(), owner, context.geometry), RecordSource::Nothing)
}

/// The record with its owner's number and type, and without counts, which are made again.
fn with_identity(mut record: QuotaRecord, (kind, id): (QuotaKind, u32), geometry: &Geometry) -> QuotaRecord {
    let has_big_time = geometry.features.incompatible.contains(Incompatible::BIG_TIME) && id != 0;
    let was_big_time = record.record_type().contains(RecordType::BIG_TIME);
    let is_new = record.magic.get() == 0;
    let timers =
        if has_big_time && (was_big_time || is_new) { RecordType::BIG_TIME } else { RecordType::empty() };
    record.magic.set(MAGIC);
    record.version = VERSION;
    record.record_type = (kind.record_type() | timers).bits();
    record.id.set(id);
    record.uuid = geometry.metadata_uuid;
    for count in [&mut record.blocks, &mut record.inodes, &mut record.realtime_blocks] {
        count.set(0);
    }
    checksum::seal(record.as_mut_bytes(), CHECKSUM_OFFSET_BYTES);
    record
}

/// The record as it was, where its checksum is right with what is known of it put in, and with nothing else, one or two bits, or the bits of
/// one byte flipped back.
fn proved(
    found: &QuotaRecord,
    index: u32,
    owner: (QuotaKind, u32),
    context: &VerifyContext<'_>,
) -> Option<QuotaRecord> {
    checksum::check(found.as_bytes(), CHECKSUM_OFFSET_BYTES).err()?;
    let search = ChangedBits::new(QuotaRecord::SIZE_BYTES, CHECKSUM_OFFSET_BYTES)?;
    let mut known = *found;
    known.magic.set(MAGIC);
    known.version = VERSION;
    known.id.set(owner.1);
    known.uuid = context.geometry.metadata_uuid;
    let big_time = found.record_type() & RecordType::BIG_TIME;
    let with_type = QuotaRecord { record_type: (owner.0.record_type() | big_time).bits(), ..known };
    [with_type, known].iter().find_map(|known| {
        let difference = search.difference(known.as_bytes())?;
        let few = [Some(Vec::new()), search.one(difference).map(|bit| vec![bit])];
        let few = few.into_iter().chain([search.in_one_byte(difference)]).flatten();
        let pairs = search.pairs(difference).into_iter().map(|pair| pair.to_vec());
        few.chain(pairs).find_map(|bits| {
            let mut record = *known;
            bits.iter().for_each(|bit| flip(record.as_mut_bytes(), *bit));
            record.verify_of(index, owner, context).is_ok().then_some(record)
        })
    })
}

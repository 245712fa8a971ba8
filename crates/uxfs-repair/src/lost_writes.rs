//! Metadata that is older than the log says: a write that was lost, or that brought back an older version.
//!
//! Linux stamps what it writes with the number of the transaction that changed it last, and a clean log says that everything was
//! written. So nothing on the device has a smaller number than the newest transaction in the log that changed it. What an offline
//! repair made has the number 0, or that of the inode or block as it was: it is not compared, or is not older.
//!
//! An inode that has the number of its last change in the log says what that change says. Where nothing else on the device repeats it, a
//! difference is damage that no checksum shows. So it is with a block that has the target of a symbolic link: it is written once.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    inode::InodeCore,
    seal::{lsn_of, structure_of},
    units::{InodeNumber, Lsn, Sector},
};
use uxfs_journal::copies::{LastLogged, LoggedInode, OwnFacts, target_hash};
use uxfs_volume::metadata::{CompareMetadata, ContradictedInode, MetadataOwner, OlderMetadata};

use crate::repair::identity::owner_of;

/// What the log says about last changes, and what was found to be older.
#[derive(Debug, Default)]
pub struct LostWrites {
    last: LastLogged,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    /// Not taken yet.
    older: Vec<OlderMetadata>,
    contradicted: Vec<ContradictedInode>,
    /// Whether it is an inode, and its first 512-byte unit.
    known: HashSet<(bool, u64)>,
}

impl LostWrites {
    /// What the log on `device` says; `None` where it says nothing, or cannot be read. Takes `most_bytes` at most.
    pub fn of_log(device: &dyn BlockDevice, geometry: &Geometry, most_bytes: usize) -> Option<Arc<Self>> {
        let last = LastLogged::gather(device, geometry, most_bytes).ok()?;
        (!last.is_empty()).then(|| Arc::new(Self { last, ..Self::default() }))
    }

    /// The same log, with nothing found.
    pub(crate) fn again(&self) -> Arc<Self> {
        Arc::new(Self { last: self.last.clone(), ..Self::default() })
    }

    /// Whether the log has all changes that came after this one.
    pub(crate) fn has_all_since(&self, lsn: Lsn) -> bool {
        self.last.has_all_since(lsn)
    }

    fn add(&self, older: OlderMetadata) {
        let key = (older.structure == Structure::Inode, older.sector.get());
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.known.insert(key) {
            found.older.push(older);
        }
    }
}

impl LostWrites {
    fn compare_facts(&self, inode: InodeNumber, sector: Sector, bytes: &[u8], logged: &LoggedInode) {
        let (Some(logged), Some(disk)) = (&logged.facts, OwnFacts::of(bytes, true)) else { return };
        let facts = logged.contradicted_by(&disk);
        if facts.is_empty() {
            return;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.known.insert((true, sector.get())) {
            found.contradicted.push(ContradictedInode { inode, facts });
        }
    }
}

impl CompareMetadata for LostWrites {
    fn compare(&self, structure: Structure, bytes: &[u8], sector: Sector, geometry: &Geometry) {
        let mut is_other = false;
        let compared = if structure == Structure::Inode {
            InodeCore::prefix_of(bytes).and_then(|core| {
                let inode = InodeNumber::new(core.number.get());
                let (found, logged) = (Lsn::new(core.lsn.get()), self.last.inode(inode)?);
                if found == logged.lsn {
                    self.compare_facts(inode, sector, bytes, &logged);
                }
                Some((structure, MetadataOwner::Inode(inode), found, logged.lsn))
            })
        } else {
            self.last.block(sector.get()).and_then(|logged| {
                let structure = structure_of(bytes, geometry)?;
                let inode =
                    owner_of(structure, bytes).map(|inode| MetadataOwner::Inode(InodeNumber::new(inode)));
                let group =
                    || geometry.block_of_sector(sector).map(|(group, _, _)| MetadataOwner::Group(group));
                let found = lsn_of(bytes, geometry)?;
                is_other = found == logged.lsn
                    && structure == Structure::Symlink
                    && logged.target.is_some_and(|target| target_hash(bytes) != Some(target));
                Some((structure, inode.or_else(group)?, found, logged.lsn))
            })
        };
        if let Some((structure, owner, found, logged)) = compared
            && (found < logged || is_other)
            && found != Lsn::new(0)
        {
            self.add(OlderMetadata { structure, owner, sector, found, logged });
        }
    }

    fn take_older(&self) -> Vec<OlderMetadata> {
        std::mem::take(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner).older)
    }

    fn take_contradicted(&self) -> Vec<ContradictedInode> {
        std::mem::take(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner).contradicted)
    }
}

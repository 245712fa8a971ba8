//! Features that structures show.

use uxfs_format::{
    allocation_group::inode_header::InodeHeader,
    attribute::{flags::AttributeFlags, leaf::LeafBlock, shortform},
    btree::{block::BtreeBlock, inode_index::InodeIndex},
    directory::{
        EntryFormat,
        data::{DataRecord, DataRecords},
        name_hash,
    },
    fault::Structure as Kind,
    features::{Features2, Incompatible, RoCompatible, VersionBits},
    field_table::OnDisk,
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFlags, InodeFlags2, fork::fork_bytes},
};

use super::look::Structure;

/// How often a feature was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FeatureEvidence {
    reverse_map: u64,
    reference_count: u64,
    free_inode_index: u64,
    inode_headers: u64,
    inode_btree_counts: u64,
    sparse_records: u64,
    full_records: u64,
    inodes_in_use: u64,
    big_time: u64,
    large_extent_counts: u64,
    pub metadata_directory: u64,
    parent_pointers: u64,
    folded_hashes: u64,
    exact_hashes: u64,
    /// Files on a realtime device.
    pub realtime: u64,
}

impl FeatureEvidence {
    pub fn add(&mut self, structure: &Structure<'_>) {
        let bytes = structure.bytes;
        match structure.kind {
            Kind::ReverseMap => self.reverse_map += 1,
            Kind::ReferenceCount => self.reference_count += 1,
            Kind::FreeInodeIndex => self.free_inode_index += 1,
            Kind::InodeIndex => self.add_chunks(bytes),
            Kind::InodeHeader => {
                let counts = InodeHeader::prefix_of(bytes).map_or(0, |header| header.blocks.get());
                self.inode_headers += 1;
                self.inode_btree_counts += u64::from(counts != 0);
            }
            Kind::Inode => self.add_inode(bytes),
            Kind::AttributeLeaf => {
                let leaf = LeafBlock::of_block(bytes);
                let entries = leaf.map_or(&[][..], |leaf| leaf.entries);
                let has_parent = entries.iter().any(|entry| entry.flags().contains(AttributeFlags::PARENT));
                self.parent_pointers += u64::from(has_parent);
            }
            Kind::DirectoryBlock => self.add_hashes(bytes),
            _ => {}
        }
    }

    /// With sparse chunks a byte counts the inodes that exist; without, it is the high part of a small number.
    fn add_chunks(&mut self, bytes: &[u8]) {
        let Ok(block) = BtreeBlock::<InodeIndex>::parse(bytes) else { return };
        for record in block.records() {
            if record.count == 0 {
                self.full_records += 1;
            } else {
                self.sparse_records += 1;
            }
        }
    }

    fn add_inode(&mut self, bytes: &[u8]) {
        let Some(inode) = InodeCore::prefix_of(bytes).filter(|inode| !inode.is_free()) else { return };
        let flags2 = inode.flags2();
        self.inodes_in_use += 1;
        self.big_time += u64::from(flags2.contains(InodeFlags2::BIG_TIME));
        self.large_extent_counts += u64::from(flags2.contains(InodeFlags2::LARGE_EXTENT_COUNTS));
        self.metadata_directory += u64::from(flags2.contains(InodeFlags2::METADATA));
        let is_realtime = inode.file_type() == Some(FileType::Regular)
            && inode.flags().contains(InodeFlags::REALTIME)
            && inode.extent_count(Fork::Data) > 0;
        self.realtime += u64::from(is_realtime);
        if inode.fork_format(Fork::Attribute) == Some(ForkFormat::Local)
            && let Some(fork) = fork_bytes(bytes, Fork::Attribute)
            && let Some(mut attributes) = shortform::Shortform::sound_attributes(fork)
        {
            let is_parent = |attribute: Result<shortform::ShortformAttribute<'_>, _>| {
                attribute.is_ok_and(|attribute| attribute.flags.contains(AttributeFlags::PARENT))
            };
            self.parent_pointers += u64::from(attributes.any(is_parent));
        }
    }

    /// Names with upper case letters have another hash where case does not matter.
    fn add_hashes(&mut self, bytes: &[u8]) {
        const TAIL_BYTES: usize = 8;
        let Some((body, tail)) =
            bytes.len().checked_sub(TAIL_BYTES).and_then(|end| bytes.split_at_checked(end))
        else {
            return;
        };
        let count = tail.first_chunk().map_or(0, |count| u32::from_be_bytes(*count)) as usize;
        let Some(end) = count.checked_mul(8).and_then(|length| body.len().checked_sub(length)) else {
            return;
        };
        let index = body.get(end..).unwrap_or_default().chunks_exact(8);
        let hashes: std::collections::BTreeSet<u32> =
            index.filter_map(|entry| entry.first_chunk()).map(|hash| u32::from_be_bytes(*hash)).collect();
        let format = EntryFormat { has_file_type: true };
        let records = DataRecords::new(bytes, u32::try_from(end).unwrap_or(0), format);
        for record in records.map_while(Result::ok) {
            let DataRecord::Entry(entry) = record else { continue };
            let (exact, folded) = (name_hash::hash(entry.name), name_hash::hash_case_folded(entry.name));
            if exact != folded {
                self.exact_hashes += u64::from(hashes.contains(&exact));
                self.folded_hashes += u64::from(hashes.contains(&folded));
            }
        }
    }

    pub fn is_case_folded(&self) -> bool {
        self.folded_hashes > self.exact_hashes
    }

    pub fn has_reverse_map(&self) -> bool {
        self.reverse_map > 0
    }

    /// Where no inode btree is left, as new file systems have it.
    pub fn has_sparse_inodes(&self) -> bool {
        if self.sparse_records == self.full_records {
            self.big_time > 0
        } else {
            self.sparse_records > self.full_records
        }
    }

    pub fn version_bits(&self, has_large_sectors: bool) -> VersionBits {
        let mut bits = VersionBits::LINK_COUNT
            | VersionBits::DIRECTORY_V2
            | VersionBits::LOG_V2
            | VersionBits::EXTENT_FLAG
            | VersionBits::MORE_BITS
            | VersionBits::ALIGNMENT
            | VersionBits::ATTRIBUTES;
        bits.set(VersionBits::SECTOR, has_large_sectors);
        bits.set(VersionBits::ASCII_CASE_INSENSITIVE, self.is_case_folded());
        bits
    }

    pub fn features2() -> Features2 {
        Features2::LAZY_COUNTERS | Features2::ATTRIBUTES_V2 | Features2::PROJECT_ID_32 | Features2::CHECKSUMS
    }

    pub fn ro_compatible(&self) -> RoCompatible {
        let mut bits = RoCompatible::empty();
        bits.set(RoCompatible::FREE_INODE_BTREE, self.free_inode_index > 0);
        bits.set(RoCompatible::REVERSE_MAP_BTREE, self.has_reverse_map());
        bits.set(RoCompatible::REFLINK, self.reference_count > 0);
        // Without headers either is right: they are rebuilt.
        let has_counts =
            if self.inode_headers == 0 { self.free_inode_index > 0 } else { self.inode_btree_counts > 0 };
        bits.set(RoCompatible::INODE_BTREE_COUNTS, has_counts && self.free_inode_index > 0);
        bits
    }

    pub fn incompatible(&self) -> Incompatible {
        let mut bits = Incompatible::FILE_TYPE;
        bits.set(Incompatible::SPARSE_INODES, self.has_sparse_inodes());
        bits.set(Incompatible::BIG_TIME, self.big_time > 0);
        bits.set(Incompatible::LARGE_EXTENT_COUNTS, self.large_extent_counts > 0);
        bits.set(Incompatible::PARENT_POINTERS, self.parent_pointers > 0);
        // mkfs.xfs makes room for logged exchanges with parent pointers; nothing on disk shows it.
        bits.set(Incompatible::EXCHANGE_RANGE, self.parent_pointers > 0);
        bits.set(Incompatible::METADATA_DIRECTORY, self.metadata_directory > 0);
        bits
    }
}

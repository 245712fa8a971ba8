//! What a survey tells, by uuid.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use uxfs_format::{
    allocation_group::{
        free_list::FreeListHeader, free_space_header::FreeSpaceHeader, inode_header::InodeHeader,
    },
    btree::{
        block::BtreeBlock,
        block_header::ShortBlockHeader,
        extent_map::ExtentRecord,
        free_space::ByBlock,
        reverse_map::{Owner, ReverseMap},
    },
    directory::header::DirectoryBlockHeader,
    fault::Structure as Kind,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFlags2, fork::fork_bytes},
    log::record::RecordHeader,
    superblock::Superblock,
    units::{SECTOR_SIZE_BYTES, Uuid},
};

use super::{Witnesses, features::FeatureEvidence, look::Structure, votes::Votes};

/// Uuids that are followed at once.
const MOST_UUIDS: usize = 64;
/// Groups of all uuids together.
const MOST_GROUPS: usize = 1 << 18;
/// Directories that are their own parents.
const MOST_ROOTS: usize = 16;
/// Shifts by which the group is taken out of an inode number: from groups of 16 MiB with inodes of 2 KiB to groups of 1 TiB.
const GROUP_SHIFTS: RangeInclusive<u32> = 12..=31;
/// Votes of a header for the length of groups, where an inode has one.
const HEADER_WEIGHT: u64 = 64;

/// Evidence of all file systems that have left something.
#[derive(Default)]
pub(super) struct Collected {
    pub by_uuid: BTreeMap<Uuid, Evidence>,
    pub logs: Logs,
    groups: usize,
}

/// Records of logs by where the log begins: first sector and uuid.
#[derive(Default)]
pub(super) struct Logs {
    logs: BTreeMap<(u64, Uuid), LogEvidence>,
}

/// Records that lie where a log that begins at one place has them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogEvidence {
    pub records: u64,
    /// Sectors from the start of the log to the end of its farthest record.
    pub end_sectors: u64,
    /// Greatest common divisor of the places and lengths of nonempty records.
    pub unit_sectors: u64,
}

/// Logs that are followed at once.
const MOST_LOGS: usize = 256;

/// What is known of one group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GroupEvidence {
    /// The length that its headers say.
    pub length_blocks: Option<u32>,
    /// The first and the last byte at which a btree block of it begins.
    pub blocks: Option<(u64, u64)>,
    /// The end of its free and owned space, as btree records say.
    pub end_block: u32,
}

/// Evidence of the file system with one uuid.
#[derive(Default)]
pub(super) struct Evidence {
    pub witnesses: Witnesses,
    /// Headers of group 0, which lie where mkfs.xfs has written last.
    first_headers: u64,
    pub sector_sizes: Votes<usize>,
    pub block_sizes: Votes<usize>,
    pub directory_block_sizes: Votes<usize>,
    pub inode_sizes: Votes<usize>,
    /// Bytes in a group.
    pub group_bytes: Votes<u64>,
    pub groups: BTreeMap<u32, GroupEvidence>,
    /// Group, first block and length of the log, as reverse maps say.
    pub logs: Votes<(u32, u32, u32)>,
    /// Blocks of group headers, as reverse maps say.
    pub header_blocks: Votes<u32>,
    /// The last block that an extent of an inode names, as a sparse number.
    pub last_fs_block: u64,
    /// Directories that are their own parents.
    pub roots: BTreeSet<u64>,
    pub metadata_roots: BTreeSet<u64>,
    pub features: FeatureEvidence,
}

impl Collected {
    /// Takes a structure in.
    pub fn add(&mut self, structure: &Structure<'_>) {
        if structure.kind == Kind::LogRecord {
            return self.logs.add(structure);
        }
        if !self.by_uuid.contains_key(&structure.uuid) && self.by_uuid.len() >= MOST_UUIDS {
            self.forget_least();
        }
        let evidence = self.by_uuid.entry(structure.uuid).or_default();
        let before = evidence.groups.len();
        evidence.add(structure, self.groups < MOST_GROUPS);
        self.groups += evidence.groups.len().saturating_sub(before);
    }

    fn forget_least(&mut self) {
        let least = self.by_uuid.iter().min_by_key(|(_, evidence)| evidence.rank());
        if let Some(uuid) = least.map(|(uuid, _)| *uuid) {
            let forgotten = self.by_uuid.remove(&uuid);
            self.groups -= forgotten.map_or(0, |evidence| evidence.groups.len()).min(self.groups);
        }
    }
}

impl Logs {
    fn add(&mut self, structure: &Structure<'_>) {
        let Ok(record) = RecordHeader::parse(structure.bytes) else { return };
        let sector = structure.offset_bytes / SECTOR_SIZE_BYTES;
        let block = u64::from(record.lsn().block());
        let Some(start) = sector.checked_sub(block) else { return };
        let key = (start, structure.uuid);
        if !self.logs.contains_key(&key) && self.logs.len() >= MOST_LOGS {
            let least = self.logs.iter().min_by_key(|(_, log)| log.records).map(|(key, _)| *key);
            least.map(|least| self.logs.remove(&least));
        }
        let log = self.logs.entry(key).or_default();
        let end = block + u64::from(record.blocks());
        log.records += 1;
        log.end_sectors = log.end_sectors.max(end);
        // Linux writes an empty record into each block ahead of the head, whatever the unit.
        if !record.is_filler() {
            log.unit_sectors = common_divisor(log.unit_sectors, common_divisor(block, end));
        }
    }

    /// The records of a log, if there are any.
    pub fn of(&self, start_sector: u64, uuid: Uuid) -> Option<LogEvidence> {
        self.logs.get(&(start_sector, uuid)).copied()
    }

    /// Start, uuid and records of each log, the one with most records first.
    pub fn by_records(&self) -> Vec<(u64, Uuid, LogEvidence)> {
        let mut logs: Vec<_> = self.logs.iter().map(|((start, uuid), log)| (*start, *uuid, *log)).collect();
        logs.sort_by_key(|(_, _, log)| std::cmp::Reverse(log.records));
        logs
    }

    /// How many records the log of `superblock` has.
    pub fn records_of(&self, superblock: &Superblock) -> u64 {
        let geometry = Geometry::new(superblock);
        let start = geometry.log_start.and_then(|start| geometry.sector_of_block(start));
        start.and_then(|start| self.of(start.get(), geometry.uuid)).map_or(0, |log| log.records)
    }
}

fn common_divisor(one: u64, other: u64) -> u64 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

impl Evidence {
    /// What decides between uuids.
    pub fn rank(&self) -> (u64, u64) {
        let Witnesses { group_headers, btree_blocks, inodes, name_blocks, .. } = self.witnesses;
        (self.first_headers, group_headers * HEADER_WEIGHT + btree_blocks + inodes + name_blocks)
    }

    fn add(&mut self, structure: &Structure<'_>, may_grow: bool) {
        let length = structure.bytes.len();
        match structure.kind {
            Kind::FreeSpaceHeader | Kind::InodeHeader | Kind::FreeList => {
                self.add_header(structure, may_grow)
            }
            Kind::Inode => self.add_inode(structure),
            Kind::DirectoryBlock
            | Kind::DirectoryData
            | Kind::DirectoryFreeIndex
            | Kind::DirectoryLeaf
            | Kind::DirectoryLeafNode => {
                self.witnesses.name_blocks += 1;
                self.directory_block_sizes.add(length, 1);
                if structure.kind == Kind::DirectoryBlock || structure.kind == Kind::DirectoryData {
                    self.add_root_of_block(structure.bytes);
                }
            }
            Kind::AttributeLeaf | Kind::AttributeRemoteValue => {
                self.witnesses.name_blocks += 1;
                self.block_sizes.add(length, 1);
            }
            Kind::DirectoryNode => self.witnesses.name_blocks += 1,
            Kind::ExtentMap => {
                self.witnesses.btree_blocks += 1;
                self.block_sizes.add(length, 1);
            }
            _ => self.add_group_block(structure, may_grow),
        }
        self.features.add(structure);
    }

    /// Each header is one sector behind the one before; the superblock is the first.
    fn add_header(&mut self, structure: &Structure<'_>, may_grow: bool) {
        let bytes = structure.bytes;
        let sector_bytes = bytes.len() as u64;
        let found = match structure.kind {
            Kind::FreeSpaceHeader => FreeSpaceHeader::prefix_of(bytes)
                .map(|header| (1, header.group.get(), Some(header.length_blocks.get()))),
            Kind::InodeHeader => InodeHeader::prefix_of(bytes)
                .map(|header| (2, header.group.get(), Some(header.length_blocks.get()))),
            _ => FreeListHeader::prefix_of(bytes).map(|header| (3, header.group.get(), None)),
        };
        let Some((index, group, length_blocks)) = found else { return };
        let Some(start) = structure.offset_bytes.checked_sub(index * sector_bytes) else { return };
        let is_at_its_place = if group == 0 { start == 0 } else { start % u64::from(group) == 0 };
        if !is_at_its_place {
            return;
        }
        self.witnesses.group_headers += 1;
        self.first_headers += u64::from(group == 0);
        self.sector_sizes.add(bytes.len(), 1);
        if let Some(group_bytes) = start.checked_div(group.into()) {
            self.group_bytes.add(group_bytes, HEADER_WEIGHT);
        }
        if let (Some(length_blocks), Some(known)) = (length_blocks, self.group(group, may_grow)) {
            known.length_blocks = Some(length_blocks);
        }
    }

    fn group(&mut self, group: u32, may_grow: bool) -> Option<&mut GroupEvidence> {
        if may_grow || self.groups.contains_key(&group) {
            return Some(self.groups.entry(group).or_default());
        }
        None
    }

    /// A block of a btree of a group.
    fn add_group_block(&mut self, structure: &Structure<'_>, may_grow: bool) {
        let Some(header) = ShortBlockHeader::prefix_of(structure.bytes) else { return };
        self.witnesses.btree_blocks += 1;
        self.block_sizes.add(structure.bytes.len(), 1);
        let end_block = match structure.kind {
            Kind::FreeSpaceByBlock => end_of_free_space(structure.bytes),
            Kind::ReverseMap => self.add_mappings(header.owner.get(), structure.bytes),
            _ => 0,
        };
        let Some(group) = self.group(header.owner.get(), may_grow) else { return };
        let at = structure.offset_bytes;
        group.blocks = Some(group.blocks.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        group.end_block = group.end_block.max(end_block);
    }

    /// Gives the end of the owned space.
    fn add_mappings(&mut self, group: u32, bytes: &[u8]) -> u32 {
        let Ok(block) = BtreeBlock::<ReverseMap>::parse(bytes) else { return 0 };
        let mut end_block = 0;
        for mapping in block.records().iter().map(|record| record.get()) {
            end_block = end_block.max(mapping.end().get());
            match mapping.owner {
                Owner::Log => self.logs.add((group, mapping.start.get(), mapping.length_blocks), 1),
                Owner::GroupHeaders => self.header_blocks.add(mapping.length_blocks, 1),
                _ => {}
            }
        }
        end_block
    }

    fn add_inode(&mut self, structure: &Structure<'_>) {
        let Some(inode) = InodeCore::prefix_of(structure.bytes) else { return };
        let size_bytes = structure.bytes.len() as u64;
        let number = inode.number.get();
        let mut is_at_its_place = number.checked_mul(size_bytes) == Some(structure.offset_bytes);
        if !is_at_its_place {
            for group_bytes in possible_group_bytes(number, structure.offset_bytes, size_bytes) {
                self.group_bytes.add(group_bytes, 1);
                is_at_its_place = true;
            }
        }
        if !is_at_its_place {
            return;
        }
        self.witnesses.inodes += 1;
        self.inode_sizes.add(structure.bytes.len(), 1);
        if inode.is_free() {
            return;
        }
        self.add_root_of_inode(inode, structure.bytes);
        let fork =
            fork_bytes(structure.bytes, Fork::Data).filter(|_| inode.format == ForkFormat::Extents.code());
        let count = usize::try_from(inode.extent_count(Fork::Data)).unwrap_or(0);
        let records = fork.unwrap_or_default().chunks_exact(ExtentRecord::SIZE_BYTES);
        for record in records.take(count) {
            let Some(record) = ExtentRecord::prefix_of(record) else { continue };
            let extent = record.get();
            let last = extent.start.get().saturating_add(extent.length_blocks.saturating_sub(1));
            self.last_fs_block = self.last_fs_block.max(last);
        }
    }

    fn add_root_of_inode(&mut self, inode: &InodeCore, bytes: &[u8]) {
        let is_directory = inode.file_type() == Some(FileType::Directory);
        if !is_directory || inode.format != ForkFormat::Local.code() {
            return;
        }
        let parent = match fork_bytes(bytes, Fork::Data) {
            Some([_, 0, rest @ ..]) => rest.first_chunk().map(|parent| u32::from_be_bytes(*parent).into()),
            Some([_, _, rest @ ..]) => rest.first_chunk().map(|parent| u64::from_be_bytes(*parent)),
            _ => None,
        };
        if parent == Some(inode.number.get()) {
            let is_metadata = inode.flags2().contains(InodeFlags2::METADATA);
            let roots = if is_metadata { &mut self.metadata_roots } else { &mut self.roots };
            add_root(roots, inode.number.get());
        }
    }

    /// The first block of a directory begins with "." and "..".
    fn add_root_of_block(&mut self, bytes: &[u8]) {
        const DOT_OFFSET_BYTES: usize = 64;
        const DOT_DOT_OFFSET_BYTES: usize = 80;
        let Some(header) = DirectoryBlockHeader::prefix_of(bytes) else { return };
        let owner = header.owner.get();
        let names = |offset_bytes: usize, name: &[u8]| {
            let Some(entry) = bytes.get(offset_bytes..) else { return false };
            let inode = entry.first_chunk().map(|inode| u64::from_be_bytes(*inode));
            let found = entry.get(9..9 + name.len());
            inode == Some(owner)
                && entry.get(8).copied().map(usize::from) == Some(name.len())
                && found == Some(name)
        };
        if names(DOT_OFFSET_BYTES, b".") && names(DOT_DOT_OFFSET_BYTES, b"..") {
            add_root(&mut self.roots, owner);
        }
    }
}

fn add_root(roots: &mut BTreeSet<u64>, inode: u64) {
    roots.insert(inode);
    if roots.len() > MOST_ROOTS {
        roots.pop_last();
    }
}

fn end_of_free_space(bytes: &[u8]) -> u32 {
    let Ok(block) = BtreeBlock::<ByBlock>::parse(bytes) else { return 0 };
    block.records().iter().map(|record| record.get().end().get()).max().unwrap_or(0)
}

/// Lengths of groups with which an inode of this number lies at `offset_bytes`.
fn possible_group_bytes(number: u64, offset_bytes: u64, size_bytes: u64) -> impl Iterator<Item = u64> {
    GROUP_SHIFTS.filter_map(move |shift| {
        let (group, in_group) = (number >> shift, number & ((1 << shift) - 1));
        let start = offset_bytes.checked_sub(in_group.checked_mul(size_bytes)?)?;
        let group_bytes = start.checked_div(group).filter(|_| start % group == 0)?;
        // The shift is the smallest that all inodes of a group fit in.
        let inodes = group_bytes / size_bytes;
        let is_whole = group_bytes % 1024 == 0 && inodes.checked_next_power_of_two() == Some(1 << shift);
        is_whole.then_some(group_bytes)
    })
}

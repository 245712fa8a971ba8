//! Inodes.
//!
//! In a cluster of inodes the four first runs of each inode are not what was changed but say it: see [`InodeChange`].

use uxfs_block::cache::{Piece, logged::RUN_LOG_BYTES};
use uxfs_format::{
    btree::extent_map,
    edit::{DIRTY_RUN_BYTES, DirtyMap},
    field_table::OnDisk,
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::{Fork, ForkFormat, InodeCore, InodeFlags2},
    log::{
        inode_create_item::InodeCreateItem,
        inode_item::{InodeFormat, InodeItemFields, LoggedInodeCore},
        item::ItemType,
    },
    units::{AgBlock, AgNumber, SECTOR_SIZE_BYTES},
};
use zerocopy::{FromZeros, IntoBytes};

use super::{RegionSink, buffer};

/// A part of an inode that has changed: the number of the run, from its first byte on, that says so in the cluster's
/// [`DirtyMap`]. Inodes have at least four runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InodeChange {
    /// The next unlinked inode.
    NextUnlinked = 0,
    /// The core.
    Core = 1,
    /// The data fork.
    Data = 2,
    /// The attribute fork.
    Attribute = 3,
}

impl InodeChange {
    /// How many there are.
    pub const COUNT: u32 = 4;

    /// The byte to mark for it, from the inode's first byte on.
    pub fn offset_bytes(self) -> u32 {
        self as u32 * DIRTY_RUN_BYTES
    }

    fn is_marked(self, changes: &DirtyMap, inode: u32) -> bool {
        changes.is_dirty(inode / DIRTY_RUN_BYTES + self as u32)
    }
}

/// Header of an operation in the log, in front of each region.
const REGION_HEADER_BYTES: u32 = 12;
/// Header of a block of an extent map, which a logged root begins with.
const LONG_ROOT_HEADER_BYTES: u32 = 72;
/// Log space of the core of a changed inode, with the region of the item's format.
pub const CORE_LOG_BYTES: u32 =
    2 * REGION_HEADER_BYTES + (size_of::<InodeFormat>() + size_of::<LoggedInodeCore>()) as u32;
/// Log space of the number of the next unlinked inode: a run of the cluster.
pub const NEXT_UNLINKED_LOG_BYTES: u64 = RUN_LOG_BYTES as u64;

/// Log space of a changed fork of `length_bytes`.
pub fn fork_log_bytes(length_bytes: usize, is_root: bool) -> u32 {
    match u32::try_from(length_bytes).unwrap_or(u32::MAX - 1024).next_multiple_of(4) {
        0 => 0,
        length if is_root => REGION_HEADER_BYTES + LONG_ROOT_HEADER_BYTES + length,
        length => REGION_HEADER_BYTES + length,
    }
}

/// The most that an inode is reserved for in one checkpoint: each fork may have had all the room at some time.
pub fn most_log_bytes(geometry: &Geometry) -> u64 {
    let room = geometry.inode_size().saturating_sub(INODE_CORE_SIZE_BYTES as usize);
    u64::from(CORE_LOG_BYTES + 2 * fork_log_bytes(room, true)) + NEXT_UNLINKED_LOG_BYTES
}

/// The changed inodes of a cluster, and its lists of unlinked ones.
pub fn log_cluster(
    piece: Piece,
    bytes: &[u8],
    changes: &DirtyMap,
    geometry: &Geometry,
    sink: &mut impl RegionSink,
) {
    let inodes = (0..piece.length_bytes).step_by(geometry.inode_size().max(1));
    for inode in inodes.clone() {
        let has = |change: InodeChange| change.is_marked(changes, inode);
        if has(InodeChange::Core) || has(InodeChange::Data) || has(InodeChange::Attribute) {
            let (data, attribute) = (has(InodeChange::Data), has(InodeChange::Attribute));
            log_inode(piece, bytes, inode, (data, attribute), geometry, sink);
        }
    }
    let unlinked = inodes.filter(|inode| InodeChange::NextUnlinked.is_marked(changes, *inode));
    buffer::log_next_unlinked(piece, bytes, unlinked, sink);
}

/// One inode: format, core, and the forks that changed.
fn log_inode(
    piece: Piece,
    cluster: &[u8],
    offset_bytes: u32,
    (data_changed, attribute_changed): (bool, bool),
    geometry: &Geometry,
    sink: &mut impl RegionSink,
) {
    let inode = cluster.get(offset_bytes as usize..).and_then(|rest| rest.get(..geometry.inode_size()));
    let Some((core, literal)) =
        inode.and_then(|inode| inode.split_at_checked(INODE_CORE_SIZE_BYTES as usize))
    else {
        return;
    };
    let Some(core) = InodeCore::prefix_of(core) else { return };
    let split = if core.fork_offset == 0 { literal.len() } else { core.fork_offset_bytes() as usize };
    let (data, attribute) = literal.split_at(split.min(literal.len()));
    let data = LoggedFork::of(core, Fork::Data, data, data_changed);
    let attribute =
        LoggedFork::of(core, Fork::Attribute, attribute, attribute_changed && core.fork_offset != 0);
    let mut format = InodeFormat::new_zeroed();
    format.kind = ItemType::Inode.raw().into();
    let regions = 2 + u16::from(data.bytes.is_some()) + u16::from(attribute.bytes.is_some());
    format.region_count = regions.into();
    format.fields = (InodeItemFields::CORE | data.field | attribute.field).bits().into();
    format.data_bytes = data.length_bytes().into();
    format.attribute_bytes = attribute.length_bytes().into();
    format.inode = core.number.get().into();
    if data.field.contains(InodeItemFields::DEVICE) {
        let number = literal.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        format.device = number.into();
    }
    format.buffer_sector = (piece.offset_bytes / SECTOR_SIZE_BYTES).cast_signed().into();
    format.buffer_sectors = ((piece.length_bytes / SECTOR_SIZE_BYTES as u32).cast_signed()).into();
    format.buffer_offset_bytes = offset_bytes.cast_signed().into();
    sink.region(format.as_bytes());
    sink.content(logged_core(core).as_bytes());
    data.write(sink);
    attribute.write(sink);
}

/// A fork as it is logged.
struct LoggedFork<'a> {
    field: InodeItemFields,
    bytes: Option<ForkBytes<'a>>,
}

enum ForkBytes<'a> {
    /// As they lie in the inode.
    Raw(&'a [u8]),
    /// The root of a btree in the form of a whole block.
    Root(Vec<u8>),
}

impl<'a> LoggedFork<'a> {
    fn of(core: &InodeCore, fork: Fork, room: &'a [u8], has_changed: bool) -> Self {
        let nothing = Self { field: InodeItemFields::empty(), bytes: None };
        let is_data = fork == Fork::Data;
        let format = if is_data { core.format } else { core.attribute_format };
        let choose = |data, attribute| if is_data { data } else { attribute };
        let Some(format) = ForkFormat::from_code(format).filter(|_| has_changed) else { return nothing };
        let (field, bytes) = match format {
            ForkFormat::Device => return Self { field: InodeItemFields::DEVICE, bytes: None },
            ForkFormat::Local => {
                let length =
                    if is_data { core.size_bytes.get() as usize } else { local_attribute_bytes(room) };
                let field = choose(InodeItemFields::DATA_LOCAL, InodeItemFields::ATTRIBUTE_LOCAL);
                (field, ForkBytes::Raw(room.get(..length).unwrap_or(room)))
            }
            ForkFormat::Extents => {
                let length = extent_count(core, fork) as usize * 16;
                let field = choose(InodeItemFields::DATA_EXTENTS, InodeItemFields::ATTRIBUTE_EXTENTS);
                (field, ForkBytes::Raw(room.get(..length).unwrap_or(room)))
            }
            ForkFormat::Btree => {
                let field = choose(InodeItemFields::DATA_BTREE_ROOT, InodeItemFields::ATTRIBUTE_BTREE_ROOT);
                (field, ForkBytes::Root(long_root(core, room)))
            }
            _ => return nothing,
        };
        if bytes.is_empty() { nothing } else { Self { field, bytes: Some(bytes) } }
    }

    fn length_bytes(&self) -> u16 {
        self.bytes.as_ref().map_or(0, |bytes| bytes.as_slice().len() as u16)
    }

    /// As a region, padded to four bytes.
    fn write(&self, sink: &mut impl RegionSink) {
        let Some(bytes) = self.bytes.as_ref().map(ForkBytes::as_slice) else { return };
        if bytes.len().is_multiple_of(4) {
            return sink.content(bytes);
        }
        // Most have room in the smaller one: to clear the larger would cost more than the rest.
        if bytes.len() <= USUAL_FORK_BYTES {
            return write_padded::<USUAL_FORK_BYTES>(bytes, sink);
        }
        write_padded::<MOST_FORK_BYTES>(bytes, sink);
    }
}

const USUAL_FORK_BYTES: usize = 128;
const MOST_FORK_BYTES: usize = 2048;

/// A region of at most `SIZE_BYTES`, a multiple of 4, with zeros behind it.
fn write_padded<const SIZE_BYTES: usize>(bytes: &[u8], sink: &mut impl RegionSink) {
    let mut padded = [0; SIZE_BYTES];
    if let Some(target) = padded.get_mut(..bytes.len()) {
        target.copy_from_slice(bytes);
    }
    sink.content(padded.get(..bytes.len().next_multiple_of(4)).unwrap_or_default());
}

impl ForkBytes<'_> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Raw(bytes) => bytes,
            Self::Root(bytes) => bytes,
        }
    }

    fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}

/// Attributes in the inode say themselves how long they are.
fn local_attribute_bytes(room: &[u8]) -> usize {
    room.first_chunk().map_or(0, |length| usize::from(u16::from_be_bytes(*length)))
}

fn extent_count(core: &InodeCore, fork: Fork) -> u64 {
    let is_large = core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
    match (fork, is_large) {
        (Fork::Data, true) => core.large_extent_count.get(),
        (Fork::Data, false) | (Fork::Attribute, true) => core.extent_count.get().into(),
        (Fork::Attribute, false) => core.attribute_extent_count.get().into(),
    }
}

/// The root of an extent map in the form that the log has for it: the header of a block in front of keys and pointers
/// without room between them.
#[doc(alias = "xfs_bmbt_to_bmdr")]
fn long_root(core: &InodeCore, fork: &[u8]) -> Vec<u8> {
    let Ok(root) = extent_map::ExtentMapRoot::parse(fork) else { return Vec::new() };
    let count = root.keys().len();
    let mut bytes = Vec::with_capacity(72 + 16 * count);
    bytes.extend_from_slice(&extent_map::MAGIC.to_be_bytes());
    bytes.extend_from_slice(&root.level().to_be_bytes());
    bytes.extend_from_slice(&(count as u16).to_be_bytes());
    // Neighbours, place: none. Then the log sequence number, which replay does not read.
    bytes.extend_from_slice(&[0xff; 24]);
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(core.uuid.as_bytes());
    bytes.extend_from_slice(core.number.as_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(root.keys().as_bytes());
    bytes.extend_from_slice(root.pointers().as_bytes());
    bytes
}

/// The core in the byte order of the log.
#[doc(alias = "xfs_inode_to_log_dinode")]
pub fn logged_core(core: &InodeCore) -> LoggedInodeCore {
    LoggedInodeCore {
        magic: core.magic.get().into(),
        mode: core.mode.get().into(),
        version: core.version,
        data_format: core.format,
        metadata_type: core.metadata_type.get().into(),
        user_id: core.uid.get().into(),
        group_id: core.gid.get().into(),
        link_count: core.link_count.get().into(),
        project_id_low: core.project_id_low.get().into(),
        project_id_high: core.project_id_high.get().into(),
        large_data_extents: core.large_extent_count.get().into(),
        access_time: logged_time(core, &core.access_time),
        modification_time: logged_time(core, &core.modification_time),
        change_time: logged_time(core, &core.change_time),
        size_bytes: core.size_bytes.get().into(),
        blocks: core.blocks.get().into(),
        extent_size_blocks: core.extent_size_blocks.get().into(),
        data_extents: core.extent_count.get().into(),
        attribute_extents: core.attribute_extent_count.get().into(),
        fork_offset: core.fork_offset,
        attribute_format: core.attribute_format,
        dmapi_mask: core.dmapi_event_mask.get().into(),
        dmapi_state: core.dmapi_state.get().into(),
        flags: core.flags.get().into(),
        generation: core.generation.get().into(),
        next_unlinked: core.next_unlinked.get().into(),
        checksum: 0.into(),
        change_count: core.change_count.get().into(),
        lsn: 0.into(),
        flags2: core.flags2.get().into(),
        cow_extent_size_blocks: core.cow_extent_size_blocks.get().into(),
        padding: [0; 12],
        creation_time: logged_time(core, &core.creation_time),
        inode: core.number.get().into(),
        uuid: core.uuid,
    }
}

/// One number of 64 bits where times are large; else two of 32 bits, each in the byte order of the log.
fn logged_time(core: &InodeCore, time: &impl IntoBytesOfTime) -> zerocopy::little_endian::U64 {
    let raw = u64::from_be_bytes(time.raw());
    if core.flags2().contains(InodeFlags2::BIG_TIME) {
        return raw.into();
    }
    // Seconds come first in memory: the low half of a little-endian number.
    raw.rotate_left(32).into()
}

trait IntoBytesOfTime {
    fn raw(&self) -> [u8; 8];
}

impl<T: IntoBytes + zerocopy::Immutable> IntoBytesOfTime for T {
    fn raw(&self) -> [u8; 8] {
        self.as_bytes().first_chunk().copied().unwrap_or_default()
    }
}

/// A chunk of inodes, or a part of one, has been made: replay writes its blocks.
pub fn log_create(
    (group, start, length_blocks): (AgNumber, AgBlock, u32),
    generation: u32,
    geometry: &Geometry,
) -> Vec<u8> {
    let item = InodeCreateItem {
        kind: ItemType::InodeCreate.raw().into(),
        region_count: 1.into(),
        group: group.get().into(),
        block: start.get().into(),
        inode_count: (length_blocks * geometry.inodes_per_block()).into(),
        inode_size_bytes: geometry.inode_size_bytes.into(),
        length_blocks: length_blocks.into(),
        generation: generation.into(),
    };
    item.as_bytes().to_vec()
}

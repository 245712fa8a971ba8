//! From a logged inode to the one on disk.
//!
//! The log keeps the core in the byte order of the machine and the root of an extent map in the form that blocks of such
//! trees have; a disk keeps the core big-endian and the root short. Forks with contents or extent records are the same in
//! both.

use zerocopy::{
    big_endian::{U16 as BigU16, U32 as BigU32, U64 as BigU64},
    little_endian::{U16, U32, U64},
};

use crate::{
    checksum,
    convert::{to_u64, to_usize},
    field_table::OnDisk,
    geometry::INODE_CORE_SIZE_BYTES,
    inode::{
        ForkFormat, InodeCore, InodeFlags2,
        core::{CHECKSUM_OFFSET_BYTES, MAGIC},
        timestamp::DiskTimestamp,
        verify::{METADATA_TYPE_REFERENCE_COUNT, METADATA_TYPE_REVERSE_MAP},
    },
    log::{
        inode_item::{InodeItem, InodeItemFields, LoggedInodeCore},
        item::LogItemFault,
    },
    units::Lsn,
};

/// Header of the long form of a root: that of a block.
const LONG_HEADER_BYTES: usize = 72;
/// Header of the short form.
const SHORT_HEADER_BYTES: usize = 4;
/// Level and number of entries in the long form.
const LEVEL_AND_COUNT: std::ops::Range<usize> = 4..8;
/// A pointer of an entry.
const POINTER_BYTES: usize = 8;

impl LoggedInodeCore {
    /// Puts the logged core into the one on disk. Fields that are not logged stay as they are: the next unlinked inode,
    /// checksum and log sequence number.
    #[doc(alias = "xfs_log_dinode_to_disk")]
    pub fn apply_to(&self, core: &mut InodeCore) {
        let is_big = InodeFlags2::from_bits_retain(self.flags2.get()).contains(InodeFlags2::BIG_TIME);
        let time = |time: U64| disk_time(time, is_big);
        let narrow = |value: U16| BigU16::new(value.get());
        let word = |value: U32| BigU32::new(value.get());
        let long = |value: U64| BigU64::new(value.get());
        *core = InodeCore {
            magic: narrow(self.magic),
            mode: narrow(self.mode),
            version: self.version,
            format: self.data_format,
            metadata_type: narrow(self.metadata_type),
            uid: word(self.user_id),
            gid: word(self.group_id),
            link_count: word(self.link_count),
            project_id_low: narrow(self.project_id_low),
            project_id_high: narrow(self.project_id_high),
            large_extent_count: long(self.large_data_extents),
            access_time: time(self.access_time),
            modification_time: time(self.modification_time),
            change_time: time(self.change_time),
            size_bytes: long(self.size_bytes),
            blocks: long(self.blocks),
            extent_size_blocks: word(self.extent_size_blocks),
            extent_count: word(self.data_extents),
            attribute_extent_count: narrow(self.attribute_extents),
            fork_offset: self.fork_offset,
            attribute_format: self.attribute_format,
            dmapi_event_mask: word(self.dmapi_mask),
            dmapi_state: narrow(self.dmapi_state),
            flags: narrow(self.flags),
            generation: word(self.generation),
            next_unlinked: core.next_unlinked,
            checksum: core.checksum,
            change_count: long(self.change_count),
            lsn: core.lsn,
            flags2: long(self.flags2),
            cow_extent_size_blocks: word(self.cow_extent_size_blocks),
            padding: [0; 12],
            creation_time: time(self.creation_time),
            number: long(self.inode),
            uuid: self.uuid,
        };
    }
}

/// Without the inode's "big time" flag a time is two numbers of 32 bits, each in the byte order of its place.
fn disk_time(time: U64, is_big: bool) -> DiskTimestamp {
    let raw = if is_big { time.get() } else { time.get().rotate_left(32) };
    DiskTimestamp(BigU64::new(raw))
}

impl InodeItem<'_> {
    /// Puts the logged inode into the bytes of the one on disk, stamps `lsn` and seals it.
    ///
    /// # Errors
    /// A fork that does not fit its room.
    #[doc(alias = "xlog_recover_inode_commit_pass2")]
    pub fn apply_to(&self, inode: &mut [u8], lsn: Lsn) -> Result<(), LogItemFault> {
        let number = self.core.inode.get();
        let no_room = |length: usize, room: usize| LogItemFault::Fork {
            inode: number,
            length_bytes: to_u64(length),
            room_bytes: to_u64(room),
        };
        let inode_bytes = inode.len();
        let core_bytes = to_usize(INODE_CORE_SIZE_BYTES);
        let Some((core, literal)) = inode.split_at_mut_checked(core_bytes) else {
            return Err(no_room(core_bytes, inode_bytes));
        };
        let Some(core) = InodeCore::prefix_of_mut(core) else { return Err(no_room(core_bytes, inode_bytes)) };
        self.core.apply_to(core);
        core.lsn.set(lsn.get());
        let room = match core.fork_offset {
            0 => literal.len(),
            offset => usize::from(offset).saturating_mul(8),
        };
        let literal_bytes = literal.len();
        let Some((data, attribute)) = literal.split_at_mut_checked(room) else {
            return Err(no_room(room, literal_bytes));
        };
        if self.fields.contains(InodeItemFields::DEVICE) {
            let device = self.format().device.get().to_be_bytes();
            if let Some(start) = data.first_chunk_mut() {
                *start = device;
            }
        }
        let forks = [
            (self.data_fork, data, InodeItemFields::DATA_BTREE_ROOT),
            (self.attribute_fork, attribute, InodeItemFields::ATTRIBUTE_BTREE_ROOT),
        ];
        for (logged, room, root) in forks {
            let Some(logged) = logged else { continue };
            let room_bytes = room.len();
            let fits = if self.fields.contains(root) {
                match RootShape::of_metadata(self.core.metadata_type.get()) {
                    Some(shape)
                        if ForkFormat::from_code(self.core.data_format)
                            == Some(ForkFormat::MetadataBtree) =>
                    {
                        shape.shorten(logged, room).is_some()
                    }
                    _ => short_root(logged, room).is_some(),
                }
            } else {
                room.get_mut(..logged.len()).map(|target| target.copy_from_slice(logged)).is_some()
            };
            if !fits {
                return Err(no_room(logged.len(), room_bytes));
            }
        }
        checksum::seal(inode, CHECKSUM_OFFSET_BYTES);
        Ok(())
    }
}

/// Whether bytes on disk can be those of an inode at all.
pub fn is_inode(bytes: &[u8]) -> bool {
    InodeCore::prefix_of(bytes).is_some_and(|core| core.magic.get() == MAGIC && core.version == 3)
}

/// From the long form of a root of an extent map to the short one. `None` where that does not fit, or is no root.
#[doc(alias = "xfs_bmbt_to_bmdr")]
pub fn short_root(long: &[u8], room: &mut [u8]) -> Option<()> {
    RootShape::EXTENT_MAP.shorten(long, room)
}

/// Lengths of what a root in an inode holds.
#[derive(Debug, Clone, Copy)]
struct RootShape {
    /// The keys of an entry of a node.
    key_bytes: usize,
    /// A record of a leaf. A root that may not be a leaf has none.
    record_bytes: Option<usize>,
}

impl RootShape {
    const EXTENT_MAP: Self = Self { key_bytes: 8, record_bytes: None };
    /// Nodes have a low and a high key.
    #[doc(alias = "xfs_rtrmapbt_to_disk")]
    const REALTIME_REVERSE_MAP: Self = Self { key_bytes: 40, record_bytes: Some(24) };
    #[doc(alias = "xfs_rtrefcountbt_to_disk")]
    const REALTIME_REFERENCE_COUNT: Self = Self { key_bytes: 4, record_bytes: Some(12) };

    /// Of the btree in a metadata inode of this type.
    fn of_metadata(metadata_type: u16) -> Option<Self> {
        match metadata_type {
            METADATA_TYPE_REVERSE_MAP => Some(Self::REALTIME_REVERSE_MAP),
            METADATA_TYPE_REFERENCE_COUNT => Some(Self::REALTIME_REFERENCE_COUNT),
            _ => None,
        }
    }

    /// Entries of a node that fit so many bytes: where its pointers begin follows from that.
    fn capacity(self, bytes: usize) -> Option<usize> {
        bytes.checked_div(self.key_bytes.checked_add(POINTER_BYTES)?)
    }

    /// From the long form of a root to the short one. `None` where that does not fit, or is no root.
    fn shorten(self, long: &[u8], room: &mut [u8]) -> Option<()> {
        let head: [u8; 4] = *long.get(LEVEL_AND_COUNT)?.first_chunk()?;
        let [level_high, level_low, count_high, count_low] = head;
        let count = usize::from(u16::from_be_bytes([count_high, count_low]));
        let is_leaf = u16::from_be_bytes([level_high, level_low]) == 0;
        let from = long.get(LONG_HEADER_BYTES..)?;
        let (short_head, to) = room.split_at_mut_checked(SHORT_HEADER_BYTES)?;
        if is_leaf {
            let bytes = count.checked_mul(self.record_bytes?)?;
            to.get_mut(..bytes)?.copy_from_slice(from.get(..bytes)?);
        } else {
            let (from_capacity, to_capacity) = (self.capacity(from.len())?, self.capacity(to.len())?);
            if count == 0 || count > from_capacity || count > to_capacity {
                return None;
            }
            let bytes = count.checked_mul(self.key_bytes)?;
            to.get_mut(..bytes)?.copy_from_slice(from.get(..bytes)?);
            let bytes = count.checked_mul(POINTER_BYTES)?;
            let pointers = from.get(from_capacity.checked_mul(self.key_bytes)?..)?.get(..bytes)?;
            let place = to.get_mut(to_capacity.checked_mul(self.key_bytes)?..)?;
            place.get_mut(..bytes)?.copy_from_slice(pointers);
        }
        short_head.copy_from_slice(&head);
        Some(())
    }
}

#[cfg(test)]
#[path = "inode_change_tests.rs"]
mod tests;

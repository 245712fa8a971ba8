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
    btree::extent_map::ExtentMapRoot,
    checksum,
    convert::{to_u64, to_usize},
    field_table::OnDisk,
    geometry::INODE_CORE_SIZE_BYTES,
    inode::{
        InodeCore, InodeFlags2,
        core::{CHECKSUM_OFFSET_BYTES, MAGIC},
        timestamp::DiskTimestamp,
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
/// Key and pointer of an entry.
const KEY_BYTES: usize = 8;

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
                short_root(logged, room).is_some()
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

/// Entries that a root in the long form of `bytes` bytes has room for: where its pointers begin follows from that.
fn long_capacity(bytes: usize) -> usize {
    bytes.saturating_sub(LONG_HEADER_BYTES).checked_div(KEY_BYTES.saturating_mul(2)).unwrap_or(0)
}

/// From the long form of a root to the short one. `None` where that does not fit, or is no root.
#[doc(alias = "xfs_bmbt_to_bmdr")]
pub fn short_root(long: &[u8], room: &mut [u8]) -> Option<()> {
    let head: [u8; 4] = *long.get(LEVEL_AND_COUNT)?.first_chunk()?;
    let [level_high, level_low, count_high, count_low] = head;
    let count = usize::from(u16::from_be_bytes([count_high, count_low]));
    let (from, to) = (long_capacity(long.len()), to_usize(ExtentMapRoot::capacity(room.len())));
    let level = u16::from_be_bytes([level_high, level_low]);
    if count == 0 || count > from || count > to || level == 0 {
        return None;
    }
    let bytes = count.checked_mul(KEY_BYTES)?;
    let keys = long.get(LONG_HEADER_BYTES..)?.get(..bytes)?;
    let pointers = long.get(LONG_HEADER_BYTES.checked_add(from.checked_mul(KEY_BYTES)?)?..)?.get(..bytes)?;
    room.get_mut(..SHORT_HEADER_BYTES)?.copy_from_slice(&head);
    room.get_mut(SHORT_HEADER_BYTES..)?.get_mut(..bytes)?.copy_from_slice(keys);
    let pointers_at = SHORT_HEADER_BYTES.checked_add(to.checked_mul(KEY_BYTES)?)?;
    room.get_mut(pointers_at..)?.get_mut(..bytes)?.copy_from_slice(pointers);
    Some(())
}

#[cfg(test)]
#[path = "inode_change_tests.rs"]
mod tests;

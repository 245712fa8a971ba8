//! From a logged inode to the one on disk, and back.
//!
//! The log keeps the core in the byte order of the machine and the root of an extent map in the form that blocks of such
//! trees have; a disk keeps the core big-endian and the root short. Forks with contents or extent records are the same in
//! both.

use zerocopy::{
    FromZeros, IntoBytes,
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
        Fork, ForkFormat, InodeCore, InodeFlags2,
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
    /// Puts the logged core into the one on disk. What the log does not speak for stays as it is: the list of inodes
    /// without a name, checksum and log sequence number.
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

    /// As the log keeps a core.
    #[doc(alias = "xfs_inode_to_log_dinode")]
    pub fn of_disk(core: &InodeCore) -> Self {
        let is_big = core.flags2().contains(InodeFlags2::BIG_TIME);
        let time = |time: DiskTimestamp| logged_time(time, is_big);
        let narrow = |value: BigU16| U16::new(value.get());
        let word = |value: BigU32| U32::new(value.get());
        let long = |value: BigU64| U64::new(value.get());
        let mut logged = Self::new_zeroed();
        logged.magic = narrow(core.magic);
        logged.mode = narrow(core.mode);
        logged.version = core.version;
        logged.data_format = core.format;
        logged.metadata_type = narrow(core.metadata_type);
        logged.user_id = word(core.uid);
        logged.group_id = word(core.gid);
        logged.link_count = word(core.link_count);
        logged.project_id_low = narrow(core.project_id_low);
        logged.project_id_high = narrow(core.project_id_high);
        logged.large_data_extents = long(core.large_extent_count);
        logged.access_time = time(core.access_time);
        logged.modification_time = time(core.modification_time);
        logged.change_time = time(core.change_time);
        logged.size_bytes = long(core.size_bytes);
        logged.blocks = long(core.blocks);
        logged.extent_size_blocks = word(core.extent_size_blocks);
        logged.data_extents = word(core.extent_count);
        logged.attribute_extents = narrow(core.attribute_extent_count);
        logged.fork_offset = core.fork_offset;
        logged.attribute_format = core.attribute_format;
        logged.dmapi_mask = word(core.dmapi_event_mask);
        logged.dmapi_state = narrow(core.dmapi_state);
        logged.flags = narrow(core.flags);
        logged.generation = word(core.generation);
        logged.next_unlinked = word(core.next_unlinked);
        logged.change_count = long(core.change_count);
        logged.flags2 = long(core.flags2);
        logged.cow_extent_size_blocks = word(core.cow_extent_size_blocks);
        logged.creation_time = time(core.creation_time);
        logged.inode = long(core.number);
        logged.uuid = core.uuid;
        logged
    }
}

/// Without the inode's "big time" flag a time is two numbers of 32 bits, each in the byte order of its place.
fn disk_time(time: U64, is_big: bool) -> DiskTimestamp {
    let raw = if is_big { time.get() } else { time.get().rotate_left(32) };
    DiskTimestamp(BigU64::new(raw))
}

fn logged_time(time: DiskTimestamp, is_big: bool) -> U64 {
    let raw = time.0.get();
    U64::new(if is_big { raw } else { raw.rotate_left(32) })
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

/// From the short form of a root, the bytes of a whole fork, to the long one. `None` where it is no root.
#[doc(alias = "xfs_bmdr_to_bmbt")]
pub fn long_root(fork: &[u8]) -> Option<Vec<u8>> {
    let root = ExtentMapRoot::parse(fork).ok()?;
    let mut long = vec![0; LONG_HEADER_BYTES];
    let magic = crate::btree::extent_map::MAGIC.to_be_bytes();
    long.get_mut(..4)?.copy_from_slice(&magic);
    let count = u16::try_from(root.keys().len()).ok()?;
    long.get_mut(4..6)?.copy_from_slice(&root.level().to_be_bytes());
    long.get_mut(6..8)?.copy_from_slice(&count.to_be_bytes());
    // No siblings: all ones. The rest of the header means nothing inside an inode.
    long.get_mut(8..24)?.fill(0xff);
    long.extend_from_slice(root.keys().as_bytes());
    long.extend_from_slice(root.pointers().as_bytes());
    Some(long)
}

/// What a fork of an inode on disk is in the log: which field says so, and its region without padding. `None` for forks
/// without contents.
pub fn logged_fork(core: &InodeCore, fork: Fork, bytes: &[u8]) -> Option<(InodeItemFields, Vec<u8>)> {
    use InodeItemFields as Fields;
    let is_data = fork == Fork::Data;
    let (format, is_large) = (
        if is_data { core.format } else { core.attribute_format },
        core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS),
    );
    let pick = |data: Fields, attribute: Fields| if is_data { data } else { attribute };
    if format == ForkFormat::Local.code() {
        let length = match fork {
            Fork::Data => usize::try_from(core.size_bytes.get()).ok()?,
            // A list of attributes begins with its length.
            Fork::Attribute => usize::from(u16::from_be_bytes(*bytes.first_chunk()?)),
        };
        let contents = bytes.get(..length).filter(|contents| !contents.is_empty())?;
        return Some((pick(Fields::DATA_LOCAL, Fields::ATTRIBUTE_LOCAL), contents.to_vec()));
    }
    if format == ForkFormat::Extents.code() {
        let count = match (fork, is_large) {
            (Fork::Data, true) => core.large_extent_count.get(),
            (Fork::Attribute, false) => core.attribute_extent_count.get().into(),
            (Fork::Data, false) | (Fork::Attribute, true) => core.extent_count.get().into(),
        };
        let length = usize::try_from(count.checked_mul(16)?).ok()?;
        let records = bytes.get(..length).filter(|records| !records.is_empty())?;
        return Some((pick(Fields::DATA_EXTENTS, Fields::ATTRIBUTE_EXTENTS), records.to_vec()));
    }
    if format == ForkFormat::Btree.code() {
        return Some((pick(Fields::DATA_BTREE_ROOT, Fields::ATTRIBUTE_BTREE_ROOT), long_root(bytes)?));
    }
    None
}

#[cfg(test)]
#[path = "inode_change_tests.rs"]
mod tests;

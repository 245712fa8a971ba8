//! The first chunk of inodes: the root directory, the two inodes of a realtime section that must exist without one,
//! and free ones, at least 61.

use uxfs_block::self_check;
use uxfs_format::{
    attribute::{flags::AttributeFlags, shortform::ShortformHeader},
    directory::shortform::{MAX_SHORT_INODE, ShortformHeader as DirectoryHeader},
    field_table::OnDisk,
    geometry::INODE_CORE_SIZE_BYTES,
    inode::{
        core::{CHECKSUM_OFFSET_BYTES, InodeCore, MAGIC, VERSION},
        flags::{InodeFlags, InodeFlags2},
        timestamp::{DiskTimestamp, Timestamp},
    },
};
use zerocopy::{
    FromZeros,
    big_endian::{U16, U32, U64},
};

use super::{FormatError, Image, bytes};
use crate::layout::Layout;

/// Inodes in use.
pub const USED: u32 = 3;
/// How contents lie in an inode.
const FORMAT_LOCAL: u8 = 1;
const FORMAT_EXTENTS: u8 = 2;
/// drwxr-xr-x.
const ROOT_MODE: u16 = 0o040_755;
/// A regular file without permissions.
const HIDDEN_FILE_MODE: u16 = 0o100_000;
/// The attribute that tells Linux whether it may check and repair by itself.
const AUTOFSCK_NAME: &[u8] = b"xfs:autofsck";
/// The smallest root of an extent map that an attribute fork must leave room for.
const MIN_ATTRIBUTE_ROOT_BYTES: u32 = 36;

/// The whole chunk.
pub fn first_chunk(image: &Image<'_>) -> Result<Vec<u8>, FormatError> {
    let inode_bytes = image.layout.sizes.inode_bytes as usize;
    let maker = Maker { image, chunk_generation: image.identity.numbers.next(), now: now(image)? };
    let mut chunk = vec![0; inode_bytes * image.layout.sizes.inodes_at_once() as usize];
    for (index, bytes) in (0..).zip(chunk.chunks_mut(inode_bytes)) {
        match index {
            0 => maker.root(bytes),
            1 => maker.hidden(index, true, bytes),
            2 => maker.hidden(index, false, bytes),
            _ => maker.free(index, bytes),
        }
        bytes::seal(bytes, CHECKSUM_OFFSET_BYTES);
    }
    Ok(chunk)
}

fn encode(image: &Image<'_>, time: Timestamp) -> Result<DiskTimestamp, FormatError> {
    encode_time(image.layout, time)
}

/// A time as the inodes of a layout hold it.
pub fn encode_time(layout: &Layout, time: Timestamp) -> Result<DiskTimestamp, FormatError> {
    let big_time = layout.features.big_time;
    DiskTimestamp::encode(time, big_time).ok_or(FormatError::Time { seconds: time.seconds, big_time })
}

fn now(image: &Image<'_>) -> Result<DiskTimestamp, FormatError> {
    encode(image, image.identity.now)
}

#[derive(Debug)]
struct Maker<'a> {
    image: &'a Image<'a>,
    chunk_generation: u32,
    now: DiskTimestamp,
}

impl Maker<'_> {
    fn number(&self, index: u32) -> u64 {
        u64::from(self.image.layout.root_inode()) + u64::from(index)
    }

    /// Fields of every inode, free or not.
    fn core(&self, index: u32) -> InodeCore {
        let mut core = InodeCore::new_zeroed();
        core.magic = U16::new(MAGIC);
        core.version = VERSION;
        core.generation = U32::new(self.chunk_generation);
        core.next_unlinked = U32::new(u32::MAX);
        core.number = U64::new(self.number(index));
        core.uuid = self.image.identity.uuid;
        core
    }

    fn free(&self, index: u32, bytes: &mut [u8]) {
        bytes::put(bytes, 0, &self.core(index));
    }

    /// Fields of every inode in use.
    fn used_core(&self, index: u32) -> InodeCore {
        let features = &self.image.layout.features;
        let mut flags = InodeFlags2::empty();
        flags.set(InodeFlags2::BIG_TIME, features.big_time);
        flags.set(InodeFlags2::LARGE_EXTENT_COUNTS, features.large_extent_counts);
        let mut core = self.core(index);
        core.access_time = self.now;
        core.modification_time = self.now;
        core.change_time = self.now;
        core.creation_time = self.now;
        core.attribute_format = FORMAT_EXTENTS;
        core.flags2 = U64::new(flags.bits());
        core
    }

    fn hidden(&self, index: u32, is_bitmap: bool, bytes: &mut [u8]) {
        let mut core = self.used_core(index);
        core.mode = U16::new(HIDDEN_FILE_MODE);
        core.format = FORMAT_EXTENTS;
        core.link_count = U32::new(1);
        core.generation = U32::new(self.image.identity.numbers.next());
        core.change_count = U64::new(2);
        if is_bitmap {
            core.flags = U16::new(InodeFlags::NEW_REALTIME_BITMAP.bits());
            // The access time is a counter here, which begins with 0.
            core.access_time = encode(self.image, Timestamp::default()).unwrap_or_default();
        }
        bytes::put(bytes, 0, &core);
    }

    fn root(&self, bytes: &mut [u8]) {
        let mut core = self.used_core(0);
        core.mode = U16::new(ROOT_MODE);
        core.format = FORMAT_LOCAL;
        core.link_count = U32::new(2);
        core.size_bytes = U64::new(DirectoryHeader::SIZE_BYTES as u64);
        core.generation = U32::new(0);
        core.change_count = U64::new(2);
        self.inherit(&mut core);
        let literal = INODE_CORE_SIZE_BYTES as usize;
        self_check!(self.number(0) <= MAX_SHORT_INODE, "the root directory lies in the first group");
        let directory =
            DirectoryHeader { count: 0, large_count: 0, parent: U32::new(self.image.layout.root_inode()) };
        bytes::put(bytes, literal, &directory);
        if let Some(value) = self.image.layout.autofsck {
            let units = attribute_offset(self.image.layout.sizes.inode_bytes);
            core.fork_offset = units;
            core.attribute_format = FORMAT_LOCAL;
            core.change_count = U64::new(4);
            put_attribute(bytes, literal + usize::from(units) * 8, value.as_bytes());
        }
        bytes::put(bytes, 0, &core);
    }

    /// Sets the fields that new files and directories in the root directory inherit.
    fn inherit(&self, core: &mut InodeCore) {
        let inherited = &self.image.layout.inheritance;
        let mut flags = InodeFlags::empty();
        let mut flags2 = core.flags2();
        flags.set(InodeFlags::REALTIME_INHERIT, inherited.realtime);
        if let Some(project) = inherited.project_id {
            flags |= InodeFlags::PROJECT_INHERIT;
            core.project_id_high = U16::new((project >> 16) as u16);
            core.project_id_low = U16::new(project as u16);
        }
        if let Some(blocks) = inherited.extent_size_blocks {
            flags |= InodeFlags::EXTENT_SIZE_INHERIT;
            core.extent_size_blocks = U32::new(blocks);
        }
        if let Some(blocks) = inherited.cow_extent_size_blocks {
            flags2 |= InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE;
            core.cow_extent_size_blocks = U32::new(blocks);
        }
        flags2.set(InodeFlags2::DAX, inherited.direct_access);
        core.flags = U16::new(flags.bits());
        core.flags2 = U64::new(flags2.bits());
    }
}

/// Where the attribute fork of the root directory begins, in units of 8 bytes behind the core: as far back as its
/// contents allow, but not so far that a tree could not take their place.
fn attribute_offset(inode_bytes: u32) -> u8 {
    let literal = inode_bytes - INODE_CORE_SIZE_BYTES;
    // The longest value fits behind it too. At most 229.
    ((literal - MIN_ATTRIBUTE_ROOT_BYTES) / 8) as u8
}

/// One attribute, in the namespace of the system's own.
fn put_attribute(bytes: &mut [u8], offset_bytes: usize, value: &[u8]) {
    let entry_bytes = 3 + AUTOFSCK_NAME.len() + value.len();
    let header = ShortformHeader {
        total_size_bytes: U16::new((ShortformHeader::SIZE_BYTES + entry_bytes) as u16),
        count: 1,
        padding: 0,
    };
    let at = bytes::put(bytes, offset_bytes, &header);
    let lengths = [AUTOFSCK_NAME.len() as u8, value.len() as u8, AttributeFlags::ROOT.bits()];
    let entry = lengths.iter().chain(AUTOFSCK_NAME).chain(value);
    for (place, byte) in bytes[at..at + entry_bytes].iter_mut().zip(entry) {
        *place = *byte;
    }
}

//! How the bytes behind the core of an inode are divided between its forks.

use uxfs_format::{
    btree::extent_map::{ExtentMapRoot, ExtentRecord},
    geometry::Geometry,
    inode::{FileType, Fork},
};

use super::{EditInode, ForkExtents, InodeFork};

/// Header of a btree root in an inode.
const ROOT_HEADER_BYTES: u32 = 4;
/// Key and pointer.
const ROOT_ENTRY_BYTES: u32 = 16;
/// Room that must be left for a root of the data fork: three entries.
#[doc(alias = "MINDBTPTRS")]
pub const MIN_DATA_ROOT_BYTES: u32 = ROOT_HEADER_BYTES + 3 * ROOT_ENTRY_BYTES;
/// Room that must be left for a root of the attribute fork: two entries.
#[doc(alias = "MINABTPTRS")]
pub const MIN_ATTRIBUTE_ROOT_BYTES: u32 = ROOT_HEADER_BYTES + 2 * ROOT_ENTRY_BYTES;
/// Room of the data fork where an attribute fork is made before its contents are known: twelve entries.
#[doc(alias = "xfs_default_attroffset")]
const DEFAULT_DATA_BYTES: u32 = ROOT_HEADER_BYTES + 12 * ROOT_ENTRY_BYTES;

/// Where the attribute fork begins that a new inode gets.
#[doc(alias = "xfs_default_attroffset")]
pub fn default_attribute_offset_bytes(file_type: Option<FileType>) -> u32 {
    match file_type {
        // A device number, rounded up.
        Some(kind) if kind.is_special() => 8,
        _ => DEFAULT_DATA_BYTES & !7,
    }
}

/// Most extents that fit a fork of `room_bytes` without a btree.
pub fn inline_extents_max(room_bytes: u32) -> usize {
    room_bytes as usize / size_of::<ExtentRecord>()
}

/// Most entries of a btree root in a fork of `room_bytes`.
pub fn root_capacity(room_bytes: u32) -> usize {
    ExtentMapRoot::capacity(room_bytes as usize) as usize
}

impl EditInode {
    /// Where the attribute fork would have to begin for `attribute_bytes` of attributes to fit, or `None` where they
    /// cannot lie in the inode. As Linux decides: an attribute fork that is large enough stays where it is; contents
    /// of the data fork are not driven out, but extents may be driven into a btree when the attribute fork is new.
    #[doc(alias = "xfs_attr_shortform_bytesfit")]
    pub fn attribute_offset_for(&self, attribute_bytes: u32, geometry: &Geometry) -> Option<u32> {
        let literal = geometry.literal_size_bytes();
        let current = self.attribute_offset_bytes;
        let wanted = literal.checked_sub(attribute_bytes)? & !7;
        if matches!(self.data, InodeFork::Device(_)) {
            let fixed = default_attribute_offset_bytes(Some(FileType::Fifo));
            return (wanted >= fixed).then_some(fixed);
        }
        if current != 0 && attribute_bytes <= self.fork_room_bytes(Fork::Attribute, geometry) {
            return Some(current);
        }
        let used = match &self.data {
            InodeFork::Extents(ForkExtents { root: Some(_), .. }) if current != 0 => return None,
            data @ InodeFork::Extents(ForkExtents { root: None, .. })
                if current == 0 && data.used_bytes() > default_attribute_offset_bytes(None) =>
            {
                MIN_DATA_ROOT_BYTES
            }
            data => data.used_bytes(),
        };
        let least = used.max(MIN_DATA_ROOT_BYTES).next_multiple_of(8);
        let most = literal.checked_sub(MIN_ATTRIBUTE_ROOT_BYTES)? & !7;
        (least <= wanted.min(most)).then(|| wanted.min(most))
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;

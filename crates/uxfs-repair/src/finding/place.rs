//! Where on the device a finding can be shown.

use uxfs_format::{
    geometry::Geometry,
    units::{AgBlock, AgNumber, InodeNumber, Sector},
};

use uxfs_volume::tolerant;

use super::{Finding, fields::Value};

/// Blocks of an allocation group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The allocation group.
    pub group: AgNumber,
    /// The first block.
    pub start: AgBlock,
    /// How many; at least one.
    pub length_blocks: u32,
}

/// The numbers of a finding that say where.
#[derive(Default)]
struct Numbers {
    group: Option<u64>,
    start_block: Option<u64>,
    length_blocks: Option<u64>,
    group_block: Option<u64>,
    block: Option<u64>,
    first_inode: Option<u64>,
    sector: Option<u64>,
    inode: Option<u64>,
}

impl Finding {
    /// The blocks that it is about; else the block of the inode that it is about, or the headers of the group. `None` where it is about
    /// none of these, or they are not in the file system.
    pub fn place(&self, geometry: &Geometry) -> Option<Place> {
        let numbers = self.numbers();
        let inodes_per_block_log = geometry.inodes_per_block_log;
        let of_inode = numbers.inode.and_then(|inode| geometry.split_inode_number(InodeNumber::new(inode)));
        let of_inode =
            of_inode.map(|(group, inode)| (group, u64::from(inode.get() >> inodes_per_block_log), 1));
        let of_sector = numbers.sector.and_then(|sector| geometry.block_of_sector(Sector::new(sector)));
        let of_sector = of_sector.map(|(group, block, _)| (group, u64::from(block.get()), 1));
        let group = numbers.group.and_then(|group| u32::try_from(group).ok()).map(AgNumber::new);
        let of_group = group.map(|group| match &numbers {
            Numbers { start_block: Some(start), length_blocks, .. } => {
                (group, *start, length_blocks.unwrap_or(1))
            }
            Numbers { first_inode: Some(inode), .. } => (group, inode >> inodes_per_block_log, 1),
            Numbers { group_block: Some(block), .. } | Numbers { block: Some(block), .. } => {
                (group, *block, 1)
            }
            _ => (group, 0, 1),
        });
        let of_superblock = matches!(self, Self::SuperblockCount { .. }).then_some((AgNumber::new(0), 0, 1));
        let (group, start, length_blocks) = of_sector.or(of_group).or(of_inode).or(of_superblock)?;
        let end = geometry.group_length_blocks(group)?;
        let start = u32::try_from(start).ok().filter(|start| *start < end)?;
        let length_blocks = u32::try_from(length_blocks).unwrap_or(u32::MAX).clamp(1, end - start);
        Some(Place { group, start: AgBlock::new(start), length_blocks })
    }

    /// Bytes of the file system, of the finding that the device has fewer.
    pub fn needed_bytes(&self) -> Option<u64> {
        match self {
            Self::Opening { finding: tolerant::Finding::DeviceTooShort { needed_bytes, .. } } => {
                Some(*needed_bytes)
            }
            _ => None,
        }
    }

    fn numbers(&self) -> Numbers {
        let mut numbers = Numbers::default();
        for (name, value) in self.fields() {
            let Value::Number(number) = value else { continue };
            let place = match name {
                "group" => &mut numbers.group,
                "start_block" => &mut numbers.start_block,
                "length_blocks" => &mut numbers.length_blocks,
                "group_block" => &mut numbers.group_block,
                "block" => &mut numbers.block,
                "first_inode" => &mut numbers.first_inode,
                "sector" => &mut numbers.sector,
                "inode" | "directory" => &mut numbers.inode,
                _ => continue,
            };
            place.get_or_insert(number);
        }
        numbers
    }
}

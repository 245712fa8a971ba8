//! A long and sound extent map, of which every extent is the same, and as long as can be.

use anyhow::{Context, Result};
use uxfs_format::{
    fault::Structure,
    geometry::Geometry,
    units::{AgBlock, AgNumber, FsBlock},
};
use uxfs_testkit::structures::Owner;

use super::{
    Liar,
    lies::{BTREE, REGULAR, inodes_of, is_node},
};

const LEAVES: u64 = 1000;
const HEADER_BYTES: usize = 72;
/// Of a record, and of a key with its pointer.
const RECORD_BYTES: usize = 16;
/// Blocks of the last group before the extent.
const SKIPPED_BLOCKS: u64 = 16;
/// Children that a root in an inode may have.
const MOST_CHILDREN: usize = 3;

/// Writes blocks one behind the other.
struct Writer<'l> {
    liar: &'l mut Liar,
    geometry: Geometry,
    inode: u64,
    /// A block of an extent map.
    pattern: Vec<u8>,
    /// Records of a full block.
    records: u64,
    /// Where the next block goes.
    place: u64,
}

/// The children of a level: the first file block below, and where it lies.
type Children = Vec<(u64, u64)>;

pub(super) fn many_extents_of_one(liar: &mut Liar) -> Result<()> {
    let geometry = liar.geometry.clone();
    let pattern = liar.find(Structure::ExtentMap, |liar, block| !is_node(liar, block))?;
    let inode = inodes_of(liar, REGULAR, BTREE).pop().context("no file with a btree")?;
    let Owner::Inode(number) = inode.owner else { anyhow::bail!("no inode") };
    // The last group is the emptiest.
    let group = AgNumber::new(geometry.ag_count - 1);
    let half = u64::from(geometry.group_length_blocks(group).context("a length")?) / 2;
    let block = |block: u64| geometry.fs_block(group, AgBlock::new(block as u32)).context("a block");
    let (start, length) = (block(SKIPPED_BLOCKS)?.get(), half - SKIPPED_BLOCKS);
    let place = block(half)?.get();
    let pattern = liar.read(&pattern)?;
    let records = ((geometry.block_size() - HEADER_BYTES) / RECORD_BYTES) as u64;
    let mut writer = Writer { liar, geometry, inode: number, pattern, records, place };
    let mut children = writer.leaves(start, length)?;
    let mut level = 0;
    while children.len() > MOST_CHILDREN {
        level += 1;
        children = writer.nodes(level, &children)?;
    }
    let extents = LEAVES * records;
    liar.set(&inode, &[("u3.bmbt.level", u64::from(level) + 1), ("u3.bmbt.numrecs", children.len() as u64)])?;
    for (index, (key, child)) in (1..).zip(&children) {
        let fields = [
            (&*format!("u3.bmbt.keys[{index}].startoff"), *key),
            (&*format!("u3.bmbt.ptrs[{index}]"), *child),
        ];
        liar.set(&inode, &fields)?;
    }
    let has_large = liar.get(&inode, "core.big_nextents").is_some();
    let count = if has_large { "core.big_nextents" } else { "core.nextents" };
    liar.set(&inode, &[(count, extents), ("core.nblocks", extents * length), ("v3.reflink", 1)])
}

impl Writer<'_> {
    fn leaves(&mut self, start: u64, length: u64) -> Result<Children> {
        let mut children = Vec::new();
        for leaf in 0..LEAVES {
            let first = leaf * self.records * length;
            let extents = (0..self.records).flat_map(|record| {
                let high = (first + record * length) << 9 | start >> 43;
                [high.to_be_bytes(), (start << 21 | length).to_be_bytes()].concat()
            });
            let bytes: Vec<u8> = extents.collect();
            children.push((first, self.put((0, leaf, LEAVES), self.records, &bytes)?));
        }
        Ok(children)
    }

    fn nodes(&mut self, level: u16, below: &Children) -> Result<Children> {
        let full = self.records as usize;
        let count = below.len().div_ceil(full) as u64;
        let mut nodes = Vec::new();
        for (index, children) in (0..).zip(below.chunks(full)) {
            let mut bytes: Vec<u8> = children.iter().flat_map(|(key, _)| key.to_be_bytes()).collect();
            bytes.resize(full * size_of::<u64>(), 0);
            bytes.extend(children.iter().flat_map(|(_, child)| child.to_be_bytes()));
            let first = children.first().map_or(0, |(key, _)| *key);
            nodes.push((first, self.put((level, index, count), children.len() as u64, &bytes)?));
        }
        Ok(nodes)
    }

    /// Writes the block of this level and index, of so many. Gives where it lies.
    fn put(&mut self, (level, index, blocks): (u16, u64, u64), count: u64, records: &[u8]) -> Result<u64> {
        let place = self.place;
        let left = if index == 0 { u64::MAX } else { place - 1 };
        let right = if index + 1 == blocks { u64::MAX } else { place + 1 };
        let sector = self.geometry.sector_of_block(FsBlock::new(place)).context("a sector")?.get();
        let mut block = self.pattern.clone();
        let mut put =
            |offset: usize, bytes: &[u8]| block[offset..offset + bytes.len()].copy_from_slice(bytes);
        put(4, &level.to_be_bytes());
        put(6, &(count as u16).to_be_bytes());
        put(8, &left.to_be_bytes());
        put(16, &right.to_be_bytes());
        put(24, &sector.to_be_bytes());
        put(56, &self.inode.to_be_bytes());
        block[HEADER_BYTES..].fill(0);
        block[HEADER_BYTES..HEADER_BYTES + records.len()].copy_from_slice(records);
        self.liar.put_at(sector * 512, &mut block)?;
        self.place += 1;
        Ok(place)
    }
}

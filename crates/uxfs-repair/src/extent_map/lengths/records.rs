//! The extents of a fork with their places, including leaves in which only a record is wrong.

use std::ops::ControlFlow;

use uxfs_format::{
    btree::{
        BlockPointer,
        block::{BtreeBlock, Pointer},
        extent_map::{Extent, ExtentMap, ExtentMapRoot, ExtentRecord},
        levels::ForkRoom,
    },
    checksum,
    fault::Structure,
    field_table::OnDisk,
    inode::{Fork, ForkFormat, InodeCore},
    units::Sector,
};
use uxfs_volume::{error::Result, inode::Inode};
use zerocopy::IntoBytes;

use crate::{
    extent_map::mend::{LEAF_CHECKSUM_OFFSET_BYTES, LEAF_HEADER_BYTES},
    inode::gather::{put_inode, read_inode},
    repair::{
        identity::{is_sound_block_of, of_file_block},
        stage::Stage,
    },
};

/// An extent as it lies in an inode or a leaf.
const EXTENT_BYTES: usize = 16;

/// Where an extent lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The leaf; `None` for the inode itself.
    leaf: Option<Sector>,
    offset_bytes: usize,
}

/// Takes the extents of a fork in their order.
type Take<'t> = dyn FnMut(Extent, Place) -> ControlFlow<()> + 't;

/// A fork that is read.
pub(super) struct Records<'r> {
    pub stage: &'r Stage,
    pub inode: &'r Inode,
    pub fork: Fork,
}

/// A walk over a btree.
struct Walk<'w, 'r> {
    records: &'w Records<'r>,
    /// Blocks that it may read: as many as the inode has, so that nodes that lead to the same ones end.
    budget: u64,
    blocks: u64,
    take: &'w mut Take<'w>,
}

impl Records<'_> {
    /// Visits all extents. Gives the number of blocks of the btree; `None` where more than records is wrong, or `take` broke.
    pub fn visit(&self, take: &mut Take<'_>) -> Result<Option<u64>> {
        match self.inode.fork_format(self.fork) {
            Some(ForkFormat::Extents) => {
                let start = self.start_bytes();
                let bytes = read_inode(self.stage, self.inode.number)?;
                let count = usize::try_from(self.inode.extent_count(self.fork)).unwrap_or(usize::MAX);
                Ok(visit_slots(&bytes, None, start, count, take).is_continue().then_some(0))
            }
            Some(ForkFormat::Btree) => self.visit_btree(take),
            _ => Ok(None),
        }
    }

    /// Where the fork begins in the inode.
    fn start_bytes(&self) -> usize {
        InodeCore::SIZE_BYTES
            + match self.fork {
                Fork::Data => 0,
                Fork::Attribute => self.inode.fork_room_bytes(Fork::Data, self.stage.geometry()) as usize,
            }
    }

    fn visit_btree(&self, take: &mut Take<'_>) -> Result<Option<u64>> {
        let geometry = self.stage.geometry();
        let room = match self.fork {
            Fork::Data => ForkRoom::Data,
            Fork::Attribute => ForkRoom::Attribute,
        };
        let root = ExtentMapRoot::parse(self.inode.extent_root_bytes(self.fork)).ok();
        let Some(root) = root.filter(|root| root.verify(geometry, room).is_ok()) else { return Ok(None) };
        let budget = self.inode.blocks().min(geometry.data_blocks);
        let mut walk =
            Walk { records: self, budget, blocks: 0, take: &mut |extent, place| take(extent, place) };
        for pointer in root.pointers() {
            if walk.visit_block(*pointer, root.level().saturating_sub(1))?.is_break() {
                return Ok(None);
            }
        }
        Ok(Some(walk.blocks))
    }

    /// Puts an extent into its place.
    pub fn put(&self, place: Place, extent: &Extent) -> Result<bool> {
        let Some(record) = ExtentRecord::new(extent) else { return Ok(false) };
        let mut bytes = match place.leaf {
            Some(sector) => {
                let mut bytes = vec![0; self.stage.geometry().block_size()];
                self.stage.read_at(sector, &mut bytes)?;
                bytes
            }
            None => read_inode(self.stage, self.inode.number)?,
        };
        let slot = bytes.get_mut(place.offset_bytes..place.offset_bytes + EXTENT_BYTES);
        let Some(slot) = slot else { return Ok(false) };
        slot.copy_from_slice(record.as_bytes());
        match place.leaf {
            Some(sector) => {
                checksum::seal(&mut bytes, LEAF_CHECKSUM_OFFSET_BYTES);
                self.stage.write_at(sector, &bytes)?;
            }
            None => put_inode(self.stage, self.inode.number, &bytes)?,
        }
        Ok(true)
    }
}

impl Walk<'_, '_> {
    fn visit_block(&mut self, pointer: Pointer<ExtentMap>, level: u16) -> Result<ControlFlow<()>> {
        let Records { stage, inode, .. } = self.records;
        let geometry = stage.geometry();
        let sector = Some(pointer).filter(|pointer| pointer.is_possible(geometry, None));
        let Some(sector) = sector.and_then(|pointer| pointer.sector(geometry, None)) else {
            return Ok(ControlFlow::Break(()));
        };
        self.blocks += 1;
        let mut bytes = vec![0; geometry.block_size()];
        stage.read_at(sector, &mut bytes)?;
        let known = of_file_block(Structure::ExtentMap, (inode.number, sector), geometry);
        let is_own = known.is_some_and(|fields| fields.iter().all(|field| !field.put(&mut bytes)));
        let is_sealed = checksum::check(&bytes, LEAF_CHECKSUM_OFFSET_BYTES).is_ok();
        let view = BtreeBlock::<ExtentMap>::parse(&bytes).ok();
        let view = view.filter(|view| view.level() == level && view.len() as u64 <= view.capacity().into());
        let Some(view) = view.filter(|_| is_own && is_sealed && self.blocks <= self.budget) else {
            return Ok(ControlFlow::Break(()));
        };
        if level == 0 {
            return Ok(visit_slots(&bytes, Some(sector), LEAF_HEADER_BYTES, view.len(), self.take));
        }
        if !is_sound_block_of(inode.number, Structure::ExtentMap, &bytes, sector, geometry) {
            return Ok(ControlFlow::Break(()));
        }
        for pointer in view.pointers() {
            if self.visit_block(*pointer, level - 1)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Breaks also where there are fewer.
fn visit_slots(
    bytes: &[u8],
    leaf: Option<Sector>,
    start_bytes: usize,
    count: usize,
    take: &mut Take<'_>,
) -> ControlFlow<()> {
    let slots = bytes.get(start_bytes..).unwrap_or_default().chunks_exact(EXTENT_BYTES);
    if slots.len() < count {
        return ControlFlow::Break(());
    }
    for (index, record) in slots.take(count).filter_map(ExtentRecord::prefix_of).enumerate() {
        take(record.get(), Place { leaf, offset_bytes: start_bytes + index * EXTENT_BYTES })?;
    }
    ControlFlow::Continue(())
}

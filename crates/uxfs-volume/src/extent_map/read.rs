//! From the bytes of a fork to its extent map.

use std::{collections::HashSet, ops::Range};

use uxfs_block::cache::MemoryAccount;
use uxfs_format::{
    btree::{
        block::BtreeBlock,
        block_header::BlockHeader,
        extent_map::{ExtentMap as Tree, ExtentMapFault, ExtentMapRoot, ExtentRecord, MAX_FILE_BLOCKS},
        levels::ForkRoom,
    },
    fault::{Corruption, Fault, HeaderFault, Location, Structure},
    geometry::Geometry,
    inode::Fork,
    units::{FsBlock, Sector},
};
use zerocopy::{FromBytes, big_endian::U64};

use super::{ExtentMap, build::Builder};
use crate::{
    error::{Error, Result},
    inode::{ForkFormat, Inode, InodeFork, fork::UnreadExtents},
    tolerant::lost::lost_extents,
    volume::Volume,
};

/// Blocks of one node that are read ahead together.
const READAHEAD_BLOCKS: usize = 64;

static NO_EXTENTS: ExtentMap = ExtentMap::EMPTY;

#[cold]
fn extents_of_unread<'i>(
    volume: &Volume,
    inode: &Inode,
    fork: Fork,
    unread: &'i UnreadExtents,
) -> Result<&'i ExtentMap> {
    if let Some(map) = unread.read.get() {
        return Ok(map);
    }
    let map = volume.read_extent_map(inode, fork, unread)?;
    // Another thread may have been faster; both maps are equal.
    Ok(unread.read.get_or_init(|| map))
}

impl Volume {
    /// The extent map of a fork. Forks without extents (missing, local, device) have an empty one. Extents in a btree are
    /// read at the first call for an inode and kept with it.
    ///
    /// The map of a realtime file's data holds block numbers of the realtime section.
    ///
    /// # Errors
    /// Damage in the fork or in its btree; the device.
    #[inline]
    pub fn extent_map<'i>(&self, inode: &'i Inode, fork: Fork) -> Result<&'i ExtentMap> {
        let Some(InodeFork::Extents(extents)) = inode.fork(fork) else { return Ok(&NO_EXTENTS) };
        match extents.unread() {
            None => Ok(&extents.extents),
            Some(unread) => extents_of_unread(self, inode, fork, unread),
        }
    }

    fn read_extent_map(&self, inode: &Inode, fork: Fork, unread: &UnreadExtents) -> Result<ExtentMap> {
        let is_realtime = fork == Fork::Data && inode.is_realtime();
        let (geometry, account) = (self.geometry(), Some(self.cache().memory_account()));
        let builder = Builder::new(geometry, fork, is_realtime, unread.count, account);
        let visited = self.findings().map(|_| HashSet::new());
        let mut reader = Reader { volume: self, inode, fork, builder, lost: Vec::new(), visited };
        match unread.format {
            ForkFormat::Extents => reader.inline_extents(unread)?,
            ForkFormat::Btree => reader.btree(unread)?,
            _ => return Ok(ExtentMap::default()),
        }
        let Reader { builder, lost, .. } = reader;
        let map = builder.finish(lost.is_empty()).map_err(|fault| corruption(inode, None, fault))?;
        if let Some(first) = lost.first().map(|lost| lost.start)
            && !self.note_lost_extents(inode, fork, lost)
        {
            return Err(lost_extents(inode.number, first));
        }
        if map.is_large() {
            self.make_way_for_extents();
        }
        Ok(map)
    }
}

/// The extents that lie in a fork itself, each checked; `Err` where they are damaged.
pub(crate) fn inline_extents(
    bytes: &[u8],
    fork: Fork,
    is_realtime: bool,
    count: u64,
    geometry: &Geometry,
    account: Option<&MemoryAccount>,
) -> std::result::Result<ExtentMap, ()> {
    let mut builder = Builder::new(geometry, fork, is_realtime, count, account);
    let records = inline_records(bytes, count).ok_or(())?;
    builder.extend(records).map_err(drop)?;
    builder.finish(true).map_err(drop)
}

/// As many records as the inode counts, where its fork holds so many.
fn inline_records(bytes: &[u8], count: u64) -> Option<&[ExtentRecord]> {
    let count = usize::try_from(count).ok()?;
    Some(<[ExtentRecord]>::ref_from_prefix_with_elems(bytes, count).ok()?.0)
}

fn corruption(inode: &Inode, sector: Option<Sector>, fault: impl Into<Fault>) -> Error {
    let location = Location { sector, ..Location::of_inode(inode.number) };
    Corruption::new(Structure::ExtentMap, location, fault).into()
}

/// One walk over the extents of a fork. In a tolerant volume it goes on behind damaged blocks.
///
/// It ends on any image: each level down is one lower, a block is never empty, and a block reached twice gives
/// extents that lie before those already seen, which is an error. A tolerant walk goes on after an error, so it reads no
/// block twice: else nodes whose pointers all lead to one block would multiply the reads at each level.
struct Reader<'a> {
    volume: &'a Volume,
    inode: &'a Inode,
    fork: Fork,
    builder: Builder<'a>,
    /// Ranges of file blocks whose extents a tolerant volume leaves out.
    lost: Vec<Range<u64>>,
    /// The btree blocks that have been read; only in a tolerant volume.
    visited: Option<HashSet<FsBlock>>,
}

/// A child of a node, and the file blocks whose extents lie below it.
#[derive(Debug, Clone)]
struct Child {
    block: FsBlock,
    file_blocks: Range<u64>,
}

/// The children of a node whose extents end before `end`.
fn children_of<'a>(
    keys: impl ExactSizeIterator<Item = u64> + Clone,
    pointers: impl Iterator<Item = &'a U64>,
    end: u64,
) -> Vec<Child> {
    let ends = keys.clone().skip(1).chain(std::iter::once(end));
    let children = keys.zip(ends).zip(pointers);
    children
        .map(|((start, end), pointer)| Child { block: FsBlock::new(pointer.get()), file_blocks: start..end })
        .collect()
}

impl Reader<'_> {
    fn inline_extents(&mut self, unread: &UnreadExtents) -> Result<()> {
        // The inode's verifier has compared the count with the fork's size.
        let fault = ExtentMapFault::Count { found: 0, expected: unread.count };
        let records = inline_records(&unread.bytes, unread.count);
        let records = records.ok_or_else(|| corruption(self.inode, None, fault))?;
        self.builder.extend(records).map_err(|fault| corruption(self.inode, None, fault))
    }

    fn btree(&mut self, unread: &UnreadExtents) -> Result<()> {
        let room = match self.fork {
            Fork::Data => ForkRoom::Data,
            Fork::Attribute => ForkRoom::Attribute,
        };
        let inode = self.inode;
        let root = ExtentMapRoot::parse(&unread.bytes)
            .and_then(|root| root.verify(self.volume.geometry(), room).map(|()| root))
            .map_err(|fault| corruption(inode, None, fault))?;
        let keys = root.keys().iter().map(|key| key.file_block.get());
        let children = children_of(keys, root.pointers().iter(), MAX_FILE_BLOCKS);
        self.children(&children, root.level())
    }

    /// Reads all children of a node of `level`, which is at least 1.
    fn children(&mut self, children: &[Child], level: u16) -> Result<()> {
        let size_bytes = self.volume.geometry().block_size_bytes;
        for batch in children.chunks(READAHEAD_BLOCKS) {
            if batch.len() > 1 {
                let sectors = batch.iter().filter_map(|child| self.sector(child.block));
                let requests: Vec<_> =
                    sectors.map(|sector| (Structure::ExtentMap, sector, size_bytes)).collect();
                self.volume.metadata().prefetch(&requests);
            }
            for child in batch {
                if let Err(error) = self.block(child, level - 1) {
                    self.volume.leave_out(error)?;
                    self.lose(&child.file_blocks);
                }
            }
        }
        Ok(())
    }

    /// Notes that the extents of a range are lost, but for those before its end that were read.
    fn lose(&mut self, file_blocks: &Range<u64>) {
        let start = file_blocks.start.max(self.builder.end().get());
        match self.lost.last_mut() {
            _ if start >= file_blocks.end => {}
            Some(last) if last.start <= start && start <= last.end => {
                last.end = last.end.max(file_blocks.end)
            }
            _ => self.lost.push(start..file_blocks.end),
        }
    }

    fn sector(&self, block: FsBlock) -> Option<Sector> {
        self.volume.geometry().sector_of_block(block)
    }

    fn block(&mut self, child: &Child, level: u16) -> Result<()> {
        let (block, end) = (child.block, child.file_blocks.end);
        let (inode, geometry) = (self.inode, self.volume.geometry());
        let fault = ExtentMapFault::Place { start: block, length_blocks: 1 };
        let sector = self.sector(block).ok_or_else(|| corruption(inode, None, fault))?;
        let damaged = |fault: Fault| corruption(inode, Some(sector), fault);
        if self.visited.as_mut().is_some_and(|visited| !visited.insert(block)) {
            return Err(damaged(ExtentMapFault::SecondVisit.into()));
        }
        let buffer = self.volume.metadata().read(Structure::ExtentMap, sector, geometry.block_size_bytes)?;
        let view = BtreeBlock::<Tree>::parse(&buffer).map_err(|fault| damaged(fault.into()))?;
        let (found, expected) = (view.header().owner(), inode.number.get());
        if found != expected {
            return Err(damaged(HeaderFault::WrongOwner { found, expected }.into()));
        }
        if view.level() != level {
            let fault = ExtentMapFault::ChildLevel { found: view.level(), expected: level };
            return Err(damaged(fault.into()));
        }
        if view.is_empty() {
            return Err(damaged(ExtentMapFault::EmptyChild.into()));
        }
        if level == 0 {
            return self.builder.extend(view.records()).map_err(|fault| damaged(fault.into()));
        }
        let keys = view.keys().iter().map(|key| key.file_block.get());
        let children = children_of(keys, view.pointers().iter(), end);
        drop(buffer);
        self.children(&children, level)
    }
}

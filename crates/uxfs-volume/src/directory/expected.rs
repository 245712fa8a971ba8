//! Finding a name where it is expected.
//!
//! Thousands of names may have one hash, and a lookup has to compare all of them. A caller that has just read an entry knows
//! its offset: then the lookup searches the leaf entry with that offset, first in the leaf of the previous one.

use uxfs_format::{
    directory::{
        DataPointer,
        data::DataBlock,
        data_block_start,
        leaf::{LeafBlock, NODE_MAGIC, SINGLE_MAGIC},
    },
    fault::Structure,
    field_table::OnDisk,
    name_tree::{
        TreeKind,
        header::{BlockHeader, magic_of},
    },
    units::FileBlock,
};

use super::{Form, FoundEntry, form_of, local_of, lookup::Wanted};
use crate::{
    error::Result,
    inode::Inode,
    name_tree::{
        ForkBlocks,
        leaf_walk::{LeafWalk, Start},
    },
    volume::{MetadataBuffer, Volume},
};

impl Volume {
    /// Finds `name` in a directory if its entry lies at `pointer` and an index entry leads to it, perhaps in or beside the
    /// leaf `near`. Gives the entry, and the leaf. `None` says only that it is not there: what is wrong with the directory
    /// a [`lookup`](Self::lookup) says.
    #[inline]
    pub fn lookup_expected(
        &self,
        directory: &Inode,
        name: &[u8],
        pointer: DataPointer,
        near: FileBlock,
    ) -> Option<(FoundEntry, FileBlock)> {
        let mut wanted = Wanted::new(name, self.geometry()).ok()?;
        self.lookup_at(directory, &mut wanted, pointer, near).ok().flatten()
    }

    fn lookup_at(
        &self,
        directory: &Inode,
        wanted: &mut Wanted<'_>,
        pointer: DataPointer,
        near: FileBlock,
    ) -> Result<Option<(FoundEntry, FileBlock)>> {
        if local_of(directory)?.is_some() {
            return Ok(None);
        }
        let blocks = ForkBlocks::new(self, directory, TreeKind::Directory)?;
        if form_of(directory, &blocks)? != Form::Indexed {
            return Ok(None);
        }
        let geometry = self.geometry();
        let (data_block, offset_bytes) = pointer.split(geometry);
        let place = data_block_start(geometry, data_block);
        if !blocks.is_mapped(place) {
            return Ok(None);
        }
        let buffer = blocks.read_directory_block(Structure::DirectoryData, place)?;
        let entry = DataBlock::parse(&buffer, geometry).map(|data| data.entry_at(offset_bytes));
        let Ok(Ok(entry)) = entry else { return Ok(None) };
        let Some(found) = wanted.consider_entry(&entry, pointer) else { return Ok(None) };
        let leaf = leaf_of(&blocks, wanted.hash(), pointer, near)?;
        Ok(leaf.map(|leaf| (found, leaf)))
    }
}

/// The leaf in which an index entry lies. Neighbours among equal hashes mostly have neighbours' places.
fn leaf_of(
    blocks: &ForkBlocks<'_>,
    hash: u32,
    pointer: DataPointer,
    near: FileBlock,
) -> Result<Option<FileBlock>> {
    let geometry = blocks.geometry();
    let holds = |buffer: &MetadataBuffer| {
        LeafBlock::parse(buffer, geometry)
            .is_ok_and(|leaf| leaf.pointers_of(hash).any(|found| found == pointer))
    };
    let root_place = geometry.directory_leaf_start();
    if near > root_place {
        let mut around = None;
        if let Some(leaf) = leaf_at(blocks, near)? {
            if holds(&leaf) {
                return Ok(Some(near));
            }
            around = BlockHeader::prefix_of(&leaf).copied();
        }
        let around = around.iter().flat_map(|header| [header.next(), header.previous()]).flatten();
        for place in around {
            if leaf_at(blocks, place)?.as_ref().is_some_and(holds) {
                return Ok(Some(place));
            }
        }
    }
    let root = blocks.read_tree_block(root_place)?;
    if magic_of(&root) == Some(SINGLE_MAGIC) {
        return Ok(holds(&root).then_some(root_place));
    }
    let Some(mut walk) = LeafWalk::descend(blocks, root, Start::Hash(hash))? else { return Ok(None) };
    loop {
        if holds(&walk.leaf) {
            return Ok(Some(walk.block));
        }
        let last = LeafBlock::parse(&walk.leaf, geometry).ok().and_then(|leaf| leaf.last_hash());
        if last.is_some_and(|last| last > hash) || !walk.next(last)? {
            return Ok(None);
        }
    }
}

/// A leaf of a tree, if there is one.
fn leaf_at(blocks: &ForkBlocks<'_>, place: FileBlock) -> Result<Option<MetadataBuffer>> {
    if !blocks.is_mapped(place) {
        return Ok(None);
    }
    let buffer = blocks.read_tree_block(place)?;
    Ok((magic_of(&buffer) == Some(NODE_MAGIC)).then_some(buffer))
}

//! Roots of btrees of a group whose header does not lead to them: blocks are read one after the other, and those that may be a root are
//! remembered.
//!
//! Blocks of an earlier tree stay on disk until something else is written there. What is found proves nothing before it was compared with
//! something else.

use std::{cmp::Reverse, marker::PhantomData};

use uxfs_format::{
    btree::{
        BtreeKind,
        block::BtreeBlock,
        block_header::{BlockHeader, ShortBlockHeader},
    },
    seal::own_sector,
    units::{AgBlock, AgNumber, Lsn},
};
use uxfs_volume::{btree::Tree, volume::Volume};

/// Roots that are looked at: those that were written last.
const MOST_ROOTS: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Root {
    block: AgBlock,
    level: u16,
    lsn: Lsn,
}

/// Roots of one kind of btree in one group.
#[derive(Debug)]
pub(crate) struct Roots<'v, K> {
    volume: &'v Volume,
    group: AgNumber,
    roots: Vec<Root>,
    kind: PhantomData<K>,
}

impl<'v, K: BtreeKind<Header = ShortBlockHeader>> Roots<'v, K> {
    pub fn new(volume: &'v Volume, group: AgNumber) -> Self {
        Self { volume, group, roots: Vec::new(), kind: PhantomData }
    }

    /// Takes in a block of the group.
    pub fn look_at(&mut self, block: AgBlock, bytes: &[u8]) {
        let geometry = self.volume.geometry();
        let Ok(view) = BtreeBlock::<K>::parse(bytes) else { return };
        let header = view.header();
        let is_root = header.magic() == K::MAGIC
            && view.left_sibling().is_none()
            && view.right_sibling().is_none()
            && header.owner() == u64::from(self.group.get())
            && own_sector(bytes, geometry) == geometry.sector_of_group_block(self.group, block);
        if !is_root {
            return;
        }
        self.roots.push(Root { block, level: view.level(), lsn: header.lsn() });
        if self.roots.len() > 2 * MOST_ROOTS {
            self.keep_newest();
        }
    }

    fn keep_newest(&mut self) {
        self.roots.sort_unstable_by_key(|root| Reverse((root.lsn, root.level, root.block)));
        self.roots.truncate(MOST_ROOTS);
    }

    /// The trees, that whose root was written last first.
    pub fn trees(mut self) -> impl Iterator<Item = Tree<'v, K>> {
        self.keep_newest();
        let (volume, group) = (self.volume, self.group);
        self.roots.into_iter().map(move |root| {
            Tree::of_group(volume, group, root.block, u32::from(root.level).saturating_add(1))
        })
    }
}

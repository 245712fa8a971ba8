//! Reverse maps of a group whose header does not lead to its own: all blocks are read for roots.
//!
//! Blocks of an earlier tree stay on disk until something else is written there. What is found proves nothing before it was compared with
//! the files of the group.

use std::cmp::Reverse;

use uxfs_format::{
    btree::{
        block::BtreeBlock,
        block_header::BlockHeader,
        reverse_map::{MAGIC, Mapping, Owner, ReverseMap},
    },
    seal::own_sector,
    units::{AgBlock, AgNumber, Lsn},
};
use uxfs_volume::{btree::Tree, volume::Volume};

use super::read::visit;
use crate::allocation_group::sweep::sweep;

/// Roots that are looked at.
const MOST_ROOTS: usize = 16;

/// What whole trees give to inodes whose roots were found by reading all blocks of a group: of the tree that was written last first.
pub(crate) fn found(volume: &Volume, group: AgNumber) -> impl Iterator<Item = Vec<Mapping>> {
    let trees = roots(volume, group).into_iter();
    trees.filter_map(move |root| {
        let levels = u32::from(root.level).saturating_add(1);
        let tree = Tree::of_group(volume, group, root.block, levels);
        let mut mappings = Vec::new();
        let is_whole = visit(&tree, &mut |mapping| {
            mappings.extend(Some(mapping).filter(|mapping| matches!(mapping.owner, Owner::Inode(_))));
        });
        is_whole.then_some(mappings)
    })
}

#[derive(Debug, Clone, Copy)]
struct Root {
    block: AgBlock,
    level: u16,
    lsn: Lsn,
}

fn roots(volume: &Volume, group: AgNumber) -> Vec<Root> {
    let geometry = volume.geometry();
    if !geometry.features.has_reverse_map() {
        return Vec::new();
    }
    let end = AgBlock::new(geometry.group_length_blocks(group).unwrap_or(0));
    let mut roots: Vec<Root> = Vec::new();
    sweep(volume, group, &[(AgBlock::new(0), end)], &mut |block, bytes| {
        let Ok(view) = BtreeBlock::<ReverseMap>::parse(bytes) else { return };
        let header = view.header();
        let is_root = header.magic() == MAGIC
            && view.left_sibling().is_none()
            && view.right_sibling().is_none()
            && header.owner() == u64::from(group.get())
            && own_sector(bytes, geometry) == geometry.sector_of_group_block(group, block);
        if !is_root {
            return;
        }
        roots.push(Root { block, level: view.level(), lsn: header.lsn() });
        if roots.len() > 2 * MOST_ROOTS {
            keep_newest(&mut roots);
        }
    });
    keep_newest(&mut roots);
    roots
}

fn keep_newest(roots: &mut Vec<Root>) {
    roots.sort_unstable_by_key(|root| Reverse((root.lsn, root.level, root.block)));
    roots.truncate(MOST_ROOTS);
}

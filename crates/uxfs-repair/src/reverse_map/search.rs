//! Reverse maps of a group whose header does not lead to its own: all blocks are read for roots.
//!
//! Blocks of an earlier tree stay on disk until something else is written there. What is found proves nothing before it was compared with
//! the files of the group.

use std::{cmp::Reverse, ops::ControlFlow};

use uxfs_format::{
    btree::{
        block::BtreeBlock,
        block_header::BlockHeader,
        reverse_map::{MAGIC, Mapping, Owner, ReverseMap},
    },
    seal::own_sector,
    units::{AgBlock, AgNumber, Lsn},
};
use uxfs_volume::{
    btree::{BlockEvent, Tree},
    volume::Volume,
};

use crate::allocation_group::sweep::sweep;

/// Roots that are looked at.
const MOST_ROOTS: usize = 16;

/// What the reverse map to which the header of a group leads gives to inodes, and whether it could be read to its end.
pub(crate) fn of_header(volume: &Volume, group: AgNumber) -> (Vec<Mapping>, bool) {
    match volume.group(group).reverse_map() {
        Ok(Some(tree)) => mappings_of_inodes(&tree),
        _ => (Vec::new(), false),
    }
}

/// Whole trees whose roots were found by reading all blocks of a group, the one that was written last first.
pub(crate) fn found(volume: &Volume, group: AgNumber) -> impl Iterator<Item = Vec<Mapping>> {
    let trees = roots(volume, group).into_iter();
    trees.filter_map(move |root| {
        let levels = u32::from(root.level).saturating_add(1);
        let (mappings, is_whole) = mappings_of_inodes(&Tree::of_group(volume, group, root.block, levels));
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

/// What a tree gives to inodes, and whether it could be read to its end.
fn mappings_of_inodes(tree: &Tree<'_, ReverseMap>) -> (Vec<Mapping>, bool) {
    let (mut mappings, mut is_whole) = (Vec::new(), true);
    let _ = tree.visit_blocks(&mut |event| {
        match event {
            BlockEvent::Block { view, .. } => {
                let records = view.records().iter().map(|record| record.get());
                mappings.extend(records.filter(|mapping| matches!(mapping.owner, Owner::Inode(_))));
            }
            BlockEvent::Damage(_) => is_whole = false,
        }
        ControlFlow::Continue(())
    });
    (mappings, is_whole)
}

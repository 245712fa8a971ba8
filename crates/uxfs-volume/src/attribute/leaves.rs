//! All leaves of an attribute fork, one after the other.
//!
//! A strict volume follows the sibling pointers from the first leaf to the last. A tolerant one does so up to the first fault. Then
//! it reads each block of the fork's extent map, and takes those that are sound leaves of this inode: no node and no sibling
//! pointer is needed for that. (A block that leaves the btree leaves the extent map in the same transaction, so that no leaf in the
//! map is out of date.)
//!
//! Invariants:
//! 1. Each leaf is visited once at most: the search leaves out the leaves that the walk has visited.
//! 2. The walk ends at a circle of siblings, the search at the end of the extent map or of the budget of the whole volume.

use std::{collections::HashSet, ops::ControlFlow};

use uxfs_format::{
    attribute::leaf,
    fault::{Fault, HeaderFault},
    name_tree::{fault::NameTreeFault, header::magic_of},
    units::FileBlock,
};

use crate::{
    error::{Error, Result},
    name_tree::{
        ForkBlocks,
        leaf_walk::{LeafWalk, Start},
    },
    tolerant::Findings,
    volume::MetadataBuffer,
};

/// Called with a leaf and its place in the fork. Breaks, or gives the last hash of the leaf.
type VisitLeaf<'v> = dyn FnMut(&MetadataBuffer, FileBlock) -> Result<ControlFlow<(), Option<u32>>> + 'v;

/// How a walk along the sibling pointers ended.
enum WalkEnd {
    /// Behind the last leaf, or where the visitor broke.
    Done,
    /// At damage.
    Damage(Error),
}

/// Visits all leaves of a fork, in the order of hashes where it is sound.
///
/// # Errors
/// Damage, in a strict volume; the device; what `visit` gives.
pub(super) fn visit_leaves(
    blocks: &ForkBlocks<'_>,
    mut visit: impl FnMut(&MetadataBuffer, FileBlock) -> Result<ControlFlow<(), Option<u32>>>,
) -> Result<()> {
    let Some(findings) = blocks.volume.findings() else {
        return match follow_siblings(blocks, None, &mut visit)? {
            WalkEnd::Done => Ok(()),
            WalkEnd::Damage(error) => Err(error),
        };
    };
    let mut visited = HashSet::new();
    if let WalkEnd::Damage(error) = follow_siblings(blocks, Some(&mut visited), &mut visit)? {
        blocks.volume.leave_out(error)?;
        search(blocks, findings, &visited, &mut visit)?;
    }
    Ok(())
}

/// Notes the leaves in `visited`, and ends at the first one that comes again.
fn follow_siblings(
    blocks: &ForkBlocks<'_>,
    mut visited: Option<&mut HashSet<FileBlock>>,
    visit: &mut VisitLeaf<'_>,
) -> Result<WalkEnd> {
    let root = match blocks.read_tree_block(FileBlock::new(0)) {
        Ok(root) => root,
        Err(error) => return Ok(WalkEnd::Damage(error)),
    };
    let mut walk = match LeafWalk::descend(blocks, root, Start::First) {
        Ok(Some(walk)) => walk,
        Ok(None) => return Ok(WalkEnd::Done),
        Err(error) => return Ok(WalkEnd::Damage(error)),
    };
    loop {
        if let Some(visited) = &mut visited
            && !visited.insert(walk.block)
        {
            let fault = NameTreeFault::TooManyBlocks { most: visited.len() as u64 };
            return Ok(WalkEnd::Damage(blocks.corruption(blocks.index_structure(), walk.block, None, fault)));
        }
        let ControlFlow::Continue(last_hash) = visit(&walk.leaf, walk.block)? else {
            return Ok(WalkEnd::Done);
        };
        match walk.next(last_hash) {
            Ok(true) => {}
            Ok(false) => return Ok(WalkEnd::Done),
            Err(error) => return Ok(WalkEnd::Damage(error)),
        }
    }
}

/// Visits the leaves among the blocks of the extent map that were not visited yet, in their order in the fork.
fn search(
    blocks: &ForkBlocks<'_>,
    findings: &Findings,
    visited: &HashSet<FileBlock>,
    visit: &mut VisitLeaf<'_>,
) -> Result<()> {
    for extent in blocks.map.iter().filter(|extent| !extent.is_unwritten) {
        let start = extent.file_block.get();
        let places = start..start.saturating_add(extent.length_blocks);
        for place in places.map(FileBlock::new).filter(|place| !visited.contains(place)) {
            match blocks.read_tree_block(place) {
                Ok(buffer) if magic_of(&buffer) == Some(leaf::MAGIC) => {
                    if visit(&buffer, place)?.is_break() {
                        return Ok(());
                    }
                    continue;
                }
                // A node.
                Ok(_) => {}
                // Mostly a part of a value.
                Err(error) if has_other_magic(&error) => {}
                Err(error) => blocks.volume.leave_out(error)?,
            }
            if !findings.search_block() {
                let fault = NameTreeFault::TooManyBlocks { most: crate::tolerant::MOST_SEARCHED_BLOCKS };
                let error = blocks.corruption(blocks.index_structure(), place, None, fault);
                return blocks.volume.leave_out(error);
            }
        }
    }
    Ok(())
}

fn has_other_magic(error: &Error) -> bool {
    matches!(
        error,
        Error::Corrupt(corruption) if matches!(corruption.fault, Fault::Header(HeaderFault::BadMagic { .. }))
    )
}

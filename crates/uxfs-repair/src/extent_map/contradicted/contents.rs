//! What blocks with headers say: those of directories, attributes and targets of symbolic links say whose they are, and such a fork has a
//! block 0.

use std::ops::Range;

use uxfs_format::{
    btree::extent_map::Extent,
    fault::Structure,
    inode::{FileType, Fork},
    units::FsBlock,
};

use super::{Question, Side, blocks_without, only_one};
use crate::{
    repair::{identity::is_sound_block_of, stage::Stage},
    symlink,
};

const OF_ATTRIBUTES: &[Structure] =
    &[Structure::AttributeLeaf, Structure::AttributeNode, Structure::AttributeRemoteValue];
const OF_DIRECTORIES: &[Structure] = &[
    Structure::DirectoryBlock,
    Structure::DirectoryData,
    Structure::DirectoryLeaf,
    Structure::DirectoryLeafNode,
    Structure::DirectoryNode,
    Structure::DirectoryFreeIndex,
];

/// The side whose blocks are those of the inode.
pub(super) fn decide(question: &Question, stage: &Stage) -> Option<Side> {
    let structures = match (question.fork, question.inode.file_type()?) {
        (Fork::Attribute, _) => OF_ATTRIBUTES,
        (Fork::Data, FileType::Directory) => OF_DIRECTORIES,
        (Fork::Data, FileType::SymbolicLink) => &[Structure::Symlink],
        _ => return None,
    };
    let are_own = |these: &[Extent], others: &[Extent]| {
        let has_start = these.first().is_some_and(|extent| extent.file_block.get() == 0);
        let mut runs = blocks_without(these, others).into_iter();
        has_start && runs.all(|run| is_own(question, stage, structures, &run))
    };
    only_one(are_own(&question.mapped, &question.told), are_own(&question.told, &question.mapped))
}

/// Whether a block of the inode lies at the start of a run.
fn is_own(question: &Question, stage: &Stage, structures: &[Structure], run: &Range<u64>) -> bool {
    let geometry = stage.geometry();
    let Some(sector) = geometry.sector_of_block(FsBlock::new(run.start)) else { return false };
    let length_bytes = match structures {
        OF_ATTRIBUTES => Some(geometry.block_size()),
        OF_DIRECTORIES => geometry.block_size().checked_mul(geometry.blocks_per_directory_block() as usize),
        _ => symlink::extent::length_bytes(run.end.saturating_sub(run.start), geometry),
    };
    let Some(mut bytes) = length_bytes.map(|length_bytes| vec![0; length_bytes]) else { return false };
    stage.read_at(sector, &mut bytes).is_ok()
        && structures
            .iter()
            .any(|structure| is_sound_block_of(question.inode.number, *structure, &bytes, sector, geometry))
}

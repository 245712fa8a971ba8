//! Workloads on file systems that are nearly full.

use anyhow::{Context, Result, anyhow, ensure};
use uxfs_filesystem::filesystem::FileSystem;

use super::{
    judge::Chronicle,
    model::{Model, Outcome},
    states::Promise,
    tree::Tree,
    workload::{NewFile, NodeId, Operation, ROOT, Reshape},
};
use uxfs_testkit::seeds::Random;

/// At once.
const MOST_PIECE_BYTES: u64 = 16 << 20;
/// That take space.
const FILES: u64 = 6;

/// Allocates space until `free_blocks` are left; operations may be refused. The space lies past EOF, so that comparisons need
/// not read it.
#[derive(Debug)]
pub struct Fillers {
    free_blocks: u64,
    files: Vec<(NodeId, u64)>,
}

impl Fillers {
    /// Leaves so many blocks.
    pub fn new(free_blocks: u64) -> Self {
        Self { free_blocks, files: Vec::new() }
    }

    /// The next operation; none when enough is taken.
    pub fn next(
        &mut self,
        file_system: &FileSystem,
        model: &Model,
        random: &mut Random,
    ) -> Option<Operation> {
        if (self.files.len() as u64) < FILES {
            let node = model.made() as NodeId;
            self.files.push((node, 0));
            let name = format!("filler-{node}").into_bytes();
            let file = NewFile::Regular;
            return Some(Operation::Create { parent: ROOT, name, file, mode: 0o600, owner: (0, 0) });
        }
        let available = u64::try_from(file_system.available_blocks()).unwrap_or(0);
        let left = available.checked_sub(self.free_blocks).filter(|left| *left > 0)?;
        let block_log = file_system.geometry().block_log;
        let most = (MOST_PIECE_BYTES >> block_log).min(left);
        // Pieces of all sizes, so that later removals free little or much.
        let blocks = if left > most { most } else { 1 + random.below(most) };
        let length = blocks << block_log;
        let (node, offset) = self.files.get_mut(random.below(FILES) as usize)?;
        let start = *offset;
        *offset += length;
        Some(Operation::Reshape { node: *node, how: Reshape::AllocateKeepSize, offset: start, length })
    }
}

/// A refused operation may have zeroed a part of its range, as in Linux: whether that is all that has changed.
///
/// # Errors
/// More has changed.
pub fn is_partly_zeroed(file_system: &FileSystem, before: &Model, operation: &Operation) -> Result<()> {
    let tree = Tree::read(file_system).context("a live file system cannot be read")?;
    let mut after = before.clone();
    after.apply(0, operation, Outcome::default());
    let mut chronicle = Chronicle::new(0, before.clone());
    chronicle.push(operation.clone(), after);
    let promise = Promise { fewest: 0, most: 1, contents: 0 };
    chronicle.judge(&tree, &promise).map(drop).map_err(|difference| anyhow!(difference.0))
}

/// The live file system is just what the model says: nothing is half done.
///
/// # Errors
/// It is something else.
pub fn is_just(file_system: &FileSystem, model: &Model) -> Result<()> {
    let tree = Tree::read(file_system).context("a live file system cannot be read")?;
    let chronicle = Chronicle::new(0, model.clone());
    chronicle.judge(&tree, &Promise::default()).map_err(|difference| anyhow!(difference.0))?;
    for (id, node) in model.nodes().filter(|(_, node)| node.is_visible()) {
        let found = tree.files.get(&node.inode());
        let size = found.map(|found| found.contents.len() as u64);
        ensure!(size.is_none_or(|size| size == node.size), "file {id} has {size:?} bytes, not {}", node.size);
    }
    Ok(())
}

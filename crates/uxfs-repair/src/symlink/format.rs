//! Symbolic links that have no extents although their format says so, and whose target lies in the inode: the format is wrong.

use std::collections::BTreeSet;

use uxfs_format::{
    field_table::OnDisk,
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFault},
    units::InodeNumber,
};
use uxfs_volume::error::Result;

use crate::{
    inode::gather::{change_core, read_inode},
    repair::{action::Action, stage::Stage},
};

/// Steps of the fork offset.
const FORK_UNIT_BYTES: usize = 8;

/// Corrects the format of these symbolic links. Gives whether there were any wrong ones.
///
/// # Errors
/// The device.
pub(crate) fn mend(stage: &Stage, inodes: &BTreeSet<InodeNumber>, actions: &mut Vec<Action>) -> Result<bool> {
    let before = actions.len();
    for number in inodes {
        let bytes = read_inode(stage, *number)?;
        let Some(core) = InodeCore::prefix_of(&bytes).filter(|core| has_hidden_target(core, &bytes)) else {
            continue;
        };
        let (size_bytes, format) = (core.size_bytes.get(), core.format);
        change_core(stage, *number, |core, _| core.format = ForkFormat::Local.code())?;
        let fault = InodeFault::SymlinkFormat { size_bytes, format };
        actions.push(Action::InodeMended { inode: *number, fault });
    }
    Ok(actions.len() > before)
}

/// Whether a symbolic link should have extents and has none, and text of its size lies in the inode.
fn has_hidden_target(core: &InodeCore, bytes: &[u8]) -> bool {
    let room = match usize::from(core.fork_offset) * FORK_UNIT_BYTES {
        0 => bytes.get(InodeCore::SIZE_BYTES..),
        end => bytes.get(InodeCore::SIZE_BYTES..).and_then(|forks| forks.get(..end)),
    };
    let size_bytes = usize::try_from(core.size_bytes.get()).unwrap_or(usize::MAX);
    let target = room.and_then(|room| room.get(..size_bytes));
    let is_text = target.is_some_and(|target| !target.is_empty() && !target.contains(&0));
    core.file_type() == Some(FileType::SymbolicLink)
        && core.fork_format(Fork::Data) == Some(ForkFormat::Extents)
        && core.extent_count(Fork::Data) == 0
        && is_text
}

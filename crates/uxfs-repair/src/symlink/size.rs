//! The size of a symbolic link whose target has another length.
//!
//! Of a target in blocks of its own each extent says which part it holds. The size is wrong where all parts are sound, their text has no
//! zero bytes, and a zero byte follows it; else a part may be. Of a target in the inode the size is taken for wrong where nothing but
//! zeros follows the text: that is a guess, since the end of the text may have been overwritten.

use std::collections::BTreeSet;

use uxfs_format::{
    fault::Structure,
    field_table::OnDisk,
    inode::{
        FileType, Fork, ForkFormat,
        symlink::{SymlinkHeader, TARGET_END_BYTES},
    },
    units::InodeNumber,
};
use uxfs_volume::{error::Result, inode::Inode, volume::Volume};

use super::extent::read;
use crate::{
    extent_map::rebuild::staged_inode,
    inode::gather::change_core,
    repair::{action::Action, identity::is_sound_block_of, stage::Stage},
};

/// Corrects the sizes of these symbolic links. Gives whether there were any wrong ones.
///
/// # Errors
/// The device.
pub(crate) fn mend(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let before = actions.len();
    for number in inodes {
        let Some(inode) = staged_inode(stage, *number)? else { continue };
        let in_inode = size_in_inode(&inode);
        let Some(expected) = in_inode.or_else(|| told_size(volume, stage, &inode)) else { continue };
        let found = inode.size_bytes();
        if found != expected {
            change_core(stage, *number, |core, _| core.size_bytes.set(expected))?;
            let is_guessed = in_inode.is_some();
            actions.push(Action::SymlinkSize { inode: *number, found, expected, is_guessed });
        }
    }
    Ok(actions.len() > before)
}

/// The length of a target in the inode that ends with zeros, without these.
fn size_in_inode(inode: &Inode) -> Option<u64> {
    let target =
        inode.local_fork(Fork::Data).filter(|_| inode.file_type() == Some(FileType::SymbolicLink))?;
    let length = target.iter().position(|byte| *byte == 0).filter(|length| *length > 0)?;
    let (_, rest) = target.split_at_checked(length)?;
    rest.iter().all(|byte| *byte == 0).then_some(length as u64)
}

/// The length of the target, as its blocks tell.
fn told_size(volume: &Volume, stage: &Stage, inode: &Inode) -> Option<u64> {
    let is_remote = inode.file_type() == Some(FileType::SymbolicLink)
        && inode.fork_format(Fork::Data) == Some(ForkFormat::Extents);
    let map = volume.extent_map(inode, Fork::Data).ok().filter(|_| is_remote)?;
    let geometry = stage.geometry();
    let (mut size_bytes, mut is_ended) = (0_u32, false);
    for extent in map.iter() {
        let sector = geometry.sector_of_block(extent.start)?;
        let bytes = read(&extent, stage)?;
        if !is_sound_block_of(inode.number, Structure::Symlink, &bytes, sector, geometry) {
            return None;
        }
        let (header, text) = bytes.split_at_checked(SymlinkHeader::SIZE_BYTES)?;
        let header = SymlinkHeader::prefix_of(header)?;
        let (text, rest) = text.split_at_checked(header.length_bytes.get() as usize)?;
        let is_next = header.offset_bytes.get() == size_bytes && !is_ended;
        if !is_next || text.contains(&0) || rest.first().is_some_and(|byte| *byte != 0) {
            return None;
        }
        is_ended = !rest.is_empty();
        size_bytes = size_bytes.checked_add(header.length_bytes.get())?;
    }
    (1..TARGET_END_BYTES).contains(&size_bytes).then_some(size_bytes.into())
}

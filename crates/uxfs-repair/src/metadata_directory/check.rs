//! Files that a realtime section needs: Linux does not mount where one is missing. What they hold is not looked at.

use std::sync::Arc;

use uxfs_format::{
    features::Incompatible,
    inode::{Fork, ForkFormat, InodeFlags2},
};
use uxfs_volume::{
    error::{Error, Result},
    inode::Inode,
    volume::Volume,
};

use super::{
    REALTIME_GROUPS, TYPE_BITMAP, TYPE_REFERENCE_COUNT, TYPE_REVERSE_MAP, TYPE_SUMMARY, is_directory, root,
};
use crate::{
    check::Context,
    finding::{Finding, MissingRealtimeFile},
};

/// Findings after which the files of further groups are not looked for.
const MOST_MISSING: u32 = 100;

/// A file of each realtime group: what its name ends with, and its type.
type Wanted = (&'static str, u16);

/// Looks for the files of all realtime groups.
pub(crate) fn check(context: &Context<'_>) {
    let volume = context.volume;
    if root(volume).is_none() || volume.geometry().realtime_blocks == 0 {
        return;
    }
    let wanted = wanted(volume);
    // What cannot be read has a finding of its own.
    let Ok(directory) = groups_directory(volume) else { return };
    let mut missing = 0;
    for group in 0..volume.superblock().realtime_group_count.get() {
        for (suffix, metadata_type) in &wanted {
            match has_file(volume, directory.as_deref(), group, (suffix, *metadata_type)) {
                Ok(true) => {}
                Ok(false) => {
                    missing += 1;
                    let file = MissingRealtimeFile { group, suffix };
                    context.sink.add(Finding::RealtimeFileMissing(file));
                }
                Err(_) => return,
            }
        }
        if missing >= MOST_MISSING || context.sink.is_stopped() {
            return;
        }
    }
}

fn wanted(volume: &Volume) -> Vec<Wanted> {
    let features = &volume.geometry().features;
    let is_zoned = features.incompatible.contains(Incompatible::ZONED);
    let of_extents = [("bitmap", TYPE_BITMAP), ("summary", TYPE_SUMMARY)];
    let mut wanted: Vec<Wanted> = of_extents.into_iter().filter(|_| !is_zoned).collect();
    wanted.extend(features.has_reverse_map().then_some(("rmap", TYPE_REVERSE_MAP)));
    wanted.extend(features.has_reflink().then_some(("refcount", TYPE_REFERENCE_COUNT)));
    wanted
}

/// `None` where there is none.
fn groups_directory(volume: &Volume) -> Result<Option<Arc<Inode>>> {
    let Some(root) = root(volume) else { return Ok(None) };
    let root = volume.inode(root)?;
    let Some(found) = volume.lookup(&root, REALTIME_GROUPS)? else { return Ok(None) };
    volume.inode(found.inode).map(|found| Some(found).filter(|found| is_directory(found)))
}

/// Whether a group has such a file.
fn has_file(
    volume: &Volume,
    directory: Option<&Inode>,
    group: u32,
    (suffix, metadata_type): (&str, u16),
) -> Result<bool> {
    let Some(directory) = directory else { return Ok(false) };
    let name = format!("{group}.{suffix}");
    let Some(found) = volume.lookup(directory, name.as_bytes())? else { return Ok(false) };
    let inode = match volume.inode(found.inode) {
        Ok(inode) => inode,
        Err(Error::Operation(_)) => return Ok(false),
        Err(error) => return Err(error),
    };
    let is_btree = inode.fork_format(Fork::Data) == Some(ForkFormat::MetadataBtree);
    let bitmap_blocks = u64::from(volume.superblock().realtime_bitmap_blocks.get());
    let fits = match metadata_type {
        TYPE_BITMAP => inode.size_bytes() >> volume.geometry().block_log == bitmap_blocks,
        TYPE_SUMMARY => inode.size_bytes() > 0,
        _ => is_btree,
    };
    Ok(inode.flags2().contains(InodeFlags2::METADATA) && inode.metadata_type() == metadata_type && fits)
}

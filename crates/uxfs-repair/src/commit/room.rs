//! Whether the host has room for an undo file, asked before it is begun.

use std::path::Path;

use rustix::{
    fs::statvfs,
    process::{Resource, getrlimit},
};
use uxfs_block::device::BlockDevice;

use super::{
    Result,
    create::Contents,
    error::CommitError,
    head::Head,
    header::{HEADER_BYTES, RECORD_HEADER_BYTES},
};

/// Refuses where the file system of `path`, or the size limit of the process, has less room than the file takes. Where the host does
/// not tell, writing the file will.
///
/// # Errors
/// There is no room; a device fails.
pub(super) fn must_suffice(
    path: &Path,
    (old, new): (&dyn BlockDevice, &dyn BlockDevice),
    contents: &Contents<'_>,
    head: &Head,
) -> Result<()> {
    let ranges = contents.ranges;
    let Some(free_bytes) = free_bytes(path) else { return Ok(()) };
    // At most everything in the ranges differs; counting exactly reads both devices.
    let most: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    let watched_bytes = (contents.watched.len() as u64).saturating_mul(2 << 10);
    let most = most
        .saturating_mul(2)
        .saturating_add(watched_bytes)
        .saturating_add((ranges.len() as u64).saturating_mul(1 << 10));
    let fixed_bytes = HEADER_BYTES + RECORD_HEADER_BYTES + 2 * head.length_bytes();
    if most.saturating_add(fixed_bytes) <= free_bytes {
        return Ok(());
    }
    let mut needed_bytes = fixed_bytes;
    let mut differences = contents.differences(old, new, head)?;
    while let Some(difference) = differences.next()? {
        let record = RECORD_HEADER_BYTES + 2 * difference.old.len() as u64;
        needed_bytes = needed_bytes.saturating_add(record);
    }
    if needed_bytes <= free_bytes {
        return Ok(());
    }
    Err(CommitError::NoRoom { kind: contents.kind(), path: path.into(), needed_bytes, free_bytes })
}

/// Bytes that a new file at `path` may have.
fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = statvfs(folder.unwrap_or(Path::new("."))).ok();
    let free = found.map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    let limit = getrlimit(Resource::Fsize).current;
    free.into_iter().chain(limit).min()
}

//! Paths in an image that is being changed: as Linux resolves them with the image's root as root.

use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_volume::error::Result;

/// Opens what is at `path`. Where the last name is a symbolic link, it is followed only if `follows_last` says so or a slash is
/// behind it.
pub fn open(filesystem: &FileSystem, path: &[u8], follows_last: bool) -> Result<InodeHandle> {
    filesystem.open_path(&filesystem.open_root()?, path, follows_last)
}

/// The directory of the last name of `path`, and that name: `.` for the root directory.
pub fn open_directory_of<'p>(filesystem: &FileSystem, path: &'p [u8]) -> Result<(InodeHandle, &'p [u8])> {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last.saturating_add(1));
    let stem = path.get(..end).unwrap_or_default();
    let begin = stem.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash.saturating_add(1));
    let (above, name) = stem.split_at_checked(begin).unwrap_or_default();
    let directory = open(filesystem, above, true)?;
    Ok((directory, if name.is_empty() { b"." } else { name }))
}

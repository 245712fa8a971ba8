//! Paths in an image that is being changed: as Linux resolves them with the image's root as root.

use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_volume::{
    error::{OperationError, Result},
    inode::FileType,
    resolve::MAX_SYMLINKS,
};

/// Opens what is at `path`. Where the last name is a symbolic link, it is followed only if `follows_last` says so or a slash is
/// behind it.
pub fn open(filesystem: &FileSystem, path: &[u8], follows_last: bool) -> Result<InodeHandle> {
    let mut current = filesystem.open_root()?;
    let mut links = 0;
    // A symbolic link's target is put before the rest.
    let mut rest = path.to_vec();
    while let Some((name, after)) = first_name(&rest) {
        let is_last = after.iter().all(|byte| *byte == b'/');
        let must_be_directory = !after.is_empty();
        let next = filesystem.find(&current, name)?;
        let file_type = filesystem.stat(&next)?.file_type;
        if file_type == FileType::SymbolicLink && (!is_last || follows_last || must_be_directory) {
            links += 1;
            if links > MAX_SYMLINKS {
                return Err(OperationError::TooManySymlinks.into());
            }
            let target = [filesystem.read_link(&next)?.as_slice(), after].concat();
            if target.starts_with(b"/") {
                current = filesystem.open_root()?;
            }
            rest = target;
            continue;
        }
        if must_be_directory && file_type != FileType::Directory {
            return Err(OperationError::NotADirectory.into());
        }
        current = next;
        rest = after.to_vec();
    }
    Ok(current)
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

/// The first name of a path and what is behind it; `None` where there is none.
fn first_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let begin = path.iter().position(|byte| *byte != b'/')?;
    let path = path.get(begin..)?;
    let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
    path.split_at_checked(end)
}

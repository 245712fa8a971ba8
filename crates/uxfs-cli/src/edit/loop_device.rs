//! Loop devices that write to an image: what is changed below them they do not see.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A loop device that was attached to the file at `path` for writing, and stays so when it is not in use. One that detaches
/// itself is of a mount, and that is found out elsewhere.
pub fn writing_to(path: &Path) -> Option<PathBuf> {
    let file = fs::metadata(path).ok()?;
    let devices = fs::read_dir("/sys/block").ok()?;
    devices.flatten().find_map(|entry| {
        let folder = entry.path();
        let says = |name: &str, word: &str| {
            fs::read_to_string(folder.join(name)).is_ok_and(|text| text.trim() == word)
        };
        let backing = fs::read_to_string(folder.join("loop/backing_file")).ok()?;
        let other = fs::metadata(backing.trim_end_matches('\n')).ok()?;
        let is_same = (other.dev(), other.ino()) == (file.dev(), file.ino());
        let is_found = is_same && !says("ro", "1") && !says("loop/autoclear", "1");
        is_found.then(|| Path::new("/dev").join(entry.file_name()))
    })
}

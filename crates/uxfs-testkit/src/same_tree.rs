//! Two directory trees compared file by file through the kernel, in little memory: for trees of a million files, of which
//! manifests would be too large.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs::{self, File, Metadata},
    io::Read,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{lgetxattr, llistxattr};

const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;
const CHUNK_BYTES: usize = 64 << 10;

/// That `found` holds what `expected` does: names, kinds, modes, owners, times, sizes, contents, targets, device numbers,
/// attributes, and which names are one file. Gives how many names were compared.
///
/// # Errors
/// The first difference; a tree cannot be read.
pub fn compare(expected: &Path, found: &Path) -> Result<u64> {
    let mut walk =
        Walk { names: 0, files: HashMap::new(), buffers: [vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]] };
    let mut left = vec![(expected.to_path_buf(), found.to_path_buf())];
    while let Some((expected, found)) = left.pop() {
        if walk.file(&expected, &found).with_context(|| found.display().to_string())? {
            for name in walk.entries(&expected, &found)? {
                left.push((expected.join(&name), found.join(&name)));
            }
        }
    }
    Ok(walk.names - 1)
}

struct Walk {
    names: u64,
    /// From files with several names to the inode in the other tree.
    files: HashMap<(u64, u64), u64>,
    buffers: [Vec<u8>; 2],
}

/// The metadata that must be equal. The size of a directory depends on its file system.
fn told(metadata: &Metadata) -> impl PartialEq + std::fmt::Debug + use<> {
    let file_type = metadata.file_type();
    let has_device = file_type.is_block_device() || file_type.is_char_device();
    (
        metadata.mode(),
        (metadata.uid(), metadata.gid()),
        (!metadata.is_dir()).then(|| (metadata.len(), metadata.nlink())),
        has_device.then(|| metadata.rdev()),
        (metadata.mtime(), metadata.mtime_nsec()),
        // Looking at directories and links changes theirs.
        metadata.is_file().then(|| (metadata.atime(), metadata.atime_nsec())),
    )
}

impl Walk {
    /// Compares one file; says whether it is a directory, whose entries come next.
    fn file(&mut self, expected: &Path, found: &Path) -> Result<bool> {
        self.names += 1;
        let (one, other) = (fs::symlink_metadata(expected)?, fs::symlink_metadata(found)?);
        let (ours, theirs) = (told(&one), told(&other));
        ensure!(ours == theirs, "{theirs:?} instead of {ours:?}");
        let (ours, theirs) = (attributes(expected)?, attributes(found)?);
        ensure!(ours == theirs, "attributes {theirs:?} instead of {ours:?}");
        if !one.is_dir() && one.nlink() > 1 {
            // Its contents are compared under the first name.
            if let Some(inode) = self.files.insert((one.dev(), one.ino()), other.ino()) {
                ensure!(inode == other.ino(), "another file than that under its other names");
                return Ok(false);
            }
        }
        if one.is_symlink() {
            ensure!(fs::read_link(expected)? == fs::read_link(found)?, "another target");
        } else if one.is_file() && one.len() > 0 {
            self.contents(expected, found)?;
        }
        Ok(one.is_dir())
    }

    fn contents(&mut self, expected: &Path, found: &Path) -> Result<()> {
        let (mut one, mut other) = (File::open(expected)?, File::open(found)?);
        let [ours, theirs] = &mut self.buffers;
        let mut offset = 0_u64;
        loop {
            let length = one.read(ours)?;
            if length == 0 {
                ensure!(other.read(theirs)? == 0, "it is longer");
                return Ok(());
            }
            let read = other.read_exact(&mut theirs[..length]);
            read.with_context(|| format!("at byte {offset}"))?;
            ensure!(ours[..length] == theirs[..length], "other contents behind byte {offset}");
            offset += length as u64;
        }
    }

    /// The names in a directory, which both have.
    fn entries(&self, expected: &Path, found: &Path) -> Result<Vec<OsString>> {
        let (ours, theirs) = (sorted_names(expected)?, sorted_names(found)?);
        let missing = ours.iter().find(|name| theirs.binary_search(name).is_err());
        ensure!(missing.is_none(), "{}: {missing:?} is missing", found.display());
        let strange = theirs.iter().find(|name| ours.binary_search(name).is_err());
        ensure!(strange.is_none(), "{}: {strange:?} is in no source", found.display());
        ensure!(ours.len() == theirs.len(), "{}: a name comes twice", found.display());
        Ok(ours)
    }
}

fn sorted_names(directory: &Path) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        names.push(entry?.file_name());
    }
    names.sort_unstable();
    Ok(names)
}

fn attributes(path: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut names = vec![0; ATTRIBUTE_BYTES_MAX];
    let length = match llistxattr(path, &mut names[..]) {
        Err(rustix::io::Errno::NOTSUP) => 0,
        length => length?,
    };
    let mut all = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; ATTRIBUTE_BYTES_MAX];
        let length = lgetxattr(path, name, &mut value[..])?;
        value.truncate(length);
        // What mkfs gives the root of every file system.
        if name != b"trusted.xfs:autofsck" {
            all.insert(name.to_vec(), value);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, path::PathBuf};

    use super::*;

    fn tree(root: &Path) -> PathBuf {
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/file"), vec![7; 200_000]).unwrap();
        fs::write(root.join("empty"), "").unwrap();
        fs::hard_link(root.join("a/file"), root.join("a/b/same")).unwrap();
        symlink("a/file", root.join("link")).unwrap();
        // Reading leaves times alone that lie behind all others.
        let far = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
        for name in ["a/file", "empty"] {
            File::open(root.join(name)).unwrap().set_times(fs::FileTimes::new().set_accessed(far)).unwrap();
        }
        root.to_path_buf()
    }

    #[test]
    fn every_difference_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let one = tree(&folder.path().join("one"));
        let copy = |name: &str| {
            let other = folder.path().join(name);
            let copied = std::process::Command::new("cp").arg("-a").args([&one, &other]).status().unwrap();
            assert!(copied.success());
            other
        };
        assert_eq!(compare(&one, &copy("equal")).unwrap(), 6);
        type Change = fn(&Path) -> std::io::Result<()>;
        let changes: [(&str, Change); 8] = [
            ("missing", |root| fs::remove_file(root.join("empty"))),
            ("more", |root| fs::write(root.join("more"), "")),
            ("renamed", |root| fs::rename(root.join("empty"), root.join("leer"))),
            ("size", |root| fs::write(root.join("empty"), "x")),
            ("mode", |root| {
                use std::os::unix::fs::PermissionsExt;
                fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o600))
            }),
            ("contents", |root| {
                use std::os::unix::fs::FileExt;
                let times = fs::metadata(root.join("a/file"))?;
                let file = File::options().write(true).open(root.join("a/file"))?;
                file.write_at(b"x", 150_000)?;
                let times =
                    fs::FileTimes::new().set_modified(times.modified()?).set_accessed(times.accessed()?);
                file.set_times(times)
            }),
            ("link", |root| {
                fs::remove_file(root.join("link"))?;
                symlink("a/elif", root.join("link"))
            }),
            ("hard link", |root| {
                fs::remove_file(root.join("a/b/same"))?;
                fs::copy(root.join("a/file"), root.join("a/b/same")).map(drop)
            }),
        ];
        for (name, change) in changes {
            let other = copy(name);
            change(&other).unwrap();
            assert!(compare(&one, &other).is_err(), "{name}");
        }
    }
}

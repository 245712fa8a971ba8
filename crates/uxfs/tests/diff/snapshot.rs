//! A tree as the kernel shows it, and what differs between two: the oracle.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// What a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub inode: u64,
    pub mode: u32,
    owner: u32,
    group: u32,
    pub size: u64,
    device: u64,
    time: (i64, i64),
    contents: Vec<u8>,
    target: Vec<u8>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

pub type Snapshot = BTreeMap<Vec<u8>, Found>;
/// A word for what became of a name, and the fields that differ.
pub type Expected = BTreeMap<Vec<u8>, (&'static str, BTreeSet<String>)>;

impl Found {
    pub fn kind(&self) -> u32 {
        self.mode & 0o170_000
    }

    pub fn is_directory(&self) -> bool {
        self.kind() == 0o040_000
    }

    pub fn is_regular(&self) -> bool {
        self.kind() == 0o100_000
    }

    fn at(path: &Path) -> Self {
        let found = path.symlink_metadata().unwrap();
        let mut names = vec![0_u8; 65_536];
        let length = rustix::fs::llistxattr(path, &mut names).unwrap();
        let mut attributes = BTreeMap::new();
        for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            if name.starts_with(b"trusted.SGI_ACL_") {
                continue;
            }
            let mut value = vec![0_u8; 65_536];
            let length = rustix::fs::lgetxattr(path, name, &mut value).unwrap();
            attributes.insert(name.to_vec(), value[..length].to_vec());
        }
        Self {
            inode: found.ino(),
            mode: found.mode(),
            owner: found.uid(),
            group: found.gid(),
            size: found.len(),
            device: found.rdev(),
            time: (found.mtime(), found.mtime_nsec()),
            contents: if found.is_file() { fs::read(path).unwrap() } else { Vec::new() },
            target: match found.is_symlink() {
                true => fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec(),
                false => Vec::new(),
            },
            attributes,
        }
    }

    fn fields(&self, other: &Self) -> BTreeSet<String> {
        let is_acl = |name: &[u8]| name.starts_with(b"system.posix_acl_");
        let attributes = |found: &Self, acl: bool| -> BTreeMap<Vec<u8>, Vec<u8>> {
            found.attributes.clone().into_iter().filter(|(name, _)| is_acl(name) == acl).collect()
        };
        let differs = [
            ("contents", self.contents != other.contents),
            ("size", self.is_regular() && self.size != other.size),
            ("target", self.target != other.target),
            ("device", self.device != other.device),
            ("mode", self.mode != other.mode),
            ("owner", self.owner != other.owner),
            ("group", self.group != other.group),
            ("mtime", self.time != other.time),
            ("acl", attributes(self, true) != attributes(other, true)),
            ("xattr", attributes(self, false) != attributes(other, false)),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(word, _)| word.to_owned()).collect()
    }
}

/// All of a tree, itself as `.`.
pub fn take(root: &Path) -> Snapshot {
    let mut snapshot = Snapshot::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let found = Found::at(&path);
        if found.is_directory() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes();
        snapshot.insert(if name.is_empty() { b".".to_vec() } else { name.to_vec() }, found);
    }
    snapshot
}

/// What differs, but for hard links.
pub fn expected(first: &Snapshot, second: &Snapshot) -> Expected {
    let mut expected = Expected::new();
    let of_other_type = |path: &[u8]| match (first.get(path), second.get(path)) {
        (Some(one), Some(two)) => one.kind() != two.kind(),
        _ => false,
    };
    let all: BTreeSet<&Vec<u8>> = first.keys().chain(second.keys()).collect();
    for path in all {
        let mut above = path.as_slice();
        let mut is_hidden = false;
        while let Some(slash) = above.iter().rposition(|byte| *byte == b'/') {
            above = &above[..slash];
            is_hidden |= of_other_type(above);
        }
        if is_hidden {
            continue;
        }
        let difference = match (first.get(path), second.get(path)) {
            (Some(_), None) => ("removed", BTreeSet::new()),
            (None, Some(_)) => ("added", BTreeSet::new()),
            _ if of_other_type(path) => ("type", BTreeSet::new()),
            (Some(one), Some(two)) => ("fields", one.fields(two)),
            (None, None) => continue,
        };
        if difference.0 != "fields" || !difference.1.is_empty() {
            expected.insert(path.clone(), difference);
        }
    }
    expected
}

/// Names that both have and that are grouped otherwise.
pub fn regrouped(first: &Snapshot, second: &Snapshot) -> BTreeSet<Vec<u8>> {
    let group = |snapshot: &Snapshot, path: &[u8]| -> BTreeSet<Vec<u8>> {
        let found = &snapshot[path];
        let is_same = |(name, other): &(&Vec<u8>, &Found)| {
            let is_common = first
                .get(*name)
                .is_some_and(|one| second.get(*name).is_some_and(|two| one.kind() == two.kind()));
            is_common && other.inode == found.inode
        };
        snapshot.iter().filter(is_same).map(|(name, _)| name.clone()).collect()
    };
    let is_common = |path: &&Vec<u8>| {
        let found = &first[*path];
        !found.is_directory() && second.get(*path).is_some_and(|other| other.kind() == found.kind())
    };
    let differs = |path: &&Vec<u8>| group(first, path) != group(second, path);
    first.keys().filter(is_common).filter(differs).cloned().collect()
}

//! Trees that tests of all sources share, and what sources tell of them.

// Each test takes what it needs, and helpers of tests are tests.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, File},
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, makedev, mknodat};
use tempfile::TempDir;
use uxfs_source::{
    content::{ByteRange, Content},
    entry::{DirectoryId, Kind, Metadata, Timestamp},
    error::SourceError,
    stream::{StreamItem, StreamSource},
    tree::{LaterContent, TreeSource},
};

/// Disks are slow.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

/// All bytes of a file of a tree; holes are zeros.
pub fn bytes_of(size_bytes: u64, content: &Content) -> Vec<u8> {
    match content {
        Content::Hole => vec![0; size_bytes as usize],
        Content::Inline(bytes) => bytes.to_vec(),
        Content::File(file) => {
            let file = file.open().unwrap();
            let mut bytes = vec![1; size_bytes as usize];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 0);
            let mut covered = vec![0; size_bytes as usize];
            for range in file.data_ranges().unwrap() {
                let range = range.offset_bytes as usize..(range.offset_bytes + range.length_bytes) as usize;
                covered[range.clone()].copy_from_slice(&bytes[range]);
            }
            assert!(covered == bytes, "data beside the ranges");
            bytes
        }
        Content::Stream(_) => panic!("a stream in a tree"),
        // It comes when all files have been told.
        Content::Later { .. } => Vec::new(),
    }
}

pub fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

pub fn sparse_file(path: &Path, size: u64, data: &[(u64, usize)]) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (offset, length) in data {
        file.write_all_at(&vec![b'd'; *length], *offset).unwrap();
    }
}

/// One of everything. As root with devices and owners.
pub fn every_kind(root: &Path) {
    fs::create_dir(root.join("directory")).unwrap();
    fs::create_dir(root.join("directory/empty")).unwrap();
    fs::write(root.join("directory/inside"), b"inside").unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("small"), b"small").unwrap();
    fs::write(root.join("limit"), vec![7; 64 << 10]).unwrap();
    fs::write(root.join("large"), (0..300_000_u32).map(|i| (i / 7) as u8).collect::<Vec<_>>()).unwrap();
    sparse_file(&root.join("sparse"), 10 << 20, &[(1 << 20, 5000), (9 << 20, 100)]);
    sparse_file(&root.join("sparse-small"), 40 << 10, &[(16 << 10, 100)]);
    sparse_file(&root.join("hole"), 1 << 40, &[]);
    sparse_file(&root.join("hole-small"), 5000, &[]);
    symlink("../any/where", root.join("link")).unwrap();
    symlink("x".repeat(4095), root.join("link-long")).unwrap();
    fs::hard_link(root.join("small"), root.join("directory/small-too")).unwrap();
    fs::write(root.join(std::ffi::OsString::from("ümläut \u{1}\n")), b"name").unwrap();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _ = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    fs::set_permissions(root.join("small"), fs::Permissions::from_mode(0o6751)).unwrap();
    fs::set_permissions(root.join("directory"), fs::Permissions::from_mode(0o1770)).unwrap();
    set_attribute(&root.join("small"), "user.b", b"two");
    set_attribute(&root.join("small"), "user.a", b"");
    set_attribute(&root.join("large"), "user.large", &[b'v'; 4000]);
    set_attribute(&root.join("directory"), "user.directory", b"yes");
    if rustix::process::geteuid().is_root() {
        set_attribute(&root.join("link"), "trusted.on-a-link", b"\0\x01");
        let device = |kind, number| {
            mknodat(CWD, root.join(format!("{kind:?}")), kind, Mode::from_raw_mode(0o640), number).unwrap();
        };
        device(FileType::CharacterDevice, makedev(10, 200));
        device(FileType::BlockDevice, makedev(259, 70_000));
        std::os::unix::fs::lchown(root.join("link"), Some(4_000_000_000), Some(70_000)).unwrap();
    }
}

/// The facts of one path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    pub kind: String,
    pub mode: u16,
    pub owners: (u32, u32),
    pub modification: Timestamp,
    pub attributes: BTreeMap<String, String>,
    /// Bytes, a target, or numbers.
    pub content: Vec<u8>,
    pub size_bytes: u64,
    /// Where there is data, joined.
    pub ranges: Vec<(u64, u64)>,
}

/// All that is told of a tree: each path, and the names that belong together.
#[derive(Debug, Default)]
pub struct Tree {
    pub paths: BTreeMap<String, Told>,
    pub links: BTreeSet<BTreeSet<String>>,
}

/// Longer files are holes, of which nothing is read.
const READ_BYTES: u64 = 64 << 20;

fn told(metadata: &Metadata, kind: &Kind, stream: Option<&mut dyn StreamSource>) -> Told {
    let mut told = Told {
        kind: kind.word().to_owned(),
        mode: metadata.mode,
        owners: (metadata.user, metadata.group),
        modification: metadata.times.modification,
        ..Told::default()
    };
    for attribute in &metadata.attributes {
        told.attributes.insert(attribute.name.escape_ascii().to_string(), brief_bytes(&attribute.value));
    }
    match kind {
        Kind::Regular { size_bytes, content } => {
            told.size_bytes = *size_bytes;
            told.content = match (content, stream) {
                (Content::Stream(ranges), Some(stream)) => stream_bytes(*size_bytes, ranges, stream),
                (content, _) if *size_bytes <= READ_BYTES => bytes_of(*size_bytes, content),
                _ => Vec::new(),
            };
            told.ranges = ranges(*size_bytes, content);
        }
        Kind::Symlink { target } => told.content = target.to_vec(),
        Kind::CharacterDevice(number) | Kind::BlockDevice(number) => {
            told.content = format!("{number:?}").into_bytes();
        }
        _ => {}
    }
    told
}

/// Short enough to be printed.
fn brief_bytes(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    format!("{} {sum:x} {}", bytes.len(), bytes[..bytes.len().min(60)].escape_ascii())
}

fn ranges(size_bytes: u64, content: &Content) -> Vec<(u64, u64)> {
    match content {
        Content::Hole => Vec::new(),
        Content::Inline(_) => vec![(0, size_bytes)],
        Content::File(file) => {
            let ranges = file.open().unwrap().data_ranges().unwrap();
            ranges.iter().map(|range| (range.offset_bytes, range.length_bytes)).collect()
        }
        Content::Stream(ranges) | Content::Later { ranges, .. } => {
            ranges.iter().map(|r| (r.offset_bytes, r.length_bytes)).collect()
        }
    }
}

fn stream_bytes(size_bytes: u64, ranges: &[ByteRange], stream: &mut dyn StreamSource) -> Vec<u8> {
    read_ranges(size_bytes, ranges, |buffer| stream.read_data(buffer))
}

fn read_ranges(
    size_bytes: u64,
    ranges: &[ByteRange],
    mut read: impl FnMut(&mut [u8]) -> Result<usize, SourceError>,
) -> Vec<u8> {
    let mut bytes = vec![0; if size_bytes <= READ_BYTES { size_bytes as usize } else { 0 }];
    for range in ranges {
        let part = range.offset_bytes as usize..(range.offset_bytes + range.length_bytes) as usize;
        let mut part = &mut bytes[part];
        while !part.is_empty() {
            let length = part.len().min(10_007);
            let read = read(&mut part[..length]).unwrap();
            assert!(read > 0, "the data end early");
            part = &mut part[read..];
        }
    }
    assert_eq!(read(&mut [0; 10]).unwrap(), 0);
    bytes
}

/// All that a tree tells. The root is `.`.
pub fn of_tree(source: &mut dyn TreeSource) -> Tree {
    let mut tree = Tree::default();
    if let Some(root) = source.root() {
        let root = told(root, &Kind::Directory(DirectoryId::ROOT), None);
        tree.paths.insert(".".to_owned(), root);
    }
    let mut later: HashMap<u32, Vec<String>> = HashMap::new();
    let mut links: HashMap<(u64, u64), BTreeSet<String>> = HashMap::new();
    while let Some(batch) = source.next_batch().unwrap() {
        let at =
            if batch.path.is_empty() { String::new() } else { format!("{}/", batch.path.escape_ascii()) };
        for entry in &batch.entries {
            let path = format!("{at}{}", entry.name.escape_ascii());
            if let Some(link) = entry.metadata.link {
                links.entry((link.device, link.inode)).or_default().insert(path.clone());
            }
            if let Kind::Regular { content: Content::Later { token, .. }, .. } = &entry.kind {
                later.entry(*token).or_default().push(path.clone());
            }
            tree.paths.insert(path, told(&entry.metadata, &entry.kind, None));
        }
    }
    while let Some(LaterContent { token, content }) = source.next_content().unwrap() {
        let paths = later.remove(&token).expect("content of no file");
        let size_bytes = tree.paths[&paths[0]].size_bytes;
        let bytes = match &content {
            Content::Inline(bytes) => bytes.to_vec(),
            Content::Stream(ranges) => read_ranges(size_bytes, ranges, |buffer| source.read_data(buffer)),
            content => panic!("{content:?}"),
        };
        for path in paths {
            tree.paths.get_mut(&path).unwrap().content.clone_from(&bytes);
        }
    }
    assert!(later.is_empty(), "no content came for {later:?}");
    tree.links = links.into_values().filter(|names| names.len() > 1).collect();
    tree
}

/// All that a stream tells.
pub fn of_stream(source: &mut dyn StreamSource) -> Tree {
    let mut tree = Tree::default();
    let mut links: HashMap<String, BTreeSet<String>> = HashMap::new();
    while let Some(item) = source.next_item().unwrap() {
        let StreamItem::Entry(entry) = item else { panic!("{item:?}") };
        let path = match &*entry.path {
            b"" => ".".to_owned(),
            path => path.escape_ascii().to_string(),
        };
        if let Kind::HardLink { target } = &entry.kind {
            let target = target.escape_ascii().to_string();
            tree.paths.insert(path.clone(), tree.paths[&target].clone());
            links.entry(target.clone()).or_insert_with(|| [target].into()).insert(path);
            continue;
        }
        let told = told(&entry.metadata, &entry.kind, Some(source));
        tree.paths.insert(path, told);
    }
    tree.links = links.into_values().collect();
    tree
}

impl Tree {
    /// Fails with the first path that differs.
    pub fn assert_same(&self, other: &Self, what: &str) {
        for (path, told) in &self.paths {
            let Some(found) = other.paths.get(path) else { panic!("{what}: {path} is missing") };
            let brief = |told: &Told| format!("{:?}", Told { content: Vec::new(), ..told.clone() });
            assert_eq!(brief(told), brief(found), "{what}: {path}");
            assert!(told.content == found.content, "{what}: {path}: another content");
        }
        for path in other.paths.keys() {
            assert!(self.paths.contains_key(path), "{what}: {path} is new");
        }
        assert_eq!(self.links, other.links, "{what}");
    }
}

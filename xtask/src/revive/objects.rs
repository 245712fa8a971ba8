//! The metadata objects of a sound image, by type: what damages choose from.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{FileType, InodeCore},
    units::InodeNumber,
};
use uxfs_testkit::structures::{self, Instance, Owner};

/// The types of objects, in the order of the table.
pub const TYPES: [&str; 34] = [
    "superblock",
    "superblock-copy",
    "agf",
    "agi",
    "agfl",
    "bnobt-root",
    "bnobt",
    "cntbt-root",
    "cntbt",
    "inobt-root",
    "inobt",
    "finobt-root",
    "finobt",
    "rmapbt-root",
    "rmapbt",
    "refcountbt-root",
    "refcountbt",
    "inode-cluster",
    "root-inode",
    "directory-inode",
    "file-inode",
    "symlink-inode",
    "special-inode",
    "bmbt",
    "directory-block",
    "directory-data",
    "directory-leaf",
    "directory-leafn",
    "directory-node",
    "directory-free",
    "attribute-leaf",
    "attribute-node",
    "attribute-remote",
    "symlink-remote",
];

/// Types that are single inodes. Their clusters are objects too.
const INODES: [&str; 5] = ["root-inode", "directory-inode", "file-inode", "symlink-inode", "special-inode"];

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// One of [`TYPES`].
    pub kind: &'static str,
    /// `None` for a cluster: its inodes are structures.
    pub structure: Option<Structure>,
    /// The bytes of the device that it takes, in order: offset and length.
    pub pieces: Vec<(u64, u32)>,
    /// Whose it is; the first inode of a cluster.
    pub owner: Owner,
}

impl Object {
    /// How many bytes it takes.
    pub fn length(&self) -> usize {
        self.pieces.iter().map(|(_, length)| *length as usize).sum()
    }

    /// Its bytes.
    pub fn read(&self, device: &dyn BlockDevice) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.length());
        for (offset, length) in &self.pieces {
            let mut piece = vec![0; *length as usize];
            device.read(*offset, &mut piece)?;
            bytes.append(&mut piece);
        }
        Ok(bytes)
    }
}

/// All objects of an image.
#[derive(Debug)]
pub struct Objects {
    /// Sizes of the image.
    pub geometry: Geometry,
    /// In the order of the disk's structures.
    pub all: Vec<Object>,
}

impl Objects {
    /// Looks at every structure of a sound image.
    pub fn locate(device: &dyn BlockDevice) -> Result<Self> {
        let (geometry, instances) = structures::list(device)?;
        let mut all = Vec::new();
        let mut roots = BTreeSet::new();
        let mut clusters: BTreeMap<u64, Object> = BTreeMap::new();
        for instance in instances {
            // The list begins each tree of a group with its root.
            let is_root = roots.insert((instance.structure.name(), instance.owner));
            if let (Structure::Inode, Owner::Inode(number)) = (instance.structure, instance.owner) {
                add_to_cluster(&mut clusters, &geometry, number, &instance);
            }
            let kind = if instance.structure == Structure::Inode {
                inode_kind(device, &instance, geometry.root_inode)?
            } else {
                kind_of(&instance, is_root)
            };
            if let Some(kind) = kind {
                let Instance { structure, pieces, owner, .. } = instance;
                all.push(Object { kind, structure: Some(structure), pieces, owner });
            }
        }
        // A cluster of free inodes holds nothing.
        let used: BTreeSet<u64> = all
            .iter()
            .filter(|object| INODES.contains(&object.kind))
            .filter_map(|object| cluster_of(&geometry, object.owner))
            .collect();
        all.extend(clusters.into_iter().filter(|(index, _)| used.contains(index)).map(|(_, object)| object));
        Ok(Self { geometry, all })
    }

    /// All of one type.
    pub fn of(&self, kind: &str) -> Vec<&Object> {
        self.all.iter().filter(|object| object.kind == kind).collect()
    }

    /// Everything that is read as a block: all objects but single inodes.
    pub fn blocks(&self) -> Vec<&Object> {
        self.all.iter().filter(|object| !INODES.contains(&object.kind)).collect()
    }

    /// The object that is the core of an inode.
    pub fn inode(&self, number: u64) -> Option<&Object> {
        let is_it = |object: &&Object| {
            object.structure == Some(Structure::Inode) && object.owner == Owner::Inode(number)
        };
        self.all.iter().find(is_it)
    }
}

/// The numbers of inodes in one cluster follow each other, and the first is a multiple of their count.
fn cluster_of(geometry: &Geometry, owner: Owner) -> Option<u64> {
    let inodes = u64::from(geometry.inode_cluster_blocks() * geometry.inodes_per_block());
    match owner {
        Owner::Inode(number) => number.checked_div(inodes),
        Owner::Group(_) => None,
    }
}

fn add_to_cluster(
    clusters: &mut BTreeMap<u64, Object>,
    geometry: &Geometry,
    number: u64,
    instance: &Instance,
) {
    let Some(index) = cluster_of(geometry, Owner::Inode(number)) else { return };
    let (kind, owner) = ("inode-cluster", instance.owner);
    let cluster = clusters.entry(index).or_insert(Object { kind, structure: None, pieces: vec![], owner });
    for (offset, length) in &instance.pieces {
        match cluster.pieces.last_mut() {
            Some((start, so_far)) if *start + u64::from(*so_far) == *offset => *so_far += length,
            _ => cluster.pieces.push((*offset, *length)),
        }
    }
}

fn inode_kind(
    device: &dyn BlockDevice,
    instance: &Instance,
    root: InodeNumber,
) -> Result<Option<&'static str>> {
    let bytes = instance.read(device)?;
    let core = InodeCore::prefix_of(&bytes).filter(|core| !core.is_free());
    Ok(core.map(|core| match core.file_type() {
        _ if instance.owner == Owner::Inode(root.get()) => "root-inode",
        Some(FileType::Directory) => "directory-inode",
        Some(FileType::Regular) => "file-inode",
        Some(FileType::SymbolicLink) => "symlink-inode",
        _ => "special-inode",
    }))
}

fn kind_of(instance: &Instance, is_root: bool) -> Option<&'static str> {
    let tree = |root, other| Some(if is_root { root } else { other });
    match instance.structure {
        Structure::Superblock if instance.owner == Owner::Group(0) => Some("superblock"),
        Structure::Superblock => Some("superblock-copy"),
        Structure::FreeSpaceHeader => Some("agf"),
        Structure::InodeHeader => Some("agi"),
        Structure::FreeList => Some("agfl"),
        Structure::FreeSpaceByBlock => tree("bnobt-root", "bnobt"),
        Structure::FreeSpaceByLength => tree("cntbt-root", "cntbt"),
        Structure::InodeIndex => tree("inobt-root", "inobt"),
        Structure::FreeInodeIndex => tree("finobt-root", "finobt"),
        Structure::ReverseMap => tree("rmapbt-root", "rmapbt"),
        Structure::ReferenceCount => tree("refcountbt-root", "refcountbt"),
        Structure::ExtentMap => Some("bmbt"),
        Structure::DirectoryBlock => Some("directory-block"),
        Structure::DirectoryData => Some("directory-data"),
        Structure::DirectoryLeaf => Some("directory-leaf"),
        Structure::DirectoryLeafNode => Some("directory-leafn"),
        Structure::DirectoryNode => Some("directory-node"),
        Structure::DirectoryFreeIndex => Some("directory-free"),
        Structure::AttributeLeaf => Some("attribute-leaf"),
        Structure::AttributeNode => Some("attribute-node"),
        Structure::AttributeRemoteValue => Some("attribute-remote"),
        Structure::Symlink => Some("symlink-remote"),
        _ => None,
    }
}

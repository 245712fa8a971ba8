//! The model of a file system: files, names, attributes and contents, in memory. A copy of it is cheap, so that the state
//! after each operation of a workload is kept.
//!
//! The digest of a model covers all but the contents and sizes of regular files, and equals that of a
//! [`Tree`](super::tree::Tree) which holds the same. Contents and sizes are compared apart, because those that were not synced
//! may be older. Times are not modelled: workloads run with a clock that stands.
//!
//! | module | holds |
//! |---|---|
//! | here | files and the digest |
//! | `apply` | what each operation does |

mod apply;

use std::{collections::BTreeMap, sync::Arc};

pub use apply::Outcome;
use uxfs_volume::inode::FileType;

use super::{
    contents::Contents,
    image::hash,
    workload::{NodeId, ROOT},
};
use uxfs_testkit::manifest::Bytes;

/// All that is compared of a file but contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its number.
    pub inode: u64,
    /// File type.
    pub kind: FileType,
    /// Permissions.
    pub mode: u16,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Project.
    pub project: u32,
    /// Names, and for a directory what leads to it beside.
    pub links: u32,
    /// Of a symbolic link.
    pub target: Bytes,
    /// Of a device.
    pub device: (u32, u32),
    /// By name.
    pub attributes: BTreeMap<Bytes, Bytes>,
    /// Of a directory: inodes by name, `..` among them.
    pub names: BTreeMap<Bytes, u64>,
}

impl Facts {
    /// A number for all of it.
    pub fn digest(&self) -> u64 {
        let mut bytes = Vec::with_capacity(256);
        let mut add = |part: &[u8]| {
            bytes.extend((part.len() as u32).to_le_bytes());
            bytes.extend_from_slice(part);
        };
        add(&self.inode.to_le_bytes());
        add(&[self.kind as u8]);
        for number in [
            u32::from(self.mode),
            self.owner.0,
            self.owner.1,
            self.project,
            self.links,
            self.device.0,
            self.device.1,
        ] {
            add(&number.to_le_bytes());
        }
        add(&self.target.0);
        for (name, value) in &self.attributes {
            add(&name.0);
            add(&value.0);
        }
        add(b"names");
        for (name, inode) in &self.names {
            add(&name.0);
            add(&inode.to_le_bytes());
        }
        hash(&bytes)
    }
}

/// A file of the model.
#[derive(Debug, Clone)]
pub struct Node {
    /// Names lead to numbers of inodes in [`children`](Self::children), not here.
    facts: Facts,
    /// Of a directory.
    pub children: BTreeMap<Vec<u8>, NodeId>,
    /// Where a directory is.
    pub parent: NodeId,
    /// Size of a regular file.
    pub size: u64,
    /// Contents of a regular file.
    pub contents: Arc<Contents>,
    /// Somebody keeps it open.
    pub is_open: bool,
    /// It never had a name, and may still get one.
    pub is_temporary: bool,
    digest: u64,
}

impl Node {
    /// File type.
    pub fn kind(&self) -> FileType {
        self.facts.kind
    }

    /// Its number on disk.
    pub fn inode(&self) -> u64 {
        self.facts.inode
    }

    /// Its permissions, with set-id bits and the sticky bit.
    pub fn mode(&self) -> u16 {
        self.facts.mode
    }

    /// Its owner and group.
    pub fn owner(&self) -> (u32, u32) {
        self.facts.owner
    }

    /// How many names it has.
    pub fn links(&self) -> u32 {
        self.facts.links
    }

    /// Its attributes.
    pub fn attributes(&self) -> &BTreeMap<Bytes, Bytes> {
        &self.facts.attributes
    }

    /// Whether a tree shows it.
    pub fn is_visible(&self) -> bool {
        self.facts.links > 0
    }
}

/// A whole file system.
#[derive(Debug, Clone)]
pub struct Model {
    /// Those that are gone are empty.
    nodes: Vec<Option<Arc<Node>>>,
    /// Where `..` of the root leads; itself unless the model is of a part of a file system.
    above: u64,
    /// Added to the number of a file in what is written to it, so that models side by side write different bytes.
    first_file: u32,
    digest: u64,
}

impl Model {
    /// Only a root directory.
    pub fn new(root: Facts) -> Self {
        let above = root.inode;
        Self::within(root, above)
    }

    /// Only a directory in the directory `above`; nothing beside it is modelled.
    pub fn within(root: Facts, above: u64) -> Self {
        let mut model = Self { nodes: Vec::new(), above, first_file: 0, digest: 0 };
        model.add(root, ROOT);
        model
    }

    /// The same with other bytes in what is written.
    #[must_use]
    pub fn with_files_from(self, first_file: u32) -> Self {
        Self { first_file, ..self }
    }

    /// A directory that is there without a name in this model.
    pub fn add_beside(&mut self, directory: Facts) -> NodeId {
        self.add(directory, ROOT)
    }

    /// The number of a file in what is written to it.
    pub fn written_number(&self, node: NodeId) -> u32 {
        self.first_file + node + 1
    }

    /// The number of the inode that everything is in.
    pub fn root_inode(&self) -> u64 {
        self.node(ROOT).map_or(0, Node::inode)
    }

    /// Equal to that of a tree that holds the same, but for contents.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// A file that is there.
    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(node as usize)?.as_deref()
    }

    /// Every file that is there.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..).zip(&self.nodes).filter_map(|(id, node)| Some((id, node.as_deref()?)))
    }

    /// How many files there ever were.
    pub fn made(&self) -> usize {
        self.nodes.len()
    }

    /// All that is compared of a file but contents.
    pub fn facts(&self, node: &Node) -> Facts {
        let inode = |id: NodeId| self.node(id).map_or(0, Node::inode);
        let mut facts = node.facts.clone();
        facts.names = node.children.iter().map(|(name, id)| (Bytes(name.clone()), inode(*id))).collect();
        if facts.kind == FileType::Directory {
            let is_root = node.inode() == self.root_inode();
            let parent = if is_root { self.above } else { inode(node.parent) };
            facts.names.insert(Bytes(b"..".to_vec()), parent);
        }
        facts
    }

    /// What a file holds is something else than what the operations say.
    pub fn set_contents(&mut self, id: NodeId, size: u64, contents: Arc<Contents>) {
        self.change(id, |node| (node.size, node.contents) = (size, contents));
    }

    fn add(&mut self, facts: Facts, parent: NodeId) -> NodeId {
        let id = self.nodes.len() as NodeId;
        let node = Node {
            facts,
            children: BTreeMap::new(),
            parent,
            size: 0,
            contents: Arc::default(),
            is_open: false,
            is_temporary: false,
            digest: 0,
        };
        self.nodes.push(Some(Arc::new(node)));
        self.change(id, |_| {});
        id
    }

    /// Changes a file; one that nothing leads to any more is gone.
    fn change(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let Some(slot) = self.nodes.get_mut(id as usize) else { return };
        let Some(node) = slot.as_mut().map(Arc::make_mut) else { return };
        change(node);
        let (old, is_visible) = (node.digest, node.is_visible());
        let is_gone = !is_visible && !node.is_open;
        let new = match self.node(id) {
            Some(node) if is_visible => self.facts(node).digest(),
            _ => 0,
        };
        self.digest = self.digest.wrapping_sub(old).wrapping_add(new);
        let Some(slot) = self.nodes.get_mut(id as usize) else { return };
        if is_gone {
            *slot = None;
        } else if let Some(node) = slot.as_mut().map(Arc::make_mut) {
            node.digest = new;
        }
    }

    /// As if it had been mounted anew: nothing is open.
    pub fn close_all(&mut self) {
        for id in 0..self.nodes.len() as NodeId {
            if self.node(id).is_some_and(|node| node.is_open) {
                self.change(id, |node| node.is_open = false);
            }
        }
    }
}

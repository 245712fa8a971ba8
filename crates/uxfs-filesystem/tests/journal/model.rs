//! A file system as it should be: names, inodes and what they hold, in maps.

use std::collections::BTreeMap;

use uxfs_engine::bulk::create::NewKind;
use uxfs_format::units::InodeNumber;
use uxfs_testkit::manifest::{FileKind, Manifest, to_hex};
use uxfs_volume::inode::FileType;

use super::Random;

/// Names an inode of the model.
pub type NodeId = usize;

const ROOT: NodeId = 0;

#[derive(Debug)]
struct Node {
    number: InodeNumber,
    kind: FileKind,
    links: u32,
    size: u64,
    target: Option<Vec<u8>>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Names, in directories.
    names: BTreeMap<Vec<u8>, NodeId>,
}

#[derive(Debug)]
pub struct Model {
    /// Removed ones are empty.
    nodes: Vec<Option<Node>>,
}

impl Model {
    pub fn new(root: InodeNumber) -> Self {
        let root = Node::new(root, FileKind::Directory, 2);
        Self { nodes: vec![Some(root)] }
    }

    fn node(&self, node: NodeId) -> &Node {
        self.nodes[node].as_ref().unwrap()
    }

    fn node_mut(&mut self, node: NodeId) -> &mut Node {
        self.nodes[node].as_mut().unwrap()
    }

    fn any(&self, random: &mut Random, is_wanted: impl Fn(&Node) -> bool) -> Option<NodeId> {
        let is_wanted = |node: &NodeId| self.nodes[*node].as_ref().is_some_and(&is_wanted);
        let wanted: Vec<NodeId> = (0..self.nodes.len()).filter(is_wanted).collect();
        wanted.get(random.index(wanted.len())).copied()
    }

    pub fn number(&self, node: NodeId) -> InodeNumber {
        self.node(node).number
    }

    /// Half of the time one of the first few, so that some directories become large.
    pub fn any_directory(&self, random: &mut Random) -> NodeId {
        if random.index(2) == 0 {
            return ROOT;
        }
        self.any(random, |node| node.kind == FileKind::Directory).unwrap()
    }

    pub fn any_file(&self, random: &mut Random) -> Option<NodeId> {
        self.any(random, |node| node.kind != FileKind::Directory)
    }

    pub fn any_regular(&self, random: &mut Random) -> Option<NodeId> {
        self.any(random, |node| node.kind == FileKind::Regular)
    }

    pub fn any_node(&self, random: &mut Random) -> NodeId {
        self.any(random, |_| true).unwrap()
    }

    pub fn any_name(&self, random: &mut Random) -> Option<(NodeId, Vec<u8>)> {
        let parent = self.any(random, |node| !node.names.is_empty())?;
        let names = &self.node(parent).names;
        names.keys().nth(random.index(names.len())).map(|name| (parent, name.clone()))
    }

    pub fn any_attribute(&self, node: NodeId, random: &mut Random) -> Option<Vec<u8>> {
        let attributes = &self.node(node).attributes;
        attributes.keys().nth(random.index(attributes.len())).cloned()
    }

    pub fn has(&self, parent: NodeId, name: &[u8]) -> bool {
        self.node(parent).names.contains_key(name)
    }

    pub fn is_full_directory(&self, parent: NodeId, name: &[u8]) -> bool {
        !self.node(self.node(parent).names[name]).names.is_empty()
    }

    pub fn create(&mut self, parent: NodeId, name: Vec<u8>, number: InodeNumber, kind: &NewKind<'_>) {
        let (file_kind, links) = match kind {
            NewKind::Regular => (FileKind::Regular, 1),
            NewKind::Directory => (FileKind::Directory, 2),
            NewKind::Symlink(_) => (FileKind::Symlink, 1),
            NewKind::Special(FileType::BlockDevice, _) => (FileKind::BlockDevice, 1),
            NewKind::Special(..) => (FileKind::Fifo, 1),
        };
        let mut node = Node::new(number, file_kind, links);
        if let NewKind::Symlink(target) = kind {
            node.target = Some(target.to_vec());
            node.size = target.len() as u64;
        }
        self.nodes.push(Some(node));
        let child = self.nodes.len() - 1;
        let parent = self.node_mut(parent);
        parent.links += u32::from(file_kind == FileKind::Directory);
        parent.names.insert(name, child);
    }

    pub fn link(&mut self, parent: NodeId, name: Vec<u8>, file: NodeId) {
        self.node_mut(parent).names.insert(name, file);
        self.node_mut(file).links += 1;
    }

    pub fn remove(&mut self, parent: NodeId, name: &[u8]) {
        let child = self.node_mut(parent).names.remove(name).unwrap();
        if self.node(child).kind == FileKind::Directory {
            self.node_mut(parent).links -= 1;
            self.nodes[child] = None;
            return;
        }
        self.node_mut(child).links -= 1;
        if self.node(child).links == 0 {
            self.nodes[child] = None;
        }
    }

    pub fn set_attribute(&mut self, node: NodeId, name: Vec<u8>, value: Vec<u8>) {
        self.node_mut(node).attributes.insert(name, value);
    }

    pub fn remove_attribute(&mut self, node: NodeId, name: &[u8]) {
        self.node_mut(node).attributes.remove(name);
    }

    pub fn set_size(&mut self, node: NodeId, size: u64) {
        self.node_mut(node).size = size;
    }

    /// Every path with everything that the model knows of it. Gives how many there are.
    pub fn compare(&self, found: &Manifest) -> usize {
        let mut expected = BTreeMap::new();
        self.paths(ROOT, b"/".to_vec(), &mut expected);
        let found_paths: Vec<&[u8]> = found.entries.iter().map(|entry| entry.path.0.as_slice()).collect();
        assert_eq!(expected.keys().map(Vec::as_slice).collect::<Vec<_>>(), found_paths);
        for entry in &found.entries {
            let node = self.node(expected[&entry.path.0]);
            assert_eq!(entry.kind, node.kind, "{}", entry.path);
            assert_eq!(entry.inode, Some(node.number.get()), "{}", entry.path);
            let Some(details) = &entry.details else { continue };
            assert_eq!(details.link_count, Some(node.links), "{}", entry.path);
            if node.kind != FileKind::Directory {
                assert_eq!(details.size_bytes, Some(node.size), "{}", entry.path);
            }
            assert_eq!(
                details.target.as_ref().map(|target| &target.0),
                node.target.as_ref(),
                "{}",
                entry.path
            );
            let attributes: BTreeMap<Vec<u8>, String> = details
                .attributes
                .iter()
                .flatten()
                .filter(|attribute| attribute.name.0 != b"trusted.xfs:autofsck")
                .map(|attribute| (attribute.name.0.clone(), attribute.value.clone()))
                .collect();
            let wanted: BTreeMap<Vec<u8>, String> =
                node.attributes.iter().map(|(name, value)| (name.clone(), to_hex(value))).collect();
            assert_eq!(attributes, wanted, "{}", entry.path);
        }
        expected.len()
    }

    fn paths(&self, node: NodeId, path: Vec<u8>, all: &mut BTreeMap<Vec<u8>, NodeId>) {
        for (name, child) in &self.node(node).names {
            let mut below = path.clone();
            if below != b"/" {
                below.push(b'/');
            }
            below.extend_from_slice(name);
            self.paths(*child, below, all);
        }
        all.insert(path, node);
    }
}

impl Node {
    fn new(number: InodeNumber, kind: FileKind, links: u32) -> Self {
        let (attributes, names) = (BTreeMap::new(), BTreeMap::new());
        Self { number, kind, links, size: 0, target: None, attributes, names }
    }
}

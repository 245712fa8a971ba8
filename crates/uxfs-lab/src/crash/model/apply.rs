//! Effects of each operation on the model.

use std::{collections::BTreeMap, sync::Arc};

use uxfs_format::attribute::posix_acl::PosixAcl;
use uxfs_volume::{attribute::xattr::ACL_ACCESS, inode::FileType};

use super::{Facts, Model, Node};
use crate::crash::{
    contents::Origin,
    workload::{NewFile, NodeId, Operation, ROOT, RenameHow, Reshape},
};
use uxfs_testkit::manifest::Bytes;

/// Result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The number of the inode that was made, if one was.
    pub inode: Option<u64>,
    /// How much of a write was done, where space ended in the middle.
    pub written: Option<u64>,
}

impl Facts {
    /// A new file without names.
    pub fn new(inode: u64, kind: FileType, mode: u16, owner: (u32, u32)) -> Self {
        Self {
            inode,
            kind,
            mode,
            owner,
            project: 0,
            links: if kind == FileType::Directory { 2 } else { 1 },
            target: Bytes::default(),
            device: (0, 0),
            attributes: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }
}

impl NewFile {
    /// The type of file.
    pub fn kind(&self) -> FileType {
        match self {
            Self::Regular => FileType::Regular,
            Self::Directory => FileType::Directory,
            Self::Symlink(_) => FileType::SymbolicLink,
            Self::Device(..) => FileType::BlockDevice,
            Self::Fifo => FileType::Fifo,
        }
    }
}

impl Model {
    /// Does what operation number `number` did.
    pub fn apply(&mut self, number: usize, operation: &Operation, outcome: Outcome) {
        let inode = outcome.inode.unwrap_or(0);
        match operation {
            Operation::Create { parent, name, file, mode, owner } => {
                self.create(*parent, name, file, Facts::new(inode, file.kind(), *mode, *owner));
            }
            Operation::Temporary { .. } => {
                let facts = Facts::new(inode, FileType::Regular, 0o600, (0, 0));
                // Added with a link, so that it is not gone at once.
                let id = self.add(facts, ROOT);
                self.change(id, |node| {
                    (node.is_open, node.is_temporary) = (true, true);
                    node.facts.links = 0;
                });
            }
            Operation::Link { node, parent, name } => {
                self.change(*node, |node| {
                    node.facts.links += 1;
                    node.is_temporary = false;
                });
                self.put_name(*parent, name, *node);
            }
            Operation::Remove { parent, name } => self.remove(*parent, name),
            Operation::Rename { parent, name, new_parent, new_name, how } => {
                self.rename((*parent, name), (*new_parent, new_name), *how, inode);
            }
            Operation::SetAttributes { node, mode, owner, project } => self.change(*node, |node| {
                let facts = &mut node.facts;
                facts.mode = mode.unwrap_or(facts.mode);
                facts.owner = owner.unwrap_or(facts.owner);
                facts.project = project.unwrap_or(facts.project);
            }),
            Operation::SetXattr { node, name, value } => {
                self.change(*node, |node| set_attribute(&mut node.facts, name, value));
            }
            Operation::RemoveXattr { node, name } => self.change(*node, |node| {
                node.facts.attributes.remove(&Bytes(name.clone()));
            }),
            Operation::Open { node } => self.change(*node, |node| node.is_open = true),
            Operation::Close { node } => self.change(*node, |node| node.is_open = false),
            Operation::SyncFile { .. } | Operation::Sync => {}
            contents => self.change_contents(number, contents),
        }
    }

    fn create(&mut self, parent: NodeId, name: &[u8], file: &NewFile, mut facts: Facts) {
        match file {
            NewFile::Symlink(target) => facts.target = Bytes(target.clone()),
            NewFile::Device(major, minor) => facts.device = (*major, *minor),
            _ => {}
        }
        let id = self.add(facts, parent);
        self.put_name(parent, name, id);
    }

    /// A name leads to a file that knows of it already; a directory's parent gets the link of `..`.
    fn put_name(&mut self, parent: NodeId, name: &[u8], child: NodeId) {
        let is_directory = self.is_directory(child);
        if is_directory {
            self.change(child, |node| node.parent = parent);
        }
        self.change(parent, |node| {
            node.children.insert(name.to_vec(), child);
            node.facts.links += u32::from(is_directory);
        });
    }

    fn take_name(&mut self, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        let child = *self.node(parent)?.children.get(name)?;
        let is_directory = self.is_directory(child);
        self.change(parent, |node| {
            node.children.remove(name);
            node.facts.links -= u32::from(is_directory);
        });
        Some(child)
    }

    fn is_directory(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| node.kind() == FileType::Directory)
    }

    fn remove(&mut self, parent: NodeId, name: &[u8]) {
        let Some(child) = self.take_name(parent, name) else { return };
        let is_directory = self.is_directory(child);
        self.change(child, |node| node.facts.links -= if is_directory { 2 } else { 1 });
    }

    fn rename(&mut self, old: (NodeId, &[u8]), new: (NodeId, &[u8]), how: RenameHow, inode: u64) {
        if old == new {
            return;
        }
        let there = self.node(new.0).and_then(|node| node.children.get(new.1)).copied();
        let here = self.node(old.0).and_then(|node| node.children.get(old.1)).copied();
        if here == there {
            // Two names of one file: nothing happens.
            return;
        }
        if how != RenameHow::Exchange && there.is_some() {
            self.remove(new.0, new.1);
        }
        let moved = self.take_name(old.0, old.1);
        if how == RenameHow::Exchange
            && let Some(other) = self.take_name(new.0, new.1)
        {
            self.put_name(old.0, old.1, other);
        }
        if let Some(moved) = moved {
            self.put_name(new.0, new.1, moved);
        }
        if how == RenameHow::Whiteout {
            let facts = Facts::new(inode, FileType::CharacterDevice, 0, (0, 0));
            let id = self.add(facts, old.0);
            self.put_name(old.0, old.1, id);
        }
    }

    fn change_contents(&mut self, number: usize, operation: &Operation) {
        match operation {
            Operation::Write { node, offset, length } => {
                let file = self.written_number(*node);
                let origin = Origin { file, version: number as u32 + 1, offset: *offset };
                self.change(*node, |node| {
                    Arc::make_mut(&mut node.contents).write(*offset..offset + length, origin);
                    node.size = node.size.max(offset + length);
                });
            }
            Operation::Truncate { node, size } => self.change(*node, |node| {
                Arc::make_mut(&mut node.contents).zero(*size..u64::MAX);
                node.size = *size;
            }),
            Operation::Reshape { node, how, offset, length } => {
                self.change(*node, |node| reshape(node, *how, *offset, *length));
            }
            Operation::Clone { source, source_offset, target, target_offset, length } => {
                let Some(from) = self.node(*source).map(|node| Arc::clone(&node.contents)) else { return };
                self.change(*target, |node| {
                    let range = *source_offset..source_offset + length;
                    Arc::make_mut(&mut node.contents).copy(&from, &range, *target_offset);
                    node.size = node.size.max(target_offset + length);
                });
            }
            Operation::Exchange { first, second, offset, second_offset, length } => {
                let contents = |id| self.node(id).map(|node| Arc::clone(&node.contents));
                let (Some(a), Some(b)) = (contents(*first), contents(*second)) else { return };
                for (id, to, other, from) in
                    [(*first, offset, b, second_offset), (*second, second_offset, a, offset)]
                {
                    let range = *from..from + length;
                    self.change(id, |node| {
                        Arc::make_mut(&mut node.contents).copy(&other, &range, *to);
                    });
                }
            }
            _ => {}
        }
    }
}

fn reshape(node: &mut Node, how: Reshape, offset: u64, length: u64) {
    let contents = Arc::make_mut(&mut node.contents);
    let range = offset..offset + length;
    match how {
        Reshape::Allocate => node.size = node.size.max(range.end),
        Reshape::AllocateKeepSize => {}
        Reshape::Punch => contents.zero(range),
        Reshape::Zero => {
            contents.zero(range.clone());
            node.size = node.size.max(range.end);
        }
        Reshape::Collapse => {
            contents.collapse(&range);
            node.size -= length;
        }
        Reshape::Insert => {
            contents.insert(&range);
            node.size += length;
        }
    }
}

/// The access list also sets the permissions, and is not kept where these say all that it does.
fn set_attribute(facts: &mut Facts, name: &[u8], value: &[u8]) {
    let key = Bytes(name.to_vec());
    if name == ACL_ACCESS
        && let Ok(acl) = PosixAcl::from_xattr(value)
    {
        let (permissions, says_all) = acl.mode_bits();
        facts.mode = facts.mode & !0o777 | permissions;
        if says_all {
            facts.attributes.remove(&key);
            return;
        }
    }
    facts.attributes.insert(key, Bytes(value.to_vec()));
}

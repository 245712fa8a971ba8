//! What a thread does through a mount, and what that does to the model.

use uxfs_format::attribute::posix_acl::{AclTag, PosixAcl};
use uxfs_volume::{
    attribute::xattr::{ACL_ACCESS, ACL_DEFAULT},
    inode::FileType,
};

use crate::crash::{
    model::{Model, Node},
    workload::{NewFile, NodeId, Operation, RenameHow, Reshape},
};
use uxfs_testkit::manifest::Bytes;

/// The ordinary user, and the group of that number.
pub const USER: u32 = 1000;
/// Set-user-id.
const SET_USER: u16 = 0o4000;
/// Set-group-id.
const SET_GROUP: u16 = 0o2000;
/// The group may execute.
const GROUP_RUNS: u16 = 0o010;

/// Ways to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Into the kernel's cache.
    Cached,
    /// Past the kernel's cache.
    Direct,
    /// Through a shared mapping.
    Mapped,
    /// At the end, wherever that is.
    Append,
    /// Durable when it returns.
    Synchronous,
}

/// One action: one system call, or a few.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Call {
    Create {
        parent: NodeId,
        name: Vec<u8>,
        file: NewFile,
        mode: u16,
    },
    Temporary {
        parent: NodeId,
        mode: u16,
    },
    Link {
        node: NodeId,
        parent: NodeId,
        name: Vec<u8>,
    },
    Remove {
        parent: NodeId,
        name: Vec<u8>,
    },
    Rename {
        parent: NodeId,
        name: Vec<u8>,
        new_parent: NodeId,
        new_name: Vec<u8>,
        how: RenameHow,
    },
    Chmod {
        node: NodeId,
        mode: u16,
    },
    Chown {
        node: NodeId,
        owner: (u32, u32),
    },
    SetXattr {
        node: NodeId,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    RemoveXattr {
        node: NodeId,
        name: Vec<u8>,
    },
    Write {
        node: NodeId,
        offset: u64,
        length: u64,
        way: Way,
    },
    Truncate {
        node: NodeId,
        size: u64,
    },
    Reshape {
        node: NodeId,
        how: Reshape,
        offset: u64,
        length: u64,
    },
    Copy {
        source: NodeId,
        source_offset: u64,
        target: NodeId,
        target_offset: u64,
        length: u64,
    },
    SetTimes {
        node: NodeId,
        access: (i64, u32),
        modification: (i64, u32),
    },
    Open {
        node: NodeId,
    },
    Close {
        node: NodeId,
    },
    /// Also of directories.
    Sync {
        node: NodeId,
        only_data: bool,
    },
    Read {
        node: NodeId,
        offset: u64,
        length: u64,
    },
    List {
        node: NodeId,
    },
    Look {
        node: NodeId,
    },
    /// Makes a name that is there, removes one that is not, and the like: all of it is refused.
    Refused {
        parent: NodeId,
        name: Vec<u8>,
    },
}

/// A call and its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// What is done.
    pub call: Call,
    /// By the ordinary user; by root otherwise.
    pub is_by_user: bool,
}

impl Action {
    /// The caller's user and group, which are of one number.
    pub fn caller(&self) -> u32 {
        if self.is_by_user { USER } else { 0 }
    }

    /// What it does to the model, in this order. A crash may come between.
    pub fn effects(&self, model: &Model, umask: u16) -> Vec<Operation> {
        let new = model.made() as NodeId;
        match self.call.clone() {
            Call::Create { parent, name, file, mode } => {
                let made = Made::new(model, parent, file.kind(), mode, self.caller(), umask);
                let (mode, owner) = (made.mode, made.owner);
                let first = Operation::Create { parent, name, file, mode, owner };
                made.followed(first, new)
            }
            Call::Temporary { parent, mode } => {
                let made = Made::new(model, parent, FileType::Regular, mode, self.caller(), umask);
                let changes = Operation::SetAttributes {
                    node: new,
                    mode: Some(made.mode),
                    owner: Some(made.owner),
                    project: None,
                };
                let mut all = made.followed(Operation::Temporary { parent }, new);
                all.insert(1, changes);
                all
            }
            Call::Link { node, parent, name } => vec![Operation::Link { node, parent, name }],
            Call::Remove { parent, name } => vec![Operation::Remove { parent, name }],
            Call::Rename { parent, name, new_parent, new_name, how } => {
                let mut all = vec![Operation::Rename { parent, name, new_parent, new_name, how }];
                if how == RenameHow::Whiteout {
                    // Linux makes the whiteout in the new directory first.
                    let group = group_of_new(model, new_parent, self.caller());
                    all.push(Operation::SetAttributes {
                        node: new,
                        mode: None,
                        owner: Some((self.caller(), group)),
                        project: None,
                    });
                }
                all
            }
            Call::SetXattr { node, name, value } => vec![Operation::SetXattr { node, name, value }],
            Call::RemoveXattr { node, name } => vec![Operation::RemoveXattr { node, name }],
            Call::Open { node } => vec![Operation::Open { node }],
            Call::Close { node } => vec![Operation::Close { node }],
            Call::Chmod { .. } | Call::Chown { .. } => self.change_of_attributes(model),
            _ => self.change_of_contents(model),
        }
    }

    fn change_of_attributes(&self, model: &Model) -> Vec<Operation> {
        match self.call {
            Call::Chmod { node, mode } => model.node(node).map_or(Vec::new(), |found| {
                // Of a group that is not the caller's.
                let drops = self.is_by_user && found.owner().1 != USER;
                let mode = if drops { mode & !SET_GROUP } else { mode };
                let change = Operation::SetAttributes { node, mode: Some(mode), owner: None, project: None };
                match acl_after_chmod(found, mode) {
                    // The list first: it sets the mode, which then gets its other bits.
                    Some(value) => {
                        vec![Operation::SetXattr { node, name: ACL_ACCESS.to_vec(), value }, change]
                    }
                    None => vec![change],
                }
            }),
            Call::Chown { node, owner } => model.node(node).map_or(Vec::new(), |found| {
                let is_directory = found.kind() == FileType::Directory;
                let is_of_group = !self.is_by_user || found.owner().1 == USER;
                let mode = (!is_directory).then(|| without_set_id(found.mode(), is_of_group));
                let change = Operation::SetAttributes { node, mode, owner: Some(owner), project: None };
                loses_capability(model, node).into_iter().chain([change]).collect()
            }),
            _ => Vec::new(),
        }
    }

    fn change_of_contents(&self, model: &Model) -> Vec<Operation> {
        let (node, change) = match self.call {
            Call::Write { node, offset, length, way } => {
                let change = Operation::Write { node, offset, length };
                if way == Way::Mapped {
                    return vec![change];
                }
                (node, change)
            }
            Call::Truncate { node, size } => (node, Operation::Truncate { node, size }),
            Call::Reshape { node, how, offset, length } => {
                (node, Operation::Reshape { node, how, offset, length })
            }
            Call::Copy { source, source_offset, target, target_offset, length } => {
                (target, Operation::Clone { source, source_offset, target, target_offset, length })
            }
            _ => return Vec::new(),
        };
        let mode = model.node(node).map_or(0, Node::mode);
        let is_of_group = model.node(node).is_some_and(|node| node.owner().1 == USER);
        let cleared = without_set_id(mode, is_of_group);
        let clears = self.is_by_user && mode != cleared;
        let lost = loses_capability(model, node);
        let first = clears.then_some(Operation::SetAttributes {
            node,
            mode: Some(cleared),
            owner: None,
            project: None,
        });
        lost.into_iter().chain(first).chain([change]).collect()
    }
}

/// Privileges of a program, which it loses when anything in it or its owner changes.
pub const CAPABILITY: &[u8] = b"security.capability";

/// A change of contents or of the owner takes the privileges away, if there are any.
pub fn loses_capability(model: &Model, node: NodeId) -> Option<Operation> {
    let has = model.node(node)?.attributes().contains_key(&Bytes(CAPABILITY.to_vec()));
    has.then(|| Operation::RemoveXattr { node, name: CAPABILITY.to_vec() })
}

/// The mode after a user without privileges, in the group of the file or not, wrote to it, or any user changed its owner.
pub fn without_set_id(mode: u16, is_of_group: bool) -> u16 {
    let drops_group = mode & GROUP_RUNS != 0 || !is_of_group;
    mode & !SET_USER & !(if drops_group { SET_GROUP } else { 0 })
}

/// The access list after a change of the mode: its owner, mask (or group) and others follow.
fn acl_after_chmod(node: &Node, mode: u16) -> Option<Vec<u8>> {
    let value = node.attributes().get(&Bytes(ACL_ACCESS.to_vec()))?;
    let mut acl = PosixAcl::from_xattr(&value.0).ok()?;
    let has_mask = acl.entries.iter().any(|entry| entry.tag == AclTag::Mask);
    for entry in &mut acl.entries {
        match entry.tag {
            AclTag::UserObject => entry.permissions = mode >> 6 & 7,
            AclTag::Mask => entry.permissions = mode >> 3 & 7,
            AclTag::GroupObject if !has_mask => entry.permissions = mode >> 3 & 7,
            AclTag::Other => entry.permissions = mode & 7,
            _ => {}
        }
    }
    Some(acl.to_xattr())
}

/// A directory may give its group to what is made in it.
fn group_of_new(model: &Model, parent: NodeId, caller: u32) -> u32 {
    let directory = model.node(parent).filter(|directory| directory.mode() & SET_GROUP != 0);
    directory.map_or(caller, |directory| directory.owner().1)
}

/// A new file: what it has from its directory.
struct Made {
    mode: u16,
    owner: (u32, u32),
    lists: Vec<(&'static [u8], Vec<u8>)>,
}

impl Made {
    fn new(model: &Model, parent: NodeId, kind: FileType, mode: u16, caller: u32, umask: u16) -> Self {
        let Some(directory) = model.node(parent) else {
            return Self { mode, owner: (caller, caller), lists: Vec::new() };
        };
        let has_group = directory.mode() & SET_GROUP != 0;
        let group = group_of_new(model, parent, caller);
        let of_directory = if has_group && kind == FileType::Directory { SET_GROUP } else { 0 };
        let mut made = Self { mode: mode | of_directory, owner: (caller, group), lists: Vec::new() };
        if kind == FileType::SymbolicLink {
            made.mode = 0o777;
            return made;
        }
        match directory.attributes().get(&Bytes(ACL_DEFAULT.to_vec())) {
            Some(list) => made.inherit(&list.0, kind),
            None => made.mode &= !umask,
        }
        made
    }

    /// From the default list of the directory.
    fn inherit(&mut self, list: &[u8], kind: FileType) {
        let Ok(mut acl) = PosixAcl::from_xattr(list) else { return };
        let has_mask = acl.entries.iter().any(|entry| entry.tag == AclTag::Mask);
        let asked = self.mode;
        for entry in &mut acl.entries {
            match entry.tag {
                AclTag::UserObject => entry.permissions &= asked >> 6 & 7,
                AclTag::Mask => entry.permissions &= asked >> 3 & 7,
                AclTag::GroupObject if !has_mask => entry.permissions &= asked >> 3 & 7,
                AclTag::Other => entry.permissions &= asked & 7,
                _ => {}
            }
        }
        let (permissions, says_all) = acl.mode_bits();
        self.mode = asked & !0o777 | permissions;
        if !says_all {
            self.lists.push((ACL_ACCESS, acl.to_xattr()));
        }
        if kind == FileType::Directory {
            self.lists.push((ACL_DEFAULT, list.to_vec()));
        }
    }

    fn followed(self, first: Operation, node: NodeId) -> Vec<Operation> {
        let set = |(name, value): (&[u8], Vec<u8>)| Operation::SetXattr { node, name: name.to_vec(), value };
        [first].into_iter().chain(self.lists.into_iter().map(set)).collect()
    }
}

//! Which action comes next: the seed decides.

use std::collections::VecDeque;

use uxfs_volume::{
    attribute::xattr::{ACL_ACCESS, ACL_DEFAULT},
    inode::FileType,
};

use super::action::{Action, CAPABILITY, Call, USER, Way};
use crate::crash::{
    generator::is_within,
    model::{Model, Node},
    workload::{NewFile, NodeId, ROOT, RenameHow, Reshape},
};
use uxfs_testkit::{manifest::Bytes, seeds::Random};

const PAGE: u64 = 4096;
/// Files end before this.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// No more files than this at once.
const MAX_FILES: usize = 250;
/// The most bytes that all files together may have.
const MAX_BYTES: u64 = 8 << 20;
/// Files that are open at once.
const MAX_OPEN: usize = 12;
/// Directories are no deeper: paths stay short enough.
const MAX_DEPTH: usize = 8;
const MAX_XATTR_BYTES: u64 = 65_536;
/// The most bytes of attributes that a file gets.
const MAX_XATTRS_BYTES: usize = 200_000;

/// Kinds of action, and how often they come.
const KINDS: [(Kind, u32); 20] = [
    (Kind::Create, 22),
    (Kind::Temporary, 2),
    (Kind::Link, 6),
    (Kind::Remove, 16),
    (Kind::Rename, 12),
    (Kind::Mode, 8),
    (Kind::Owner, 6),
    (Kind::Xattr, 10),
    (Kind::LargeXattr, 2),
    (Kind::Acl, 4),
    (Kind::RemoveXattr, 5),
    (Kind::Write, 40),
    (Kind::Truncate, 8),
    (Kind::Reshape, 10),
    (Kind::Copy, 6),
    (Kind::Times, 4),
    (Kind::Open, 12),
    (Kind::Close, 8),
    (Kind::Sync, 7),
    (Kind::Look, 30),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Create,
    Temporary,
    Link,
    Remove,
    Rename,
    Mode,
    Owner,
    Xattr,
    LargeXattr,
    Acl,
    RemoveXattr,
    Write,
    Truncate,
    Reshape,
    Copy,
    Times,
    Open,
    Close,
    Sync,
    Look,
}

/// Makes actions that are possible in the state that the model is in.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    weights: Vec<(Kind, u32)>,
    shared: NodeId,
    /// All names in the shared directory begin so.
    prefix: Vec<u8>,
    names: u64,
    /// Calls that come before the random ones.
    script: VecDeque<Action>,
}

impl Generator {
    /// The seed makes some kinds rare and some frequent.
    pub fn new(seed: u64, shared: NodeId, prefix: &[u8]) -> Self {
        let mut random = Random::new(seed);
        let mut weights = KINDS.to_vec();
        for (kind, weight) in &mut weights {
            match random.below(8) {
                0 if *kind != Kind::Create => *weight = 0,
                1 => *weight *= 4,
                _ => {}
            }
        }
        Self { random, weights, shared, prefix: prefix.to_vec(), names: 0, script: VecDeque::new() }
    }

    /// The next action.
    pub fn next(&mut self, model: &Model) -> Action {
        if let Some(action) = self.script.pop_front() {
            return action;
        }
        let sum: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        for _ in 0..50 {
            let mut left = self.random.below(sum.into()) as u32;
            let kind = self.weights.iter().find(|(_, weight)| {
                let is_it = left < *weight;
                left = left.saturating_sub(*weight);
                is_it
            });
            let kind = kind.map(|(kind, _)| *kind);
            if let Some(action) = kind.and_then(|kind| self.make(kind, model)) {
                return action;
            }
        }
        Action { call: Call::List { node: ROOT }, is_by_user: false }
    }

    fn make(&mut self, kind: Kind, model: &Model) -> Option<Action> {
        let call = match kind {
            Kind::Create => return self.create(model),
            Kind::Write => return self.write(model),
            Kind::Mode => return self.mode(model),
            Kind::Truncate => self.truncate(model)?,
            Kind::Reshape => self.reshape(model)?,
            Kind::Copy => self.copy(model)?,
            Kind::Temporary if model.nodes().count() < MAX_FILES => {
                Call::Temporary { parent: self.directory(model), mode: self.new_mode() }
            }
            Kind::Temporary => return None,
            Kind::Link => self.link(model)?,
            Kind::Remove => self.remove(model)?,
            Kind::Rename => self.rename(model)?,
            Kind::Owner => {
                let node = self.any(model, |_| true)?;
                let owner = if self.chance(2) { (USER, USER) } else { (self.id(), self.id()) };
                Call::Chown { node, owner }
            }
            Kind::Xattr | Kind::LargeXattr => self.xattr(model, kind == Kind::LargeXattr)?,
            Kind::Acl => self.acl(model)?,
            Kind::RemoveXattr => self.remove_xattr(model)?,
            Kind::Times => {
                let node = self.any(model, |_| true)?;
                Call::SetTimes { node, access: self.time(), modification: self.time() }
            }
            Kind::Open => {
                if model.nodes().filter(|(_, node)| node.is_open).count() >= MAX_OPEN {
                    return None;
                }
                let is_wanted = |node: &Node| node.kind() == FileType::Regular && !node.is_open;
                Call::Open { node: self.any(model, is_wanted)? }
            }
            Kind::Close => Call::Close { node: self.any(model, |node| node.is_open)? },
            Kind::Sync => self.sync(model)?,
            Kind::Look => self.look(model)?,
        };
        let may_be_user = matches!(call, Call::Truncate { .. } | Call::Reshape { .. } | Call::Copy { .. });
        Some(Action { call, is_by_user: may_be_user && self.chance(3) })
    }

    /// One time in `times`.
    fn chance(&mut self, times: u64) -> bool {
        self.random.below(times) == 0
    }

    fn id(&mut self) -> u32 {
        [0, USER, 1 + self.random.below(100_000) as u32][self.random.index(3)]
    }

    /// Before and after 1970, and after 2038.
    fn time(&mut self) -> (i64, u32) {
        let seconds = self.random.below(6_000_000_000) as i64 - 1_000_000_000;
        (seconds, self.random.below(1_000_000_000) as u32)
    }

    fn any(&mut self, model: &Model, is_wanted: impl Fn(&Node) -> bool) -> Option<NodeId> {
        let shared = self.shared;
        let all: Vec<NodeId> = model
            .nodes()
            .filter(|(id, node)| *id != shared && (node.is_visible() || node.is_open) && is_wanted(node))
            .map(|(id, _)| id)
            .collect();
        all.get(self.random.index(all.len())).copied()
    }

    /// Often the root or the shared directory.
    fn directory(&mut self, model: &Model) -> NodeId {
        match self.random.below(6) {
            0 | 1 => ROOT,
            2 => self.shared,
            _ => self.any(model, |node| node.kind() == FileType::Directory).unwrap_or(ROOT),
        }
    }

    fn file(&mut self, model: &Model) -> Option<NodeId> {
        // Rather those that are open: their pages stay dirty.
        if self.chance(2) {
            let open = self.any(model, |node| node.kind() == FileType::Regular && node.is_open);
            if open.is_some() {
                return open;
            }
        }
        self.any(model, |node| node.kind() == FileType::Regular)
    }

    fn new_name(&mut self, parent: NodeId) -> Vec<u8> {
        self.names += 1;
        let mut name = if parent == self.shared { self.prefix.clone() } else { Vec::new() };
        name.extend(format!("{:x}-{}", self.random.below(1 << 16), self.names).into_bytes());
        if self.chance(8) {
            let length = 20 + self.random.below(236) as usize;
            name.resize(length.max(name.len()), b'n');
        }
        name
    }

    fn name(&mut self, model: &Model) -> Option<(NodeId, Vec<u8>)> {
        let parents: Vec<_> = model.nodes().filter(|(_, node)| !node.children.is_empty()).collect();
        let (parent, directory) = parents.get(self.random.index(parents.len()))?;
        let name = directory.children.keys().nth(self.random.index(directory.children.len()))?;
        Some((*parent, name.clone()))
    }

    fn new_mode(&mut self) -> u16 {
        [0o644, 0o755, 0o600, 0o777, 0o666, 0o4755, 0o2755, 0o6777][self.random.index(8)]
    }

    fn create(&mut self, model: &Model) -> Option<Action> {
        if model.nodes().count() > MAX_FILES {
            return None;
        }
        let is_by_user = self.chance(4);
        let parent = match is_by_user {
            true => self.any(model, may_be_changed_by_user)?,
            false => self.directory(model),
        };
        if depth(model, parent) > MAX_DEPTH {
            return None;
        }
        let file = match self.random.below(12) {
            0..6 => NewFile::Regular,
            6..8 => NewFile::Directory,
            8 | 9 => {
                let most = if self.chance(4) { 1000 } else { 60 };
                NewFile::Symlink(vec![b't'; 1 + self.random.below(most) as usize])
            }
            10 if !is_by_user => NewFile::Device(7, self.random.below(1000) as u32),
            _ => NewFile::Fifo,
        };
        let mode = match file {
            NewFile::Directory => [0o755, 0o777, 0o700, 0o1777][self.random.index(4)],
            _ if is_by_user => self.new_mode() & 0o777,
            _ => self.new_mode(),
        };
        if file == NewFile::Regular && self.chance(2) {
            let node = model.made() as NodeId;
            self.script.push_back(Action { call: Call::Open { node }, is_by_user: false });
        }
        let name = self.new_name(parent);
        Some(Action { call: Call::Create { parent, name, file, mode }, is_by_user })
    }

    /// What was to come need not be possible any more.
    pub fn forget(&mut self) {
        self.script.clear();
    }

    fn link(&mut self, model: &Model) -> Option<Call> {
        let is_possible =
            |node: &Node| node.kind() != FileType::Directory && (node.is_visible() || node.is_temporary);
        let node = self.any(model, is_possible)?;
        let parent = self.directory(model);
        Some(Call::Link { node, parent, name: self.new_name(parent) })
    }

    fn remove(&mut self, model: &Model) -> Option<Call> {
        let (parent, name) = self.name(model)?;
        let child = *model.node(parent)?.children.get(&name)?;
        let is_empty = model.node(child)?.children.is_empty();
        is_empty.then_some(Call::Remove { parent, name })
    }

    fn rename(&mut self, model: &Model) -> Option<Call> {
        let (parent, name) = self.name(model)?;
        let exchange = self.chance(4);
        let over_other = exchange || self.chance(4);
        let (new_parent, new_name) = if over_other {
            self.name(model)?
        } else {
            let parent = self.directory(model);
            (parent, self.new_name(parent))
        };
        let child = |parent: NodeId, name: &[u8]| model.node(parent)?.children.get(name).copied();
        let (moved, there) = (child(parent, &name)?, child(new_parent, &new_name));
        let is_too_deep = depth(model, new_parent).max(depth(model, parent)) > MAX_DEPTH / 2
            && model.node(moved).is_some_and(|node| node.kind() == FileType::Directory);
        if Some(moved) == there || is_within(model, new_parent, moved) || is_too_deep {
            return None;
        }
        let is_directory = |id: NodeId| model.node(id).is_some_and(|node| node.kind() == FileType::Directory);
        if let Some(there) = there {
            if exchange && is_within(model, parent, there) {
                return None;
            }
            let is_possible = is_directory(there) == is_directory(moved)
                && model.node(there).is_some_and(|node| node.children.is_empty());
            if !exchange && !is_possible {
                return None;
            }
        }
        // A name in the shared directory has the prefix: an exchange with one outside keeps both names.
        let how = match self.random.below(4) {
            _ if exchange => RenameHow::Exchange,
            0 => RenameHow::Whiteout,
            1 if there.is_none() => RenameHow::NoReplace,
            _ => RenameHow::Replace,
        };
        Some(Call::Rename { parent, name, new_parent, new_name, how })
    }

    fn mode(&mut self, model: &Model) -> Option<Action> {
        if self.chance(3) {
            let node = self.any(model, |node| {
                node.kind() == FileType::Regular && node.owner().0 == USER && node.is_visible()
            })?;
            return Some(Action { call: Call::Chmod { node, mode: self.new_mode() }, is_by_user: true });
        }
        if self.chance(2)
            && let Some(()) = self.append_to_set_id(model)
        {
            return self.script.pop_front();
        }
        let node = self.any(model, |node| node.kind() != FileType::SymbolicLink)?;
        Some(Action { call: Call::Chmod { node, mode: self.new_mode() }, is_by_user: false })
    }

    /// Root writes to an open set-id file, so that it has dirty pages; then the user appends.
    fn append_to_set_id(&mut self, model: &Model) -> Option<()> {
        let node = self.any(model, |node| node.kind() == FileType::Regular && node.is_open)?;
        let size = model.node(node)?.size;
        let (length, more) = (1 + self.random.below(9000), 1 + self.random.below(6000));
        if size + length + more > MAX_FILE_BYTES || is_full(model) {
            return None;
        }
        let offset = if self.chance(2) { size } else { self.random.below(size + 1) };
        let end = size.max(offset + length);
        let mode = [0o4755, 0o6755, 0o2755][self.random.index(3)];
        let by = |call: Call, is_by_user: bool| Action { call, is_by_user };
        let way = Way::Cached;
        self.script.extend([
            by(Call::Chmod { node, mode }, false),
            by(Call::Write { node, offset, length, way }, false),
            by(Call::Write { node, offset: end, length: more, way: Way::Append }, true),
            by(Call::Read { node, offset: 0, length: end + more }, false),
        ]);
        Some(())
    }

    fn xattr(&mut self, model: &Model, is_large: bool) -> Option<Call> {
        let node = self.any(model, |_| true)?;
        let found = model.node(node)?;
        let is_plain = matches!(found.kind(), FileType::Regular | FileType::Directory);
        let space = match self.random.below(3) {
            0 if is_plain => "user",
            1 => "security",
            _ => "trusted",
        };
        let name = format!("{space}.a{}", self.random.below(30)).into_bytes();
        let length = match self.random.below(8) {
            _ if is_large => self.random.below(MAX_XATTR_BYTES + 1),
            0 => self.random.below(9000),
            1 => 0,
            _ => self.random.below(120),
        };
        let has: usize = found.attributes().values().map(|value| value.0.len()).sum();
        if has + length as usize > MAX_XATTRS_BYTES {
            return None;
        }
        if found.kind() == FileType::Regular && self.chance(5) {
            // Version 2: permitted and inherited, both twice 32 bits.
            let value = [&[1, 0, 0, 2][..], &[0, 4, 0, 0], &[0; 12]].concat();
            return Some(Call::SetXattr { node, name: CAPABILITY.to_vec(), value });
        }
        let mut value = vec![0; length as usize];
        self.random.fill(&mut value);
        Some(Call::SetXattr { node, name, value })
    }

    fn acl(&mut self, model: &Model) -> Option<Call> {
        let node = self.any(model, |node| matches!(node.kind(), FileType::Regular | FileType::Directory))?;
        let is_directory = model.node(node)?.kind() == FileType::Directory;
        let name = if is_directory && self.chance(2) { ACL_DEFAULT } else { ACL_ACCESS };
        let entry = |tag: u16, permissions: u16, id: u32| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let mut some = || self.random.below(8) as u16;
        let (user, group, mask, others) = (some(), some(), some(), some());
        let none = u32::MAX;
        let mut value = vec![2, 0, 0, 0];
        value.extend(entry(1, 6, none));
        if self.chance(4) {
            value.extend(entry(4, group, none));
        } else {
            value.extend(entry(2, user, 1000 + self.random.below(50) as u32));
            value.extend(entry(4, group, none));
            if self.chance(2) {
                value.extend(entry(8, user, 1000 + self.random.below(50) as u32));
            }
            value.extend(entry(0x10, mask, none));
        }
        value.extend(entry(0x20, others, none));
        Some(Call::SetXattr { node, name: name.to_vec(), value })
    }

    fn remove_xattr(&mut self, model: &Model) -> Option<Call> {
        let node = self.any(model, |node| !node.attributes().is_empty())?;
        let attributes = model.node(node)?.attributes();
        let name = attributes.keys().nth(self.random.index(attributes.len()))?;
        Some(Call::RemoveXattr { node, name: name.0.clone() })
    }

    fn write(&mut self, model: &Model) -> Option<Action> {
        let node = self.file(model)?;
        if is_full(model) {
            return None;
        }
        let size = model.node(node)?.size;
        let way = match self.random.below(10) {
            0..5 => Way::Cached,
            5 => Way::Direct,
            6 => Way::Mapped,
            7 => Way::Synchronous,
            _ => Way::Append,
        };
        let far = if self.chance(10) { MAX_FILE_BYTES / 2 } else { size + 2 * PAGE };
        let (mut offset, mut length) = match self.random.below(3) {
            0 => (self.random.below(far) / PAGE * PAGE, PAGE * (1 + self.random.below(6))),
            1 => (size, 1 + self.random.below(3000)),
            _ => (self.random.below(far), 1 + self.random.below(12_000)),
        };
        if way == Way::Append {
            offset = size;
        }
        if way == Way::Mapped {
            // Nothing lies behind the end.
            offset = self.random.below(size);
            length = length.min(size.saturating_sub(offset));
        }
        let is_by_user = self.chance(3);
        let is_possible = length > 0 && offset + length <= MAX_FILE_BYTES;
        is_possible.then_some(Action { call: Call::Write { node, offset, length, way }, is_by_user })
    }

    fn truncate(&mut self, model: &Model) -> Option<Call> {
        let node = self.file(model)?;
        let size = model.node(node)?.size;
        let size = match self.random.below(4) {
            0 => 0,
            1 => size + self.random.below(3 * PAGE),
            _ => self.random.below(size + 1),
        };
        (size <= MAX_FILE_BYTES).then_some(Call::Truncate { node, size })
    }

    fn reshape(&mut self, model: &Model) -> Option<Call> {
        let node = self.file(model)?;
        let size = model.node(node)?.size;
        let mut offset = self.random.below(size + PAGE) / PAGE * PAGE;
        let mut length = PAGE * (1 + self.random.below(4));
        let how = match self.random.below(5) {
            0 => Reshape::Allocate,
            1 => Reshape::AllocateKeepSize,
            2 => Reshape::Zero,
            _ => Reshape::Punch,
        };
        if self.chance(2) {
            offset += self.random.below(PAGE);
            length -= self.random.below(PAGE - 1);
        }
        let is_possible = offset + length <= MAX_FILE_BYTES && !is_full(model);
        is_possible.then_some(Call::Reshape { node, how, offset, length })
    }

    fn copy(&mut self, model: &Model) -> Option<Call> {
        let source = self.any(model, |node| node.kind() == FileType::Regular && node.size > 0)?;
        let target = self.file(model)?;
        if source == target || is_full(model) {
            return None;
        }
        let (from, to) = (model.node(source)?.size, model.node(target)?.size);
        let mut source_offset = self.random.below(from);
        let mut target_offset = self.random.below(to + PAGE);
        let mut length = 1 + self.random.below((from - source_offset).min(160 << 10));
        if !self.chance(3) {
            source_offset = source_offset / PAGE * PAGE;
            target_offset = target_offset / PAGE * PAGE;
            length = (length / PAGE * PAGE).max(1).min(from - source_offset);
        }
        let is_possible = target_offset + length <= MAX_FILE_BYTES;
        is_possible.then_some(Call::Copy { source, source_offset, target, target_offset, length })
    }

    fn sync(&mut self, model: &Model) -> Option<Call> {
        if self.chance(4) {
            let node = self.any(model, |node| node.kind() == FileType::Directory && node.is_visible())?;
            return Some(Call::Sync { node, only_data: self.chance(2) });
        }
        Some(Call::Sync { node: self.file(model)?, only_data: self.chance(2) })
    }

    fn look(&mut self, model: &Model) -> Option<Call> {
        match self.random.below(8) {
            0 => Some(Call::List { node: self.directory(model) }),
            1 | 2 => Some(Call::Look { node: self.any(model, Node::is_visible)? }),
            3 => {
                let (parent, name) = self.name(model)?;
                Some(Call::Refused { parent, name })
            }
            _ => {
                let node = self.file(model)?;
                let size = model.node(node)?.size;
                let offset = self.random.below(size + 1);
                Some(Call::Read { node, offset, length: 1 + self.random.below(100_000) })
            }
        }
    }
}

fn is_full(model: &Model) -> bool {
    model.nodes().map(|(_, node)| node.size).sum::<u64>() > MAX_BYTES
}

/// Where the user may make names, without a look at access lists.
fn may_be_changed_by_user(node: &Node) -> bool {
    let (owner, group) = node.owner();
    let needed = match (owner, group) {
        (USER, _) => 0o300,
        (_, USER) => 0o030,
        _ => 0o003,
    };
    node.kind() == FileType::Directory
        && node.is_visible()
        && !node.attributes().contains_key(&Bytes(ACL_ACCESS.to_vec()))
        && node.mode() & needed == needed
}

fn depth(model: &Model, directory: NodeId) -> usize {
    let (mut at, mut depth) = (directory, 0);
    while let Some(node) = model.node(at).filter(|_| at != ROOT && depth < 100) {
        (at, depth) = (node.parent, depth + 1);
    }
    depth
}

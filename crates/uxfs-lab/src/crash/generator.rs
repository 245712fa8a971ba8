//! Which operation comes next: the seed decides, and which kinds there are at all.

use std::collections::VecDeque;

use uxfs_volume::{attribute::xattr::ACL_ACCESS, inode::FileType};

use super::{
    model::{Model, Node},
    workload::{NewFile, NodeId, Operation, OperationKind, ROOT, RenameHow, Reshape},
};
use uxfs_testkit::{manifest::Bytes, seeds::Random};

/// All blocks of all shapes divide this.
const ALIGNMENT: u64 = 4096;
/// Files end before this.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// No more files than this at once.
const MAX_FILES: usize = 400;
/// The most bytes that all files together may have.
const MAX_BYTES: u64 = 3 << 20;

/// Makes operations that are possible in the state that the model is in.
#[derive(Debug, Clone)]
pub struct Generator {
    random: Random,
    weights: Vec<(OperationKind, u32)>,
    supported: Vec<OperationKind>,
    names: u64,
    /// Operations before the random ones.
    script: VecDeque<Operation>,
}

impl Generator {
    /// Takes the kinds that `is_supported`; the seed switches one in five of them off.
    pub fn new(seed: u64, is_supported: impl Fn(OperationKind) -> bool) -> Self {
        let mut random = Random::new(seed);
        let mut weights: Vec<_> =
            OperationKind::ALL.into_iter().filter(|(kind, _)| is_supported(*kind)).collect();
        let supported = weights.iter().map(|(kind, _)| *kind).collect();
        let keep = [OperationKind::CreateFile, OperationKind::Sync];
        weights.retain(|(kind, _)| random.below(5) != 0 || keep.contains(kind));
        for (_, weight) in &mut weights {
            // Some seeds have much more of something.
            if random.below(8) == 0 {
                *weight *= 4;
            }
        }
        Self { random, weights, supported, names: 0, script: VecDeque::new() }
    }

    /// As [`new`](Self::new), with these operations before all others.
    pub fn scripted(seed: u64, script: &[Operation], is_supported: impl Fn(OperationKind) -> bool) -> Self {
        Self { script: script.iter().cloned().collect(), ..Self::new(seed, is_supported) }
    }

    /// Leaves out names that a generator of the same kind may have given before: it was asked so often at most.
    pub fn skip_names(&mut self, asked: u64) {
        self.names += asked;
    }

    /// An operation of this kind, if one is possible.
    pub fn of_kind(&mut self, kind: OperationKind, model: &Model) -> Option<Operation> {
        (0..20).find_map(|_| self.make(kind, model))
    }

    /// All kinds that are possible, those that the seed switches off, too.
    pub fn supported(&self) -> impl Iterator<Item = OperationKind> {
        self.supported.iter().copied()
    }

    /// The kinds that there are.
    pub fn kinds(&self) -> impl Iterator<Item = OperationKind> {
        self.weights.iter().map(|(kind, _)| *kind)
    }

    /// The next operation.
    pub fn next(&mut self, model: &Model) -> Operation {
        if let Some(operation) = self.script.pop_front() {
            return operation;
        }
        let sum: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        for _ in 0..50 {
            let mut left = self.random.below(sum.into()) as u32;
            let kind = self.weights.iter().find(|(_, weight)| {
                let is_it = left < *weight;
                left = left.saturating_sub(*weight);
                is_it
            });
            let Some(kind) = kind.map(|(kind, _)| *kind) else { continue };
            if let Some(operation) = self.make(kind, model) {
                return operation;
            }
        }
        Operation::Sync
    }

    fn make(&mut self, kind: OperationKind, model: &Model) -> Option<Operation> {
        use OperationKind as Kind;
        match kind {
            Kind::CreateFile => self.create(model, NewFile::Regular),
            Kind::CreateDirectory => self.create(model, NewFile::Directory),
            Kind::CreateSymlink => {
                let most = if self.chance(4) { 1000 } else { 60 };
                let length = 1 + self.random.below(most) as usize;
                self.create(model, NewFile::Symlink(vec![b't'; length]))
            }
            Kind::CreateSpecial if self.chance(2) => self.create(model, NewFile::Fifo),
            Kind::CreateSpecial => {
                let minor = self.random.below(1000) as u32;
                self.create(model, NewFile::Device(7, minor))
            }
            Kind::Temporary => Some(Operation::Temporary { parent: self.directory(model) }),
            Kind::Link => self.link(model),
            Kind::Remove => self.remove(model),
            Kind::Rename | Kind::RenameExchange | Kind::RenameWhiteout => self.rename(model, kind),
            Kind::SetAttributes => self.set_attributes(model),
            Kind::SetXattr => self.set_xattr(model),
            Kind::SetAcl => self.set_acl(model),
            Kind::RemoveXattr => self.remove_xattr(model),
            Kind::Write | Kind::WriteUnaligned => self.write(model, kind == Kind::Write),
            Kind::Truncate => self.truncate(model),
            Kind::Allocate | Kind::Punch | Kind::Zero | Kind::Collapse | Kind::Insert => {
                self.reshape(model, kind)
            }
            Kind::Clone => self.clone_range(model),
            Kind::Exchange => self.exchange(model),
            Kind::Open => {
                let node = self.any(model, |node| node.is_visible() && !node.is_open)?;
                (node != ROOT).then_some(Operation::Open { node })
            }
            Kind::Close => self.any(model, |node| node.is_open).map(|node| Operation::Close { node }),
            Kind::SyncFile => self.file(model).map(|node| Operation::SyncFile { node }),
            Kind::Sync => Some(Operation::Sync),
        }
    }

    /// One time in `times`.
    fn chance(&mut self, times: u64) -> bool {
        self.random.below(times) == 0
    }

    fn any(&mut self, model: &Model, is_wanted: impl Fn(&Node) -> bool) -> Option<NodeId> {
        let count = model.nodes().filter(|(_, node)| is_wanted(node)).count() as u64;
        let chosen = self.random.below(count) as usize;
        model.nodes().filter(|(_, node)| is_wanted(node)).nth(chosen).map(|(id, _)| id)
    }

    /// Half of the time the root, so that it becomes large.
    fn directory(&mut self, model: &Model) -> NodeId {
        if self.chance(2) {
            return ROOT;
        }
        self.any(model, |node| node.kind() == FileType::Directory && node.is_visible()).unwrap_or(ROOT)
    }

    /// A regular file, with or without a name.
    fn file(&mut self, model: &Model) -> Option<NodeId> {
        self.any(model, |node| node.kind() == FileType::Regular)
    }

    fn new_name(&mut self) -> Vec<u8> {
        self.names += 1;
        let mut name = format!("{:x}-{}", self.random.below(1 << 16), self.names).into_bytes();
        if self.chance(8) {
            let length = 20 + self.random.below(235) as usize;
            name.resize(length.max(name.len()), b'n');
        }
        name
    }

    fn name(&mut self, model: &Model) -> Option<(NodeId, Vec<u8>)> {
        let parent = self.any(model, |node| !node.children.is_empty())?;
        let children = &model.node(parent)?.children;
        let chosen = self.random.below(children.len() as u64) as usize;
        children.keys().nth(chosen).map(|name| (parent, name.clone()))
    }

    fn create(&mut self, model: &Model, file: NewFile) -> Option<Operation> {
        if model.nodes().count() > MAX_FILES {
            return None;
        }
        let mode = [0o640, 0o755, 0o600, 0o1777][self.random.below(4) as usize];
        let owner = (self.random.below(3) as u32 * 1000, self.random.below(3) as u32 * 100);
        // Linux gives symbolic links all permissions.
        let mode = if matches!(file, NewFile::Symlink(_)) { 0o777 } else { mode };
        Some(Operation::Create { parent: self.directory(model), name: self.new_name(), file, mode, owner })
    }

    fn link(&mut self, model: &Model) -> Option<Operation> {
        // A temporary file gets its first name so; one that lost its names has none for ever.
        let is_possible =
            |node: &Node| node.kind() != FileType::Directory && (node.is_visible() || node.is_temporary);
        let node = self.any(model, is_possible)?;
        Some(Operation::Link { node, parent: self.directory(model), name: self.new_name() })
    }

    fn remove(&mut self, model: &Model) -> Option<Operation> {
        let (parent, name) = self.name(model)?;
        let child = *model.node(parent)?.children.get(&name)?;
        let is_empty = model.node(child)?.children.is_empty();
        is_empty.then_some(Operation::Remove { parent, name })
    }

    fn rename(&mut self, model: &Model, kind: OperationKind) -> Option<Operation> {
        let (parent, name) = self.name(model)?;
        let exchange = kind == OperationKind::RenameExchange;
        let over_other = exchange || self.chance(4);
        let (new_parent, new_name) =
            if over_other { self.name(model)? } else { (self.directory(model), self.new_name()) };
        let child = |parent: NodeId, name: &[u8]| model.node(parent)?.children.get(name).copied();
        let (moved, there) = (child(parent, &name)?, child(new_parent, &new_name));
        if Some(moved) == there || is_within(model, new_parent, moved) {
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
        let how = match kind {
            OperationKind::RenameExchange => RenameHow::Exchange,
            OperationKind::RenameWhiteout => RenameHow::Whiteout,
            _ if there.is_none() && self.chance(3) => RenameHow::NoReplace,
            _ => RenameHow::Replace,
        };
        Some(Operation::Rename { parent, name, new_parent, new_name, how })
    }

    fn set_attributes(&mut self, model: &Model) -> Option<Operation> {
        // With an access list the mode belongs to it.
        let acl = Bytes(ACL_ACCESS.to_vec());
        let node = self.any(model, |node| {
            node.kind() != FileType::SymbolicLink && !node.attributes().contains_key(&acl)
        })?;
        let mode = self.chance(2).then(|| 0o600 | self.random.below(0o200) as u16);
        let owner = self.chance(2).then(|| (self.random.below(2000) as u32, self.random.below(2000) as u32));
        let project = (mode.is_none() && owner.is_none()).then(|| self.random.below(100) as u32);
        Some(Operation::SetAttributes { node, mode, owner, project })
    }

    fn set_xattr(&mut self, model: &Model) -> Option<Operation> {
        let node = self.any(model, |_| true)?;
        let space = if self.chance(2) { "trusted" } else { "security" };
        let name = format!("{space}.a{}", self.random.below(40)).into_bytes();
        let length = match self.random.below(8) {
            0 => self.random.below(9000),
            1 => 0,
            _ => self.random.below(120),
        };
        let mut value = vec![0; length as usize];
        self.random.fill(&mut value);
        Some(Operation::SetXattr { node, name, value })
    }

    fn set_acl(&mut self, model: &Model) -> Option<Operation> {
        let node = self.any(model, |node| matches!(node.kind(), FileType::Regular | FileType::Directory))?;
        let entry = |tag: u16, permissions: u16, id: u32| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let permissions = self.random.below(8) as u16;
        let none = u32::MAX;
        let mut value = vec![2, 0, 0, 0];
        value.extend(entry(1, 6, none));
        if !self.chance(4) {
            value.extend(entry(2, permissions, 1000 + self.random.below(50) as u32));
            value.extend(entry(4, 5, none));
            value.extend(entry(0x10, 7, none));
        } else {
            value.extend(entry(4, 5, none));
        }
        value.extend(entry(0x20, permissions, none));
        Some(Operation::SetXattr { node, name: ACL_ACCESS.to_vec(), value })
    }

    fn remove_xattr(&mut self, model: &Model) -> Option<Operation> {
        let node = self.any(model, |node| !node.attributes().is_empty())?;
        let attributes = model.node(node)?.attributes();
        let chosen = self.random.below(attributes.len() as u64) as usize;
        attributes.keys().nth(chosen).map(|name| Operation::RemoveXattr { node, name: name.0.clone() })
    }

    fn is_full(model: &Model) -> bool {
        model.nodes().map(|(_, node)| node.size).sum::<u64>() > MAX_BYTES
    }

    fn write(&mut self, model: &Model, is_aligned: bool) -> Option<Operation> {
        let node = self.file(model)?;
        if Self::is_full(model) {
            return None;
        }
        let size = model.node(node)?.size;
        let far = if self.chance(10) { MAX_FILE_BYTES / 2 } else { size + 2 * ALIGNMENT };
        let (offset, length) = if is_aligned {
            (self.random.below(far) / ALIGNMENT * ALIGNMENT, ALIGNMENT * (1 + self.random.below(6)))
        } else if self.chance(3) {
            // Directly behind the end.
            (size, 1 + self.random.below(3000))
        } else {
            (self.random.below(far), 1 + self.random.below(12_000))
        };
        (offset + length <= MAX_FILE_BYTES).then_some(Operation::Write { node, offset, length })
    }

    fn truncate(&mut self, model: &Model) -> Option<Operation> {
        let node = self.file(model)?;
        let size = model.node(node)?.size;
        let size = match self.random.below(4) {
            0 => 0,
            1 => size + self.random.below(3 * ALIGNMENT),
            _ => self.random.below(size + 1),
        };
        (size <= MAX_FILE_BYTES).then_some(Operation::Truncate { node, size })
    }

    fn reshape(&mut self, model: &Model, kind: OperationKind) -> Option<Operation> {
        let node = self.file(model)?;
        let size = model.node(node)?.size;
        let blocks = |bytes: u64| bytes / ALIGNMENT * ALIGNMENT;
        let mut offset = blocks(self.random.below(size + ALIGNMENT));
        let mut length = ALIGNMENT * (1 + self.random.below(4));
        let how = match kind {
            OperationKind::Allocate if self.chance(3) => Reshape::AllocateKeepSize,
            OperationKind::Allocate => Reshape::Allocate,
            OperationKind::Punch => Reshape::Punch,
            OperationKind::Zero => Reshape::Zero,
            OperationKind::Collapse => Reshape::Collapse,
            _ => Reshape::Insert,
        };
        let is_moving = matches!(how, Reshape::Collapse | Reshape::Insert);
        if !is_moving && self.chance(3) {
            offset += self.random.below(ALIGNMENT);
            length -= self.random.below(ALIGNMENT - 1);
        }
        let is_possible = match how {
            Reshape::Collapse => offset + length < size,
            Reshape::Insert => offset < size && size + length <= MAX_FILE_BYTES,
            Reshape::Punch => true,
            _ => offset + length <= MAX_FILE_BYTES && !Self::is_full(model),
        };
        is_possible.then_some(Operation::Reshape { node, how, offset, length })
    }

    fn clone_range(&mut self, model: &Model) -> Option<Operation> {
        let source = self.any(model, |node| node.kind() == FileType::Regular && node.size >= ALIGNMENT)?;
        let target = self.file(model)?;
        if source == target || Self::is_full(model) {
            return None;
        }
        let blocks = model.node(source)?.size / ALIGNMENT;
        let first = self.random.below(blocks);
        let length = ALIGNMENT * (1 + self.random.below((blocks - first).min(40)));
        let target_offset = self.random.below(model.node(target)?.size + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
        (target_offset + length <= MAX_FILE_BYTES).then_some(Operation::Clone {
            source,
            source_offset: first * ALIGNMENT,
            target,
            target_offset,
            length,
        })
    }

    fn exchange(&mut self, model: &Model) -> Option<Operation> {
        let long = |node: &Node| node.kind() == FileType::Regular && node.size >= ALIGNMENT;
        let first = self.any(model, long)?;
        let second = if self.chance(3) { first } else { self.any(model, long)? };
        let blocks = [model.node(first)?.size / ALIGNMENT, model.node(second)?.size / ALIGNMENT];
        let begin = self.random.below(blocks[0].min(blocks[1]));
        let other = if self.chance(2) { begin } else { self.random.below(blocks[1]) };
        let most = (blocks[0] - begin).min(blocks[1] - other);
        // Two ranges of one file are apart.
        let most = if first == second { most.min(begin.abs_diff(other)) } else { most };
        let length = ALIGNMENT * (1 + self.random.below(most.max(1)));
        let [offset, second_offset] = [begin, other].map(|block| block * ALIGNMENT);
        (most > 0).then_some(Operation::Exchange { first, second, offset, second_offset, length })
    }
}

/// Whether a directory is `ancestor` or below it.
pub(crate) fn is_within(model: &Model, directory: NodeId, ancestor: NodeId) -> bool {
    let mut at = directory;
    for _ in 0..model.made() {
        if at == ancestor {
            return true;
        }
        match model.node(at) {
            Some(node) if at != ROOT => at = node.parent,
            _ => return false,
        }
    }
    false
}

//! What a thread did, operation by operation, and what of it a crash must leave.
//!
//! Rules, as the kernel's XFS has them:
//! 1. Names, modes, owners and attributes are those after some number of operations: the log is in order.
//! 2. A file that was synced keeps the last change of its inode, and all that came before that change.
//! 3. A file's bytes are each of some version of it since it was last synced, or zero where versions differ. Its size is one that it had
//!    between its last change of size that was not a cached write and the next change of rule 1.
//! 4. A synchronous write is a sync of the inode, and of the bytes that it writes; the kernel may keep others of the same file.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};

use uxfs_volume::inode::FileType;

use crate::crash::{
    contents::{Contents, describe, first_foreign},
    judge::differing,
    model::{Model, Node, Outcome},
    tree::Tree,
    workload::{NewFile, NodeId, Operation},
};

/// States of the thread's files since the mount was fresh.
#[derive(Debug)]
pub struct History {
    /// The first state, and one after each operation.
    models: Vec<Model>,
    operations: Vec<Operation>,
    /// How each operation was done.
    notes: Vec<String>,
    marks: Marks,
    /// So many operations are certain to be there.
    fewest: usize,
}

/// States by file.
#[derive(Debug, Default)]
struct Marks {
    /// After the last operation that changed the inode.
    changed: HashMap<NodeId, usize>,
    /// The same, without changes of times alone.
    changed_more: HashMap<NodeId, usize>,
    /// After which its contents were synced last.
    synced: HashMap<NodeId, usize>,
    /// Bytes that were written and synced in one, after which operation.
    synced_bytes: HashMap<NodeId, Vec<(Range<u64>, usize)>>,
    /// After each operation that set the size in the file system itself, past the kernel's cache.
    sized: HashMap<NodeId, Vec<usize>>,
}

impl History {
    /// Nothing has been done yet.
    pub fn new(model: Model) -> Self {
        Self {
            models: vec![model],
            operations: Vec::new(),
            notes: Vec::new(),
            marks: Marks::default(),
            fewest: 0,
        }
    }

    /// The present state.
    pub fn last(&self) -> &Model {
        &self.models[self.models.len() - 1]
    }

    /// How many operations have been done.
    pub fn done(&self) -> usize {
        self.operations.len()
    }

    /// How the next operations are done, for a person.
    pub fn note(&mut self, how: &str) {
        self.notes.resize(self.operations.len() + 1, String::new());
        if let Some(last) = self.notes.last_mut() {
            how.clone_into(last);
        }
    }

    /// An operation has been done, or has been begun. `sets_size`: not by way of the kernel's cache.
    pub fn push(&mut self, number: usize, operation: Operation, outcome: Outcome, sets_size: bool) {
        let mut model = self.last().clone();
        let changed = changed_by(&operation, &model);
        model.apply(number, &operation, outcome);
        self.models.push(model);
        self.operations.push(operation);
        let done = self.operations.len();
        for (node, only_times) in changed {
            self.marks.changed.insert(node, done);
            if !only_times {
                self.marks.changed_more.insert(node, done);
            }
            if sets_size {
                self.marks.sized.entry(node).or_default().push(done);
            }
        }
    }

    /// All but contents is certain to be there.
    pub fn all_is_durable(&mut self) {
        self.fewest = self.done();
    }

    /// All files have been closed.
    pub fn close_all(&mut self) {
        let mut model = self.last().clone();
        model.close_all();
        self.models.push(model);
        self.operations.push(Operation::Sync);
    }

    /// A file has been synced, or a directory.
    pub fn synced(&mut self, node: NodeId, only_data: bool) {
        self.models.push(self.last().clone());
        self.operations.push(Operation::SyncFile { node });
        let marks = if only_data { &self.marks.changed_more } else { &self.marks.changed };
        self.fewest = self.fewest.max(marks.get(&node).copied().unwrap_or(0));
        self.marks.synced.insert(node, self.done());
    }

    /// Bytes have been written to a file synchronously.
    pub fn synced_bytes(&mut self, node: NodeId, bytes: Range<u64>) {
        let last = self.marks.changed_more.get(&node).copied().unwrap_or(0);
        self.fewest = self.fewest.max(last);
        let done = self.done();
        self.marks.synced_bytes.entry(node).or_default().push((bytes, done));
    }

    /// After how many operations the tree is, as a crash may leave it.
    ///
    /// # Errors
    /// After none; what is different.
    pub fn judge(&self, tree: &Tree) -> Result<usize, String> {
        let mut told = None;
        for done in (self.fewest..self.models.len()).rev() {
            if self.models[done].digest() != tree.digest {
                continue;
            }
            match self.judge_contents(tree, done) {
                Ok(()) => return Ok(done),
                // The latest state comes closest.
                Err(difference) => told = told.or(Some(difference)),
            }
        }
        Err(told.unwrap_or_else(|| self.nearest(tree)))
    }

    /// The state after so many operations.
    pub fn model(&self, done: usize) -> &Model {
        &self.models[done]
    }

    fn judge_contents(&self, tree: &Tree, done: usize) -> Result<(), String> {
        let digest = self.models[done].digest();
        let same = self.models[done..].iter().take_while(|model| model.digest() == digest).count();
        let most = (done + same).min(self.models.len() - 1);
        for (id, node) in self.models[done].nodes() {
            if node.kind() != FileType::Regular || !node.is_visible() {
                continue;
            }
            let Some(found) = tree.files.get(&node.inode()) else { continue };
            let synced = self.marks.synced.get(&id).copied().unwrap_or(0);
            let sized = self
                .marks
                .sized
                .get(&id)
                .map_or(0, |all| all.iter().copied().filter(|state| *state <= done).max().unwrap_or(0));
            let first = synced.max(sized).min(self.models.len() - 1);
            let sizes = || self.versions(id, first..=most.max(first)).map(|node| node.size);
            let size = found.contents.len() as u64;
            let range = sizes().min().unwrap_or(0)..=sizes().max().unwrap_or(0);
            if !range.contains(&size) {
                return Err(format!(
                    "after {done} operations file {id} (inode {}) has {size} bytes and not {range:?} (synced after {synced}, \
                     size set after {sized}, the next change of names or modes after {most})\n    {}",
                    node.inode(),
                    self.of_file(id)
                ));
            }
            let contents: Vec<&Contents> = distinct(self.versions(id, synced..=self.models.len() - 1));
            if let Some(at) = first_foreign(&contents, &found.contents)
                .or_else(|| self.first_foreign_of_synced_bytes(id, sized, &found.contents))
            {
                return Err(format!(
                    "after {done} operations byte {at} of file {id} (inode {}, {size} bytes, synced after {synced}, {} versions) holds {}\n    {}",
                    node.inode(),
                    contents.len(),
                    describe(&found.contents, at),
                    self.of_file(id)
                ));
            }
        }
        Ok(())
    }

    /// Rule 4. `sized`: the state since which the size is that of the file system.
    fn first_foreign_of_synced_bytes(&self, id: NodeId, sized: usize, found: &[u8]) -> Option<usize> {
        let pieces = self.marks.synced_bytes.get(&id).into_iter().flatten();
        let mut pieces =
            pieces.filter(|(_, since)| *since > self.marks.synced.get(&id).copied().unwrap_or(0));
        pieces.find_map(|(bytes, since)| {
            let (start, end) = (bytes.start as usize, bytes.end as usize);
            if *since > sized && end > found.len() {
                return Some(found.len());
            }
            let contents: Vec<&Contents> = distinct(self.versions(id, *since..=self.models.len() - 1));
            let mut expected = vec![0; found.len()];
            contents.first()?.read(0, &mut expected);
            let range = start.min(found.len())..end.min(found.len());
            expected.get_mut(range.clone())?.copy_from_slice(found.get(range)?);
            first_foreign(&contents, &expected)
        })
    }

    fn versions(&self, id: NodeId, states: std::ops::RangeInclusive<usize>) -> impl Iterator<Item = &Node> {
        states.filter_map(move |state| self.models.get(state)?.node(id))
    }

    fn nearest(&self, tree: &Tree) -> String {
        let states = self.fewest..self.models.len();
        let most = self.models.len() - 1;
        let nearest = states.min_by_key(|done| differing(&self.models[*done], tree).len()).unwrap_or(most);
        let earlier = (0..self.fewest).rev().find(|done| self.models[*done].digest() == tree.digest);
        let mut text = format!("no state from {} to {most} operations is like this", self.fewest);
        if let Some(earlier) = earlier {
            text += &format!("; the state after {earlier} is, but later ones were synced");
        }
        text += &format!("; the nearest is that after {nearest}");
        for line in differing(&self.models[nearest], tree).iter().take(8) {
            text += &format!("\n  {line}");
        }
        for (index, operation) in self.operations.iter().enumerate().skip(nearest.saturating_sub(3)).take(8) {
            text += &format!("\n  operation {index}: {}", short(operation));
        }
        text
    }

    /// Operations on a file, the last ones.
    pub fn of_file(&self, file: NodeId) -> String {
        let all = self.operations.iter().enumerate().filter(|(index, operation)| {
            changed_by(operation, &self.models[*index]).iter().any(|(node, _)| *node == file)
                || operation.writes_to(file)
                || [Operation::SyncFile { node: file }, Operation::Open { node: file }].contains(operation)
                || **operation == Operation::Close { node: file }
        });
        let note = |index: usize| self.notes.get(index).map_or("", String::as_str);
        let lines: Vec<String> = all
            .map(|(index, operation)| format!("{} {} {}", index + 1, short(operation), note(index)))
            .collect();
        let skipped = lines.len().saturating_sub(25);
        lines[skipped..].join("\n    ")
    }
}

/// An operation in a line.
fn short(operation: &Operation) -> String {
    match operation {
        Operation::Create { parent, name, file, mode, owner } => {
            let mut file = format!("{file:?}");
            file.truncate(20);
            format!("create {} in {parent}: {file} {mode:o} {owner:?}", shown(name))
        }
        Operation::Link { node, parent, name } => format!("link {node} as {} in {parent}", shown(name)),
        Operation::Remove { parent, name } => format!("remove {} in {parent}", shown(name)),
        Operation::Rename { parent, name, new_parent, new_name, how } => {
            format!("rename {} in {parent} to {} in {new_parent}, {how:?}", shown(name), shown(new_name))
        }
        Operation::SetAttributes { node, mode, owner, .. } => {
            format!("{node}: mode {:o}, owner {owner:?}", mode.unwrap_or(0))
        }
        Operation::SetXattr { node, name, value } => {
            format!("{node}: {} of {} bytes", shown(name), value.len())
        }
        Operation::RemoveXattr { node, name } => format!("{node}: without {}", shown(name)),
        other => format!("{other:?}"),
    }
}

fn shown(name: &[u8]) -> String {
    let is_long = name.len() > 30;
    let start = name.get(..30).unwrap_or(name).escape_ascii();
    if is_long { format!("{start}… ({} bytes)", name.len()) } else { start.to_string() }
}

fn distinct<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<&'a Contents> {
    let mut all: Vec<&Arc<Contents>> = Vec::new();
    for node in nodes {
        if !all.last().is_some_and(|last| Arc::ptr_eq(last, &node.contents)) {
            all.push(&node.contents);
        }
    }
    all.into_iter().map(Arc::as_ref).collect()
}

/// Inodes that an operation changes, each with whether only its times change.
fn changed_by(operation: &Operation, model: &Model) -> Vec<(NodeId, bool)> {
    let child = |parent: NodeId, name: &[u8]| model.node(parent)?.children.get(name).copied();
    let size = |node: NodeId| model.node(node).map_or(0, |found| found.size);
    match operation {
        Operation::Create { parent, file, .. } => {
            let is_directory = *file == NewFile::Directory;
            vec![(model.made() as NodeId, false), (*parent, !is_directory)]
        }
        Operation::Temporary { .. } => vec![(model.made() as NodeId, false)],
        Operation::Link { node, parent, .. } => vec![(*node, false), (*parent, true)],
        Operation::Remove { parent, name } => {
            let child = child(*parent, name).map(|child| (child, false));
            child.into_iter().chain([(*parent, true)]).collect()
        }
        Operation::Rename { parent, name, new_parent, new_name, .. } => {
            let moved = [child(*parent, name), child(*new_parent, new_name)];
            let moved = moved.into_iter().flatten().map(|node| (node, true));
            moved.chain([(*parent, true), (*new_parent, true)]).collect()
        }
        Operation::SetAttributes { node, .. }
        | Operation::SetXattr { node, .. }
        | Operation::RemoveXattr { node, .. } => vec![(*node, false)],
        // Bytes that are written again as they were may change only times, and times come later.
        Operation::Write { node, offset, length } if offset + length > size(*node) => vec![(*node, false)],
        Operation::Truncate { node, size: new } => vec![(*node, *new == size(*node))],
        Operation::Reshape { node, .. } | Operation::Clone { target: node, .. } => vec![(*node, true)],
        _ => Vec::new(),
    }
}

/// What files hold, and how long they are, in a model that was found after a crash: those that differ.
pub fn unlike<'a>(model: &'a Model, tree: &'a Tree) -> BTreeMap<NodeId, u64> {
    let regular = model.nodes().filter(|(_, node)| node.kind() == FileType::Regular && node.is_visible());
    let mut different = BTreeMap::new();
    for (id, node) in regular {
        let Some(found) = tree.files.get(&node.inode()) else { continue };
        let mut expected = vec![0; node.size as usize];
        node.contents.read(0, &mut expected);
        if expected != found.contents {
            different.insert(id, found.contents.len() as u64);
        }
    }
    different
}

//! Whether what was found is the model after some number of operations.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use uxfs_volume::inode::FileType;

use super::{
    contents::{Contents, describe, first_foreign},
    image::hash,
    model::{Facts, Model},
    states::Promise,
    tree::{Found, Tree},
    workload::{NodeId, Operation},
};

/// The state after each operation of a workload, and what led there.
#[derive(Debug)]
pub struct Chronicle {
    /// Operations that had been done before the first state.
    pub start: usize,
    /// The states: the first one, and one after each operation.
    pub models: Vec<Model>,
    /// The operations.
    pub operations: Vec<Operation>,
    by_digest: HashMap<u64, Vec<usize>>,
    /// Contents that were found to be right, with what they were compared with: most files are the same in most states.
    right: RefCell<HashSet<Compared>>,
}

/// A file, its first and last version and how many there are, the number of bytes that were found and their hash.
type Compared = (NodeId, [usize; 3], usize, u64);

/// A difference between the expected and the found tree.
#[derive(Debug, Clone)]
pub struct Difference(pub String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Chronicle {
    /// Nothing has happened since operation `start`.
    pub fn new(start: usize, model: Model) -> Self {
        let by_digest = HashMap::from([(model.digest(), vec![start])]);
        let right = RefCell::default();
        Self { start, models: vec![model], operations: Vec::new(), by_digest, right }
    }

    /// An operation has been done.
    pub fn push(&mut self, operation: Operation, model: Model) {
        self.operations.push(operation);
        let done = self.done();
        self.by_digest.entry(model.digest()).or_default().push(done);
        self.models.push(model);
    }

    /// The state after the last operation is another one: what was open has been closed.
    pub fn replace_last(&mut self, model: Model) {
        let done = self.done();
        self.by_digest.values_mut().for_each(|all| all.retain(|other| *other != done));
        self.by_digest.entry(model.digest()).or_default().push(done);
        self.models.pop();
        self.models.push(model);
    }

    /// How many operations have been done.
    pub fn done(&self) -> usize {
        self.start + self.operations.len()
    }

    /// The state after so many operations.
    pub fn model(&self, done: usize) -> Option<&Model> {
        self.models.get(done.checked_sub(self.start)?)
    }

    /// The state after the last operation.
    pub fn last(&self) -> &Model {
        &self.models[self.models.len() - 1]
    }

    /// After how many operations the tree is what the model says, within what is promised.
    ///
    /// # Errors
    /// After none; the difference to the state that comes closest.
    pub fn judge(&self, tree: &Tree, promise: &Promise) -> Result<usize, Difference> {
        let most = promise.most.min(self.done());
        let fewest = promise.fewest.max(self.start);
        let none = Vec::new();
        let same = self.by_digest.get(&tree.digest).unwrap_or(&none);
        let mut wrong_contents = None;
        for done in same.iter().copied().filter(|done| (fewest..=most).contains(done)) {
            match self.judge_contents(tree, done, promise) {
                Ok(()) => return Ok(done),
                Err(difference) => wrong_contents = Some(difference),
            }
        }
        Err(wrong_contents.unwrap_or_else(|| self.nearest(tree, fewest, most, same)))
    }

    fn judge_contents(&self, tree: &Tree, done: usize, promise: &Promise) -> Result<(), Difference> {
        let Some(model) = self.model(done) else { return Err(Difference("no such state".into())) };
        for (id, node) in model.nodes() {
            if node.kind() != FileType::Regular || !node.is_visible() {
                continue;
            }
            let Some(found) = tree.files.get(&node.inode()) else { continue };
            let size = found.contents.len() as u64;
            let is_right = size == node.size || self.is_half_done(done, id, promise, size);
            if !is_right {
                let text = format!(
                    "after {done} operations file {id} (inode {}) has {} bytes, found are {size}",
                    node.inode(),
                    node.size
                );
                return Err(Difference(text));
            }
            self.judge_bytes(id, found, done, promise)?;
        }
        Ok(())
    }

    /// Whether the operation after `done` is one that goes in steps, and may leave this size meanwhile.
    fn is_half_done(&self, done: usize, file: NodeId, promise: &Promise, size: u64) -> bool {
        let next = self.operations.get(done - self.start);
        if done >= promise.most || !next.is_some_and(|next| next.has_steps() && next.writes_to(file)) {
            return false;
        }
        let size_at = |done| self.model(done).and_then(|model| model.node(file)).map(|node| node.size);
        match (size_at(done), size_at(done + 1)) {
            (Some(before), Some(after)) => (before.min(after)..=before.max(after)).contains(&size),
            _ => false,
        }
    }

    fn judge_bytes(
        &self,
        file: NodeId,
        found: &Found,
        done: usize,
        promise: &Promise,
    ) -> Result<(), Difference> {
        let first = promise.contents.max(self.start);
        let mut versions: Vec<&Arc<Contents>> = Vec::new();
        for state in first..=promise.most.min(self.done()) {
            let node = self.model(state).and_then(|model| model.node(file));
            // A number is given to one file only: before it was made and after it has gone it has no contents.
            if let Some(node) = node
                && !versions.last().is_some_and(|last| Arc::ptr_eq(last, &node.contents))
            {
                versions.push(&node.contents);
            }
        }
        let versions: Vec<&Contents> = versions.into_iter().map(Arc::as_ref).collect();
        let place =
            |version: Option<&&Contents>| version.map_or(0, |version| std::ptr::from_ref(*version).addr());
        let ends = [place(versions.first()), place(versions.last()), versions.len()];
        let compared = (file, ends, found.contents.len(), hash(&found.contents));
        if self.right.borrow().contains(&compared) {
            return Ok(());
        }
        match first_foreign(&versions, &found.contents) {
            None => {
                self.right.borrow_mut().insert(compared);
                Ok(())
            }
            Some(at) => Err(Difference(format!(
                "after {done} operations byte {at} of file {file} (inode {}) holds {}",
                found.facts.inode,
                describe(&found.contents, at)
            ))),
        }
    }

    /// The state with the fewest differences, and some of these.
    fn nearest(&self, tree: &Tree, fewest: usize, most: usize, same: &[usize]) -> Difference {
        let count = |done: usize| self.model(done).map_or(usize::MAX, |model| differing(model, tree).len());
        let Some(nearest) = (fewest..=most).min_by_key(|done| (count(*done), *done)) else {
            return Difference(format!("no state is possible: {fewest} to {most}"));
        };
        let mut text = format!("no state from {fewest} to {most} operations is like this");
        if !same.is_empty() {
            text += &format!("; the names are those after {same:?}");
        }
        text += &format!("; the nearest is that after {nearest}");
        if let Some(operation) =
            nearest.checked_sub(self.start + 1).and_then(|last| self.operations.get(last))
        {
            text += &format!(" (the last of which was {operation:?})");
        }
        if let Some(model) = self.model(nearest) {
            for line in differing(model, tree).iter().take(6) {
                text += &format!("\n  {line}");
            }
        }
        Difference(text)
    }
}

/// One line for each file that is not the same.
pub(crate) fn differing(model: &Model, tree: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    let mut expected: HashMap<u64, (NodeId, Facts)> = model
        .nodes()
        .filter(|(_, node)| node.is_visible())
        .map(|(id, node)| (node.inode(), (id, model.facts(node))))
        .collect();
    for (inode, found) in &tree.files {
        match expected.remove(inode) {
            None => lines.push(format!("inode {inode} is too many: {:?}", found.facts)),
            Some((id, facts)) if facts != found.facts => {
                lines.push(format!("file {id}: {}", unlike(&facts, &found.facts)));
            }
            Some(_) => {}
        }
    }
    lines.extend(
        expected
            .into_iter()
            .map(|(inode, (id, facts))| format!("file {id}, inode {inode}, is missing: {facts:?}")),
    );
    lines
}

/// The differences of one file.
fn unlike(expected: &Facts, found: &Facts) -> String {
    let mut parts = Vec::new();
    if expected.names != found.names {
        let only = |one: &Facts, other: &Facts| -> Vec<String> {
            let is_other = |(name, inode): &(&_, &_)| other.names.get(*name) != Some(*inode);
            one.names.iter().filter(is_other).map(|(name, inode)| format!("{name}→{inode}")).collect()
        };
        parts.push(format!(
            "names missing {:?}, too many {:?}",
            only(expected, found),
            only(found, expected)
        ));
    }
    if expected.attributes != found.attributes {
        let names = |facts: &Facts| facts.attributes.keys().map(ToString::to_string).collect::<Vec<_>>();
        parts.push(format!("attributes {:?}, found {:?}", names(expected), names(found)));
    }
    let rest = |facts: &Facts| {
        let (mode, owner, links) = (facts.mode, facts.owner, facts.links);
        (facts.kind, mode, owner, facts.project, links, facts.target.clone(), facts.device)
    };
    if rest(expected) != rest(found) {
        parts.push(format!("{:?}, found {:?}", rest(expected), rest(found)));
    }
    format!("inode {}: {}", expected.inode, parts.join("; "))
}

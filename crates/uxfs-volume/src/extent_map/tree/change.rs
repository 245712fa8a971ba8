//! Changing a tree.
//!
//! Adding goes down to one leaf and splits full nodes on the way back. Taking away goes down along both borders of the
//! range, drops what lies between them as a whole, and on the way back joins what has become too small with a neighbour.

use std::{ops::Range, sync::Arc};

use uxfs_block::cache::MemoryAccount;
use uxfs_format::btree::extent_map::ExtentRecord;

use super::{Branch, Child, LEAF_RECORDS, Leaf, Node, Tree};

/// Records that are added in one descent: with them a full leaf becomes two.
const STEP_RECORDS: usize = LEAF_RECORDS / 2;

impl Tree {
    /// Puts `added` in the place of the extents of a range. Something must be left.
    pub fn splice(&mut self, range: Range<usize>, added: &[ExtentRecord]) {
        let (replacing, more) = added.split_at(range.len().min(added.len()));
        let mut removed_blocks = self.root.overwrite(range.start, replacing);
        let rest = range.start + replacing.len()..range.end;
        if !rest.is_empty() {
            removed_blocks += self.blocks_of(rest.clone());
            self.remove(rest);
        }
        self.insert(range.start + replacing.len(), more);
        self.blocks = self.blocks.saturating_add(blocks_of(added)).saturating_sub(removed_blocks);
    }

    /// Gives back memory that was taken for more extents than have come.
    pub fn shrink_to_fit(&mut self) {
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    if let Some(leaf) = Arc::get_mut(leaf) {
                        leaf.shrink();
                    }
                    return;
                }
                Node::Branch(branch) => {
                    let Some(branch) = Arc::get_mut(branch) else { return };
                    branch.children.shrink_to_fit();
                    let Some(last) = branch.children.last_mut() else { return };
                    node = &mut last.node;
                }
            }
        }
    }

    fn blocks_of(&self, range: Range<usize>) -> u64 {
        let (mut next, mut sum) = (range.start, 0_u64);
        while next < range.end {
            let (records, place) = self.leaf_at(next);
            let found = records.get(place..).unwrap_or_default();
            let found = found.get(..range.end - next).unwrap_or(found);
            if found.is_empty() {
                break;
            }
            sum = sum.saturating_add(blocks_of(found));
            next += found.len();
        }
        sum
    }

    fn insert(&mut self, index: usize, records: &[ExtentRecord]) {
        let mut index = index;
        for part in records.chunks(STEP_RECORDS) {
            let at_end = index == self.length;
            if let Some(sibling) = self.root.insert(index, part, at_end, self.account.as_ref()) {
                let old = std::mem::replace(&mut self.root, Node::new_branch(Vec::new()));
                self.root = Node::new_branch(vec![Child::of(old), sibling]);
            }
            index += part.len();
            self.length += part.len();
        }
    }

    fn remove(&mut self, range: Range<usize>) {
        self.length -= range.len();
        self.root.remove(range);
        while let Node::Branch(branch) = &mut self.root
            && let [only] = branch.children.as_slice()
        {
            self.root = only.node.clone();
        }
    }
}

fn blocks_of(records: &[ExtentRecord]) -> u64 {
    records.iter().fold(0, |sum, record| sum.saturating_add(record.get().length_blocks))
}

impl Node {
    /// Puts records in the place of as many from `index` on; gives how many blocks those had.
    fn overwrite(&mut self, index: usize, records: &[ExtentRecord]) -> u64 {
        if records.is_empty() {
            return 0;
        }
        let mut old_blocks = 0;
        match self {
            Self::Leaf(leaf) => {
                let end = index.saturating_add(records.len());
                if let Some(old) = Arc::make_mut(leaf).records.get_mut(index..end) {
                    old_blocks = blocks_of(old);
                    old.copy_from_slice(records);
                }
            }
            Self::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                let (place, mut within) = branch.child_of(index);
                let mut rest = records;
                for child in branch.children.iter_mut().skip(place) {
                    let here = child.count.saturating_sub(within).min(rest.len());
                    let (own, behind) = rest.split_at(here);
                    old_blocks += child.node.overwrite(within, own);
                    child.first = child.node.first();
                    (rest, within) = (behind, 0);
                    if rest.is_empty() {
                        break;
                    }
                }
            }
        }
        old_blocks
    }

    /// Adds records at `index`; returns the second node after a split. Appending leaves full nodes behind.
    fn insert(
        &mut self,
        index: usize,
        records: &[ExtentRecord],
        at_end: bool,
        account: Option<&MemoryAccount>,
    ) -> Option<Child> {
        match self {
            Self::Leaf(leaf) => Arc::make_mut(leaf).insert(index, records, at_end, account),
            Self::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                // Between two children it goes to the first of them.
                let (place, within) = match branch.child_of(index) {
                    (place, 0) if place > 0 => {
                        (place - 1, branch.children.get(place - 1).map_or(0, |before| before.count))
                    }
                    found => found,
                };
                let child = branch.children.get_mut(place)?;
                let sibling = child.node.insert(within, records, at_end, account);
                child.update();
                branch.children.insert(place + 1, sibling?);
                branch.split(at_end).map(Child::of)
            }
        }
    }

    /// Takes the extents of a range away, which are not all.
    fn remove(&mut self, range: Range<usize>) {
        match self {
            Self::Leaf(leaf) => {
                let records = &mut Arc::make_mut(leaf).records;
                records.drain(range.start.min(records.len())..range.end.min(records.len()));
            }
            Self::Branch(branch) => Arc::make_mut(branch).remove(range),
        }
    }

    /// Takes all entries of a node of the same level, which follow its own.
    fn append(&mut self, next: Self) {
        match (self, next) {
            (Self::Leaf(leaf), Self::Leaf(next)) => {
                let leaf = Arc::make_mut(leaf);
                leaf.reserve(leaf.records.len() + next.records.len());
                leaf.records.extend_from_slice(&next.records);
            }
            (Self::Branch(branch), Self::Branch(next)) => {
                let branch = Arc::make_mut(branch);
                branch.children.extend(Arc::unwrap_or_clone(next).children);
                branch.mend_all();
            }
            // All leaves are equally deep.
            _ => {}
        }
    }

    /// Moves entries between two neighbours until the first one has so many.
    fn level_out(&mut self, next: &mut Self, wanted: usize) {
        match (self, next) {
            (Self::Leaf(left), Self::Leaf(right)) => {
                let (left, right) = (Arc::make_mut(left), Arc::make_mut(right));
                let (left_count, right_count) = (left.records.len(), right.records.len());
                left.reserve(wanted);
                right.reserve((left_count + right_count).saturating_sub(wanted));
                move_between(&mut left.records, &mut right.records, wanted);
            }
            (Self::Branch(left), Self::Branch(right)) => {
                let (left, right) = (Arc::make_mut(left), Arc::make_mut(right));
                move_between(&mut left.children, &mut right.children, wanted);
                left.mend_all();
                right.mend_all();
            }
            _ => {}
        }
    }
}

fn move_between<T>(left: &mut Vec<T>, right: &mut Vec<T>, wanted: usize) {
    match left.len().checked_sub(wanted) {
        Some(surplus) => {
            let from = left.len() - surplus;
            right.splice(..0, left.drain(from..));
        }
        None => {
            let missing = (wanted - left.len()).min(right.len());
            left.extend(right.drain(..missing));
        }
    }
}

impl Leaf {
    fn insert(
        &mut self,
        index: usize,
        records: &[ExtentRecord],
        at_end: bool,
        account: Option<&MemoryAccount>,
    ) -> Option<Child> {
        let index = index.min(self.records.len());
        let total = self.records.len() + records.len();
        if total <= LEAF_RECORDS {
            self.reserve(total);
            let behind = self.records.len() - index;
            self.records.extend_from_slice(records);
            if behind > 0
                && let Some(moved) = self.records.get_mut(index..)
            {
                moved.rotate_left(behind);
            }
            return None;
        }
        let mut all = Vec::with_capacity(total);
        let (before, behind) = self.records.split_at(index);
        for part in [before, records, behind] {
            all.extend_from_slice(part);
        }
        let (left, right) = all.split_at(if at_end { LEAF_RECORDS } else { total / 2 });
        self.reserve(left.len());
        self.records.clear();
        self.records.extend_from_slice(left);
        let mut sibling = Self::new(account);
        sibling.records.extend_from_slice(right);
        Some(Child::of(Node::new_leaf(sibling)))
    }
}

impl Branch {
    /// Gives half of the children away where they are too many.
    fn split(&mut self, at_end: bool) -> Option<Node> {
        let most = super::BRANCH_CHILDREN;
        if self.children.len() <= most {
            return None;
        }
        let kept = if at_end { most } else { self.children.len() / 2 };
        let mut others = Vec::with_capacity(most + 1);
        others.extend(self.children.drain(kept..));
        Some(Node::new_branch(others))
    }

    fn remove(&mut self, range: Range<usize>) {
        // Where in the children the range begins and ends.
        let (first, within_first) = self.child_of(range.start);
        let (last, within_last) = self.child_of(range.end.saturating_sub(1));
        let mut whole = first..last + 1;
        for (place, from) in [(first, within_first), (last, 0)] {
            let Some(child) = self.children.get_mut(place) else { return };
            let to = if place == last { within_last + 1 } else { child.count };
            let is_whole = from == 0 && to == child.count;
            if !is_whole {
                child.node.remove(from..to);
                child.update();
                whole = if place == first { first + 1..whole.end } else { whole.start..last };
            }
            if first == last {
                break;
            }
        }
        if whole.start < whole.end {
            self.children.drain(whole.clone());
        }
        // The two children at the borders are adjacent now.
        for place in [whole.start.saturating_add(1), whole.start, whole.start.saturating_sub(1)] {
            self.mend(place);
        }
    }

    /// A child that was alone could not be joined with any other.
    fn mend_all(&mut self) {
        (0..self.children.len()).rev().for_each(|place| self.mend(place));
    }

    /// Joins a child that has become too small with a neighbour, or takes some of its entries.
    fn mend(&mut self, place: usize) {
        let Some(child) = self.children.get(place) else { return };
        let capacity = child.node.capacity();
        if child.node.entries() >= capacity / 2 || self.children.len() < 2 {
            return;
        }
        let left = place.saturating_sub(1);
        let Some([one, other]) = self.children.get_mut(left..left + 2) else { return };
        let total = one.node.entries() + other.node.entries();
        if total > capacity {
            one.node.level_out(&mut other.node, total / 2);
            one.update();
            other.update();
            return;
        }
        let joined = self.children.remove(left + 1);
        if let Some(one) = self.children.get_mut(left) {
            one.node.append(joined.node);
            one.update();
        }
    }
}

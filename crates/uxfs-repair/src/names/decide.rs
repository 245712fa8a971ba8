//! The tree that keeps the most of what entries and parent pointers say.
//!
//! The rule is the rows of [`weighing`](crate::repair::weighing) that are about names, in their order.
//!
//! Nothing that only one side says is removed where keeping it is consistent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use uxfs_format::{directory::is_valid_name, inode::FileType, quota::QuotaKind, units::InodeNumber};

use super::{
    facts::{Facts, InodeFact, Link, Witnesses},
    rejection::{Rejection, Strength},
    strays::{self, Stray},
    undisputed::Undisputed,
};
use crate::{finding::Name, metadata_directory};

/// A directory that is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewDirectory {
    pub generation: Option<u32>,
    /// It belongs to the metadata directory tree.
    pub is_metadata: bool,
}

/// The tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Directories that are made again.
    pub directories: BTreeMap<InodeNumber, NewDirectory>,
    /// Links that stay as they are, by their indices in the facts.
    pub undisputed: Undisputed,
    /// All others in the tree, by directory and name.
    pub links: BTreeMap<(InodeNumber, Name), InodeNumber>,
    /// Links that a witness says and that are not in the tree.
    pub rejected: BTreeMap<Link, Rejection>,
    /// Inodes without a name, and the best one that is known.
    pub lost: BTreeMap<InodeNumber, Name>,
    /// Files without links and without a name: they are freed.
    pub unlinked: BTreeSet<InodeNumber>,
}

impl Decision {
    /// Of these facts.
    pub fn of(facts: &Facts) -> Self {
        Decider { facts, decision: Self::default() }.run()
    }

    /// Whether the link with this index in the facts is in the tree.
    pub fn has_link(&self, index: usize, link: &Link) -> bool {
        self.undisputed.has_link(index)
            || self.links.get(&(link.directory, link.name.clone())) == Some(&link.inode)
    }

    /// All links in a directory, in the order of their names.
    pub fn names_in<'d>(&'d self, facts: &'d Facts, directory: InodeNumber) -> Vec<(&'d Name, InodeNumber)> {
        let decided = self.links.range((directory, Name::default())..);
        let decided = decided.take_while(|((of, _), _)| *of == directory);
        let undisputed = facts.links_in(directory).filter(|(index, ..)| self.undisputed.has_link(*index));
        let mut names: Vec<(&Name, InodeNumber)> = undisputed
            .map(|(_, link, _)| (&link.name, link.inode))
            .chain(decided.map(|((_, name), inode)| (name, *inode)))
            .collect();
        names.sort_unstable();
        names
    }
}

pub(super) fn is_possible_name(name: &[u8]) -> bool {
    is_valid_name(name) && name != b"." && name != b".."
}

/// Whether people may have given this name: it is UTF-8 without control characters. Bytes that were overwritten seldom are.
fn is_text(name: &[u8]) -> bool {
    str::from_utf8(name).is_ok_and(|name| !name.chars().any(char::is_control))
}

fn is_pointer(strength: Strength) -> bool {
    matches!(strength, Strength::Pointer | Strength::OldPointer)
}

struct Decider<'f> {
    facts: &'f Facts,
    decision: Decision,
}

impl<'f> Decider<'f> {
    fn run(mut self) -> Decision {
        self.find_lost_directories();
        self.decision.undisputed = Undisputed::of(self.facts, &self.decision.directories);
        self.decide()
    }

    /// Decides about all links that are disputed.
    fn decide(mut self) -> Decision {
        self.choose_inodes_of_names();
        self.name_metadata_directories();
        self.join_halves();
        self.drop_unproved();
        self.follow_types();
        self.choose_names_of_directories();
        self.take_strays();
        self.break_circles();
        self.find_lost_inodes();
        self.decision
    }

    fn is_directory(&self, inode: InodeNumber) -> bool {
        self.facts.directory(inode).is_some() || self.decision.directories.contains_key(&inode)
    }

    fn is_metadata(&self, inode: InodeNumber) -> bool {
        let is_new = self.decision.directories.get(&inode).is_some_and(|new| new.is_metadata);
        is_new || self.facts.is_metadata(inode)
    }

    fn exists(&self, inode: InodeNumber) -> bool {
        self.facts.inodes.contains_key(&inode) || self.decision.directories.contains_key(&inode)
    }

    fn generation(&self, directory: InodeNumber) -> Option<u32> {
        match self.facts.directory(directory) {
            Some(fact) => Some(fact.generation),
            None => self.decision.directories.get(&directory)?.generation,
        }
    }

    /// Directories that others name, and that are gone.
    fn find_lost_directories(&mut self) {
        let mut generations: BTreeMap<InodeNumber, BTreeMap<u32, u64>> = BTreeMap::new();
        let mut named = BTreeSet::new();
        let mut metadata: BTreeSet<InodeNumber> = self.facts.metadata_root.into_iter().collect();
        let mut last = None;
        for (link, witnesses) in self.facts.links.iter() {
            let is_above = witnesses.pointer_generation.is_some() && self.facts.is_metadata(link.inode);
            metadata.extend(Some(link.directory).filter(|_| is_above));
            let is_below = witnesses.has_entry && self.facts.is_metadata(link.directory);
            metadata.extend(Some(link.inode).filter(|_| is_below));
            let is_lost = match last {
                Some((directory, is_lost)) if directory == link.directory => is_lost,
                _ => self.may_be_lost(link.directory),
            };
            last = Some((link.directory, is_lost));
            if let Some(generation) = witnesses.pointer_generation.filter(|_| is_lost) {
                *generations.entry(link.directory).or_default().entry(generation).or_default() += 1;
            }
            if witnesses.entry_type == Some(FileType::Directory) && self.may_be_lost(link.inode) {
                named.insert(link.inode);
            }
        }
        let roots = [self.facts.root].into_iter().chain(self.facts.metadata_root);
        named.extend(roots.filter(|root| self.may_be_lost(*root)));
        for inode in generations.keys().copied().chain(named).collect::<BTreeSet<_>>() {
            let most = generations.get(&inode).and_then(|all| {
                all.iter()
                    .max_by_key(|(generation, count)| (**count, **generation))
                    .map(|(generation, _)| *generation)
            });
            let is_metadata = metadata.contains(&inode);
            self.decision.directories.insert(inode, NewDirectory { generation: most, is_metadata });
        }
    }

    fn may_be_lost(&self, inode: InodeNumber) -> bool {
        !self.facts.inodes.contains_key(&inode) && self.facts.places.contains(&inode)
    }

    fn strength(&self, link: &Link, witnesses: &Witnesses) -> Option<Strength> {
        let is_current = witnesses.pointer_generation.is_some()
            && witnesses.pointer_generation == self.generation(link.directory);
        match (witnesses.has_entry, witnesses.pointer_generation.is_some()) {
            (true, true) => Some(Strength::Both),
            (true, false) => Some(Strength::Entry),
            (false, true) if is_current => Some(Strength::Pointer),
            (false, true) => Some(Strength::OldPointer),
            (false, false) => None,
        }
    }

    /// Why a link cannot be.
    fn obstacle(&self, link: &Link) -> Option<Rejection> {
        let is_root = link.inode == self.facts.root || Some(link.inode) == self.facts.metadata_root;
        if !self.is_directory(link.directory) {
            return Some(Rejection::NoDirectory);
        }
        if !self.exists(link.inode) {
            return Some(Rejection::NoInode);
        }
        if is_root {
            return Some(Rejection::OfRoot);
        }
        if self.is_metadata(link.directory) != self.is_metadata(link.inode) {
            return Some(Rejection::OfOtherTree);
        }
        if self.facts.partial.contains(&link.inode) {
            return Some(Rejection::Incomplete);
        }
        if link.directory == link.inode {
            return Some(Rejection::OfItself);
        }
        (!is_possible_name(&link.name)).then_some(Rejection::ImpossibleName)
    }

    /// Disputed links that can be: both ends exist, and neither root has a name.
    fn possible_links(&mut self) -> Vec<(&'f Link, Strength)> {
        let facts = self.facts;
        let mut possible = Vec::new();
        for (index, (link, witnesses)) in facts.links.iter().enumerate() {
            if self.decision.undisputed.has_link(index) {
                continue;
            }
            let Some(strength) = self.strength(link, witnesses) else { continue };
            match self.obstacle(link) {
                None => possible.push((link, strength)),
                Some(obstacle) => {
                    self.decision.rejected.insert(link.clone(), obstacle);
                }
            }
        }
        possible
    }

    /// One inode for each name in each directory.
    fn choose_inodes_of_names(&mut self) {
        let possible = self.possible_links();
        let mut places: BTreeMap<(InodeNumber, &Name), Vec<(InodeNumber, Strength)>> = BTreeMap::new();
        let mut names: HashMap<InodeNumber, u32> = HashMap::new();
        for (link, strength) in &possible {
            places.entry((link.directory, &link.name)).or_default().push((link.inode, *strength));
            *names.entry(link.inode).or_default() += 1;
        }
        for ((directory, name), claims) in places {
            let best = claims.iter().max_by_key(|(inode, strength)| {
                let has_no_other = names.get(inode).copied().unwrap_or(0) <= 1;
                (*strength == Strength::Both, has_no_other, *strength, std::cmp::Reverse(*inode))
            });
            let Some((kept, kept_by)) = best.copied() else { continue };
            for (inode, rejected_by) in claims.iter().copied().filter(|(inode, _)| *inode != kept) {
                let link = Link { directory, name: name.clone(), inode };
                let rejection = Rejection::OtherInode { kept, kept_by, rejected_by };
                self.decision.rejected.insert(link, rejection);
            }
            self.decision.links.insert((directory, name.clone()), kept);
        }
    }

    /// Directories of the metadata directory tree with lost names, which follow from their contents.
    fn name_metadata_directories(&mut self) {
        let Some(root) = self.facts.metadata_root.filter(|root| self.is_directory(*root)) else { return };
        let named: HashSet<InodeNumber> = self.decision.links.values().copied().collect();
        let in_use = self
            .facts
            .inodes
            .keys()
            .copied()
            .filter(|inode| self.facts.is_metadata(*inode) && self.facts.directory(*inode).is_some());
        let new = self.decision.directories.iter().filter(|(_, new)| new.is_metadata);
        let all = in_use.chain(new.map(|(inode, _)| *inode));
        let nameless: Vec<InodeNumber> =
            all.filter(|inode| *inode != root && !named.contains(inode)).collect();
        for directory in nameless {
            let holds = |kind: &QuotaKind| {
                self.decision.links.contains_key(&(directory, kind.name().as_bytes().into()))
            };
            let name = match QuotaKind::ALL.iter().any(holds) {
                true => metadata_directory::QUOTA,
                false => metadata_directory::REALTIME_GROUPS,
            };
            self.decision.links.entry((root, name.into())).or_insert(directory);
        }
    }

    /// Takes a link out of the tree.
    fn reject(&mut self, (directory, name): &(InodeNumber, Name), rejection: Rejection) {
        if let Some(inode) = self.decision.links.remove(&(*directory, name.clone())) {
            let link = Link { directory: *directory, name: name.clone(), inode };
            self.decision.rejected.insert(link, rejection);
        }
    }

    /// Takes a link out of the tree, since another one of the same inode is kept.
    fn reject_for(
        &mut self,
        rejected: &(InodeNumber, Name),
        (directory, name): &(InodeNumber, Name),
        inode: InodeNumber,
    ) {
        let (_, _, kept_by) = self.weight(*directory, name, inode);
        let (_, _, rejected_by) = self.weight(rejected.0, &rejected.1, inode);
        let (directory, name, is_directory) = (*directory, name.clone(), self.is_directory(inode));
        let rejection = Rejection::OtherName { directory, name, kept_by, rejected_by, is_directory };
        self.reject(rejected, rejection);
    }

    /// One entry alone and one parent pointer alone of an inode that has fewer links than names are one name, of which one side is
    /// wrong.
    fn join_halves(&mut self) {
        for (inode, names) in self.names_of_files() {
            let excess = self.excess(inode, names.len());
            if excess == 0 {
                continue;
            }
            let entries = names.iter().filter(|(_, _, strength)| *strength == Strength::Entry);
            let mut pointers: Vec<_> =
                names.iter().filter(|(_, _, strength)| is_pointer(*strength)).collect();
            for (directory, name, _) in entries.take(excess) {
                let is_other_half =
                    |other: &&(InodeNumber, Name, Strength)| other.0 == *directory || other.1 == *name;
                let Some(index) = pointers.iter().position(is_other_half) else { continue };
                let (other_directory, other_name, _) = pointers.swap_remove(index);
                let (entry, pointer) = ((*directory, name.clone()), (*other_directory, other_name.clone()));
                // An index that does not lead to the entry speaks against it, and so does a hash that only the pointer has.
                let has_hash = |strength| self.has_hash(*directory, inode, strength);
                let is_doubtful = self.facts.damaged_directories.contains(directory)
                    || is_text(other_name) && !is_text(name)
                    || has_hash(Strength::Pointer) && !has_hash(Strength::Entry);
                // One of them may lie in an inode with a wrong checksum.
                let is_doubtful = match self.are_unproved(*directory, inode) {
                    (true, false) => true,
                    (false, true) => false,
                    _ => is_doubtful,
                };
                match is_doubtful {
                    true => self.reject_for(&entry, &pointer, inode),
                    false => self.reject_for(&pointer, &entry, inode),
                }
            }
        }
    }

    /// All names of each inode that is no directory, where any is disputed.
    fn names_of_files(&self) -> BTreeMap<InodeNumber, Vec<(InodeNumber, Name, Strength)>> {
        let mut names: BTreeMap<InodeNumber, Vec<_>> = BTreeMap::new();
        for ((directory, name), inode) in &self.decision.links {
            let fact = self.facts.inodes.get(inode);
            if fact.is_some_and(|fact| fact.file_type != FileType::Directory) {
                let (_, _, strength) = self.weight(*directory, name, *inode);
                names.entry(*inode).or_default().push((*directory, name.clone(), strength));
            }
        }
        names
    }

    /// How many of its names an inode has too many. The link count of one with a wrong checksum says nothing: all may be.
    fn excess(&self, inode: InodeNumber, names: usize) -> usize {
        let Some(fact) = self.facts.inodes.get(&inode) else { return 0 };
        match (self.facts.uncounted.contains(&inode), self.facts.unproved.contains(&inode)) {
            (true, _) => 0,
            (false, true) => names.saturating_sub(1),
            (false, false) => names.saturating_sub(fact.link_count.max(1) as usize),
        }
    }

    /// Whether the entries of a directory lie in an inode with a wrong checksum, and whether the parent pointers of an inode do.
    fn are_unproved(&self, directory: InodeNumber, inode: InodeNumber) -> (bool, bool) {
        let is_unproved = |inode, has_hashes: fn(&InodeFact) -> bool| {
            let fact = self.facts.inodes.get(&inode);
            self.facts.unproved.contains(&inode) && fact.is_none_or(|fact| !has_hashes(fact))
        };
        (
            is_unproved(directory, |fact| fact.has_hashed_entries),
            is_unproved(inode, |fact| fact.has_hashed_pointers)
                || self.facts.unproved_leaves.contains(&inode),
        )
    }

    /// With parent pointers: a name that only an inode with a wrong checksum says goes, where its file has others, and has too many.
    fn drop_unproved(&mut self) {
        let is_all_proved = self.facts.unproved.is_empty() && self.facts.unproved_leaves.is_empty();
        if is_all_proved || !self.facts.has_parent_pointers {
            return;
        }
        for (inode, names) in self.names_of_files() {
            let is_unproved = |(directory, _, strength): &(InodeNumber, Name, Strength)| {
                let (entry, pointer) = self.are_unproved(*directory, inode);
                *strength == Strength::Entry && entry || is_pointer(*strength) && pointer
            };
            let excess = self.excess(inode, names.len());
            let (unproved, proved): (Vec<_>, Vec<_>) = names.into_iter().partition(is_unproved);
            let Some((directory, name, _)) = proved.into_iter().max_by_key(|(_, _, strength)| *strength)
            else {
                continue;
            };
            for (of, unproved, _) in unproved.into_iter().take(excess) {
                self.reject_for(&(of, unproved), &(directory, name.clone()), inode);
            }
        }
    }

    /// Without parent pointers: an entry that names an inode of another type names the wrong one, where that has a name of its own, and one
    /// inode of the entry's type has none. A directory must also name the directory of the entry as its parent.
    fn follow_types(&mut self) {
        if self.facts.has_parent_pointers {
            return;
        }
        let (mut suspects, mut named) = (Vec::new(), HashSet::new());
        for ((directory, name), inode) in &self.decision.links {
            match self.contradicting_type(*directory, name, *inode) {
                Some(file_type) => suspects.push((*directory, name.clone(), *inode, file_type)),
                None => _ = named.insert(*inode),
            }
        }
        if suspects.is_empty() {
            return;
        }
        // By type, and of directories by the directory above: the only one, or none where there are several.
        let mut nameless: HashMap<(FileType, Option<InodeNumber>), Option<InodeNumber>> = HashMap::new();
        let above = |file_type: FileType, directory: Option<InodeNumber>| {
            directory.filter(|_| file_type == FileType::Directory)
        };
        for (index, (inode, fact)) in self.facts.inodes.iter().enumerate() {
            let is_named = self.decision.undisputed.has_inode(index) || named.contains(inode);
            if *inode != self.facts.root && !fact.is_internal && !is_named {
                let key = (fact.file_type, above(fact.file_type, fact.dot_dot));
                nameless.entry(key).and_modify(|only| *only = None).or_insert(Some(*inode));
            }
        }
        let mut matched = BTreeMap::new();
        for (directory, name, _, file_type) in &suspects {
            let key = (*file_type, above(*file_type, Some(*directory)));
            if let Some(inode) = nameless.get(&key).copied().flatten() {
                matched.insert((*directory, name.clone()), inode);
            }
        }
        let mut uses: HashMap<InodeNumber, u32> = HashMap::new();
        matched.values().for_each(|inode| *uses.entry(*inode).or_default() += 1);
        // Two entries cannot both have lost the same inode.
        matched.retain(|_, inode| uses.get(inode) == Some(&1));
        named.extend(matched.values().copied());
        for (directory, name, inode, _) in suspects {
            let place = (directory, name);
            if let Some(kept) = matched.get(&place).copied().filter(|_| named.contains(&inode)) {
                let (kept_by, rejected_by) = (Strength::Entry, Strength::Entry);
                self.reject(&place, Rejection::OtherInode { kept, kept_by, rejected_by });
                self.decision.links.insert(place, kept);
            }
        }
    }

    /// The type that an entry says, where its inode has another one.
    fn contradicting_type(
        &self,
        directory: InodeNumber,
        name: &Name,
        inode: InodeNumber,
    ) -> Option<FileType> {
        let link = Link { directory, name: name.clone(), inode };
        let said = self.facts.links.get(&link)?.entry_type?;
        let fact = self.facts.inodes.get(&inode)?;
        (said != fact.file_type).then_some(said)
    }

    /// The strength of a link that was chosen, and whether `..` of the directory agrees.
    fn weight(&self, directory: InodeNumber, name: &Name, inode: InodeNumber) -> (bool, bool, Strength) {
        let link = Link { directory, name: name.clone(), inode };
        let witnesses = self.facts.links.get(&link).copied().unwrap_or_default();
        let strength = self.strength(&link, &witnesses).unwrap_or(Strength::OldPointer);
        let dot_dot = self.facts.directory(inode).and_then(|fact| fact.dot_dot);
        (strength == Strength::Both, dot_dot == Some(directory), strength)
    }

    /// Whether a hash beside the name says the same.
    fn has_hash(&self, directory: InodeNumber, inode: InodeNumber, strength: Strength) -> bool {
        let fact = |number| self.facts.inodes.get(&number);
        match is_pointer(strength) {
            true => fact(inode).is_some_and(|fact| fact.has_hashed_pointers),
            false => fact(directory).is_some_and(|fact| fact.has_hashed_entries),
        }
    }

    /// One name for each directory.
    fn choose_names_of_directories(&mut self) {
        let mut names: BTreeMap<InodeNumber, Vec<(InodeNumber, Name)>> = BTreeMap::new();
        for ((directory, name), inode) in &self.decision.links {
            if self.is_directory(*inode) {
                names.entry(*inode).or_default().push((*directory, name.clone()));
            }
        }
        for (inode, mut names) in names {
            names.sort_by_key(|(directory, name)| {
                let (is_both, is_dot_dot, strength) = self.weight(*directory, name, inode);
                let last = std::cmp::Reverse((*directory, name.clone()));
                let has_hash = self.has_hash(*directory, inode, strength);
                (is_both, is_dot_dot, is_text(name), has_hash, strength, last)
            });
            // The strongest comes last.
            let Some(kept) = names.pop() else { continue };
            for place in names {
                self.reject_for(&place, &kept, inode);
            }
        }
    }

    /// Names in blocks that no map leads to, for inodes that lack names.
    fn take_strays(&mut self) {
        let mut missing = if self.facts.strays.is_empty() {
            BTreeMap::new()
        } else {
            strays::missing_names(self.facts, &self.decision)
        };
        let mut strays: Vec<(&Link, &Stray)> = self.facts.strays.iter().collect();
        strays.sort_by_key(|(_, stray)| std::cmp::Reverse(stray.lsn));
        for (link, stray) in strays {
            let Some(missing) = missing.get_mut(&link.inode).filter(|missing| **missing > 0) else {
                continue;
            };
            let file_type =
                self.facts.inodes.get(&link.inode).map_or(FileType::Directory, |fact| fact.file_type);
            let place = (link.directory, link.name.clone());
            let is_possible = stray.file_type.is_none_or(|stray| stray == file_type)
                && self.is_directory(link.directory)
                && link.directory != link.inode
                && is_possible_name(&link.name);
            if is_possible && !self.decision.links.contains_key(&place) {
                self.decision.links.insert(place, link.inode);
                *missing -= 1;
            }
        }
    }

    /// Every directory leads to a root.
    fn break_circles(&mut self) {
        let mut parents: BTreeMap<InodeNumber, (InodeNumber, Name)> = BTreeMap::new();
        for ((directory, name), inode) in &self.decision.links {
            if self.is_directory(*inode) {
                parents.insert(*inode, (*directory, name.clone()));
            }
        }
        let mut settled: HashSet<InodeNumber> = HashSet::new();
        for start in parents.keys().copied().collect::<Vec<_>>() {
            let (mut way, mut on_way) = (Vec::new(), HashSet::new());
            let mut at = start;
            while !settled.contains(&at) && on_way.insert(at) {
                way.push(at);
                match parents.get(&at) {
                    Some((parent, _)) => at = *parent,
                    None => break,
                }
            }
            if on_way.contains(&at) && parents.contains_key(&at) && !settled.contains(&at) {
                let circle = way.iter().copied().skip_while(|inode| *inode != at);
                let weakest = circle.min_by_key(|inode| {
                    parents.get(inode).map(|(directory, name)| self.weight(*directory, name, *inode))
                });
                if let Some(place) = weakest.and_then(|inode| parents.remove(&inode)) {
                    self.reject(&place, Rejection::Circle);
                }
            }
            settled.extend(way);
        }
    }

    /// Inodes that have no name.
    fn find_lost_inodes(&mut self) {
        let named: HashSet<InodeNumber> = self.decision.links.values().copied().collect();
        let is_root =
            |inode: InodeNumber| inode == self.facts.root || Some(inode) == self.facts.metadata_root;
        let in_use = self.facts.inodes.iter().enumerate();
        let in_use = in_use
            .filter(|(index, (_, fact))| !fact.is_internal && !self.decision.undisputed.has_inode(*index))
            .map(|(_, (inode, _))| *inode);
        // Nothing of the metadata directory tree gets a name among the files of users.
        let new = self.decision.directories.iter().filter(|(_, new)| !new.is_metadata);
        let all = in_use.chain(new.map(|(inode, _)| *inode));
        let lost: BTreeSet<InodeNumber> =
            all.filter(|inode| !named.contains(inode) && !is_root(*inode)).collect();
        let mut best: BTreeMap<InodeNumber, Name> = BTreeMap::new();
        for (index, link) in self.facts.links.keys().enumerate() {
            if !self.decision.undisputed.has_link(index)
                && lost.contains(&link.inode)
                && is_possible_name(&link.name)
            {
                best.entry(link.inode).or_insert_with(|| link.name.clone());
            }
        }
        let mut taken: HashSet<Name> = HashSet::new();
        for inode in lost {
            if self.facts.is_unlinked(inode) && !best.contains_key(&inode) {
                self.decision.unlinked.insert(inode);
                continue;
            }
            let best = best.remove(&inode).map(|name| self.facts.lost_name(inode, &name));
            let best = best.filter(|name| !taken.contains(name));
            let name = best.unwrap_or_else(|| self.facts.plain_name(inode));
            taken.insert(name.clone());
            self.decision.lost.insert(inode, name);
        }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

//! The inodes that the kernel remembers.
//!
//! Invariants:
//! 1. **A node costs its number.** A node id is an inode number, so a node is a count; its inode is opened for each request. Inodes that lie
//!    beside each other share an entry of the table. The root alone has another id.
//! 2. **An unlinked inode stays.** An inode that lost its last name while the kernel remembers it is held by a handle until the kernel
//!    forgets it: its number gets no other inode before.
//! 3. **A count is right.** Each reply that names an inode counts once, before the reply is sent; what the kernel never got is taken
//!    back.
//! 4. **A bare node has no extended attribute.** The kernel asks for attributes again and again; of a bare node the answer is known. A node
//!    becomes bare only if no attribute was set in its part of the table since its inode was looked at, and is dressed before one is set.
//! 5. Reading entries of a directory first sets its listed bit; only the change that invalidates the cached listing clears it.

use std::{
    collections::hash_map::{Entry, HashMap},
    sync::atomic::{AtomicBool, Ordering::AcqRel},
};

use parking_lot::Mutex;
use uxfs_filesystem::inode::table::InodeHandle;
use uxfs_format::units::InodeNumber;

use crate::protocol::ROOT_NODE_ID;

/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 64;
/// Inodes of one entry.
const NEIGHBOURS: usize = 8;

/// Nodes that lie beside each other.
#[derive(Debug, Default)]
struct Group {
    /// How often the kernel got each.
    lookups: [u32; NEIGHBOURS],
    /// A bit for each that has no extended attribute.
    bare: u8,
    /// The listed bits: directories whose entries the kernel may have cached.
    listed: u8,
}

#[derive(Debug, Default)]
struct Shard {
    groups: HashMap<u64, Group>,
    /// Inodes without names.
    held: HashMap<u64, InodeHandle>,
    /// Counts that outgrew their field: what is here comes on top.
    overflown: HashMap<u64, u64>,
    /// Counts beginnings and ends of changes of attributes.
    changes: u64,
    /// Changes of attributes that have begun.
    changing: u32,
}

/// When an inode was looked at: see invariant 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(u64);

/// All nodes that the kernel remembers, but for the root.
#[derive(Debug)]
pub struct Nodes {
    root: InodeNumber,
    shards: Box<[Mutex<Shard>]>,
    is_root_listed: AtomicBool,
}

impl Nodes {
    /// Of a file system with this root directory.
    #[must_use]
    pub fn new(root: InodeNumber) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { root, shards, is_root_listed: AtomicBool::new(false) }
    }

    /// The inode of a node.
    #[must_use]
    pub fn inode_of(&self, node: u64) -> InodeNumber {
        if node == ROOT_NODE_ID { self.root } else { InodeNumber::new(node) }
    }

    /// The node of an inode.
    #[must_use]
    pub fn node_of(&self, inode: InodeNumber) -> u64 {
        if inode == self.root { ROOT_NODE_ID } else { inode.get() }
    }

    /// Before an inode is looked at, whether it has attributes.
    #[must_use]
    pub fn moment(&self, inode: InodeNumber) -> Moment {
        self.change(inode, |shard| Moment(if shard.changing == 0 { shard.changes } else { u64::MAX }))
    }

    /// Counts a reply that names this inode. `bare_since`: it had no attribute when it was looked at after this moment.
    pub fn remember(&self, inode: InodeNumber, bare_since: Option<Moment>) {
        if inode != self.root {
            self.change(inode, |shard| shard.remember(inode.get(), bare_since));
        }
    }

    /// As [`remember`](Self::remember), of an inode without a name.
    pub fn remember_unnamed(&self, handle: &InodeHandle) {
        let number = handle.number();
        self.change(number, |shard| {
            shard.remember(number.get(), None);
            shard.held.entry(number.get()).or_insert_with(|| handle.clone());
        });
    }

    /// Holds an inode that lost its last name, if the kernel remembers it.
    pub fn hold(&self, handle: &InodeHandle) {
        let number = handle.number().get();
        self.change(handle.number(), |shard| {
            if shard.count_of(number) > 0 {
                shard.held.entry(number).or_insert_with(|| handle.clone());
            }
        });
    }

    /// Whether the inode of a node is known to have no extended attribute.
    #[must_use]
    pub fn is_bare(&self, node: u64) -> bool {
        let (group, place) = place_of(node);
        node != ROOT_NODE_ID
            && self.change(InodeNumber::new(node), |shard| {
                shard.groups.get(&group).is_some_and(|group| group.bare & (1 << place) != 0)
            })
    }

    /// Changes the attributes of a node: it is not bare any more.
    pub fn change_attributes<T>(&self, node: u64, change: impl FnOnce() -> T) -> T {
        let inode = self.inode_of(node);
        self.change(inode, |shard| shard.begin_change(inode.get()));
        let result = change();
        self.change(inode, Shard::end_change);
        result
    }

    /// Sets the listed bit, before entries are read for a reply.
    pub fn will_list(&self, node: u64) {
        self.set_listed(node, true);
    }

    /// Clears the listed bit after entries changed. Returns whether it was set.
    #[must_use]
    pub fn was_listed(&self, node: u64) -> bool {
        self.set_listed(node, false)
    }

    /// Returns the old value.
    fn set_listed(&self, node: u64, is_listed: bool) -> bool {
        if node == ROOT_NODE_ID {
            return self.is_root_listed.swap(is_listed, AcqRel);
        }
        let (group, place) = place_of(node);
        self.change(InodeNumber::new(node), |shard| {
            let Some(group) = shard.groups.get_mut(&group) else { return true };
            let before = group.listed;
            group.listed = before & !(1 << place) | u8::from(is_listed) << place;
            before & (1 << place) != 0
        })
    }

    /// The kernel forgets so many replies. Gives whether an inode without names may go now.
    pub fn forget(&self, node: u64, lookups: u64) -> bool {
        // The last handle goes outside the lock.
        let gone = match node {
            ROOT_NODE_ID => None,
            _ => self.change(InodeNumber::new(node), |shard| shard.forget(node, lookups)),
        };
        gone.is_some()
    }

    /// Forgets all.
    pub fn forget_all(&self) {
        for shard in &self.shards {
            let nodes = std::mem::take(&mut *shard.lock());
            drop(nodes);
        }
    }

    /// How many nodes the kernel remembers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().count()).sum()
    }

    fn change<T>(&self, inode: InodeNumber, change: impl FnOnce(&mut Shard) -> T) -> T {
        let shard = (inode.get() / (2 * NEIGHBOURS as u64)) as usize % SHARDS;
        match self.shards.get(shard) {
            Some(shard) => change(&mut shard.lock()),
            None => change(&mut Shard::default()),
        }
    }
}

/// Group and place in it.
fn place_of(node: u64) -> (u64, usize) {
    (node / NEIGHBOURS as u64, (node % NEIGHBOURS as u64) as usize)
}

impl Shard {
    fn remember(&mut self, node: u64, bare_since: Option<Moment>) {
        let (group, place) = place_of(node);
        let is_bare = self.changing == 0 && bare_since == Some(Moment(self.changes));
        let group = self.groups.entry(group).or_default();
        if let Some(lookups) = group.lookups.get_mut(place) {
            match lookups.checked_add(1) {
                Some(more) => *lookups = more,
                None => *self.overflown.entry(node).or_default() += 1,
            }
        }
        if is_bare {
            group.bare |= 1 << place;
        }
    }

    fn count_of(&self, node: u64) -> u64 {
        let (group, place) = place_of(node);
        let lookups = self.groups.get(&group).and_then(|group| group.lookups.get(place)).copied();
        u64::from(lookups.unwrap_or(0)) + self.overflown.get(&node).copied().unwrap_or(0)
    }

    fn forget(&mut self, node: u64, lookups: u64) -> Option<InodeHandle> {
        let (group, place) = place_of(node);
        // The kernel forgets more than it got only if a reply was lost.
        let left = self.count_of(node).saturating_sub(lookups);
        let field = u32::try_from(left).unwrap_or(u32::MAX);
        match left - u64::from(field) {
            0 => drop(self.overflown.remove(&node)),
            more => drop(self.overflown.insert(node, more)),
        }
        if let Entry::Occupied(mut entry) = self.groups.entry(group) {
            let group = entry.get_mut();
            if let Some(lookups) = group.lookups.get_mut(place) {
                *lookups = field;
            }
            if left == 0 {
                group.bare &= !(1 << place);
                group.listed &= !(1 << place);
                if group.lookups == [0; NEIGHBOURS] {
                    entry.remove();
                }
            }
        }
        if left == 0 { self.held.remove(&node) } else { None }
    }

    fn begin_change(&mut self, node: u64) {
        let (group, place) = place_of(node);
        (self.changes, self.changing) = (self.changes + 1, self.changing + 1);
        if let Some(group) = self.groups.get_mut(&group) {
            group.bare &= !(1 << place);
        }
    }

    fn end_change(&mut self) {
        (self.changes, self.changing) = (self.changes + 1, self.changing.saturating_sub(1));
    }

    fn count(&self) -> usize {
        self.groups.values().flat_map(|group| group.lookups).filter(|lookups| *lookups > 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Nodes {
        Nodes::new(InodeNumber::new(128))
    }

    #[test]
    fn invariant_3_counts_are_right_also_beyond_their_field() {
        let nodes = nodes();
        for inode in [131, 132, 999] {
            nodes.remember(InodeNumber::new(inode), None);
            nodes.remember(InodeNumber::new(inode), None);
        }
        nodes.remember(InodeNumber::new(128), None);
        assert_eq!(nodes.count(), 3);
        nodes.forget(131, 1);
        assert_eq!(nodes.count(), 3);
        nodes.forget(131, 1);
        nodes.forget(132, 77);
        assert_eq!(nodes.count(), 1);
        let mut shard = Shard::default();
        shard.groups.entry(0).or_default().lookups = [u32::MAX - 1; NEIGHBOURS];
        (0..5).for_each(|_| shard.remember(3, None));
        assert_eq!(shard.count_of(3), u64::from(u32::MAX) + 4);
        shard.forget(3, 6);
        assert_eq!((shard.count_of(3), shard.overflown.len()), (u64::from(u32::MAX) - 2, 0));
        assert_eq!(shard.count_of(4), u64::from(u32::MAX) - 1);
    }

    #[test]
    fn invariant_4_a_node_is_bare_only_while_no_attribute_was_set() {
        let (nodes, inode) = (nodes(), InodeNumber::new(131));
        let moment = nodes.moment(inode);
        nodes.remember(inode, Some(moment));
        nodes.remember(InodeNumber::new(132), None);
        assert!(nodes.is_bare(131) && !nodes.is_bare(132) && !nodes.is_bare(133));
        nodes.change_attributes(131, || {
            assert!(!nodes.is_bare(131));
            // Looked at while it changes.
            nodes.remember(inode, Some(nodes.moment(inode)));
            assert!(!nodes.is_bare(131));
        });
        // Looked at before the change, counted after it.
        nodes.remember(inode, Some(moment));
        assert!(!nodes.is_bare(131));
        nodes.remember(inode, Some(nodes.moment(inode)));
        assert!(nodes.is_bare(131));
        nodes.forget(131, 4);
        assert!(!nodes.is_bare(131));
        // The root is never bare: it is not counted.
        nodes.remember(InodeNumber::new(128), Some(moment));
        assert!(!nodes.is_bare(1) && !nodes.is_bare(128));
    }

    #[test]
    fn invariant_5_a_directory_is_listed_until_its_names_change() {
        let nodes = nodes();
        nodes.remember(InodeNumber::new(131), None);
        nodes.remember(InodeNumber::new(132), None);
        for node in [ROOT_NODE_ID, 131] {
            assert!(!nodes.was_listed(node));
            nodes.will_list(node);
            assert!(!nodes.was_listed(132));
            assert!(nodes.was_listed(node) && !nodes.was_listed(node), "{node}");
        }
        nodes.will_list(131);
        nodes.forget(131, 1);
        nodes.remember(InodeNumber::new(131), None);
        assert!(!nodes.was_listed(131));
        // One that the table does not have.
        assert!(nodes.was_listed(500));
    }

    #[test]
    fn invariant_1_a_million_nodes_take_little_memory() {
        // A table has at most twice the room that it needs, and a byte for each place.
        let of_a_group = 2 * (size_of::<(u64, Group)>() + 1);
        assert!(1_000_000 / NEIGHBOURS * of_a_group < 20_000_000, "{of_a_group} bytes");
        // Inodes that lie alone.
        assert!(1_000_000 * of_a_group < 200_000_000, "{of_a_group} bytes");
    }
}

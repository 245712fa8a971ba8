//! The inodes that the kernel remembers.
//!
//! Invariants:
//! 1. **A node costs its number.** A node id is an inode number, so a node is a count; its inode is opened for each request. The root
//!    alone has another id.
//! 2. **An unlinked inode stays.** An inode that lost its last name while the kernel remembers it is held by a handle until the kernel
//!    forgets it: its number gets no other inode before.
//! 3. **A count is right.** Each reply that names an inode counts once, before the reply is sent; what the kernel never got is taken
//!    back.

use std::collections::hash_map::{Entry, HashMap};

use parking_lot::Mutex;
use uxfs_filesystem::inode::table::InodeHandle;
use uxfs_format::units::InodeNumber;

use crate::protocol::ROOT_NODE_ID;

/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 64;
/// Consecutive inode numbers of one part.
const NEIGHBOURS: u64 = 16;

/// A node that the kernel remembers.
#[derive(Debug)]
struct Node {
    /// How often the kernel got it.
    lookups: u64,
    /// Of an inode without names.
    held: Option<InodeHandle>,
}

/// All nodes that the kernel remembers, but for the root.
#[derive(Debug)]
pub struct Nodes {
    root: InodeNumber,
    shards: Box<[Mutex<HashMap<u64, Node>>]>,
}

impl Nodes {
    /// Of a file system with this root directory.
    #[must_use]
    pub fn new(root: InodeNumber) -> Self {
        Self { root, shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
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

    /// Counts a reply that names this inode.
    pub fn remember(&self, inode: InodeNumber) {
        if inode != self.root {
            self.change(inode, |shard| {
                shard.entry(inode.get()).or_insert(Node { lookups: 0, held: None }).lookups += 1;
            });
        }
    }

    /// As [`remember`](Self::remember), of an inode without a name.
    pub fn remember_unnamed(&self, handle: &InodeHandle) {
        let number = handle.number();
        self.change(number, |shard| {
            let node = shard.entry(number.get()).or_insert(Node { lookups: 0, held: None });
            node.lookups += 1;
            node.held.get_or_insert_with(|| handle.clone());
        });
    }

    /// Holds an inode that lost its last name, if the kernel remembers it.
    pub fn hold(&self, handle: &InodeHandle) {
        self.change(handle.number(), |shard| {
            if let Some(node) = shard.get_mut(&handle.number().get()) {
                node.held.get_or_insert_with(|| handle.clone());
            }
        });
    }

    /// The kernel forgets so many replies. Gives whether an inode without names may go now.
    pub fn forget(&self, node: u64, lookups: u64) -> bool {
        if node == ROOT_NODE_ID {
            return false;
        }
        let inode = InodeNumber::new(node);
        let gone = self.change(inode, |shard| match shard.entry(node) {
            Entry::Occupied(entry) if entry.get().lookups <= lookups => entry.remove().held,
            Entry::Occupied(mut entry) => {
                entry.get_mut().lookups -= lookups;
                None
            }
            // The kernel forgets more than it got only if a reply was lost.
            Entry::Vacant(_) => None,
        });
        // The last handle goes outside the lock.
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
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn change<T>(&self, inode: InodeNumber, change: impl FnOnce(&mut HashMap<u64, Node>) -> T) -> T {
        let shard = (inode.get() / NEIGHBOURS) as usize % SHARDS;
        match self.shards.get(shard) {
            Some(shard) => change(&mut shard.lock()),
            None => change(&mut HashMap::new()),
        }
    }
}

//! The file system object: everything is reached through `&FileSystem`, from as many threads as the caller has.

use std::{ops::Deref, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use uxfs_block::lock_order::{LockKey, Ordered};
use uxfs_engine::engine::AnyEngine;

use crate::inode::table::InodeTable;

/// A file system that is mounted for changes: an engine of either mode with the inodes that are open.
#[derive(Debug)]
pub struct FileSystem {
    engine: AnyEngine,
    /// Inodes that are open, and those that were.
    inodes: Arc<InodeTable>,
    /// Held while a directory gets another parent.
    tree_lock: Mutex<()>,
}

impl Deref for FileSystem {
    type Target = AnyEngine;

    #[inline]
    fn deref(&self) -> &AnyEngine {
        &self.engine
    }
}

impl FileSystem {
    /// A file system over an engine, with no inode open.
    pub(crate) fn of(engine: AnyEngine) -> Self {
        let inodes = Arc::<InodeTable>::default();
        let of_engine = Arc::clone(&inodes);
        if let Some(engine) = engine.logged() {
            inodes.belongs_to(engine);
        }
        engine.on_memory_shortage(move |cache| of_engine.make_way_for_extents(cache));
        Self { engine, inodes, tree_lock: Mutex::default() }
    }

    /// The engine that changes it.
    pub fn engine(&self) -> &AnyEngine {
        &self.engine
    }

    /// Keeps directories where they are. It comes before the locks of inodes.
    #[doc(alias = "s_vfs_rename_mutex")]
    pub(crate) fn lock_tree(&self) -> Ordered<MutexGuard<'_, ()>> {
        Ordered::wait(LockKey::Tree, || self.tree_lock.lock())
    }

    pub(crate) fn inode_table(&self) -> &InodeTable {
        &self.inodes
    }
}

//! The file system object. Everything is reached through `&FileSystem`, from as many threads as the caller has.

mod background;
mod counters;
mod log_room;
mod logged;
mod moved;
mod sources;
mod writing;

use parking_lot::Mutex;
use uxfs_journal::LogState;
pub use uxfs_volume::volume::MetadataBuffer;
use uxfs_volume::volume::Volume;

use self::writing::Writing;
use crate::{inode::table::InodeTable, mount::MountOptions, transaction::reservation::Needs};

/// A mounted file system.
#[derive(Debug)]
pub struct FileSystem {
    volume: Volume,
    log_state: Option<LogState>,
    options: MountOptions,
    /// Inodes that are open, and those that were.
    inodes: InodeTable,
    /// What operations may take.
    needs: Needs,
    /// Held while a directory gets another parent.
    tree_lock: Mutex<()>,
    /// What changing takes; none for a file system mounted for reading.
    writing: Option<Writing>,
}

impl std::ops::Deref for FileSystem {
    type Target = Volume;

    #[inline]
    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl FileSystem {
    pub(crate) fn new(volume: Volume, log_state: Option<LogState>, options: MountOptions) -> Self {
        let needs = Needs::new(volume.geometry());
        let inodes = InodeTable::default();
        Self { volume, log_state, options, inodes, tree_lock: Mutex::default(), needs, writing: None }
    }

    /// What it is read from.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// What operations may take.
    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    /// What keeps directories where they are. It comes before the locks of inodes.
    #[doc(alias = "s_vfs_rename_mutex")]
    pub(crate) fn tree_lock(&self) -> &Mutex<()> {
        &self.tree_lock
    }

    pub(crate) fn inode_table(&self) -> &InodeTable {
        &self.inodes
    }

    /// What the log said at mount: never that it is dirty. `None` where it was ignored.
    pub fn log_state(&self) -> Option<&LogState> {
        self.log_state.as_ref()
    }

    /// How it was mounted.
    pub fn options(&self) -> MountOptions {
        self.options
    }
}

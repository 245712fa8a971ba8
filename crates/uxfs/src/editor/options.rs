//! How an image is opened for changes, and what changes of a file.

use std::{path::Path, time::Duration};

use uxfs_block::claim::Lock;
use uxfs_engine::options::{Clock, LogOptions, MountOptions};
use uxfs_filesystem::filesystem::FileSystem;

use super::Editor;
use crate::{
    Result, Timestamp,
    error::About,
    opening::{Opening, opening_methods},
};

/// How an image is opened for changes.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("disk.img");
/// # uxfs::Maker::new().size(300 << 20).make(&path)?;
/// // All times that change are 2020-01-01.
/// let time = uxfs::Timestamp { seconds: 1_577_836_800, nanoseconds: 0 };
/// let editor = uxfs::EditorOptions::new().time(time).open(&path)?;
/// editor.write("/a", b"")?;
/// assert_eq!(editor.metadata("/a")?.modified, time);
/// editor.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct EditorOptions {
    opening: Opening,
    time: Option<Timestamp>,
    checkpoint_interval: Option<Duration>,
}

impl Default for EditorOptions {
    fn default() -> Self {
        Self {
            opening: Opening::default(),
            time: None,
            checkpoint_interval: Some(LogOptions::USUAL_CHECKPOINT_INTERVAL),
        }
    }
}

impl EditorOptions {
    opening_methods!();

    /// The time of all changes, in place of the clock's.
    #[must_use]
    pub fn time(mut self, time: Timestamp) -> Self {
        self.time = Some(time);
        self
    }

    /// How long a change may stay out of the log while the image is open; 30 seconds unless given. A change that a crash finds
    /// in the log is not lost. `None` sets no limit: changes go to the log when much of them has come together, at
    /// [`Editor::sync`] and at [`Editor::close`].
    #[must_use]
    pub fn checkpoint_interval(mut self, interval: Option<Duration>) -> Self {
        self.checkpoint_interval = interval;
        self
    }

    /// Opens the image at `path`.
    ///
    /// # Errors
    /// No XFS V5 file system; features that uxfs cannot write; damage; a dirty log that cannot be replayed; the image is in
    /// use; the device.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Editor> {
        let path = path.as_ref();
        self.try_open(path).about(path.display())
    }

    fn try_open(&self, path: &Path) -> Result<Editor> {
        let device = self.opening.device(path, true, Lock::Exclusive)?;
        let log = LogOptions {
            has_background: true,
            checkpoint_interval: self.checkpoint_interval,
            ..LogOptions::default()
        };
        let clock = self.time.map_or(Clock::System, |time| Clock::Fixed(time.into()));
        let options = MountOptions { clock, log, ..self.opening.mount_options() };
        Ok(Editor { filesystem: FileSystem::mount_logged(device, &options)? })
    }
}

/// Changes of a file's metadata for [`Editor::change`]; fields that are `None` stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    pub(super) permissions: Option<u16>,
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) accessed: Option<Timestamp>,
    pub(super) modified: Option<Timestamp>,
}

impl Changes {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Permissions with set-id bits and the sticky bit.
    #[must_use]
    pub fn permissions(mut self, permissions: u16) -> Self {
        self.permissions = Some(permissions & 0o7777);
        self
    }

    /// Owner and group.
    #[must_use]
    pub fn owner(mut self, user: u32, group: u32) -> Self {
        (self.user, self.group) = (Some(user), Some(group));
        self
    }

    /// The time of the last access.
    #[must_use]
    pub fn accessed(mut self, time: impl Into<Timestamp>) -> Self {
        self.accessed = Some(time.into());
        self
    }

    /// The time of the last change of contents.
    #[must_use]
    pub fn modified(mut self, time: impl Into<Timestamp>) -> Self {
        self.modified = Some(time.into());
        self
    }
}

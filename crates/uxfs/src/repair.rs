//! Repairing an image, and taking that back.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use uxfs_block::{
    claim::Lock,
    device::BlockDevice,
    engine::{self, OpenOptions, overlay::OverlayDevice},
};
use uxfs_format::geometry::Geometry;
use uxfs_repair::{
    commit::{self, About as AboutFile, Existing, State, UndoFile, UndoOptions, default_path},
    repair::{
        RepairOptions, Staged,
        action::{Action, Certainty as InternalCertainty},
        repair,
    },
};
use uxfs_volume::{tolerant::TolerantOptions, volume::Volume};

use crate::{
    Finding, Image, Result,
    error::About,
    opening::{Opening, opening_methods},
};

/// How sure a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// It follows from other structures, which agree.
    Computed,
    /// One witness is left, and nothing contradicts it.
    Restored,
    /// Witnesses contradict each other, or none is left: [`Change::alternative`] says what else may be true.
    Guess,
    /// Something is lost, or has lost its place.
    Loss,
}

/// A change of a repair. [`Display`](fmt::Display) gives a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Its kind, as a word: the same as in `uxfs repair --json`.
    pub what: &'static str,
    /// How sure it is.
    pub certainty: Certainty,
    /// The row of the table in `docs/repair.md` that decided.
    pub rule: u16,
    /// The inode that is changed; of a name, its directory.
    pub inode: Option<u64>,
    /// Of a guess: what is true if it is wrong.
    pub alternative: Option<String>,
    /// For people.
    pub message: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Change {
    fn of(action: &Action, geometry: &Geometry) -> Self {
        let description = action.description();
        Self {
            what: description.what,
            certainty: match action.certainty() {
                InternalCertainty::Computed => Certainty::Computed,
                InternalCertainty::Restored => Certainty::Restored,
                InternalCertainty::Guess => Certainty::Guess,
                InternalCertainty::Loss => Certainty::Loss,
            },
            rule: description.rule.number(),
            inode: action.object(geometry).inode.map(|inode| inode.get()),
            alternative: action.alternative(),
            message: action.to_string(),
        }
    }
}

/// How an image is repaired.
#[derive(Debug, Clone, Copy, Default)]
pub struct RepairPlanner {
    opening: Opening,
    ignores_log_copies: bool,
}

impl RepairPlanner {
    opening_methods!();

    /// Uses no older copies of metadata that the log holds: for images that another program changed without writing the log.
    #[must_use]
    pub fn ignore_log_copies(mut self) -> Self {
        self.ignores_log_copies = true;
        self
    }

    /// Plans the repair of the image at `path`, which stays locked. Nothing is written to it.
    ///
    /// # Errors
    /// No superblock describes a file system; the image is mounted, read-only, or in use by another program; the device; temporary
    /// files.
    pub fn plan(&self, path: impl AsRef<Path>) -> Result<Repair> {
        let path = path.as_ref();
        self.try_plan(path).about(path.display())
    }

    fn try_plan(&self, path: &Path) -> Result<Repair> {
        let device = self.opening.device(path, true, Lock::Exclusive)?;
        let undo_path = default_path(path).ok();
        if let Some(undo_path) = undo_path.filter(|undo_path| undo_path.exists()) {
            // A repair that was cut off is finished: its file knows more than the image.
            let file = UndoFile::open(&undo_path)?;
            if commit::state_of(&file, device.as_ref())? == State::Partly {
                commit::apply(&file, device.as_ref())?;
            }
        }
        let options = RepairOptions {
            cache_budget_bytes: self.opening.cache_bytes,
            ignore_log_copies: self.ignores_log_copies,
            ..RepairOptions::default()
        };
        let staged = repair(&device, &options)?;
        let overlay: Arc<dyn BlockDevice> = Arc::<OverlayDevice>::clone(&staged.overlay);
        let volume = Volume::open_tolerantly(overlay, &TolerantOptions::default())?;
        let geometry = volume.geometry().clone();
        let changes = staged.actions.iter().map(|action| Change::of(action, &geometry)).collect();
        let remaining = staged.remaining.iter().map(|finding| Finding::of(finding, &geometry)).collect();
        let start_bytes = self.opening.offset_bytes;
        Ok(Repair { path: path.into(), device, start_bytes, staged, changes, remaining })
    }
}

/// A repair that was planned and not written. The image is locked as long as this lives.
pub struct Repair {
    path: PathBuf,
    device: Arc<dyn BlockDevice>,
    start_bytes: u64,
    staged: Staged,
    changes: Vec<Change>,
    remaining: Vec<Finding>,
}

/// A repair that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Bytes that changed, in whole sectors.
    pub changed_bytes: u64,
    /// Where the old bytes are kept, for [`undo`]; `None` where nothing changed or none was asked for.
    pub undo_file: Option<PathBuf>,
}

impl fmt::Debug for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repair")
            .field("path", &self.path)
            .field("changes", &self.changes)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

impl Repair {
    /// Plans the repair of the image at `path`. Nothing is written to it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("disk.img");
    /// # uxfs::Maker::new().size(300 << 20).make(&path)?;
    /// # use std::os::unix::fs::FileExt;
    /// # let file = std::fs::OpenOptions::new().write(true).open(&path)?;
    /// # file.write_all_at(&[0; 512], 0)?; // The superblock.
    /// # let damaged = std::fs::read(&path)?;
    /// let repair = uxfs::Repair::plan(&path)?;
    /// for change in repair.changes() {
    ///     println!("{change}");
    ///     if let Some(alternative) = &change.alternative {
    ///         println!("    a guess; otherwise {alternative}");
    ///     }
    /// }
    /// assert!(repair.is_complete() && !repair.is_clean());
    /// // The image as it will be.
    /// assert!(repair.image()?.find("/").is_ok());
    /// let written = repair.write()?;
    /// assert!(uxfs::check(&path)?.is_sound());
    ///
    /// // And back.
    /// uxfs::undo(&path, written.undo_file.unwrap())?;
    /// # assert!(damaged == std::fs::read(&path)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`RepairPlanner::plan`].
    pub fn plan(path: impl AsRef<Path>) -> Result<Self> {
        RepairPlanner::default().plan(path)
    }

    /// What will change, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What cannot be repaired. Where there is anything, nothing can be written.
    pub fn remaining(&self) -> &[Finding] {
        &self.remaining
    }

    /// Whether nothing is left after the repair.
    pub fn is_complete(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Whether the image is sound as it is.
    pub fn is_clean(&self) -> bool {
        self.staged.is_clean()
    }

    /// The image as it will be.
    ///
    /// # Errors
    /// Damage that is left.
    pub fn image(&self) -> Result<Image> {
        let overlay: Arc<dyn BlockDevice> = Arc::<OverlayDevice>::clone(&self.staged.overlay);
        Ok(Image::of(Volume::open_tolerantly(overlay, &TolerantOptions::default())?))
    }

    /// Writes the repair. What is written over is kept beside the image, in `IMAGE.uxfs-undo`; a block device needs
    /// [`write_with_undo`](Self::write_with_undo).
    ///
    /// # Errors
    /// Something would be left; no room for the undo file: then nothing is written. The device: then the image is marked as in need of
    /// repair, and the next repair finishes this one.
    pub fn write(self) -> Result<Written> {
        let undo_file = default_path(&self.path)?;
        self.write_with_undo(undo_file)
    }

    /// Writes the repair. What is written over is kept in this file, which is replaced.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_with_undo(self, undo_file: impl AsRef<Path>) -> Result<Written> {
        let path = undo_file.as_ref().to_path_buf();
        let about = AboutFile {
            path: path.clone(),
            filesystem_uuid: self.staged.uuid()?,
            start_bytes: self.start_bytes,
            existing: Existing::Replace,
        };
        let changed_bytes = self.write_staged(Some(&about))?;
        Ok(Written { changed_bytes, undo_file: (changed_bytes > 0).then_some(path) })
    }

    /// Writes the repair and keeps nothing: it cannot be taken back, and if it is cut off, more may be lost.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_without_undo(self) -> Result<Written> {
        Ok(Written { changed_bytes: self.write_staged(None)?, undo_file: None })
    }

    fn write_staged(&self, about: Option<&AboutFile>) -> Result<u64> {
        if let Some(finding) = self.remaining.first() {
            let message = format!("the repair leaves {} findings, as {finding}", self.remaining.len());
            return Err(crate::Error::Corrupt { message }).about(self.path.display());
        }
        if self.is_clean() {
            return Ok(0);
        }
        self.staged.write(self.device.as_ref(), about).about(self.path.display())
    }
}

/// Takes a repair of the image at `path` back, byte for byte, from its undo file. Gives how many bytes were restored.
///
/// # Errors
/// The file is damaged, or of another image; the image was changed since: then nothing is written. The device: then call it again.
pub fn undo(path: impl AsRef<Path>, undo_file: impl AsRef<Path>) -> Result<u64> {
    let path = path.as_ref();
    let file = UndoFile::open(undo_file.as_ref())?;
    let options = OpenOptions {
        start_bytes: file.facts().start_bytes,
        writable: true,
        lock: Lock::Exclusive,
        ..OpenOptions::default()
    };
    let device = engine::open(path, &options).about(path.display())?;
    let undone = commit::undo(&file, device.as_ref(), UndoOptions::default()).about(path.display())?;
    Ok(if undone.found == State::NotApplied { 0 } else { undone.changed_bytes })
}

//! An image and the directory on which it is mounted.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;
use uxfs_testkit::verdict::repair_is_silent;

use super::{Stage, processes, program, tree::Tree};

/// Mounting may recover a log; unmounting writes the rest of the changes.
const LONGEST_MOUNT: Duration = Duration::from_secs(120);
const LONGEST_CHECK: Duration = Duration::from_secs(300);
const LONGEST_END: Duration = Duration::from_secs(20);

/// An image, its mount, and their end: whatever happens, nothing stays mounted.
pub struct Place<'s> {
    stage: &'s Stage,
    folder: Option<TempDir>,
    image: PathBuf,
    directory: PathBuf,
    watchdog: Option<(Sender<()>, JoinHandle<()>)>,
}

impl<'s> Place<'s> {
    /// A new image of this size, not mounted. After `limit` its mount is aborted: each system call in it fails then.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(stage: &'s Stage, size: &str, limit: Duration) -> Result<Self> {
        let folder = stage.folder()?;
        let image = folder.path().join("image");
        Self::with_image(stage, folder, image, size, limit)
    }

    /// As [`new`](Self::new), with the image in another folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn with_image(
        stage: &'s Stage,
        folder: TempDir,
        image: PathBuf,
        size: &str,
        limit: Duration,
    ) -> Result<Self> {
        let directory = folder.path().join("mount");
        fs::create_dir(&directory)?;
        let mut mkfs = Command::new(&stage.uxfs);
        program::run(mkfs.args(["mkfs", "--size", size]).arg(&image), LONGEST_MOUNT)?;
        let watchdog = Some(watch(directory.clone(), limit));
        Ok(Self { stage, folder: Some(folder), image, directory, watchdog })
    }

    /// As [`new`](Self::new), mounted.
    ///
    /// # Errors
    /// It cannot be made or mounted.
    pub fn mounted(stage: &'s Stage, size: &str, limit: Duration) -> Result<Self> {
        let place = Self::new(stage, size, limit)?;
        place.mount()?;
        Ok(place)
    }

    /// The image.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// A path in the mount.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.directory.join(path)
    }

    /// A folder beside the mount, for what must not be in it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(std::env::temp_dir, |folder| folder.path().to_owned()).join(name)
    }

    /// Mounts it.
    ///
    /// # Errors
    /// The words of `uxfs mount`.
    pub fn mount(&self) -> Result<()> {
        let mut command = Command::new(&self.stage.uxfs);
        command.arg("mount");
        if !self.stage.options.is_empty() {
            command.args(["-o", &self.stage.options]);
        }
        program::run(command.args([&self.image, &self.directory]), LONGEST_MOUNT)?;
        let supervisors = processes::of(&self.image).into_iter().filter(|process| !process.serves);
        self.stage.remember(supervisors.map(|process| process.id));
        Ok(())
    }

    /// Unmounts it as users do. All of it is in the image then.
    ///
    /// # Errors
    /// `uxfs umount` does not succeed; a process stays.
    pub fn unmount(&self) -> Result<()> {
        let mut command = Command::new(&self.stage.uxfs);
        program::run(command.arg("umount").arg(&self.directory), LONGEST_MOUNT)?;
        processes::wait_for_the_end(&self.image, LONGEST_END)
    }

    /// Kills both processes at once, as a crash of the machine would, and takes the dead mount away.
    ///
    /// # Errors
    /// They do not end.
    pub fn kill(&self) -> Result<()> {
        let all = processes::of(&self.image);
        ensure!(all.len() == 2, "a mount has two processes, and this one {all:?}");
        processes::kill(&all);
        processes::wait_for_the_end(&self.image, LONGEST_END)?;
        // Detached: programs of the load may still have files open.
        unmount(&self.directory, UnmountFlags::DETACH).context("taking the dead mount away")
    }

    /// Unmounts it and judges the image: `xfs_repair -n` and `uxfs check` find nothing, and the kernel's XFS shows the tree that the
    /// mount showed. Gives the number of paths.
    ///
    /// # Errors
    /// One of them says otherwise.
    pub fn finish(mut self) -> Result<usize> {
        let outcome = self.judge();
        if outcome.is_err() && self.stage.keep {
            self.keep();
        }
        outcome
    }

    fn judge(&self) -> Result<usize> {
        let tree = Tree::of(&self.directory).context("the tree that the mount shows")?;
        self.unmount()?;
        self.is_sound()?;
        let kernel = Tree::in_image(&self.image)?;
        tree.must_equal(&kernel).context("the kernel's XFS shows something else than the mount did")?;
        Ok(tree.len())
    }

    /// The image is sound for `xfs_repair -n` and for `uxfs check`.
    ///
    /// # Errors
    /// What they find.
    pub fn is_sound(&self) -> Result<()> {
        repair_is_silent(&self.image)?;
        let mut check = Command::new(&self.stage.uxfs);
        program::run(check.arg("check").arg(&self.image), LONGEST_CHECK).map(drop)
    }

    /// Leaves the image there when the load ends.
    fn keep(&mut self) {
        if let Some(folder) = self.folder.take() {
            println!("mount-load: kept in {}", folder.keep().display());
        }
    }
}

/// Aborts the mount where nothing stops this before.
fn watch(directory: PathBuf, limit: Duration) -> (Sender<()>, JoinHandle<()>) {
    let (stop, is_stopped) = mpsc::channel();
    let thread = thread::spawn(move || {
        if is_stopped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            println!("mount-load: {} is aborted after {} s", directory.display(), limit.as_secs());
            abort(&directory);
        }
    });
    (stop, thread)
}

/// Requests that wait are answered by an error, and nothing is mounted there any more.
fn abort(directory: &Path) {
    while unmount(directory, UnmountFlags::FORCE | UnmountFlags::DETACH).is_ok() {}
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.watchdog.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
        let left = processes::of(&self.image);
        abort(&self.directory);
        // A server that hangs is killed; what it has not written the log has.
        let begun = Instant::now();
        while begun.elapsed() < LONGEST_END && !processes::of(&self.image).is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
        processes::kill(&processes::of(&self.image));
        if !left.is_empty() && self.stage.keep {
            self.keep();
        }
    }
}

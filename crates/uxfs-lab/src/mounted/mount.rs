//! A real mount: the command `uxfs mount`, the two processes that it leaves behind, and their deaths.

use std::{
    fs::{self, File},
    io::{Read, Seek},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, openat},
    mount::{UnmountFlags, unmount},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use tempfile::TempDir;

/// A command that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(100);
const LONGEST_BUSY: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

/// A file system that the kernel shows. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    program: PathBuf,
    directory: TempDir,
    /// Of the kernel's directory of connections.
    connection: u32,
    server: OwnedFd,
    supervisor: OwnedFd,
    is_mounted: bool,
}

impl Mounted {
    /// Mounts an image with `uxfs mount`.
    ///
    /// # Errors
    /// The command fails or hangs.
    pub fn new(program: &Path, image: &Path, options: &str) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("uxfs-model-").tempdir()?;
        let mut command = Command::new(program);
        command.arg("mount");
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        run(command.arg(image).arg(directory.path())).context("mount")?;
        // From here on the mount is to go again, whatever is missing.
        let guard = Unmount(directory.path());
        let connection = connection_of(directory.path())?;
        let [server, supervisor] = ["uxfs-serve", "uxfs-mount"].map(|name| process_of(image, name));
        let (server, supervisor) = (server?, supervisor?);
        std::mem::forget(guard);
        Ok(Self { program: program.into(), directory, connection, server, supervisor, is_mounted: true })
    }

    /// The root directory.
    ///
    /// # Errors
    /// The kernel's.
    pub fn root(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(CWD, self.directory.path(), flags, Mode::empty())?)
    }

    /// Its number among the kernel's connections, and the process that serves.
    ///
    /// # Errors
    /// No further descriptor.
    pub fn lifeline(&self) -> Result<(u32, OwnedFd)> {
        Ok((self.connection, self.server.try_clone()?))
    }

    /// Kills the process that serves, and the other one where `both` says so. Call [`bury`](Self::bury) afterwards.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill(&self, both: bool) -> Result<()> {
        if both {
            pidfd_send_signal(&self.supervisor, Signal::KILL)?;
        }
        Ok(pidfd_send_signal(&self.server, Signal::KILL)?)
    }

    /// Waits until the processes have ended and the dead mount has gone. The process that mounted takes it away, where it lives.
    ///
    /// # Errors
    /// They do not end, or the mount stays.
    pub fn bury(mut self, both: bool) -> Result<()> {
        self.wait_for_the_end()?;
        if both {
            ensure!(self.is_there()?, "the mount has gone by itself");
            unmount(self.directory.path(), UnmountFlags::DETACH).context("a dead mount")?;
        }
        ensure!(!self.is_there()?, "the process that mounted has left the dead mount");
        self.is_mounted = false;
        Ok(())
    }

    /// Unmounts with `uxfs umount`: the image is whole afterwards.
    ///
    /// # Errors
    /// The command fails, or a process stays.
    pub fn unmount(mut self) -> Result<()> {
        let begun = Instant::now();
        // A process that another thread has just begun holds all files for a moment.
        while let Err(error) = run(Command::new(&self.program).arg("umount").arg(self.directory.path())) {
            ensure!(
                begun.elapsed() < LONGEST_BUSY && format!("{error:#}").contains("busy"),
                "umount: {error:#}"
            );
        }
        self.is_mounted = false;
        self.wait_for_the_end()
    }

    fn wait_for_the_end(&self) -> Result<()> {
        let timeout = Timespec { tv_sec: LONGEST.as_secs() as i64, tv_nsec: 0 };
        for (process, name) in [(&self.server, "serves"), (&self.supervisor, "mounted")] {
            let ready = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout))?;
            ensure!(ready > 0, "the process that {name} does not end");
        }
        Ok(())
    }

    fn is_there(&self) -> Result<bool> {
        Ok(entry_of(self.directory.path())?.is_some())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted {
            drop(Unmount(self.directory.path()));
            // Files may be open still, and the image is of no use any more.
            let _ = pidfd_send_signal(&self.supervisor, Signal::KILL);
            let _ = pidfd_send_signal(&self.server, Signal::KILL);
            let _ = self.wait_for_the_end();
        }
    }
}

/// Takes a mount away where it stands.
struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

/// Runs a command to its end.
///
/// # Errors
/// It fails or hangs; with its words.
pub fn run(command: &mut Command) -> Result<()> {
    let mut words = tempfile::tempfile()?;
    let quiet = command.stdin(Stdio::null()).stdout(words.try_clone()?).stderr(words.try_clone()?);
    let mut child = quiet.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() > LONGEST => {
                child.kill()?;
                bail!("{command:?} hangs: {}", text_of(&mut words));
            }
            None => thread::sleep(LOOK),
        }
    };
    ensure!(status.success(), "{command:?}: {status}: {}", text_of(&mut words));
    Ok(())
}

fn text_of(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    text.trim().to_owned()
}

/// The line of the table of mounts about the mount on this directory.
fn entry_of(directory: &Path) -> Result<Option<String>> {
    let directory = directory.to_str().context("a path in UTF-8")?;
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let found = table.lines().find(|line| line.split(' ').nth(4) == Some(directory));
    Ok(found.map(str::to_owned))
}

/// The kernel names a connection by the minor number of its device.
fn connection_of(directory: &Path) -> Result<u32> {
    let entry = entry_of(directory)?.context("nothing is mounted")?;
    ensure!(entry.contains(" - fuse"), "another mount: {entry}");
    let number = entry.split(' ').nth(2).and_then(|device| device.split_once(':'));
    let (_, minor) = number.context("a device number")?;
    Ok(minor.parse()?)
}

/// The process of this name that has the image on its command line.
fn process_of(image: &Path, name: &str) -> Result<OwnedFd> {
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process may have ended meanwhile.
        let Ok(found) = fs::read_to_string(entry.path().join("comm")) else { continue };
        if found.trim_end() != name {
            continue;
        }
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let has_image = line.split(|byte| *byte == 0).any(|word| word == image.as_os_str().as_bytes());
        if has_image && let Some(process) = Pid::from_raw(number) {
            return Ok(pidfd_open(process, PidfdFlags::empty())?);
        }
    }
    bail!("no process {name} of {}", image.display())
}

//! `uxfs umount`: unmounts, and waits until the image is whole.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use uxfs_block::{
    claim::Lock,
    engine::{OpenOptions, open},
};
use uxfs_fuse::{
    fork,
    mounting::{
        connection,
        direct::{self, DirectError},
        ending::{Ending, Waiting},
        fusermount::{self, FusermountError},
        mount_table::{MountEntry, MountTable},
    },
};

use crate::{
    cause::cause_of,
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    kind::{Kind, Note},
    mount_users::users_of,
    output::{notice, program},
    text::shell_path,
};

/// How often the image is tried.
const LOOK: Duration = Duration::from_millis(10);
/// A mount that is busy for longer is in use.
const LONGEST_BUSY: Duration = Duration::from_millis(500);
/// From then on it says what it waits for.
const PATIENCE: Duration = Duration::from_secs(5);
/// A server that takes longer is told about.
const LONGEST: Duration = Duration::from_secs(600);
/// A mount that is taken away by force leaves a server that has nothing more to do.
const LONGEST_AFTER_FORCE: Duration = Duration::from_secs(10);
/// Exit codes of the process that unmounts.
const FAILED: i32 = 2;
/// It is unmounted; its server was gone before.
const WAS_DEAD: i32 = 3;

/// Arguments of `uxfs umount`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Waits until everything is written and the image can be used by others, and fails where the last changes did not reach it. \
    fusermount3 -u and umount unmount as well, but return earlier.\n\
    Examples:\n  uxfs umount /mnt\n  uxfs umount --force /mnt\nWith --force its server need not answer; the next mount recovers the log."
)]
pub struct Arguments {
    /// Directory on which the image is mounted, or the image
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
    /// Detach it now, and end it when nothing uses it any more
    #[arg(short, long)]
    pub(crate) lazy: bool,
    /// Take it away though its server does not answer: what waits for it fails, and written data that the server has not got is lost
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments, _: &Context) -> Outcome {
    arguments.run().about_host(&arguments.directory)
}

impl Arguments {
    fn run(&self) -> Outcome {
        let table = MountTable::read()
            .map_err(|error| Failure::caused_by(&error).about("the table of mounts cannot be read"))?;
        let entry = self.find(&table)?;
        // Before it is unmounted: afterwards its process may be gone.
        let waiting = if self.lazy { None } else { Waiting::for_end_of(&entry) };
        self.unmount_bounded(&entry)?;
        if self.lazy {
            return Ok(Exit::Success);
        }
        // A directory of it may be mounted elsewhere, too (mount --bind): then its server goes on.
        if let Some(other) = other_mount_of(&entry) {
            tell(&entry, format_args!("unmounted; the image is still in use at {}", other.display()));
            return Ok(Exit::Success);
        }
        let ending = match waiting {
            Some(waiting) if self.force => wait_after_force(&waiting, &entry)?,
            Some(waiting) => wait_for_ending(&waiting, &entry)?,
            None => None,
        };
        match ending {
            Some(Ending { exit_code: 0, reason }) => {
                if !reason.is_empty() {
                    notice!(Note::Mount, "warning: {}: {reason}", entry.source.display());
                }
                Ok(Exit::Success)
            }
            Some(Ending { reason, .. }) => {
                let words = format!("unmounted, but the last changes did not reach the image: {reason}");
                Err(Failure::refused(Kind::Io, words).in_image(Path::new(&entry.source)))
            }
            // The process that mounted it is gone, or of another network namespace.
            None => wait_for_lock(Path::new(&entry.source)).map(|()| Exit::Success),
        }
    }

    /// The mount that is meant.
    fn find(&self, table: &MountTable) -> Result<MountEntry, Failure> {
        // A mount whose server is gone cannot be asked for its path.
        let path = fs::canonicalize(&self.directory)
            .or_else(|_| std::path::absolute(&self.directory))
            .map_err(|error| Failure::caused_by(&error))?;
        let Some(entry) = table.at(&path) else { return find_by_image(table, &path) };
        match entry.is_fuse() {
            true => Ok(entry.clone()),
            false => {
                let failure = format!("{} is mounted here, and not by uxfs", entry.file_system_type);
                let remedy = format!("umount {} ends that", shell_path(&self.directory));
                Err(Failure::refused(Kind::NotMounted, failure).with_remedy(&remedy))
            }
        }
    }

    /// Unmounts in a child: the kernel writes what it has cached, and no signal ends that where the server does not answer.
    fn unmount_bounded(&self, entry: &MountEntry) -> Result<(), Failure> {
        let cannot =
            |error: &(dyn std::error::Error + 'static)| Failure::caused_by(error).about("cannot unmount");
        let (said, say) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| cannot(&error))?;
        let work = move || match (self.is_dead(entry), self.unmount(entry)) {
            (false, Ok(())) => 0,
            (true, Ok(())) => WAS_DEAD,
            (_, Err((kind, words))) => {
                let _ = rustix::io::write(&say, &[&[kind as u8], words.as_bytes()].concat());
                FAILED
            }
        };
        let (mut child, said) = fork::fork(c"uxfs-umount", said, work).map_err(|error| cannot(&error))?;
        let mut status = child.wait_at_most(PATIENCE).map_err(|error| cannot(&error))?;
        if status.is_none() {
            tell(entry, format_args!("waiting for its server"));
            status = child.wait_at_most(LONGEST).map_err(|error| cannot(&error))?;
        }
        let Some(status) = status else {
            let words = format!("its server has not answered for {} seconds", LONGEST.as_secs());
            let remedy = format!("uxfs umount --force {} takes it away", shell_path(&self.directory));
            return Err(Failure::refused(Kind::TimedOut, words).with_remedy(&remedy));
        };
        let mut told = Vec::new();
        // The child is gone, and with it the other end.
        let _ = fs::File::from(said).read_to_end(&mut told);
        match status.exit_status() {
            Some(0) => Ok(()),
            Some(WAS_DEAD) => {
                let words = "unmounted, but its server had ended before";
                let failure = Failure::refused(Kind::Io, words).in_image(Path::new(&entry.source));
                Err(failure.with_remedy("what was synced is in the log, which the next mount recovers"))
            }
            _ => Err(match told.split_first() {
                Some((kind, words)) => {
                    let kind = Kind::ALL.get(usize::from(*kind)).copied().unwrap_or(Kind::Failed);
                    Failure::refused(kind, String::from_utf8_lossy(words))
                }
                None => Failure::refused(Kind::Interrupted, "the process that unmounts was ended"),
            }),
        }
    }

    /// Whether the server has ended without unmounting. Not asked where the mount is only to be taken away. One that does not answer lets
    /// this wait, as it lets all wait.
    fn is_dead(&self, entry: &MountEntry) -> bool {
        let is_gone = |error| matches!(error, Errno::NOTCONN | Errno::CONNABORTED);
        !self.force && !self.lazy && rustix::fs::statfs(&entry.mount_point).is_err_and(is_gone)
    }

    /// Programs that look at all mounts, as df does, keep each of them busy for a moment: that is waited for. Gives why it failed, by a
    /// kind and in words.
    fn unmount(&self, entry: &MountEntry) -> Result<(), (Kind, String)> {
        let directory = entry.mount_point.as_path();
        let begun = Instant::now();
        loop {
            match self.unmount_once(entry, directory) {
                Err((Kind::InUse, _)) if begun.elapsed() < LONGEST_BUSY => thread::sleep(LOOK),
                outcome => return outcome,
            }
        }
    }

    fn unmount_once(&self, entry: &MountEntry, directory: &Path) -> Result<(), (Kind, String)> {
        let kind_of = |error: &(dyn std::error::Error + 'static)| {
            cause_of(error).map_or(Kind::Failed, |(kind, _)| kind)
        };
        match (direct::may_mount(), self.force) {
            (true, true) => direct::abort(directory).map_err(|error| (kind_of(&error), error.to_string())),
            (true, false) => direct::unmount(directory, self.lazy)
                .map_err(|error| (kind_of(&error), words_of(&error, entry))),
            (false, is_forced) => {
                if is_forced && let Err(error) = connection::abort(entry.device) {
                    let words = format!("the connection to its server cannot be ended: {error}");
                    return Err((kind_of(&error), words));
                }
                fusermount::unmount(directory, self.lazy || is_forced)
                    .map_err(|error| refusal_by_fusermount(&error, entry))
            }
        }
    }
}

/// Reports progress, except as a helper of umount(8), which is silent.
fn tell(entry: &MountEntry, words: std::fmt::Arguments<'_>) {
    if program() == "uxfs" {
        notice!(Note::Progress, "{}: {words}", entry.mount_point.display());
    }
}

/// The mount of an image.
fn find_by_image(table: &MountTable, path: &Path) -> Result<MountEntry, Failure> {
    let mounts: Vec<_> = table.entries().filter(|entry| entry.is_fuse() && entry.source == path).collect();
    let below = || table.entries().filter(|entry| entry.is_fuse() && path.starts_with(&entry.mount_point));
    match (mounts.as_slice(), below().max_by_key(|entry| entry.mount_point.as_os_str().len())) {
        ([mount], _) => Ok((*mount).clone()),
        ([], None) => Err(Failure::refused(Kind::NotMounted, "nothing is mounted here")),
        ([], Some(mount)) => {
            let words = format!("this lies in what is mounted on {}", mount.mount_point.display());
            let remedy = format!("uxfs umount {} ends that", shell_path(&mount.mount_point));
            Err(Failure::refused(Kind::NotMounted, words).with_remedy(&remedy))
        }
        (several, _) => {
            let places: Vec<_> =
                several.iter().map(|mount| mount.mount_point.display().to_string()).collect();
            Err(Failure::usage(format!("it is mounted on {}: name one of them", places.join(" and "))))
        }
    }
}

/// A mount that others lie in is busy without a program that uses it.
fn words_of(error: &DirectError, entry: &MountEntry) -> String {
    let inner = MountTable::read().ok().and_then(|table| {
        table.entries().find(|other| other.parent_id == entry.id).map(|other| other.mount_point.clone())
    });
    match (error, inner) {
        (DirectError::Busy(_), Some(inner)) => {
            format!("{} is mounted in it, and must be unmounted first", inner.display())
        }
        // The failure begins with the directory.
        (DirectError::Busy(_), None) => match users_of(&entry.mount_point) {
            Some(users) => format!("busy: {users} has a file or its working directory there"),
            None => "busy: a program has a file or its working directory there".to_owned(),
        },
        (error, _) => error.to_string(),
    }
}

/// fusermount3 knows the mounts of its user alone, and tells in words alone why it fails: of the user's own mount because it is in use.
fn refusal_by_fusermount(error: &FusermountError, entry: &MountEntry) -> (Kind, String) {
    match (entry.user_id(), error) {
        (Some(user), _) if user != rustix::process::getuid().as_raw() => {
            let words =
                format!("the user with the number {user} has mounted it, and may unmount it, as root may");
            (Kind::Permission, words)
        }
        (_, FusermountError::Refused { .. }) if !Path::new("/etc/mtab").exists() => {
            let words = format!("{error}; it needs /etc/mtab: as root, ln -s /proc/self/mounts /etc/mtab");
            (Kind::Unavailable, words)
        }
        (_, FusermountError::Refused { .. }) => {
            let users = users_of(&entry.mount_point).map(|users| format!(" (in use by {users})"));
            (Kind::InUse, format!("{error}{}", users.unwrap_or_default()))
        }
        _ => (cause_of(error).map_or(Kind::Failed, |(kind, _)| kind), error.to_string()),
    }
}

/// Where else the same file system is mounted.
fn other_mount_of(entry: &MountEntry) -> Option<PathBuf> {
    let table = MountTable::read().ok()?;
    let is_same = |other: &&MountEntry| {
        (other.device, &other.source) == (entry.device, &entry.source)
            && other.file_system_type == entry.file_system_type
            && other.id != entry.id
    };
    table.entries().find(is_same).map(|other| other.mount_point.clone())
}

/// Waits until the process that mounted it tells how it ended.
fn wait_for_ending(waiting: &Waiting, entry: &MountEntry) -> Result<Option<Ending>, Failure> {
    let mut outcome = waiting.wait(PATIENCE);
    if outcome == Err(Errno::TIMEDOUT) {
        let words = "unmounted, waiting until the image is whole (a mount namespace, as of a container, may still use it)";
        tell(entry, format_args!("{words}"));
        outcome = waiting.wait(LONGEST);
    }
    match outcome {
        Err(Errno::TIMEDOUT) => Err(still_in_use(Path::new(&entry.source))),
        Err(error) => Err(Failure::caused_by(&error)),
        Ok(ending) => Ok(ending),
    }
}

/// The mount is gone. A server that is stopped, or waits for its device, still has the image.
fn wait_after_force(waiting: &Waiting, entry: &MountEntry) -> Result<Option<Ending>, Failure> {
    match waiting.wait(LONGEST_AFTER_FORCE) {
        Err(Errno::TIMEDOUT) => {
            let image = Path::new(&entry.source).display();
            let words = format!("taken away, but its server has not ended and still has {image}");
            let failure = Failure::refused(Kind::TimedOut, words).in_image(Path::new(&entry.source));
            Err(failure.with_remedy("kill -9 ends it: pgrep -a uxfs shows its number"))
        }
        outcome => outcome.map_err(|error| Failure::caused_by(&error)),
    }
}

/// Waits until the server has let go of the image.
fn wait_for_lock(image: &Path) -> Result<(), Failure> {
    let begun = Instant::now();
    let options = OpenOptions { lock: Lock::Shared, ..OpenOptions::default() };
    while image.exists() && open(image, &options).is_err() {
        if begun.elapsed() > LONGEST {
            return Err(still_in_use(image));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

fn still_in_use(image: &Path) -> Failure {
    let seconds = LONGEST.as_secs();
    let words = format!("unmounted, but {} is still in use after {seconds} seconds", image.display());
    Failure::refused(Kind::TimedOut, words).in_image(image)
}

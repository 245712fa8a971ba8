//! The image of a shell.
//!
//! ```text
//! Closed ──look──▶ Looking ──a command that may change something──▶ Writing
//!    ▲                │ ▲                                             │
//!    │   another program changed it                        stays, if anything was changed
//!    └────────────────┘ └─────────────────────────────────── else back
//! ```
//!
//! 1. While commands look, the image has a shared lock, as for every reading command. It is given up while the shell waits for the
//!    next command: a prompt that is left alone for hours keeps no writer away.
//! 2. With the lock taken again, an image that may have changed meanwhile is opened anew. Of a file its times tell, once they are
//!    old enough; a block device has none that would.
//! 3. A command that may change something gets the image with an exclusive lock, opened anew as well. If it changed nothing,
//!    nothing was written, and the lock is given up.

use std::{
    ffi::OsString,
    io,
    ops::ControlFlow,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::OFlags;
use uxfs_block::{
    claim::{self, ClaimError, Claimed, Lock},
    device::{DeviceError, DeviceOperation},
};
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
    volume::Volume,
};

use crate::{
    edit::{
        labels::Rules,
        report::Report,
        session::{EditArguments, Session},
    },
    failure::{About, Failure},
    glob::{Globs, no_match},
    image::{ImageArguments, MountedImage},
    in_use,
    kind::{Kind, Note},
    output::notice,
    target::Target,
    text::shown_path,
};

/// A file that was changed more recently may change again without another time.
const SETTLED: Duration = Duration::from_secs(2);
/// The directories of a damaged image may form a loop.
const DEPTH_MAX: usize = 4096;

/// The image of a shell, and where the shell is in it.
#[derive(Debug)]
pub struct View {
    arguments: EditArguments,
    /// As commands that read have them: with no lock, for that is the lock of this view.
    to_look: ImageArguments,
    json: bool,
    /// Commands that may change something are refused.
    pub is_read_only: bool,
    /// Of new files, where a command says nothing of them.
    pub labels: Rules,
    /// Other programs may change the image while a command looks.
    pub no_lock: bool,
    /// Commands are read from standard input: contents cannot be then.
    pub is_input_taken: bool,
    state: State,
    directory: Vec<u8>,
    /// The user of the image that keeps no lock, as the shell has told of it.
    told_user: Option<String>,
    /// A word in the middle of a line that is edited would not be seen.
    is_silent: bool,
}

#[derive(Debug)]
enum State {
    Closed,
    Looking(Box<Looking>),
    Writing(Box<Session>),
}

#[derive(Debug)]
struct Looking {
    image: MountedImage,
    stamp: Option<Stamp>,
    lock: Option<Claimed>,
}

/// Tells whether a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// When it was last changed it was long ago.
    is_settled: bool,
}

impl Stamp {
    /// Of a regular file.
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let seconds = u64::try_from(metadata.ctime().max(metadata.mtime())).unwrap_or_default();
        let newest = UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
        Some(Self {
            file: (metadata.dev(), metadata.ino()),
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            is_settled: SystemTime::now().duration_since(newest).is_ok_and(|age| age > SETTLED),
        })
    }
}

impl View {
    /// Of an image that is not open yet.
    pub fn new(arguments: &EditArguments, json: bool) -> Self {
        let mut arguments = arguments.clone();
        // The shell may go to another directory of the host.
        arguments.image = std::path::absolute(&arguments.image).unwrap_or(arguments.image);
        let EditArguments { image, place, cache_size, engine, .. } = arguments.clone();
        let to_look =
            ImageArguments { image, place, cache_size, engine, no_lock: true, ..ImageArguments::default() };
        Self {
            arguments,
            to_look,
            json,
            is_read_only: false,
            labels: Rules::default(),
            no_lock: false,
            is_input_taken: false,
            state: State::Closed,
            directory: b"/".to_vec(),
            told_user: None,
            is_silent: false,
        }
    }

    /// Where the image is on the host.
    pub fn image(&self) -> &Path {
        &self.arguments.image
    }

    /// The path of the directory where relative paths begin.
    pub fn directory(&self) -> &[u8] {
        &self.directory
    }

    /// The file system as it is now.
    ///
    /// # Errors
    /// It cannot be opened; another program changes it.
    pub fn volume(&mut self) -> Result<&Volume, Failure> {
        if !matches!(self.state, State::Writing(_)) {
            self.look().about_image(&self.arguments.image)?;
        }
        match &self.state {
            State::Writing(session) => Ok(session.filesystem()),
            State::Looking(looking) => Ok(&looking.image),
            State::Closed => Err(Failure::refused(Kind::ShutDown, "the image is not open")),
        }
    }

    /// As [`volume`](Self::volume), without a word of what went wrong.
    pub fn glance(&mut self) -> Option<&Volume> {
        self.is_silent = true;
        if self.volume().is_err() {
            self.state = State::Closed;
        }
        self.is_silent = false;
        match &self.state {
            State::Writing(session) => Some(session.filesystem()),
            State::Looking(looking) => Some(&looking.image),
            State::Closed => None,
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        let mut before = match std::mem::replace(&mut self.state, State::Closed) {
            State::Looking(looking) => Some(looking),
            state => {
                self.state = state;
                None
            }
        };
        let held = before.as_mut().and_then(|before| before.lock.take());
        let was_held = held.is_some();
        let lock = match held {
            Some(lock) => Some(lock),
            None => self.lock()?,
        };
        let stamp = Stamp::of(&self.arguments.image);
        let is_same = |before: &Looking| match stamp {
            Some(stamp) => before.stamp == Some(stamp) && stamp.is_settled,
            None => was_held && self.told_user.is_none(),
        };
        self.state = State::Looking(match before.filter(|before| is_same(before)) {
            Some(before) => Box::new(Looking { lock, ..*before }),
            None => Box::new(Looking { image: self.open(lock.is_some())?, stamp, lock }),
        });
        Ok(())
    }

    fn open(&mut self, is_locked: bool) -> Result<MountedImage, Failure> {
        // Without the lock the user of the image has been told already.
        if is_locked {
            match claim::user_at(&self.arguments.image) {
                Some(user) => self.tell_user(user.to_string()),
                None => self.told_user = None,
            }
        }
        self.to_look.open()
    }

    /// Keeps away programs that would change the image.
    fn lock(&mut self) -> Result<Option<Claimed>, Failure> {
        if self.no_lock {
            return Ok(None);
        }
        let image = &self.arguments.image;
        match Claimed::open(image, OFlags::RDONLY, Lock::Shared) {
            Ok(lock) => Ok(Some(lock)),
            Err(ClaimError::Changing) if in_use::mount_points(image).is_some() => {
                let places = in_use::mount_points(image).unwrap_or_default();
                self.tell_user(format!("it is mounted on {places}"));
                Ok(None)
            }
            Err(error) => {
                let source = io::Error::from(error);
                let is_busy = source.kind() == io::ErrorKind::ResourceBusy;
                let error = DeviceError {
                    operation: DeviceOperation::Open,
                    offset_bytes: 0,
                    length_bytes: 0,
                    source,
                };
                let failure = in_use::not_opened(error, image);
                Err(if is_busy { failure.with_remedy("use --no-lock to look anyway") } else { failure })
            }
        }
    }

    fn tell_user(&mut self, user: String) {
        if !self.is_silent && self.told_user.as_ref() != Some(&user) {
            notice!(
                Note::InUse,
                "{}: {user}: what is shown may be in change",
                self.arguments.image.display()
            );
            self.told_user = Some(user);
        }
    }

    /// Gives up the lock of a reader, while the shell waits.
    pub fn rest(&mut self) {
        if let State::Looking(looking) = &mut self.state {
            looking.lock = None;
        }
    }

    /// The image for a command that may change something.
    ///
    /// # Errors
    /// It cannot be opened for changes; the directory where paths begin has gone.
    pub fn session(&mut self) -> Result<&mut Session, Failure> {
        if self.is_read_only {
            return Err(Failure::refused(
                Kind::ReadOnly,
                "the shell was opened with --read-only, and changes nothing",
            ));
        }
        if !matches!(self.state, State::Writing(_)) {
            // Its own lock would be in the way.
            self.state = State::Closed;
            let mut session = self.arguments.open(self.json)?;
            session.is_expanded = true;
            session.labelling.usual = self.labels.clone();
            session.is_input_taken = self.is_input_taken;
            session.change_directory(&self.directory)?;
            self.state = State::Writing(Box::new(session));
        }
        match &mut self.state {
            State::Writing(session) => Ok(session),
            _ => Err(Failure::refused(Kind::ShutDown, "the image is not open")),
        }
    }

    /// After such a command: if it has changed nothing, other programs may again.
    ///
    /// # Errors
    /// None that would have to do with a change.
    pub fn settle(&mut self) -> Result<(), Failure> {
        match &self.state {
            State::Writing(session) if !session.has_changed() => self.close(),
            _ => Ok(()),
        }
    }

    /// Makes all changes so far durable.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn sync(&self) -> Result<(), Failure> {
        match &self.state {
            State::Writing(session) => session.sync(),
            _ => Ok(()),
        }
    }

    /// Closes the image; all changes are durable.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn close(&mut self) -> Result<(), Failure> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Writing(session) => session.close(),
            _ => Ok(()),
        }
    }

    /// Changes the directory where relative paths begin.
    ///
    /// # Errors
    /// No such directory.
    pub fn change_directory(&mut self, path: &[u8]) -> Result<(), Failure> {
        let target = Target::Path(path.to_vec()).from_directory(&self.directory);
        let found = match path {
            b"" => Err(Error::from(OperationError::NotFound).into()),
            _ => path_of_directory(self.volume()?, &target),
        };
        let directory = found.about(shown_path(path))?;
        if let State::Writing(session) = &mut self.state {
            session.change_directory(&directory)?;
        }
        self.directory = directory;
        Ok(())
    }

    /// The paths that a pattern stands for, which was written as `text`: that is one of them, if it is there.
    ///
    /// # Errors
    /// None fits, or too many.
    pub fn paths_of_pattern(
        &mut self,
        pattern: &OsString,
        text: &OsString,
        report: &mut Report,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let directory = self.directory.clone();
        let itself = Target::Path(text.as_bytes().to_vec()).from_directory(&directory);
        let volume = self.volume()?;
        match itself.find(volume, false) {
            Ok(_) => return Ok(vec![text.as_bytes().to_vec()]),
            Err(Error::Operation(OperationError::NotFound | OperationError::NotADirectory)) => {}
            Err(error) => return Err(Failure::from(error).about_path(text.as_bytes())),
        }
        let globs = Globs { volume, directory: Some(&directory), is_on: true };
        let found = globs.paths(pattern, &mut |path, error| report.complain_of(path, error))?;
        let path = |target| match target {
            Target::Path(path) => path,
            Target::Inode(_) => pattern.as_bytes().to_vec(),
        };
        let paths: Vec<_> = found.into_iter().map(path).collect();
        if paths.is_empty() { Err(no_match(text)) } else { Ok(paths) }
    }
}

/// The path of a directory without symbolic links, going up from it.
fn path_of_directory(volume: &Volume, target: &Target) -> Result<Vec<u8>, Failure> {
    let mut at = target.find(volume, true)?;
    if at.file_type() != Some(FileType::Directory) {
        return Err(Error::from(OperationError::NotADirectory).into());
    }
    let mut names: Vec<Vec<u8>> = Vec::new();
    while at.number != volume.geometry().root_inode {
        if names.len() > DEPTH_MAX {
            return Err(Failure::refused(Kind::NameTooLong, "too deep"));
        }
        let above = volume.resolve_from(&at, b"..", true)?;
        let mut name = None;
        volume.read_directory(&above, 0, |entry| {
            if entry.inode == at.number && !matches!(entry.name, b"." | b"..") {
                name = Some(entry.name.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        names.push(name.ok_or_else(|| Failure::from(Error::from(OperationError::NotFound)))?);
        at = above;
    }
    let mut whole = Vec::new();
    for name in names.iter().rev() {
        whole.push(b'/');
        whole.extend_from_slice(name);
    }
    Ok(if whole.is_empty() { b"/".to_vec() } else { whole })
}

//! An image that is open for changes.

use std::{
    ffi::OsString,
    fs::File,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use uxfs_block::{
    claim::Lock,
    device::BlockDevice,
    engine::{OpenOptions, deferred::DeferredDevice},
};
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_filesystem::{
    filesystem::FileSystem, inode::table::InodeHandle, operations::live::Status, recovery,
};
use uxfs_source::directory::FileIdentity;
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
    resolve::MAX_SYMLINKS,
};

use crate::{
    edit::{just_made::JustMade, labels::Labelling, people::People, report::Report},
    failure::{About, Failure},
    forms,
    glob::{GlobArguments, Globs, no_match},
    image::{EngineArgument, is_of_another_form, no_file_system, not_for_changes},
    in_use,
    place::{ImagePlace, PlaceArguments},
    stand_in::{self, Holes},
    target::Target,
    text::parse_size,
};

/// The image that a command changes, and the options that all of them have.
#[derive(Debug, Clone, clap::Args)]
pub struct EditArguments {
    /// Image file or block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Where the file system lies in it.
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Memory for cached metadata, in bytes or with K, M, G [default: 256M, or less where memory is scarce]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, help_heading = "Input and output")]
    pub cache_size: Option<u64>,
    /// I/O engine
    #[arg(long, value_enum, default_value_t, help_heading = "Input and output")]
    pub engine: EngineArgument,
    /// Write changes to the log at the latest after this time; 0 sets no limit
    #[arg(long, value_name = "SECONDS", default_value_t = LogOptions::USUAL_CHECKPOINT_INTERVAL.as_secs(), help_heading = "Input and output")]
    pub checkpoint_interval: u64,
    /// Show no progress, and no warning of new files without an SELinux label
    #[arg(long, help_heading = "Input and output")]
    pub quiet: bool,
}

/// The value of `--checkpoint-interval`.
pub fn checkpoint_interval(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// An image that is open for changes, exclusively locked. It is not written to before the first change.
#[derive(Debug)]
pub struct Session {
    filesystem: Arc<FileSystem>,
    device: Arc<DeferredDevice>,
    /// Transactions of opening it: those that follow are changes.
    transactions_of_opening: u64,
    directory: Directory,
    /// Reports and complaints.
    pub report: Report,
    /// The files that the command at hand has made.
    pub just_made: JustMade,
    /// SELinux labels of new files.
    pub labelling: Labelling,
    /// The umask.
    pub umask: u16,
    /// Whether commands are read from standard input: contents cannot be then.
    pub is_input_taken: bool,
    /// Patterns in paths have been expanded, by the shell.
    pub is_expanded: bool,
    people: Option<People>,
    image: PathBuf,
}

/// Where relative paths begin.
#[derive(Debug, Clone)]
struct Directory {
    handle: InodeHandle,
    path: Vec<u8>,
}

/// A name in a directory, used or not.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory.
    pub directory: InodeHandle,
    /// The name; `.` if the path has none.
    pub name: Vec<u8>,
    /// Slashes follow the name: it must be a directory.
    pub is_directory_wanted: bool,
    /// The whole path, for messages.
    pub path: Vec<u8>,
}

impl EditArguments {
    /// Of an image, as without options.
    pub(crate) fn of(image: PathBuf) -> Self {
        Self {
            image,
            place: PlaceArguments::default(),
            cache_size: None,
            engine: EngineArgument::default(),
            checkpoint_interval: LogOptions::USUAL_CHECKPOINT_INTERVAL.as_secs(),
            quiet: true,
        }
    }

    /// Opens the image for changes with an exclusive lock. A dirty log is replayed in memory; in front of the first change this is
    /// written, in the order of a recovery.
    ///
    /// # Errors
    /// It is in use, or not an image that can be changed.
    pub fn open(&self, json: bool) -> Result<Session, Failure> {
        self.try_open(json).about_image(&self.image)
    }

    fn try_open(&self, json: bool) -> Result<Session, Failure> {
        let device = Arc::new(DeferredDevice::new(self.device()?));
        let filesystem = self.mount(Arc::<DeferredDevice>::clone(&device))?;
        if filesystem.journal_counters().transactions > 0 {
            // They belong to what is held back, and must not reach the device while a command only looks.
            filesystem.force()?;
        }
        device.arm();
        let root = filesystem.open_root()?;
        Ok(Session {
            transactions_of_opening: filesystem.journal_counters().transactions,
            filesystem,
            device,
            // A shell may go to another directory of the host.
            image: std::path::absolute(&self.image).unwrap_or_else(|_| self.image.clone()),
            directory: Directory { handle: root, path: b"/".to_vec() },
            report: Report::new(json),
            just_made: JustMade::default(),
            labelling: Labelling::new(self.quiet),
            umask: umask(),
            people: None,
            is_input_taken: false,
            is_expanded: false,
        })
    }

    fn mount_options(&self) -> MountOptions {
        // The background thread writes earlier changes while copies and scripts continue.
        let log = LogOptions {
            has_background: true,
            checkpoint_interval: checkpoint_interval(self.checkpoint_interval),
            ..LogOptions::default()
        };
        MountOptions { cache_budget_bytes: self.cache_size, log, ..MountOptions::default() }
    }

    /// The image for changes, with a log that is clean: a dirty one is replayed in front of the first write.
    ///
    /// # Errors
    /// As for [`device`](Self::device); a log that cannot be replayed.
    pub fn clean_device(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        let deferred = Arc::new(DeferredDevice::new(self.device()?));
        let device: Arc<dyn BlockDevice> = Arc::<DeferredDevice>::clone(&deferred);
        let recovered = recovery::recover(&device, &self.mount_options(), &mut ());
        let recovered = recovered.map_err(|error| self.not_mounted(error, &device))?;
        if let Some(recovered) = recovered {
            recovered.write().map_err(not_for_changes)?;
        }
        deferred.arm();
        Ok(device)
    }

    /// The image for reading.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn device_for_reading(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        let extent = self.place.find(&self.image)?;
        let options =
            OpenOptions { engine: self.engine.into(), lock: Lock::Shared, ..OpenOptions::default() };
        extent.open(&self.image, &options).map_err(|error| in_use::not_opened(error, &self.image))
    }

    fn mount(&self, device: Arc<dyn BlockDevice>) -> Result<Arc<FileSystem>, Failure> {
        let options = self.mount_options();
        let mount = || FileSystem::mount_logged(Arc::clone(&device), &options);
        match mount() {
            Err(Error::Operation(OperationError::DirtyLog { .. })) => {}
            mounted => return mounted.map_err(|error| self.not_mounted(error, &device)),
        }
        if let Some(recovered) = recovery::recover(&device, &options, &mut ())? {
            recovered.write().map_err(not_for_changes)?;
        }
        mount().map_err(not_for_changes)
    }

    /// Why there is no superblock to be read.
    pub fn not_read(&self, error: Error) -> Failure {
        let other = self.place.disk(&self.image, &error);
        let other = other.or_else(|| self.place.other_contents(&self.image, &error));
        other.unwrap_or_else(|| no_file_system(error))
    }

    fn not_mounted(&self, error: Error, device: &Arc<dyn BlockDevice>) -> Failure {
        if let Some(failure) = self.place.disk(&self.image, &error) {
            return failure;
        }
        if !stand_in::may_help(&error) || is_of_another_form(&error) {
            return not_for_changes(error);
        }
        let start_bytes = self.place.find(&self.image).map(|part| part.start_bytes);
        let holes = start_bytes.ok().and_then(|start_bytes| Holes::of(&self.image, start_bytes));
        match stand_in::find(device, holes, None) {
            Ok(Some(copy)) => {
                let words = format!("the first superblock cannot be used for changes: {error}");
                Failure::corruption(words).with_remedy(&format!(
                    "its copy in allocation group {} is sound: uxfs repair{} mends it, and commands that read use the copy",
                    copy.group,
                    ImagePlace::given(&self.image, &self.place).arguments()
                ))
            }
            _ => match self.place.other_contents(&self.image, &error) {
                Some(failure) => failure,
                None => not_for_changes(error),
            },
        }
    }

    /// Opens the image for changes, which keeps away other writers and reading commands.
    ///
    /// # Errors
    /// It cannot be opened; it is mounted; a loop device or another command changes it.
    pub fn device(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        forms::refuse_changes(&self.image)?;
        let extent = self.place.find(&self.image)?;
        let options = OpenOptions {
            engine: self.engine.into(),
            writable: true,
            lock: Lock::Exclusive,
            ..OpenOptions::default()
        };
        let opened = extent.open(&self.image, &options);
        opened
            .map_err(|error| in_use::not_opened(error, &self.image))
            .and_then(|device| self.place.holding_something(device))
    }
}

/// The umask of this process; asking for it means setting it.
fn umask() -> u16 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    u16::try_from(mask.bits()).unwrap_or(0o022)
}

impl Session {
    /// The file system.
    pub fn filesystem(&self) -> &FileSystem {
        &self.filesystem
    }

    /// Where relative paths begin, and its path.
    pub(crate) fn directory(&self) -> (&InodeHandle, &[u8]) {
        (&self.directory.handle, &self.directory.path)
    }

    /// Whether anything has been changed, on the device or in memory.
    pub fn has_changed(&self) -> bool {
        let transactions = self.filesystem.journal_counters().transactions;
        self.device.has_begun() || transactions > self.transactions_of_opening
    }

    /// Changes the directory where relative paths begin. Its path has no symbolic links.
    ///
    /// # Errors
    /// No such directory.
    pub fn change_directory(&mut self, path: &[u8]) -> Result<(), Failure> {
        let handle = self.find(path, true)?;
        if self.status(&handle)?.file_type != FileType::Directory {
            return Err(Failure::from(Error::from(OperationError::NotADirectory)).about_path(path));
        }
        self.directory = Directory { handle, path: path.to_vec() };
        Ok(())
    }

    /// The paths that arguments stand for: themselves, or for a pattern all that fit. Patterns that nothing fits are reported.
    ///
    /// # Errors
    /// Too many fit.
    pub fn paths(&mut self, arguments: &[OsString], globs: GlobArguments) -> Result<Vec<Vec<u8>>, Failure> {
        let mut paths = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match globs.no_glob || self.is_expanded {
                true => paths.push(argument.as_bytes().to_vec()),
                false => match self.expand(argument)? {
                    found if found.is_empty() => self.report.complain(&no_match(argument)),
                    found => paths.extend(found),
                },
            }
        }
        Ok(paths)
    }

    fn expand(&mut self, argument: &OsString) -> Result<Vec<Vec<u8>>, Failure> {
        let globs = Globs { volume: &self.filesystem, directory: Some(&self.directory.path), is_on: true };
        let report = &mut self.report;
        let found = globs.paths(argument, &mut |path, error| report.complain_of(path, error))?;
        let path = |target| match target {
            Target::Path(path) => path,
            Target::Inode(_) => argument.as_bytes().to_vec(),
        };
        Ok(found.into_iter().map(path).collect())
    }

    /// Opens the file at `path`. A symbolic link at its end is followed only if `follow` is set.
    ///
    /// # Errors
    /// There is nothing; damage; the device.
    pub fn find(&self, path: &[u8], follow: bool) -> Result<InodeHandle, Failure> {
        self.look(path, follow).map_err(|error| explained(error).about_path(path))
    }

    /// As [`find`](Self::find), with `None` if there is no such file.
    ///
    /// # Errors
    /// Damage; the device; a component of the path is not a directory.
    pub fn find_if_there(&self, path: &[u8], follow: bool) -> Result<Option<InodeHandle>, Failure> {
        match self.look(path, follow) {
            Ok(handle) => Ok(Some(handle)),
            Err(Error::Operation(OperationError::NotFound)) => Ok(None),
            Err(error) => Err(explained(error).about_path(path)),
        }
    }

    /// The directory that a symbolic link leads to, if it is one.
    ///
    /// # Errors
    /// Damage; the device; links in a circle.
    pub fn linked_directory(&self, link: &[u8]) -> Result<Option<InodeHandle>, Failure> {
        let found = match self.look(link, true) {
            // It leads nowhere, or through a file.
            Err(Error::Operation(OperationError::NotFound | OperationError::NotADirectory)) => {
                return Ok(None);
            }
            found => found.map_err(|error| explained(error).about_path(link))?,
        };
        let is_directory = self.status(&found)?.file_type == FileType::Directory;
        Ok(is_directory.then_some(found))
    }

    /// Whether there is a file at a path: none lies below a file that is no directory.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn is_there(&self, path: &[u8]) -> Result<bool, Failure> {
        match self.look(path, false) {
            Ok(_) => Ok(true),
            Err(Error::Operation(OperationError::NotFound | OperationError::NotADirectory)) => Ok(false),
            Err(error) => Err(explained(error).about_path(path)),
        }
    }

    fn look(&self, path: &[u8], follow: bool) -> Result<InodeHandle, Error> {
        if path.is_empty() {
            return Err(OperationError::NotFound.into());
        }
        self.look_from(&self.directory.handle, path, follow)
    }

    fn look_from(&self, start: &InodeHandle, path: &[u8], follow: bool) -> Result<InodeHandle, Error> {
        self.filesystem.open_path(start, path, follow)
    }

    /// The directory of the last name of a path, and that name.
    ///
    /// # Errors
    /// The directory is not there.
    pub fn place(&self, path: &[u8]) -> Result<Place, Failure> {
        self.place_from(&self.directory.handle, path)
    }

    /// As [`place`](Self::place) for a path that begins at a directory.
    ///
    /// # Errors
    /// As there.
    pub fn place_from(&self, start: &InodeHandle, path: &[u8]) -> Result<Place, Failure> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let (stem, slashes) = path.split_at(end);
        let begin = stem.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (above, name) = stem.split_at(begin);
        if path.is_empty() {
            return Err(explained(OperationError::NotFound.into()).about_path(path));
        }
        let (above, name) = match (above, name) {
            // "/"
            (_, b"") => (&b"/"[..], &b"."[..]),
            (b"", name) => (&b"."[..], name),
            other => other,
        };
        let directory =
            self.look_from(start, above, true).map_err(|error| explained(error).about_path(path))?;
        Ok(Place {
            directory,
            name: name.to_vec(),
            is_directory_wanted: !slashes.is_empty(),
            path: path.to_vec(),
        })
    }

    /// The place to which dangling symbolic links point.
    ///
    /// # Errors
    /// Too many links; damage; the device.
    pub fn target_of_links(&self, place: Place) -> Result<Place, Failure> {
        let mut place = place;
        for _ in 0..MAX_SYMLINKS {
            let Some(found) = self.at(&place)? else { return Ok(place) };
            if self.status(&found)?.file_type != FileType::SymbolicLink {
                return Ok(place);
            }
            let target = self.filesystem().read_link(&found).about_path(&place.path)?;
            place = if target.starts_with(b"/") {
                self.place(&target)?
            } else {
                // Its own path would begin elsewhere.
                let stem = place.path.len().saturating_sub(last_name(&place.path).len());
                let path = [place.path.get(..stem).unwrap_or_default(), &target].concat();
                Place { path, ..self.place_from(&place.directory, &target)? }
            };
        }
        Err(place.failure(OperationError::TooManySymlinks))
    }

    /// The file at a place, if there is one; a symbolic link is not followed.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn at(&self, place: &Place) -> Result<Option<InodeHandle>, Failure> {
        match self.filesystem.find_to_change(&place.directory, &place.name) {
            Ok(handle) => Ok(Some(handle)),
            Err(Error::Operation(OperationError::NotFound)) => Ok(None),
            Err(error) => Err(explained(error).about_path(&place.path)),
        }
    }

    /// The result of `stat`.
    ///
    /// # Errors
    /// It is gone.
    pub fn status(&self, handle: &InodeHandle) -> Result<Status, Failure> {
        Ok(self.filesystem.stat(handle)?)
    }

    /// Whether there is a directory at `path`, or a symbolic link to one.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn directory_at(&self, path: &[u8]) -> Result<Option<InodeHandle>, Failure> {
        match self.look(path, true) {
            Ok(handle) if self.status(&handle)?.file_type == FileType::Directory => Ok(Some(handle)),
            Ok(_) => Ok(None),
            Err(Error::Operation(
                OperationError::NotFound | OperationError::NotADirectory | OperationError::TooManySymlinks,
            )) => Ok(None),
            Err(error) => Err(explained(error).about_path(path)),
        }
    }

    /// Users and groups by name: those of the image, or else of the host.
    pub fn people(&mut self) -> &People {
        if self.people.is_none() {
            self.people = Some(People::of_image(&self.filesystem));
        }
        self.people.get_or_insert_default()
    }

    /// Forgets users and groups: files have changed.
    pub fn forget_people(&mut self) {
        self.people = None;
    }

    /// Where the image is on the host.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The identity of the image file on the host: it is not put into itself.
    pub fn image_identity(&self) -> Option<FileIdentity> {
        FileIdentity::of(File::open(&self.image).ok()?).ok()
    }

    /// Makes everything durable that has been done so far.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn sync(&self) -> Result<(), Failure> {
        if self.has_changed() {
            self.filesystem.force()?;
        }
        Ok(())
    }

    /// Writes everything back and closes the log cleanly: all changes are durable. Where there were none, nothing is written.
    ///
    /// # Errors
    /// The device failed, now or before; the log then holds what was durable.
    pub fn close(self) -> Result<(), Failure> {
        let has_changed = self.has_changed();
        let Self { filesystem, directory, .. } = self;
        drop(directory);
        if has_changed {
            filesystem.close()?;
        }
        Ok(())
    }
}

impl Place {
    /// A name in a directory that was found by going through a tree.
    pub fn below(directory: &InodeHandle, name: &[u8], path: Vec<u8>) -> Self {
        Self { directory: directory.clone(), name: name.to_vec(), is_directory_wanted: false, path }
    }

    /// The same place, in messages, with this failure.
    pub fn failure(&self, error: impl Into<Error>) -> Failure {
        explained(error.into()).about_path(&self.path)
    }
}

/// An error with a remedy, where there is one.
pub fn explained(error: Error) -> Failure {
    let remedy = match &error {
        Error::Operation(OperationError::NoSpace) => "remove files, or use a larger image",
        Error::Operation(OperationError::NotPermitted) => {
            "an inode flag (immutable or append-only: `uxfs stat` shows the flags) or the file type forbids it"
        }
        Error::Operation(OperationError::CrossesProjects) => "copy it instead",
        Error::Journal(_) => {
            "earlier changes are in the log; the next command that opens the image replays it"
        }
        _ => return error.into(),
    };
    Failure::from(error).with_remedy(remedy)
}

/// The path of something in a directory.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, slash, name].concat()
}

/// The last name of a path; empty where it has none.
pub fn last_name(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let stem = path.get(..end).unwrap_or_default();
    stem.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

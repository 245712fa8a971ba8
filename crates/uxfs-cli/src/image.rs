//! Which image a command works on, and how it is opened.

use std::{
    ops::Deref,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use uxfs_block::{
    claim::{self, Lock},
    device::BlockDevice,
    engine::{Engine, OpenOptions},
};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery;
use uxfs_format::{
    fault::{Fault, HeaderFault, Structure},
    superblock::SuperblockFault,
    units::AgNumber,
};
use uxfs_image::{form::Form, open::Opened, stream::WithoutSuperblock};
use uxfs_journal::LogState;
use uxfs_repair::opening;
use uxfs_repair::repair::RepairOptions;
use uxfs_volume::error::{Error, OperationError};
use uxfs_volume::superblock::read_superblock;
use uxfs_volume::tolerant::{Finding, SuperblockChoice, TolerantOptions};
use uxfs_volume::volume::Volume;

use crate::{
    commands::repair::plan,
    failure::{About, Complaints, Exit, Failure, Outcome},
    forms, in_use,
    kind::{Kind, Note},
    output::notice,
    place::{ImagePlace, PlaceArguments},
    remedy,
    repaired::{self, Repaired},
    stand_in::{self, Holes},
    text::parse_size,
};

/// The image and the options that every command on an image has.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ImageArguments {
    /// Image file (also compressed with zstd, gzip or xz, or a qcow2 disk) or block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Where the file system lies in it.
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Do not recover a dirty log: show the metadata as it is on disk
    #[arg(long)]
    pub ignore_log: bool,
    /// Read what is left of a damaged image: pass over damage of the superblock, headers of allocation groups and blocks of
    /// directories, and report it at the end. Does not recover the log
    #[arg(long)]
    pub tolerant: bool,
    /// Show the image as `uxfs repair` would leave it; nothing is written. With a file of `uxfs repair --dry-run --plan`, the repair is
    /// not computed again
    #[arg(
        long,
        value_name = "PLAN",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["tolerant", "ignore_log"]
    )]
    pub repaired: Option<Option<PathBuf>>,
    /// Use the superblock of allocation group N. `auto`, as without this option: of the first group with a sound one. Of a compressed
    /// image copies are looked for only with this option
    #[arg(long, value_name = "N|auto", value_parser = parse_superblock)]
    pub superblock: Option<SuperblockArgument>,
    /// Read also the files that a qcow2 disk says it is based on. It could name any file
    #[arg(long, help_heading = "Input and output")]
    pub backing_files: bool,
    /// Read even while another program changes the image; the output may be inconsistent
    #[arg(long)]
    pub no_lock: bool,
    /// Memory for cached metadata, in bytes or with K, M, G [default: 256M, or less where memory is scarce]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, help_heading = "Input and output")]
    pub cache_size: Option<u64>,
    /// I/O engine
    #[arg(long, value_enum, default_value_t, help_heading = "Input and output")]
    pub engine: EngineArgument,
    /// Bypass the page cache (O_DIRECT)
    #[arg(long, help_heading = "Input and output")]
    pub direct: bool,
    /// The word about a copy of the superblock has been said.
    #[arg(skip)]
    pub told_of_copy: OnceLock<()>,
}

/// The I/O engines by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum EngineArgument {
    /// io_uring where it is available and faster, else sync
    #[default]
    Auto,
    /// preadv
    Sync,
    /// io_uring; fail if it is not available
    Uring,
}

impl From<EngineArgument> for Engine {
    fn from(argument: EngineArgument) -> Self {
        match argument {
            EngineArgument::Auto => Self::Auto,
            EngineArgument::Sync => Self::Sync,
            EngineArgument::Uring => Self::Uring,
        }
    }
}

/// An allocation group whose superblock is to be used; `None` for the first one with a sound superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuperblockArgument(Option<u32>);

fn parse_superblock(text: &str) -> Result<SuperblockArgument, String> {
    match text {
        "auto" => Ok(SuperblockArgument(None)),
        _ => text
            .parse()
            .map(|group| SuperblockArgument(Some(group)))
            .map_err(|_| "give the number of an allocation group, or auto".to_owned()),
    }
}

impl ImageArguments {
    /// Whether damage is to be passed over.
    pub fn is_tolerant(&self) -> bool {
        self.tolerant
    }

    /// Whether the image is shown as a repair would leave it.
    pub fn is_repaired(&self) -> bool {
        self.repaired.is_some()
    }

    /// Whether a superblock was named.
    pub fn names_superblock(&self) -> bool {
        self.superblock.is_some()
    }

    /// The superblock that was named, as an option with a space in front.
    pub fn superblock_option(&self) -> String {
        match self.superblock {
            Some(SuperblockArgument(Some(group))) => format!(" --superblock {group}"),
            _ => String::new(),
        }
    }

    /// Opens the image for reading and mounts the file system in it. Where its log is dirty, it is seen as it will be.
    pub fn open(&self) -> Result<MountedImage, Failure> {
        if !self.is_repaired() {
            return self.mount(self.device()?, self.ignore_log);
        }
        let repaired = self.stage_repair()?;
        match repaired.is_whole {
            true => self.mount(repaired.device, false),
            false => self.mount_tolerantly(repaired.device),
        }
    }

    /// As [`open`](Self::open), with the state that the log has in the image. `None` where the image is not shown as it is.
    pub fn open_with_log_state(&self) -> Result<(MountedImage, Option<LogState>), Failure> {
        if self.is_repaired() || self.is_tolerant() {
            return Ok((self.open()?, None));
        }
        let device = self.device()?;
        let device = self.with_superblock(device)?;
        let image = self.mount_strictly(&device, self.ignore_log)?;
        // An external log cannot be examined, nor one that is damaged and was left aside.
        let state = uxfs_journal::examine(&*device, image.geometry()).ok();
        Ok((image, state))
    }

    /// Mounts what [`device`](Self::device) gave, whatever the state of its log. No copy of the superblock is put in its place.
    pub fn mount_ignoring_log(&self, device: Arc<dyn BlockDevice>) -> Result<MountedImage, Failure> {
        match self.is_tolerant() || self.names_superblock() {
            true => self.mount_tolerantly(device),
            false => self.mount_strictly(&device, true),
        }
    }

    /// The device, with a copy of the superblock in the place of a first one that is damaged or lost, or of any that the command line
    /// names. A word is said about it.
    ///
    /// # Errors
    /// There is no such group, or its superblock is damaged.
    pub fn with_superblock(&self, device: Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>, Failure> {
        let damage = match self.superblock {
            // What was repaired has a first superblock.
            _ if self.is_repaired() => return Ok(device),
            Some(SuperblockArgument(Some(0))) => return Ok(device),
            Some(SuperblockArgument(Some(_))) => None,
            _ => match read_superblock(device.as_ref(), false) {
                Err(error) if stand_in::may_help(&error) && self.may_search(&error) => Some(error),
                _ => return Ok(device),
            },
        };
        let wanted = match self.superblock_choice() {
            SuperblockChoice::Group(group) => Some(group),
            _ => None,
        };
        let start_bytes = self.place.find(&self.image).about_image(&self.image)?.start_bytes;
        let found = stand_in::find(&device, Holes::of(&self.image, start_bytes), wanted);
        let Some(found) = found.map_err(|error| self.not_opened(error))? else { return Ok(device) };
        if self.told_of_copy.set(()).is_ok() {
            let group = found.group;
            let arguments = self.image_place().arguments();
            match damage {
                Some(error) => notice!(
                    Note::Superblock,
                    "{}: the first superblock cannot be used: {error}; its copy in allocation group {group} is used instead \
                     (uxfs repair{arguments} mends it)",
                    self.image.display()
                ),
                None => {
                    notice!(
                        Note::Superblock,
                        "{}: the superblock of allocation group {group} is used",
                        self.image.display()
                    )
                }
            }
        }
        let device = found.put(&device).map_err(Failure::from);
        device.about_image(&self.image)
    }

    /// Whether copies of the superblock are looked for after this error.
    fn may_search(&self, error: &Error) -> bool {
        let is_packed = forms::of(&self.image).is_some_and(|form| form.is_read() && form != Form::Qcow2);
        // All of a packed image would have to be unpacked.
        let is_allowed = !is_packed || self.names_superblock();
        // A partition that was chosen holds no other ones.
        let is_disk = || !self.place.is_in_partition() && self.place.disk(&self.image, error).is_some();
        is_allowed && !is_of_another_form(error) && !is_disk()
    }

    /// Opens the image for reading, which keeps writers away. With `--repaired`, what is read is as a repair would leave it.
    pub fn device(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        match self.is_repaired() {
            true => Ok(self.stage_repair()?.device),
            false => self.device_with_lock(Lock::Shared),
        }
    }

    /// As [`device`](Self::device), and refuses an image that is mounted or attached to a loop device for writing.
    pub fn device_at_rest(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        self.refuse_repaired()?;
        self.device_with_lock(Lock::Unused)
    }

    /// Refuses `--repaired`, for a command that is about the image as it is.
    pub fn refuse_repaired(&self) -> Result<(), Failure> {
        match self.is_repaired() {
            true => Err(Failure::usage("--repaired is for commands that show what a file system holds")),
            false => Ok(()),
        }
    }

    fn stage_repair(&self) -> Result<Repaired, Failure> {
        // A repair compares what was written at different times.
        let device = self.device_with_lock(Lock::Unused)?;
        if let Some(Some(plan)) = &self.repaired {
            if self.names_superblock() {
                return Err(Failure::usage("--superblock belongs to the dry run that makes the plan"));
            }
            return Ok(repaired::planned(&plan::open(plan, &device, &self.image_place())?));
        }
        let options = RepairOptions {
            cache_budget_bytes: self.cache_size,
            superblock: self.superblock_choice(),
            ..RepairOptions::default()
        };
        repaired::stage(&device, &options).map_err(|error| self.not_opened(error))
    }

    fn device_with_lock(&self, lock: Lock) -> Result<Arc<dyn BlockDevice>, Failure> {
        let otherwise = match self.is_tolerant() || self.names_superblock() || lock == Lock::Unused {
            true => WithoutSuperblock::Everything,
            false => WithoutSuperblock::Beginning,
        };
        self.open_device(otherwise, lock)
    }

    /// As [`device_at_rest`](Self::device_at_rest), also where the beginning cannot be read.
    pub fn device_to_rescue(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        self.refuse_repaired()?;
        self.open_device(WithoutSuperblock::Everything, Lock::Unused)
    }

    /// With `--no-lock`, the user of the image that is refused without it.
    pub fn user(&self) -> Option<String> {
        let user = self.no_lock.then(|| claim::user_at(&self.image)).flatten();
        user.map(|user| user.to_string())
    }

    fn open_device(&self, otherwise: WithoutSuperblock, lock: Lock) -> Result<Arc<dyn BlockDevice>, Failure> {
        let options = OpenOptions {
            engine: self.engine.into(),
            direct: self.direct,
            lock: if self.no_lock { Lock::None } else { lock },
            ..OpenOptions::default()
        };
        if let Some(form) = forms::of(&self.image).filter(|form| form.is_read()) {
            let opened = self.open_form(form, otherwise, &options);
            return opened.and_then(|device| self.place.holding_something(device)).about_image(&self.image);
        }
        let part = self.place.find(&self.image).about_image(&self.image)?;
        let opened = part.open(&self.image, &options);
        let opened = opened.map_err(|error| in_use::not_opened_to_read(error, &self.image));
        opened.and_then(|device| self.place.holding_something(device)).about_image(&self.image)
    }

    /// Opens an image that is not plain. Where parts of it cannot be read alone, the file system is unpacked.
    fn open_form(
        &self,
        form: Form,
        otherwise: WithoutSuperblock,
        options: &OpenOptions,
    ) -> Result<Arc<dyn BlockDevice>, Failure> {
        match forms::open(form, &self.image, options, self.backing_files)? {
            Opened::Device(device) => {
                let part = self.place.find_on(&device)?;
                Ok(part.of(device).map_err(Error::from)?)
            }
            Opened::Stream(stream) => {
                let part = self.place.find_on(&stream.forward())?;
                Ok(stream.unpack(part, otherwise, options)?)
            }
        }
    }

    /// Opens the image for changes, with an exclusive lock.
    pub fn device_for_changes(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        if self.is_tolerant() || self.names_superblock() {
            return Err(Failure::usage("--tolerant and --superblock are for reading only"));
        }
        self.device_to_repair()
    }

    /// As [`device_for_changes`](Self::device_for_changes), for a repair, which may be told the superblock.
    pub fn device_to_repair(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        self.refuse_repaired()?;
        forms::refuse_changes(&self.image).about_image(&self.image)?;
        let extent = self.place.find(&self.image).about_image(&self.image)?;
        let options = OpenOptions {
            engine: self.engine.into(),
            direct: self.direct,
            writable: true,
            lock: Lock::Exclusive,
            ..OpenOptions::default()
        };
        extent
            .open(&self.image, &options)
            .map_err(|error| in_use::not_opened(error, &self.image))
            .and_then(|device| self.place.holding_something(device))
            .about_image(&self.image)
    }

    fn mount(&self, device: Arc<dyn BlockDevice>, ignore_dirty_log: bool) -> Result<MountedImage, Failure> {
        if self.is_tolerant() {
            return self.mount_tolerantly(device);
        }
        let device = self.with_superblock(device)?;
        self.mount_strictly(&device, ignore_dirty_log)
    }

    fn mount_strictly(
        &self,
        device: &Arc<dyn BlockDevice>,
        ignore_dirty_log: bool,
    ) -> Result<MountedImage, Failure> {
        let options =
            MountOptions { ignore_dirty_log, cache_budget_bytes: self.cache_size, ..MountOptions::default() };
        let (filesystem, _) =
            recovery::mount_recovered(device, &options).map_err(|error| self.not_mounted(error))?;
        Ok(MountedImage { filesystem, place: self.image_place() })
    }
}

impl ImageArguments {
    /// Where the image lies.
    pub(crate) fn image_place(&self) -> ImagePlace {
        ImagePlace::given(&self.image, &self.place)
    }

    /// Which superblock describes the file system.
    pub fn superblock_choice(&self) -> SuperblockChoice {
        match self.superblock {
            Some(SuperblockArgument(Some(group))) => SuperblockChoice::Group(AgNumber::new(group)),
            _ => SuperblockChoice::Automatic,
        }
    }

    /// Why the file system could not be opened that [`superblock_choice`](Self::superblock_choice) describes.
    pub(crate) fn not_opened(&self, error: Error) -> Failure {
        let failure = match (self.superblock, &error) {
            (Some(SuperblockArgument(Some(group))), Error::Operation(OperationError::NoSuchGroup)) => {
                Failure::usage(format!("--superblock {group}: there is no such allocation group"))
                    .with_remedy("--superblock auto takes the first one with a sound superblock")
            }
            _ => {
                let lengthening =
                    needed_bytes(&error).and_then(|bytes| self.image_place().lengthening(bytes));
                let other = self.place.disk(&self.image, &error);
                let other = other.or_else(|| self.place.other_contents(&self.image, &error));
                let failure = other.unwrap_or_else(|| no_file_system(error));
                match lengthening {
                    Some(remedy) => failure.with_remedy(&format!("{remedy}; what is there: --tolerant")),
                    None => failure,
                }
            }
        };
        failure.about_image(&self.image)
    }

    /// As [`not_opened`](Self::not_opened), for a command that shows files: says how those of a damaged image are seen.
    fn not_mounted(&self, error: Error) -> Failure {
        let is_damaged = is_no_file_system(&error)
            && self.place.disk(&self.image, &error).is_none()
            && self.place.other_contents(&self.image, &error).is_none();
        let failure = self.not_opened(error);
        match is_damaged && !self.is_repaired() {
            true => failure.with_remedy(
                "of a damaged file system uxfs check tells what is wrong, and --repaired shows the files as a repair would leave them",
            ),
            false => failure,
        }
    }

    fn mount_tolerantly(&self, device: Arc<dyn BlockDevice>) -> Result<MountedImage, Failure> {
        let superblock = self.superblock_choice();
        let options = TolerantOptions { cache_budget_bytes: self.cache_size, superblock };
        let filesystem = opening::open_to_read(device, &options).map_err(|error| self.not_opened(error))?;
        Ok(MountedImage { filesystem, place: self.image_place() })
    }
}

impl MountedImage {
    /// The outcome of a command on this image, after what was passed over has been reported.
    pub fn conclude(&self, outcome: Outcome) -> Outcome {
        let Some(findings) = self.filesystem.findings() else { return outcome };
        let (list, others) = findings.take();
        let mut complaints = Complaints::default();
        for finding in &list {
            let lengthening = match finding {
                Finding::DeviceTooShort { needed_bytes, .. } => self.place.lengthening(*needed_bytes),
                _ => None,
            };
            let remedy = lengthening.map(|remedy| format!(" ({remedy})")).unwrap_or_default();
            let failure = Failure::corruption(format!("{finding}{remedy}"));
            complaints.tell(&failure.in_image(self.place.path()));
        }
        if others > 0 {
            complaints.conclude(Exit::Corruption, format_args!("{others} more findings were not kept"));
        }
        complaints.raise(outcome?);
        Ok(complaints.exit())
    }
}

/// Whether the first sector begins no file system, as far as anything tells.
pub(crate) fn is_no_file_system(error: &Error) -> bool {
    beginning_of(error).is_some_and(|magic| !forms::is_known(magic))
}

/// Whether an error means that the file holds an image in another form.
pub(crate) fn is_of_another_form(error: &Error) -> bool {
    beginning_of(error).is_some_and(forms::is_known)
}

/// The first four bytes of an image that begins without a superblock.
pub(crate) fn beginning_of(error: &Error) -> Option<u32> {
    let Error::Corrupt(corruption) = error else { return None };
    let is_first = corruption.structure == Structure::Superblock
        && corruption.location.sector.is_none_or(|sector| sector.get() == 0);
    match corruption.fault {
        Fault::Header(HeaderFault::BadMagic { found, .. }) if is_first => Some(found),
        _ => None,
    }
}

/// Explains the error for a file without a superblock.
pub(crate) fn no_file_system(error: Error) -> Failure {
    let fault = match &error {
        Error::Corrupt(corruption)
            if corruption.structure == Structure::Superblock
                && corruption.location.sector.is_none_or(|sector| sector.get() == 0) =>
        {
            corruption.fault
        }
        _ => return remedy::add_to(Failure::from(&error), &error),
    };
    if let Some(failure) = beginning_of(&error).and_then(|magic| forms::is_no_file_system(magic, None)) {
        return failure;
    }
    match fault {
        Fault::Header(HeaderFault::BadMagic { .. } | HeaderFault::Truncated { .. }) => {
            Failure::refused(Kind::NotAFileSystem, "not an XFS file system, or its first sector is damaged")
                .with_remedy("one that lies elsewhere in the image is chosen with --partition or --offset")
        }
        _ => error.into(),
    }
}

/// Bytes of the file system, where the image has fewer.
pub(crate) fn needed_bytes(error: &Error) -> Option<u64> {
    match error {
        Error::Corrupt(corruption) => match corruption.fault {
            Fault::Superblock(SuperblockFault::DeviceTooShort { needed_bytes, .. }) => Some(needed_bytes),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an error means that the log is damaged, or that metadata is ahead of it.
pub(crate) fn is_of_log(error: &Error) -> bool {
    matches!(
        error,
        Error::Corrupt(corruption)
            if matches!(corruption.structure, Structure::Log | Structure::LogRecord)
                || matches!(corruption.fault, Fault::Header(HeaderFault::AheadOfLog { .. }))
    )
}

/// As [`no_file_system`], for an image that was to be changed: adds the remedy if the log is the problem.
pub(crate) fn not_for_changes(error: Error) -> Failure {
    let is_of_log = is_of_log(&error);
    let failure = no_file_system(error);
    if is_of_log {
        return failure
            .with_remedy("nothing was changed and the image can still be read; uxfs repair makes a new log");
    }
    failure
}

/// A file system that is open for reading.
#[derive(Debug)]
pub struct MountedImage {
    filesystem: Volume,
    place: ImagePlace,
}

impl Deref for MountedImage {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.filesystem
    }
}

//! The process that serves: it is confined before it reads the first byte of the image.

use std::{
    env,
    io::{self, Write},
    ops::ControlFlow,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use uxfs_block::{
    cache::pressure,
    claim::Lock,
    device::BlockDevice,
    engine::{OpenOptions, open, overlay, uring},
    window::{Part, Window},
};
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_filesystem::{
    filesystem::FileSystem,
    mount::{mount_recovered, mount_without_log, open_volume},
    recovery::{RecoveryReport, recover_to_read},
};
use uxfs_format::features::Unsupported;
use uxfs_fuse::{
    confinement::{self, Paths},
    link::{Link, Message},
    log::Level,
    mounting::{device::FuseDevice, options::FuseMountOptions},
    server::{Server, read_only::Access, settings::Settings},
    session::{self, Prepared},
};
use uxfs_image::form::Form;
use uxfs_partition::selection::{EmptySelector, Selector};
use uxfs_volume::{error::Error, superblock::refuse_unwritable};

use super::{
    Arguments,
    for_reading::{self, ForReading, Unchanged},
    refusal::refused,
    supervisor::END_OF_BEGINNING,
};
use crate::{
    failure::{Exit, Failure, Outcome},
    forms,
    image::not_for_changes,
    in_use,
    interrupt::Interrupt,
    kind::{Kind, Note},
    output::notice,
    partitions::{Disk, sector_bytes},
};

/// How often the thread that waits for a signal looks.
const LOOK: Duration = Duration::from_millis(100);
/// Every so many times it looks whether the journal's thread has met an error, and for times that are old enough.
const LOOKS_TO_TELL: u64 = 10;
/// Rings for batches of the image, where the mount does not say how many threads it has.
const USUAL_RINGS: usize = 8;
/// Overlays that may outgrow their memory: of a mount for reading what it holds back before and after recovery, and that of recovery.
const OVERLAYS: usize = 3;
/// What the process may map beside its cache: the program, the allocator's reserve, buffers, a log that is recovered.
const ADDRESS_SPACE_BYTES: u64 = 16 << 30;
/// The cache may be in pieces.
const CACHE_SHARES: u64 = 4;

/// Serves the image until it is unmounted.
pub fn serve(arguments: &Arguments, options: &FuseMountOptions) -> Outcome {
    // Without the call what the caller left open stays open.
    let _ = confinement::descriptors::close_inherited();
    confinement::descriptors::make_room();
    let link = io::stdin().as_fd().try_clone_to_owned().map(Link::from).map_err(failed)?;
    let interrupt = Interrupt::watch().map_err(failed)?;
    let settings = Settings::of(options);
    let threads = options.threads.map_or(USUAL_RINGS, |threads| usize::from(threads.get()));
    // Without rings the image is read and written by ordinary calls.
    let _ = uring::prepare_rings(threads);
    let form = forms::of(&arguments.target.image);
    if let Some(form) = form.filter(|form| !options.is_read_only || !form.is_read()) {
        return Err(forms::cannot_be_mounted(form, &arguments.target.image));
    }
    let (device, is_writable) = arguments.open(options, form)?;
    let image = Arc::clone(&device);
    let mut for_reading = ForReading::new(&image, &arguments.target.image, options);
    let prepared = session::prepare(&settings, options.threads);
    pressure::prepare_to_watch();
    overlay::prepare_files(OVERLAYS).map_err(failed)?;
    let cache_bytes = options.cache_size_bytes.unwrap_or_else(pressure::default_budget_bytes);
    let most_bytes = cache_bytes.saturating_mul(CACHE_SHARES).saturating_add(ADDRESS_SPACE_BYTES);
    // Do not keep the file system of the current directory busy.
    let _ = env::set_current_dir("/");
    let confined = confinement::confine(most_bytes).map_err(|error| Failure::caused_by(&error))?;
    tell_of_paths(confined.paths);
    let _ = pressure::watch_all_caches();
    let device = match form {
        Some(form) => forms::mountable(form, &device, &arguments.target.image, cache_bytes)?,
        None => device,
    };
    let disk = Disk::of(Arc::clone(&device), sector_bytes(&arguments.target.image));
    let device = partition(device, &disk, options, form)?;
    let direct_bytes = if options.is_read_only { 1 } else { device.alignment().offset_bytes };
    let mounted_on = match &mut for_reading {
        Some(for_reading) => for_reading.device(Arc::clone(&device), is_writable),
        None => Arc::clone(&device),
    };
    let opened =
        mount(mounted_on, options, cache_bytes).map_err(|error| refused(error, options, &disk, &*device))?;
    check_root(&opened.file_system)?;
    require_direct_writes(&opened.file_system, direct_bytes)?;
    let (link, is_without_log) = (Arc::new(link), opened.is_without_log);
    let (server, unchanged) = server_of(&opened, options, for_reading, (&link, arguments))?;
    let told = |error: rustix::io::Errno| failed(error.into());
    // Where the other process is gone, no line is read.
    let _ = io::stderr().write_all(&[END_OF_BEGINNING, b"\n"].concat());
    link.send(Message::Opened, &[]).map_err(told)?;
    let mut served = Ok(());
    if let Some((Message::Mounted, descriptors)) = link.receive().map_err(told)? {
        let is_over = Arc::<AtomicBool>::default();
        let flags = [interrupt.flag(), Arc::clone(&is_over)];
        served = match look_after(&server, &image, &link, flags) {
            Ok(()) => serve_mount(&server, descriptors, prepared, &link, arguments),
            Err(error) => Err(failed(error).about("no thread can be started")),
        };
        is_over.store(true, Ordering::Relaxed);
    }
    close(&server, &link, unchanged.as_ref(), is_without_log)?;
    if !server.access.is_for_reading() {
        image.check_length().map_err(Error::from)?;
    }
    served.map(|()| Exit::Success)
}

/// The server, after it has reported recovery. For a read-only mount, recovery is written to the image if allowed; such a mount also returns
/// an [`Unchanged`].
fn server_of(
    opened: &Opened,
    options: &FuseMountOptions,
    for_reading: Option<ForReading>,
    (link, arguments): (&Arc<Link>, &Arguments),
) -> Result<(Arc<Server>, Option<Unchanged>), Failure> {
    let file_system = Arc::clone(&opened.file_system);
    let Some(mut for_reading) = for_reading else {
        let server = Arc::new(Server::new(file_system, Settings::of(options)));
        tell_of_opening(&server, opened, None, (arguments, options));
        return Ok((server, None));
    };
    let not_written = match &opened.recovered {
        Some(_) if opened.has_unknown_features => Some("it has features that uxfs does not know".to_owned()),
        Some(_) if opened.is_without_log => Some("a part of it cannot be written".to_owned()),
        Some(_) => for_reading
            .write_recovered(link)
            .map_err(|error| in_use::not_opened(error, &arguments.target.image))?,
        None => None,
    };
    for_reading.let_mount();
    let refusal = for_reading.refusal(&file_system, opened);
    let settings = if refusal.is_some() { Settings::of(options) } else { Settings::of_changeable(options) };
    let mut server = Server::new(file_system, settings);
    let unchanged = for_reading.unchanged();
    server.access = Access::new(true, for_reading.readiness(refusal, link));
    tell_of_opening(&server, opened, not_written, (arguments, options));
    Ok((Arc::new(server), Some(unchanged)))
}

/// `not_written`: why what recovery wrote is not in the image.
fn tell_of_opening(
    server: &Server,
    opened: &Opened,
    not_written: Option<String>,
    (arguments, options): (&Arguments, &FuseMountOptions),
) {
    match &opened.recovered {
        Some(recovered) => tell_of_recovery(server, recovered, not_written, arguments),
        None if opened.has_unknown_features => {
            let (image, text) =
                (arguments.about(), "it has features that uxfs does not know: it can only be read");
            server.trouble.log.tell(Level::Info, format_args!("{image}: {text}"));
        }
        None if opened.is_without_log && !options.ignores_log => {
            let image = arguments.about();
            let text = "its headers are damaged; what can be read is shown (uxfs check tells more)";
            server.trouble.log.tell(Level::Warning, format_args!("{image}: {text}"));
        }
        None => {}
    }
}

/// Answers requests until the file system is unmounted.
fn serve_mount(
    server: &Arc<Server>,
    descriptors: Vec<OwnedFd>,
    prepared: Prepared,
    link: &Link,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let devices = descriptors.into_iter().map(FuseDevice::from).collect();
    let served = session::serve(server.as_ref(), devices, prepared, || {
        // Where the other process is gone, the mount is there all the same.
        let _ = link.send(Message::Served, &[]);
        tell(server, format_args!("{}: mounted", arguments.about()));
    });
    tell(server, format_args!("{}: unmounted, the image is made whole", arguments.about()));
    served.map_err(|error| Failure::caused_by(&error))
}

fn tell_of_paths(paths: Paths) {
    if paths == Paths::None {
        notice!(
            Note::Host,
            "warning: this kernel has no Landlock: the process that serves could open files if the image took it over"
        );
    }
}

/// Makes the image whole. Without its log it cannot be, and nothing of it was changed; of a mount for reading nothing was to reach it.
fn close(
    server: &Server,
    link: &Link,
    unchanged: Option<&Unchanged>,
    is_without_log: bool,
) -> Result<(), Failure> {
    let closed = if is_without_log { Ok(()) } else { server.close() };
    let Some(unchanged) = unchanged.filter(|_| server.access.is_for_reading()) else {
        return closed.map_err(not_for_changes);
    };
    // A block device has no times to compare; there corruption at the end shows that another program wrote.
    if !unchanged.has_same_contents() || matches!(closed, Err(Error::Corrupt(_))) {
        // Where the other process is gone, no program waits to hear it.
        let _ = link.send(Message::WasChanged, &[]);
    } else if let Err(error) = closed {
        server.trouble.log.tell(Level::Warning, format_args!("warning: {error}"));
    }
    Ok(())
}

fn failed(error: io::Error) -> Failure {
    Failure::caused_by(&error)
}

fn tell(server: &Server, text: std::fmt::Arguments<'_>) {
    server.trouble.log.tell(Level::Info, text);
}

/// Looks after what no request does. A signal asks the other process to unmount: this one cannot.
fn look_after(
    server: &Arc<Server>,
    image: &Arc<dyn BlockDevice>,
    link: &Arc<Link>,
    [is_asked, is_over]: [Arc<AtomicBool>; 2],
) -> io::Result<()> {
    let (server, image, link) = (Arc::clone(server), Arc::clone(image), Arc::clone(link));
    let work = move || {
        let (mut is_passed_on, mut is_whole) = (false, true);
        for round in 0_u64.. {
            thread::sleep(LOOK);
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            if (is_asked.load(Ordering::Relaxed) || server.trouble.has_failed()) && !is_passed_on {
                is_passed_on = link.send(Message::PleaseUnmount, &[]).is_ok();
            }
            if round.is_multiple_of(LOOKS_TO_TELL) {
                is_whole = is_whole && require_whole(&server, &*image);
                server.trouble.tell_of_shutdown(server.file_system());
                server.lazy_times.write_old(server.file_system());
            }
        }
    };
    thread::Builder::new().name("uxfs-look-after".to_owned()).spawn(work).map(drop)
}

/// Whether the image has its length. Else nothing is changed any more: what is written behind its end now would read as zeros around it.
fn require_whole(server: &Server, image: &dyn BlockDevice) -> bool {
    let Err(error) = image.check_length() else { return true };
    server.trouble.log.tell(Level::Error, format_args!("{}", error.source));
    if let Some(journal) = server.file_system().journal().filter(|_| !server.access.is_for_reading()) {
        journal.shut_down(&error);
    }
    false
}

impl Arguments {
    /// Opens the image without reading it. In a packed image, offsets are those of the unpacked contents. Returns the device and whether it is writable.
    fn open(
        &self,
        options: &FuseMountOptions,
        form: Option<Form>,
    ) -> Result<(Arc<dyn BlockDevice>, bool), Failure> {
        let open_options = OpenOptions {
            engine: self.engine.into(),
            direct: options.has_direct_image_io,
            start_bytes: options.offset_bytes.filter(|_| form.is_none()).unwrap_or(0),
            writable: form.is_none(),
            // What a mount has read it keeps: nothing may change beneath it.
            lock: if options.is_read_only { Lock::Unused } else { Lock::Exclusive },
        };
        let image = &self.target.image;
        let opened = match options.is_read_only {
            true => for_reading::open_image(image, options, open_options),
            false => open(image, &open_options).map(|device| (device, true)),
        };
        opened.map_err(|error| in_use::not_opened(error, image))
    }
}

/// A file system that can be served.
pub(super) struct Opened {
    file_system: Arc<FileSystem>,
    pub recovered: Option<RecoveryReport>,
    /// The log is left aside: that was asked for, or it is clean and the rest is damaged, or it was recovered only to be read.
    pub is_without_log: bool,
    /// It can only be read.
    pub has_unknown_features: bool,
}

fn mount(
    device: Arc<dyn BlockDevice>,
    options: &FuseMountOptions,
    cache_bytes: u64,
) -> Result<Opened, Error> {
    let interval = options.commit_interval.unwrap_or(LogOptions::USUAL_CHECKPOINT_INTERVAL);
    let log =
        LogOptions { has_background: true, checkpoint_interval: Some(interval), ..LogOptions::default() };
    let mount_options =
        MountOptions { cache_budget_bytes: Some(cache_bytes), log, ..MountOptions::default() };
    let without_log = |device| {
        let file_system = Arc::new(mount_without_log(device, &mount_options)?);
        let has_unknown_features =
            refuse_unwritable(&**file_system.device(), file_system.superblock()).is_err();
        Ok(Opened { file_system, recovered: None, is_without_log: true, has_unknown_features })
    };
    if options.ignores_log {
        return without_log(device);
    }
    let error = match mount_recovered(Arc::clone(&device), &mount_options) {
        Ok((file_system, recovered)) => {
            let opened =
                Opened { file_system, recovered, is_without_log: false, has_unknown_features: false };
            return Ok(opened);
        }
        Err(error) if !options.is_read_only => return Err(error),
        Err(error) => error,
    };
    match error {
        // For reading the headers of groups need not be right, and features that keep others from writing do not matter. A clean log holds
        // nothing that the image lacks.
        Error::Corrupt(_)
        | Error::Unsupported(
            Unsupported::UnknownRoCompatible { .. } | Unsupported::UnknownLogIncompatible { .. },
        ) if open_volume(Arc::clone(&device), &mount_options).is_ok() => without_log(device),
        // What the log has of the realtime section is not shown, and the rest can be.
        Error::Unsupported(Unsupported::RealtimeData | Unsupported::UnknownRoCompatible { .. }) => {
            // The superblock in the log may be older than the feature.
            let has_unknown = matches!(error, Error::Unsupported(Unsupported::UnknownRoCompatible { .. }));
            let to_read = MountOptions { is_thrown_away: true, ..mount_options };
            let recovered = recover_to_read(&device, &to_read)?.ok_or(error)?;
            let mut opened = without_log(recovered.device())?;
            opened.recovered = Some(recovered.report().clone());
            opened.has_unknown_features |= has_unknown;
            Ok(opened)
        }
        error => Err(error),
    }
}

/// The part of the device that holds the file system.
fn partition(
    device: Arc<dyn BlockDevice>,
    disk: &Disk,
    options: &FuseMountOptions,
    form: Option<Form>,
) -> Result<Arc<dyn BlockDevice>, Failure> {
    let Some(selector) = selector(options)? else {
        let start_bytes = options.offset_bytes.filter(|_| form.is_some()).unwrap_or(0);
        return Ok(Part { start_bytes, length_bytes: None }.of(device).map_err(Error::from)?);
    };
    let range = disk.find(&selector)?;
    Ok(Arc::new(Window::new(device, range.start, range.end - range.start).map_err(Error::from)?))
}

pub(super) fn selector(options: &FuseMountOptions) -> Result<Option<Selector>, Failure> {
    let parsed = options.partition.as_deref().map(str::parse).transpose();
    parsed.map_err(|error: EmptySelector| Failure::usage(format!("partition=: {error}")))
}

/// Writes past the page cache of the host take whole blocks of it: smaller sectors could never be written.
fn require_direct_writes(file_system: &FileSystem, direct_bytes: u32) -> Result<(), Failure> {
    let sector_bytes = file_system.geometry().sector_size_bytes;
    if sector_bytes.is_multiple_of(direct_bytes) {
        return Ok(());
    }
    let message = format!(
        "direct: the host takes direct writes of {direct_bytes} bytes, and the sectors of this file system have {sector_bytes}"
    );
    Err(Failure::refused(Kind::Invalid, message).with_remedy("mount it without direct"))
}

fn tell_of_recovery(
    server: &Server,
    recovered: &RecoveryReport,
    not_written: Option<String>,
    arguments: &Arguments,
) {
    let (image, log) = (arguments.about(), &server.trouble.log);
    match not_written {
        None => log.tell(Level::Info, format_args!("{image}: the log was dirty and has been recovered")),
        Some(reason) => log.tell(
            Level::Info,
            format_args!(
                "{image}: the log was dirty and has been recovered in memory, not in the image: {reason}"
            ),
        ),
    }
    if recovered.has_found_damage() {
        let left = [
            (recovered.broken_lists, "damaged lists of unlinked inodes were cut off"),
            (recovered.kept_inodes, "inodes that are in use stood on such lists and were kept"),
            (recovered.given_up.inodes.len() as u64, "unlinked inodes could not be freed"),
            (recovered.given_up.free_intents.len() as u64, "extents could not be freed"),
        ];
        for (count, what) in left.into_iter().filter(|(count, _)| *count > 0) {
            log.tell(
                Level::Warning,
                format_args!("{image}: recovery met damage: {count} {what} (uxfs repair finds them)"),
            );
        }
    }
}

/// A file system without a root directory is not mounted: nothing could be reached.
fn check_root(file_system: &FileSystem) -> Result<(), Failure> {
    let root = file_system.open(file_system.geometry().root_inode);
    let read = root.and_then(|root| file_system.read_entries(&root, 0, |_| ControlFlow::Break(())));
    read.map(drop).map_err(|error| {
        let failure = Failure::from(error).about("the root directory cannot be read");
        failure.with_remedy("uxfs repair mends it, uxfs rescue saves the files; nothing was mounted")
    })
}

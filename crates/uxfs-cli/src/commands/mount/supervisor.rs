//! The process that mounts, watches over the confined one that serves, and unmounts. It reads no byte of the image.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{atomic::Ordering, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    fs::{OFlags, fcntl_setfl},
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
    process::Signal,
};
use uxfs_block::claim::{ClaimError, require_alone};
use uxfs_fuse::{
    fork::{self, Child},
    link::{Link, Message},
    log::Level,
    mounting::{
        self,
        ending::{Ending, Teller},
        mount_point,
        mounted::Mounted,
        options::FuseMountOptions,
    },
    session,
};

use super::{
    Arguments, background::Awaited, confined, image_file::ImageFile, log, outcome_of, refusal, tell_of_child,
};
use crate::{
    failure::{Exit, Failure, Outcome},
    interrupt::Interrupt,
    kind::Kind,
};

/// How often a mount that is to end looks for that.
const LOOK_MILLISECONDS: u32 = 100;
/// How often the process that serves is looked after.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// A server that leaves for so long waits in the kernel for something, maybe for its own mount: that is taken away.
const LONGEST_LEAVING: Duration = Duration::from_secs(2);
/// The line after all that the process that serves has to say before the image is open.
pub(super) const END_OF_BEGINNING: &[u8] = b"\0";
/// Room for lines that are not passed on yet.
const LINES_BYTES: usize = 1 << 20;
/// The look for other users of the image. What it waits for itself is shorter.
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// What became of the image of a mount for reading.
const WAS_CHANGED: &str = "another program may have changed the image while it was mounted with ro; what was shown may be older in part";
/// A server that leaves for so long once its mount is gone is left alone.
const LONGEST_GONE: Duration = Duration::from_secs(10);

/// Runs it until the file system is unmounted and the image is whole. `awaited`: the command that waits until it is there, if one does.
pub fn run(
    arguments: &Arguments,
    options: &FuseMountOptions,
    awaited: Option<Awaited>,
    json: bool,
) -> Outcome {
    let image = std::fs::canonicalize(&arguments.target.image)
        .map_err(|error| Failure::caused_by(&error).about("cannot open it"))?;
    // Before the image is opened: what is wrong with the directory is said first.
    let directory = &arguments.target.directory;
    mount_point::check(directory).map_err(|error| refusal::no_mount_point(&error, directory))?;
    // It has one thread and no handlers of signals until then, which the child would have too.
    let (mut server, link) = Serving::start(arguments, options, json)?;
    let interrupt = Interrupt::watch().map_err(failed)?;
    match wait_until_open(&link, &interrupt, &image, &server)? {
        Beginning::Open => {}
        Beginning::Ended => return server.end(),
        Beginning::Interrupted => {
            server.stop();
            let words = "interrupted: nothing is mounted, and the next mount recovers the log";
            return Err(Failure::refused(Kind::Interrupted, words));
        }
    }
    server.wait_for_lines();
    let kept = ImageFile::of(&image);
    let mut mounted = match mounting::mount(OsStr::new(&image), &arguments.target.directory, options) {
        Ok(mounted) => mounted,
        Err(error) => {
            drop(link);
            server.end()?;
            return Err(Failure::caused_by(&error).at_host(&arguments.target.directory));
        }
    };
    if !mounted.warnings().is_empty() {
        log::tell(Level::Warning, &format!("warning: {}", mounted.warnings()));
    }
    if arguments.foreground && !options.has_automatic_unmount {
        // Where no program is installed that unmounts, a killed command leaves the mount.
        let _ = mounted.guard();
    }
    let teller = Teller::of(mounted.unique_id());
    let (look, streams) = (Look { image: &image, kept: kept.as_ref() }, (&link, &interrupt));
    let watched = watch(awaited, options, &mut mounted, &mut server, &look, streams);
    drop(link);
    // Of a mount for reading nothing is lost with the image.
    let kept = kept.filter(|_| server.takes_changes);
    let was_changed = server.was_changed && !server.takes_changes;
    let ended = server.end();
    // A mount whose server is gone answers nothing.
    let unmounted = mounted.abort().map_err(|error| Failure::caused_by(&error));
    let outcome = watched.and(ended).and_then(|exit| unmounted.map(|()| exit));
    let mut warning = String::new();
    let outcome = outcome.and_then(|exit| {
        warning = kept.map_or(Ok(None), ImageFile::check)?.unwrap_or_default();
        if was_changed {
            WAS_CHANGED.clone_into(&mut warning);
        }
        Ok(exit)
    });
    if !warning.is_empty() {
        log::tell(Level::Warning, &format!("warning: {}: {warning}", image.display()));
    }
    if let Some(teller) = teller {
        teller.tell(&ending_of(&outcome, warning));
    }
    outcome
}

/// What those are told that wait for the end.
fn ending_of(outcome: &Outcome, warning: String) -> Ending {
    let (exit, reason) = match outcome {
        Ok(Exit::Success) => (Exit::Success, warning),
        // It has said why itself.
        Ok(exit) => (*exit, log::last_error()),
        Err(failure) => match failure.parts() {
            Some((_, exit, reason)) => (exit, reason.into_owned()),
            None => (Exit::Failed, String::new()),
        },
    };
    Ending { exit_code: exit as u8, reason }
}

/// How the process that serves begins.
enum Beginning {
    /// The image is open.
    Open,
    /// It has ended, and said why.
    Ended,
    /// A signal came.
    Interrupted,
}

/// Waits until the image is open. A long log may be recovered meanwhile.
fn wait_until_open(
    link: &Link,
    interrupt: &Interrupt,
    image: &Path,
    server: &Serving,
) -> Result<Beginning, Failure> {
    loop {
        if link.wait(LOOK_MILLISECONDS).map_err(|error| failed(error.into()))? {
            match next(link)? {
                Some(Message::Opened) => return Ok(Beginning::Open),
                Some(Message::MayChange) => Look { image, kept: None }.answer(link, server, None),
                _ => return Ok(Beginning::Ended),
            }
        } else if interrupt.flag().load(Ordering::Relaxed) {
            return Ok(Beginning::Interrupted);
        }
    }
}

/// Whose users are looked for.
struct Look<'a> {
    image: &'a Path,
    /// It, where it is a file that may have another name by now.
    kept: Option<&'a ImageFile>,
}

impl Look<'_> {
    /// Reports to the server whether other programs use the image. The confined server cannot see mounts and loop devices, and they take no lock.
    fn answer(&self, link: &Link, server: &Serving, mounted: Option<&Mounted>) {
        let number = mounted.map(|mounted| mounted.device_number().number());
        let holder = server.child.id().as_raw_nonzero().get().unsigned_abs();
        let (image, kept) = (self.image.to_owned(), self.kept.and_then(ImageFile::metadata));
        let (told, outcome) = mpsc::channel();
        // The paths may lie in this very mount, whose server waits for the answer. So a thread looks, with a time limit.
        let look = move || {
            let metadata = kept.map_or_else(|| fs::metadata(&image).map_err(ClaimError::from), Ok);
            let _ = told.send(metadata.and_then(|metadata| require_alone(&metadata, holder, number)).is_ok());
        };
        let started = thread::Builder::new().name("look".to_owned()).spawn(look);
        let is_alone = started.is_ok() && outcome.recv_timeout(LONGEST_LOOK).unwrap_or(false);
        let answer = if is_alone { Message::Alone } else { Message::NotAlone };
        // A server that has gone meanwhile is noticed by the next message.
        let _ = link.send(answer, &[]);
    }
}

/// From the mount to the end of the process that serves.
fn watch(
    mut awaited: Option<Awaited>,
    options: &FuseMountOptions,
    mounted: &mut Mounted,
    server: &mut Serving,
    look: &Look<'_>,
    (link, interrupt): (&Link, &Interrupt),
) -> Result<(), Failure> {
    let devices = session::devices(mounted, options.threads);
    let devices = devices.map_err(|error| Failure::caused_by(&error))?;
    let descriptors: Vec<_> = devices.iter().map(AsFd::as_fd).collect();
    link.send(Message::Mounted, &descriptors).map_err(|error| failed(error.into()))?;
    // The mount must die with the process that serves.
    drop(devices);
    let flag = interrupt.flag();
    let mut is_asked = false;
    let mut looked_after = Instant::now();
    loop {
        if link.wait(LOOK_MILLISECONDS).map_err(|error| failed(error.into()))? {
            match next(link)? {
                Some(Message::Served) => {
                    session::set_kernel_limits(mounted);
                    if let Some(awaited) = awaited.take() {
                        log::to_system();
                        awaited.tell();
                    }
                }
                Some(Message::TakesChanges) => server.takes_changes = true,
                Some(Message::PleaseUnmount) => flag.store(true, Ordering::Relaxed),
                Some(Message::MayChange) => look.answer(link, server, Some(mounted)),
                Some(Message::WasChanged) => {
                    // `uxfs umount` reports it at the end.
                    server.was_changed = true;
                }
                Some(Message::Opened | Message::Mounted | Message::Alone | Message::NotAlone) => {}
                None => return Ok(()),
            }
        }
        if flag.load(Ordering::Relaxed) && !is_asked {
            is_asked = true;
            mounted.unmount(true).map_err(|error| Failure::caused_by(&error))?;
        }
        if looked_after.elapsed() >= LOOK_AFTER {
            looked_after = Instant::now();
            server.look_after(mounted)?;
        }
    }
}

fn next(link: &Link) -> Result<Option<Message>, Failure> {
    let received = link.receive().map_err(|error| failed(error.into()))?;
    Ok(received.map(|(message, _)| message))
}

fn failed(error: io::Error) -> Failure {
    Failure::caused_by(&error)
}

/// The process that serves.
struct Serving {
    child: Child,
    lines: Option<JoinHandle<()>>,
    /// The image may have been changed.
    takes_changes: bool,
    /// Another program may have changed it, of a mount for reading.
    was_changed: bool,
    /// Hears when what it said until the image was open has been passed on.
    are_passed_on: mpsc::Receiver<()>,
    /// Since when it leaves, and does not go.
    leaves_since: Option<Instant>,
}

impl Serving {
    /// Starts it, and gives the link to it.
    fn start(arguments: &Arguments, options: &FuseMountOptions, json: bool) -> Result<(Self, Link), Failure> {
        let cannot =
            |error: io::Error| Failure::caused_by(&error).about("cannot start the process that serves");
        let (link, theirs) = Link::pair().map_err(|error| cannot(error.into()))?;
        let (lines, errors) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| cannot(error.into()))?;
        let work = move || {
            let outcome = take_streams(theirs, errors).and_then(|()| confined::serve(arguments, options));
            tell_of_child(outcome, arguments, json)
        };
        let (child, (link, lines)) = fork::fork(c"uxfs-serve", (link, lines), work)
            .map_err(|error| Failure::caused_by(&error).about("cannot start the process that serves"))?;
        let (passed_on, are_passed_on) = mpsc::channel();
        let pass_on = move || {
            for line in BufReader::new(File::from(lines)).split(b'\n').map_while(Result::ok) {
                if line == END_OF_BEGINNING {
                    // The receiver may have stopped waiting.
                    let _ = passed_on.send(());
                } else {
                    log::pass_on(&String::from_utf8_lossy(&line));
                }
            }
        };
        let takes_changes = !options.is_read_only;
        let mut serving =
            Self { child, lines: None, takes_changes, was_changed: false, are_passed_on, leaves_since: None };
        match thread::Builder::new().name("lines".to_owned()).spawn(pass_on) {
            Ok(lines) => serving.lines = Some(lines),
            Err(error) => {
                serving.stop();
                return Err(Failure::caused_by(&error).about("no thread can be started"));
            }
        }
        Ok((serving, link))
    }

    /// Waits until all is passed on that it had to say before the image was open: the command that waits shows it then.
    fn wait_for_lines(&self) {
        // One that has ended meanwhile says no more.
        let _ = self.are_passed_on.recv_timeout(LONGEST_LEAVING);
    }

    /// Takes the mount away where this was ended and does not go: a thread of it waits in the kernel, and with it all that use the mount.
    fn look_after(&mut self, mounted: &mut Mounted) -> Result<(), Failure> {
        if !self.child.is_leaving() {
            self.leaves_since = None;
            return Ok(());
        }
        let leaves_for = self.leaves_since.get_or_insert_with(Instant::now).elapsed();
        if leaves_for >= LONGEST_LEAVING {
            mounted.abort().map_err(|error| Failure::caused_by(&error))?;
        }
        if leaves_for >= LONGEST_GONE { Err(self.stuck()) } else { Ok(()) }
    }

    fn stuck(&self) -> Failure {
        let words = format!(
            "the process that served ({}) was ended, but waits for the image or its device: what uses the image must wait until it is gone",
            self.child.id().as_raw_nonzero()
        );
        Failure::refused(Kind::TimedOut, words)
    }

    /// Ends it now. What it has not written the log has.
    fn stop(mut self) {
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait_at_most(LONGEST_GONE);
    }

    /// Waits for its end. What went wrong it has said itself.
    fn end(mut self) -> Outcome {
        let status = loop {
            match self.child.wait_at_most(LONGEST_GONE).map_err(failed)? {
                Some(status) => break status,
                // It makes the image whole, which takes as long as it takes.
                None if !self.child.is_leaving() => {}
                None => return Err(self.stuck()),
            }
        };
        if let Some(lines) = self.lines.take() {
            // A panic in there lost a line at most.
            let _ = lines.join();
        }
        outcome_of(status, "the process that served")
    }
}

/// What the process that serves has open, before it opens the image: its link as standard input, and the pipe for what it has to say.
fn take_streams(link: Link, errors: OwnedFd) -> Result<(), Failure> {
    // The keys that end programs at a terminal are for the other process, which unmounts.
    let _ = rustix::process::setsid();
    let nothing = File::options().write(true).open("/dev/null").map_err(failed)?;
    let taken = rustix::stdio::dup2_stdin(&link)
        .and_then(|()| rustix::stdio::dup2_stdout(&nothing))
        .and_then(|()| rustix::stdio::dup2_stderr(&errors));
    // A line that finds no room is left out: what it tells of must not wait for a log.
    let kept = taken.and_then(|()| fcntl_setfl(&errors, OFlags::NONBLOCK));
    // Without the right to more room there is less.
    let _ = fcntl_setpipe_size(&errors, LINES_BYTES);
    kept.map_err(|error| failed(error.into()))
}

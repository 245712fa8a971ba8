//! The process that mounts, watches over the confined one that serves, and unmounts. It reads no byte of the image.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufRead, BufReader},
    os::fd::{AsFd, OwnedFd},
    sync::atomic::Ordering,
    thread::{self, JoinHandle},
};

use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::Signal,
};
use uxfs_fuse::{
    fork::{self, Child},
    link::{Link, Message},
    mounting::{self, mount_point, mounted::Mounted, options::FuseMountOptions},
    session,
};

use super::{Arguments, background::Awaited, confined, log, outcome_of, tell_of_child};
use crate::{
    failure::{Failure, Outcome},
    interrupt::Interrupt,
};

/// How often a mount that is to end looks for that.
const LOOK_MILLISECONDS: u32 = 100;

/// Runs it until the file system is unmounted and the image is whole. `awaited`: the command that waits until it is there, if one does.
pub fn run(
    arguments: &Arguments,
    options: &FuseMountOptions,
    awaited: Option<Awaited>,
    json: bool,
) -> Outcome {
    let image = std::fs::canonicalize(&arguments.target.image)
        .map_err(|error| Failure::failed(uxfs_block::words::in_words(&error).to_string()))?;
    // Before the image is opened: what is wrong with the directory is said first.
    mount_point::check(&arguments.target.directory).map_err(|error| Failure::failed(error.to_string()))?;
    // It has one thread and no handlers of signals until then, which the child would have too.
    let (server, link) = Serving::start(arguments, options, json)?;
    let interrupt = Interrupt::watch().map_err(failed)?;
    // A long log may be recovered meanwhile.
    while !link.wait(LOOK_MILLISECONDS).map_err(|error| failed(error.into()))? {
        if interrupt.flag().load(Ordering::Relaxed) {
            server.stop();
            return Err(Failure::failed(
                "interrupted: nothing is mounted, and the next mount recovers the log",
            ));
        }
    }
    let Some(Message::Opened) = next(&link)? else { return server.end() };
    let mut mounted = match mounting::mount(OsStr::new(&image), &arguments.target.directory, options) {
        Ok(mounted) => mounted,
        Err(error) => {
            drop(link);
            server.end()?;
            return Err(Failure::failed(error.to_string()));
        }
    };
    let outcome = watch(awaited, options, &mut mounted, (&link, &interrupt));
    drop(link);
    // A mount whose server is gone answers nothing.
    let ended = server.end();
    let unmounted = mounted.unmount(true).map_err(|error| Failure::failed(error.to_string()));
    let exit = ended?;
    outcome.and(unmounted).map(|()| exit)
}

/// From the mount to the end of the process that serves.
fn watch(
    mut awaited: Option<Awaited>,
    options: &FuseMountOptions,
    mounted: &mut Mounted,
    (link, interrupt): (&Link, &Interrupt),
) -> Result<(), Failure> {
    let devices = session::devices(mounted, options.threads);
    let devices = devices.map_err(|error| Failure::failed(error.to_string()))?;
    let descriptors: Vec<_> = devices.iter().map(AsFd::as_fd).collect();
    link.send(Message::Mounted, &descriptors).map_err(|error| failed(error.into()))?;
    // The mount must die with the process that serves.
    drop(devices);
    let flag = interrupt.flag();
    let mut is_asked = false;
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
                Some(Message::PleaseUnmount) => flag.store(true, Ordering::Relaxed),
                Some(Message::Opened | Message::Mounted) => {}
                None => return Ok(()),
            }
        }
        if flag.load(Ordering::Relaxed) && !is_asked {
            is_asked = true;
            mounted.unmount(true).map_err(|error| Failure::failed(error.to_string()))?;
        }
    }
}

fn next(link: &Link) -> Result<Option<Message>, Failure> {
    let received = link.receive().map_err(|error| failed(error.into()))?;
    Ok(received.map(|(message, _)| message))
}

fn failed(error: io::Error) -> Failure {
    Failure::failed(uxfs_block::words::in_words(&error).to_string())
}

/// The process that serves.
struct Serving {
    child: Child,
    lines: Option<JoinHandle<()>>,
}

impl Serving {
    /// Starts it, and gives the link to it.
    fn start(arguments: &Arguments, options: &FuseMountOptions, json: bool) -> Result<(Self, Link), Failure> {
        let cannot =
            |error: io::Error| Failure::failed(format!("cannot start the process that serves: {error}"));
        let (link, theirs) = Link::pair().map_err(|error| cannot(error.into()))?;
        let (lines, errors) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| cannot(error.into()))?;
        let work = move || {
            let outcome = take_streams(theirs, errors).and_then(|()| confined::serve(arguments, options));
            tell_of_child(outcome, arguments, json)
        };
        let (child, (link, lines)) = fork::fork(c"uxfs-serve", (link, lines), work)
            .map_err(|error| Failure::failed(format!("cannot start the process that serves: {error}")))?;
        let lines = thread::spawn(move || {
            for line in BufReader::new(File::from(lines)).split(b'\n').map_while(Result::ok) {
                log::line(&String::from_utf8_lossy(&line));
            }
        });
        Ok((Self { child, lines: Some(lines) }, link))
    }

    /// Ends it now. What it has not written the log has.
    fn stop(mut self) {
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// Waits for its end. What went wrong it has said itself.
    fn end(mut self) -> Outcome {
        let status = self.child.wait().map_err(failed)?;
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
    taken.map_err(|error| failed(error.into()))
}

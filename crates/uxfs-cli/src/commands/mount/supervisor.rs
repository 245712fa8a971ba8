//! The process that mounts, watches over the confined one that serves, and unmounts. It reads no byte of the image.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Child, ExitStatus, Stdio},
    sync::atomic::Ordering,
    thread::{self, JoinHandle},
};

use uxfs_fuse::{
    link::{Link, Message},
    mounting::{self, mount_point, mounted::Mounted, options::FuseMountOptions},
    session,
};

use super::{Arguments, SERVES, background, log};
use crate::{
    failure::{Exit, Failure, Outcome},
    interrupt::Interrupt,
};

/// How often a mount that is to end looks for that.
const LOOK_MILLISECONDS: u32 = 100;

/// Runs it until the file system is unmounted and the image is whole.
pub fn run(arguments: &Arguments, options: &FuseMountOptions) -> Outcome {
    let interrupt = Interrupt::watch().map_err(failed)?;
    let image = std::fs::canonicalize(&arguments.target.image)
        .map_err(|error| Failure::failed(uxfs_block::words::in_words(&error).to_string()))?;
    // Before the image is opened: what is wrong with the directory is said first.
    mount_point::check(&arguments.target.directory).map_err(|error| Failure::failed(error.to_string()))?;
    let (link, theirs) = Link::pair().map_err(|error| failed(error.into()))?;
    let server = Serving::start(arguments, theirs)?;
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
    let outcome = watch(arguments, options, &mut mounted, (&link, &interrupt));
    drop(link);
    // A mount whose server is gone answers nothing.
    let ended = server.end();
    let unmounted = mounted.unmount(true).map_err(|error| Failure::failed(error.to_string()));
    let exit = ended?;
    outcome.and(unmounted).map(|()| exit)
}

/// From the mount to the end of the process that serves.
fn watch(
    arguments: &Arguments,
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
                    if arguments.is_awaited {
                        log::to_system();
                        background::tell();
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
    /// Starts this command again.
    fn start(arguments: &Arguments, link: Link) -> Result<Self, Failure> {
        let cannot =
            |error: io::Error| Failure::failed(format!("cannot start the process that serves: {error}"));
        let mut command = arguments.again(&[SERVES]).map_err(cannot)?;
        command.stdin(OwnedFd::from(link)).stdout(Stdio::null()).stderr(Stdio::piped());
        // The keys that end programs at a terminal are for this process, which unmounts.
        let mut child = command.process_group(0).spawn().map_err(cannot)?;
        let lines = child.stderr.take().map(|stderr| {
            thread::spawn(move || {
                for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                    log::line(&String::from_utf8_lossy(&line));
                }
            })
        });
        Ok(Self { child, lines })
    }

    /// Ends it now. What it has not written the log has.
    fn stop(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end. What went wrong it has said itself.
    fn end(mut self) -> Outcome {
        let status = self.child.wait().map_err(failed)?;
        if let Some(lines) = self.lines.take() {
            // A panic in there lost a line at most.
            let _ = lines.join();
        }
        outcome_of(status)
    }
}

fn outcome_of(status: ExitStatus) -> Outcome {
    match status.code() {
        Some(0) => Ok(Exit::Success),
        Some(code) => {
            let codes = [Exit::Usage, Exit::Corruption, Exit::Unsupported];
            Ok(codes.into_iter().find(|exit| *exit as i32 == code).unwrap_or(Exit::Failed))
        }
        None => {
            let signal = status.signal().unwrap_or(0);
            Err(Failure::failed(format!("the process that served was ended by signal {signal}")))
        }
    }
}

//! A process that serves a mount stays when the command ends.
//!
//! The command forks, and waits until its child tells that the file system is there, or ends.

use std::{env, fs::File, io, os::fd::OwnedFd};

use rustix::{
    io::{read, retry_on_intr, write},
    pipe::{PipeFlags, pipe_with},
};
use uxfs_fuse::{fork, mounting::options::FuseMountOptions};

use super::{Arguments, outcome_of, supervisor, tell_of_child};
use crate::failure::{Exit, Failure, Outcome};

/// What the process that mounts tells.
const READY: u8 = b'+';

/// Starts the process that mounts, and waits for it.
pub fn run(arguments: &Arguments, options: &FuseMountOptions, json: bool) -> Outcome {
    let failed = |error: io::Error| Failure::caused_by(&error).about("cannot start the process that mounts");
    let (told, teller) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let work = move || {
        let outcome =
            leave_input().and_then(|()| supervisor::run(arguments, options, Some(Awaited(teller)), json));
        tell_of_child(outcome, arguments, json)
    };
    let (mut child, told) = fork::fork(c"uxfs-mount", told, work)
        .map_err(|error| Failure::caused_by(&error).about("cannot start the process that mounts"))?;
    let mut byte = [0];
    if retry_on_intr(|| read(&told, &mut byte)).map_err(|error| failed(error.into()))? > 0 && byte == [READY]
    {
        return Ok(Exit::Success);
    }
    // It has said why on standard error.
    outcome_of(child.wait().map_err(failed)?, "the process that mounts")
}

/// Standard input and output are those of the command, which others may wait for.
fn leave_input() -> Result<(), Failure> {
    let nothing = nothing().map_err(|error| Failure::caused_by(&error))?;
    let left = rustix::stdio::dup2_stdin(&nothing).and_then(|()| rustix::stdio::dup2_stdout(&nothing));
    left.map_err(|error| Failure::caused_by(&error))
}

fn nothing() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

/// The command that waits.
#[derive(Debug)]
pub struct Awaited(OwnedFd);

impl Awaited {
    /// Tells it that the file system is there, and lets go of its terminal and its directory.
    pub fn tell(self) {
        let _ = rustix::process::setsid();
        // Nothing of the command may be held when it ends.
        if let Ok(nothing) = nothing() {
            let _ = rustix::stdio::dup2_stderr(&nothing);
        }
        let _ = env::set_current_dir("/");
        let _ = write(&self.0, &[READY]);
    }
}

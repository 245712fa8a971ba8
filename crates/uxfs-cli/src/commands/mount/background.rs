//! A process that serves a mount stays when the command ends.
//!
//! The command starts itself again in a session of its own, and waits until the new process tells that the file system is there, or ends.

use std::{
    env,
    fs::File,
    io::{self, Read, Write},
    os::unix::process::ExitStatusExt,
    process::Stdio,
};

use super::Arguments;
use crate::failure::{Exit, Failure, Outcome};

/// What the process that serves tells.
const READY: u8 = b'+';

const IS_AWAITED: &str = "--is-awaited";

/// Starts the process that serves, and waits for it.
pub fn run(arguments: &Arguments) -> Outcome {
    let failed = |error: io::Error| Failure::failed(format!("cannot start the process that serves: {error}"));
    let mut command = arguments.again(&[IS_AWAITED]).map_err(failed)?;
    let mut server = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut told = Vec::new();
    if let Some(mut output) = server.stdout.take() {
        output.read_to_end(&mut told).map_err(failed)?;
    }
    if told.first() == Some(&READY) {
        return Ok(Exit::Success);
    }
    // It has said why on standard error.
    let status = server.wait().map_err(failed)?;
    let codes = [Exit::Usage, Exit::Corruption, Exit::Unsupported];
    match status.code() {
        Some(code) => Ok(codes.into_iter().find(|exit| *exit as i32 == code).unwrap_or(Exit::Failed)),
        None => {
            let signal = status.signal().unwrap_or(0);
            Err(Failure::failed(format!("the process that serves was ended by signal {signal}")))
        }
    }
}

/// Tells the process that waits, and lets go of its terminal and its directory.
pub fn tell() {
    let _ = rustix::process::setsid();
    let _ = io::stdout().write_all(&[READY]).and_then(|()| io::stdout().flush());
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nothing);
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
    let _ = env::set_current_dir("/");
}

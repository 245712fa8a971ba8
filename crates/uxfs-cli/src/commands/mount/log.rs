//! What a mount has to say: on standard error, and once the command has returned, to the system's log.

use std::{
    io::Write,
    os::unix::net::UnixDatagram,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use uxfs_block::words::in_words;
use uxfs_fuse::log::Level;

use crate::{
    failure::{Exit, Failure},
    kind::Note,
    output::{is_json, notice_document, program},
};

/// Where the system's log takes messages: that of syslog, and of journald.
const SYSTEM: &str = "/dev/log";
/// Of syslog: a daemon's.
const FACILITY: u8 = 3 << 3;

static IS_SYSTEM: AtomicBool = AtomicBool::new(false);
static LAST_ERROR: Mutex<String> = Mutex::new(String::new());

/// From now on messages go to the system's log: nothing reads standard error any more.
pub fn to_system() {
    IS_SYSTEM.store(true, Ordering::Relaxed);
}

/// Whether they do.
pub fn is_system() -> bool {
    IS_SYSTEM.load(Ordering::Relaxed)
}

/// The last error that was told.
pub fn last_error() -> String {
    LAST_ERROR.lock().clone()
}

/// Tells why the mount failed, and gives the exit code.
pub fn failure(failure: &Failure) -> Exit {
    match failure.parts() {
        Some((_, exit, message)) => {
            match is_json() {
                true => tell_document(Level::Error, &message, &failure.document("error").to_string()),
                false => tell(Level::Error, &message),
            }
            exit
        }
        None => Exit::Success,
    }
}

/// Passes on a line of the process that serves.
pub fn pass_on(line: &str) {
    let (level, text) = Level::split(line);
    if let Some((level, words)) = document(text) {
        return tell_document(level, &words, text);
    }
    // A command's message begins with the name of the program.
    let text = text.strip_prefix(program()).and_then(|text| text.strip_prefix(": ")).unwrap_or(text);
    let usual = if text.contains("warning:") { Level::Warning } else { Level::Error };
    tell(level.unwrap_or(usual), text);
}

/// What a document tells that the process that serves has made with `--json`.
fn document(line: &str) -> Option<(Level, String)> {
    let document: serde_json::Value = serde_json::from_str(line).ok()?;
    let (key, told) = document.as_object()?.iter().next()?;
    let level = if key == "error" { Level::Error } else { Level::Warning };
    Some((level, told.get("message")?.as_str()?.to_owned()))
}

/// Passes on a document as it is.
fn tell_document(level: Level, words: &str, line: &str) {
    if is_system() {
        return tell(level, words);
    }
    if level == Level::Error {
        words.clone_into(&mut LAST_ERROR.lock());
    }
    put(line);
}

/// Tells one line.
pub fn tell(level: Level, text: &str) {
    let text = in_words(&text);
    if level == Level::Error {
        LAST_ERROR.lock().clone_from(&text);
    }
    if !is_system() {
        return match (is_json(), level) {
            (false, _) => put(&format!("{}: {text}", program())),
            (true, Level::Error) => put(&Failure::failed(text).document("error").to_string()),
            (true, Level::Warning) => {
                put(&notice_document(Note::Mount, &format!("warning: {text}")).to_string())
            }
            (true, _) => put(&notice_document(Note::Mount, &text).to_string()),
        };
    }
    let message = format!("<{}>uxfs[{}]: {text}", FACILITY | level as u8, std::process::id());
    // Without a log there is no place for it either; one that takes nothing now is not waited for.
    let _ = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(message.as_bytes(), SYSTEM)
    });
}

/// Writes a line. Standard error that is closed takes nothing; there is no other place.
fn put(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

//! What is left of a command that Ctrl-C or SIGTERM ends: a sentence about it, and no file that is only half made.
//!
//! Most commands need no more: their changes are in the log, or nothing of them is. Commands that go on for a while to put things in order
//! use `interrupt` instead.
//!
//! Invariants:
//! 1. A file is removed only if it has the device and inode number that it had when it was [made]: another program may have
//!    put another file in its place.
//! 2. After [`kept`] no signal removes the file: both hold the lock.
//! 3. The process ends by the signal, so that a shell that called it knows.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Once,
    thread,
};

use parking_lot::Mutex;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};

use crate::{kind::Note, output::notice};

/// Of the command that runs.
static STATE: Mutex<State> = Mutex::new(State { sentence: String::new(), made: Vec::new() });
static WATCHED: Once = Once::new();

#[derive(Debug)]
struct State {
    sentence: String,
    made: Vec<Made>,
}

/// A file that the command made.
#[derive(Debug)]
struct Made {
    path: PathBuf,
    /// Device and inode number.
    identity: (u64, u64),
}

/// As long as this lives a signal ends the process with a sentence.
#[derive(Debug)]
pub(crate) struct Remains(());

impl Remains {
    /// From now on a signal ends the process with this sentence about what is left. Where no thread can be started it ends it without.
    pub fn begin(sentence: impl Into<String>) -> Self {
        STATE.lock().sentence = sentence.into();
        WATCHED.call_once(|| {
            if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
                let handle = signals.handle();
                let watch = move || signals.forever().for_each(end);
                if thread::Builder::new().name("signals".to_owned()).spawn(watch).is_err() {
                    handle.close();
                    for signal in [SIGINT, SIGTERM] {
                        // Without the thread the handler would swallow the signal.
                        let _ = signal_hook::flag::register_conditional_default(signal, always());
                    }
                }
            }
        });
        Self(())
    }

    /// Another sentence from now on.
    pub fn say(&self, sentence: impl Into<String>) {
        STATE.lock().sentence = sentence.into();
    }

    /// Makes a file with `make`: a signal removes it, unless it was there before.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn making<T>(&self, path: &Path, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let was_there = fs::symlink_metadata(path).is_ok();
        let file = make(path)?;
        if !was_there {
            made(path);
        }
        Ok(file)
    }

    /// All files that were made are complete, and stay.
    pub fn kept(&self) {
        STATE.lock().made.clear();
    }
}

/// The command has made the file at `path`: a signal removes it.
pub(crate) fn made(path: &Path) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    if found.is_file() {
        let made = Made { path: path.to_path_buf(), identity: (found.dev(), found.ino()) };
        let mut state = STATE.lock();
        state.made.retain(|other| other.identity != made.identity);
        state.made.push(made);
    }
}

/// As [`made`], where it was not there before.
pub(crate) fn made_if(is_new: bool, path: &Path) {
    if is_new {
        made(path);
    }
}

/// The file at `path` is complete, and stays.
pub(crate) fn kept(path: &Path) {
    STATE.lock().made.retain(|made| made.path != path);
}

fn always() -> std::sync::Arc<std::sync::atomic::AtomicBool> {
    std::sync::Arc::new(true.into())
}

impl Drop for Remains {
    fn drop(&mut self) {
        *STATE.lock() = State { sentence: String::new(), made: Vec::new() };
    }
}

/// Ends the process.
fn end(signal: i32) {
    // Held to the end: no command begins or completes a file meanwhile.
    let mut state = STATE.lock();
    for Made { path, identity } in std::mem::take(&mut state.made) {
        let is_same = fs::symlink_metadata(&path).is_ok_and(|found| (found.dev(), found.ino()) == identity);
        if is_same && fs::remove_file(&path).is_ok() {
            state.sentence = format!("{} was not complete, and has been removed", path.display());
        }
    }
    if !state.sentence.is_empty() {
        notice!(Note::Interrupted, "interrupted: {}", state.sentence);
    }
    let _ = emulate_default_handler(signal);
}

//! The remains of a command that Ctrl-C or SIGTERM ends: a sentence about them, and no file that is only half made.
//!
//! Most commands need no more: their changes are in the log, or nothing of them is. Commands that go on for a while to put things in order
//! use `interrupt` instead. A signal that the caller has ignored, as nohup(1) and shells do for commands in the background, stays ignored.
//!
//! Invariants:
//! 1. A file is removed only if it has the device and inode number of the file that was made here: another program may have put another one
//!    in its place.
//! 2. A file that is only [reserved] is removed only while it is empty: it is not locked, and another program may have made a file system in it.
//! 3. After [`Remains::kept`] and [`kept`] no signal removes the file: both hold the lock.
//! 4. The process ends by the signal, so that a shell that called it knows. A second signal after a while ends it at once: the sentence may
//!    find no reader.
//! 5. A command that fails leaves no file that it made, either, unless it has said that the file is [kept].

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Once,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
    iterator::Signals,
    low_level::emulate_default_handler,
};

use crate::{kind::Note, output::notice};

/// Signals that come within this time are one: timeout(1) sends its signal to the process, and then to the group that it is in.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

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
    /// It is locked, and what is in it is ours.
    is_ours: bool,
}

impl Made {
    fn remove(&self) -> bool {
        let found = fs::symlink_metadata(&self.path);
        let may_go = |found: fs::Metadata| {
            (found.dev(), found.ino()) == self.identity && (self.is_ours || found.len() == 0)
        };
        found.is_ok_and(may_go) && fs::remove_file(&self.path).is_ok()
    }
}

/// As long as this lives a signal ends the process with a sentence.
#[derive(Debug)]
pub(crate) struct Remains(());

impl Remains {
    /// From now on a signal ends the process with this sentence about the remains. Where no thread can be started it ends it without.
    pub fn begin(sentence: impl Into<String>) -> Self {
        STATE.lock().sentence = sentence.into();
        WATCHED.call_once(watch);
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
    pub fn making(&self, path: &Path, make: impl FnOnce(&Path) -> io::Result<File>) -> io::Result<File> {
        let was_there = fs::symlink_metadata(path).is_ok();
        let file = make(path)?;
        if !was_there {
            made(path, &file);
        }
        Ok(file)
    }

    /// All files that were made are complete, and stay; nothing more is to be said.
    pub fn kept(&self) {
        *STATE.lock() = State { sentence: String::new(), made: Vec::new() };
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        let mut state = STATE.lock();
        state.made.drain(..).for_each(|made| {
            made.remove();
        });
        state.sentence.clear();
    }
}

/// The command has made the file at `path`, and has it locked: a signal removes it.
pub(crate) fn made(path: &Path, file: &File) {
    note(path, file, true);
}

/// The command has made the file at `path` and not locked it yet: a signal removes it while it is empty.
pub(crate) fn reserved(path: &Path, file: &File) {
    note(path, file, false);
}

fn note(path: &Path, file: &File, is_ours: bool) {
    let Ok(found) = file.metadata() else { return };
    if found.is_file() {
        let made = Made { path: path.to_path_buf(), identity: (found.dev(), found.ino()), is_ours };
        let mut state = STATE.lock();
        state.made.retain(|other| other.identity != made.identity);
        state.made.push(made);
    }
}

/// What is in the file at `path` is ours from now on, if it was [reserved].
pub(crate) fn begun(path: &Path) {
    STATE.lock().made.iter_mut().filter(|made| made.path == path).for_each(|made| made.is_ours = true);
}

/// The file at `path` is complete, and stays.
pub(crate) fn kept(path: &Path) {
    STATE.lock().made.retain(|made| made.path != path);
}

/// Removes the file that was made at `path`, and not another one in its place.
pub(crate) fn remove(path: &Path) {
    let mut state = STATE.lock();
    if let Some(index) = state.made.iter().position(|made| made.path == path) {
        state.made.swap_remove(index).remove();
    }
}

fn watch() {
    let signals: Vec<i32> = [SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)).collect();
    let may_end = Arc::new(AtomicBool::new(false));
    for signal in &signals {
        let _ = flag::register_conditional_default(*signal, Arc::clone(&may_end));
    }
    let may_end_now = Arc::clone(&may_end);
    let Ok(mut signals) = Signals::new(signals) else {
        return may_end_now.store(true, Relaxed);
    };
    let handle = signals.handle();
    let end_all = move || {
        for signal in signals.forever() {
            let may_end = Arc::clone(&may_end);
            let allow = move || {
                thread::sleep(ONE_SIGNAL);
                may_end.store(true, Relaxed);
            };
            let _ = thread::Builder::new().spawn(allow);
            end(signal);
        }
    };
    if thread::Builder::new().name("signals".to_owned()).spawn(end_all).is_err() {
        handle.close();
        // Without the thread the handler would swallow the signal.
        may_end_now.store(true, Relaxed);
    }
}

/// Whether the process was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| mask >> bit & 1 == 1)
}

/// Ends the process.
fn end(signal: i32) {
    // Held to the end: no command begins or completes a file meanwhile.
    let mut state = STATE.lock();
    for made in std::mem::take(&mut state.made) {
        if made.remove() {
            state.sentence = format!("{} was not complete, and has been removed", made.path.display());
        }
    }
    if !state.sentence.is_empty() {
        notice!(Note::Interrupted, "interrupted: {}", state.sentence);
    }
    let _ = emulate_default_handler(signal);
}

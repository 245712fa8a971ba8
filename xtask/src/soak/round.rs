//! One round of a laboratory: a process of its own, whose output goes to a log.
//!
//! The process stays in the group of this one, so that Ctrl-C ends both.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use uxfs_testkit::judges::workspace_directory;

use super::said;
use crate::process::children_of;

/// How often the process is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(100);
/// A killed process that takes longer hangs in a system call.
const LONGEST_DEATH: Duration = Duration::from_secs(20);
/// Laboratories that would build themselves: this program has built them already.
const SELF_BUILDING: [&str; 2] = ["crash", "field-fuzz"];

/// A round that has ended.
pub struct Round {
    /// What was found.
    pub found: Option<String>,
    /// All that it printed.
    pub log: String,
    pub took: Duration,
}

/// Runs the arguments until their end, or until the limit.
///
/// # Errors
/// The process cannot be started; the log cannot be written or read.
pub fn run(program: &Path, arguments: &str, log: &Path, limit: Duration) -> Result<Round> {
    let file = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace()).current_dir(workspace_directory());
    if SELF_BUILDING.iter().any(|name| arguments.split_whitespace().next() == Some(name)) {
        command.arg("--is-optimised");
    }
    let mounts = mount_points();
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
    let status = wait(&mut child, limit)?;
    let took = begun.elapsed();
    let why = match status {
        Some(status) if status.success() => None,
        Some(status) => Some(status.to_string()),
        None => Some(end(&mut child, limit, &mounts)?),
    };
    let log = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    let found = why.map(|why| format!("{why}: {}", said::finding(&log)));
    Ok(Round { found, log, took })
}

fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK);
    }
    Ok(child.try_wait()?)
}

/// Kills the round and its descendants, and reports the survivors. Leaves its mounts in place, as evidence of the hang.
fn end(child: &mut Child, limit: Duration, mounts_before: &[PathBuf]) -> Result<String> {
    let mut processes = vec![child.id()];
    while let Some(process) = processes.pop() {
        // A stopped process starts no others while its children are listed.
        signal(process, Signal::STOP);
        processes.extend(children_of(process));
        signal(process, Signal::KILL);
    }
    let mut words = format!("killed after {} s", limit.as_secs());
    if wait(child, LONGEST_DEATH)?.is_none() {
        words.push_str(", hangs in the kernel");
    }
    for mount in mount_points().into_iter().filter(|mount| !mounts_before.contains(mount)) {
        words.push_str(&format!(", left a mount on {}", mount.display()));
    }
    Ok(words)
}

fn signal(process: u32, signal: Signal) {
    if let Some(id) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // One that has ended is not there any more.
        let _ = kill_process(id, signal);
    }
}

/// All mount points of this process.
fn mount_points() -> Vec<PathBuf> {
    let listed = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    listed.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &Path, limit: Duration) -> Round {
        let folder = tempfile::tempdir().unwrap();
        run(Path::new("sh"), &script.display().to_string(), &folder.path().join("log"), limit).unwrap()
    }

    fn script(folder: &Path, words: &str) -> PathBuf {
        let path = folder.join("script");
        fs::write(&path, words).unwrap();
        path
    }

    #[test]
    fn exit_codes_signals_and_hangs_are_findings() {
        let folder = tempfile::tempdir().unwrap();
        let well = shell(&script(folder.path(), "echo 7 cases; true"), Duration::from_secs(60));
        assert_eq!((well.found, said::closing(&well.log)), (None, "7 cases".to_owned()));
        let failed =
            shell(&script(folder.path(), "echo WRONG: 5 >&2; echo end; exit 3"), Duration::from_secs(60));
        assert_eq!(failed.found.as_deref(), Some("exit status: 3: WRONG: 5"));
        let died = shell(&script(folder.path(), "kill -9 $$"), Duration::from_secs(60));
        assert!(died.found.is_some_and(|found| found.starts_with("signal: 9")));
    }

    #[test]
    fn a_round_that_hangs_ends_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("child");
        let words = format!("sleep 1000 & echo $! > {}; wait", told.display());
        let hung = shell(&script(folder.path(), &words), Duration::from_secs(1));
        assert!(hung.found.is_some_and(|found| found.starts_with("killed after 1 s")));
        let child = fs::read_to_string(told).unwrap();
        let is_there = || {
            let state = fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z ")
        };
        let begun = Instant::now();
        while is_there() {
            assert!(begun.elapsed() < LONGEST_DEATH, "process {child} lives");
            thread::sleep(LOOK);
        }
    }
}

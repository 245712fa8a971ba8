//! The two processes of a mount, as `/proc` shows them.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// A process that serves, or the one that mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// Whether it answers requests.
    pub serves: bool,
}

/// Processes that serve and mount the image; those that mounted come first.
pub fn of(image: &Path) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Process> = ids.filter_map(|id| process(id, image)).collect();
    found.sort_by_key(|process| (process.serves, process.id));
    found
}

fn process(id: u32, image: &Path) -> Option<Process> {
    // Its name can be read even of a process that hangs; its words cannot. Both are forks of the command, and have its words.
    let name = fs::read_to_string(format!("/proc/{id}/comm")).ok()?;
    let serves = match name.trim_end() {
        "uxfs-serve" => true,
        "uxfs-mount" => false,
        _ => return None,
    };
    let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
    let has_image = line.split(|byte| *byte == 0).any(|word| word == image.as_os_str().as_bytes());
    has_image.then_some(Process { id, serves })
}

/// Kills all of them at once, so that none can tidy up behind another.
pub fn kill(processes: &[Process]) {
    for process in processes {
        if let Some(id) = i32::try_from(process.id).ok().and_then(Pid::from_raw) {
            // One that has ended is not there any more.
            let _ = kill_process(id, Signal::KILL);
        }
    }
}

/// Waits until the image has no processes any more.
///
/// # Errors
/// They stay.
pub fn wait_for_the_end(image: &Path, limit: Duration) -> Result<()> {
    let begun = Instant::now();
    loop {
        let left = of(image);
        if left.is_empty() {
            return Ok(());
        }
        ensure!(begun.elapsed() < limit, "the processes of the mount do not end: {left:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What a process takes of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory of its own, in KiB: files that it maps are not counted.
    pub memory_kibibytes: u64,
    /// Open files.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
}

/// Of one process.
///
/// # Errors
/// It has ended.
pub fn usage(id: u32) -> Result<Usage> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let word = line.and_then(|line| line.split_whitespace().next());
        word.and_then(|word| word.parse().ok()).with_context(|| format!("no {key} of process {id}"))
    };
    Ok(Usage {
        memory_kibibytes: number("RssAnon:")?,
        descriptors: fs::read_dir(format!("/proc/{id}/fd"))?.count() as u64,
        threads: number("Threads:")?,
    })
}

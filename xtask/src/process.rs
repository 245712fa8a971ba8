//! Running other programs.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};

/// Runs to the end, with output shown.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Runs to the end and gives what it printed.
pub fn read(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, words.trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// Processes that this one has started and that are still there.
pub fn children_of(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |id: &u32| {
        let line = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        line.lines().any(|line| line == format!("PPid:\t{parent}"))
    };
    ids.filter(is_child).collect()
}

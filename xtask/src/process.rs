//! Running other programs.

use std::process::Command;

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

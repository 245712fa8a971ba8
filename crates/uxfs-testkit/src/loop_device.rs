//! Loop devices, which are detached also where a test fails.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};

/// A loop device over a file.
#[derive(Debug)]
pub struct LoopDevice(PathBuf);

impl LoopDevice {
    /// Attaches a file. `options`: further ones of losetup(8).
    ///
    /// # Errors
    /// losetup says no, with its words.
    pub fn attach(file: &Path, options: &[&str]) -> Result<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output()?;
        ensure!(output.status.success(), "losetup: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Self(String::from_utf8(output.stdout)?.trim().into()))
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // No other check reports a device that stays attached.
        let detached = Command::new("losetup").arg("-d").arg(&self.0).status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("cannot detach {}", self.0.display());
        }
    }
}

//! Calls that have no safe wrapper: one `xfs_io` for each thread reads them from a pipe, and does them when it comes to it.

use std::{
    io::{self, Write},
    path::Path,
    process::{Child, Stdio},
};

use uxfs_testkit::judges::Judge;

#[derive(Debug)]
pub(super) struct Tool(Child);

impl Tool {
    pub(super) fn new() -> io::Result<Self> {
        let mut command = Judge::XfsIo.command();
        command.arg("-x").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self)
    }

    /// Opens `path` with the options `how`, does `commands` (each line one), and closes it. Where it cannot be opened, the
    /// commands have no file and nothing happens.
    pub(super) fn ask(&mut self, path: &Path, how: &str, commands: &str) -> io::Result<()> {
        let Some(pipe) = self.0.stdin.as_mut() else { return Ok(()) };
        pipe.write_all(format!("open {how} {}\n{commands}\nclose\n", path.display()).as_bytes())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

//! Where the result of a command goes: a file that the user names, or standard output for `-`.

use std::{
    fs::File,
    io::{self, IsTerminal},
    os::fd::AsFd,
    path::Path,
};

use crate::{failure::Failure, output};

/// Whether the result goes to standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Refuses a result on standard output, where that is closed or a terminal.
///
/// # Errors
/// It is.
pub(crate) fn must_take(path: &Path, what: &str) -> Result<(), Failure> {
    if !is_standard_output(path) {
        return Ok(());
    }
    if io::stdout().is_terminal() {
        return Err(Failure::usage(format!(
            "refusing to write {what} to a terminal; redirect it or name a file"
        )));
    }
    output::must_be_open()
}

/// Opens it to be written from the beginning.
///
/// # Errors
/// The host.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match is_standard_output(path) {
        true => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        false => File::create(path),
    }
}

//! The program `uxfs`. All of it is in the library `uxfs-cli`, so that man pages and completions are made from the same source.
mod closed_output;

use std::process::ExitCode;

/// The description of a changed buffer is allocated by the thread that changes it and freed by the thread that writes the log:
/// the usual allocator makes the two wait for each other (a twelfth of what two threads remove in a second).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if closed_output::is_closed() {
        uxfs_cli::output::set_closed();
    }
    uxfs_cli::run(std::env::args_os())
}

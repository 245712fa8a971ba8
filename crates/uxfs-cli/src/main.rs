//! The `uxfs` binary. Everything is in the library, so that man pages and completions are made from the same source.
use std::process::ExitCode;

fn main() -> ExitCode {
    uxfs_cli::run(std::env::args_os())
}

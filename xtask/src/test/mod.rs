//! `cargo xtask test`: sets up what the tests need, runs them all and says what was judged.
//!
//! | module | holds |
//! |---|---|
//! | [`binaries`] | running the test binaries, two at a time |

mod binaries;

use std::{env, ffi::OsString, fs, process::Command};

use anyhow::{Result, ensure};
use uxfs_testkit::judges as kit;

use crate::{judges, process};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Fail where a judge is missing (always so where CI is set)
    #[arg(long)]
    required: bool,
    /// Run `cargo test --workspace` with these, one test binary after the other, instead of two binaries at a time
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let is_required = arguments.required || env::var_os("CI").is_some() || kit::are_required();
    let directory = kit::judges_directory();
    let set_up = judges::set_up(&directory);
    if is_required {
        set_up?;
    } else if let Err(error) = set_up {
        println!("{error:#}");
    }
    judges::report(&directory);
    let work = tempfile::tempdir()?;
    let report = work.path().join("report");
    let path = path_with(&directory.join("bin"))?;
    let set_up = |command: &mut Command| {
        command
            .env(kit::DIRECTORY_VARIABLE, &directory)
            .env(kit::REPORT_VARIABLE, &report)
            .env("PATH", &path);
        if is_required {
            command.env(kit::REQUIRED_VARIABLE, "required");
        }
    };
    let result = run_tests(arguments, set_up);
    summarise(&fs::read_to_string(&report).unwrap_or_default(), is_required)?;
    result
}

/// All binaries are run, and then the examples in the documentation, whatever fails.
fn run_tests(arguments: &Arguments, set_up: impl Fn(&mut Command) + Sync) -> Result<()> {
    let workspace = kit::workspace_directory();
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut cargo = Command::new(&program);
    cargo.args(["test", "--workspace", "--no-fail-fast"]).current_dir(&workspace);
    set_up(&mut cargo);
    if !arguments.cargo.is_empty() {
        return process::run(cargo.args(&arguments.cargo));
    }
    let result = binaries::run(&program, &workspace, set_up);
    process::run(cargo.arg("--doc")).and(result)
}

fn path_with(folder: &std::path::Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(env::split_paths(&path));
    Ok(env::join_paths(folders)?)
}

/// Prints what the tests said about their judges.
fn summarise(report: &str, is_required: bool) -> Result<()> {
    let mut lines: Vec<&str> = report.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    let (skipped, judged): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| line.starts_with(kit::SKIPPED_WORD));
    println!("\njudged: {}", judged.len());
    judged.iter().chain(&skipped).for_each(|line| println!("  {line}"));
    println!("skipped for want of a judge: {}", skipped.len());
    ensure!(!is_required || skipped.is_empty(), "every judge was required");
    Ok(())
}

//! What must hold beside the tests: format, lints, policy, documentation and its examples. Cargo's part runs while the tests do, which wait
//! for disks most of the time.

use std::{ffi::OsStr, io::Read, path::Path, process::Command, time::Instant};

use anyhow::{Context, Result};

use crate::{process, tidy};

/// Result of what was done beside the tests.
#[derive(Debug, Default)]
pub struct Report {
    /// What each step that failed printed.
    pub failures: Vec<String>,
    pub documentation_tests: Counts,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    pub failed: usize,
}

/// What takes no time, and fails most often.
///
/// # Errors
/// The format or the policy does not hold.
pub fn quick(cargo: &OsStr, workspace: &Path) -> Result<()> {
    process::run(Command::new(cargo).args(["fmt", "--all", "--check"]).current_dir(workspace))?;
    tidy::run()
}

/// All that needs the compiler. Each step's output is kept, and given where it failed.
///
/// # Errors
/// Cargo cannot be run.
pub fn thorough(cargo: &OsStr, workspace: &Path, set_up: impl Fn(&mut Command)) -> Result<Report> {
    let mut report = Report::default();
    let mut step = |name: &str, arguments: &[&str], flags: &[(&str, &str)]| -> Result<String> {
        let started = Instant::now();
        let mut command = Command::new(cargo);
        command.args(arguments).current_dir(workspace).envs(flags.iter().copied());
        set_up(&mut command);
        let (passed, printed) = quietly(&mut command)?;
        let word = if passed { "" } else { ": FAILED" };
        println!("         {name} ({:.1} s){word}", started.elapsed().as_secs_f64());
        if !passed {
            report.failures.push(format!("{name}:\n{printed}"));
        }
        Ok(printed)
    };
    step(
        "lints",
        // Tests were linted when they were built.
        &[
            "clippy",
            "-q",
            "--release",
            "--workspace",
            "--lib",
            "--bins",
            "--examples",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )?;
    let document =
        ["doc", "--quiet", "--release", "--workspace", "--no-deps", "--document-private-items", "--locked"];
    // Reuses Clippy's build: with the same wrapper and arguments Cargo finds all crates fresh.
    let sysroot = process::read(Command::new("rustc").args(["--print", "sysroot"]).current_dir(workspace))?;
    let clippy = format!("{}/bin/clippy-driver", sysroot.trim_end());
    let flags = [
        ("RUSTDOCFLAGS", "-D warnings"),
        ("RUSTC_WORKSPACE_WRAPPER", &*clippy),
        ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"),
    ];
    step("documentation", &document, &flags)?;
    let examples = step(
        "examples in the documentation",
        &["test", "--release", "--workspace", "--doc", "--locked"],
        &[],
    )?;
    report.documentation_tests = counts(&examples);
    Ok(report)
}

/// Runs to the end; both outputs as one text.
fn quietly(command: &mut Command) -> Result<(bool, String)> {
    let mut output = tempfile::tempfile()?;
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    let mut printed = String::new();
    std::io::Seek::rewind(&mut output)?;
    output.read_to_string(&mut printed)?;
    Ok((status.success(), printed))
}

/// Sums of the lines with which rustdoc's test programs end.
fn counts(printed: &str) -> Counts {
    let mut counts = Counts::default();
    for line in printed.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let number = |word: &str| {
            let before = line.split(word).next().and_then(|before| before.split_whitespace().next_back());
            before.and_then(|number| number.parse::<usize>().ok()).unwrap_or(0)
        };
        counts.passed += number(" passed");
        counts.failed += number(" failed");
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_counted() {
        let printed = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1s\n\
                       test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured\nno result\n";
        assert_eq!(counts(printed), Counts { passed: 15, failed: 2 });
    }
}

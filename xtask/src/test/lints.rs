//! What must hold beside the tests: format, policy, documentation and its examples. The documentation is made while the tests run, which
//! wait for disks part of the time. Clippy's lints come with the build of the tests (`xtask/rustc`), but for those that a library allows in its
//! own tests.

use std::{
    ffi::OsStr,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result};

use crate::{process, tidy};

/// Libraries whose unit tests allow what the library denies. The build of the tests does not see that.
const ALLOWS_MORE_IN_TESTS: [&str; 1] = ["uxfs_format"];

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
/// Cargo or rustdoc cannot be run.
pub fn thorough(
    cargo: &OsStr,
    workspace: &Path,
    libraries: Vec<PathBuf>,
    set_up: impl Fn(&mut Command),
) -> Result<Report> {
    let mut report = Report::default();
    let started = Instant::now();
    for arguments in
        libraries.iter().map(|library| arguments_of(library)).chain([program_arguments(&libraries)])
    {
        let arguments = arguments?;
        let (passed, printed) = quietly(&mut documentation(workspace, &arguments))?;
        if !passed {
            report.failures.push(format!("documentation:\n{printed}"));
        }
    }
    report.say("documentation", started);
    let started = Instant::now();
    for arguments in libraries.iter().map(|library| arguments_of(library)) {
        let arguments = arguments?;
        if !ALLOWS_MORE_IN_TESTS.iter().any(|name| arguments.lines().any(|argument| argument == *name)) {
            continue;
        }
        let (passed, printed) = quietly(&mut lints(workspace, &arguments))?;
        if !passed {
            report.failures.push(format!("lints:\n{printed}"));
        }
    }
    report.say("lints", started);
    let started = Instant::now();
    let mut command = Command::new(cargo);
    command.args(["test", "--release", "--workspace", "--doc", "--locked"]).current_dir(workspace);
    set_up(&mut command);
    let (passed, printed) = quietly(&mut command)?;
    if !passed {
        report.failures.push(format!("examples in the documentation:\n{printed}"));
    }
    report.say("examples in the documentation", started);
    report.documentation_tests = counts(&printed);
    Ok(report)
}

impl Report {
    fn say(&self, step: &str, started: Instant) {
        let word = if self.failures.iter().any(|failure| failure.starts_with(&format!("{step}:"))) {
            ": FAILED"
        } else {
            ""
        };
        println!("         {step} ({:.1} s){word}", started.elapsed().as_secs_f64());
    }
}

/// With which arguments rustc compiled a library: `xtask/rustc` keeps them beside it.
fn arguments_of(library: &Path) -> Result<String> {
    let name = library.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.strip_prefix("lib").unwrap_or(&name);
    let file = library.with_file_name(format!("{name}.arguments"));
    fs::read_to_string(&file).with_context(|| {
        let package = name.rsplit_once('-').map_or(name, |(package, _)| package).replace('_', "-");
        format!("no {}: cargo clean --release --package {package} has it made again", file.display())
    })
}

/// Those of this program, which no library holds: the newest.
fn program_arguments(libraries: &[PathBuf]) -> Result<String> {
    let folder = libraries.first().and_then(|library| library.parent()).context("no library was built")?;
    let mut newest = None;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("xtask-")
            && Path::new(&name).extension() == Some("arguments".as_ref())
        {
            newest = newest.max(Some((entry.metadata()?.modified()?, entry.path())));
        }
    }
    let (_, file) = newest.context("xtask was compiled without xtask/rustc")?;
    Ok(fs::read_to_string(file)?)
}

/// rustdoc with the arguments of rustc, private items included: against the libraries that tests use, where `cargo doc` would check all of
/// them and what they depend on once more.
fn documentation(workspace: &Path, arguments: &str) -> Command {
    let mut command = Command::new("rustdoc");
    command.args(["--document-private-items", "-D", "warnings", "--out-dir", "target/doc"]);
    add_arguments(&mut command, arguments);
    command.current_dir(workspace);
    command
}

/// Clippy with the arguments of rustc.
fn lints(workspace: &Path, arguments: &str) -> Command {
    let mut command = Command::new("clippy-driver");
    command.args(["-D", "warnings", "--emit=metadata", "--out-dir", "target/lints"]);
    add_arguments(&mut command, arguments);
    command.current_dir(workspace);
    command
}

/// The arguments of rustc but for its output.
fn add_arguments(command: &mut Command, arguments: &str) {
    // The first one is rustc.
    let mut arguments = arguments.lines().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--out-dir" {
            arguments.next();
        } else if !["--emit=", "--error-format=", "--json="].iter().any(|start| argument.starts_with(start)) {
            command.arg(argument);
        }
    }
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
    fn rustdoc_gets_what_rustc_was_given() {
        let arguments = "rustc\n--crate-name\na\nsrc/lib.rs\n--emit=link\n--error-format=json\n--json=x\n--out-dir\n/t\n--extern\nb=/t/b";
        let command = documentation(Path::new("/w"), arguments);
        let given: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        let ours = ["--document-private-items", "-D", "warnings", "--out-dir", "target/doc"];
        assert_eq!(given, [&ours[..], &["--crate-name", "a", "src/lib.rs", "--extern", "b=/t/b"]].concat());
    }

    #[test]
    fn examples_are_counted() {
        let printed = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1s\n\
                       test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured\nno result\n";
        assert_eq!(counts(printed), Counts { passed: 15, failed: 2 });
    }
}

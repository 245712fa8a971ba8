//! Test binaries, two at a time: `cargo test` runs one after the other, and at the end of each, when a last long test is left, processors
//! wait. Each binary runs its tests on as many threads as there are processors, so that more than two at a time would only take memory.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Binaries at the same time.
const AT_ONCE: usize = 2;
/// A binary that runs longer hangs: the longest takes a third of this. It fails with what it has printed, instead of taking all others with it.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How often a running binary is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A built test binary.
#[derive(Debug, PartialEq, Eq)]
struct Binary {
    package_folder: PathBuf,
    source: PathBuf,
    program: PathBuf,
}

/// Builds the test binaries of the workspace and runs them. Each one's output comes as a whole.
///
/// # Errors
/// Something does not build, or tests fail: all others have run.
pub fn run(cargo: &OsStr, workspace: &Path, set_up: impl Fn(&mut Command) + Sync) -> Result<()> {
    let binaries = build(cargo, workspace)?;
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let worker = || -> Result<()> {
        while let Some(binary) = binaries.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !binary.run(cargo, &set_up)? {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(binary.source.clone());
            }
        }
        Ok(())
    };
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })?;
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(failed.is_empty(), "tests failed in {failed:?}");
    Ok(())
}

fn build(cargo: &OsStr, workspace: &Path) -> Result<Vec<Binary>> {
    let mut command = Command::new(cargo);
    command.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let output = command.current_dir(workspace).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    let binaries: Vec<Binary> = String::from_utf8(output.stdout)?.lines().filter_map(binary_of).collect();
    ensure!(!binaries.is_empty(), "{command:?} named no test binary");
    Ok(binaries)
}

/// The test binary that a message of cargo tells of.
fn binary_of(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let program = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let package_folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    Some(Binary { package_folder, source: message["target"]["src_path"].as_str()?.into(), program })
}

impl Binary {
    /// Whether its tests pass. Folder and variables are as `cargo test` has them.
    fn run(&self, cargo: &OsStr, set_up: &impl Fn(&mut Command)) -> Result<bool> {
        let started = Instant::now();
        // A file, not a pipe: a process that hangs in the kernel keeps what it has open.
        let printed = tempfile::NamedTempFile::new()?;
        let output = || -> Result<File> { Ok(printed.as_file().try_clone()?) };
        let mut command = Command::new(&self.program);
        command.current_dir(&self.package_folder).process_group(0);
        command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
        command.env("CARGO", cargo).env("CARGO_MANIFEST_DIR", &self.package_folder);
        set_up(&mut command);
        let mut child = command.spawn().with_context(|| format!("cannot run {}", self.program.display()))?;
        let status = wait(&mut child, LONGEST)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n     Running {} ({} s)", self.source.display(), started.elapsed().as_secs())?;
        out.write_all(&fs::read(printed.path())?)?;
        if status.is_none() {
            writeln!(out, "\n{} hangs: it was killed after {} s", self.source.display(), LONGEST.as_secs())?;
        }
        Ok(status.is_some_and(|status| status.success()))
    }
}

/// Waits for a child, at most so long. A child that takes longer is killed with its process group; it may stay if the kernel does not let
/// it go, so its end is not waited for.
fn wait(child: &mut Child, longest: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    while started.elapsed() < longest {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK);
    }
    let group = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_hangs_is_killed() {
        let start = |seconds: &str| Command::new("sleep").arg(seconds).process_group(0).spawn().unwrap();
        assert!(wait(&mut start("0"), LONGEST).unwrap().unwrap().success());
        let mut hanging = start("1000");
        assert_eq!(wait(&mut hanging, Duration::from_millis(50)).unwrap(), None);
        assert!(!hanging.wait().unwrap().success());
    }

    #[test]
    fn only_test_binaries_are_run() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{{"src_path":"/w/crates/a/tests/b.rs"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let binary = Binary {
            package_folder: "/w/crates/a".into(),
            source: "/w/crates/a/tests/b.rs".into(),
            program: "/t/b".into(),
        };
        assert_eq!(binary_of(&line(true, "\"/t/b\"")), Some(binary));
        assert_eq!(binary_of(&line(false, "\"/t/uxfs\"")), None);
        assert_eq!(binary_of(&line(true, "null")), None);
        assert_eq!(binary_of(r#"{"reason":"build-finished","success":true}"#), None);
    }
}

//! The test binaries of the workspace: building them, and the tests that each lists.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;

/// A built test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// Package and target, as `uxfs/tests`; those of a library or a program have the package's name alone.
    pub name: String,
    pub package_folder: PathBuf,
    pub program: PathBuf,
}

/// The tests of a binary.
#[derive(Debug, PartialEq, Eq)]
pub enum Listed {
    /// Names of tests, which libtest runs.
    Harness(Vec<String>),
    /// The binary has a main function of its own, and is one test.
    Own,
}

/// What was built.
#[derive(Debug, Default)]
pub struct Built {
    pub binaries: Vec<Binary>,
    /// Of the compiler and of Clippy (`xtask/rustc`).
    pub warnings: Vec<String>,
    /// Files of compiled libraries of the workspace, as `deps/libuxfs_format-0123456789abcdef.rmeta`.
    pub libraries: Vec<PathBuf>,
}

/// Builds the test binaries of the workspace and the program that they run.
///
/// # Errors
/// Something does not build.
pub fn build(cargo: &OsStr, workspace: &Path) -> Result<Built> {
    let mut command = Command::new(cargo);
    command.args([
        "test",
        "--quiet",
        "--release",
        "--workspace",
        "--no-run",
        "--locked",
        "--message-format=json",
    ]);
    let output = command.current_dir(workspace).stderr(Stdio::inherit()).output()?;
    let printed = String::from_utf8(output.stdout)?;
    let said = || printed.lines().filter_map(diagnostic_of).collect::<String>();
    ensure!(output.status.success(), "{}{command:?}: {}", said(), output.status);
    let binaries: Vec<Binary> = printed.lines().filter_map(binary_of).collect();
    ensure!(!binaries.is_empty(), "{command:?} named no test binary");
    Ok(Built {
        binaries,
        warnings: printed.lines().filter_map(diagnostic_of).collect(),
        libraries: printed.lines().filter_map(|line| library_of(line, workspace)).collect(),
    })
}

/// The compiler's diagnostic in one of cargo's messages.
fn diagnostic_of(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_said = message["reason"] == "compiler-message";
    message["message"]["rendered"].as_str().filter(|_| is_said).map(str::to_owned)
}

/// The test binary in one of cargo's messages.
fn binary_of(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let program = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let package_folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = package_folder.file_name()?.to_str()?;
    let target = message["target"]["name"].as_str()?;
    let is_integration = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "test");
    let name = if is_integration { format!("{package}/{target}") } else { package.to_owned() };
    Some(Binary { name, package_folder, program })
}

/// The file of the workspace's library in one of cargo's messages.
fn library_of(line: &str, workspace: &Path) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_ours = Path::new(message["manifest_path"].as_str()?).starts_with(workspace);
    let is_library = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "lib");
    if !is_ours || !is_library || message["profile"]["test"] == true {
        return None;
    }
    let files = message["filenames"].as_array()?;
    files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".rmeta")).map(PathBuf::from)
}

impl Binary {
    /// Runs `--list`.
    ///
    /// # Errors
    /// The binary cannot be run.
    pub fn list(&self) -> Result<Listed> {
        let printed =
            process::read(Command::new(&self.program).arg("--list").current_dir(&self.package_folder))
                .with_context(|| format!("cannot list the tests of {}", self.name))?;
        Ok(listed(&printed))
    }
}

/// Only libtest ends its list with a line of counts.
fn listed(printed: &str) -> Listed {
    let counts = printed.lines().next_back().unwrap_or_default();
    if !counts.contains(" benchmark") {
        return Listed::Own;
    }
    Listed::Harness(
        printed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_binaries_are_run() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{{"name":"b","kind":["test"]}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let binary =
            Binary { name: "a/b".to_owned(), package_folder: "/w/crates/a".into(), program: "/t/b".into() };
        assert_eq!(binary_of(&line(true, "\"/t/b\"")), Some(binary));
        assert_eq!(binary_of(&line(false, "\"/t/uxfs\"")), None);
        assert_eq!(binary_of(&line(true, "null")), None);
        assert_eq!(binary_of(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn libraries_of_the_workspace_are_documented() {
        let line = |manifest: &str, kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{manifest}","target":{{"kind":["{kind}"]}},"profile":{{"test":false}},"filenames":["/t/libb.rlib","/t/deps/libb-1.rmeta"]}}"#
            )
        };
        let found = |line: &str| library_of(line, Path::new("/w"));
        assert_eq!(found(&line("/w/crates/b/Cargo.toml", "lib")), Some("/t/deps/libb-1.rmeta".into()));
        assert_eq!(found(&line("/registry/b/Cargo.toml", "lib")), None);
        assert_eq!(found(&line("/w/crates/b/Cargo.toml", "example")), None);
    }

    #[test]
    fn what_the_compiler_says_is_kept() {
        let line =
            r#"{"reason":"compiler-message","message":{"level":"warning","rendered":"unused"},"target":{}}"#;
        assert_eq!(diagnostic_of(line), Some("unused".to_owned()));
        assert_eq!(diagnostic_of(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn binaries_without_libtest_are_one_test() {
        let names = ["a::b", "c"].map(str::to_owned).to_vec();
        assert_eq!(listed("a::b: test\nc: test\n\n2 tests, 0 benchmarks\n"), Listed::Harness(names));
        assert_eq!(listed("0 tests, 0 benchmarks\n"), Listed::Harness(Vec::new()));
        assert_eq!(listed("a: test\n"), Listed::Own);
    }
}

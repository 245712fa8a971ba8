//! Times of tests, which order the next run: `tests/times.txt` in the workspace, one line for each test that takes long.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use anyhow::{Context, Result};

/// Where the times lie, from the workspace.
pub const FILE: &str = "tests/times.txt";
/// Tests that take less are not in the file.
const LEAST_SECONDS: f64 = 0.5;
/// Assumed for tests that are not in it.
const OTHERS_SECONDS: f64 = 0.05;

/// Seconds of each test, by `binary test`.
#[derive(Debug, Default, Clone)]
pub struct Times(BTreeMap<String, f64>);

impl Times {
    /// Reads the file; without one, all tests count the same.
    ///
    /// # Errors
    /// It cannot be read, or a line is none of its own.
    pub fn read(workspace: &Path) -> Result<Self> {
        match fs::read_to_string(workspace.join(FILE)) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {FILE}")),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let line = |line: &str| -> Result<(String, f64)> {
            let (seconds, name) = line.split_once(' ').with_context(|| format!("{FILE}: {line}"))?;
            Ok((name.to_owned(), seconds.parse().with_context(|| format!("{FILE}: {line}"))?))
        };
        Ok(Self(text.lines().map(line).collect::<Result<_>>()?))
    }

    /// Expected seconds of a test.
    pub fn expected(&self, binary: &str, test: &str) -> f64 {
        self.0.get(&key(binary, test)).copied().unwrap_or(OTHERS_SECONDS)
    }

    /// Records a test's seconds.
    pub fn record(&mut self, binary: &str, test: &str, seconds: f64) {
        self.0.insert(key(binary, test), seconds);
    }

    /// Writes the file, the longest first.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, workspace: &Path) -> Result<()> {
        let mut text = String::new();
        for (name, seconds) in self.longest().take_while(|(_, seconds)| *seconds >= LEAST_SECONDS) {
            writeln!(text, "{seconds:.1} {name}")?;
        }
        fs::write(workspace.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
    }

    fn longest(&self) -> impl Iterator<Item = (&str, f64)> {
        let mut all: Vec<(&str, f64)> = self.0.iter().map(|(name, seconds)| (&**name, *seconds)).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        all.into_iter()
    }
}

fn key(binary: &str, test: &str) -> String {
    format!("{binary} {test}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_times_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tests")).unwrap();
        let mut times = Times::default();
        times.record("a/tests", "m::long", 12.34);
        times.record("a/tests", "m::longer", 20.0);
        times.record("a/tests", "m::short", 0.1);
        times.write(folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_eq!(text, "20.0 a/tests m::longer\n12.3 a/tests m::long\n");
        let read = Times::read(folder.path()).unwrap();
        assert_eq!(read.expected("a/tests", "m::long").to_string(), "12.3");
        assert_eq!(read.expected("a/tests", "m::short").to_string(), OTHERS_SECONDS.to_string());
        assert!(Times::parse("x y\n").is_err());
    }
}

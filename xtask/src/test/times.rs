//! Times of tests, which order the next run: `tests/times.txt` in the workspace, one line for each test that takes long, with its seconds by
//! the clock and of processors.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use anyhow::{Context, Result};

/// Where the times lie, from the workspace.
pub const FILE: &str = "tests/times.txt";
/// Tests that take less are not in the file.
const LEAST_SECONDS: f64 = 0.5;
/// Assumed for tests that are not in it.
const OTHERS: Time = Time { seconds: 0.05, processor_seconds: 0.05 };

/// Time of a test.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Time {
    /// By the clock.
    pub seconds: f64,
    /// Of processors: its own, and those of the programs that it waited for.
    pub processor_seconds: f64,
}

impl std::ops::AddAssign for Time {
    fn add_assign(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.processor_seconds += other.processor_seconds;
    }
}

/// Time of each test, by `binary test`.
#[derive(Debug, Default, Clone)]
pub struct Times(BTreeMap<String, Time>);

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
        let line = |line: &str| -> Option<(String, Time)> {
            let (seconds, rest) = line.split_once(' ')?;
            let (processor, name) = rest.split_once(' ')?;
            let time = Time { seconds: seconds.parse().ok()?, processor_seconds: processor.parse().ok()? };
            Some((name.to_owned(), time))
        };
        let whole = |text| line(text).with_context(|| format!("{FILE}: {text}"));
        Ok(Self(text.lines().map(whole).collect::<Result<_>>()?))
    }

    /// Expected time of a test.
    pub fn expected(&self, binary: &str, test: &str) -> Time {
        self.0.get(&key(binary, test)).copied().unwrap_or(OTHERS)
    }

    /// Records a test's time.
    pub fn record(&mut self, binary: &str, test: &str, time: Time) {
        self.0.insert(key(binary, test), time);
    }

    /// Writes the file, the longest first.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, workspace: &Path) -> Result<()> {
        let mut text = String::new();
        for (name, time) in self.longest().take_while(|(_, time)| time.seconds >= LEAST_SECONDS) {
            writeln!(text, "{:.1} {:.1} {name}", time.seconds, time.processor_seconds)?;
        }
        fs::write(workspace.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
    }

    fn longest(&self) -> impl Iterator<Item = (&str, Time)> {
        let mut all: Vec<(&str, Time)> = self.0.iter().map(|(name, time)| (&**name, *time)).collect();
        all.sort_by(|one, other| other.1.seconds.total_cmp(&one.1.seconds));
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
        let time = |seconds, processor_seconds| Time { seconds, processor_seconds };
        times.record("a/tests", "m::long", time(12.34, 1.0));
        times.record("a/tests", "m::longer", time(20.0, 7.06));
        times.record("a/tests", "m::short", time(0.1, 0.1));
        times.write(folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_eq!(text, "20.0 7.1 a/tests m::longer\n12.3 1.0 a/tests m::long\n");
        let read = Times::read(folder.path()).unwrap();
        assert_eq!(read.expected("a/tests", "m::long"), time(12.3, 1.0));
        assert_eq!(read.expected("a/tests", "m::short"), OTHERS);
        assert!(Times::parse("1.0 x y\n").is_err());
    }
}

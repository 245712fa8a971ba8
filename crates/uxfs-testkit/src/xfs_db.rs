//! Running `xfs_db`: reading what it prints, and planting a damage.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::judges::Judge;

/// One line of `print`: a name and its value, both as printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedField {
    /// The words before `=`, indices included: `next_unlinked`, `recs[1-3]`, `core.version`.
    pub name: String,
    /// The words after it.
    pub value: String,
}

/// `xfs_db` on one image: `-r` where it only prints, `-x` where it writes.
#[derive(Debug, Clone)]
pub struct XfsDb {
    image: PathBuf,
}

impl XfsDb {
    /// For `image`.
    pub fn new(image: impl Into<PathBuf>) -> Self {
        Self { image: image.into() }
    }

    /// The image.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Runs `commands` in one process and gives what they print.
    ///
    /// # Errors
    /// `xfs_db` cannot be run or fails.
    pub fn run<S: AsRef<str>>(&self, commands: &[S]) -> Result<String> {
        let mut command = Judge::XfsDb.command();
        // It prints times as local times.
        command.env("TZ", "UTC").args(["-r", "-f"]);
        for text in commands {
            command.args(["-c", text.as_ref()]);
        }
        let output = command.arg(&self.image).output().context("cannot run xfs_db")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "xfs_db on {}: {}", self.image.display(), errors.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs `commands` in one process that may write, with the commands for experts, and gives all that it prints. A command that
    /// `xfs_db` does not understand shows there only: it goes on with the next one.
    ///
    /// # Errors
    /// `xfs_db` cannot be run.
    pub fn write<S: AsRef<str>>(&self, commands: &[S]) -> Result<String> {
        let mut command = Judge::XfsDb.command();
        command.env("TZ", "UTC").args(["-x", "-f"]);
        for text in commands {
            command.args(["-c", text.as_ref()]);
        }
        let output = command.arg(&self.image).output().context("cannot run xfs_db")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &errors)
    }

    /// Runs `commands` followed by `print` and gives the fields printed.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn print<S: AsRef<str>>(&self, commands: &[S]) -> Result<Vec<PrintedField>> {
        let mut all: Vec<&str> = commands.iter().map(AsRef::as_ref).collect();
        all.push("print");
        Ok(parse_print(&self.run(&all)?))
    }
}

/// Splits the lines `name = value` of what `print` prints. A line without ` = ` continues the value before it (long
/// arrays are wrapped nowhere, but record lists print one record a line: `1:[…]`), joined by a newline.
pub fn parse_print(text: &str) -> Vec<PrintedField> {
    let mut fields: Vec<PrintedField> = Vec::new();
    for line in text.lines() {
        match (line.split_once(" = "), fields.last_mut()) {
            (Some((name, value)), _) => {
                fields.push(PrintedField { name: name.to_owned(), value: value.trim_end().to_owned() });
            }
            (None, Some(last)) => {
                last.value.push('\n');
                last.value.push_str(line);
            }
            (None, None) => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_names_from_values() {
        let fields =
            parse_print("magicnum = 0x58414746\nrecs[1-2] = [a,b]\n1:[5,6]\n2:[7,8]\nuuid = x = y\n");
        let pairs: Vec<_> = fields.iter().map(|f| (f.name.as_str(), f.value.as_str())).collect();
        let expected =
            [("magicnum", "0x58414746"), ("recs[1-2]", "[a,b]\n1:[5,6]\n2:[7,8]"), ("uuid", "x = y")];
        assert_eq!(pairs, expected);
    }
}

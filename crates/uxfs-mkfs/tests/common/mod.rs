//! Helpers of the tests of this crate.

pub mod random;

use std::{fs::File, path::Path, process::Output};

use uxfs_mkfs::options::{OptionError, Options, grammar::Group};
use uxfs_testkit::judges::Judge;

/// Options as they stand on a command line, by words: letters with an argument each, `-L`, and `--unsupported`.
pub fn options(text: &str) -> Result<Options, OptionError> {
    let mut options = Options::default();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--unsupported" => options.allow_unsupported = true,
            "-L" => options.set_label(words.next().unwrap_or_default().as_bytes())?,
            _ => {
                let letter = word.strip_prefix('-').and_then(|rest| rest.chars().next());
                let group = Group::ALL.into_iter().find(|group| Some(group.letter()) == letter);
                let group = group.unwrap_or_else(|| panic!("no group for {word}"));
                options.add(group, words.next().unwrap_or_default())?;
            }
        }
    }
    Ok(options)
}

/// A file that is one hole.
pub fn hole(path: &Path, size_bytes: u64) {
    File::create(path).unwrap().set_len(size_bytes).unwrap();
}

/// Runs mkfs.xfs on `path`.
pub fn mkfs(options: &str, more: &[&str], path: &Path) -> Output {
    let mut command = Judge::Mkfs.command();
    // What the tests of Linux set lifts the limits of size.
    for variable in ["TEST_DIR", "TEST_DEV", "QA_CHECK_FS"] {
        command.env_remove(variable);
    }
    command.arg("-f").args(more).args(options.split_whitespace()).arg(path).output().unwrap()
}

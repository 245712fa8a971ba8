//! What a laboratory needs of the machine. A laboratory that lacks something is skipped, and its line says why.

use std::{fs::File, path::Path, process::Command};

use rustix::process::geteuid;
use uxfs_testkit::judges::Judge;

use crate::{mount_load::is_there, process};

/// Something that may be missing.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// The user is root.
    Root,
    /// FUSE can be opened.
    Fuse,
    /// A judge.
    Judge(Judge),
    /// A program on `PATH`, and its package.
    Program(&'static str, &'static str),
    /// A folder, and the package that makes it.
    Folder(&'static str, &'static str),
    /// `cargo-fuzz` and a nightly toolchain.
    Fuzzer,
}

impl Need {
    /// Why it is not met.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Root => (!geteuid().is_root()).then(|| "it needs root".to_owned()),
            Self::Fuse => {
                let opened = File::options().read(true).write(true).open("/dev/fuse");
                opened.err().map(|error| format!("cannot open /dev/fuse: {error}"))
            }
            Self::Judge(Judge::Kernel) => (!Judge::Kernel.is_present())
                .then(|| "it needs root, loop devices and a kernel with XFS".to_owned()),
            Self::Judge(judge) => {
                (!judge.is_present()).then(|| format!("no {}: run cargo xtask judges", judge.name()))
            }
            Self::Program(program, package) => {
                (!is_there(program)).then(|| format!("no {program}: install the package {package}"))
            }
            Self::Folder(folder, package) => {
                (!Path::new(folder).is_dir()).then(|| format!("no {folder}: install the package {package}"))
            }
            Self::Fuzzer => fuzzer_missing(),
        }
    }
}

fn fuzzer_missing() -> Option<String> {
    let answers = |words: &[&str]| process::read(Command::new("cargo").args(words)).is_ok();
    if !answers(&["+nightly", "--version"]) {
        return Some("no nightly toolchain: rustup toolchain install nightly".to_owned());
    }
    (!answers(&["+nightly", "fuzz", "--version"]))
        .then(|| "no cargo-fuzz: cargo install cargo-fuzz".to_owned())
}

//! `cargo xtask tidy`: the repository's policy as a test.

mod layers;
mod licences;
mod methods;
mod paths;
mod source_text;
mod sources;
mod tables;
mod words;

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Result, ensure};
use uxfs_testkit::judges::workspace_directory;

use self::{layers::Layers, methods::Methods};
use crate::process;

/// No tracked file may be larger, golden images apart.
const BLOB_LIMIT_BYTES: u64 = 1 << 20;
/// Limit for all golden images together.
const GOLDEN_LIMIT_BYTES: u64 = 12 << 20;
const GOLDEN: &str = "tests/golden/";

/// A tracked file.
struct TrackedFile {
    /// From the root of the repository.
    name: String,
    path: PathBuf,
    size: u64,
}

/// Checks everything and prints every complaint.
pub fn run() -> Result<()> {
    let files = tracked_files()?;
    let mut complaints = Vec::new();
    sizes(&files, &mut complaints);
    let (mut layers, mut methods) = (Layers::default(), Methods::default());
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    for file in &files {
        // Binary files are not checked.
        if let Ok(text) = fs::read_to_string(&file.path) {
            sources::check(&file.name, &text, &mut complaints);
            layers.add(&file.name, &text);
            paths::check(&file.name, &text, &names, &mut complaints);
            words::check(&file.name, &text, &mut complaints);
            if file.name.ends_with(".rs") {
                tables::check(&file.name, &text, &mut complaints);
                methods.add(&file.name, &text);
            }
        }
    }
    layers.check(&mut complaints);
    methods.check(&mut complaints);
    licences::check(&mut complaints)?;
    complaints.iter().for_each(|complaint| println!("tidy: {complaint}"));
    ensure!(complaints.is_empty(), "{} complaints", complaints.len());
    println!("tidy: {}; {}", layers.summary(), methods.summary());
    println!("tidy: {} files, nothing to complain about", files.len());
    Ok(())
}

fn tracked_files() -> Result<Vec<TrackedFile>> {
    let root = workspace_directory();
    let listed = process::read(Command::new("git").args(["ls-files", "-z"]).current_dir(&root))?;
    let mut files = Vec::new();
    for name in listed.split_terminator('\0') {
        let path = root.join(name);
        // A file that is removed but not yet committed is still listed.
        if let Ok(found) = fs::symlink_metadata(&path) {
            files.push(TrackedFile { name: name.to_owned(), path, size: found.len() });
        }
    }
    Ok(files)
}

fn sizes(files: &[TrackedFile], complaints: &mut Vec<String>) {
    let golden = |file: &&TrackedFile| file.name.starts_with(GOLDEN);
    for file in files.iter().filter(|file| !golden(file) && file.size > BLOB_LIMIT_BYTES) {
        complaints.push(format!("{}: {} bytes are too many for the repository", file.name, file.size));
    }
    let together: u64 = files.iter().filter(golden).map(|file| file.size).sum();
    if together > GOLDEN_LIMIT_BYTES {
        complaints.push(format!("{GOLDEN}: {together} bytes together are too many"));
    }
}

//! A chain of directories: what commands take of memory grows with its length, and not with the square of it, as it would if each directory
//! on the way kept its whole path.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    time::Duration,
};

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use tempfile::TempDir;
use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::operations::create::NewFile;
use uxfs_testkit::{
    image::{TestImage, memory_folder},
    judges::Judge,
    limits::{Limits, run_limited},
    require, sparse,
    verdict::repair_is_silent,
};

use crate::common::{program, text};

const DEPTH: usize = 40_000;
/// Of the path, which is longer, commands that descend into it tell that they leave the rest out.
const LONGEST_PATH_BYTES: usize = 64 << 10;
/// Some 5 KB a directory. With whole paths it was 3 GB.
const MOST_MEMORY_BYTES: u64 = 250 << 20;

fn image() -> TestImage {
    let image = TestImage::new("deep", 320, &[], 0);
    let file_system = image.mount_bulk();
    let mut at = file_system.open_root().unwrap();
    for _ in 0..DEPTH {
        at = file_system.create(&at, b"d", &NewFile::new(NewKind::Directory, 0o755)).unwrap();
    }
    drop(at);
    file_system.close().unwrap();
    image
}

/// Runs a command within the memory, and gives its exit code and what it said.
fn within(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    command.args(arguments);
    // Time is only against hanging.
    let outcome =
        run_limited(&mut command, &Limits { time: Duration::from_secs(100), ..Limits::default() }).unwrap();
    assert_eq!(outcome.escape(MOST_MEMORY_BYTES), None, "{arguments:?}");
    (outcome.code, String::from_utf8_lossy(&outcome.stderr).into_owned())
}

#[test]
fn walks_through_a_deep_chain_keep_each_name_once() {
    require!(Judge::XfsRepair);
    let image = image();
    let folder = TempDir::new_in(memory_folder()).unwrap();
    let changed = folder.path().join("changed");
    sparse::copy(&image.path, &changed).unwrap();
    let (image, changed) = (text(&image.path), text(&changed));
    for arguments in [
        &["grep", "-r", "word", image, "/"][..],
        &["cp", "-r", changed, "/d", "/copy"],
        &["chown", "-R", changed, "7", "/d"],
        &["chmod", "-R", changed, "u+s", "/d"],
    ] {
        let (code, words) = within(arguments);
        // What lies deeper is not done, and told.
        assert!(code.is_some_and(|code| code > 0) && words.lines().count() < 10, "{arguments:?}: {code:?}");
        assert!(words.contains("too deep") || words.contains("too long"), "{arguments:?}");
    }
    for path in ["/copy", "/d"] {
        assert_eq!(within(&["rm", "-r", changed, path]), (Some(0), String::new()), "{path}");
    }
    repair_is_silent(Path::new(changed)).unwrap();
}

/// The same below a directory of the host.
#[test]
fn a_deep_chain_of_the_host_is_put_with_each_name_once() {
    require!(Judge::XfsRepair);
    let folder = TempDir::new_in(memory_folder()).unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    let mut at = std::os::fd::OwnedFd::from(File::open(&source).unwrap());
    for _ in 0..LONGEST_PATH_BYTES / 4 {
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = openat(&at, "d", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    }
    crate::common::succeeds(&["mkfs", "--size", "320M", text(&image)]);
    let put = within(&["put", "-r", text(&image), text(&source), "/"]);
    // The folder would be removed with a call for each level.
    assert!(Command::new("rm").arg("-rf").arg(&source).status().unwrap().success());
    assert_eq!(put, (Some(0), String::new()));
    assert_eq!(within(&["rm", "-r", text(&image), "/source"]), (Some(0), String::new()));
    repair_is_silent(&image).unwrap();
}

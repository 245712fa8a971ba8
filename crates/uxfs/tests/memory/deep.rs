//! A chain of directories: what commands take of memory grows with its length, and not with the square of it, as it would if each directory
//! on the way kept its whole path.

use std::{path::Path, process::Command, time::Duration};

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
        // Deeper levels are skipped and reported.
        assert!(code.is_some_and(|code| code > 0) && words.lines().count() < 10, "{arguments:?}: {code:?}");
        assert!(words.contains("too deep") || words.contains("too long"), "{arguments:?}");
    }
    for path in ["/copy", "/d"] {
        assert_eq!(within(&["rm", "-r", changed, path]), (Some(0), String::new()), "{path}");
    }
    repair_is_silent(Path::new(changed)).unwrap();
}

//! Where the system starts no more threads, commands go on with those that run, or say why they cannot. They neither panic nor
//! hang.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use tempfile::TempDir;
use uxfs_testkit::{image::memory_folder, judges::Judge, require};

use crate::common::{host, program, succeeds, text, tree};

/// No process runs as this user, so that the limit counts the threads of the command alone.
const USER: &str = "64321";

/// The exit code of a command that may have so many threads.
fn exit_code(program: &Path, most_threads: u32, arguments: &[&str]) -> i32 {
    let script = format!("ulimit -u {most_threads}; exec \"$0\" \"$@\"");
    let mut command = Command::new("timeout");
    command.args(["60", "setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "bash", "-c"]);
    let output = command.arg(script).arg(program).args(arguments).output().unwrap();
    eprintln!(
        "{most_threads} {arguments:?}: {:?}, {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.status.code().unwrap_or(-1)
}

#[test]
fn commands_end_where_threads_cannot_be_started() {
    // Root, for another user's limits.
    require!(Judge::Kernel);
    let folder = TempDir::with_prefix_in("uxfs-threads-", memory_folder()).unwrap();
    let path = |name: &str| folder.path().join(name);
    tree(&path("tree"));
    succeeds(&["mkfs", "--from", text(&path("tree")), "--size", "300M", text(&path("image"))]);
    let copied = path("uxfs");
    fs::copy(program(), &copied).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(&copied, fs::Permissions::from_mode(0o755)).unwrap();
    host("chown", &["-R", USER, text(&path("tree")), text(&path("image"))]);
    let (image, source) = (path("image"), path("tree"));
    for most_threads in 1..=8 {
        let (new, target) = (path(&format!("new{most_threads}")), path(&format!("out{most_threads}")));
        let copy = path(&format!("copy{most_threads}"));
        let commands: [&[&str]; 9] = [
            &["extract", text(&image), "--tar", "/dev/null"],
            &["extract", text(&image), "--to", text(&target)],
            &["inodes", text(&image), "--count"],
            &["inodes", text(&image)],
            &["ls", "-lR", text(&image)],
            &["diff", text(&image), text(&image)],
            &["copy", "-f", text(&image), text(&copy)],
            &["put", "-r", text(&image), text(&source), "/copy"],
            &["mkfs", "--from", text(&source), "--size", "300M", text(&new)],
        ];
        for arguments in commands {
            let code = exit_code(&copied, most_threads, arguments);
            assert!([0, 1].contains(&code), "{most_threads} threads, {arguments:?}: {code}");
        }
        let _ = (fs::remove_dir_all(&target), fs::remove_file(&new), fs::remove_file(&copy));
    }
    // With enough of them all is as always.
    for arguments in [["inodes", text(&image), "--count"].as_slice(), &["ls", "-lR", text(&image)]] {
        assert_eq!(exit_code(&copied, 100, arguments), 0);
    }
}

//! Where the system starts no more threads, commands go on with those that run, or say why they cannot. They neither panic nor
//! hang.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;
use uxfs_testkit::{image::memory_folder, judges::Judge, require};

use crate::common::mount_place::Place;
use crate::common::{host, program, succeeds, text, tree};

/// No process runs as this user, so that the limit counts the threads of the command alone.
const USER: &str = "64321";

/// A command run by a user with a limit on threads.
fn limited(user: &str, program: &Path, most_threads: u32, arguments: &[&str]) -> Output {
    let script = format!("ulimit -u {most_threads}; exec \"$0\" \"$@\"");
    let mut command = Command::new("timeout");
    command.args(["60", "setpriv", "--reuid", user, "--regid", user, "--clear-groups", "bash", "-c"]);
    command.arg(script).arg(program).args(arguments).output().unwrap()
}

/// The exit code of a command with this limit on threads.
fn exit_code(program: &Path, most_threads: u32, arguments: &[&str]) -> i32 {
    let output = limited(USER, program, most_threads, arguments);
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

/// A user of the system with a name, for which fusermount3 asks. No program runs as this user.
fn named_user() -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let number = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split(':').nth(2).map(str::to_owned)
    };
    ["games", "news", "uucp", "lp"].into_iter().find_map(number)
}

/// A mount starts several threads in two processes. With few it serves by those that run; with fewer it says why it cannot, and nothing is
/// mounted.
#[test]
fn a_mount_ends_or_serves_where_threads_cannot_be_started() {
    require!(Judge::Kernel);
    let place = Place::new();
    let copied = place.folder.path().join("uxfs");
    fs::copy(program(), &copied).unwrap();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&copied, fs::Permissions::from_mode(0o755)).unwrap();
    let Some(user) = named_user() else {
        println!("no user with a name and without processes: not tested");
        return;
    };
    let user = user.as_str();
    succeeds(&["chown", text(&place.image), user, "/"]);
    host("chown", &[user, text(&place.image), text(&place.directory)]);
    let (image, directory) = (text(&place.image), text(&place.directory));
    let mut mounted = 0;
    for most_threads in 1..=20 {
        let output = limited(user, &copied, most_threads, &["mount", image, directory]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!words.contains("panicked"), "{most_threads} threads: {words}");
        match output.status.code() {
            Some(0) => {
                mounted += 1;
                let written =
                    limited(user, Path::new("/bin/sh"), 1000, &["-c", &format!("echo 7 > {directory}/file")]);
                assert!(written.status.success(), "{most_threads} threads: {written:?}");
                let unmounted = limited(user, &copied, 1000, &["umount", directory]);
                assert!(unmounted.status.success(), "{most_threads} threads: {unmounted:?}");
            }
            code => {
                assert_eq!(code, Some(1), "{most_threads} threads: {words}");
                assert!(words.lines().count() > 0, "{most_threads} threads");
            }
        }
        assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 0, "{most_threads} threads");
    }
    assert!(mounted > 2, "{mounted}");
    // Little address space, in which no thread has room for its stack.
    for mebibytes in [20, 40, 60, 80, 100, 150, 200, 300, 500] {
        let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", mebibytes << 10);
        let mut command = Command::new("timeout");
        command.args(["60", "bash", "-c", &script]).arg(&copied).args(["mount", image, directory]);
        let output = command.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(
            !words.contains("panicked") && output.status.code() != Some(124),
            "{mebibytes} MiB: {output:?}"
        );
        if output.status.success() {
            succeeds(&["umount", directory]);
        }
    }
}

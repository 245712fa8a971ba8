//! `uxfs extract` as its users meet it: without root, with files in the way, with readers that leave and disks that fill.

use std::{
    fs,
    io::Read,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require};

use crate::common::program;

fn uxfs(image: &Path) -> Command {
    let mut command = Command::new(program());
    command.arg("extract").arg(image);
    command
}

/// An image that all users may read.
fn image(folder: &TempDir) -> std::path::PathBuf {
    let image = folder.path().join("image");
    GoldenImage::named("default").unwrap().unpack_to(&image).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(&image, fs::Permissions::from_mode(0o444)).unwrap();
    image
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_root_what_is_missing_is_listed() {
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    let unprivileged = |json: bool, to: &str| {
        let mut command = uxfs(&image);
        command.arg("/special").arg("--to").arg(folder.path().join(to));
        if json {
            command.arg("--json");
        }
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
        command.output().unwrap()
    };
    let output = unprivileged(false, "text");
    assert_eq!(output.status.code(), Some(1), "files are missing: {}", words(&output));
    for what in ["owner not restored: ", "special/null: device node: ", "set-ID bit not restored: 1 "] {
        assert!(words(&output).contains(what), "{}", words(&output));
    }
    let mode = fs::metadata(folder.path().join("text/special/owners/set-id")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "a set-ID bit for another owner");

    let output = unprivileged(true, "json");
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = document["problems"].as_array().unwrap();
    assert_eq!(problems.len() as u64, document["problem_count"]);
    let is_told = |problem: &serde_json::Value| {
        problem["severity"] == if problem["aspect"] == "device" { "failed" } else { "not_restored" }
    };
    assert!(problems.iter().all(is_told), "{problems:?}");
    assert_eq!(problems.iter().filter(|problem| problem["aspect"] == "device").count(), 3);
    assert!(
        problems.iter().any(|problem| problem["path"] == "special/null" && problem["aspect"] == "device")
    );
}

#[test]
fn files_in_the_way_stay_unless_told() {
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    let to = folder.path().join("to");
    let run = |overwrite: bool| {
        let mut command = uxfs(&image);
        command.arg("/special/owners").arg("--to").arg(&to);
        if overwrite {
            command.arg("--overwrite");
        }
        command.output().unwrap()
    };
    assert_eq!(run(false).status.code(), Some(0));
    let file = to.join("owners/plain");
    fs::write(&file, "mine").unwrap();
    let output = run(false);
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("owners/plain: file: File exists"), "{}", words(&output));
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    let output = run(true);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(fs::read(&file).unwrap(), b"");
}

#[test]
fn a_path_comes_under_its_last_name() {
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    let names = |path: &str| {
        let to = TempDir::new_in(&folder).unwrap();
        let output = uxfs(&image).arg(path).arg("--to").arg(to.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        let mut names: Vec<_> =
            fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("/special/times/"), ["times"]);
    assert_eq!(names("special/times/epoch"), ["epoch"]);
    assert_eq!(names("/special/symlinks/dangling"), ["dangling"]);
    assert!(names("/special/times/.").contains(&"epoch".into()));
    let output = uxfs(&image).args(["/no/such", "--tar", "-"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("/no/such"), "{}", words(&output));
}

#[test]
fn the_reader_of_an_archive_may_leave() {
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    let mut child =
        uxfs(&image).args(["--tar", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut start = [0; 512];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), words(&output).as_str()), (Some(0), ""));
    assert!(start.windows(5).any(|window| window == b"ustar"));
}

#[test]
fn a_full_disk_is_told_with_the_path() {
    require!(Judge::Kernel);
    let folder = TempDir::new().unwrap();
    let image = image(&folder);
    let output = uxfs(&image).args(["--tar", "/dev/full"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words(&output).contains("/dev/full") && words(&output).contains("No space left"),
        "{}",
        words(&output)
    );

    let small = TempDir::new_in(&folder).unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(small.path()).status();
    assert!(mount.unwrap().success());
    let output = uxfs(&image).arg("--to").arg(small.path().join("to")).output();
    assert!(Command::new("umount").arg(small.path()).status().unwrap().success());
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words(&output).contains("cannot write ") && words(&output).contains("No space left"),
        "{}",
        words(&output)
    );
}

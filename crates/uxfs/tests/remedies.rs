//! Remedies in messages fit the purpose of the command.

use std::{fs, path::Path};

use uxfs_testkit::{image::memory_folder, judges::Judge, require};

use crate::common::{succeeds, text, uxfs};

fn made(folder: &Path, name: &str, options: &[&str]) -> String {
    let image = folder.join(name);
    fs::File::create(&image).unwrap().set_len(300 << 20).unwrap();
    let output = Judge::Mkfs.command().arg("-q").args(options).arg(&image).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text(&image).to_owned()
}

fn refused(arguments: &[&str]) -> String {
    let output = uxfs(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn nothing_destructive_is_advised_and_each_command_has_its_own_remedy() {
    require!(Judge::Mkfs);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let to = folder.path().join("to");
    let rescued = ["--to", text(&to)];
    let old = made(
        folder.path(),
        "version4",
        &[
            "-m",
            "crc=0,bigtime=0,reflink=0,rmapbt=0,inobtcount=0,finobt=0",
            "-i",
            "nrext64=0,exchange=0",
            "-n",
            "parent=0",
        ],
    );
    for (command, remedy) in [
        (vec!["ls", &old], "XFS_SUPPORT_V4"),
        (vec!["info", &old], "XFS_SUPPORT_V4"),
        (vec!["rm", &old, "/file"], "XFS_SUPPORT_V4"),
        (vec!["mount", &old, "/mnt"], "XFS_SUPPORT_V4"),
        (vec!["check", &old], "xfs_repair"),
        (vec!["repair", &old], "xfs_repair"),
        ([&["rescue", &old], &rescued[..]].concat(), "norecovery"),
    ] {
        let words = refused(&command);
        assert!(words.contains("version 4") && words.contains(remedy), "{command:?}: {words}");
        assert!(!words.contains("mkfs"), "{command:?}: {words}");
    }
    let log = folder.path().join("log");
    fs::File::create(&log).unwrap().set_len(64 << 20).unwrap();
    let elsewhere = made(folder.path(), "elsewhere", &["-l", &format!("logdev={},size=16384b", text(&log))]);
    for (command, remedy) in [
        (vec!["ls", &elsewhere], "--ignore-log"),
        (vec!["rm", &elsewhere, "/file"], "logdev="),
        (vec!["mount", &elsewhere, "/mnt"], "norecovery"),
    ] {
        let words = refused(&command);
        assert!(
            words.contains("the log lies on another device") && words.contains(remedy),
            "{command:?}: {words}"
        );
    }
    assert!(uxfs(&["ls", "--ignore-log", &elsewhere]).status.success());
}

#[test]
fn an_image_that_is_named_as_an_archive_is_told_from_one() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, new) = (folder.path().join("old"), folder.path().join("new"));
    succeeds(&["mkfs", "--size", "300M", text(&image)]);
    let output = uxfs(&["mkfs", "--size", "300M", "--from", text(&image), text(&new)]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("it seems to hold an XFS file system: uxfs extract "), "{words}");
    assert!(!new.exists());
}

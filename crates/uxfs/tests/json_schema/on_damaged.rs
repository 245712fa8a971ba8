//! Every command where it fails: wrong command lines, files that are no images, damaged images.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::FileExt,
    path::Path,
};

use uxfs_testkit::{image::memory_folder, sparse};

use super::{Judge, at, common};

pub fn run(judge: &mut Judge) {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let folder = folder.path();
    wrong_command_lines(judge);
    no_images(judge, folder);
    let sound = folder.join("sound");
    let tree = folder.join("tree");
    common::tree(&tree);
    common::succeeds(&["mkfs", "--size", "300M", "--from", common::text(&tree), common::text(&sound)]);
    missing_paths(judge, folder, &sound);
    damaged(judge, folder, &sound);
    undo(judge, folder, &sound);
}

fn wrong_command_lines(judge: &mut Judge) {
    let commands = uxfs_cli::command();
    judge.run(&[] as &[OsString]);
    judge.run(words!["no-such-command"]);
    for command in commands.get_subcommands() {
        let name = command.get_name();
        judge.run(words![name]);
        judge.run(words![name, "--no-such-option"]);
    }
    judge.run(words!["mkfs", "--size", "many", "image"]);
    judge.run(words!["freespace", "-a", "x", "image"]);
    judge.run(words!["cat", "image", "/"]);
}

/// Commands with an image, and what else they need.
pub fn on_images(image: &OsStr, folder: &Path) -> Vec<Vec<OsString>> {
    let (target, dump) = (at(folder, "target"), at(folder, "dump"));
    vec![
        words!["info", image].to_vec(),
        words!["ls", image].to_vec(),
        words!["tree", image].to_vec(),
        words!["find", image].to_vec(),
        words!["du", image].to_vec(),
        words!["df", image].to_vec(),
        words!["stat", image, "/"].to_vec(),
        words!["xattr", image, "/"].to_vec(),
        words!["map", image, "/"].to_vec(),
        words!["inodes", image].to_vec(),
        words!["inodes", "--count", image].to_vec(),
        words!["parents", image, "/"].to_vec(),
        words!["freespace", image].to_vec(),
        words!["grep", "-r", "x", image, "/"].to_vec(),
        words!["extract", image, "--to", &at(folder, "extracted")].to_vec(),
        words!["get", "-r", image, "/", &at(folder, "got")].to_vec(),
        words!["put", image, "/etc/hostname", "/x"].to_vec(),
        words!["mkdir", image, "/d"].to_vec(),
        words!["rm", image, "/d"].to_vec(),
        words!["rmdir", image, "/d"].to_vec(),
        words!["mv", image, "/d", "/e"].to_vec(),
        words!["cp", image, "/d", "/e"].to_vec(),
        words!["ln", image, "/d", "/e"].to_vec(),
        words!["chmod", image, "700", "/d"].to_vec(),
        words!["chown", image, "1", "/d"].to_vec(),
        words!["touch", image, "/d/e"].to_vec(),
        words!["truncate", image, "-s", "1", "/d/e"].to_vec(),
        words!["mknod", image, "/d/e", "p"].to_vec(),
        words!["mkfifo", image, "/d/e"].to_vec(),
        words!["setfattr", image, "-n", "user.a", "-v", "1", "/d"].to_vec(),
        words!["shell", "-c", "ls", image].to_vec(),
        words!["mount", image, &target].to_vec(),
        words!["umount", &target].to_vec(),
        words!["stats", &target].to_vec(),
        words!["admin", image].to_vec(),
        words!["inspect", image, "sb", "0"].to_vec(),
        words!["check", image].to_vec(),
        words!["repair", "--dry-run", image].to_vec(),
        words!["rescue", image, "--to", &at(folder, "rescued")].to_vec(),
        words!["undo", image].to_vec(),
        words!["metadump", image, &dump].to_vec(),
        words!["mdrestore", "-f", image, &target].to_vec(),
        words!["replay", image].to_vec(),
        words!["bench", "leaves", image, "/"].to_vec(),
    ]
}

fn no_images(judge: &mut Judge, folder: &Path) {
    fs::write(folder.join("empty"), "").unwrap();
    fs::write(folder.join("text"), "this is no image\n".repeat(1000)).unwrap();
    fs::write(folder.join("zeros"), vec![0; 1 << 20]).unwrap();
    fs::write(folder.join("qcow"), [&b"QFI\xfb"[..], &vec![0; 70_000]].concat()).unwrap();
    fs::create_dir(folder.join("directory")).unwrap();
    for name in ["missing", "empty", "text", "zeros", "qcow", "directory", "text/below"] {
        let scratch = folder.join(format!("scratch-{}", name.replace('/', "-")));
        fs::create_dir(&scratch).unwrap();
        for words in on_images(&at(folder, name), &scratch) {
            judge.run(&words);
        }
    }
}

fn missing_paths(judge: &mut Judge, folder: &Path, sound: &Path) {
    let scratch = folder.join("scratch");
    fs::create_dir(&scratch).unwrap();
    let long = "x".repeat(300);
    for path in ["/missing", "/large/below", "99999999", &format!("/{long}"), ""] {
        for command in
            ["ls", "tree", "find", "du", "stat", "xattr", "map", "parents", "rm", "rmdir", "mkfifo"]
        {
            judge.run(words![command, sound, path]);
        }
        judge.run(words!["grep", "x", sound, path]);
        judge.run(words!["get", sound, path, &scratch]);
        judge.run(words!["mv", sound, path, "/there"]);
        judge.run(words!["mkdir", sound, "/folder", path]);
    }
    judge.run(words!["put", sound, "/no/such/file", "/"]);
    judge.run(words!["xattr", "-n", "user.none", sound, "/"]);
    judge.run(words!["rmdir", sound, "/folder"]);
    judge.run(words!["ls", sound, "/*.none"]);
    let many: Vec<OsString> = (0..150).map(|number| format!("/missing-{number}").into()).collect();
    judge.run(&[words!["stat", sound], &many].concat());
}

/// Where the magic numbers of a group's headers and of inodes lie.
fn damaged(judge: &mut Judge, folder: &Path, sound: &Path) {
    let bytes = fs::read(sound).unwrap();
    let find = |magic: &[u8]| {
        (0..bytes.len()).step_by(512).filter(|at| bytes[*at..].starts_with(magic)).collect::<Vec<_>>()
    };
    let (inodes, leaves) = (find(b"IN"), find(b"XDD3"));
    let (free, index) = (find(b"XAGF"), find(b"XAGI"));
    assert!(!inodes.is_empty() && !free.is_empty() && !index.is_empty());
    let damages: Vec<(&str, Vec<usize>)> = vec![
        ("superblock", vec![0]),
        ("free", free),
        ("index", index),
        ("inodes", inodes.iter().step_by(7).copied().collect()),
        ("root", inodes.iter().take(1).copied().collect()),
        ("directories", leaves),
        ("second-half", Vec::new()),
    ];
    for (name, places) in damages {
        let image = folder.join(format!("damaged-{name}"));
        sparse::copy(sound, &image).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
        for place in places {
            file.write_all_at(&[0xa5; 96], place as u64 + 16).unwrap();
        }
        if name == "second-half" {
            file.set_len(160 << 20).unwrap();
        }
        drop(file);
        let scratch = folder.join(format!("scratch-of-{name}"));
        fs::create_dir(&scratch).unwrap();
        for words in on_images(image.as_os_str(), &scratch) {
            judge.run(&words);
        }
        judge.run(words!["ls", "-lR", "--tolerant", &image]);
        judge.run(words!["ls", "-lR", "--repaired", &image]);
        judge.run(words!["xattr", "--tolerant", &image, "/large"]);
        judge.run(words!["metadump", "-w", &image, &at(&scratch, "dump")]);
        judge.run(words!["repair", &image]);
        judge.run(words!["check", &image]);
        judge.run(words!["undo", &image]);
    }
}

fn undo(judge: &mut Judge, folder: &Path, sound: &Path) {
    let strange = folder.join(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"undone-\xff"));
    fs::create_dir(&strange).unwrap();
    let image = strange.join("image");
    sparse::copy(sound, &image).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 4], 0).unwrap();
    let plan = strange.join("plan");
    judge.run(words!["repair", "--dry-run", "--plan", &plan, &image]);
    judge.run(words!["repair", "--plan", &plan, &image]);
    judge.run(words!["undo", &image]);
    judge.run(words!["repair", &image]);
    judge.run(words!["undo", "--remove", &image]);
}

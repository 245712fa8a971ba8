//! What a user reads where the image, a path or a number is wrong: the object, what failed, and no words of the system's innards.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use uxfs_testkit::image::memory_folder;

use super::{at, common, on_damaged::on_images};
use crate::common::program;

/// What no message has.
const FORBIDDEN: &[&str] =
    &["os error", "0 bytes at byte 0", ": : ", "uxfs: :", "()", "Some(", "None", "Err(", "panicked", "  "];
/// Commands whose message is about another object than the image.
const ABOUT_OTHERS: &[&str] = &["umount", "stats", "mdrestore"];
/// Commands that show or need something else of a file that is no image: which says so in other words.
const OTHER_KINDS: &[&str] = &["umount", "stats", "mdrestore", "undo", "inspect"];

pub struct Told {
    pub code: Option<i32>,
    pub words: Vec<String>,
    pub documents: Vec<Value>,
}

fn run(words: &[OsString], json: bool) -> Output {
    let mut command = Command::new(program());
    command.args(json.then_some("--json")).args(words).output().unwrap()
}

/// What a command tells, in words and in documents: both say the same.
#[track_caller]
pub fn told(words: &[OsString]) -> Told {
    let (text, json) = (run(words, false), run(words, true));
    assert_eq!(text.status.code(), json.status.code(), "{words:?}");
    let lines = |output: &Output| -> Vec<String> {
        String::from_utf8(output.stderr.clone()).unwrap().lines().map(str::to_owned).collect()
    };
    let documents: Vec<Value> = lines(&json).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<String> = documents
        .iter()
        .map(|document| {
            let (field, told) = document.as_object().unwrap().iter().next().unwrap();
            let warning = if field == "warning" { "warning: " } else { "" };
            format!("uxfs: {warning}{}", told["message"].as_str().unwrap())
        })
        .collect();
    let words_told = lines(&text);
    // What is wrong with a command line is one line of a document, and more with the usage.
    if !messages.iter().any(|message| message.contains("required arguments")) && text.status.code() != Some(2)
    {
        assert_eq!(words_told, messages, "{words:?}");
    }
    for line in &messages {
        for forbidden in FORBIDDEN {
            assert!(!line.contains(forbidden), "{words:?}: {line}");
        }
    }
    Told { code: text.status.code(), words: words_told, documents }
}

pub fn failure(document: &Value) -> &Value {
    document.get("error").or_else(|| document.get("problem")).unwrap_or(&Value::Null)
}

#[test]
fn files_that_are_no_images() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let folder = folder.path();
    fs::write(folder.join("empty"), "").unwrap();
    fs::write(folder.join("text"), "this is no image\n".repeat(1000)).unwrap();
    fs::create_dir(folder.join("directory")).unwrap();
    let mut cases = 0;
    for (name, kind, part) in [
        ("missing", "not_found", "No such file"),
        ("empty", "not_a_file_system", "empty"),
        ("text", "not_a_file_system", "not an XFS file system"),
        ("directory", "invalid", "a directory, but an image is"),
        ("text/below", "not_a_directory", "Not a directory"),
    ] {
        let scratch = folder.join(format!("scratch-{}", name.replace('/', "-")));
        fs::create_dir_all(scratch.join("target")).unwrap();
        for words in on_images(&at(folder, name), &scratch) {
            let told = told(&words);
            let command = words[0].to_str().unwrap();
            cases += 1;
            // grep has another code for trouble.
            let codes = if command == "grep" { 2..=2 } else { 1..=3 };
            assert!(told.code.is_some_and(|code| codes.contains(&code)), "{words:?}: {:?}", told.words);
            let about = if ABOUT_OTHERS.contains(&command) {
                folder.to_str().unwrap().to_owned()
            } else {
                at(folder, name).into_string().unwrap()
            };
            // It shows the damaged sector.
            if command == "inspect" && name == "text" {
                continue;
            }
            assert!(told.words[0].contains(&about), "{words:?}: {:?}", told.words);
            let failure = failure(&told.documents[0]);
            if OTHER_KINDS.contains(&command) {
                continue;
            }
            assert_eq!(failure["image"], *about, "{words:?}: {failure}");
            assert_eq!(failure["kind"], *kind, "{words:?}: {failure}");
            assert!(told.words[0].contains(part), "{words:?}: {:?}", told.words);
        }
    }
    assert!(cases > 200, "{cases}");
    // Repair's own file is not missed where the image is.
    let told = told(words!["undo", &at(folder, "missing")]);
    assert!(!told.words[0].contains("undo file"), "{:?}", told.words);
}

/// Root may read everything: an ordinary user tries.
#[test]
fn images_that_may_not_be_read() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let folder = folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    let (copied, image) = (folder.join("uxfs"), folder.join("image"));
    // By another process: one that another test starts here would have the file open for writing.
    crate::common::host("cp", &[program(), copied.to_str().unwrap()]);
    fs::write(&image, "secret").unwrap();
    fs::set_permissions(&image, fs::Permissions::from_mode(0o600)).unwrap();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for words in on_images(image.as_os_str(), folder) {
        let command = words[0].to_str().unwrap();
        if OTHER_KINDS.contains(&command) && !matches!(command, "inspect" | "undo") || command == "mount" {
            continue;
        }
        let output = Command::new(&copied).arg("--json").args(&words).uid(65534).gid(65534).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let document: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
        let failure = failure(&document);
        assert_eq!(
            (&failure["kind"], &failure["errno"]),
            (&"permission".into(), &"EACCES".into()),
            "{words:?}: {told}"
        );
        assert_eq!(failure["image"], image.to_str().unwrap(), "{words:?}: {told}");
        let code = if command == "grep" { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{words:?}: {told}");
    }
}

#[test]
fn paths_that_are_wrong() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let folder = folder.path();
    let image = folder.join("image");
    common::succeeds(&["mkfs", "--size", "300M", common::text(&image)]);
    common::succeeds(&["touch", common::text(&image), "/file"]);
    common::succeeds(&["mkdir", common::text(&image), "/folder"]);
    let long = format!("/{}", "x".repeat(256));
    let cases: &[(&str, &str, &str)] = &[
        ("/missing", "not_found", "ENOENT"),
        ("/missing/below", "not_found", "ENOENT"),
        ("/file/below", "not_a_directory", "ENOTDIR"),
        (&long, "name_too_long", "ENAMETOOLONG"),
        ("99999999", "no_such_inode", "ESTALE"),
    ];
    let reading = ["ls", "tree", "find", "du", "stat", "xattr", "map", "parents"];
    for (path, kind, errno) in cases {
        for command in reading {
            let told = told(words![command, &image, path]);
            let failure = failure(&told.documents[0]);
            assert_eq!((told.code, told.documents.len()), (Some(1), 1), "{command} {path}: {:?}", told.words);
            assert_eq!(failure["kind"], *kind, "{command} {path}: {failure}");
            assert_eq!(failure["errno"], *errno, "{command} {path}: {failure}");
            assert!(told.words[0].contains(path), "{command} {path}: {:?}", told.words);
            match *kind {
                "no_such_inode" => assert_eq!(failure["inode"], 99_999_999, "{command}: {failure}"),
                _ => assert_eq!(failure["path"], *path, "{command}: {failure}"),
            }
        }
    }
    for (words, kind) in [
        (words!["mkdir", &image, "/folder"], "exists"),
        (words!["rmdir", &image, "/file"], "not_a_directory"),
        (words!["rm", &image, "/folder"], "is_a_directory"),
        (words!["cp", &image, "/file", "/file"], "same_file"),
        (words!["cp", &image, "/folder", "/other"], "is_a_directory"),
        (words!["mv", &image, "/folder", "/folder/below"], "invalid"),
        (words!["mv", &image, "/missing", "/there"], "not_found"),
        (words!["ln", &image, "/folder", "/other"], "permission"),
        (words!["touch", &image, "/missing/below"], "not_found"),
        (words!["truncate", &image, "-s", "1", "/folder"], "is_a_directory"),
        (words!["setfattr", &image, "-x", "user.none", "/file"], "no_such_attribute"),
        (words!["setfattr", &image, "-n", "other.none", "-v", "1", "/file"], "invalid_name"),
        (words!["xattr", "-n", "user.none", &image, "/file"], "no_such_attribute"),
        (words!["ls", &image, "/none*"], "no_match"),
        (words!["put", &image, &at(folder, "none"), "/"], "not_found"),
        (words!["get", &image, "/folder", folder], "is_a_directory"),
        (words!["truncate", &image, "-s", "9E", "/file"], "too_large"),
    ] {
        let told = told(words);
        let failure = failure(&told.documents[0]);
        assert_eq!((told.code, &failure["kind"]), (Some(1), &kind.into()), "{words:?}: {:?}", told.words);
        let object = if words[0] == "put" { "host_path" } else { "path" };
        assert!(failure[object].is_string(), "{words:?}: {failure}");
    }
}

#[test]
fn numbers_that_are_wrong() {
    let image = Path::new("image");
    for words in [
        words!["mkfs", "--size", "many", image],
        words!["mkfs", "--size", "12X", image],
        words!["freespace", "-a", "-1", image],
        words!["ls", "--offset", "x", image],
        words!["ls", "--superblock", "x", image],
        words!["tree", "-L", "x", image],
        words!["truncate", image, "-s", "x", "/file"],
        words!["mknod", image, "/file", "b", "x", "1"],
        words!["chmod", image, "8", "/file"],
        words!["admin", "-U", "x", image],
        words!["mkdir", "-m", "999", image, "/d"],
        words!["ls", "--cache-size", "", image],
    ] {
        let words: Vec<OsString> = words.to_vec();
        let told = told(&words);
        assert_eq!(told.code, Some(2), "{words:?}: {:?}", told.words);
        let failure = &told.documents[0]["error"];
        assert_eq!(failure["kind"], "usage", "{words:?}");
        let names = words.iter().skip(1).any(|word: &OsString| {
            let word: &OsStr = word;
            !word.is_empty() && failure["message"].as_str().unwrap().contains(word.to_str().unwrap())
        });
        assert!(names, "{words:?}: {failure}");
    }
}

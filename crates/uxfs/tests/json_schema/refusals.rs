//! Failures of making, of partitions, of mounts, of edits and of other files: each has its kind, its object and a remedy that works.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
};

use uxfs_testkit::{image::memory_folder, sparse};

use super::{
    at, common,
    messages::{failure, told},
};
use crate::common::program;

/// One failure: command line, exit code, kind and errno, and what its objects end with: image, path and path of the host.
type Case = (Vec<OsString>, i32, (&'static str, &'static str), [&'static str; 3]);

macro_rules! case {
    ([$($word:expr),* $(,)?], $code:expr, $kind:expr, $errno:expr, $image:expr, $path:expr, $host:expr) => {
        (vec![$(OsString::from(&$word)),*], $code, ($kind, $errno), [$image, $path, $host])
    };
}

/// A disk with a partition of 320 MiB, and an XFS file system in it.
fn disk(path: &Path) {
    let mut record = [0; 512];
    record[450] = 0x83;
    record[454..458].copy_from_slice(&2048_u32.to_le_bytes());
    record[458..462].copy_from_slice(&(320_u32 << 11).to_le_bytes());
    record[510..].copy_from_slice(&[0x55, 0xaa]);
    let file = File::create(path).unwrap();
    file.set_len(330 << 20).unwrap();
    file.write_all_at(&record, 0).unwrap();
    common::succeeds(&["mkfs", "--partition", "1", common::text(path)]);
}

fn files(folder: &Path) {
    let image = folder.join("image");
    fs::create_dir_all(folder.join("tree/folder")).unwrap();
    fs::create_dir(folder.join("directory")).unwrap();
    fs::write(folder.join("tree/a"), vec![7; 20 << 20]).unwrap();
    fs::write(folder.join("text"), "no image\n".repeat(200)).unwrap();
    fs::write(folder.join("empty"), "").unwrap();
    fs::write(folder.join("packed"), [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0; 600]].concat()).unwrap();
    fs::write(folder.join("vmdk"), [&b"KDMV"[..], &[0; 600]].concat()).unwrap();
    let ext4 = File::create(folder.join("ext4")).unwrap();
    ext4.set_len(1 << 20).unwrap();
    ext4.write_all_at(&[0x53, 0xef], 1080).unwrap();
    disk(&folder.join("disk"));
    common::succeeds(&["mkfs", "--size", "300M", common::text(&image)]);
    common::succeeds(&["touch", common::text(&image), "/a", "/b"]);
    common::succeeds(&["metadump", common::text(&image), common::text(&folder.join("dump"))]);
}

#[track_caller]
fn judge(folder: &Path, cases: Vec<Case>) {
    for (words, code, (kind, errno), objects) in cases {
        let told = told(&words);
        // Warnings may come before.
        let number = told.documents.iter().position(|document| !failure(document).is_null()).unwrap();
        let (document, message) = (&told.documents[number], &told.words[number]);
        let failure = failure(document);
        let about = format!("{words:?}: {failure}");
        assert_eq!(told.code, Some(code), "{about}");
        assert_eq!(failure["kind"], kind, "{about}");
        // Problems of grep and diff stand for what other commands end with.
        let is_error = document.get("error").is_some();
        assert!(failure["exit_code"] == code || !is_error, "{about}");
        assert_eq!(failure["errno"].as_str().unwrap_or_default(), errno, "{about}");
        let [image, path, host] = objects;
        assert_eq!(failure["path"].as_str().unwrap_or_default(), path, "{about}");
        for (field, name) in [("image", image), ("host_path", host)] {
            let expected =
                if name.is_empty() { String::new() } else { at(folder, name).into_string().unwrap() };
            let found = failure[field].as_str().unwrap_or_default();
            assert!(found == expected || found == name && name.starts_with('/'), "{field} of {about}");
        }
        // The first object that people read.
        if !image.is_empty() && host.is_empty() && code != 2 {
            let begins = format!("uxfs: {}: ", at(folder, image).to_str().unwrap());
            let is_in_shell = message.contains("--read-only");
            assert!(message.starts_with(&begins) || is_in_shell, "{about}");
            assert_eq!(message.matches(&begins[6..]).count(), usize::from(!is_in_shell), "{about}");
        }
    }
}

#[test]
fn making() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let folder = folder.path();
    files(folder);
    let at = |name| at(folder, name);
    let (image, new, disk, text) = (at("image"), at("new"), at("disk"), at("text"));
    let config = format!("options={}", at("missing").to_str().unwrap());
    judge(
        folder,
        vec![
            case!(["mkfs", image], 1, "occupied", "", "image", "", ""),
            case!(["mkfs", disk], 1, "occupied", "", "disk", "", ""),
            case!(["mkfs", "--partition", "1", disk], 1, "occupied", "", "disk", "", ""),
            case!(["mkfs", "--partition", "9", disk], 1, "no_such_partition", "", "disk", "", ""),
            case!(["mkfs", "--partition", "1", image], 1, "no_such_partition", "", "image", "", ""),
            case!(["mkfs", "--offset", "1", disk], 2, "usage", "", "disk", "", ""),
            case!(["mkfs", "-f", "--offset", "1T", disk], 1, "invalid", "", "disk", "", ""),
            case!(["mkfs", new], 1, "not_found", "ENOENT", "new", "", ""),
            case!(["mkfs", at("directory")], 1, "invalid", "", "directory", "", ""),
            case!(["mkfs", "--size", "9E", new], 2, "usage", "", "", "", ""),
            case!(["mkfs", "--size", "300M", at("none/new")], 1, "not_found", "ENOENT", "none/new", "", ""),
            case!(
                ["mkfs", "--size", "300M", at("text/new")],
                1,
                "not_a_directory",
                "ENOTDIR",
                "text/new",
                "",
                ""
            ),
            case!(
                ["mkfs", "--size", "300M", "-m", "crc=0", new],
                4,
                "unsupported_feature",
                "",
                "new",
                "",
                ""
            ),
            case!(["mkfs", "--size", "300M", "-c", config, new], 1, "not_found", "ENOENT", "", "", "missing"),
            case!(["mkfs", "--from", at("missing"), new], 1, "not_found", "ENOENT", "new", "", "missing"),
            case!(["mkfs", "--from", text, new], 1, "wrong_form", "", "new", "", "text"),
            case!(["mkfs", "--from", at("empty"), new], 1, "wrong_form", "", "new", "", "empty"),
            case!(
                ["mkfs", "--from", at("tree"), "--manifest", at("missing"), new],
                1,
                "not_found",
                "ENOENT",
                "new",
                "",
                "missing"
            ),
            case!(["mkfs", "--from", at("tree"), "--owner-map", "x", new], 2, "usage", "", "new", "", ""),
            case!(
                ["mkfs", "--unsupported", "--size", "16M", "--from", at("tree"), new],
                1,
                "no_space",
                "",
                "new",
                "",
                ""
            ),
            case!(["mdrestore", text, new], 1, "wrong_form", "", "", "", "text"),
            case!(["mdrestore", at("directory"), new], 1, "is_a_directory", "EISDIR", "", "", "directory"),
            case!(["mdrestore", at("dump"), image], 1, "occupied", "", "image", "", ""),
            case!(["mdrestore", at("dump"), at("directory")], 1, "invalid", "", "directory", "", ""),
            case!(["mdrestore", at("dump"), at("none/new")], 1, "not_found", "ENOENT", "none/new", "", ""),
            case!(["copy", image, text], 1, "occupied", "", "image", "", "text"),
            case!(["copy", image, at("directory")], 1, "invalid", "", "image", "", "directory"),
            case!(["copy", image, at("none/new")], 1, "not_found", "ENOENT", "image", "", "none/new"),
            case!(["metadump", image, at("none/new")], 1, "not_found", "ENOENT", "image", "", "none/new"),
            case!(["undo", "--undo", text, image], 1, "wrong_form", "", "image", "", "text"),
        ],
    );
}

#[test]
fn reading_and_changing() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let folder = folder.path();
    files(folder);
    let at = |name| at(folder, name);
    let (image, disk, text, packed) = (at("image"), at("disk"), at("text"), at("packed"));
    let other = at("other");
    sparse::copy(&image, &other).unwrap();
    judge(
        folder,
        vec![
            case!(["ls", "--partition", "9", disk], 1, "no_such_partition", "", "disk", "", ""),
            case!(["mkdir", "--partition", "9", disk, "/d"], 1, "no_such_partition", "", "disk", "", ""),
            case!(["ls", "--partition", "1", image], 1, "no_such_partition", "", "image", "", ""),
            case!(["ls", disk], 1, "not_a_file_system", "", "disk", "", ""),
            case!(["ls", "--offset", "1G", image], 1, "not_a_file_system", "", "image", "", ""),
            case!(["ls", at("ext4")], 1, "not_a_file_system", "", "ext4", "", ""),
            case!(["ls", at("vmdk")], 1, "not_a_file_system", "", "vmdk", "", ""),
            case!(["admin", at("vmdk")], 1, "not_a_file_system", "", "vmdk", "", ""),
            case!(["ls", packed], 1, "damage", "", "packed", "", ""),
            case!(["mkdir", packed, "/d"], 1, "read_only", "", "packed", "", ""),
            case!(["repair", packed], 1, "read_only", "", "packed", "", ""),
            case!(["admin", "-L", "x", packed], 1, "read_only", "", "packed", "", ""),
            case!(["mkdir", image, "/a"], 1, "exists", "EEXIST", "image", "/a", ""),
            case!(["stat", image, "/none"], 1, "not_found", "ENOENT", "image", "/none", ""),
            case!(["find", image, "/none"], 1, "not_found", "ENOENT", "image", "/none", ""),
            case!(["grep", "x", image, "/none"], 2, "not_found", "ENOENT", "image", "/none", ""),
            case!(["bench", "leaves", image, "/none"], 1, "not_found", "ENOENT", "image", "/none", ""),
            case!(["diff", image, other, "/none"], 2, "not_found", "ENOENT", "image", "/none", ""),
            case!(
                ["diff", image, other, "/a", "--other-path", "/none"],
                2,
                "not_found",
                "ENOENT",
                "other",
                "/none",
                ""
            ),
            case!(["chown", image, "no-such-user", "/a"], 1, "invalid", "", "image", "", ""),
            case!(["ln", image, "/a", "/b", "/none"], 1, "not_a_directory", "", "image", "/none", ""),
            case!(["ln", "-s", image, "", "/l"], 1, "invalid_name", "", "image", "/l", ""),
            case!(["put", "-r", image, at("tree"), "/a"], 1, "not_a_directory", "", "image", "/a", ""),
            case!(["put", image, at("missing"), "/x"], 1, "not_found", "ENOENT", "image", "", "missing"),
            case!(["get", image, "/a", at("none/x")], 1, "not_found", "", "image", "", "none"),
            case!(["extract", image, "--to", text], 1, "not_a_directory", "ENOTDIR", "image", "", "text"),
            case!(["rescue", image, "--to", text], 1, "not_a_directory", "ENOTDIR", "image", "", "text"),
            case!(
                ["rescue", image, "--to", at("r"), "--map", text],
                2,
                "wrong_form",
                "",
                "image",
                "",
                "text"
            ),
            case!(["check", "--inode", "999", image], 1, "no_such_inode", "", "image", "", ""),
            case!(["inspect", image, "agf", "99"], 1, "no_such_group", "EINVAL", "image", "", ""),
            case!(["inspect", image, "block", "999999999"], 1, "invalid", "", "image", "", ""),
            case!(["shell", "-r", "-c", "mkdir /q", image], 1, "read_only", "", "image", "", ""),
            case!(["bench", "fsmark", "-d", text], 1, "exists", "EEXIST", "", "", "text"),
        ],
    );
    let locked = File::open(&image).unwrap();
    locked.lock().unwrap();
    for words in [words!["ls", &image], words!["mkdir", &image, "/d"], words!["mkfs", "-f", &image]] {
        let told = told(words);
        let failure = failure(&told.documents[0]);
        assert_eq!(
            (&failure["kind"], &failure["errno"]),
            (&"in_use".into(), &"EBUSY".into()),
            "{words:?}: {failure}"
        );
        assert_eq!(failure["image"], image.to_str().unwrap());
    }
}

#[test]
fn mounting() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let folder = folder.path();
    files(folder);
    let at = |name| at(folder, name);
    let (image, directory) = (at("image"), at("directory"));
    judge(
        folder,
        vec![
            case!(["mount", image, at("missing")], 1, "not_found", "ENOENT", "image", "", "missing"),
            case!(["mount", image, at("text")], 1, "not_a_directory", "ENOTDIR", "image", "", "text"),
            case!(["mount", at("empty"), directory], 1, "not_a_file_system", "", "empty", "", ""),
            case!(
                ["mount", "-o", "offset=1T", image, directory],
                1,
                "not_a_file_system",
                "",
                "image",
                "",
                ""
            ),
            case!(
                ["mount", "-o", "partition=9", at("disk"), directory],
                1,
                "no_such_partition",
                "",
                "disk",
                "",
                ""
            ),
            case!(["mount", at("packed"), directory], 1, "read_only", "", "packed", "", ""),
            case!(
                ["mount", "-o", "remount,ro", image, directory],
                1,
                "not_mounted",
                "",
                "image",
                "",
                "directory"
            ),
            case!(["umount", directory], 1, "not_mounted", "", "", "", "directory"),
            case!(["umount", image], 1, "not_mounted", "", "", "", "image"),
            case!(["umount", "/proc"], 1, "not_mounted", "", "", "", "/proc"),
            case!(["stats", directory], 1, "not_mounted", "", "", "", "directory"),
        ],
    );
}

/// What lies between these words of a message.
fn between<'t>(text: &'t str, before: &str, behind: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap();
    rest.split_once(behind).unwrap().0
}

#[test]
fn command_lines_in_messages_work() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let folder = folder.path();
    let image = folder.join("it's an image");
    common::succeeds(&["mkfs", "--size", "300M", common::text(&image)]);
    let bytes = fs::metadata(&image).unwrap().len();
    let run = |line: &str| {
        let status = Command::new("sh").args(["-c", line]).status().unwrap();
        assert!(status.success(), "{line}");
    };
    File::options().write(true).open(&image).unwrap().set_len(bytes - 4096).unwrap();
    let short = told(words!["ls", &image]);
    run(between(&short.words[0], "with zeros: ", ";"));
    assert_eq!(fs::metadata(&image).unwrap().len(), bytes);
    common::succeeds(&["ls", common::text(&image)]);

    let packed = folder.join("it's packed.gz");
    run(&format!("gzip -c \"{}\" > \"{}\"", common::text(&image), common::text(&packed)));
    let refused = told(words!["mkdir", &packed, "/d"]);
    run(between(&refused.words[0], "unpack it: ", ")"));
    common::succeeds(&["mkdir", common::text(&folder.join("it's packed.gz.raw")), "/d"]);

    File::options().write(true).open(&image).unwrap().write_all_at(&[0; 512], 0).unwrap();
    let (refused, uxfs) = (told(words!["mkdir", &image, "/d"]), program());
    let repair = between(&refused.words[0], "is sound: uxfs ", " mends it");
    run(&format!("{uxfs} {repair} --quiet > /dev/null"));
    common::succeeds(&["mkdir", common::text(&image), "/d"]);
}

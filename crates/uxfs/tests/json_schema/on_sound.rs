//! Every command where it succeeds.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Write,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
    process::{Command, Stdio},
};

use rustix::fs::{FallocateFlags, fallocate};
use uxfs_testkit::{golden::GoldenImage, image::memory_folder, sparse};

use super::{Judge, at, mount_place::Place};
use crate::common::program;

/// Bytes that are no UTF-8.
const STRANGE: &[u8] = b"/name-\xff\xfe";

pub fn run(judge: &mut Judge) {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let folder = folder.path();
    let image = at(folder, "image");
    make(judge, folder, &image);
    edit(judge, folder, &image);
    read(judge, &image);
    search(judge, &image);
    differences(judge, folder, &image);
    copy_out(judge, folder, &image);
    strange_names(judge, folder, &image);
    dumps(judge, folder, &image);
    shell(judge, &image);
    goldens(judge);
    logs(judge, folder);
    bench(judge, folder);
    mounts(judge);
}

fn make(judge: &mut Judge, folder: &Path, image: &OsString) {
    let tree = folder.join("tree");
    crate::common::tree(&tree);
    judge.run(words!["mkfs", "--size", "300M", "-N", &at(folder, "none")]);
    judge.run(words!["mkfs", "--size", "300M", "--from", &tree, "-L", "label", image]);
    for (command, options) in [("admin", &["-L", "other"][..]), ("admin", &[]), ("info", &[]), ("df", &[])] {
        let mut words = words![command].to_vec();
        words.extend(options.iter().map(OsString::from));
        words.push(image.clone());
        judge.run(&words);
    }
    judge.run(words!["completions", "bash"]);
    judge.run(words!["help", "json"]);
}

fn edit(judge: &mut Judge, folder: &Path, image: &OsString) {
    let large = at(folder, "tree/large");
    let on = |command: &str, rest: &[&OsStr]| {
        let mut words = words![command, image].to_vec();
        words.extend(rest.iter().map(|word| (*word).to_owned()));
        words
    };
    let strange = OsStr::from_bytes(STRANGE);
    let w = OsStr::new;
    for words in [
        on("mkdir", &[w("/made"), strange]),
        on("put", &[&large, w("/made/large")]),
        on("put", &[w("-r"), tree_of(folder).as_os_str(), w("/put")]),
        on("cp", &[w("/made/large"), w("/made/copy")]),
        on("cp", &[w("/made/large"), &OsString::from_vec([STRANGE, b"/copy"].concat())]),
        on("mv", &[w("/made/copy"), w("/made/moved")]),
        on("ln", &[w("/made/moved"), w("/made/hard")]),
        on("ln", &[w("-s"), w("moved"), w("/made/soft")]),
        on("ln", &[w("-s"), OsStr::from_bytes(b"\xff"), w("/made/odd")]),
        on("chmod", &[w("4750"), w("/made/moved")]),
        on("chown", &[w("12:34"), w("/made/moved")]),
        on("touch", &[w("/made/empty")]),
        on("truncate", &[w("-s"), w("5M"), w("/made/empty")]),
        on("mknod", &[w("/made/device"), w("b"), w("8"), w("1")]),
        on("mknod", &[w("/made/socket"), w("s")]),
        on("mkfifo", &[w("/made/fifo")]),
        on("setfattr", &[w("-n"), w("user.text"), w("-v"), w("value"), w("/made/moved")]),
        on("setfattr", &[w("-n"), w("user.bytes"), w("-v"), w("0xff00"), w("/made/moved")]),
        on("setfattr", &[w("-n"), OsStr::from_bytes(b"user.\xfe"), w("-v"), w("v"), strange]),
        on("setfattr", &[w("-n"), w("security.selinux"), w("-v"), w("a_context"), w("/made/moved")]),
        on("mkdir", &[w("/etc")]),
        on("touch", &[w("/made/gone"), w("/etc/passwd"), w("/etc/group")]),
        on("rm", &[w("/made/gone")]),
        on("mkdir", &[w("/made/hollow")]),
        on("rmdir", &[w("/made/hollow")]),
    ] {
        let output = judge.run(&words);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !output.stdout.is_empty(), "{words:?}: {told}");
    }
    let people = folder.join("people");
    fs::write(&people, "someone:x:12:34::/:/bin/sh\nroot:x:0:0::/:/bin/sh\n").unwrap();
    judge.run(words!["put", image, &people, "/etc/passwd"]);
    fs::write(&people, "some:x:34:\n").unwrap();
    judge.run(words!["put", image, &people, "/etc/group"]);
    fs::write(&people, "text with a match\nand \u{e4} match, a \u{e4}\n").unwrap();
    judge.run(words!["put", image, &people, "/made/text"]);
    fs::write(&people, b"text with a match \xff\xfe\n").unwrap();
    judge.run(words!["put", image, &people, OsStr::from_bytes(&[STRANGE, b"/text"].concat())]);
    fs::write(&people, b"\0\0 a match \0\n").unwrap();
    judge.run(words!["put", image, &people, "/made/binary"]);
}

fn tree_of(folder: &Path) -> std::path::PathBuf {
    folder.join("tree/folder/deeper")
}

fn read(judge: &mut Judge, image: &OsString) {
    for command in [
        &["ls", "IMAGE", "/", "/made"][..],
        &["ls", "-lR", "-Z", "IMAGE"],
        &["tree", "IMAGE"],
        &["stat", "IMAGE", "/made/device", "/made/soft", "/made/odd", "/made/moved", "/", "128"],
        &["xattr", "IMAGE", "/made/moved", "/"],
        &["xattr", "-n", "user.text", "IMAGE", "/made/moved"],
        &["map", "IMAGE", "/made/large"],
        &["owner", "IMAGE", "--byte", "0", "--sector", "1", "--block", "24"],
        &["inodes", "IMAGE"],
        &["inodes", "--count", "IMAGE"],
        &["parents", "IMAGE", "/made/moved"],
        &["parents", "--limit", "1", "IMAGE", "/made/moved"],
        &["freespace", "IMAGE"],
        &["cat", "IMAGE", "/made/text"],
        &["inspect", "IMAGE", "sb", "0"],
        &["inspect", "IMAGE", "dir", "/"],
        &["inspect", "IMAGE", "attr", "/made/moved"],
        &["inspect", "IMAGE", "btree", "bno", "0"],
        &["check", "IMAGE"],
        &["repair", "IMAGE"],
        &["ls", "--repaired", "IMAGE"],
    ] {
        judge.run(&on_image(command, image));
    }
}

fn on_image(command: &[&str], image: &OsString) -> Vec<OsString> {
    command.iter().map(|word| if *word == "IMAGE" { image.clone() } else { OsString::from(word) }).collect()
}

/// A copy, changed in all ways in which files can differ.
fn differences(judge: &mut Judge, folder: &Path, image: &OsString) {
    let other = at(folder, "other");
    judge.run(words!["copy", image, &other]);
    judge.run(words!["copy", image, &folder.join(OsStr::from_bytes(b"copy-\xff"))]);
    let strange = OsStr::from_bytes(STRANGE);
    for words in [
        words!["chmod", &other, "600", "/made/moved"],
        words!["chown", &other, "77:88", "/made/moved"],
        words!["truncate", "-s", "7M", &other, "/made/empty"],
        words!["setfattr", "-n", "user.text", "-v", "another", &other, "/made/moved"],
        words!["setfattr", "-x", "user.bytes", &other, "/made/moved"],
        words!["setfattr", "-n", OsStr::from_bytes(b"user.\xfd"), "-v", "v", &other, "/made/moved"],
        words!["rm", "-r", &other, "/made/device", "/made/soft", "/made/odd", strange, "/made/fifo"],
        words!["mknod", &other, "/made/device", "b", "9", "2"],
        words!["ln", &other, "-s", "elsewhere", "/made/soft"],
        words!["ln", &other, "-s", OsStr::from_bytes(b"\xfe"), "/made/odd"],
        words!["mkdir", &other, "/made/fifo"],
        words!["touch", &other, "/made/new"],
        words!["truncate", "-s", "3", &other, "/made/text"],
        words!["truncate", "-s", "3", &other, "/made/binary"],
    ] {
        assert!(judge.run(words).status.success(), "{words:?}");
    }
    judge.run(words!["diff", "--also", "atime,ctime,btime", image, &other]);
    judge.run(words!["diff", "-uN", image, &other]);
    judge.run(words!["diff", image, &folder.join("tree")]);
}

fn search(judge: &mut Judge, image: &OsString) {
    for command in [
        &["grep", "-r", "match", "IMAGE", "/"][..],
        &["grep", "-rc", "match", "IMAGE", "/"],
        &["grep", "-rl", "match", "IMAGE", "/"],
        &["grep", "-vn", "match", "IMAGE", "/made/text"],
        &["find", "IMAGE", "/"],
        &["find", "IMAGE", "/made", "-ls"],
        &["du", "-a", "-c", "IMAGE", "/"],
        &["df", "IMAGE"],
    ] {
        judge.run(&on_image(command, image));
    }
}

fn copy_out(judge: &mut Judge, folder: &Path, image: &OsString) {
    judge.run(words!["extract", image, "/", "--to", &at(folder, "out")]);
    judge.run(words!["extract", image, "/made", "--tar", &at(folder, "out.tar")]);
    judge.run(words!["get", image, "/made/text", "/missing", "/made", folder]);
    judge.run(words!["get", "-r", image, "/made", &at(folder, "got")]);
    let to = at(folder, "rescued");
    judge.run(words!["rescue", image, "--digest", "--to", &to]);
    judge.run(words!["rescue", image, "--digest", "--resume", "--to", &to]);
}

/// Paths of the host that are not UTF-8.
fn strange_names(judge: &mut Judge, folder: &Path, image: &OsString) {
    let strange = folder.join(OsStr::from_bytes(&STRANGE[1..]));
    fs::create_dir(&strange).unwrap();
    let copy = at(&strange, "image");
    sparse::copy(image, &copy).unwrap();
    let (dump, map) = (at(&strange, "dump"), at(&strange, "map"));
    let file = OsString::from_vec(STRANGE.to_vec());
    judge.run(words!["info", &copy]);
    judge.run(words!["admin", &copy]);
    judge.run(words!["df", &copy]);
    judge.run(words!["freespace", &copy]);
    judge.run(words!["inodes", "--count", &copy]);
    judge.run(words!["check", &copy]);
    judge.run(words!["repair", &copy]);
    judge.run(words!["replay", &copy]);
    judge.run(words!["mkfs", "-f", "--size", "300M", &at(&strange, "made")]);
    judge.run(words!["metadump", &copy, &dump]);
    judge.run(words!["mdrestore", "-i", &dump]);
    judge.run(words!["mdrestore", &dump, &at(&strange, "restored")]);
    let (bad, size) = (offset_of(judge, image, "/made/large"), 300_u64 << 20);
    let (end, bad_bytes) = (bad + 8192, 8192);
    let ranges = [(0, bad, '+'), (bad, bad_bytes, '-'), (end, size - end, '+')];
    let ranges = ranges.map(|(start, length, state)| format!("{start:#x} {length:#x} {state}\n")).concat();
    fs::write(&map, format!("# Mapfile\n0x0 ?\n{ranges}")).unwrap();
    judge.run(words!["rescue", &copy, "--map", &map, "--to", &at(folder, "rescued-by-map")]);
    judge.run(words!["owner", &copy, "--byte", "0"]);
    let with_hole = at(folder, "with-hole");
    sparse::copy(image, &with_hole).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let file_with_hole = fs::File::options().write(true).open(&with_hole).unwrap();
    fallocate(&file_with_hole, punch, bad, bad_bytes).unwrap();
    judge.run(words!["rescue", &with_hole, "--to", &at(folder, "rescued-with-hole")]);
    judge.run(words!["extract", &copy, &file, "--to", &at(folder, "out-of-strange")]);
    judge.run(words!["stat", &copy, &OsString::from_vec([STRANGE, b"/missing"].concat())]);
    judge.run(words!["xattr", &copy, &file]);
    judge.run(words!["map", &copy, &OsString::from_vec([STRANGE, b"/copy"].concat())]);
    judge.run(words!["parents", &copy, &OsString::from_vec([STRANGE, b"/copy"].concat())]);
    judge.run(words!["du", &copy, &file]);
    judge.run(words!["info", &at(&strange, "missing")]);
    judge.run(words!["put", &copy, &at(&strange, "missing"), "/"]);
    for options in [&["-r"][..], &["-rc"], &["-rl"]] {
        let mut words = words!["grep"].to_vec();
        words.extend(options.iter().map(OsString::from));
        words.extend(words!["match", &copy, &file].to_vec());
        judge.run(&words);
    }
    fs::write(folder.join("zeros"), b"\0 match\n").unwrap();
    let binary = OsString::from_vec([STRANGE, b"/binary"].concat());
    judge.run(words!["put", &copy, &at(folder, "zeros"), &binary]);
    judge.run(words!["grep", "match", &copy, &binary]);
    let other = OsString::from_vec(b"/other-\xfd".to_vec());
    judge.run(words!["ln", &copy, &binary, &other]);
    judge.run(words!["rescue", &copy, "--to", &at(folder, "rescued-strange")]);
}

/// Where the contents of a file begin, in bytes of the image.
fn offset_of(judge: &mut Judge, image: &OsString, path: &str) -> u64 {
    let document = |output: std::process::Output| -> serde_json::Value {
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    };
    let extent = document(judge.run(words!["map", image, path]));
    let info = document(judge.run(words!["info", image]));
    let number = |document: &serde_json::Value, field: &str| document[field].as_u64().unwrap();
    let block = number(&extent, "group") * number(&info, "group_blocks") + number(&extent, "group_block");
    block * number(&info, "block_size_bytes")
}

fn dumps(judge: &mut Judge, folder: &Path, image: &OsString) {
    let dump = at(folder, "dump");
    judge.run(words!["metadump", "-o", image, &dump]);
    judge.run(words!["mdrestore", "-i", &dump]);
    judge.run(words!["mdrestore", &dump, &at(folder, "restored")]);
}

fn shell(judge: &mut Judge, image: &OsString) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"ls /\npwd\nmkdir /of-shell\nstat /missing\nlcd /\nrm /missing\n").unwrap();
    drop(writer);
    // Its commands print their own documents: those of the shell are told by name.
    let output = Command::new(program())
        .args(["--json", "shell", "-k"])
        .arg(image)
        .stdin(Stdio::from(reader))
        .output()
        .unwrap();
    let words = [OsString::from("shell")];
    let documents = String::from_utf8(output.stdout).unwrap();
    assert!(documents.lines().count() > 4, "{documents}");
    for line in documents.lines() {
        judge.line("shell", &words, line, &["shell", "ls", "stat", "mkdir"]);
    }
    judge.run(words!["shell", "-c", "pwd", image]);
}

/// Read-only commands on one image per geometry that changes their JSON.
fn goldens(judge: &mut Judge) {
    let names =
        ["ascii-ci", "block-1k", "block-64k", "default", "large-inode-numbers", "metadir", "no-feature"];
    for golden in names.map(|name| GoldenImage::named(name).unwrap()) {
        let image = golden.unpacked().unwrap().into_os_string();
        for command in [
            &["info", "IMAGE"][..],
            &["df", "IMAGE"],
            &["freespace", "IMAGE"],
            &["inodes", "--count", "IMAGE"],
            &["ls", "-l", "IMAGE", "/"],
            &["tree", "-L", "2", "IMAGE"],
            &["stat", "IMAGE", "/"],
            &["inspect", "IMAGE", "agf", "0"],
            &["inspect", "IMAGE", "log"],
        ] {
            judge.run(&on_image(command, &image));
        }
    }
}

fn logs(judge: &mut Judge, folder: &Path) {
    let dirty = at(folder, "dirty");
    GoldenImage::dirty_log().unpack_to(Path::new(&dirty)).unwrap();
    let strange = folder.join(OsStr::from_bytes(b"dirty-\xff"));
    sparse::copy(&dirty, &strange).unwrap();
    judge.run(words!["replay", "--dry-run", &strange]);
    for command in [
        &["info", "IMAGE"][..],
        &["inspect", "IMAGE", "log"],
        &["inspect", "IMAGE", "log", "all"],
        &["metadump", "IMAGE", "-"],
        &["check", "IMAGE"],
        &["replay", "--dry-run", "--list", "IMAGE"],
        &["replay", "IMAGE"],
        &["replay", "IMAGE"],
    ] {
        // A dump on standard output is no document.
        match command.first() {
            Some(&"metadump") => {
                let output =
                    Command::new(program()).arg("--json").args(on_image(command, &dirty)).output().unwrap();
                for line in String::from_utf8(output.stderr).unwrap().lines() {
                    judge.line("metadump", &[], line, &["*", "metadump"]);
                }
            }
            _ => drop(judge.run(&on_image(command, &dirty))),
        }
    }
}

fn bench(judge: &mut Judge, folder: &Path) {
    let image = at(folder, "bench");
    let directory = folder.join("work");
    judge.run(words!["bench", "fsmark", "-d", &directory, "-t", "1", "-n", "10", "-s", "0", "-S", "0", "-k"]);
    let size = ["--size", "300M"];
    judge.run(words![
        "bench", "fsmark", "--image", &image, size[0], size[1], "-t", "1", "-n", "20", "-s", "0"
    ]);
    judge.run(words!["bench", "dirsync", "--image", &image, "-n", "50"]);
    judge.run(words!["bench", "xattr", "--image", &image, "-k", "n2000-20-40", "--series"]);
    judge.run(words!["bench", "leaves", "--series", &image, "/attributes"]);
}

fn mounts(judge: &mut Judge) {
    let place = Place::new();
    judge.run(words!["stats", &place.directory]);
    judge.run(words!["umount", &place.directory]);
    let mounted = judge.run(words!["mount", &place.image, &place.directory]);
    assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
    fs::write(place.file(), "contents").unwrap();
    judge.run(words!["stats", &place.directory]);
    // It is in use.
    judge.run(words!["mkdir", &place.image, "/d"]);
    judge.run(words!["mount", &place.image, &place.directory]);
    judge.run(words!["rescue", "--no-lock", &place.image, "--to", &at(place.folder.path(), "rescued")]);
    judge.run(words!["umount", &place.directory]);
}

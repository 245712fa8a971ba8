//! `uxfs xattr` prints attributes as getfattr does on the kernel's mount of the same image, and ACLs as getfacl.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use uxfs_testkit::{
    image,
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    verdict::repair_is_silent,
    xfs_db::XfsDb,
};

use crate::common;
use crate::common::program;

/// Names and values: quotes, control characters, other encodings, zero bytes, all lengths around the limit of what counts as text.
const ATTRIBUTES: &[(&[u8], &[u8])] = &[
    (b"user.text", b"hello"),
    (b"user.empty", b""),
    (b"user.quotes", b"a\"b\\c"),
    (b"user.lines", b"line\nline\r\n"),
    (b"user.tab", b"a\tb"),
    (b"user.zero-at-end", b"text\0"),
    (b"user.zeros-at-end", b"abc\0\0"),
    (b"user.zero-alone", b"\0"),
    (b"user.zero-within", b"aaaaaaaaaaaaaaa\0b"),
    (b"user.utf8", "\u{e4}\u{f6}\u{20ac}".as_bytes()),
    (b"user.utf8-and-16", "\u{e4}aaaaaaaaaaaaaa".as_bytes()),
    (b"user.utf8-and-15", "\u{e4}aaaaaaaaaaaaa".as_bytes()),
    (b"user.other", b"caf\xe9"),
    (b"user.one-of-7", b"abcdef\x01"),
    (b"user.one-of-8", b"abcdefg\x01"),
    (b"user.one-of-8-and-zero", b"abcdefg\x01\0"),
    (b"user.two-of-16", b"xxxxxxxxxxxxxx\x01\x02"),
    (b"user.two-of-15", b"xxxxxxxxxxxxx\x01\x02"),
    (b"user.delete", b"aaaaaaaaaaaaaaaaaaaaaaaa\x7f"),
    (b"user.like-hex", b"0xab"),
    (b"user.=equal", b"1"),
    (b"user.with space", b"1"),
    (b"user.back\\slash", b"1"),
    (b"user.quote\"", b"1"),
    (b"user.line\nline", b"1"),
    (b"user.return\r", b"1"),
    (b"user.tab\t", b"1"),
    (b"user.#hash", b"1"),
    (b"user.\xff", b"1"),
    (b"user.\x01", b"1"),
    (b"trusted.name", b"t"),
    (b"security.name", b"s"),
];
const FILES: &[&[u8]] = &[
    b"many",
    b"with space",
    b"line\nline",
    b"back\\slash",
    b"\xff\x01",
    "\u{e4}=#".as_bytes(),
    b"none",
    b"acl",
    b"folder",
];

fn make(image: &Path) -> LoopMount {
    image::make(image, 300 << 20, &[]).unwrap();
    let mount = LoopMount::new(image, Access::ReadWrite).unwrap();
    let at = |name: &[u8]| mount.path().join(OsStr::from_bytes(name));
    let set = |path: &Path, name: &[u8], value: &[u8]| {
        rustix::fs::setxattr(path, OsStr::from_bytes(name), value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    for name in FILES {
        match *name {
            b"folder" => fs::create_dir(at(name)).unwrap(),
            name => fs::write(at(name), "").unwrap(),
        }
        if !matches!(*name, b"none" | b"folder") {
            set(&at(name), b"user.a", b"1");
        }
    }
    for (name, value) in ATTRIBUTES {
        set(&at(b"many"), name, value);
    }
    let all: Vec<u8> = (0..=255).collect();
    set(&at(b"many"), b"user.all", &all);
    set(&at(b"many"), b"user.long", &all.repeat(100));
    // So many that they are in several blocks, in the order of their hashes.
    for number in 0..500 {
        set(&at(b"with space"), format!("user.number-{number}").as_bytes(), &all[..number % 256]);
    }
    common::host("setfacl", &["-m", "u:1000:rw,g:5:r,g:6:rwx,m::r", common::text(&at(b"acl"))]);
    common::host("setfacl", &["-d", "-m", "u:3:rwx", common::text(&at(b"folder"))]);
    mount
}

/// A program on all files of a mount.
fn judge(mount: &LoopMount, program: &str, options: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.current_dir(mount.path()).env("LC_ALL", "C").args(options);
    command.args(FILES.iter().map(|name| OsStr::from_bytes(name))).output().unwrap()
}

fn uxfs(image: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.arg("xattr").args(options).arg("--no-glob").arg(image);
    command.args(FILES.iter().map(|name| OsStr::from_bytes(name))).output().unwrap()
}

#[test]
fn attributes_are_printed_as_getfattr_prints_them() {
    let folder = tempfile::tempdir_in(image::memory_folder()).unwrap();
    let image = folder.path().join("image");
    let mount = make(&image);
    let cases: &[(&[&str], &[&str])] = &[
        (&["-d", "-m", "-"], &["-d", "-a"]),
        (&["-d", "-m", "-", "-e", "text"], &["-d", "-a", "-e", "text"]),
        (&["-d", "-m", "-", "-e", "hex"], &["-d", "-a", "-e", "hex"]),
        (&["-d", "-m", "-", "-e", "base64"], &["-d", "-a", "-e", "base64"]),
        (&["-n", "user.a"], &["-n", "user.a"]),
        (&["-n", "user.all", "-e", "hex"], &["-n", "user.all", "-e", "hex"]),
        (&["-n", "user.lines", "--only-values"], &["-n", "user.lines", "--only-values"]),
        (&["-d", "-m", "-", "--only-values"], &["-a", "--only-values"]),
    ];
    let expected: Vec<_> =
        cases.iter().map(|(judge_options, _)| judge(&mount, "getfattr", judge_options)).collect();
    let lists = judge(&mount, "getfacl", &["-n", "-p"]);
    mount.unmount().unwrap();
    for ((_, options), expected) in cases.iter().zip(&expected) {
        let output = uxfs(&image, options);
        let (shown, wanted) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&expected.stdout));
        let difference = shown.lines().zip(wanted.lines()).find(|(one, other)| one != other);
        assert!(
            output.stdout == expected.stdout,
            "{options:?}: {difference:?}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), expected.status.code(), "{options:?}");
    }
    // Access control lists, without the files that have only a mode.
    let output = uxfs(&image, &[]);
    let shown = String::from_utf8_lossy(&output.stdout);
    let lists = String::from_utf8_lossy(&lists.stdout);
    let entries = |text: &str, heading: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| *line != heading).skip(1);
        let lines = lines
            .take_while(|line| !line.is_empty())
            .filter(|line| !line.starts_with('#') && line.contains(':'));
        lines
            .filter(|line| !line.contains('='))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    };
    let access = entries(&shown, "# file: acl");
    assert!(access.len() > 5 && access == entries(&lists, "# file: acl"), "{access:?}\n{lists}");
    let default: Vec<_> =
        entries(&shown, "# file: folder").iter().map(|entry| format!("default:{entry}")).collect();
    let all = entries(&lists, "# file: folder");
    assert!(default.len() > 3 && all.ends_with(&default), "{default:?}\n{all:?}");
}

/// setfattr takes what is printed.
#[test]
fn printed_attributes_are_restored() {
    let folder = tempfile::tempdir_in(image::memory_folder()).unwrap();
    let image = folder.path().join("image");
    make(&image).unmount().unwrap();
    let dump = uxfs(&image, &["-d", "-e", "base64"]);
    assert!(dump.status.success());
    let copy = folder.path().join("copy");
    image::make(&copy, 300 << 20, &[]).unwrap();
    let mount = LoopMount::new(&copy, Access::ReadWrite).unwrap();
    for name in FILES {
        let path = mount.path().join(OsStr::from_bytes(name));
        if *name == b"folder" { fs::create_dir(path).unwrap() } else { fs::write(path, "").unwrap() }
    }
    let text = folder.path().join("text");
    fs::write(&text, &dump.stdout).unwrap();
    let mut restore = OsString::from("--restore=");
    restore.push(&text);
    let mut command = Command::new("setfattr");
    let status = command.arg(restore).current_dir(mount.path()).stdin(Stdio::null()).status().unwrap();
    mount.unmount().unwrap();
    assert!(status.success());
    assert!(uxfs(&copy, &["-d", "-e", "base64"]).stdout == dump.stdout);
}

/// Files that are missing do not keep the others back.
#[test]
fn the_other_files_are_shown_and_copied() {
    let folder = tempfile::tempdir_in(image::memory_folder()).unwrap();
    let image = folder.path().join("image");
    make(&image).unmount().unwrap();
    let path = common::text(&image);
    let output = common::uxfs(&["xattr", "-n", "user.a", path, "/missing", "/acl", "/none", "/many"]);
    let (shown, told) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(shown, "# file: acl\nuser.a=\"1\"\n\n# file: many\nuser.a=\"1\"\n\n");
    let expected = format!(
        "uxfs: {path}: /missing: no such file or directory\nuxfs: {path}: /none: no such attribute\n"
    );
    assert_eq!(told, expected);
    assert_eq!(output.status.code(), Some(1));
    let target = folder.path().join("target");
    fs::create_dir(&target).unwrap();
    let output = common::uxfs(&["get", path, "/missing", "/acl", "/folder", "/many", common::text(&target)]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("/missing: no such file") && told.contains("/folder: is a directory (-r"),
        "{told}"
    );
    assert!(target.join("acl").exists() && target.join("many").exists() && !target.join("folder").exists());
    let output = common::uxfs(&["cat", path, "/missing", "/folder", "/acl"]);
    assert_eq!(
        (output.status.code(), String::from_utf8(output.stderr).unwrap().lines().count()),
        (Some(1), 2)
    );
}

/// Like Linux, the first attribute sets the attribute bit of the superblock; online scrub requires it.
#[test]
fn the_first_attribute_is_told_in_the_superblock() {
    const BIT: u64 = 0x10;
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(image::memory_folder()).unwrap();
    let (path, tree) = (folder.path().join("image"), folder.path().join("tree"));
    let image = common::text(&path);
    let version = || {
        let fields = XfsDb::new(&path).print(&["sb 0", "p versionnum"]).unwrap();
        u64::from_str_radix(fields[0].value.trim_start_matches("0x"), 16).unwrap()
    };
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), "text").unwrap();
    image::make(&path, 300 << 20, &["-n", "parent=0"]).unwrap();
    common::succeeds(&["put", image, common::text(&tree.join("file")), "/file"]);
    assert_eq!(version() & BIT, 0);
    common::succeeds(&["setfattr", "-n", "user.a", "-v", "b", image, "/file"]);
    assert_ne!(version() & BIT, 0);
    // Where it is lost, a check finds it.
    XfsDb::new(&path).write(&["sb 0".into(), format!("write versionnum {:#x}", version() & !BIT)]).unwrap();
    let output = Command::new(program()).args(["check", image]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("attribute bit 0"), "{output:?}");
    common::succeeds(&["repair", image]);
    assert_ne!(version() & BIT, 0);
    repair_is_silent(&path).unwrap();
    // Also where the tree of a new image brings attributes.
    let set = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(tree.join("file"), "user.a", b"b", set).unwrap();
    common::succeeds(&["mkfs", "-q", "-f", "-n", "parent=0", "--from", common::text(&tree), image]);
    assert_ne!(version() & BIT, 0);
    common::succeeds(&["check", "-q", image]);
    let mount = LoopMount::new(&path, Access::ReadWrite).unwrap();
    assert_eq!(fs::read(mount.path().join("file")).unwrap(), b"text");
    mount.unmount().unwrap();
}

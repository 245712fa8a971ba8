//! `uxfs mkfs --from` with other times and owners than the source's, without what cannot be read, and from pipes that are fitted.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, SystemTime},
};

use tempfile::TempDir;
use uxfs_testkit::{judges::Judge, require, verdict::repair_is_silent};

use crate::common;
use crate::common::{program, succeeds, text};

/// Runs `uxfs mkfs` without the variables of the other tests.
fn mkfs(arguments: &[&str], epoch: Option<&str>, input: Stdio) -> Output {
    let mut command = Command::new(program());
    command.args(["mkfs", "-q", "-f"]).args(arguments).env_remove("SOURCE_DATE_EPOCH").stdin(input);
    if let Some(epoch) = epoch {
        command.env("SOURCE_DATE_EPOCH", epoch);
    }
    command.output().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Modification, access, change and birth time, as `find` prints them.
fn times(image: &Path) -> Vec<(String, [String; 4])> {
    let listed = succeeds(&["find", text(image), "/", "-printf", "%P|%T@|%A@|%C@|%B@\\n"]);
    let line = |line: &str| {
        let mut fields =
            line.split('|').map(|field| field.trim_end_matches('0').trim_end_matches('.').to_owned());
        (fields.next().unwrap(), std::array::from_fn(|_| fields.next().unwrap()))
    };
    listed.lines().map(line).collect()
}

struct Place {
    folder: TempDir,
}

impl Place {
    /// `old` of 1,000 seconds and `young` of 3,000, in a directory of 2,000.5.
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        for (name, milliseconds) in [("old", 1_000_000), ("young", 3_000_000), ("", 2_000_500)] {
            let path = tree.join(name);
            if !name.is_empty() {
                fs::write(&path, name).unwrap();
            }
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
            let times = fs::FileTimes::new().set_accessed(time).set_modified(time);
            fs::File::open(&path).unwrap().set_times(times).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Of the root, `old` and `young`.
    fn modified(&self, options: &[&str], epoch: Option<&str>) -> [String; 3] {
        let (tree, image) = (self.path("tree"), self.path("image"));
        let arguments = [&["--size", "300M", "--from", text(&tree)], options, &[text(&image)]].concat();
        let output = mkfs(&arguments, epoch, Stdio::null());
        assert!(output.status.success(), "{options:?}: {}", words(&output));
        let times = times(&image);
        ["", "old", "young"].map(|name| times.iter().find(|(path, _)| path == name).unwrap().1[0].clone())
    }
}

#[test]
fn times_are_clamped_or_set() {
    let place = Place::new();
    assert_eq!(place.modified(&[], None), ["2000.5", "1000", "3000"]);
    assert_eq!(place.modified(&["--reproducible"], None), ["2000.5", "1000", "3000"]);
    assert_eq!(place.modified(&[], Some("2000")), ["2000", "1000", "2000"]);
    assert_eq!(place.modified(&["--clamp-mtime", "@2500"], Some("2000")), ["2000.5", "1000", "2500"]);
    assert_eq!(place.modified(&["--clamp-mtime", "1970-01-01 00:30"], None), ["1800", "1000", "1800"]);
    assert_eq!(place.modified(&["--all-time", "@-5"], Some("2000")), ["-5", "-5", "-5"]);
    // All else is of the time of making.
    let all = &times(&place.path("image"))[0].1;
    assert_eq!(all, &["-5", "-5", "2000", "2000"]);
    place.modified(&["--atime", "--clamp-mtime", "@2500"], Some("2000"));
    let of_young = times(&place.path("image")).into_iter().find(|(path, _)| path == "young").unwrap().1;
    assert_eq!(of_young, ["2500", "2500", "2000", "2000"]);
    for options in [
        &["--clamp-mtime", "@1", "--all-time", "@1"][..],
        &["--all-time", "@1", "--atime"],
        &["--all-time", "soon"],
        &["--clamp-mtime", ""],
    ] {
        let (tree, image) = (place.path("tree"), place.path("other"));
        let arguments = [&["--from", text(&tree)], options, &[text(&image)]].concat();
        let output = mkfs(&arguments, None, Stdio::null());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", words(&output));
        assert!(!image.exists());
    }
    let output = mkfs(&["--clamp-mtime", "@1", text(&place.path("other"))], None, Stdio::null());
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
}

/// Directories that no archive names, the root among them, have the time too; and so two trees of one content make one image,
/// whenever their files were written.
#[test]
fn one_time_for_all_makes_images_equal() {
    require!(Judge::GnuTar, Judge::XfsRepair);
    let place = Place::new();
    fs::create_dir_all(place.path("tree/a/b")).unwrap();
    fs::write(place.path("tree/a/b/file"), "deep").unwrap();
    let (tree, copy, archive) = (place.path("tree"), place.path("copy"), place.path("archive"));
    common::host("cp", &["-r", text(&tree), text(&copy)]);
    let make = |source: &str, options: &[&str]| {
        let image = place.path("image");
        let fixed = ["--reproducible", "--owner-map", "*:0", "--all-time", "2020-02-02", "--from", source];
        // An image that is there has a size.
        let _ = fs::remove_file(&image);
        let input = if source == "-" { fs::File::open(&archive).unwrap().into() } else { Stdio::null() };
        let output = mkfs(&[&fixed, options, &[text(&image)]].concat(), Some("1000"), input);
        assert!(output.status.success(), "{}", words(&output));
        repair_is_silent(&image).unwrap();
        fs::read(image).unwrap()
    };
    assert!(make(text(&tree), &[]) == make(text(&copy), &[]), "a copy makes another image");
    let tar = |paths: &[&str]| {
        let mut tar = Judge::GnuTar.command();
        tar.args(["--format=pax", "-cf", text(&archive), "-C", text(&tree)]).args(paths);
        assert!(tar.status().unwrap().success());
    };
    tar(&["."]);
    let of_directory = make(text(&tree), &[]);
    assert!(make(text(&archive), &[]) == of_directory, "an archive makes another image");
    // A pipe is copied, to be fitted, and makes the same image.
    assert!(make("-", &[]) == of_directory, "a pipe makes another image");
    tar(&["a/b/file"]);
    for options in [&[][..], &["--size", "300M"]] {
        make("-", options);
        for (path, times) in times(&place.path("image")) {
            assert_eq!(times[0], "1580601600", "{path}");
        }
    }
}

#[test]
fn owners_by_name() {
    let place = Place::new();
    let names = place.path("etc");
    fs::create_dir(&names).unwrap();
    fs::write(names.join("passwd"), "root:x:0:0::/:\nbuilder:x:7001:7002::/:\nwww-data:x:33:33::/:\n")
        .unwrap();
    fs::write(names.join("group"), "root:x:0:\nbuilder:x:7002:\nstaff:x:50:\n").unwrap();
    chown(place.path("tree/old"), Some(7001), Some(7002)).unwrap();
    chown(place.path("tree/young"), Some(5), Some(50)).unwrap();
    let image = place.path("image");
    let make = |rules: &str, names: &[&str]| {
        let (tree, rules) = (place.path("tree"), ["--owner-map", rules]);
        let arguments =
            [&["--size", "300M", "--from", text(&tree)], &rules[..], names, &[text(&image)]].concat();
        mkfs(&arguments, None, Stdio::null())
    };
    let folder = ["--owner-names", text(&names)];
    let output = make("builder:root,u:5:www-data,g:staff:9", &folder);
    assert!(output.status.success(), "{}", words(&output));
    let owners = succeeds(&["find", text(&image), "/", "-type", "f", "-printf", "%P %U:%G\\n"]);
    assert_eq!(owners, "old 0:0\nyoung 33:9\n");
    // Root is known everywhere.
    assert!(make("root:0", &[]).status.success());
    for (rules, names, saying) in [
        ("u:nobody-of-this-name:0", &[][..], "unknown user nobody-of-this-name"),
        ("www-data:0", &folder, "unknown group www-data"),
        ("0:0", &["--owner-names", "/nowhere"], "/nowhere/passwd: cannot read"),
    ] {
        let output = make(rules, names);
        assert!(!output.status.success() && words(&output).contains(saying), "{rules}: {}", words(&output));
    }
}

/// As mtree -c of FreeBSD and NetBSD, mtree -C and -D, and FreeBSD's build write them.
#[test]
fn manifests_are_known_by_their_lines_and_may_name_owners() {
    require!(Judge::Xz, Judge::Pzstd);
    let place = Place::new();
    let names = place.path("names");
    fs::create_dir(&names).unwrap();
    fs::write(names.join("passwd"), "root:*:0:0::/:\nlink:*:66:77::/:\n").unwrap();
    fs::write(names.join("group"), "wheel:*:0:\ngames:*:13:link\n").unwrap();
    fs::write(place.path("c"), "hi").unwrap();
    let (manifest, image) = (place.path("manifest"), place.path("image"));
    let made = |text_of: &str, options: &[&str]| {
        fs::write(&manifest, text_of).unwrap();
        let arguments = [&["--size", "300M", "--from", text(&manifest)], options, &[text(&image)]].concat();
        let output = mkfs(&arguments, None, Stdio::null());
        assert!(output.status.success(), "{text_of}: {}", words(&output));
        succeeds(&["find", text(&image), "/f", "-printf", "%U:%G %m %s"])
    };
    for form in [
        "#\t   user: root\n#\tmachine: host\n#\t   tree: /usr/x\n\n# .\n/set type=file uid=5 gid=6 mode=0640 nlink=1\n\
         .               type=dir mode=0755\n    f           content=c\n..\n",
        "./f type=file uid=5 gid=6 mode=0640 content=c\n",
        "type=file uid=5 gid=6 mode=0640 content=c ./f\n",
    ] {
        assert_eq!(made(form, &[]), "5:6 640 2");
    }
    let metalog = "#mtree 2.0\n. type=dir uname=root gname=wheel mode=0755\n\
                   ./f type=file uname=link gname=games mode=0644 contents=c size=2 tags=package=base\n";
    let folder = ["--owner-names", text(&names)];
    assert_eq!(made(metalog, &folder), "66:13 644 2");
    // The same as an overlay.
    let overlay = place.path("overlay");
    fs::write(&overlay, "/set uname=link gname=games\n./f type=file\n").unwrap();
    let options = [&["--manifest", text(&overlay)], &folder[..]].concat();
    assert_eq!(made("./f type=file content=c mode=0600\n", &options), "66:13 600 2");
    // Packed, both as a source and as an overlay.
    fs::write(&manifest, "./f type=file uid=5 gid=6 mode=0640 content=c\n").unwrap();
    for (program, suffix) in [("gzip", "gz"), ("xz", "xz"), ("zstd", "zst")] {
        common::host(program, &["-kqf", text(&manifest)]);
        common::host(program, &["-kqf", text(&overlay)]);
        let [packed, over] = [&manifest, &overlay].map(|path| format!("{}.{suffix}", path.display()));
        let form = ["--size", "300M", "--from", &packed, "--manifest", &over, "--owner-names", text(&names)];
        let output = mkfs(&[&form[..], &[text(&image)]].concat(), None, Stdio::null());
        assert!(output.status.success(), "{}", words(&output));
        assert_eq!(succeeds(&["find", text(&image), "/f", "-printf", "%U:%G %m %s"]), "66:13 640 2");
    }
    fs::write(&manifest, metalog.replace("gname=games", "gname=no-such-group")).unwrap();
    let output = mkfs(&["--size", "300M", "--from", text(&manifest), text(&image)], None, Stdio::null());
    let words = words(&output);
    assert!(!output.status.success() && words.contains("--owner-names"), "{words}");
}

#[test]
fn labels_come_from_a_policy_and_its_companions() {
    require!(Judge::XfsRepair, Judge::GnuTar, Judge::SelabelLookup);
    let place = Place::new();
    let contexts = place.path("contexts");
    let beside =
        |suffix: &str, text: &str| fs::write(place.path(&format!("contexts{suffix}")), text).unwrap();
    beside("", "/.*\tu:object_r:default_t:s0\n/tree/sub(/.*)?\tu:object_r:sub_t:s0\n");
    beside(".subs_dist", "/alias /tree/sub\n");
    beside(".local", "/old\t--\tu:object_r:old_t:s0\n");
    fs::create_dir(place.path("tree/alias")).unwrap();
    fs::write(place.path("tree/alias/x"), "").unwrap();
    // The archive does not name its root.
    let archive = place.path("archive.tar");
    let mut tar = Judge::GnuTar.command();
    tar.args(["-cf", text(&archive), "-C", text(&place.path("tree")), "old", "young", "alias"]);
    assert!(tar.status().unwrap().success());
    let image = place.path("image");
    let label = |path: &str| {
        succeeds(&["xattr", "--only-values", "-n", "security.selinux", text(&image), path]).replace('\0', "")
    };
    for (source, input) in [(text(&archive), None), ("-", Some(&archive)), (text(&place.path("tree")), None)]
    {
        let input = input.map_or_else(Stdio::null, |path| fs::File::open(path).unwrap().into());
        let arguments =
            ["--size", "300M", "--file-contexts", text(&contexts), "--from", source, text(&image)];
        let output = mkfs(&arguments, None, input);
        assert!(output.status.success() && words(&output).is_empty(), "{source}: {}", words(&output));
        let expected = [
            ("/", "default"),
            ("/old", "old"),
            ("/young", "default"),
            ("/alias", "sub"),
            ("/alias/x", "sub"),
        ];
        for (path, name) in expected {
            assert_eq!(label(path), format!("u:object_r:{name}_t:s0"), "{source}: {path}");
        }
    }
    repair_is_silent(&image).unwrap();
    let (tree, bin) = (place.path("tree"), place.path("contexts.bin"));
    let mut compile = Judge::SelabelLookup.command_beside("sefcontext_compile");
    assert!(compile.arg("-o").arg(&bin).arg(&contexts).status().unwrap().success());
    let form = ["--size", "300M", "--file-contexts", text(&bin), "--from", text(&tree), text(&image)];
    let output = mkfs(&form, None, Stdio::null());
    assert!(output.status.success() && words(&output).is_empty(), "{}", words(&output));
    assert_eq!(
        (label("/old"), label("/alias/x")),
        ("u:object_r:old_t:s0".into(), "u:object_r:sub_t:s0".into())
    );
    let mut bytes = fs::read(&bin).unwrap();
    bytes[4..8].copy_from_slice(&[7; 4]);
    fs::write(&bin, bytes).unwrap();
    let output = mkfs(&form, None, Stdio::null());
    let said = words(&output);
    assert!(said.contains("version 117901063") && said.contains("the file without .bin"), "{said}");
    fs::remove_file(&bin).unwrap();
    let with = |file: &Path| {
        let tree = place.path("tree");
        mkfs(
            &["--size", "300M", "--file-contexts", text(file), "--from", text(&tree), text(&image)],
            None,
            Stdio::null(),
        )
    };
    for (file, line) in [("contexts.subs_dist", "line 1: /tree/sub is no context"), ("tree/old", "line 1: ")]
    {
        let output = with(&place.path(file));
        assert!(!output.status.success() && words(&output).contains(line), "{file}: {}", words(&output));
    }
    beside("", "/nowhere/.*\tu:object_r:default_t:s0\n");
    fs::remove_file(place.path("contexts.local")).unwrap();
    let output = with(&contexts);
    assert!(output.status.success() && words(&output).contains("no file of the source has a label"));
}

/// Devices and pipes that give zeros for ever.
#[test]
fn what_has_no_end_is_no_source() {
    let place = Place::new();
    let image = place.path("image");
    let zeros = || Stdio::from(fs::File::open("/dev/zero").unwrap());
    for (source, size) in [("/dev/zero", &["--size", "300M"][..]), ("/dev/zero", &[]), ("-", &[])] {
        let output = mkfs(&[size, &["--from", source, text(&image)]].concat(), None, zeros());
        let said = words(&output);
        assert!(!output.status.success() && said.contains("is a device, not an archive"), "{said}");
        assert!(!image.exists() || size.len() > 1);
    }
    for size in [&["--size", "300M"][..], &[]] {
        let mut endless = Command::new("cat").arg("/dev/zero").stdout(Stdio::piped()).spawn().unwrap();
        let pipe = endless.stdout.take().unwrap().into();
        let output = mkfs(&[size, &["--from", "-", text(&image)]].concat(), None, pipe);
        let said = words(&output);
        assert!(!output.status.success() && said.contains("256 MiB of zeros"), "{said}");
        endless.wait().unwrap();
    }
}

/// As a user who may not read all of it.
#[test]
fn what_cannot_be_read_is_left_out_where_that_is_asked_for() {
    require!(Judge::XfsRepair);
    const NOBODY: u32 = 65_534;
    let place = Place::new();
    let uxfs = place.path("uxfs");
    fs::copy(program(), &uxfs).unwrap();
    fs::create_dir(place.path("tree/closed")).unwrap();
    fs::write(place.path("tree/closed/inner"), "hidden").unwrap();
    for (path, mode) in [("", 0o777), ("uxfs", 0o755), ("tree/young", 0), ("tree/closed", 0o700)] {
        fs::set_permissions(place.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let run = |options: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &NOBODY.to_string(), "--regid", &NOBODY.to_string(), "--clear-groups"]);
        command
            .arg(&uxfs)
            .args(options)
            .current_dir(place.path(""))
            .env("TMPDIR", place.path(""))
            .output()
            .unwrap()
    };
    let refused = run(&["mkfs", "-q", "--from", "tree", "image"]);
    let said = words(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for part in [
        "2 of the source cannot be read",
        "young: cannot be read",
        "closed: cannot be listed",
        "--skip-unreadable",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!place.path("image").exists());
    // The old contents of an image stay until the source is known to be readable.
    for form in [&["--from", "tree"][..], &["-p", "tree"], &["--from", "tree", "--size", "fit"]] {
        assert!(run(&["mkfs", "-q", "-f", "-L", "old", "--size", "300M", "image"]).status.success());
        let before = fs::read(place.path("image")).unwrap();
        let refused = run(&[&["mkfs", "-q", "-f"], form, &["image"]].concat());
        let said = words(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("closed: cannot be listed") && !said.contains("is lost"), "{form:?}: {said}");
        assert!(before == fs::read(place.path("image")).unwrap(), "{form:?}");
        fs::remove_file(place.path("image")).unwrap();
    }
    for size in [&[][..], &["--size", "300M"]] {
        let made =
            run(&[&["--json", "mkfs", "-f", "--skip-unreadable", "--from", "tree", "image"], size].concat());
        let said = words(&made);
        assert_eq!(made.status.code(), Some(1), "{said}");
        assert!(
            said.contains("young: cannot be read") && said.contains("closed: cannot be listed"),
            "{said}"
        );
        let document: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
        assert_eq!(document["contents"]["unreadable"], 2, "{document}");
        let names = succeeds(&["find", text(&place.path("image")), "/", "-printf", "%P\\n"]);
        assert_eq!(names, "\nclosed\nold\n");
        repair_is_silent(&place.path("image")).unwrap();
    }
    let whole = run(&["mkfs", "-q", "-f", "--skip-unreadable", "--from", "etc", "image"]);
    assert_eq!(whole.status.code(), Some(1), "there is no such directory: {}", words(&whole));
}

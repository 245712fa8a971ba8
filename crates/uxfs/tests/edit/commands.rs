//! Commands one by one: what they print, how they fail, who keeps them away.

use std::{
    fs,
    io::Write,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Stdio},
};

use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use tempfile::TempDir;
use uxfs_testkit::{
    image,
    judges::Judge,
    loop_device::LoopDevice,
    mount::{Access, LoopMount},
    require, verdict,
};

use crate::common::{host, program, succeeds, text, tree, uxfs};

fn new_image() -> (TempDir, String) {
    let folder = TempDir::with_prefix_in("uxfs-edit-", image::memory_folder()).unwrap();
    let path = folder.path().join("image");
    succeeds(&["mkfs", "-q", "--size", "300M", text(&path)]);
    let path = text(&path).to_owned();
    (folder, path)
}

fn fails(arguments: &[&str], code: i32, saying: &str) {
    let output = uxfs(arguments);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {words}");
    assert!(words.contains(saying), "{arguments:?}: {words}");
}

#[test]
fn a_tree_comes_in_and_out_as_it_was() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let (folder, image) = new_image();
    let source = folder.path().join("source");
    tree(&source);
    succeeds(&["put", "-a", &image, &format!("{}/.", text(&source)), "/"]);
    verdict::holds_the_same_but_for_reading(image.as_ref(), &source).unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    succeeds(&["get", "-r", &image, "/folder", "/large", text(&out)]);
    host("diff", &["-r", text(&source.join("folder")), text(&out.join("folder"))]);
    assert_eq!(fs::read(out.join("large")).unwrap(), fs::read(source.join("large")).unwrap());
    let file = out.join("renamed");
    succeeds(&["get", &image, "/folder/file-3", text(&file)]);
    assert_eq!(fs::read(&file).unwrap(), vec![3; 1500]);
    // Over existing files: a second run changes nothing.
    succeeds(&["put", "-a", &image, &format!("{}/.", text(&source)), "/"]);
    verdict::holds_the_same_but_for_reading(image.as_ref(), &source).unwrap();
}

/// The first copy stays, with the other name of its original.
#[test]
fn a_later_source_does_not_replace_a_file_of_the_same_command() {
    let (folder, image) = new_image();
    let place = |name: &str| folder.path().join(name);
    ["a", "b", "c"].iter().for_each(|name| fs::create_dir(place(name)).unwrap());
    fs::write(place("a/first"), "contents").unwrap();
    fs::hard_link(place("a/first"), place("b/second")).unwrap();
    std::os::unix::fs::symlink("nowhere", place("c/first")).unwrap();
    let operands = ["a/first", "c/first", "b/second"].map(place);
    let [first, other, second] = operands.each_ref().map(|path| text(path));
    let words = "another source of the same name has just been put there";
    fails(&["put", "-a", &image, first, other, second, "/"], 1, words);
    assert_eq!(succeeds(&["cat", &image, "/second"]), "contents");
    assert_eq!(succeeds(&["cat", &image, "/first"]), "contents");
    succeeds(&["mkdir", &image, "/copy", "/originals"]);
    succeeds(&["put", "-a", &image, text(&place("a")), text(&place("b")), text(&place("c")), "/originals"]);
    let [first, other, second] = ["a/first", "c/first", "b/second"].map(|name| format!("/originals/{name}"));
    fails(&["cp", "-a", &image, &first, &other, &second, "/copy"], 1, words);
    assert_eq!(succeeds(&["cat", &image, "/copy/second"]), "contents");
    assert_eq!(succeeds(&["cat", &image, "/copy/first"]), "contents");
    succeeds(&["mkdir", &image, "/moved"]);
    fails(&["mv", &image, &first, &other, &second, "/moved"], 1, words);
    assert_eq!(succeeds(&["cat", &image, "/moved/first"]), "contents");
    assert_eq!(
        succeeds(&["ls", &image, "/moved", "/originals/c"]),
        "/moved:\nfirst\nsecond\n\n/originals/c:\nfirst\n"
    );

    // Below directories, too, which take what all sources have; one command after another replaces.
    let script = "mkdir -p x/d y/d z; cd x; touch d/same d/one; cd ../y; touch d/two; cd ..; \
                  cp x/d/one y/d/same";
    succeeds(&["shell", &image, "-c", script]);
    fails(&["cp", "-r", &image, "/x/d", "/y/d", "/z"], 1, "/z/d/same: not replaced");
    assert_eq!(succeeds(&["ls", &image, "/z/d"]), "one\nsame\ntwo\n");
    succeeds(&["shell", &image, "-c", "cp x/d/same z; cp y/d/same z"]);
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(place("one"), "1").unwrap();
    succeeds(&["put", &image, text(&place("one")), "/x/d/same"]);
    fails(&["get", &image, "/x/d/same", "/y/d/same", text(&out)], 1, words);
    assert_eq!(fs::read(out.join("same")).unwrap(), b"1");

    // Two names of one file are one file; nothing lies below a file.
    succeeds(&["ln", &image, "/x/d/same", "/x/d/hard"]);
    fails(&["mv", &image, "/x/d/same", "/x/d/hard"], 1, "both are the same file");
    assert_eq!(succeeds(&["ls", &image, "/x/d"]), "hard\none\nsame\n");
    succeeds(&["rm", "-f", &image, "/x/d/same/below", "/x/nothing"]);
    fails(&["rm", &image, "/x/d/same/below"], 1, "not a directory");
}

#[test]
fn standard_input_and_options_of_put() {
    let (_folder, image) = new_image();
    let mut put = Command::new(program());
    put.args([
        "put",
        "--mode",
        "640",
        "--owner",
        "5:6",
        "--mtime",
        "2001-02-03T04:05:06Z",
        &image,
        "-",
        "/new",
    ]);
    let mut child = put.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&vec![b'x'; 3_000_000]).unwrap();
    assert!(child.wait().unwrap().success());
    let line = succeeds(&["ls", "-l", "--full-time", &image, "/new"]);
    assert!(line.starts_with("-rw-r----- 1 5 6 3000000 "), "{line}");
    assert!(line.contains("2001-02-03 04:05:06.000000000"), "{line}");
    assert!(succeeds(&["cat", &image, "/new"]).len() == 3_000_000);
}

/// In an image with merged /usr, say.
#[test]
fn a_directory_is_put_where_a_link_leads_to_one() {
    let (folder, image) = new_image();
    let tree = folder.path().join("tree");
    for file in ["bin/hello", "bin/deep/x", "up/y"] {
        fs::create_dir_all(tree.join(file).parent().unwrap()).unwrap();
        fs::write(tree.join(file), file).unwrap();
    }
    let links = "ln -s /usr/bin bin; ln -s ../../usr up; ln -s nowhere dangling; ln -s usr/bin/sh file";
    succeeds(&["shell", &image, "-c", &format!("mkdir -p usr/bin; touch usr/bin/sh; {links}")]);
    for option in ["-r", "-a"] {
        succeeds(&["put", option, &image, &format!("{}/.", text(&tree)), "/"]);
        let found = |kind: &str| {
            let found = succeeds(&["find", &image, "/", "-type", kind]);
            let mut paths: Vec<String> = found.lines().map(str::to_owned).collect();
            paths.sort();
            paths
        };
        assert_eq!(found("f"), ["/usr/bin/deep/x", "/usr/bin/hello", "/usr/bin/sh", "/usr/y"]);
        assert_eq!(found("l"), ["/bin", "/dangling", "/file", "/up"]);
    }
    for link in ["/dangling", "/file"] {
        fails(&["put", "-r", "-T", &image, text(&tree), link], 1, "cannot replace a file by a directory");
    }
    uxfs_testkit::verdict::repair_is_silent(Path::new(&image)).unwrap();
}

/// As Linux has it: only a directory can have a slash behind its name.
#[test]
fn a_slash_behind_a_name_does_not_replace_a_file() {
    let (folder, image) = new_image();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("f"), "new").unwrap();
    fs::write(at("old"), "old").unwrap();
    fs::create_dir(at("folder")).unwrap();
    let script = format!("put {} /t; ln -s t /link; ln -s dir /way; mkdir /dir", at("old"));
    succeeds(&["shell", &image, "-c", &script]);
    for target in ["/t/", "/t//", "/t/.", "/link/", "/none/"] {
        for options in [&[][..], &["-n"], &["-T"], &["-a"]] {
            let file = at("f");
            let put = [&["put"], options, &[&image, &file, target]].concat();
            fails(&put, 1, "not a directory");
        }
    }
    assert_eq!(succeeds(&["cat", &image, "/t"]), "old");
    succeeds(&["put", &image, &at("f"), "/way/"]);
    assert_eq!(succeeds(&["ls", &image, "/", "/dir"]), "/:\ndir\nlink\nt\nway\n\n/dir:\nf\n");
    for target in ["old/", "old//", "old/.", "none/"] {
        for options in [&[][..], &["-n"], &["-r"]] {
            let target = at(target);
            let get = [&["get"], options, &[&image, "/dir/f", &target]].concat();
            fails(&get, 1, "not a directory");
        }
    }
    assert_eq!(fs::read_to_string(at("old")).unwrap(), "old");
    succeeds(&["get", &image, "/dir/f", &at("folder/")]);
    succeeds(&["get", "-r", &image, "/dir", &at("made/")]);
    for copy in ["folder/f", "made/f"] {
        assert_eq!(fs::read_to_string(at(copy)).unwrap(), "new");
    }
}

#[test]
fn owners_by_the_names_of_the_image() {
    let (folder, image) = new_image();
    let (passwd, group) = (folder.path().join("passwd"), folder.path().join("group"));
    fs::write(&passwd, "ann:x:1234:77:Ann:/:/bin/sh\n").unwrap();
    fs::write(&group, "crew:x:99:\n").unwrap();
    let script = format!(
        "mkdir etc; put {} {} etc; touch a b; chown ann: a; chown :crew b",
        text(&passwd),
        text(&group)
    );
    succeeds(&["shell", &image, "-c", &script]);
    let listed = succeeds(&["ls", "-l", &image]);
    assert!(listed.contains("-rw-r--r-- 1 ann   77 "), "{listed}");
    assert!(listed.contains("-rw-r--r-- 1   0 crew "), "{listed}");
    fails(&["chown", &image, "nobody-at-all", "/a"], 1, "no user `nobody-at-all`");
}

#[test]
fn failures_say_where_why_and_what_to_do() {
    let (_folder, image) = new_image();
    succeeds(&["mkdir", &image, "/a", "/a/b"]);
    fails(&["mkdir", &image, "/a"], 1, "/a: file exists");
    fails(&["rm", &image, "/a"], 1, "/a: is a directory (use -r to remove directories");
    fails(&["rmdir", &image, "/a"], 1, "/a: directory is not empty");
    fails(&["rm", &image, "/none", "/none2"], 1, "/none2: no such file");
    fails(&["mv", &image, "/a", "/a/b/c"], 1, "a directory cannot be moved below itself");
    fails(&["cp", "-r", &image, "/a", "/a/b"], 1, "a directory cannot be copied into itself");
    fails(&["rm", "-r", &image, "/"], 1, "cannot be removed");
    fails(&["chmod", &image, "9", "/a"], 2, "`9` is not a mode");
    fails(&["setfattr", "-n", "bad", &image, "/a"], 1, "/a: bad: no such kind of attribute");
    fails(&["put", &image, "/nonexistent", "/a"], 1, "/nonexistent: No such file");
    fails(&["touch", "-d", "soon", &image, "/x"], 2, "`soon` is not a time");
    // What comes behind an error in the list is done.
    fails(&["mkdir", &image, "/a", "/c"], 1, "/a: file exists");
    assert!(succeeds(&["ls", &image]).contains('c'));
    let told = succeeds(&["--json", "mkdir", "-p", &image, "/c/d/e"]);
    assert_eq!(
        told,
        "{\"action\":\"created directory\",\"path\":\"/c/d\"}\n{\"action\":\"created directory\",\"path\":\"/c/d/e\"}\n"
    );
}

#[test]
fn a_script_stops_at_the_first_error_unless_told_not_to() {
    let (_folder, image) = new_image();
    let output = uxfs(&["shell", &image, "-c", "mkdir a; rmdir b; mkdir c"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(succeeds(&["ls", &image]), "a\n");
    let output = uxfs(&["shell", "-k", &image, "-c", "cd a; rmdir b; mkdir 'c d'; pwd; exit; mkdir e"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b"/a\n"[..]));
    assert_eq!(succeeds(&["ls", &image, "/a"]), "c d\n");
    fails(&["shell", &image, "-c", "unknown"], 2, "unrecognized subcommand");
    assert!(succeeds(&["shell", &image, "-c", "help"]).contains("setfattr"));
    assert_eq!(
        succeeds(&["shell", &image, "-c", "cd /a/'c d'; cd ..; ls; freespace"]).lines().next(),
        Some("c d")
    );
}

#[test]
fn one_at_a_time() {
    require!(Judge::Kernel);
    let (folder, image) = new_image();
    let mut first = Command::new(program());
    first.args(["shell", &image]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = first.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"mkdir a\nsync\npwd\n").unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    fails(&["mkdir", &image, "/b"], 1, "another program is changing it");
    fails(&["admin", "--label", "x", &image], 1, "another program is changing it");
    fails(&["ls", &image], 1, "another program is changing it (use --no-lock to read it anyway)");
    // A reader that takes the risk sees what is durable.
    assert_eq!(succeeds(&["ls", "--no-lock", &image]), "a\n");
    drop(input);
    assert!(child.wait().unwrap().success());

    let mount = LoopMount::new(image.as_ref(), Access::ReadWrite).unwrap();
    fails(&["mkdir", &image, "/b"], 1, "it is mounted at");
    mount.unmount().unwrap();
    let device = LoopDevice::attach(image.as_ref(), &[]).unwrap();
    let refused = uxfs(&["mkdir", &image, "/b"]);
    drop(device);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(words.contains("attached to") && words.contains("losetup -d"), "{words}");
    let packed = folder.path().join("packed");
    fs::write(&packed, zstd::encode_all(&b"nothing"[..], 1).unwrap()).unwrap();
    fails(&["mkdir", text(&packed), "/b"], 1, "compressed with zstd cannot be changed");
}

/// What libselinux gives the path, without the zero byte that Linux stores.
fn label_by_policy(contexts: &Path, path: &str, mode: u32) -> Option<String> {
    let mode = (mode & 0o170_000).to_string();
    let mut lookup = Judge::SelabelLookup.command();
    let output = lookup.args(["-b", "file", "-f", text(contexts), "-k", path, "-t", &mode]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.strip_prefix("Default context: ").map(|label| label.trim_end().to_owned())
}

/// The labels of all files as the kernel has them, by their paths, with the modes.
fn labels_of(image: &str) -> Vec<(String, u32, Option<String>)> {
    let mount = LoopMount::new(image.as_ref(), Access::ReadOnly).unwrap();
    let found = Command::new("find").arg(mount.path()).args(["-printf", "/%P\\n"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let label = |path: &str| {
        let on_host = mount.join(path.trim_start_matches('/'));
        let mode = fs::symlink_metadata(&on_host).unwrap().mode();
        let mut value = [0; 256];
        let length = lgetxattr(&on_host, "security.selinux", &mut value[..]).ok();
        let label = length.map(|length| String::from_utf8(value[..length].to_vec()).unwrap());
        assert!(label.as_ref().is_none_or(|label| label.ends_with('\0')), "{path}");
        (path.to_owned(), mode, label.map(|label| label.trim_end_matches('\0').to_owned()))
    };
    found.lines().map(label).collect()
}

#[test]
fn new_files_have_the_labels_of_their_real_paths() {
    require!(Judge::XfsRepair, Judge::Kernel, Judge::SelabelLookup);
    let (folder, image) = new_image();
    let place = |name: &str| folder.path().join(name);
    fs::create_dir_all(place("tree/deep/er")).unwrap();
    for name in ["file", "tree/one", "tree/deep/two"] {
        fs::write(place(name), name).unwrap();
    }
    // With the zero byte that Linux puts behind a label.
    let own = place("tree/deep");
    lsetxattr(&own, "security.selinux", b"u:object_r:own_t:s0\0", XattrFlags::empty()).unwrap();
    let rules = "/.* u:object_r:default_t:s0\n/etc(/.*)? u:object_r:etc_t:s0\n/etc/link -l u:object_r:link_t:s0\n\
                 /usr/lib(/.*)? u:object_r:lib_t:s0\n/usr/lib(/.*)? -d u:object_r:folder_t:s0\n/run/.* <<none>>\n\
                 /dev/.* -c u:object_r:device_t:s0\n/dev/.* -b u:object_r:disk_t:s0\n/dev/.* -p u:object_r:pipe_t:s0\n\
                 /dev/.* -s u:object_r:socket_t:s0\n";
    fs::write(place("contexts"), rules).unwrap();
    fs::write(place("contexts.subs_dist"), "/srv/mirror /usr/lib\n").unwrap();
    let contexts = place("contexts");
    let labelled = |arguments: &[&str]| {
        let (command, arguments) = arguments.split_first().unwrap();
        let options = ["--file-contexts", text(&contexts), &image];
        let output = uxfs(&[&[*command], &options[..], arguments].concat());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}: {words}");
        words
    };
    let (file, tree) = (place("file"), place("tree"));
    let all = format!("{}/.", text(&tree));
    for arguments in [
        &["mkdir", "-p", "/etc", "/usr/lib", "/dev", "/run", "/srv/mirror"][..],
        &["ln", "-s", "usr/lib", "/lib"],
        &["mkdir", "/lib/made", "/lib/../../etc/up"],
        &["put", text(&file), "/lib/made"],
        &["put", "-r", text(&tree), "/lib"],
        &["put", "-a", &all, "/srv/mirror"],
        &["cp", "-r", "/lib/tree", "/etc"],
        &["cp", "-a", "/usr/lib/tree", "/etc/kept"],
        &["ln", "-s", "nowhere", "/etc/link"],
        &["ln", "-sf", "/lib/late", "/etc/link"],
        &["ln", "-s", "../../etc/later", "/lib/relative"],
        &["touch", "/etc/link", "/etc/touched", "/lib/relative"],
        &["truncate", "-s", "1M", "/lib/large"],
        &["mknod", "/dev/null", "c", "1", "3"],
        &["mknod", "/dev/disk", "b", "8", "0"],
        &["mknod", "/dev/log", "s"],
        &["mkfifo", "/dev/initctl"],
        &["shell", "-c", "cd /lib/tree; mkdir new; touch new/x; cd ..; mv tree moved; touch moved/y"],
    ] {
        assert_eq!(labelled(arguments), "", "{arguments:?}");
    }
    let told = labelled(&["touch", "/run/pid"]);
    assert!(told.contains("contexts: no new file has a label"), "{told}");
    let mut unlabelled = Vec::new();
    let labels = labels_of(&image);
    for (path, mode, label) in &labels {
        // The directory that was renamed keeps the labels of what it has.
        let policy = label_by_policy(&contexts, path, *mode);
        match label {
            None => unlabelled.push(path.as_str()),
            _ => assert_eq!(*label, policy, "{path} {mode:o}"),
        }
    }
    assert!(labels.len() > 35 && labels.iter().any(|(path, ..)| path == "/usr/lib/late"), "{labels:?}");
    // The root was there, and the policy has none for the other.
    assert_eq!(unlabelled, ["/", "/run/pid"]);
    verdict::repair_is_silent(image.as_ref()).unwrap();

    // Without the option: what the source has, and else a warning, once.
    let plain = |arguments: &[&str]| String::from_utf8(uxfs(arguments).stderr).unwrap();
    let warning = "warning: /etc has an SELinux label and /etc/plain gets none: --file-contexts FILE labels";
    let told = plain(&["put", &image, text(&file), "/etc/plain"]);
    assert!(told.contains(warning) && told.lines().count() == 1, "{told}");
    let told = plain(&["shell", &image, "-c", "cd /lib; mkdir b c; touch b/d; touch ../../etc/e; mkdir f"]);
    assert!(told.contains("/usr/lib has") && told.lines().count() == 1, "{told}");
    assert_eq!(plain(&["put", "--quiet", &image, text(&file), "/etc/quiet"]), "");
    let told = plain(&["put", "-a", &image, text(&place("tree/deep")), "/run"]);
    assert!(told.contains("/run/deep has") && told.lines().count() == 1, "{told}");
    assert_eq!(plain(&["mkdir", "--context", "u:object_r:x_t:s0", &image, "/etc/x"]), "");
    assert_eq!(plain(&["put", "--context", "u:object_r:y_t:s0", &image, text(&file), "/etc/plain"]), "");
    let labels = labels_of(&image);
    let label = |path: &str| labels.iter().find(|(found, ..)| found == path).unwrap().2.as_deref();
    for (path, expected) in [
        ("/run/deep", Some("u:object_r:own_t:s0")),
        ("/run/deep/two", None),
        ("/etc/quiet", None),
        ("/etc/x", Some("u:object_r:x_t:s0")),
        ("/etc/plain", Some("u:object_r:y_t:s0")),
    ] {
        assert_eq!(label(path), expected, "{path}");
    }
    fails(&["mkdir", "--context", "u:x", &image, "/y"], 2, "is no context");
}

//! Under fakeroot and pseudo owners, permissions and devices are those that the builder sees, without root: Debian's, Buildroot's
//! and Yocto's way to make images.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;
use uxfs_testkit::{judges::Judge, require, verdict::repair_is_silent};

use crate::common;
use crate::common::{program, text};

/// The builder's user, who may do nothing of this himself.
const NOBODY: u32 = 65_534;

/// A tree with owners and devices; what `stat` then says of it is the truth.
const BUILD: &str = "set -e
    mkdir tree tree/directory tree/directory/deeper
    echo one > tree/file; echo two > tree/other; echo three > tree/directory/below
    mknod tree/null c 1 3; mknod tree/disk b 8 17; mkfifo tree/fifo
    ln -s file tree/link; ln tree/file tree/directory/same
    chown 123:456 tree/file; chmod 4755 tree/file
    chown 9:10 tree/other; chmod 600 tree/other
    chown 7:8 tree/directory; chmod 2750 tree/directory
    chown 21:22 tree/directory/below tree/directory/deeper
    chown -h 5:6 tree/link; chown 11:12 tree/null";
const STAT: &str = "find . | LC_ALL=C sort | while read -r path
    do stat -c '%n %A %u:%g %t:%T %h' \"$path\"; done";

struct Place {
    folder: TempDir,
    wrapper: &'static str,
}

impl Place {
    fn new(wrapper: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let uxfs = folder.path().join("uxfs");
        fs::copy(program(), &uxfs).unwrap();
        for path in [folder.path(), &uxfs] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Self { folder, wrapper }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script as an unprivileged user that appears to be root.
    fn run(&self, script: &str) -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", self.wrapper, "sh", "-c", script]);
        command
            .env("HOME", self.path())
            .current_dir(self.path())
            .env("PSEUDO_LOCALSTATEDIR", self.path().join("db"));
        command.output().unwrap()
    }

    fn says(&self, script: &str) -> String {
        let output = self.run(script);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {script}: {words}", self.wrapper);
        String::from_utf8(output.stdout).unwrap()
    }
}

/// All that a test makes in one run, since owners are known as long as that.
fn images_are_what_the_builder_sees(wrapper: &'static str) {
    let place = Place::new(wrapper);
    let said = place.says(&format!(
        "{BUILD}
        (cd tree; {STAT}); echo =
        ./uxfs mkfs -q --size 300M --from tree image; ./uxfs extract image --to out 2>/dev/null
        (cd out; {STAT}); echo =
        ./uxfs mkfs -q --size 300M image2; ./uxfs put -a image2 tree/. /
        ./uxfs put -a image2 tree/null tree/other /directory/deeper
        ./uxfs get -r image2 / out2 2>/dev/null; rm out2/directory/deeper/null out2/directory/deeper/other
        (cd out2; {STAT}); echo =
        ./uxfs stat --json image2 /directory/deeper/null; ./uxfs stat --json image2 /directory/deeper/other"
    ));
    let parts: Vec<&str> = said.split("=\n").collect();
    let [tree, extracted, put, single] = parts.as_slice() else { panic!("{said}") };
    for line in [
        "./file -rwsr-xr-x 123:456 0:0 2\n",
        "./null crw-r--r-- 11:12 1:3 1\n",
        "./disk brw-r--r-- 0:0 8:11 1\n",
    ] {
        assert!(tree.contains(line), "{wrapper} itself says otherwise: {line}: {tree}");
    }
    // The number of links of a directory is the host's.
    let lines =
        |text: &str| text.lines().filter(|line| !line.contains(" d")).map(str::to_owned).collect::<Vec<_>>();
    let owners = |text: &str| {
        let short = |line: &str| line.rsplit_once(' ').unwrap().0.to_owned();
        text.lines().filter(|line| !line.starts_with(". ")).map(short).collect::<Vec<_>>()
    };
    for (what, found) in [("extract", extracted), ("put and get", put)] {
        assert_eq!(lines(found), lines(tree), "{wrapper}: {what}");
        assert_eq!(owners(found), owners(tree), "{wrapper}: {what}");
    }
    let single: Vec<serde_json::Value> =
        serde_json::Deserializer::from_str(single).into_iter().map(Result::unwrap).collect();
    let has = |index: usize, uid: u32, gid: u32| {
        assert_eq!((&single[index]["uid"], &single[index]["gid"]), (&uid.into(), &gid.into()), "{single:?}");
    };
    has(0, 11, 12);
    has(1, 9, 10);
    // And in the image itself, read without a wrapper.
    let listed = common::succeeds(&["ls", "-lR", text(&place.path().join("image"))]);
    let listed = listed.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in
        ["-rwsr-xr-x 2 123 456", "crw-r--r-- 1 11 12 1, 3", "brw-r--r-- 1 0 0 8, 17", "drwxr-s--- 3 7 8"]
    {
        assert!(listed.contains(words), "{wrapper}: {words}: {listed}");
    }
    repair_is_silent(&place.path().join("image")).unwrap();
    repair_is_silent(&place.path().join("image2")).unwrap();
}

#[test]
fn under_fakeroot() {
    require!(Judge::Fakeroot, Judge::XfsRepair);
    images_are_what_the_builder_sees("fakeroot");
}

#[test]
fn under_pseudo() {
    require!(Judge::Pseudo, Judge::XfsRepair);
    images_are_what_the_builder_sees("fakeroot-pseudo");
}

/// Layers of an image of a container keep the owners that the archive has, and a directory over them those that the builder sees.
fn layers_under(wrapper: &'static str) {
    let place = Place::new(wrapper);
    let layer = place.path().join("layer");
    fs::create_dir_all(layer.join("directory")).unwrap();
    fs::write(layer.join("directory/of-layer"), "layer").unwrap();
    common::host("mknod", &[text(&layer.join("zero")), "c", "1", "5"]);
    common::host("chown", &["-R", "31:32", text(&layer)]);
    let tar = Judge::GnuTar
        .command()
        .current_dir(place.path())
        .args(["-C", "layer", "-cf", "layer.tar", "."])
        .status();
    assert!(tar.unwrap().success());
    for arguments in [
        &["init", "--layout", "layout"][..],
        &["new", "--image", "layout:image"],
        &["raw", "add-layer", "--image", "layout:image", "layer.tar"],
    ] {
        assert!(
            Judge::Umoci
                .command()
                .args(arguments)
                .current_dir(place.path())
                .output()
                .unwrap()
                .status
                .success()
        );
    }
    common::host("chown", &["-R", "65534:65534", text(&place.path().join("layout"))]);
    place.says(
        "set -e; mkdir tree; echo two > tree/of-tree; chown 41:42 tree/of-tree; mknod tree/null c 1 3
        ./uxfs mkfs -q --size 300M --from oci:layout --from tree image",
    );
    let image = place.path().join("image");
    let listed = common::succeeds(&["find", text(&image), "/", "-printf", "%P %y %U:%G\n"]);
    for line in
        ["directory d 31:32", "directory/of-layer f 31:32", "zero c 31:32", "of-tree f 41:42", "null c 0:0"]
    {
        assert!(listed.lines().any(|found| found == line), "{wrapper}: {line}: {listed}");
    }
    repair_is_silent(&image).unwrap();
}

#[test]
fn layers_under_fakeroot_and_pseudo() {
    require!(Judge::Fakeroot, Judge::Pseudo, Judge::Umoci, Judge::GnuTar, Judge::XfsRepair);
    layers_under("fakeroot");
    layers_under("fakeroot-pseudo");
}

#[test]
fn attributes_go_through_fakeroot() {
    require!(Judge::Fakeroot, Judge::Setfattr);
    let place = Place::new("fakeroot");
    let capability = "0x0100000200200000000000000000000000000000";
    let said = place.says(&format!(
        "set -e; mkdir tree; echo > tree/file; setfattr -n security.capability -v {capability} tree/file
        ./uxfs mkfs -q --size 300M --from tree image; ./uxfs extract image --to out 2>/dev/null
        getfattr -e hex -n security.capability out/file; ./uxfs xattr -e hex image /file"
    ));
    assert_eq!(said.matches(capability).count(), 2, "{said}");
}

/// As a statically linked program would find it: the wrapper is meant, and has no effect.
#[test]
fn a_wrapper_that_is_not_heard_is_no_reason_to_lie() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, image) = (folder.path().join("tree"), folder.path().join("image"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), "contents").unwrap();
    common::succeeds(&["mkfs", "-q", "--size", "300M", text(&image)]);
    let (other, layout) = (folder.path().join("other"), folder.path().join("layout"));
    require!(Judge::Umoci);
    common::host("umoci", &["init", "--layout", text(&layout)]);
    common::host("umoci", &["new", "--image", &format!("{}:image", text(&layout))]);
    let (file, out) = (tree.join("file"), folder.path().join("out"));
    let commands: [&[&str]; 5] = [
        &["mkfs", "-q", "--size", "300M", "--from", text(&tree), text(&other)],
        &["put", "-a", text(&image), text(&tree), "/"],
        &["put", text(&image), text(&file), "/"],
        &["extract", text(&image), "--to", text(&out)],
        &["get", "-r", text(&image), "/", text(&out)],
    ];
    for (variable, value, name) in
        [("FAKEROOTKEY", "12345", "fakeroot"), ("LD_PRELOAD", "/no/such/libpseudo.so", "pseudo")]
    {
        for command in commands {
            let mut uxfs = Command::new(program());
            let output = uxfs.args(command).env(variable, value).output().unwrap();
            let words = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {words}");
            assert!(words.contains(&format!("{name} has no effect on this program")), "{command:?}: {words}");
            assert!(words.contains("uxfs mkfs --from - IMAGE"), "{words}");
        }
        assert!(!other.exists() && !out.exists());
        // What asks for no owners of the host goes on: archives and images of containers have them.
        let archive = folder.path().join("archive");
        common::host("tar", &["-C", text(&tree), "-cf", text(&archive), "."]);
        for source in [text(&archive).to_owned(), format!("oci:{}", text(&layout))] {
            let mut uxfs = Command::new(program());
            let output =
                uxfs.args(["mkfs", "-q", "--from", &source, text(&other)]).env(variable, value).output();
            assert!(output.unwrap().status.success(), "{source}");
            fs::remove_file(&other).unwrap();
        }
        let mut uxfs = Command::new(program());
        assert!(uxfs.args(["ls", text(&image)]).env(variable, value).output().unwrap().status.success());
    }
}

//! `uxfs mkfs --from` of images of containers, in the layouts and archives that umoci, buildah and skopeo make, against what umoci
//! unpacks and buildah mounts; and archives of `uxfs extract` as layers.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use tempfile::TempDir;
use uxfs_testkit::{
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
    seeds::{Random, Seed},
    sparse::Contents,
    verdict::{holds_the_same_but_for_reading, repair_is_silent},
};

use crate::common;
use crate::common::{host, layers::random_layer, program, succeeds, text};

fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("uxfs-containers-").tempdir_in(place).unwrap()
}

/// A place with a layout `layout` and an image `image` in it.
struct Images {
    folder: TempDir,
}

impl Images {
    fn new() -> Self {
        let images = Self::without_layout();
        images.umoci(&["init", "--layout", "layout"]);
        images.umoci(&["new", "--image", "layout:image"]);
        images
    }

    fn without_layout() -> Self {
        Self { folder: folder() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn runs(&self, judge: Judge, arguments: &[&str]) {
        let output = judge.command().args(arguments).current_dir(self.folder.path()).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {arguments:?}: {words}", judge.name());
    }

    fn umoci(&self, arguments: &[&str]) {
        self.runs(Judge::Umoci, arguments);
    }

    fn copy(&self, options: &[&str], from: &str, to: &str) {
        let all = [&["--insecure-policy", "copy", "-q"], options, &[from, to]].concat();
        self.runs(Judge::Skopeo, &all);
    }

    /// Adds a directory as a layer.
    fn add(&self, layer: &Path) {
        let archive = layer.with_extension("tar");
        let tar = Judge::GnuTar
            .command()
            .args(["--format=pax", "--xattrs", "--numeric-owner"])
            .args(["-C", text(layer), "-cf", text(&archive), "."])
            .status();
        assert!(tar.unwrap().success());
        self.umoci(&["raw", "add-layer", "--image", "layout:image", text(&archive)]);
    }

    /// The tree that umoci makes of the image.
    fn unpacked(&self, name: &str) -> PathBuf {
        self.umoci(&["unpack", "--image", "layout:image", name]);
        self.path(name).join("rootfs")
    }

    /// The image that uxfs makes of a source, here a name below the folder.
    fn made(&self, source: &str) -> PathBuf {
        let image = self.path("disk");
        let mut uxfs = Command::new(program());
        uxfs.args(["mkfs", "-q", "-f", "--size", "400M", "--reproducible", "--from", source]).arg(&image);
        let output = uxfs.current_dir(self.folder.path()).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{source}: {words}");
        image
    }
}

/// umoci leaves directories the time at which it removed something from them; they get that of the layer that names them last.
fn mend_times(images: &Images, layers: u64, tree: &Path) {
    let mut paths = vec![tree.to_path_buf()];
    while let Some(path) = paths.pop() {
        let entries = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(entries.filter(|path| path.is_dir() && !path.is_symlink()));
        let below = path.strip_prefix(tree).unwrap();
        let named = (0..layers).rev().map(|number| images.path(&format!("layer-{number}")).join(below));
        if let Some(last) = named.into_iter().find(|path| path.is_dir() && !path.is_symlink()) {
            let time = fs::metadata(last).unwrap().modified().unwrap();
            fs::File::open(&path).unwrap().set_modified(time).unwrap();
        }
    }
}

#[test]
fn random_layers_are_what_umoci_unpacks() {
    require!(Judge::Umoci, Judge::GnuTar, Judge::XfsRepair, Judge::Kernel);
    let seed = Seed::from_environment("random_layers_are_what_umoci_unpacks", 5);
    let mut random = seed.random();
    for round in 0..12 {
        let images = Images::new();
        let layers = 2 + random.below(4);
        for number in 0..layers {
            let layer = images.path(&format!("layer-{number}"));
            random_layer(&layer, &mut random);
            images.add(&layer);
        }
        let tree = images.unpacked("bundle");
        mend_times(&images, layers, &tree);
        let paths = holds_the_same_but_for_reading(&images.made("oci:layout:image"), &tree);
        let paths = paths.unwrap_or_else(|error| panic!("round {round}: {error:#}"));
        judged("umoci, kernel and xfs_repair", &format!("layers, round {round}: {paths} paths"));
    }
}

/// Members, hard links and whiteouts below symbolic links to directories, which lead about within the root.
#[test]
fn links_above_members_lead_where_umoci_follows_them() {
    require!(Judge::Umoci, Judge::GnuTar, Judge::XfsRepair, Judge::Kernel);
    let images = Images::new();
    let (lower, upper) = (images.path("layer-0"), images.path("upper"));
    for (root, files) in [
        (&lower, &["usr/bin/sh", "usr/bin/old", "usr/lib/gone", "usr/share/x", "opt/x"][..]),
        (&upper, &["bin/new", "bin/.wh.old", "lib/.wh..wh..opq", "lib/y", "up/share/readme", "opt/b/z"]),
    ] {
        for file in files {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), file).unwrap();
        }
    }
    let links = [("bin", "/usr/bin"), ("lib", "usr/lib"), ("up", "../../../usr"), ("opt/b", "./../bin")];
    for (link, target) in links {
        symlink(target, lower.join(link)).unwrap();
    }
    fs::hard_link(upper.join("bin/new"), upper.join("bin/new2")).unwrap();
    images.add(&lower);
    // The directories themselves are not among the members.
    let archive = images.path("upper.tar");
    let members =
        ["bin/new", "bin/new2", "bin/.wh.old", "lib/.wh..wh..opq", "lib/y", "up/share/readme", "opt/b/z"];
    let mut tar = Judge::GnuTar.command();
    tar.args(["--no-recursion", "-cf", text(&archive), "-C", text(&upper)]).args(members);
    assert!(tar.status().unwrap().success());
    images.umoci(&["raw", "add-layer", "--image", "layout:image", text(&archive)]);
    let tree = images.unpacked("bundle");
    assert!(tree.join("usr/bin/new2").is_file() && !tree.join("usr/bin/old").exists());
    mend_times(&images, 1, &tree);
    let made = images.made("oci:layout:image");
    let paths = holds_the_same_but_for_reading(&made, &tree).unwrap();
    judged("umoci, kernel and xfs_repair", &format!("links above members: {paths} paths"));
    // Read once, in the archive's own order.
    let piped = images.path("piped");
    let mut uxfs = Command::new(program());
    uxfs.args(["mkfs", "-q", "--size", "400M", "--from", text(&images.path("layer-0.tar")), "--from", "-"]);
    uxfs.arg(&piped).stdin(fs::File::open(&archive).unwrap());
    assert!(uxfs.status().unwrap().success());
    mend_times(&images, 1, &tree);
    holds_the_same_but_for_reading(&piped, &tree).unwrap();
    // A link in a circle.
    symlink("turn", upper.join("turn")).unwrap();
    fs::create_dir(images.path("circle")).unwrap();
    let circle = images.path("circle.tar");
    for (options, members) in [(["-cf", "-C"], "turn"), (["-rf", "-C"], "turn/x")] {
        if members == "turn/x" {
            fs::remove_file(upper.join("turn")).unwrap();
            fs::create_dir(upper.join("turn")).unwrap();
            fs::write(upper.join("turn/x"), "x").unwrap();
        }
        let mut tar = Judge::GnuTar.command();
        assert!(
            tar.args([options[0], text(&circle), options[1], text(&upper), members])
                .status()
                .unwrap()
                .success()
        );
    }
    for source in [text(&circle), "-"] {
        let mut uxfs = Command::new(program());
        uxfs.args(["mkfs", "-q", "-f", "--json", "--size", "400M", "--from", source]).arg(&piped);
        let output = uxfs.stdin(fs::File::open(&circle).unwrap()).output().unwrap();
        let words = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && words.contains("ELOOP"), "{source}: {words}");
    }
}

/// Changes some of a tree: what umoci then writes into a layer is its own choice.
fn change(root: &Path, random: &mut Random) {
    for number in 0..25 {
        let names: Vec<&str> =
            (0..=random.below(3)).map(|_| ["a", "b", "c", "d"][random.below(4) as usize]).collect();
        let path = root.join(names.join("/"));
        if path.parent().unwrap().symlink_metadata().is_ok_and(|found| !found.is_dir())
            || fs::create_dir_all(path.parent().unwrap()).is_err()
        {
            continue;
        }
        let is_directory = path.is_dir() && !path.is_symlink();
        match random.below(6) {
            0 if is_directory => fs::remove_dir_all(&path).unwrap(),
            0 => drop(fs::remove_file(&path)),
            1 if path.symlink_metadata().is_err() => symlink(format!("to-{number}"), &path).unwrap(),
            2 if path.symlink_metadata().is_err() => fs::create_dir(&path).unwrap(),
            3 if path.symlink_metadata().is_ok() => {
                host("chown", &["-h", &format!("{}:{}", random.below(70_000), number), text(&path)]);
            }
            _ if !is_directory && !path.is_symlink() => {
                fs::write(&path, vec![number as u8; random.below(30_000) as usize]).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn layers_that_umoci_packs() {
    require!(Judge::Umoci, Judge::XfsRepair, Judge::Kernel);
    let seed = Seed::from_environment("layers_that_umoci_packs", 3);
    let mut random = seed.random();
    for round in 0..4 {
        let images = Images::new();
        let tree = images.unpacked("work");
        for _ in 0..4 {
            change(&tree, &mut random);
            images.umoci(&["repack", "--refresh-bundle", "--image", "layout:image", "work"]);
        }
        let again = images.unpacked("bundle");
        let paths = holds_the_same_but_for_reading(&images.made("oci:layout"), &again);
        let paths = paths.unwrap_or_else(|error| panic!("round {round}: {error:#}"));
        judged("umoci, kernel and xfs_repair", &format!("repacked, round {round}: {paths} paths"));
    }
}

#[test]
fn every_form_makes_the_same_image() {
    require!(Judge::Umoci, Judge::Skopeo, Judge::GnuTar, Judge::XfsRepair);
    let images = Images::new();
    let mut random = Seed::from_environment("every_form_makes_the_same_image", 9).random();
    for number in 0..3 {
        let layer = images.path(&format!("layer-{number}"));
        random_layer(&layer, &mut random);
        images.add(&layer);
    }
    images.copy(&[], "oci:layout:image", "docker-archive:docker.tar:some/name:1");
    images.copy(&[], "oci:layout:image", "oci-archive:layout.tar:image");
    images.copy(&["--dest-compress", "--dest-compress-format", "zstd"], "oci:layout:image", "oci:zstd:image");
    images.copy(&["--format", "v2s2"], "oci:layout:image", "dir:docker");
    host("gzip", &["-k", text(&images.path("docker.tar"))]);
    let expected = Contents::read(images.made("oci:layout")).unwrap();
    repair_is_silent(&images.path("disk")).unwrap();
    for source in [
        "oci:layout:image",
        "docker-archive:docker.tar",
        "docker-archive:docker.tar:some/name:1",
        "docker-archive:docker.tar:docker.io/some/name:1",
        "docker-archive:docker.tar.gz",
        "oci-archive:layout.tar",
        "oci-archive:layout.tar:image",
        "oci:zstd",
    ] {
        assert!(expected == Contents::read(images.made(source)).unwrap(), "{source} makes another image");
    }
    // As a pipe gives it, and fitted: what cannot be read twice is copied first.
    let (fitted, piped) = (images.path("fitted"), images.path("piped"));
    let mkfs = ["mkfs", "-q", "--reproducible", "--from"];
    succeeds(
        &[&mkfs[..], &[&format!("docker-archive:{}", text(&images.path("docker.tar"))), text(&fitted)]]
            .concat(),
    );
    let mut uxfs = Command::new(program());
    uxfs.args(mkfs).arg("docker-archive:-").arg(&piped).env("SOURCE_DATE_EPOCH", "2000000000");
    let archive = fs::File::open(images.path("docker.tar")).unwrap();
    assert!(uxfs.stdin(Stdio::from(archive)).status().unwrap().success());
    assert_eq!(fitted.metadata().unwrap().len(), piped.metadata().unwrap().len());
    judged("umoci and skopeo", "one image in eight forms");
}

#[test]
fn what_is_wrong_is_said() {
    require!(Judge::Umoci);
    let images = Images::new();
    let layout = images.path("layout");
    let (layout, disk) = (text(&layout), images.path("disk"));
    let oci = format!("oci:{layout}");
    for (arguments, code, words) in [
        (&["--from", layout][..], 1, "--from oci:"),
        (&["--from", &format!("{oci}:other")], 1, "has no image other; it has image"),
        (&["--from", &oci, "--platform", "linux/z80"], 1, "has no image for linux/z80"),
        (&["--from", &oci, "--platform", "z80"], 2, "is not a platform"),
        (&["--from", "/etc", "--platform", "linux/amd64"], 2, "no source is one"),
        (&["--from", "oci:/nothing/here"], 1, "cannot open"),
        (&["--from", "docker-archive:/etc/passwd"], 1, "no tar archive"),
    ] {
        let output = common::uxfs(&[&["mkfs", "-q"], arguments, &[text(&disk)]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(!disk.exists(), "{arguments:?}");
    }
    // The files of the layout, where they are asked for.
    succeeds(&["mkfs", "-q", "--from", &format!("{layout}/."), text(&disk)]);
    assert!(succeeds(&["ls", text(&disk)]).contains("oci-layout"));
    // The configuration is verified as well: another byte, and one more.
    let document = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(format!("{layout}/{path}")).unwrap()).unwrap()
    };
    let blob = |descriptor: &serde_json::Value| {
        format!("blobs/{}", descriptor["digest"].as_str().unwrap().replace(':', "/"))
    };
    let manifest = blob(&document("index.json")["manifests"][0]);
    let configuration = format!("{layout}/{}", blob(&document(&manifest)["config"]));
    let sound = fs::read(&configuration).unwrap();
    let changed = String::from_utf8(sound.clone()).unwrap().replace("linux", "Linux").into_bytes();
    assert_ne!(sound, changed);
    fs::remove_file(&disk).unwrap();
    for (bytes, words) in [(changed, "sha256:"), ([&sound[..], b" "].concat(), "bytes")] {
        fs::write(&configuration, bytes).unwrap();
        let output = common::uxfs(&["mkfs", "-q", "--from", &oci, text(&disk)]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words) && said.contains("blobs/sha256/"), "{said}");
        assert!(!disk.exists());
    }
    fs::write(&configuration, sound).unwrap();
    succeeds(&["mkfs", "-q", "--from", &oci, text(&disk)]);
    // Nothing is written over a blob.
    let blob = fs::read_dir(format!("{layout}/blobs/sha256")).unwrap().next().unwrap().unwrap().path();
    let output = common::uxfs(&["mkfs", "-q", "-f", "--from", &oci, text(&blob)]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// What `uxfs extract --tar` writes is a layer that others read, and uxfs itself.
#[test]
fn an_extracted_archive_is_a_layer() {
    require!(Judge::Umoci, Judge::Skopeo, Judge::XfsRepair, Judge::Kernel, Judge::Setfacl);
    let images = Images::new();
    let (tree, disk) = (images.path("tree"), images.path("first"));
    fs::create_dir(&tree).unwrap();
    common::tree(&tree);
    host("mknod", &[text(&tree.join("device")), "c", "1", "3"]);
    host("mkfifo", &[text(&tree.join("fifo"))]);
    host("chown", &["-h", "3000000:4000000000", text(&tree.join("link"))]);
    let long = tree.join("d".repeat(200)).join("e".repeat(200));
    fs::create_dir_all(&long).unwrap();
    symlink("t".repeat(300), long.join("s".repeat(101))).unwrap();
    fs::write(tree.join("ä ö"), "not ASCII").unwrap();
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(tree.join(path), name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    set("large", "user.some", b"value\0\xff\n");
    set("folder", "user.other", b"x");
    set(
        "folder/file-7",
        "security.capability",
        &[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    succeeds(&["mkfs", "-q", "--size", "400M", "--from", text(&tree), text(&disk)]);
    succeeds(&["extract", text(&disk), "--tar", text(&images.path("layer.tar"))]);
    images.umoci(&["raw", "add-layer", "--image", "layout:image", "layer.tar"]);
    images.copy(&[], "oci:layout:image", "docker-archive:docker.tar:name:1");
    let unpacked = images.unpacked("bundle");
    let paths = holds_the_same_but_for_reading(&disk, &unpacked).unwrap();
    for source in ["oci:layout", "docker-archive:docker.tar"] {
        holds_the_same_but_for_reading(&images.made(source), &tree).unwrap();
    }
    judged("umoci, skopeo and the kernel", &format!("an extracted archive as a layer: {paths} paths"));
}

/// A store of buildah in the folder of the images.
struct Builder<'a> {
    images: &'a Images,
}

impl Builder<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let [store, state, temporary] = ["store", "state", "temporary"].map(|name| self.images.path(name));
        fs::create_dir_all(&temporary).unwrap();
        let mut buildah = Judge::Buildah.command();
        buildah.args(["--storage-driver", "vfs", "--root", text(&store), "--runroot", text(&state)]);
        buildah.args(arguments).current_dir(self.images.folder.path()).env("TMPDIR", temporary);
        buildah
    }

    /// Runs buildah and gives what it prints.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "buildah {arguments:?}: {words}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// A container of an image, and the directory that it is mounted on.
    fn begins(&self, image: &str) -> (String, PathBuf) {
        let container = self.says(&["from", "--quiet", image]);
        let mounted = self.says(&["mount", &container]);
        (container, PathBuf::from(mounted))
    }

    /// Makes the present state of a container an image.
    fn commits(&self, container: &str, image: &str) {
        self.says(&["commit", "--quiet", container, image]);
    }

    /// The kernel, xfs_repair and uxfs find in the file system of an image what buildah mounts of it. Gives the number of paths.
    fn judges(&self, image: &str) -> usize {
        let (container, tree) = self.begins(image);
        let disk = self.images.made(image);
        mend_root(&disk, &tree);
        let paths = holds_the_same_but_for_reading(&disk, &tree);
        self.says(&["rm", &container]);
        paths.unwrap_or_else(|error| panic!("{image}: {error:#}"))
    }
}

/// No layer of buildah names the root: the root of a tree gets the mode and the time of that in the image.
fn mend_root(disk: &Path, tree: &Path) {
    let mount = LoopMount::new(disk, Access::ReadOnly).unwrap();
    let root = fs::metadata(mount.path()).unwrap();
    mount.unmount().unwrap();
    assert_eq!(root.permissions().mode() & 0o7777, 0o755);
    fs::set_permissions(tree, root.permissions()).unwrap();
    fs::File::open(tree).unwrap().set_modified(root.modified().unwrap()).unwrap();
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // Without the containers nothing of them is mounted. A test that has failed already keeps its own words.
        if thread::panicking() {
            let _ = self.command(&["rm", "--all"]).output();
            return;
        }
        self.says(&["rm", "--all"]);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(text(self.images.folder.path())), "{mounts}");
    }
}

#[test]
fn images_that_buildah_builds() {
    require!(Judge::Buildah, Judge::Skopeo, Judge::XfsRepair, Judge::Kernel);
    let images = Images::without_layout();
    let builder = Builder { images: &images };
    let source = images.path("source");
    common::tree(&source);
    host("chown", &["-h", "3000000:4000000000", text(&source.join("link"))]);
    host("mkfifo", &[text(&source.join("fifo"))]);
    fs::write(source.join("folder/ä ö"), "not ASCII").unwrap();
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(source.join(path), name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    set("large", "user.some", b"value\0\xff\n");
    set(
        "folder/file-7",
        "security.capability",
        &[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    let first = builder.says(&["from", "--quiet", "scratch"]);
    builder.says(&["copy", "--quiet", &first, text(&source), "/"]);
    builder.says(&[
        "copy",
        "--quiet",
        "--chown",
        "12:34",
        "--chmod",
        "4711",
        &first,
        text(&source.join("large")),
        "/new/place/",
    ]);
    builder.says(&[
        "config",
        "--author",
        "a test",
        "--label",
        "key=value",
        "--entrypoint",
        "[\"/bin/sh\"]",
        &first,
    ]);
    builder.commits(&first, "oci:layout:first");
    // A file, one of two names, a directory and a link go; others change their kind, their mode or an attribute.
    let (second, tree) = builder.begins("oci:layout:first");
    for name in ["folder/file-1", "folder/deeper/same", "link", "sparse"] {
        fs::remove_file(tree.join(name)).unwrap();
    }
    fs::remove_dir_all(tree.join("new")).unwrap();
    fs::write(tree.join("new"), "a file now").unwrap();
    fs::create_dir_all(tree.join("link/to/nothing")).unwrap();
    fs::remove_file(tree.join("folder/file-2")).unwrap();
    symlink("file-3", tree.join("folder/file-2")).unwrap();
    fs::set_permissions(tree.join("folder/file-4"), fs::Permissions::from_mode(0o4755)).unwrap();
    host("setfattr", &["-n", "user.later", "-v", "x", text(&tree.join("folder/file-5"))]);
    fs::hard_link(tree.join("folder/file-6"), tree.join("folder/file-6-too")).unwrap();
    builder.commits(&second, "oci:layout:second");
    // What was removed comes again, and a directory is emptied.
    let (third, tree) = builder.begins("oci:layout:second");
    fs::write(tree.join("sparse"), "again").unwrap();
    fs::remove_dir_all(tree.join("folder")).unwrap();
    fs::create_dir(tree.join("folder")).unwrap();
    fs::write(tree.join("folder/file-1"), "again").unwrap();
    builder.commits(&third, "oci:layout:third");
    for tag in ["first", "second", "third"] {
        let paths = builder.judges(&format!("oci:layout:{tag}"));
        judged("buildah, kernel and xfs_repair", &format!("{tag}: {paths} paths"));
    }
    // As archives, which skopeo and buildah itself write.
    let expected = Contents::read(images.made("oci:layout:third")).unwrap();
    images.copy(&[], "oci:layout:third", "docker-archive:docker.tar:some/name:1");
    builder.commits(&third, "docker-archive:own.tar:some/name:2");
    builder.commits(&third, "oci-archive:own-layout.tar:third");
    let sources = [
        "docker-archive:docker.tar",
        "docker-archive:own.tar:some/name:2",
        "oci-archive:own-layout.tar:third",
    ];
    for source in sources {
        assert!(expected == Contents::read(images.made(source)).unwrap(), "{source} makes another image");
    }
    judged("buildah and skopeo", "one image in four forms");
}

#[test]
fn random_layers_that_buildah_commits() {
    require!(Judge::Buildah, Judge::XfsRepair, Judge::Kernel);
    let mut random = Seed::from_environment("random_layers_that_buildah_commits", 4).random();
    for round in 0..3 {
        let images = Images::without_layout();
        let builder = Builder { images: &images };
        let mut image = "scratch".to_owned();
        for number in 0..4 {
            let (container, tree) = builder.begins(&image);
            change(&tree, &mut random);
            image = format!("oci:layout:{number}");
            builder.commits(&container, &image);
        }
        let paths = builder.judges(&image);
        judged("buildah, kernel and xfs_repair", &format!("layers, round {round}: {paths} paths"));
    }
}

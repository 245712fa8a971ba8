//! `uxfs mkfs --from` of images of containers, in the layouts and archives that umoci and skopeo make, against what umoci unpacks;
//! and archives of `uxfs extract` as layers.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{host, layers::random_layer, succeeds, text};
use tempfile::TempDir;
use uxfs_testkit::{
    judges::{Judge, judged},
    require,
    seeds::{Random, Seed},
    verdict::{holds_the_same_but_for_reading, repair_is_silent},
};

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
        let images = Self { folder: folder() };
        images.umoci(&["init", "--layout", "layout"]);
        images.umoci(&["new", "--image", "layout:image"]);
        images
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
        let mut uxfs = Command::new(env!("CARGO_BIN_EXE_uxfs"));
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
    let expected = fs::read(images.made("oci:layout")).unwrap();
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
        assert!(expected == fs::read(images.made(source)).unwrap(), "{source} makes another image");
    }
    // As a pipe gives it, and fitted: what cannot be read twice is copied first.
    let (fitted, piped) = (images.path("fitted"), images.path("piped"));
    let mkfs = ["mkfs", "-q", "--reproducible", "--from"];
    succeeds(
        &[&mkfs[..], &[&format!("docker-archive:{}", text(&images.path("docker.tar"))), text(&fitted)]]
            .concat(),
    );
    let mut uxfs = Command::new(env!("CARGO_BIN_EXE_uxfs"));
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

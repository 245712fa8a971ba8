//! `uxfs mkfs --from`, several times: directories, archives and pipes over each other, against layers unpacked one after the
//! other on the host.

use std::{
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;
use uxfs_testkit::{
    judges::{self, Judge},
    seeds::Seed,
    sparse::Contents,
    verdict::{holds_the_same_but_for_reading, kernel_removes_everything},
};

use crate::common;
use crate::common::{host, layers::random_layer, program, succeeds, text};

const JUDGES: [Judge; 5] = [Judge::GnuTar, Judge::XfsRepair, Judge::XfsIo, Judge::Kernel, Judge::Setfacl];

fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("uxfs-layers-").tempdir_in(place).unwrap()
}

fn paths_below(root: &Path) -> Vec<PathBuf> {
    let mut all = vec![root.to_path_buf()];
    let mut next = 0;
    while next < all.len() {
        if all[next].symlink_metadata().unwrap().is_dir() {
            all.extend(fs::read_dir(&all[next]).unwrap().map(|entry| entry.unwrap().path()));
        }
        next += 1;
    }
    all.remove(0);
    all
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// A directory that a layer names again has that layer's attributes alone.
fn forget_attributes(directory: &Path) {
    let mut names = vec![0; 4096];
    let length = rustix::fs::listxattr(directory, &mut names[..]).unwrap();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        rustix::fs::removexattr(directory, name).unwrap();
    }
}

/// Unpacks a layer over what the lower ones left.
fn unpack(layer: &Path, onto: &Path) {
    let paths = paths_below(layer);
    let place = |path: &Path| onto.join(path.strip_prefix(layer).unwrap());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    for path in &paths {
        match name(path).strip_prefix(".wh.") {
            Some(".wh..opq") => {
                let directory = place(path.parent().unwrap());
                for entry in fs::read_dir(directory).into_iter().flatten() {
                    remove(&entry.unwrap().path());
                }
            }
            Some(gone) => remove(&place(path).with_file_name(gone)),
            None => {}
        }
    }
    for path in &paths {
        let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if is_directory(path) && is_directory(&place(path)) {
            forget_attributes(&place(path));
        } else {
            remove(&place(path));
        }
    }
    forget_attributes(onto);
    host("cp", &["-a", &format!("{}/.", text(layer)), text(onto)]);
    for path in paths.iter().filter(|path| name(path).starts_with(".wh.")) {
        let directory = place(path).parent().unwrap().to_path_buf();
        remove(&place(path));
        host("touch", &["-r", text(path.parent().unwrap()), text(&directory)]);
    }
}

fn archive(layer: &Path, options: &[&str], name: &str) -> PathBuf {
    let archive = layer.with_extension(name);
    let tar = Judge::GnuTar
        .command()
        .args(["--format=pax", "--xattrs", "--acls", "--numeric-owner"])
        .args(options)
        .args(["-C", text(layer), "-cf", text(&archive), "."])
        .status();
    assert!(tar.unwrap().success());
    archive
}

fn make(image: &Path, layers: &[PathBuf]) {
    let mut arguments =
        vec!["mkfs", "-q", "-f", "--size", "400M", "-m", "uuid=5a0d9f0e-0b6c-4a36-8d2f-0f8f4a8a1a11"];
    for layer in layers {
        arguments.extend(["--from", text(layer)]);
    }
    arguments.push(text(image));
    succeeds(&arguments);
}

#[test]
fn directories_archives_and_both_are_the_same_layers() {
    if !judges::all_present(&JUDGES, "directories_archives_and_both_are_the_same_layers") {
        return;
    }
    let seed = Seed::from_environment("directories_archives_and_both_are_the_same_layers", 11);
    let mut random = seed.random();
    for round in 0..8 {
        let folder = folder();
        let expected = folder.path().join("expected");
        fs::create_dir(&expected).unwrap();
        let mut forms: Vec<[PathBuf; 3]> = Vec::new();
        for number in 0..2 + random.below(3) {
            let layer = folder.path().join(format!("layer-{number}"));
            random_layer(&layer, &mut random);
            unpack(&layer, &expected);
            let (plain, packed) = (archive(&layer, &[], "tar"), archive(&layer, &["-z"], "tar.gz"));
            forms.push([layer, plain, packed]);
        }
        let mut images = Vec::new();
        for form in 0..6_usize {
            let layers: Vec<PathBuf> = forms
                .iter()
                .map(|forms| forms[if form < 3 { form } else { random.below(3) as usize }].clone())
                .collect();
            let image = folder.path().join("image");
            make(&image, &layers);
            images.push(Contents::read(&image).unwrap());
            if form == 0 {
                let paths = holds_the_same_but_for_reading(&image, &expected);
                let paths = paths.unwrap_or_else(|error| panic!("{error:#}: {:#?}", Shapes(&forms)));
                judges::judged("kernel and xfs_repair", &format!("layers, round {round}: {paths} paths"));
            }
            assert!(images[0] == images[form], "round {round}: {layers:?} make another image");
        }
        piped(&folder.path().join("piped"), &forms, &expected);
    }
}

/// The contents of the layers, for messages of a failed test.
struct Shapes<'a>(&'a [[PathBuf; 3]]);

impl std::fmt::Debug for Shapes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layers = self.0.iter().map(|[layer, ..]| (layer, paths_below(layer)));
        f.debug_list()
            .entries(layers.map(|(layer, paths)| {
                let word = |path: &PathBuf| {
                    let name = path.strip_prefix(layer).unwrap().display().to_string();
                    if path.is_dir() { name + "/" } else { name }
                };
                paths.iter().map(word).collect::<Vec<_>>().join(" ")
            }))
            .finish()
    }
}

/// One of the layers comes from a pipe: nothing can be read twice then.
fn piped(image: &Path, forms: &[[PathBuf; 3]], expected: &Path) {
    let mut command = Command::new(program());
    command.args(["mkfs", "-q", "-f", "--size", "400M"]);
    for (number, [layer, plain, packed]) in forms.iter().enumerate() {
        match number {
            1 => {
                command.args(["--from", "-"]).stdin(Stdio::from(fs::File::open(packed).unwrap()));
            }
            0 => drop(command.arg("--from").arg(layer)),
            _ => drop(command.arg("--from").arg(if number == 2 { layer } else { plain })),
        }
    }
    assert!(command.arg(image).status().unwrap().success());
    let same = holds_the_same_but_for_reading(image, expected);
    same.unwrap_or_else(|error| panic!("with a pipe: {error:#}: {:#?}", Shapes(forms)));
}

/// What archives cannot show as well: attributes, ACLs, holes, times, devices, odd names, one tree twice.
#[test]
fn everything_that_a_directory_holds() {
    if !judges::all_present(&JUDGES, "everything_that_a_directory_holds") {
        return;
    }
    let folder = folder();
    let (lower, upper) = (folder.path().join("lower"), folder.path().join("upper"));
    common::tree(&lower);
    for (path, options) in [("large", "u:77:rw"), ("folder", "d:g:88:rx"), ("folder/file-3", "g:9:r")] {
        let set = Judge::Setfacl.command().args(["-m", options]).arg(lower.join(path)).status();
        assert!(set.unwrap().success());
    }
    if rustix::process::geteuid().is_root() {
        host("mknod", &[text(&lower.join("device")), "c", "1", "3"]);
        host("chown", &["-h", "123:456", text(&lower.join("link"))]);
    }
    host("mkfifo", &[text(&lower.join("fifo"))]);
    fs::write(lower.join(OsString::from_vec(b"not \xff utf-8 \n".to_vec())), "odd").unwrap();
    rustix::fs::setxattr(lower.join("large"), "user.some", b"value", rustix::fs::XattrFlags::empty())
        .unwrap();
    host("cp", &["-a", text(&lower), text(&upper)]);
    fs::write(upper.join("large"), "another, in place of a file with two names").unwrap();
    let expected = folder.path().join("expected");
    fs::create_dir(&expected).unwrap();
    unpack(&lower, &expected);
    unpack(&upper, &expected);
    let image = folder.path().join("image");
    make(&image, &[lower.clone(), upper.clone()]);
    let paths = holds_the_same_but_for_reading(&image, &expected).unwrap();
    // Three times the same: nothing but its names.
    make(&image, &[upper.clone(), upper.clone(), upper.clone()]);
    holds_the_same_but_for_reading(&image, &upper).unwrap();
    kernel_removes_everything(&image, 3).unwrap();
    judges::judged("kernel and xfs_repair", &format!("a directory over a directory: {paths} paths"));
}

#[test]
fn an_image_that_lies_in_its_own_source() {
    if !judges::all_present(&[Judge::XfsRepair], "an_image_that_lies_in_its_own_source") {
        return;
    }
    for size in [&["--size", "fit"][..], &[], &["--size", "400M"]] {
        for layers in 1..3 {
            for threads in ["1", "4"] {
                let folder = folder();
                let source = folder.path().join("source");
                fs::create_dir_all(source.join("inner")).unwrap();
                for number in 0..300 {
                    fs::write(source.join(format!("inner/file-{number}")), vec![1; number * 10]).unwrap();
                }
                for image in [source.join("inner/image"), source.join("image")] {
                    let mut arguments = vec!["mkfs", "-q", "--threads", threads];
                    arguments.extend(size);
                    arguments.extend(["--from", text(&source)].repeat(layers));
                    arguments.push(text(&image));
                    succeeds(&arguments);
                    let listing = succeeds(&["ls", "-R", text(&image)]);
                    assert!(!listing.contains(".tmp"), "{listing}");
                    let names = listing.lines().filter(|line| line.contains("image")).count();
                    // The one that was made before is a file like others.
                    assert_eq!(names, usize::from(image == source.join("image")), "{arguments:?}: {listing}");
                    uxfs_testkit::verdict::repair_is_silent(&image).unwrap();
                }
                let blocks = source.join("image").metadata().unwrap().blocks();
                assert!(blocks * 512 < 300 << 20);
            }
        }
    }
    judges::judged("xfs_repair", "images in their own sources");
}

//! Images in other forms, as the tools for them make them: compressed, or disks of QEMU. Reading commands say of them what they say of the
//! plain image; other commands refuse them, and say what to do.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use uxfs_testkit::{
    golden::GoldenImage,
    image::{self, memory_folder},
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    seeds::Part,
    sparse,
};

use crate::common;
use crate::common::mount_place::{Place, succeeded};
use crate::common::{host, program, succeeds, text, uxfs};

const MEBIBYTE: u64 = 1 << 20;

/// How an image is packed: the command, whose output is the file where it has no name for that.
struct Way {
    name: &'static str,
    command: &'static [&'static str],
    /// Nothing of it is unpacked into a file.
    is_read_in_place: bool,
}

const fn in_place(name: &'static str, command: &'static [&'static str]) -> Way {
    Way { name, command, is_read_in_place: true }
}

const fn unpacked(name: &'static str, command: &'static [&'static str]) -> Way {
    Way { name, command, is_read_in_place: false }
}

const WAYS: [Way; 16] = [
    in_place("qcow2", &["qemu-img", "convert", "-O", "qcow2"]),
    in_place("qcow2-v2", &["qemu-img", "convert", "-O", "qcow2", "-o", "compat=0.10"]),
    in_place("qcow2-512", &["qemu-img", "convert", "-O", "qcow2", "-o", "cluster_size=512"]),
    in_place("qcow2-2m", &["qemu-img", "convert", "-O", "qcow2", "-o", "cluster_size=2M"]),
    in_place("qcow2-deflate", &["qemu-img", "convert", "-c", "-O", "qcow2"]),
    in_place("qcow2-zstd", &["qemu-img", "convert", "-c", "-O", "qcow2", "-o", "compression_type=zstd"]),
    in_place("qcow2-ahead", &["qemu-img", "convert", "-O", "qcow2", "-o", "preallocation=metadata"]),
    in_place(
        "qcow2-parts",
        &["qemu-img", "convert", "-O", "qcow2", "-o", "extended_l2=on,cluster_size=128k"],
    ),
    in_place("xz-blocks", &["xz", "-0", "-T2", "--block-size=1MiB", "-c"]),
    in_place("pzstd", &["pzstd", "-q", "-p", "2", "-c"]),
    in_place("bgzip", &["bgzip", "-l", "1", "-c"]),
    unpacked("xz", &["xz", "-0", "-T1", "-c"]),
    unpacked("zstd", &["zstd", "-q", "-c"]),
    unpacked("zstd-threads", &["zstd", "-q", "-T2", "-c"]),
    unpacked("zstd-without-size", &["zstd", "-q", "--no-content-size", "-c"]),
    unpacked("gzip", &["gzip", "-1", "-c"]),
];

impl Way {
    fn is_qcow2(&self) -> bool {
        self.command[0] == "qemu-img"
    }

    /// Packs a plain image.
    fn pack(&self, image: &Path, folder: &Path) -> PathBuf {
        let packed = folder.join(self.name);
        let mut command = Command::new(self.command[0]);
        command.args(&self.command[1..]);
        if self.is_qcow2() {
            command.args(["-f", "raw"]).arg(image).arg(&packed);
        } else {
            command.arg(image).stdout(File::create(&packed).unwrap());
        }
        let output = command.stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        packed
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command on an image; nothing can be unpacked.
fn in_place_only(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).env("TMPDIR", "/nowhere").output().unwrap()
}

/// What a command says, without the name of the image.
fn said(output: &Output, image: &Path) -> (Option<i32>, Vec<u8>, String) {
    let out = match String::from_utf8(output.stdout.clone()) {
        Ok(out) => out.replace(text(image), "IMAGE").into_bytes(),
        Err(_) => output.stdout.clone(),
    };
    (output.status.code(), out, words(output).replace(text(image), "IMAGE"))
}

/// The reading commands, with IMAGE where the image belongs.
const COMMANDS: [&[&str]; 9] = [
    &["ls", "-lR", "IMAGE"],
    &["info", "IMAGE"],
    &["info", "--json", "IMAGE"],
    &["check", "IMAGE"],
    &["extract", "IMAGE", "--tar", "-"],
    &["inspect", "IMAGE", "agf", "0"],
    &["find", "IMAGE", "/", "-name", "*1*"],
    &["ls", "--tolerant", "IMAGE"],
    &["ls", "--repaired", "IMAGE"],
];

fn run(
    command: &[&str],
    options: &[&str],
    image: &Path,
    way: Option<&Way>,
) -> (Option<i32>, Vec<u8>, String) {
    let mut arguments: Vec<&str> = vec![command[0]];
    arguments.extend_from_slice(options);
    arguments.extend(command[1..].iter().map(|word| if *word == "IMAGE" { text(image) } else { word }));
    let output = match way {
        Some(way) if way.is_read_in_place => in_place_only(&arguments),
        _ => uxfs(&arguments),
    };
    said(&output, image)
}

/// Every tool packs it many times: an image no larger than it must be, which the kernel has filled.
fn small_image(folder: &Path, options: &[&str]) -> PathBuf {
    let image = folder.join("plain");
    image::make(&image, 64 * MEBIBYTE, options).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    common::tree(mount.path());
    mount.unmount().unwrap();
    image
}

#[test]
fn reading_commands_say_what_they_say_of_the_plain_image() {
    require!(Judge::QemuImg, Judge::Pzstd, Judge::Xz, Judge::Bgzip, Judge::Kernel, Judge::Mkfs);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let plain = small_image(folder.path(), &[]);
    let expected: Vec<_> = COMMANDS.iter().map(|command| run(command, &[], &plain, None)).collect();
    assert!(expected.iter().all(|(code, out, _)| *code == Some(0) && !out.is_empty()), "{expected:?}");
    for way in Part::of_run(2).of(&WAYS) {
        let packed = way.pack(&plain, folder.path());
        for (command, expected) in COMMANDS.iter().zip(&expected) {
            let found = run(command, &[], &packed, Some(way));
            assert!(found == *expected, "{} {command:?}: {}", way.name, found.2);
        }
        fs::remove_file(packed).unwrap();
    }
}

/// What the library and `xfs_info` say of an image.
fn seen(image: &Path) -> (Vec<(Vec<u8>, u64)>, u64, String) {
    let opened = uxfs::Image::open(image).unwrap();
    let files = opened.walk().map(|entry| entry.unwrap());
    let files = files.map(|entry| (entry.path().to_vec(), entry.metadata().size_bytes)).collect();
    let checked = uxfs::check(image).unwrap();
    assert!(checked.is_sound(), "{checked:?}");
    let output = Command::new(program()).arg0("xfs_info").arg(image).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    (files, checked.inodes, String::from_utf8(output.stdout).unwrap().replace(text(image), "IMAGE"))
}

#[test]
fn the_library_and_xfs_info_read_all_forms() {
    require!(Judge::QemuImg, Judge::Pzstd, Judge::Xz, Judge::Bgzip, Judge::Kernel, Judge::Mkfs);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let plain = small_image(folder.path(), &["-b", "size=1024"]);
    let expected = seen(&plain);
    assert!(expected.0.len() > 100 && expected.2.contains("bsize=1024"), "{expected:?}");
    for way in Part::of_run(2).of(&WAYS) {
        let packed = way.pack(&plain, folder.path());
        assert_eq!(seen(&packed), expected, "{}", way.name);
        let refused = uxfs::Editor::open(&packed).unwrap_err();
        assert_eq!(refused.errno(), 95, "{refused}");
        assert!(refused.to_string().contains("cannot be changed"), "{refused}");
        fs::remove_file(packed).unwrap();
    }
}

/// A part of the golden images, each in one of the forms: in turn one of qcow2 and one that is compressed.
#[test]
fn golden_images_are_listed_in_all_forms() {
    require!(Judge::QemuImg, Judge::Pzstd, Judge::Xz, Judge::Bgzip);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (disks, compressed): (Vec<&Way>, Vec<&Way>) = WAYS.iter().partition(|way| way.is_qcow2());
    let disks_of_long: Vec<&Way> =
        disks.iter().copied().filter(|way| !["qcow2-512", "qcow2-ahead"].contains(&way.name)).collect();
    let mut images: Vec<_> = GoldenImage::all().unwrap().into_iter().map(GoldenImage::into_lean).collect();
    images.push(GoldenImage::dirty_log());
    let part = Part::of_run(3);
    for (number, image) in images.iter().enumerate().filter(|(number, _)| part.has(*number)) {
        let plain = image.unpacked().unwrap();
        let expected = run(&["ls", "-lR", "IMAGE"], &[], &plain, None);
        // To compress terabytes of holes takes hours; tables of small clusters, or made ahead, are large.
        let is_long = fs::metadata(&plain).unwrap().len() > 512 << 20;
        let all = match () {
            () if is_long => &disks_of_long,
            () if number % 2 == 0 => &disks,
            () => &compressed,
        };
        let way = all[number / 2 % all.len()];
        let packed = way.pack(&plain, folder.path());
        let found = run(&["ls", "-lR", "IMAGE"], &[], &packed, Some(way));
        assert!(found == expected, "{} {}: {}", image.name(), way.name, found.2);
        fs::remove_file(packed).unwrap();
    }
}

/// A disk with two partitions, the second of which is the image; with its own size.
fn partitioned(folder: &Path, plain: &Path, kind: &str) -> PathBuf {
    let disk = folder.join("disk");
    let image = File::open(plain).unwrap();
    let image_bytes = image.metadata().unwrap().len();
    let file = File::create(&disk).unwrap();
    file.set_len(image_bytes + 12 * MEBIBYTE).unwrap();
    let mebibytes = image_bytes / MEBIBYTE;
    let script = match kind {
        "gpt" => {
            format!("label: gpt\nstart=1M, size=2M, name=boot\nstart=5M, size={mebibytes}M, name=root\n")
        }
        _ => format!("label: dos\nstart=1M, size=2M\nstart=5M, size={mebibytes}M\n"),
    };
    let mut sfdisk = Judge::Sfdisk.command();
    let mut sfdisk = sfdisk.args(["-q", "--wipe", "never"]).arg(&disk).stdin(Stdio::piped()).spawn().unwrap();
    sfdisk.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(sfdisk.wait().unwrap().success());
    sparse::copy_part(&image, 0..image_bytes, &file, 5 * MEBIBYTE).unwrap();
    disk
}

#[test]
fn partitions_are_found_in_all_forms() {
    require!(
        Judge::QemuImg,
        Judge::Pzstd,
        Judge::Xz,
        Judge::Bgzip,
        Judge::Sfdisk,
        Judge::Kernel,
        Judge::Mkfs
    );
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let plain = small_image(folder.path(), &["-b", "size=1024"]);
    let expected = run(&["ls", "-lR", "IMAGE"], &[], &plain, None);
    for (kind, step) in [("gpt", 2), ("mbr", 5)] {
        let disk = partitioned(folder.path(), &plain, kind);
        let label = if kind == "gpt" { "root" } else { "2" };
        let told = uxfs(&["ls", text(&disk)]);
        for way in WAYS.iter().step_by(step) {
            let packed = way.pack(&disk, folder.path());
            for options in [&["--partition", "2"][..], &["--partition", label], &["--offset", "5M"]] {
                let found = run(&["ls", "-lR", "IMAGE"], options, &packed, Some(way));
                assert!(found == expected, "{} {options:?}: {}", way.name, found.2);
            }
            // Which partitions there are, where none is chosen.
            let found = uxfs(&["ls", text(&packed)]);
            assert_eq!(said(&found, &packed).2, said(&told, &disk).2, "{}", way.name);
            let found = uxfs(&["ls", "--partition", "7", text(&packed)]);
            assert!(words(&found).contains("it has no partition 7"), "{}: {}", way.name, words(&found));
            fs::remove_file(packed).unwrap();
        }
        let _ = fs::remove_file(disk);
    }
}

#[test]
fn snapshots_and_files_below_are_as_qemu_sees_them() {
    require!(Judge::QemuImg, Judge::Xz);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let path = |name: &str| folder.path().join(name);
    let (base, changed) = (path("base"), path("changed"));
    succeeds(&["mkfs", "--size", "300M", text(&base)]);
    let original = fs::read(&base).unwrap();
    sparse::copy(&base, &changed).unwrap();
    let source = path("source");
    fs::create_dir(&source).unwrap();
    common::tree(&source);
    succeeds(&["put", "-r", text(&changed), text(&source), "/source"]);
    // What differs is written by QEMU, over a snapshot and over a file below.
    let (snapshot, overlay, top) = (path("snapshot"), path("overlay"), path("top"));
    host("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", text(&base), text(&snapshot)]);
    host("qemu-img", &["snapshot", "-c", "before", text(&snapshot)]);
    host("qemu-img", &["create", "-q", "-f", "qcow2", "-b", "base", "-F", "raw", text(&overlay)]);
    host("qemu-img", &["create", "-q", "-f", "qcow2", "-b", "overlay", "-F", "qcow2", text(&top)]);
    let new = fs::read(&changed).unwrap();
    let piece = path("piece");
    for disk in [&snapshot, &top] {
        let mut script = String::new();
        for (number, (old, new)) in original.chunks(1 << 20).zip(new.chunks(1 << 20)).enumerate() {
            if old != new {
                let file = path(&format!("piece-{number}"));
                fs::write(&file, new).unwrap();
                script += &format!("write -s {} {}M 1M\n", text(&file), number);
            }
        }
        let mut qemu_io = Command::new("qemu-io");
        let mut qemu_io = qemu_io.args(["-f", "qcow2"]).arg(disk).stdin(Stdio::piped());
        qemu_io = qemu_io.stdout(Stdio::null());
        let mut qemu_io = qemu_io.spawn().unwrap();
        qemu_io.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(qemu_io.wait().unwrap().success());
        host("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", text(disk), text(&piece)]);
        assert!(fs::read(&piece).unwrap() == new);
    }
    let expected = run(&["ls", "-lR", "IMAGE"], &[], &changed, None);
    assert_eq!(run(&["ls", "-lR", "IMAGE"], &[], &snapshot, Some(&WAYS[0])), expected);
    let refused = uxfs(&["ls", text(&top)]);
    let words = words(&refused);
    assert!(
        words.contains("is based on another file, overlay") && words.contains("--backing-files"),
        "{words}"
    );
    let (code, out, words) = run(&["ls", "-lR", "IMAGE"], &["--backing-files"], &top, Some(&WAYS[0]));
    assert_eq!((code, &out), (expected.0, &expected.1), "{words}");
    assert!(words.contains(text(&overlay)) && words.contains(text(&base)), "{words}");
}

#[test]
fn commands_that_change_an_image_refuse_all_forms() {
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("packed");
    for (beginning, name, remedy) in [
        (&b"\x28\xb5\x2f\xfd"[..], "compressed with zstd", "zstd -d"),
        (b"\x1f\x8b\x08\0", "compressed with gzip", "gzip -d"),
        (b"\xfd7zXZ\0", "compressed with xz", "xz -d"),
        (b"QFI\xfb\0\0\0\x03", "a qcow2 disk", "qemu-img convert"),
        (b"vhdxfile", "a VHDX disk", "qemu-img convert"),
        (b"BZh9", "compressed with bzip2", "bzip2 -d"),
    ] {
        let bytes = [beginning, &[7; 5000]].concat();
        fs::write(&packed, &bytes).unwrap();
        for command in
            [&["mkdir", text(&packed), "/a"][..], &["repair", text(&packed)], &["replay", text(&packed)]]
        {
            let output = uxfs(command);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {}", words(&output));
            assert!(words(&output).contains(name) && words(&output).contains(remedy), "{}", words(&output));
            assert!(fs::read(&packed).unwrap() == bytes);
        }
        // It is not what it seems to be.
        let output = uxfs(&["ls", text(&packed)]);
        assert_eq!(output.status.code(), Some(1), "{}", words(&output));
        assert!(words(&output).contains(name), "{}", words(&output));
    }
}

/// What has to be unpacked says so where there is no room.
#[test]
fn what_cannot_be_unpacked_is_told_with_a_remedy() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let packed = folder.path().join("packed");
    let golden = GoldenImage::named("default").unwrap();
    fs::copy(golden.packed(), &packed).unwrap();
    let output = in_place_only(&["ls", text(&packed)]);
    let words = words(&output);
    assert!(words.contains("cannot unpack it in /nowhere") && words.contains("set TMPDIR"), "{words}");
    // A file that is cut off.
    let bytes = fs::read(&packed).unwrap();
    fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
    let output = uxfs(&["ls", text(&packed)]);
    let words = self::words(&output);
    assert!(!output.status.success() && words.contains("cannot be unpacked"), "{words}");
}

/// Damage in one piece is told of what lies in it, and the rest is read.
#[test]
fn damage_in_a_piece_is_told() {
    require!(Judge::Xz);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let plain = GoldenImage::named("default").unwrap().unpacked().unwrap();
    let way = WAYS.iter().find(|way| way.name == "xz-blocks").unwrap();
    let packed = way.pack(&plain, folder.path());
    let mut bytes = fs::read(&packed).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle..middle + 64].fill(0x55);
    fs::write(&packed, bytes).unwrap();
    let output = uxfs(&["extract", text(&packed), "--tar", "/dev/null"]);
    let all = words(&output) + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && all.contains("what xz has packed at byte"), "{all}");
}

#[test]
fn mounts_for_reading_show_forms_that_are_read_in_place() {
    require!(Judge::QemuImg, Judge::Xz, Judge::Sfdisk);
    let mut place = Place::new();
    let source = place.folder.path().join("source");
    fs::create_dir(&source).unwrap();
    common::tree(&source);
    succeeds(&["put", "-r", text(&place.image), text(&source), "/source"]);
    let plain = place.image.clone();
    let disk = partitioned(place.folder.path(), &plain, "gpt");
    for (image, at, step) in [(&plain, "offset=0", 1), (&disk, "partition=2", 4), (&disk, "offset=5M", 7)] {
        for way in WAYS.iter().step_by(step) {
            place.image = way.pack(image, place.folder.path());
            let refused = place.mount(&["-o", at]);
            let name = if way.is_qcow2() { "a qcow2 disk" } else { "compressed with " };
            assert!(
                words(&refused).contains(name) && words(&refused).contains("-o ro"),
                "{}",
                words(&refused)
            );
            let mounted = place.mount(&["-o", "ro", "-o", at]);
            if way.is_read_in_place {
                succeeded(&mounted);
                let shown = place.directory.join("source");
                host("diff", &["-r", "--no-dereference", text(&source), text(&shown)]);
                succeeds(&["umount", text(&place.directory)]);
            } else {
                let words = words(&mounted);
                assert!(!mounted.status.success() && words.contains("cannot be read alone"), "{words}");
            }
            fs::remove_file(&place.image).unwrap();
        }
    }
}

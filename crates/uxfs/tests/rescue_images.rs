//! `uxfs rescue` of images that are in use or truncated, and of files that few targets hold.

use std::{
    fs::{self, OpenOptions},
    os::unix::{fs::FileTypeExt, net::UnixListener},
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value as Json;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    mount::{Access, LoopMount},
    require, sparse,
    verdict::repair_is_silent,
};

use crate::common::{host, succeeds, text, tree, uxfs};

fn unpacked(folder: &Path) -> PathBuf {
    let image = folder.join("image");
    GoldenImage::named("default").unwrap().unpack_to(&image).unwrap();
    image
}

fn lines(text: &[u8]) -> Vec<Json> {
    std::str::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// A mounted image is refused, as by a check. Asked for all the same, no file is called whole, and the manifest says why.
#[test]
fn a_mounted_image_is_refused_unless_asked_for() {
    require!(Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = unpacked(folder.path());
    let (to, manifest) = (folder.path().join("to"), folder.path().join("manifest"));
    let rescue =
        ["rescue", text(&image), "--to", text(&to), "--manifest", text(&manifest), "--only", "extents"];
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    // The log does not have it yet.
    fs::write(mount.join("extents/new"), "new").unwrap();
    let refused = uxfs(&rescue);
    assert_eq!(refused.status.code(), Some(1), "{}", words(&refused));
    assert!(
        words(&refused).contains("it is mounted at ") && words(&refused).contains("--no-lock"),
        "{}",
        words(&refused)
    );
    assert!(!to.exists() && !manifest.exists());
    let checked = uxfs(&["check", text(&image)]);
    assert_eq!(words(&checked), words(&refused));
    let repaired = uxfs(&["ls", "--repaired", text(&image)]);
    assert_eq!(words(&repaired), words(&refused));

    let taken = uxfs(&[&rescue[..], &["--no-lock"]].concat());
    assert_eq!(taken.status.code(), Some(3), "{}", words(&taken));
    let last = words(&taken).lines().rfind(|line| line.contains(" whole, ")).unwrap().to_owned();
    assert!(
        last.starts_with("0 whole, ") && last.contains("; the image was in use: it is mounted at "),
        "{last}"
    );
    let told = lines(&fs::read(&manifest).unwrap());
    assert_eq!(told[0]["type"], "image");
    for line in [&told[0], told.last().unwrap()] {
        assert!(line["in_use"].as_str().unwrap().starts_with("it is mounted at "), "{line}");
    }
    let entries = || told.iter().filter(|line| line["type"] == "entry");
    assert!(entries().count() > 3 && entries().all(|line| line["state"] == "perhaps_older"), "{told:?}");
    mount.unmount().unwrap();

    fs::remove_dir_all(&to).unwrap();
    let rested = uxfs(&[&rescue[..], &["--no-lock"]].concat());
    assert_eq!(rested.status.code(), Some(0), "{}", words(&rested));
    assert_eq!(fs::read(to.join("extents/new")).unwrap(), b"new");
    assert!(lines(&fs::read(&manifest).unwrap())[0]["in_use"].is_null());
}

/// Each command tells the length that the image must have; an image of this length can be repaired. A rescue takes the files that are there.
#[test]
fn of_a_truncated_image_the_right_length_is_told() {
    require!(Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    tree(&source);
    fs::write(source.join("last"), vec![9; 8_000_000]).unwrap();
    succeeds(&[
        "mkfs",
        "--unsupported",
        "--size",
        "64M",
        "-d",
        "agcount=4",
        "--from",
        text(&source),
        text(&image),
    ]);
    let (whole_bytes, sound) = (fs::metadata(&image).unwrap().len(), folder.path().join("sound"));
    sparse::copy(&image, &sound).unwrap();
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    let (to, manifest) = (folder.path().join("to"), folder.path().join("manifest"));
    let remedy = format!("truncate -s {whole_bytes} {}", text(&image));
    for left_bytes in [whole_bytes - 4096, 40 << 20, 16 << 20, 1 << 20] {
        file.set_len(left_bytes).unwrap();
        for command in [
            &["check"][..],
            &["repair"],
            &["repair", "-n"],
            &["ls"],
            &["ls", "--tolerant"],
            &["ls", "--repaired"],
        ] {
            let output = uxfs(&[command, &[text(&image)]].concat());
            assert_eq!(output.status.code(), Some(3), "{command:?}: {}", words(&output));
            assert!(words(&output).contains(&remedy), "{command:?}: {}", words(&output));
            assert!(!words(&output).contains(" 0 bytes"), "{command:?}: {}", words(&output));
        }
        let output = uxfs(&["rescue", text(&image), "--to", text(&to), "--manifest", text(&manifest)]);
        // Nothing lay in the last group. Without the log, files are perhaps older.
        let code = if left_bytes > 16 << 20 { 0 } else { 3 };
        assert_eq!(output.status.code(), Some(code), "{}", words(&output));
        let expected = format!("the image has {left_bytes} bytes, and its file system takes {whole_bytes}");
        assert!(words(&output).contains(&expected), "{}", words(&output));
        let told = lines(&fs::read(&manifest).unwrap());
        for line in told.iter().filter(|line| line["state"] == "whole" && line["kind"] == "regular") {
            let path = line["path"].as_str().unwrap().trim_start_matches('/');
            assert!(fs::read(source.join(path)).unwrap() == fs::read(to.join(path)).unwrap(), "{path}");
        }
        let whole = told.last().unwrap()["whole"].as_u64().unwrap();
        assert_eq!(whole >= 200, left_bytes > 16 << 20, "{left_bytes}: {whole} whole");
        fs::remove_dir_all(&to).unwrap();
    }
    sparse::copy(&sound, &image).unwrap();
    file.set_len(40 << 20).unwrap();
    file.set_len(whole_bytes).unwrap();
    succeeds(&["repair", text(&image)]);
    repair_is_silent(&image).unwrap();
}

/// Sockets, FIFOs and devices come out as they are; an archive has no sockets, and the manifest says so.
#[test]
fn special_files_come_out() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "contents").unwrap();
    let _socket = UnixListener::bind(source.join("socket")).unwrap();
    host("mkfifo", &[text(&source.join("fifo"))]);
    succeeds(&["mkfs", "--unsupported", "--size", "32M", "--from", text(&source), text(&image)]);
    let to = folder.path().join("to");
    succeeds(&["rescue", text(&image), "--to", text(&to)]);
    let type_of = |name: &str| fs::symlink_metadata(to.join(name)).unwrap().file_type();
    assert!(type_of("socket").is_socket() && type_of("fifo").is_fifo());
    let archive = folder.path().join("archive");
    let output = uxfs(&["rescue", text(&image), "--json", "--tar", text(&archive)]);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    let told = lines(&output.stdout);
    let state = |path: &str| told.iter().find(|line| line["path"] == path).unwrap()["state"].clone();
    assert_eq!([state("/socket"), state("/fifo"), state("/file")], ["lost", "whole", "whole"]);
}

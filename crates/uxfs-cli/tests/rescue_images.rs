//! `uxfs rescue` of images that are in use.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value as Json;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    mount::{Access, LoopMount},
    require,
};

use crate::common::{text, uxfs};

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

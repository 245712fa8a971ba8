//! The undo files of several repairs, and what lies in their place.

use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Output,
};

use tempfile::TempDir;
use uxfs_testkit::{golden::GoldenImage, image::memory_folder, sparse::Contents};

use crate::common::{text, uxfs};

struct Bench {
    folder: TempDir,
    image: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let image = folder.path().join("image");
        GoldenImage::lean("groups-2").unwrap().unpack_to(&image).unwrap();
        Self { folder, image }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Overwrites the headers of the first group, one sector more each time.
    fn damage(&self, byte: u8) -> Contents {
        let file = fs::OpenOptions::new().write(true).open(&self.image).unwrap();
        file.write_all_at(&[byte; 3 * 512], 512).unwrap();
        Contents::read(&self.image).unwrap()
    }

    fn repair(&self, options: &[&str]) -> String {
        let output = uxfs(&[&["repair"], options, &[text(&self.image)]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        words(&output)
    }

    fn undo(&self, options: &[&str]) -> String {
        let output = uxfs(&[&["undo"], options, &[text(&self.image)]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        words(&output)
    }

    fn must_hold(&self, contents: &Contents) {
        assert!(Contents::read(&self.image).unwrap() == *contents, "other contents than expected");
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

#[test]
fn each_repair_can_be_taken_back() {
    let bench = Bench::new();
    let mut states = Vec::new();
    for byte in 1..4 {
        states.push(bench.damage(byte));
        let told = bench.repair(&[]);
        let file =
            if byte == 1 { "image.uxfs-undo)".to_owned() } else { format!("image.uxfs-undo.{})", byte - 1) };
        assert!(told.contains("to take it back: uxfs undo ") && told.contains(&file), "{told}");
    }
    // Taken back from the last to the first; between them lies the damage that came after a repair.
    let sound = Contents::read(&bench.image).unwrap();
    let told = bench.undo(&[]);
    assert!(
        told.contains("restored: ") && told.contains("(from ") && told.contains("image.uxfs-undo.2)"),
        "{told}"
    );
    bench.must_hold(&states[2]);
    // An undone repair leaves its name to the next.
    bench.repair(&[]);
    assert!(bench.at("image.uxfs-undo.2").exists() && !bench.at("image.uxfs-undo.3").exists());
    bench.must_hold(&sound);
    bench.undo(&["--remove"]);
    assert!(!bench.at("image.uxfs-undo.2").exists());
    sound.write(&bench.image).unwrap();
    let told = bench.undo(&[]);
    assert!(told.contains("image.uxfs-undo.1)"), "{told}");
    bench.must_hold(&states[1]);
    sound.write(&bench.image).unwrap();
    bench.undo(&["--remove"]);
    // What damaged it in between is no part of the first repair.
    sound.write(&bench.image).unwrap();
    bench.undo(&[]);
    bench.must_hold(&states[0]);
    let told = bench.undo(&[]);
    assert_eq!(told, "the image is as it was before the repair: nothing to do\n");
}

/// The second damage looks as the first did: it is not taken for a repair that was cut off.
#[test]
fn the_same_damage_again_is_repaired_and_taken_back() {
    for (start, length) in [(0, 4096), (0, 512), (512, 3 * 512)] {
        for is_changed_between in [false, true] {
            let bench = Bench::new();
            let damage = || {
                let file = fs::OpenOptions::new().write(true).open(&bench.image).unwrap();
                file.write_all_at(&vec![0; length], start).unwrap();
                Contents::read(&bench.image).unwrap()
            };
            damage();
            bench.repair(&[]);
            if is_changed_between {
                let output = uxfs(&["mkdir", text(&bench.image), "/between"]);
                assert!(output.status.success(), "{}", words(&output));
            }
            let second = damage();
            let told = bench.repair(&[]);
            assert!(!told.contains("finished an earlier repair"), "{start}+{length}: {told}");
            bench.undo(&[]);
            bench.must_hold(&second);
            if length == 4096 && !is_changed_between {
                // The older file is for the bytes of the older repair, which are not all there any more.
                let older = bench.at("image.uxfs-undo");
                let refused = uxfs(&["undo", "--undo", text(&older), text(&bench.image)]);
                assert_eq!(refused.status.code(), Some(1), "{}", words(&refused));
                bench.must_hold(&second);
            }
        }
    }
}

#[test]
fn a_named_undo_file_is_replaced_and_that_is_told() {
    let bench = Bench::new();
    let file = bench.at("undo");
    bench.damage(1);
    assert!(!bench.repair(&["--undo", text(&file)]).contains("is replaced"));
    let before = bench.damage(2);
    assert!(
        bench.repair(&["--undo", text(&file)]).contains("the undo file of an earlier repair is replaced")
    );
    // Nothing to write: it stays, and that is not told.
    let earlier = fs::read(&file).unwrap();
    assert_eq!(bench.repair(&["--undo", text(&file)]), "nothing to repair\n");
    assert!(fs::read(&file).unwrap() == earlier);
    bench.undo(&["--undo", text(&file)]);
    bench.must_hold(&before);
}

#[test]
fn what_is_no_undo_file_is_told_with_a_remedy() {
    let bench = Bench::new();
    let before = bench.damage(1);
    let file = bench.at("image.uxfs-undo");
    for contents in [&b"8 bytes."[..], &[7; 4096]] {
        fs::write(&file, contents).unwrap();
        let output = uxfs(&["repair", text(&bench.image)]);
        assert_eq!(output.status.code(), Some(1), "{}", words(&output));
        for expected in ["nothing was changed; remove ", "image.uxfs-undo if no repair", "--undo FILE"] {
            assert!(words(&output).contains(expected), "{}", words(&output));
        }
        bench.must_hold(&before);
        assert!(fs::read(&file).unwrap() == contents);
    }
    bench.repair(&["--undo", text(&bench.at("elsewhere"))]);
}

fn owner(path: &Path) -> (u32, u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.permissions().mode() & 0o777)
}

#[test]
fn the_undo_file_belongs_to_the_owner_of_the_image() {
    let bench = Bench::new();
    if chown(&bench.image, Some(1234), Some(5678)).is_err() {
        println!("only root can give files away");
        return;
    }
    bench.damage(1);
    bench.repair(&[]);
    assert_eq!(owner(&bench.at("image.uxfs-undo")), (1234, 5678, 0o600));
}

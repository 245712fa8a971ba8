//! What a rescue that goes on with another must know; what `--only` and owners come to.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value as Json;
use tempfile::TempDir;
use uxfs_testkit::image::memory_folder;

use crate::common::{program, succeeds, text, uxfs};

/// A copy of a disk that lacks a block of a file, with its map.
struct Copied {
    folder: TempDir,
    image: PathBuf,
    map: PathBuf,
}

const NOTE: &str = ".uxfs-rescue";

impl Copied {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let (source, image, map) =
            (folder.path().join("source"), folder.path().join("image"), folder.path().join("map"));
        fs::create_dir(&source).unwrap();
        fs::write(source.join("first"), vec![7; 40_000]).unwrap();
        fs::write(source.join("sound"), "sound").unwrap();
        succeeds(&["mkfs", "--unsupported", "--size", "32M", "--from", text(&source), text(&image)]);
        let extents = succeeds(&["map", "--json", text(&image), "/first"]);
        let extent: Json = serde_json::from_str(extents.lines().next().unwrap()).unwrap();
        let info: Json = serde_json::from_str(&succeeds(&["info", "--json", text(&image)])).unwrap();
        let number = |document: &Json, name: &str| document[name].as_u64().unwrap();
        let block =
            number(&extent, "group") * number(&info, "group_blocks") + number(&extent, "group_block") + 2;
        let (start, end, size) = (block * 4096, block * 4096 + 4096, fs::metadata(&image).unwrap().len());
        fs::write(&map, format!("0 + 1\n0 {start} +\n{start} 4096 -\n{end} {} +\n", size - end)).unwrap();
        Self { folder, image, map }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn rescue(&self, to: &str, options: &[&str]) -> Output {
        uxfs(&[&["rescue", text(&self.image), "--to", text(&self.at(to))], options].concat())
    }

    /// Says that zeros would pass for contents, and leaves all as it is.
    fn refuses_to_go_on(&self, to: &str, options: &[&str]) {
        let output = self.rescue(to, &[&["--resume"], options].concat());
        assert_eq!(output.status.code(), Some(2), "{}", words(&output));
        for expected in ["zeros would pass for contents", "--map", "remove the directory"] {
            assert!(words(&output).contains(expected), "{}", words(&output));
        }
        assert!(self.at(to).join("first.partial").exists() && !self.at(to).join("first").exists());
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

#[test]
fn a_rescue_with_a_map_does_not_go_on_without() {
    let copied = Copied::new();
    let map = ["--map", text(&copied.map)];
    let output = copied.rescue("to", &map);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert!(copied.at("to").join(NOTE).exists());
    copied.refuses_to_go_on("to", &[]);
    assert_eq!(copied.rescue("to", &[&["--resume"], &map[..]].concat()).status.code(), Some(3));
    // All of it could be read in the end.
    let size = fs::metadata(&copied.image).unwrap().len();
    fs::write(&copied.map, format!("0 + 1\n0 {size} +\n")).unwrap();
    let output = copied.rescue("to", &[&["--resume"], &map[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(fs::read(copied.at("to").join("first")).unwrap(), vec![7; 40_000]);
    assert!(!copied.at("to").join(NOTE).exists());
    assert_eq!(copied.rescue("to", &["--resume"]).status.code(), Some(0));
    // Without a map there is nothing to note.
    assert_eq!(copied.rescue("other", &[]).status.code(), Some(0));
    assert_eq!(fs::read_dir(copied.at("other")).unwrap().count(), 2);
}

#[test]
fn manifests_tell_that_a_map_is_needed_also_older_ones() {
    let copied = Copied::new();
    let manifest = copied.at("manifest");
    let options = ["--manifest", text(&manifest)];
    copied.rescue("to", &[&options[..], &["--map", text(&copied.map)]].concat());
    fs::remove_file(copied.at("to").join(NOTE)).unwrap();
    let told = fs::read_to_string(&manifest).unwrap();
    let first: Json = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert_eq!(first["map"], text(&copied.map));
    copied.refuses_to_go_on("to", &options);
    assert_eq!(fs::read_to_string(&manifest).unwrap(), told, "the manifest was replaced");
    // As uxfs wrote it before it named the map, and with the end cut off.
    let older: Vec<String> = told
        .lines()
        .map(|line| {
            let mut line: Json = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("map");
            line.to_string()
        })
        .collect();
    for lines in [&older[..], &older[..1]] {
        fs::write(&manifest, lines.join("\n") + "\n").unwrap();
        copied.refuses_to_go_on("to", &options);
    }
    // One without a map is gone on with.
    copied.rescue("other", &options);
    assert_eq!(copied.rescue("other", &[&["--resume"], &options[..]].concat()).status.code(), Some(0));
}

/// Sectors of the device failed: another image of it is a copy, which has a map.
#[test]
fn a_copy_of_a_device_that_failed_needs_its_map() {
    let copied = Copied::new();
    copied.rescue("to", &["--map", text(&copied.map)]);
    let note = |image: &Path| {
        let note = serde_json::json!({
            "schema_version": 1, "type": "uxfs_rescue_note", "map": null, "image": text(image), "failed_bytes": 512
        });
        fs::write(copied.at("to").join(NOTE), note.to_string()).unwrap();
    };
    note(Path::new("/dev/sdz"));
    copied.refuses_to_go_on("to", &[]);
    note(&fs::canonicalize(&copied.image).unwrap());
    assert_eq!(copied.rescue("to", &["--resume"]).status.code(), Some(0));
}

#[test]
fn patterns_that_match_nothing_are_told() {
    let copied = Copied::new();
    let output = copied.rescue("to", &["--only", "/nosuch"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("--only: /nosuch: nothing in the image matches"), "{}", words(&output));
    let output = copied.rescue("two", &["--only", "/sound", "--only", "*.jpg"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("*.jpg: nothing") && !words(&output).contains("/sound: nothing"));
    assert!(copied.at("two/sound").exists());
    let output = copied.rescue("three", &["--only", "/sound", "--only", "f*"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let output = copied.rescue("four", &["--only", "/nosuch", "--json"]);
    let told: Json = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((output.status.code(), &told["error"]["exit_code"]), (Some(1), &1.into()));
}

#[test]
fn owners_that_are_not_restored_are_told_once() {
    let copied = Copied::new();
    succeeds(&["shell", text(&copied.image), "-c", "chown 5:6 /sound; chown 7:8 /first"]);
    for path in [copied.folder.path(), &copied.image] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        if chown(path, Some(65_534), Some(65_534)).is_err() {
            println!("only root can become another user");
            return;
        }
    }
    let to = copied.at("to");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program(), "rescue"]);
    let output = command.args([text(&copied.image), "--to", text(&to)]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let told = String::from_utf8(output.stderr).unwrap();
    // Two files and the root directory.
    assert!(told.matches("uxfs: owner not restored: 3 (first: ").count() == 1, "{told}");
}

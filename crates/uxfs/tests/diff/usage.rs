//! Options, exit codes, and the forms of the output.

use std::{
    fs,
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
};

use tempfile::TempDir;
use uxfs_testkit::image::memory_folder;

use crate::common::{succeeds, text, uxfs};

struct Two {
    folder: TempDir,
}

impl Two {
    fn new() -> Self {
        let folder = TempDir::with_prefix_in("uxfs-diff-", memory_folder()).unwrap();
        let source = folder.path().join("source");
        for directory in ["a/b", "gone/in", "pipe.d"] {
            fs::create_dir_all(source.join(directory)).unwrap();
        }
        for name in ["a/same", "a/f1", "a/f2", "a/f3", "a/b/deep.o", "gone/in/x", "type"] {
            fs::write(source.join(name), format!("{name}\n")).unwrap();
        }
        fs::hard_link(source.join("a/f1"), source.join("a/link")).unwrap();
        symlink("one", source.join("sym")).unwrap();
        fs::File::create(source.join("hole")).unwrap().set_len(1 << 20).unwrap();
        make(&folder, &source, "first");
        fs::remove_dir_all(source.join("gone")).unwrap();
        fs::remove_file(source.join("type")).unwrap();
        fs::create_dir(source.join("type")).unwrap();
        fs::write(source.join("new"), "new\n").unwrap();
        // As long as before.
        fs::write(source.join("a/f1"), "A/F1\n").unwrap();
        fs::write(source.join("a/f2"), "longer than before\n").unwrap();
        fs::set_permissions(source.join("a/f3"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(source.join("a/b/deep.o"), "other\n").unwrap();
        fs::remove_file(source.join("sym")).unwrap();
        symlink("two", source.join("sym")).unwrap();
        let hole = fs::OpenOptions::new().write(true).open(source.join("hole")).unwrap();
        hole.write_all_at(&[0; 1 << 20], 0).unwrap();
        make(&folder, &source, "second");
        Self { folder }
    }

    fn at(&self, name: &str) -> String {
        text(&self.folder.path().join(name)).to_owned()
    }

    /// The outcome of a comparison of both, with these words behind them.
    fn diff(&self, words: &[&str]) -> (i32, String) {
        let (first, second) = (self.at("first"), self.at("second"));
        told(&[&["diff", &first, &second], words].concat())
    }
}

fn make(folder: &TempDir, source: &Path, name: &str) {
    succeeds(&["mkfs", "-q", "--size", "300M", "--from", text(source), text(&folder.path().join(name))]);
}

fn told(words: &[&str]) -> (i32, String) {
    let output = uxfs(words);
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(printed).unwrap())
}

const BRIEF: &str = "D gone\nA new\nC sym\nT type\nC a/f1\nC a/f2\nM a/f3\nC a/link\nC a/b/deep.o\n";

#[test]
fn lines_and_exit_codes() {
    let two = Two::new();
    let (code, words) = two.diff(&["--no-times"]);
    let expected = "D gone: directory\nA new: regular\nC sym: target one -> two\nT type: type regular -> directory\n\
        C a/f1: contents\nC a/f2: contents, size 5 -> 19\nM a/f3: mode 0644 -> 0600\nC a/link: contents\n\
        C a/b/deep.o: contents, size 11 -> 6\n";
    assert_eq!((code, words.as_str()), (1, expected));
    assert_eq!(two.diff(&["--no-times", "-q"]), (1, BRIEF.to_owned()));
    assert_eq!(two.diff(&["--no-times", "--threads", "1", "-q"]), (1, BRIEF.to_owned()));
    let null = BRIEF.replace('\n', "\0");
    assert_eq!(two.diff(&["--no-times", "-0"]), (1, null));
    assert_eq!(two.diff(&["-s"]), (1, String::new()));
    // The others differ in type, or one side has them alone.
    assert_eq!(two.diff(&["--only", "mode", "-q"]).1, "D gone\nA new\nT type\nM a/f3\n");
    assert_eq!(two.diff(&["--only", "mode", "--ignore", "mode", "-q"]).1, "D gone\nA new\nT type\n");
    assert_eq!(two.diff(&["--also", "atime", "--no-times", "-q"]).1, BRIEF);
    let all = two.diff(&["--no-times", "--all", "-q", "--exclude", "a"]).1;
    assert_eq!(all, "D gone\nA new\nC sym\nT type\nD gone/in\nD gone/in/x\n");
    let excluded = two.diff(&["--no-times", "-q", "--exclude", "*.o", "--exclude", "/a/f?"]).1;
    assert_eq!(excluded, "D gone\nA new\nC sym\nT type\nC a/link\n");
    // A part, a file, and a directory beside another one.
    assert_eq!(two.diff(&["/a/b", "--no-times"]), (1, "C deep.o: contents, size 11 -> 6\n".to_owned()));
    assert_eq!(two.diff(&["a/f2", "--no-times"]), (1, "C f2: contents, size 5 -> 19\n".to_owned()));
    assert_eq!(two.diff(&["a/same"]), (0, String::new()));
    assert_eq!(two.diff(&["a", "--other-path", "a/b", "--only", "owner", "-q"]).1.lines().count(), 7);
    let first = two.at("first");
    assert_eq!(told(&["diff", &first, &first]), (0, String::new()));
    // Trouble.
    let (code, words) = two.diff(&["/none"]);
    assert!(code == 2 && words.contains("first: /none:"), "{words}");
    let (code, words) = told(&["diff", &first, &two.at("none")]);
    assert!(code == 2 && words.contains("none"), "{words}");
    let (code, words) = told(&["diff", &first, "/", "--other-offset", "1M"]);
    assert!(code == 2 && words.contains("is a directory"), "{words}");
    assert_eq!(two.diff(&["--only", "color"]).0, 2);
}

#[test]
fn documents() {
    let two = Two::new();
    let (first, second) = (two.at("first"), two.at("second"));
    let (code, words) = told(&["--json", "diff", "--ignore", "mtime", &first, &second]);
    let documents: Vec<serde_json::Value> =
        words.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, documents.len()), (1, BRIEF.lines().count()));
    let of = |path: &str| documents.iter().find(|document| document["path"] == path).unwrap();
    assert_eq!(of("gone")["change"], "removed");
    assert_eq!(of("gone")["first"]["type"], "directory");
    assert!(of("gone").get("second").is_none());
    assert_eq!(of("sym")["second"]["target"], "two");
    assert_eq!(of("a/f2")["fields"], serde_json::json!(["contents", "size"]));
    assert_eq!(of("a/f2")["first"]["size_bytes"], 5);
    assert_eq!(of("a/f3")["second"], serde_json::json!({"type": "regular", "mode": "0600"}));
    let (code, words) = told(&["--json", "diff", &first, "/none-such"]);
    assert!(code == 2 && words.contains("\"exit_code\":2"), "{words}");
}

#[test]
fn a_directory_of_the_host() {
    let two = Two::new();
    let (second, source) = (two.at("second"), two.at("source"));
    // The attribute is one of the image alone, where the program made it.
    let same = told(&["diff", &second, &source, "--ignore", "xattr,acl"]);
    assert_eq!(same, (0, String::new()));
    assert_eq!(told(&["diff", &source, &source]), (0, String::new()));
    let (code, words) =
        told(&["diff", "-q", "--no-times", "--ignore", "xattr,acl", &two.at("first"), &source]);
    assert_eq!((code, words.as_str()), (1, BRIEF));
    fs::set_permissions(two.folder.path().join("source/a"), fs::Permissions::from_mode(0o700)).unwrap();
    let (code, words) = told(&["diff", &source, &second, "--only", "mode"]);
    assert_eq!((code, words.as_str()), (1, "M a: mode 0700 -> 0755\n"));
}

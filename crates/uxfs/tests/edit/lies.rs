//! Images whose structures lie with right checksums, made by a kernel and by a script that shares no code with uxfs: no edit
//! takes anything with it that it did not name. `tests/lies` has them.

use std::{
    fs,
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use uxfs_testkit::{
    image::memory_folder,
    judges::Judge,
    mount::{Access, LoopMount},
    require, sparse,
};

use crate::common::{text, uxfs};

/// Corruption found.
const CORRUPT: i32 = 3;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lies").join(name)
}

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

struct Lie {
    folder: TempDir,
}

impl Lie {
    fn new(name: &str) -> Self {
        Self::after(name, |_| {})
    }

    /// With a log that a kernel left dirty.
    fn dirty(name: &str) -> Self {
        Self::after(name, |image| {
            let mount = LoopMount::new(image, Access::ReadWrite).unwrap();
            fs::set_permissions(mount.join("big"), fs::Permissions::from_mode(0o604)).unwrap();
            let stopped = Judge::XfsIo.command().args(["-x", "-c", "shutdown -f"]).arg(mount.path()).status();
            assert!(stopped.unwrap().success());
            mount.unmount().unwrap();
        })
    }

    /// With a change before it lies.
    fn after(name: &str, change: impl FnOnce(&Path)) -> Self {
        let lie = Self { folder: TempDir::with_prefix_in("uxfs-lie-", memory_folder()).unwrap() };
        sparse::unpack(&fixture("base.img.zst"), &lie.path("image")).unwrap();
        change(&lie.path("image"));
        let image = fs::File::options().write(true).open(lie.path("image")).unwrap();
        let patch = fs::read_to_string(fixture(&format!("{name}.patch"))).unwrap();
        for line in patch.lines() {
            let (offset, bytes) = line.trim_start_matches("0x").split_once(' ').unwrap();
            let offset = u64::from_str_radix(offset, 16).unwrap();
            image.write_all_at(&bytes_of(bytes), offset).unwrap();
        }
        for (file, length) in [("large", 20_000_000), ("small", 20_000)] {
            fs::write(lie.path(file), vec![b'n'; length]).unwrap();
        }
        lie
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The exit code of a command. `IMAGE`, `LARGE` and `SMALL` are the image and files of the host, `SCRIPT` is the contents of
    /// one.
    fn run(&self, command: &str) -> i32 {
        let path = |name: &str| text(&self.path(name)).to_owned();
        let words = command.split(' ').map(|word| match word {
            "IMAGE" | "LARGE" | "SMALL" => path(&word.to_lowercase()),
            "SCRIPT" => fs::read_to_string(self.path("script")).unwrap(),
            _ => word.to_owned(),
        });
        let words: Vec<String> = words.collect();
        let output = uxfs(&words.iter().map(String::as_str).collect::<Vec<_>>());
        eprintln!("{command}: {:?}, {}", output.status, String::from_utf8_lossy(&output.stderr));
        output.status.code().unwrap_or(-1)
    }

    /// Copies the tree to a folder of the host, as far as it can be read, without the paths that were named.
    fn extract(&self, folder: &str, named: &[&str]) {
        fs::create_dir(self.path(folder)).unwrap();
        uxfs(&["extract", text(&self.path("image")), "--to", text(&self.path(folder))]);
        for path in named {
            let path = self.path(folder).join(path);
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }

    /// Runs commands of which each may be refused, and gives their exit codes. Only the paths that they name differ afterwards.
    fn edit(&self, commands: &[&str], named: &[&str]) -> Vec<i32> {
        self.extract("before", named);
        let codes: Vec<i32> = commands.iter().map(|command| self.run(command)).collect();
        assert!(codes.iter().all(|code| [0, 1, CORRUPT].contains(code)), "{codes:?}");
        self.extract("after", named);
        let paths = ["before", "after"].map(|folder| self.path(folder));
        let output = Command::new("diff").args(["-r", "--no-dereference"]).args(&paths).output().unwrap();
        let difference = String::from_utf8_lossy(&output.stdout);
        // It calls special files of one type different.
        let is_of_one_type = |line: &&str| {
            let types: Vec<&str> = line.split(" is a ").skip(1).collect();
            types.len() == 2 && types[0].split(" while ").next() == types.get(1).copied()
        };
        let lines: Vec<&str> = difference.lines().filter(|line| !is_of_one_type(line)).take(20).collect();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
        let count = fs::read_dir(self.path("before")).unwrap().count();
        assert!(count > 5, "{count} entries in the root directory");
        codes
    }
}

#[test]
fn a_chunk_with_inodes_in_use_does_not_become_free() {
    let lie = Lie::new("chunk-without-inodes");
    let commands = ["rm IMAGE /a/f0", "put IMAGE LARGE /new1", "put IMAGE LARGE /new2"];
    let codes = lie.edit(&commands, &["a/f0", "new1", "new2"]);
    assert_eq!(codes[1..], [0, 0]);
    assert_ne!(codes[0], 0);
}

#[test]
fn inodes_are_not_made_in_the_contents_of_a_file() {
    let lie = Lie::new("chunk-in-a-file");
    let names: Vec<String> = (0..600).map(|number| format!("a/new{number}")).collect();
    let script: Vec<String> = names.iter().map(|name| format!("touch /{name}")).collect();
    fs::write(lie.path("script"), script.join("\n")).unwrap();
    let codes = lie.edit(&["shell IMAGE -c SCRIPT"], &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_ne!(codes, [0]);
}

#[test]
fn inodes_that_all_btrees_of_a_group_call_free_are_not_overwritten() {
    let lie = Lie::new("free-inodes");
    lie.edit(&["put IMAGE SMALL /new", "put IMAGE LARGE /new1"], &["new", "new1"]);
}

#[test]
fn files_and_directories_with_names_are_not_freed_as_unlinked_inodes() {
    for name in ["file-without-links", "directory-without-links"] {
        let lie = Lie::new(name);
        let codes = lie.edit(&["mkdir IMAGE /new", "mkdir IMAGE /new1"], &["new", "new1"]);
        assert_eq!(codes, [0, 0], "{name}");
    }
}

#[test]
fn replay_tells_of_unlinked_inodes_in_use() {
    require!(Judge::Kernel, Judge::XfsIo);
    for name in ["file-without-links", "directory-without-links"] {
        let lie = Lie::dirty(name);
        let image = lie.path("image");
        for command in [&["replay", "-n", text(&image)][..], &["replay", text(&image)]] {
            let output = uxfs(command);
            assert_eq!(output.status.code(), Some(CORRUPT), "{name}");
            let report = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(report.contains("1 inodes on unlinked lists are in use, and were not freed"), "{report}");
            assert!(report.contains("0 unlinked inodes,"), "{report}");
        }
    }
}

#[test]
fn an_intent_does_not_free_blocks_of_a_file() {
    let lie = Lie::new("free-intent-of-a-file");
    let large = ["put IMAGE LARGE /new1", "put IMAGE LARGE /new2", "put IMAGE LARGE /new3"];
    let commands = [&["mkdir IMAGE /new"], large.as_slice()].concat();
    lie.edit(&commands, &["new", "new1", "new2", "new3"]);
}

/// Through the entry `/del/t/u` nothing of `/big` can be changed.
#[test]
fn an_entry_does_not_lead_changes_into_another_tree() {
    let refused = [
        "rm -r IMAGE /del",
        "chmod -R IMAGE 000 /del",
        "chown -R IMAGE 7:7 /del",
        "put IMAGE SMALL /del/t/u/new",
        "put -r IMAGE SMALL /del/t/u",
        "mkdir IMAGE /del/t/u/new",
        "rm IMAGE /del/t/u/e0",
        "mv IMAGE /del/t/u /new",
        "cp IMAGE /a/f1 /del/t/u/new",
        "ln IMAGE /a/f1 /del/t/u/new",
        "truncate -s 0 IMAGE /del/t/u/e0",
        "chmod IMAGE 000 /del/t/u",
    ];
    for command in refused {
        let lie = Lie::new("entry-of-another-directory");
        let codes = lie.edit(&[command], &["del"]);
        assert_eq!(codes, [CORRUPT], "{command}");
    }
}

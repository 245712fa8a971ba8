//! `uxfs rescue` where no repair comes to an end: files are taken from the image as it is, whatever names it has.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value as Json;
use uxfs_format::checksum;
use uxfs_testkit::image::memory_folder;

use crate::common::{succeeds, text, uxfs};

/// Directories that are lost, and files in each of them.
const DIRECTORIES: usize = 60;
const FILES: usize = 12;
const BLOCK_BYTES: usize = 4096;
const INODE_BYTES: u64 = 512;

/// A file system that is full: files whose directories are lost have no room in `lost+found`.
struct Full {
    folder: tempfile::TempDir,
    image: PathBuf,
}

impl Full {
    fn new(options: &[&str], fill: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let (source, image) = (folder.path().join("source"), folder.path().join("image"));
        fs::create_dir(&source).unwrap();
        fill(&source);
        let full = Self { folder, image };
        full.make(&source, options);
        fs::remove_dir_all(&source).unwrap();
        full
    }

    /// Makes the image, with a file that leaves a few blocks free.
    fn make(&self, source: &Path, options: &[&str]) {
        let mut arguments = vec!["mkfs", "-f", "--unsupported", "-m", "rmapbt=0,reflink=0,finobt=0"];
        arguments.extend(["-d", "agcount=1", "--size", "24M", "--from", text(source)]);
        arguments.extend(options);
        arguments.push(text(&self.image));
        let (mut least, mut most) = (0, 6000);
        while least + 1 < most {
            let blocks = usize::midpoint(least, most);
            fs::write(source.join("big"), vec![b'x'; blocks * BLOCK_BYTES]).unwrap();
            match uxfs(&arguments).status.success() {
                true => least = blocks,
                false => most = blocks,
            }
        }
        fs::write(source.join("big"), vec![b'x'; least * BLOCK_BYTES]).unwrap();
        succeeds(&arguments);
    }

    fn inode_of(&self, path: &str) -> u64 {
        let stat: Json =
            serde_json::from_str(&succeeds(&["stat", "--json", text(&self.image), path])).unwrap();
        stat["inode"].as_u64().unwrap()
    }

    /// Overwrites the inodes of the directories that [`directories`] has made.
    fn lose_directories(&self) {
        let numbers: Vec<u64> =
            (0..DIRECTORIES).map(|number| self.inode_of(&format!("/d{number}"))).collect();
        numbers.into_iter().for_each(|inode| self.lose(inode));
    }

    fn lose(&self, inode: u64) {
        let file = OpenOptions::new().write(true).open(&self.image).unwrap();
        file.write_all_at(&[0xa5; INODE_BYTES as usize], inode * INODE_BYTES).unwrap();
    }

    /// Gives entries of directory blocks, and of directories within their inodes, other names of the same length, with the checksum made
    /// right.
    fn rename(&self, names: &[(&[u8], &[u8])]) {
        let mut bytes = fs::read(&self.image).unwrap();
        // Size, magic, place of the checksum, end of the header, distance from the length of a name to the name. Headers hold random
        // numbers, which may look like a short name.
        let block = (BLOCK_BYTES, b"XDB3".as_slice(), 4, 64, 1);
        let inode = (INODE_BYTES as usize, b"IN".as_slice(), 100, 176, 3);
        for (old, new) in names {
            let mut renamed = 0;
            for (length, magic, checksum_at, header_bytes, distance) in [block, inode] {
                for piece in bytes.chunks_mut(length).filter(|piece| piece.starts_with(magic)) {
                    let is_entry = |at: &usize| {
                        piece[*at..].starts_with(old) && usize::from(piece[at - distance]) == old.len()
                    };
                    let Some(at) = (header_bytes + distance..length).find(is_entry) else { continue };
                    piece[at..at + old.len()].copy_from_slice(new);
                    assert!(checksum::seal(piece, checksum_at));
                    renamed += 1;
                }
            }
            assert_eq!(renamed, 1, "{}", old.escape_ascii());
        }
        fs::write(&self.image, bytes).unwrap();
    }

    /// Rescues into `to`. No repair must come to an end.
    fn rescue(&self, more: &[&str]) -> (Output, Vec<Json>) {
        let to = self.to();
        let output = uxfs(
            &[&["rescue", "--no-log-copies", "--json", text(&self.image), "--to", text(&to)], more].concat(),
        );
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("no repair is possible (no space left"), "{told}");
        assert_eq!(output.status.code(), Some(3), "{told}");
        let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
        (output.clone(), lines.map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn to(&self) -> PathBuf {
        self.folder.path().join("to")
    }
}

/// Directories without blocks, each with some empty files.
fn directories(source: &Path) {
    for directory in 0..DIRECTORIES {
        let directory = source.join(format!("d{directory}"));
        fs::create_dir(&directory).unwrap();
        (0..FILES).for_each(|file| fs::write(directory.join(format!("f{file}")), "").unwrap());
    }
}

fn lines_below<'a>(lines: &'a [Json], folder: &str) -> Vec<&'a Json> {
    let is_below = |line: &&Json| line["path"].as_str().is_some_and(|path| path.starts_with(folder));
    lines.iter().filter(is_below).collect()
}

fn line_of<'a>(lines: &'a [Json], path: &str) -> &'a Json {
    lines.iter().find(|line| line["path"] == path).unwrap_or_else(|| panic!("nothing of {path}"))
}

/// A repair has no room for lost+found: it says so, and names the rescue, which brings every file.
#[test]
fn files_that_nothing_leads_to_come_out_where_no_repair_ends() {
    let full = Full::new(&["-n", "parent=0"], |source| {
        directories(source);
        fs::create_dir(source.join("d0/below")).unwrap();
        fs::write(source.join("d0/below/file"), "below").unwrap();
    });
    let (kept, below) = (full.inode_of("/d1/f3"), full.inode_of("/d0/below"));
    full.lose_directories();
    let repair = uxfs(&["repair", "--no-log-copies", text(&full.image)]);
    let told = String::from_utf8_lossy(&repair.stderr).into_owned();
    assert_eq!(repair.status.code(), Some(1), "{told}");
    assert!(told.contains("nothing was written; uxfs rescue ") && told.contains(" --to DIR"), "{told}");
    let (_, lines) = full.rescue(&[]);
    assert_eq!(lines[0]["origin"], "damaged", "{}", lines[0]);
    let strays = lines_below(&lines, "/lost+found/");
    assert_eq!(strays.len(), DIRECTORIES * FILES + 2, "{:?}", strays.first());
    let name = format!("/lost+found/{kept}");
    assert_eq!(line_of(&lines, &name)["state"], "inferred");
    assert!(full.to().join(&name[1..]).is_file());
    // A directory that nothing leads to comes with all that is in it.
    let file = full.to().join(format!("lost+found/{below}/file"));
    assert_eq!(fs::read(file).unwrap(), b"below");
    assert!(fs::read(full.to().join("big")).unwrap().iter().all(|byte| *byte == b'x'));
    let lost = lines.iter().filter(|line| line["state"] == "lost").count();
    assert_eq!(lost, DIRECTORIES, "the directories themselves");
}

/// Names that lead elsewhere, or through a symbolic link of the same name, write nothing outside of the target; all others are kept as
/// they are.
#[test]
fn no_name_leads_out_of_the_target() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    let full = Full::new(&["-n", "parent=0"], |source| {
        directories(source);
        for folder in ["evil", "twice"] {
            let folder = source.join(folder);
            fs::create_dir(&folder).unwrap();
            symlink(outside.path(), folder.join("linkaaa")).unwrap();
            symlink(&victim, folder.join("filexxx")).unwrap();
        }
        let twice = source.join("twice");
        fs::create_dir(twice.join("linkbbb")).unwrap();
        fs::write(twice.join("linkbbb/inside"), "inside").unwrap();
        fs::write(twice.join("fileyyy"), "written").unwrap();
        let evil = source.join("evil");
        for name in
            [b"slashxx".as_slice(), b"nul_xxx", b"z!", b"control\n\x1b[31m", b"\xff\xfe", &[b'L'; 255]]
        {
            fs::write(evil.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name)), "evil")
                .unwrap();
        }
    });
    full.lose_directories();
    full.rename(&[
        (b"slashxx", b"../evil"),
        (b"nul_xxx", b"nul\0xxx"),
        (b"z!", b".."),
        (b"linkbbb", b"linkaaa"),
        (b"fileyyy", b"filexxx"),
    ]);
    let untouched = || assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "something is outside");
    let (output, lines) = full.rescue(&[]);
    untouched();
    assert!(!String::from_utf8_lossy(&output.stdout).contains("panicked"));
    let evil = line_of(&lines, "/evil");
    assert_eq!(evil["state"], "partial", "{evil}");
    for line in lines_below(&lines, "/evil/") {
        let path = line["path"].as_str().unwrap();
        assert!(!path.contains('\0') && !path.ends_with("/..") && !path.contains("../"), "{line}");
    }
    // What has such a name comes out all the same, by its number.
    let strays = full.to().join("lost+found");
    let contents =
        fs::read_dir(&strays).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap_or_default());
    assert!(contents.filter(|contents| contents == b"evil").count() >= 3);
    // Of two of a name the directory comes first; the link does not take its place.
    let twice = full.to().join("twice");
    assert_eq!(fs::read(twice.join("linkaaa/inside")).unwrap(), b"inside");
    assert!(!twice.join("linkaaa").is_symlink());
    assert_eq!(fs::read_link(twice.join("filexxx")).unwrap(), victim);
    assert_eq!(fs::read(twice.join("filexxx.2")).unwrap(), b"written");
    let states: Vec<_> =
        lines_below(&lines, "/twice/linkaaa").iter().map(|line| line["state"].clone()).collect();
    assert!(states.contains(&"inferred".into()) && !states.contains(&"lost".into()), "{states:?}");
    assert!(twice.join("linkaaa.2").is_symlink());
    // Links of an earlier rescue, or of somebody else, are not followed.
    for name in ["linkaaa", "filexxx"] {
        let place = twice.join(name);
        let _ = fs::remove_dir_all(&place);
        let _ = fs::remove_file(&place);
        symlink(outside.path(), &place).unwrap();
    }
    full.rescue(&["--resume"]);
    untouched();
    assert_eq!(fs::read(twice.join("linkaaa/inside")).unwrap(), b"inside");
}

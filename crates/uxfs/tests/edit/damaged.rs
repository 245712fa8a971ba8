//! Images that lie with right checksums: `xfs_db` writes the lies. An edit may be refused; it takes nothing with it that it
//! did not name, and it locks no image.

use std::{fs, path::Path};

use tempfile::TempDir;
use uxfs_testkit::{image, judges::Judge, require, verdict};

use crate::common::{succeeds, text, uxfs};

/// Corruption found.
const CORRUPT: i32 = 3;

/// Lets `xfs_db` run commands, and gives what it prints.
fn database(path: &Path, commands: &[&str]) -> String {
    let mut judge = Judge::XfsDb.command();
    judge.arg("-x");
    for command in commands {
        judge.args(["-c", command]);
    }
    let output = judge.arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The value of a field.
fn field(path: &Path, commands: &[&str], name: &str) -> u64 {
    let print = format!("print {name}");
    let words = database(path, &[commands, &[&print]].concat());
    let value = words.rsplit('=').next().unwrap_or_default().trim();
    let number =
        value.strip_prefix("0x").map_or_else(|| value.parse(), |digits| u64::from_str_radix(digits, 16));
    number.unwrap_or_else(|_| panic!("{name}: {words}"))
}

fn inode_of(path: &Path, file: &str) -> u64 {
    let words = succeeds(&["stat", "--json", text(path), file]);
    let number = words.split("\"inode\":").nth(1).unwrap_or_else(|| panic!("{words}"));
    number.split([',', '}', '\n']).next().unwrap().trim().parse().unwrap()
}

/// Fails with damage, and gives what it says.
fn refused(arguments: &[&str]) -> String {
    let output = uxfs(arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(CORRUPT), "{arguments:?}: {words}");
    words
}

struct Image {
    folder: TempDir,
}

impl Image {
    fn new(options: &[&str]) -> Self {
        let image = Self { folder: TempDir::with_prefix_in("uxfs-lies-", image::memory_folder()).unwrap() };
        image::make(&image.path(), 64 << 20, options).unwrap();
        image
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("image")
    }

    /// A file of the host.
    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        text(&path).to_owned()
    }

    /// What `xfs_repair` finds, whatever the order of its threads.
    fn findings(&self) -> Vec<String> {
        let mut findings = verdict::repair_findings(&self.path()).unwrap();
        findings.sort();
        findings
    }

    fn cat(&self, file: &str) -> Vec<u8> {
        let output = uxfs(&["cat", text(&self.path()), file]);
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

#[test]
fn a_refused_replacement_frees_nothing_of_the_file() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let image = Image::new(&[]);
    let path = image.path();
    // Extents between holes, more than the inode holds.
    let source = image.folder.path().join("source");
    let file = fs::File::create(&source).unwrap();
    for number in 0..200 {
        use std::os::unix::fs::FileExt;
        file.write_all_at(&[number as u8 | 1; 4096], number * 65536).unwrap();
    }
    succeeds(&["put", text(&path), text(&source), "/fragmented"]);
    let inode = format!("inode {}", inode_of(&path, "/fragmented"));
    database(&path, &[&inode, "write -d u3.bmbt.keys[1].startoff 12"]);
    let (before, findings) = (image.cat("/fragmented"), image.findings());
    assert!(findings.iter().any(|finding| finding.contains("bad key in bmbt root")), "{findings:?}");
    let small = image.file("small", &[5; 10_000]);
    for _ in 0..2 {
        let words = refused(&["put", text(&path), &small, "/fragmented"]);
        assert!(words.contains("extent map btree"), "{words}");
        assert_eq!(succeeds(&["ls", text(&path)]), "fragmented\n");
        assert!(image.cat("/fragmented") == before, "other contents after a refused edit");
        assert_eq!(image.findings(), findings);
    }
    // What is sound can be changed, in the same mount too.
    let script = format!("put {small} /fragmented; put {small} /other; mkdir /directory");
    let output = uxfs(&["shell", text(&path), "-k", "-c", &script]);
    assert!(!output.status.success());
    assert_eq!(image.cat("/other"), [5; 10_000]);
    assert_eq!(image.findings(), findings);
}

#[test]
fn nothing_is_written_into_space_that_is_owned() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    // With a reverse map, and without.
    for (options, found) in [
        (&["-d", "agcount=1"][..], "blocks of it belong to inode chunks"),
        (&["-d", "agcount=1", "-m", "rmapbt=0,reflink=0"], "blocks of a chunk of inodes"),
    ] {
        let image = Image::new(options);
        let path = image.path();
        let file = image.file("file", &[9; 500_000]);
        succeeds(&["put", text(&path), &file, "/first"]);
        let root = field(&path, &["sb 0"], "rootino");
        let words = database(&path, &[&format!("convert ino {root} agblock")]);
        let chunk: u64 = words.split(['(', ')']).nth(1).unwrap().parse().unwrap();
        // The longest free extent begins with the inodes.
        for tree in ["bnoroot", "cntroot"] {
            let place = ["agf 0", &format!("addr {tree}")];
            let last = format!("recs[{}]", field(&path, &place, "numrecs"));
            let start = field(&path, &place, &format!("{last}.startblock"));
            let blocks = field(&path, &place, &format!("{last}.blockcount"));
            let count = format!("write -d {last}.blockcount {}", start + blocks - chunk);
            let start = format!("write -d {last}.startblock {chunk}");
            database(&path, &[place[0], place[1], &start, &count]);
        }
        let listing = succeeds(&["ls", "-lR", text(&path)]);
        let words = refused(&["put", text(&path), &file, "/second"]);
        assert!(words.contains(found), "{words}");
        assert_eq!(succeeds(&["ls", "-lR", text(&path)]), listing, "{options:?}");
        assert_eq!(image.cat("/first"), [9; 500_000]);
    }
}

/// Two directories with a file each, and what is written into the first entry of `/a`.
fn with_entry_of_another(options: &[&str]) -> Image {
    let image = Image::new(options);
    let path = image.path();
    let (one, other) = (image.file("one", b"one"), image.file("other", b"other"));
    succeeds(&["mkdir", text(&path), "/a", "/b", "/b/below"]);
    succeeds(&["put", text(&path), &one, "/a/x"]);
    succeeds(&["put", text(&path), &other, "/b/y"]);
    image
}

#[test]
fn an_entry_that_names_the_inode_of_another_takes_nothing_along() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let image = with_entry_of_another(&[]);
    let path = image.path();
    let directory = format!("inode {}", inode_of(&path, "/a"));
    let lie = format!("write -d u3.sfdir3.list[0].inumber.i4 {}", inode_of(&path, "/b/y"));
    database(&path, &[&directory, &lie]);
    assert_eq!(image.cat("/a/x"), b"other");
    let image_path = text(&path);
    let small = image.file("small", b"small");
    succeeds(&["put", image_path, &small, "/other"]);
    for arguments in [
        &["rm", image_path, "/a/x"][..],
        &["mv", image_path, "/a/x", "/moved"],
        &["mv", image_path, "/other", "/a/x"],
    ] {
        let words = refused(arguments);
        assert!(words.contains("has no parent pointer for its entry"), "{words}");
        assert_eq!(image.cat("/b/y"), b"other", "{arguments:?}");
        assert_eq!(image.cat("/a/x"), b"other", "{arguments:?}");
    }
    succeeds(&["rm", image_path, "/b/y"]);
}

#[test]
fn a_directory_is_removed_from_where_it_is_only() {
    require!(Judge::Mkfs, Judge::XfsDb);
    // `..` says it where there are no parent pointers.
    for options in [&["-n", "parent=1"][..], &["-n", "parent=0"]] {
        let image = with_entry_of_another(options);
        let path = image.path();
        succeeds(&["mkdir", text(&path), "/a/empty"]);
        let directory = format!("inode {}", inode_of(&path, "/a"));
        let lie = format!("write -d u3.sfdir3.list[1].inumber.i4 {}", inode_of(&path, "/b/below"));
        database(&path, &[&directory, &lie]);
        let words = refused(&["rmdir", text(&path), "/a/empty"]);
        assert!(words.contains("`..` of directory"), "{words}");
        refused(&["mv", text(&path), "/a/empty", "/moved"]);
        assert_eq!(succeeds(&["ls", text(&path), "/b"]), "below\ny\n");
    }
}

#[test]
fn entries_agree_with_type_and_links_of_their_inodes() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let image = with_entry_of_another(&["-n", "parent=0"]);
    let path = image.path();
    let directory = format!("inode {}", inode_of(&path, "/a"));
    // An entry for a symbolic link.
    database(&path, &[&directory, "write -d u3.sfdir3.list[0].filetype 7"]);
    let words = refused(&["rm", text(&path), "/a/x"]);
    assert!(words.contains("the entry says that inode"), "{words}");
    let directory = format!("inode {}", inode_of(&path, "/b"));
    database(&path, &[&directory, "write -d core.nlinkv2 2"]);
    let words = refused(&["rmdir", text(&path), "/b/below"]);
    assert!(words.contains("link count of 2, and a subdirectory"), "{words}");
    assert_eq!(image.cat("/a/x"), b"one");
}

#[test]
fn a_link_count_that_is_too_low_does_not_free_a_file_with_names() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let image = with_entry_of_another(&[]);
    let path = image.path();
    succeeds(&["ln", text(&path), "/b/y", "/a/second"]);
    let inode = format!("inode {}", inode_of(&path, "/b/y"));
    database(&path, &[&inode, "write -d core.nlinkv2 1"]);
    let words = refused(&["rm", text(&path), "/a/second"]);
    assert!(words.contains("more parent pointers"), "{words}");
    assert_eq!(image.cat("/b/y"), b"other");
}

#[test]
fn damaged_attributes_are_met_before_the_owner_or_the_contents_change() {
    require!(Judge::Mkfs, Judge::XfsDb);
    for options in [&[][..], &["-n", "parent=0"]] {
        let image = Image::new(options);
        let path = image.path();
        let (old, new) = (image.file("old", b"old contents"), image.file("new", b"new contents"));
        succeeds(&["put", text(&path), &old, "/file"]);
        for name in ["one", "two", "three"] {
            let (name, value) = (format!("user.{name}"), "v".repeat(300));
            succeeds(&["setfattr", "-n", &name, "-v", &value, text(&path), "/file"]);
        }
        let inode = format!("inode {}", inode_of(&path, "/file"));
        database(&path, &[&inode, "ablock 0", "write -d hdr.count 60000"]);
        let owner = || field(&path, &[&inode], "core.uid");
        assert_eq!(owner(), 0);
        refused(&["chown", text(&path), "1234:1234", "/file"]);
        assert_eq!(owner(), 0, "{options:?}");
        refused(&["put", text(&path), &new, "/file"]);
        assert_eq!(image.cat("/file"), b"old contents", "{options:?}");
    }
}

#[test]
fn an_entry_that_is_named_as_the_parent_is_not_passed_over() {
    require!(Judge::Mkfs, Judge::XfsDb);
    for name in ["..", "."] {
        let image = Image::new(&["-n", "parent=0"]);
        let path = image.path();
        let old = image.file("old", b"old contents");
        succeeds(&["mkdir", text(&path), "/d"]);
        let entry = "x".repeat(name.len());
        succeeds(&["put", text(&path), &old, &format!("/d/{entry}")]);
        let file = format!("inode {}", inode_of(&path, &format!("/d/{entry}")));
        let directory = format!("inode {}", inode_of(&path, "/d"));
        let written = database(
            &path,
            &[&directory, &format!("write -d u3.sfdir3.list[0].name \"{name}\""), "print u3"],
        );
        assert!(written.contains(&format!("list[0].name = \"{name}\"")), "{written}");
        for command in [&["rm", "-r"][..], &["rmdir"], &["chmod", "-R", "700"]] {
            let (verb, options) = command.split_first().unwrap();
            let words = match options {
                ["-R", mode] => refused(&[verb, "-R", text(&path), mode, "/d"]),
                _ => refused(&[&[*verb], options, &[text(&path), "/d"]].concat()),
            };
            assert!(words.contains("not one of the first two"), "{words}");
        }
        assert_eq!(field(&path, &[&file], "core.nlinkv2"), 1, "{name}");
        assert_eq!(format!("inode {}", inode_of(&path, "/d")), directory);
    }
}

/// Without parent pointers the file type in the entry is all that tells of it.
#[test]
fn an_entry_of_another_file_type_leads_no_change_into_a_directory() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let image = Image::new(&["-n", "parent=0"]);
    let path = image.path();
    let name = text(&path);
    succeeds(&[
        "shell",
        name,
        "-c",
        "mkdir -p a/b/c sp; touch sp/x sp/y a/b/f; setfattr -n user.a -v b a/b/f",
    ]);
    succeeds(&["put", name, &image.file("end", &[1; 20_000]), "/a/b/c/end"]);
    let [b, sp] = ["/a/b", "/sp"].map(|file| inode_of(&path, file));
    database(&path, &[&format!("inode {sp}"), &format!("write -d u3.sfdir3.list[0].inumber.i4 {b}")]);
    database(&path, &[&format!("inode {b}"), &format!("write -d u3.sfdir3.hdr.parent.i4 {sp}")]);
    assert_eq!(inode_of(&path, "/sp/x"), b, "xfs_db writes the lie");
    let stat = |path: &str| succeeds(&["stat", name, path]);
    let before = [stat("/a/b"), stat("/a/b/f"), stat("/a/b/c/end")];
    for command in [
        &["rm", "-r", name, "/sp"][..],
        &["rm", "-r", name, "/sp/x"],
        &["chmod", "-R", name, "700", "/sp"],
        &["chown", "-R", name, "7:7", "/sp"],
        &["rm", "-r", name, "/sp/x/c"],
        &["touch", name, "/sp/x/new"],
        &["mv", name, "/sp/x", "/elsewhere"],
    ] {
        let words = refused(command);
        assert!(words.contains("the entry says that inode"), "{command:?}: {words}");
        assert_eq!([stat("/a/b"), stat("/a/b/f"), stat("/a/b/c/end")], before, "{command:?}");
    }
    assert_eq!(image.cat("/a/b/c/end"), [1; 20_000]);
}

/// Invariant 5 of the transaction.
#[test]
fn blocks_that_no_fork_has_are_not_logged() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    for (options, count) in [(&[][..], 6), (&["-m", "rmapbt=0,reflink=0", "-n", "parent=0"], 31)] {
        let image = Image::new(options);
        let path = image.path();
        let contents = image.file("contents", &[7; 20_000]);
        succeeds(&["mkdir", text(&path), "/t"]);
        succeeds(&["put", text(&path), &contents, "/t/a"]);
        let inode = format!("inode {}", inode_of(&path, "/t/a"));
        database(&path, &[&inode, &format!("write -d core.nblocks {count}")]);
        let findings = image.findings();
        assert!(findings.iter().any(|finding| finding.contains("bad nblocks")), "{findings:?}");
        // A checkpoint between the two changes: what the log has of the first must be what recovery takes.
        for script in
            ["truncate -s 0 /t/a", "truncate -s 0 /t/a; sync; rm /t/a", "mv /t/a /t/b; truncate -s 0 /t/b"]
        {
            let words = refused(&["shell", text(&path), "-k", "-c", script]);
            assert!(words.contains("blocks, but no extents"), "{words}");
            succeeds(&["mkdir", "-p", text(&path), "/elsewhere"]);
            succeeds(&["ls", "-lR", text(&path)]);
            assert!(image.cat("/t/a") == [7; 20_000], "other contents after a refused edit");
            assert_eq!(image.findings(), findings);
        }
        // Removal frees the contents last, after the name is gone.
        let words = refused(&["rm", text(&path), "/t/a"]);
        assert!(words.contains("blocks, but no extents"), "{words}");
        succeeds(&["mkdir", text(&path), "/afterwards"]);
        succeeds(&["ls", "-lR", text(&path)]);
    }
}

/// `/f` with attributes in several leaves, and three whose values have blocks of their own. Gives the leaf and the entry of
/// the second.
fn with_remote_values() -> (Image, String, String) {
    let image = Image::new(&[]);
    let path = image.path();
    let mut script = "touch /f\n".to_owned();
    for number in 0..200 {
        script += &format!("setfattr -n user.local_{number:04} -v {number:060} /f\n");
    }
    for number in 0..3 {
        script += &format!("setfattr -n user.remote{number} -v 0x{} /f\n", "61".repeat(4000));
    }
    succeeds(&["shell", text(&path), "-c", &script]);
    let inode = format!("inode {}", inode_of(&path, "/f"));
    for block in 1..8 {
        let leaf = format!("ablock {block}");
        for entry in 0..60 {
            let name = database(&path, &[&inode, &leaf, &format!("print nvlist[{entry}].name")]);
            if name.contains("\"remote1\"") {
                return (image, leaf, format!("nvlist[{entry}]"));
            }
        }
    }
    panic!("no such attribute");
}

#[test]
fn a_removed_value_takes_no_other_attribute_along() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let (image, leaf, entry) = with_remote_values();
    let path = image.path();
    let inode = format!("inode {}", inode_of(&path, "/f"));
    let place = field(&path, &[&inode, &leaf], &format!("{entry}.valueblk"));
    let small = ["setfattr", "-n", "user.remote1", "-v", "aa", text(&path), "/f"];
    let removal = ["setfattr", "-x", "user.remote1", text(&path), "/f"];
    // The leaf of the entry itself, others, a value too far, and two values at once.
    for (block, length) in [(1, 4000), (2, 4000), (7, 4000), (place - 1, 8000), (place, 8000)] {
        let lie = [("valueblk", block), ("valuelen", length)];
        for (name, value) in lie {
            database(&path, &[&inode, &leaf, &format!("write -d {entry}.{name} {value}")]);
        }
        let findings = image.findings();
        for command in [&small[..], &removal] {
            refused(command);
            for name in ["user.local_0003", "user.local_0150", "user.remote0", "user.remote2"] {
                succeeds(&["xattr", text(&path), "/f", "-n", name]);
            }
            succeeds(&["mkdir", "-p", text(&path), "/elsewhere"]);
            assert_eq!(image.findings(), findings, "{block} {length} {command:?}");
        }
    }
    for (name, value) in [("valueblk", place), ("valuelen", 4000)] {
        database(&path, &[&inode, &leaf, &format!("write -d {entry}.{name} {value}")]);
    }
    succeeds(&removal);
    assert_eq!(image.findings(), Vec::<String>::new());
}

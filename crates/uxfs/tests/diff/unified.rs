//! The lines that differ: patch(1) makes the second tree of the first with them, and they are those of GNU diff.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use uxfs_testkit::{
    image::memory_folder,
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
    seeds::{Random, Seed},
};

use super::{
    common::{succeeds, text},
    random_tree::{Names, RandomTree, Shape},
    trees::Two,
};
use crate::common::program;

/// Of each path: type, permissions, and bytes or target.
type Files = BTreeMap<Vec<u8>, (u32, u32, Vec<u8>)>;

const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;

fn files(root: &Path) -> Files {
    let mut files = Files::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let kind = found.mode() & 0o170_000;
            let bytes = match kind {
                REGULAR => shortened(fs::read(&path).unwrap()),
                LINK => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
                _ => Vec::new(),
            };
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            files.insert(name, (kind, found.mode() & 0o777, bytes));
            if kind == DIRECTORY {
                pending.push(path);
            }
        }
    }
    files
}

/// The bytes of a text; of any other file enough to tell it from others.
fn shortened(bytes: Vec<u8>) -> Vec<u8> {
    if !bytes.contains(&0) {
        return bytes;
    }
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    [&[0], &hasher.finish().to_le_bytes()[..]].concat()
}

/// Without hard links: patch(1) looks at inodes, and takes the second of two names that it shall remove for one that it has removed.
const WITHOUT_HARD_LINKS: [&str; 2] = ["-a", "--no-preserve=links"];

/// A copy of the first tree, to which a patch was applied.
fn patched(first: &Path, patch: &[u8], copying: &[&str]) -> (TempDir, Files) {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (copy, file) = (folder.path().join("copy"), folder.path().join("patch"));
    let status = Command::new("cp").args(copying).args([first, &copy]).status().unwrap();
    assert!(status.success());
    fs::write(&file, patch).unwrap();
    if has_lines(patch) {
        let output = Command::new("patch")
            .args(["-p1", "-s", "--no-backup-if-mismatch", "-d", text(&copy)])
            .stdin(File::open(&file).unwrap())
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let told = [output.stdout, output.stderr].concat();
        if !output.status.success() {
            let kept = std::env::temp_dir().join("failed.patch");
            fs::write(&kept, patch).unwrap();
            panic!("{}: {}", kept.display(), String::from_utf8_lossy(&told));
        }
    }
    let files = files(&copy);
    (folder, files)
}

/// Whether patch(1) finds something in it.
fn has_lines(patch: &[u8]) -> bool {
    patch
        .split(|byte| *byte == b'\n')
        .any(|line| line.starts_with(b"diff --git ") || line.starts_with(b"@@ "))
}

fn has_text(file: Option<&(u32, u32, Vec<u8>)>) -> bool {
    file.is_some_and(|(kind, _, bytes)| matches!(*kind, REGULAR | LINK) && !bytes.contains(&0))
}

/// All that has text is as in the second tree, and all else as in the first. Gives how many files differed.
fn assert_patched(first: &Files, second: &Files, applied: &Files) -> usize {
    let mut differed = 0;
    let paths: BTreeSet<&Vec<u8>> = first.keys().chain(second.keys()).chain(applied.keys()).collect();
    for path in paths {
        let is_hidden = (0..path.len()).filter(|index| path[*index] == b'/').any(|slash| {
            let kind = |files: &Files| files.get(&path[..slash]).map(|file| file.0);
            let (one, two) = (kind(first), kind(second));
            one.is_some() && two.is_some() && one != two
        });
        let (one, two, found) = (first.get(path), second.get(path), applied.get(path));
        let is_directory = [one, two].into_iter().flatten().any(|file| file.0 == DIRECTORY);
        if is_hidden || is_directory {
            continue;
        }
        let expected = match (one, two) {
            (None, two) if has_text(two) => two,
            // patch(1) would ask.
            (Some((REGULAR, _, bytes)), None | Some((LINK, ..))) if bytes.is_empty() => one,
            (one, None) if has_text(one) => None,
            (one, two) if has_text(one) && has_text(two) => two,
            // Permissions alone.
            (Some((REGULAR, _, bytes)), Some((REGULAR, mode, other))) if bytes == other => {
                assert_eq!(found, Some(&(REGULAR, *mode, bytes.clone())), "{}", path.escape_ascii());
                continue;
            }
            (one, _) => one,
        };
        // Permissions of links are no one's.
        let plain = |file: Option<&(u32, u32, Vec<u8>)>| {
            file.map(|(kind, mode, bytes)| (*kind, if *kind == LINK { 0 } else { *mode }, bytes.clone()))
        };
        let shown = |file| format!("{:?}", plain(file)).chars().take(200).collect::<String>();
        assert!(
            plain(found) == plain(expected),
            "{}: {} instead of {}, was {}",
            path.escape_ascii(),
            shown(found),
            shown(expected),
            shown(one)
        );
        differed += usize::from(one != two);
    }
    differed
}

fn ours(words: &[&str]) -> Vec<u8> {
    let output = Command::new(program()).arg("diff").args(words).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.code() < Some(2));
    output.stdout
}

/// GNU diff of two mounts, with paths that begin with `a` and `b`.
fn gnu(first: &Path, second: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    symlink(first, folder.path().join("a")).unwrap();
    symlink(second, folder.path().join("b")).unwrap();
    let mut command = Command::new("diff");
    command.args(["-ruN", "--no-dereference", "a/", "b/"]).env("LC_ALL", "C").current_dir(folder.path());
    let output = command.output().unwrap();
    // 2: where a directory became something else, it looks for what was in it there.
    assert!(output.status.code() <= Some(2));
    output.stdout
}

/// Files that GNU diff would wait for.
fn without_special_files(root: &Path) {
    let kinds = ["-type", "p", "-o", "-type", "s", "-o", "-type", "b", "-o", "-type", "c"];
    let status =
        Command::new("find").arg(root).args(["("]).args(kinds).args([")", "-delete"]).status().unwrap();
    assert!(status.success());
}

/// Lines of all kinds, in files of all lengths.
fn write_texts(random: &mut Random, folder: &Path, count: usize) {
    for index in 0..count {
        fs::write(folder.join(format!("text-{index}")), any_text(random)).unwrap();
    }
}

fn any_line(random: &mut Random) -> Vec<u8> {
    let words: [&[u8]; 10] =
        [b"", b"", b"}", b"{", b"    return;", b"\tx = 1", b" ", b"-- a", b"+++ b/x", b"\xff\x1b[2J"];
    let mut line = match random.below(12) {
        0 => format!("{}", random.below(1000)).into_bytes(),
        1 => vec![b'l'; random.index(20_000)],
        2 => b"diff --git a/x b/x".to_vec(),
        3 => b"@@ -1 +1 @@".to_vec(),
        _ => [words[random.index(words.len())], words[random.index(words.len())]].concat(),
    };
    if random.below(20) == 0 {
        line.push(b'\r');
    }
    line.push(b'\n');
    line
}

fn any_text(random: &mut Random) -> Vec<u8> {
    let count = match random.below(8) {
        0 => 0,
        1 => 1,
        2 => random.below(5000),
        _ => random.below(100),
    };
    let mut text: Vec<u8> = (0..count).flat_map(|_| any_line(random)).collect();
    if random.below(4) == 0 {
        text.pop();
    }
    text
}

fn changed_text(random: &mut Random, text: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    match random.below(10) {
        0 => return Vec::new(),
        1 => return any_text(random),
        // White space alone.
        2 => lines.iter_mut().filter(|_| random.below(4) == 0).for_each(|line| line.insert(0, b' ')),
        3 => return text.strip_suffix(b"\n").unwrap_or(&[text, b"\n"].concat()).to_vec(),
        4 => return String::from_utf8_lossy(text).replace('\n', "\r\n").into_bytes(),
        _ => {
            for _ in 0..=random.below(12) {
                let at = random.index(lines.len() + 1);
                let end = (at + random.index(6)).min(lines.len());
                match random.below(4) {
                    0 => drop(lines.drain(at..end)),
                    1 => lines.insert(at, any_line(random)),
                    2 => {
                        let copied = lines[at..end].to_vec();
                        lines.splice(at..at, copied);
                    }
                    _ => lines[at..end].reverse(),
                }
            }
        }
    }
    lines.concat()
}

fn change_texts(random: &mut Random, folder: &Path) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.is_file() && !path.is_symlink()) {
        match random.below(8) {
            0 => {}
            1 => fs::remove_file(path).unwrap(),
            _ => {
                let text = fs::read(path).unwrap();
                fs::write(path, changed_text(random, &text)).unwrap();
            }
        }
    }
    for index in 0..5 {
        fs::write(folder.join(format!("new-{index}")), any_text(random)).unwrap();
    }
}

/// The hunks of each file.
fn hunks(patch: &[u8]) -> BTreeMap<String, Vec<Vec<u8>>> {
    let (mut hunks, mut name, mut left) = (BTreeMap::new(), String::new(), (0, 0));
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        let first = String::from_utf8_lossy(line);
        if left != (0, 0) || line.starts_with(b"\\") {
            left.0 -= u64::from(matches!(line[0], b' ' | b'-'));
            left.1 -= u64::from(matches!(line[0], b' ' | b'+'));
            hunks.get_mut(&name).map(|lines: &mut Vec<_>| lines.push(line.to_vec())).unwrap();
        } else if first.starts_with("--- ") || first.starts_with("+++ ") {
            let path = first[4..].split('\t').next().unwrap().trim_end();
            if path != "/dev/null" {
                name = path[2..].to_owned();
                hunks.entry(name.clone()).or_default();
            }
        } else if first.starts_with("@@ ") {
            let words: Vec<&str> = first.split(' ').collect();
            let count = |word: &str| word.split_once(',').map_or(1, |(_, count)| count.parse().unwrap());
            left = (count(words[1]), count(words[2]));
            hunks.get_mut(&name).unwrap().push(line.to_vec());
        }
    }
    hunks
}

#[test]
fn patch_makes_the_second_tree_of_the_first() {
    require!(Judge::Mkfs, Judge::Kernel);
    let seed = Seed::from_environment("patch_makes_the_second_tree_of_the_first", 20_261_164);
    let mut random = seed.random();
    let (mut differed, mut by_gnu) = (0, 0);
    for round in 0..6 {
        let shape = Shape { hole_bytes: 4 << 20, ..Shape::of(Names::Wild, 150) };
        let tree = RandomTree::new(&mut random, &shape).changed(|mount, _| {
            without_special_files(&mount.join("tree"));
            fs::create_dir(mount.join("tree/texts of \"lines\"\n")).unwrap();
            write_texts(&mut random_of(round), &mount.join("tree/texts of \"lines\"\n"), 20);
        });
        let two = Two::of(tree, &mut random, [3, 20, 60][round % 3], |random, root| {
            without_special_files(root);
            if let Some(folder) = Some(root.join("texts of \"lines\"\n")).filter(|folder| folder.is_dir()) {
                change_texts(random, &folder);
            }
        });
        let [first, second] = two.roots();
        let [image, other] = two.images();
        let patch = ours(&["-uN", "--only", "contents,target,mode", text(&image), text(&other), "tree"]);
        let (one, two_files) = (files(&first), files(&second));
        let (_folder, applied) = patched(&first, &patch, &WITHOUT_HARD_LINKS);
        differed += assert_patched(&one, &two_files, &applied);
        // As far as GNU diff goes: neither links nor permissions, nor empty files.
        let (_folder, applied_by_gnu) = patched(&first, &gnu(&first, &second), &WITHOUT_HARD_LINKS);
        for (path, (kind, _, bytes)) in &applied_by_gnu {
            let ours = applied.get(path).map(|file| (file.0, &file.2));
            // It looks for zero bytes in the first block only.
            let is_text = has_text(one.get(path)) && has_text(two_files.get(path));
            if *kind == REGULAR && is_text && two_files[path].0 == REGULAR {
                assert_eq!(ours, Some((REGULAR, bytes)), "{}", path.escape_ascii());
                by_gnu += 1;
            }
        }
        two.finish();
    }
    assert!(differed > 100, "{differed}");
    judged("patch", &format!("{differed} files that differ; {by_gnu} files as with GNU diff"));
}

fn random_of(round: usize) -> Random {
    Random::new(20_261_165 + round as u64)
}

#[test]
fn texts_differ_as_gnu_diff_says() {
    require!(Judge::Kernel);
    let seed = Seed::from_environment("texts_differ_as_gnu_diff_says", 20_261_166);
    let mut random = seed.random();
    let (mut same, mut others, mut differed) = (0, 0, 0);
    let (mut lines_here, mut lines_there) = (0, 0);
    for round in 0..4 {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        let mounts = ["first", "second"].map(|name| {
            match name {
                "first" => write_texts(&mut random, &source, 120),
                _ => change_texts(&mut random, &source),
            }
            let image = folder.path().join(name);
            succeeds(&["mkfs", "-q", "--size", "300M", "--from", text(&source), text(&image)]);
            LoopMount::with_options(&image, Access::ReadOnly, "nouuid").unwrap()
        });
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        let patch = ours(&["-N", "-U", ["3", "3", "0", "1000"][round], text(&first), text(&second)]);
        let [one, two] = [0, 1].map(|index| files(mounts[index].path()));
        let (_folder, applied) = patched(mounts[0].path(), &patch, &["-a"]);
        differed += assert_patched(&one, &two, &applied);
        if round < 2 {
            let by_gnu = gnu(mounts[0].path(), mounts[1].path());
            let (_folder, applied) = patched(mounts[0].path(), &by_gnu, &["-a"]);
            // What it makes of an empty file that is new.
            let added: Files = two
                .iter()
                .filter(|(path, _)| !applied.contains_key(*path))
                .map(|(path, file)| (path.clone(), file.clone()))
                .collect();
            assert!(added.values().all(|file| file.2.is_empty()));
            let (ours, theirs) = (hunks(&patch), hunks(&by_gnu));
            assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
            for (name, lines) in &ours {
                *if *lines == theirs[name] { &mut same } else { &mut others } += 1;
            }
            let changed = |hunks: &BTreeMap<String, Vec<Vec<u8>>>| {
                hunks.values().flatten().filter(|line| matches!(line[0], b'-' | b'+')).count()
            };
            lines_here += changed(&ours);
            lines_there += changed(&theirs);
        }
        for mount in mounts {
            mount.unmount().unwrap();
        }
    }
    assert!(same > 2 * others, "{same} as GNU diff has them, {others} not");
    assert!(lines_here < lines_there + lines_there / 20, "{lines_here} lines, GNU diff has {lines_there}");
    judged(
        "GNU diff",
        &format!(
            "{same} texts with the same hunks, {others} with others ({lines_here} lines, there {lines_there}); {differed} patched"
        ),
    );
}

/// A name that looks like headers, and everything that is no text.
#[test]
fn names_and_what_is_no_text() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let [a, b] = ["one", "two"].map(|name| folder.path().join(name));
    for (root, word) in [(&a, "one"), (&b, "two")] {
        fs::create_dir_all(root).unwrap();
        fs::write(root.join(OsStr::from_bytes(b"n\n+++ b\t\x1b\xff\"")), word).unwrap();
        fs::write(root.join("binary"), [word.as_bytes(), b"\0"].concat()).unwrap();
        fs::write(root.join("long"), word.repeat(6 << 20)).unwrap();
        fs::write(root.join("many"), [word, &"\n".repeat((2 << 20) + 1)].concat()).unwrap();
        File::create(root.join("hole"))
            .unwrap()
            .set_len(if word == "one" { 1 << 33 } else { 1 << 34 })
            .unwrap();
        symlink(word, root.join("sym")).unwrap();
    }
    fs::write(a.join("type"), "text\n").unwrap();
    symlink("to", b.join("type")).unwrap();
    fs::write(b.join("new"), "").unwrap();
    fs::write(a.join("gone"), "").unwrap();
    let (one, two) = (text(&a), text(&b));
    let quoted = r#"n\n+++ b\t\033\377\""#;
    let changes = format!(
        "C binary: contents\nBinary files a/binary and b/binary differ\nD gone: regular\nC hole: contents, size 8589934592 -> 17179869184\n\
        Binary files a/hole and b/hole differ\nC long: contents\nFiles a/long and b/long differ: too large to compare as text\n\
        C many: contents\nFiles a/many and b/many differ: too large to compare as text\n\
        C \"{quoted}\": contents\ndiff --git \"a/{quoted}\" \"b/{quoted}\"\n--- \"a/{quoted}\"\n+++ \"b/{quoted}\"\n@@ -1 +1 @@\n-one\n\
        \\ No newline at end of file\n+two\n\\ No newline at end of file\nA new: regular\n"
    );
    let link = "C sym: target one -> two\ndiff --git a/sym b/sym\nold mode 120000\nnew mode 120000\n--- a/sym\n+++ b/sym\n@@ -1 +1 @@\n\
        -one\n\\ No newline at end of file\n+two\n\\ No newline at end of file\nT type: type regular -> symlink\n";
    let printed =
        |words: &[&str]| String::from_utf8(ours(&[&["--no-times", one, two], words].concat())).unwrap();
    assert_eq!(printed(&["-u"]), format!("{changes}{link}"));
    let new = "diff --git a/new b/new\nnew file mode 100644\n";
    let other = "diff --git a/type b/type\ndeleted file mode 100644\n--- a/type\n+++ /dev/null\n@@ -1 +0,0 @@\n-text\n\
        diff --git a/type b/type\nnew file mode 120000\n--- /dev/null\n+++ b/type\n@@ -0,0 +1 @@\n+to\n\\ No newline at end of file\n";
    assert_eq!(printed(&["-uN"]), format!("{changes}{new}{link}{other}"));
    assert_eq!(
        printed(&["-uN", "--only", "mode"]),
        "D gone: regular\nA new: regular\nT type: type regular -> symlink\n"
    );
    for words in [&["-u", "-q"][..], &["-u", "-0"], &["-U", "1", "-s"], &["-N"], &["-U", "x"]] {
        let mut command = Command::new(program());
        let output = command.arg("diff").args([one, two]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
    let mut command = Command::new(program());
    let output = command.args(["--json", "diff", "-uN", "--no-times", one, two]).output().unwrap();
    let documents: Vec<serde_json::Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let of = |path: &str| documents.iter().find(|document| document["path"] == path).unwrap();
    assert_eq!(of("binary")["unified_omitted"], "binary");
    assert_eq!(of("long")["unified_omitted"], "too_large");
    assert_eq!(of("type")["unified"], other);
    assert!(of("gone").get("unified").is_none() && of("gone").get("unified_omitted").is_none());
}

/// All names of a file have its lines.
#[test]
fn hard_links_and_permissions() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let [a, b] = ["one", "two"].map(|name| folder.path().join(name));
    for (root, word) in [(&a, "one\n"), (&b, "two\n")] {
        fs::create_dir_all(root).unwrap();
        fs::write(root.join("f"), word).unwrap();
        fs::hard_link(root.join("f"), root.join("g")).unwrap();
        fs::write(root.join("mode"), "same").unwrap();
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    fs::set_permissions(b.join("mode"), mode(0o4750)).unwrap();
    fs::set_permissions(b.join("f"), mode(0o600)).unwrap();
    let patch = ours(&["-u", "--no-times", text(&a), text(&b)]);
    let section = |name: &str| {
        format!(
            "C {name}: contents, mode 0644 -> 0600\ndiff --git a/{name} b/{name}\nold mode 100644\nnew mode 100600\n--- a/{name}\n+++ b/{name}\n\
            @@ -1 +1 @@\n-one\n+two\n"
        )
    };
    let modes = "M mode: mode 0644 -> 4750\ndiff --git a/mode b/mode\nold mode 100644\nnew mode 104750\n";
    assert_eq!(String::from_utf8_lossy(&patch), format!("{}{}{modes}", section("f"), section("g")));
    let (_folder, applied) = patched(&a, &patch, &["-a"]);
    assert_eq!(applied, files(&b));
}

//! Random trees and random changes of them, against an oracle, rsync and GNU diff.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    process::Command,
};

use uxfs_testkit::{
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
    seeds::{Random, Seed},
    sparse,
};

use super::{
    mutations::{KINDS, Mutator},
    random_tree::{Names, RandomTree, Shape},
    snapshot,
};
use crate::common::program;

/// A tree, and a changed copy of it.
pub struct Two {
    tree: RandomTree,
    second: PathBuf,
    mount: LoopMount,
}

/// What was told: by path, what became of it and the fields that differ.
type Told = BTreeMap<Vec<u8>, (String, BTreeSet<String>)>;

impl Two {
    fn new(random: &mut Random, shape: &Shape<'_>, changes: usize) -> Self {
        Self::of(RandomTree::new(random, shape), random, changes, |_, _| {})
    }

    /// A tree, and a copy of it with random changes and this one.
    pub fn of(
        tree: RandomTree,
        random: &mut Random,
        changes: usize,
        change: impl FnOnce(&mut Random, &Path),
    ) -> Self {
        let second = tree.folder.path().join("second");
        sparse::copy(tree.image(), &second).unwrap();
        let mount = LoopMount::with_options(&second, Access::ReadWrite, "nouuid").unwrap();
        let mut mutator = Mutator { random, root: mount.join("tree"), made: tree.made.clone() };
        for _ in 0..changes {
            let kind = mutator.random.below(KINDS);
            mutator.change(kind);
        }
        change(random, &mount.join("tree"));
        mount.unmount().unwrap();
        let mount = LoopMount::with_options(&second, Access::ReadOnly, "nouuid").unwrap();
        Self { tree, second, mount }
    }

    pub fn images(&self) -> [PathBuf; 2] {
        [self.tree.image(), self.second.clone()]
    }

    pub fn roots(&self) -> [PathBuf; 2] {
        [self.tree.mount.join("tree"), self.mount.join("tree")]
    }

    fn diff(&self, words: &[&str]) -> Told {
        let mut command = Command::new(program());
        command.args(["--json", "diff"]).args([&self.tree.image(), &self.second]).arg("tree").args(words);
        told(&mut command)
    }

    pub fn finish(self) {
        self.mount.unmount().unwrap();
        self.tree.finish();
    }
}

fn told(command: &mut Command) -> Told {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.is_empty(), "{command:?}: {words}");
    let mut told = Told::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let document: serde_json::Value = serde_json::from_str(line).unwrap();
        let path = match document["path_hex"].as_str() {
            Some(hex) => (0..hex.len() / 2)
                .map(|index| u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).unwrap())
                .collect(),
            None => document["path"].as_str().unwrap().as_bytes().to_vec(),
        };
        let words =
            document["fields"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
        let kind = match document["change"].as_str().unwrap() {
            "contents" | "metadata" => "fields",
            kind => kind,
        };
        let known = told.insert(path, (kind.to_owned(), words.collect()));
        assert!(known.is_none(), "a path is told twice: {line}");
    }
    assert_eq!(output.status.code(), Some(i32::from(!told.is_empty())));
    told
}

fn shown(paths: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
    let paths = paths.into_iter().map(|path| path.as_ref().escape_ascii().to_string());
    paths.take(8).collect::<Vec<_>>().join("\n")
}

/// What is told is what the oracle says.
fn compare(two: &Two, found: &Told) -> usize {
    let [first, second] = two.roots().map(|root| snapshot::take(&root));
    let regrouped = snapshot::regrouped(&first, &second);
    let expected = snapshot::expected(&first, &second);
    let mut links = BTreeSet::new();
    let mut plain = Told::new();
    for (path, (kind, fields)) in found {
        let mut fields = fields.clone();
        if fields.remove("links") {
            links.insert(path.clone());
        }
        if kind != "fields" || !fields.is_empty() {
            plain.insert(path.clone(), (kind.clone(), fields));
        }
    }
    let expected: Told =
        expected.into_iter().map(|(path, (kind, fields))| (path, (kind.to_owned(), fields))).collect();
    let only = |one: &Told, other: &Told| -> Vec<String> {
        let only = one.iter().filter(|(path, difference)| other.get(*path) != Some(difference));
        only.take(5).map(|(path, difference)| format!("{} {difference:?}", path.escape_ascii())).collect()
    };
    assert!(
        plain == expected,
        "only ours: {:#?}\nonly the oracle: {:#?}",
        only(&plain, &expected),
        only(&expected, &plain)
    );
    assert!(links.is_subset(&regrouped), "{}", shown(links.difference(&regrouped)));
    assert_eq!(links.is_empty(), regrouped.is_empty(), "{}", shown(&regrouped));
    expected.len() + links.len()
}

/// The paths that rsync would do something about, with its letters.
fn rsync(two: &Two) -> BTreeMap<Vec<u8>, String> {
    let mut rsync = Judge::Rsync.command();
    rsync.args(["-naicAXH", "--delete", "--modify-window=-1", "--out-format=%i %n"]).env("LC_ALL", "C");
    for root in two.roots() {
        rsync.arg(root.join(""));
    }
    let output = rsync.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut paths = BTreeMap::new();
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // "*deleting" is as long as all letters.
        let (letters, name) = line.split_at(11);
        let mut path = unescaped(name.strip_prefix(b" ").unwrap());
        while path.len() > 1 && path.ends_with(b"/") {
            path.pop();
        }
        let path = if path == b"./" || path == b"/" { b".".to_vec() } else { path };
        paths.insert(path, String::from_utf8_lossy(letters).into_owned());
    }
    paths
}

/// `\#ooo` is a byte.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), name);
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.strip_prefix(b"#").and_then(|after| after.get(..3));
        let value = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match value.filter(|_| *byte == b'\\') {
            Some(value) => {
                bytes.push(value);
                rest = &after[4..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    bytes
}

#[test]
fn random_changes_are_told() {
    require!(Judge::Mkfs, Judge::Kernel, Judge::Rsync);
    let seed = Seed::from_environment("random_changes_are_told", 20_261_161);
    let mut random = seed.random();
    let (mut told, mut judged_paths) = (0, 0);
    for round in 0..8 {
        let options: &[&str] =
            [&[][..], &["-b", "size=1024"], &["-i", "size=1024", "-m", "reflink=0"]][round % 3];
        let shape = Shape { options, hole_bytes: 4 << 20, ..Shape::of(Names::Wild, 150) };
        let changes = [1, 3, 10, 25, 60][round % 5];
        let two = Two::new(&mut random, &shape, changes);
        let found = two.diff(&["--all"]);
        told += compare(&two, &found);
        let found: BTreeSet<Vec<u8>> = found.into_keys().collect();
        let by_rsync = rsync(&two);
        // Of the names of one file it tells one, and where they are grouped otherwise it may choose another one.
        let inodes = |path: &[u8]| {
            two.roots().map(|root| {
                let found = root.join(OsStr::from_bytes(path)).symlink_metadata();
                found.ok().filter(|found| !found.is_dir()).map(|found| found.ino())
            })
        };
        let is_one_file = |path: &[u8], other: &[u8]| {
            let pairs = inodes(path).into_iter().zip(inodes(other));
            path == other || pairs.into_iter().any(|(one, two)| one.is_some() && one == two)
        };
        let is_by_rsync = |path: &[u8]| by_rsync.keys().any(|other| is_one_file(path, other));
        let is_ours = |path: &[u8]| found.iter().any(|other| is_one_file(path, other));
        let only_ours: Vec<_> = found.iter().filter(|path| !is_by_rsync(path)).collect();
        let only_rsync: Vec<_> = by_rsync
            .iter()
            .filter(|(path, letters)| {
                let is_link = letters.starts_with('h');
                !(found.contains(*path) || is_link && is_ours(path))
            })
            .map(|(path, letters)| [letters.as_bytes(), b" ", path].concat())
            .collect();
        assert!(
            only_ours.is_empty() && only_rsync.is_empty(),
            "only ours:\n{}\nonly rsync:\n{}",
            shown(only_ours),
            shown(only_rsync)
        );
        judged_paths += by_rsync.len();
        two.finish();
    }
    judged("rsync", &format!("{judged_paths} paths; {told} differences are those of the oracle"));
}

/// Of the lines that GNU diff prints, the paths.
fn gnu_diff(two: &Two) -> BTreeSet<Vec<u8>> {
    let [first, second] = two.roots();
    let output = Command::new("diff")
        .args(["-rq", "--no-dereference"])
        .args([&first, &second])
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let below = |path: &str| -> Vec<u8> {
        let path = Path::new(path);
        let found = path.strip_prefix(&first).or_else(|_| path.strip_prefix(&second)).unwrap();
        found.as_os_str().as_bytes().to_vec()
    };
    let mut paths = BTreeSet::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let Some((directory, name)) = line.strip_prefix("Only in ").and_then(|rest| rest.split_once(": "))
        {
            paths.insert(below(&format!("{directory}/{name}")));
        } else if line.starts_with("Files ") {
            paths.insert(below(words[1]));
        } else if line.starts_with("Symbolic links ") {
            paths.insert(below(words[2]));
        } else {
            // File A is a fifo while file B is a fifo: that, it does not compare.
            let (one, two) = line.split_once(" while file ").unwrap();
            let kind = |text: &str| text.split_once(" is a ").unwrap().1.to_owned();
            if kind(one) != kind(two) {
                paths.insert(below(words[1]));
            }
        }
    }
    paths
}

#[test]
fn gnu_diff_names_the_same_paths() {
    require!(Judge::Mkfs, Judge::Kernel);
    let seed = Seed::from_environment("gnu_diff_names_the_same_paths", 20_261_162);
    let mut random = seed.random();
    let mut paths = 0;
    for changes in [2, 20, 50] {
        let shape = Shape { hole_bytes: 4 << 20, ..Shape::of(Names::Plain, 150) };
        let two = Two::new(&mut random, &shape, changes);
        let expected = gnu_diff(&two);
        let found: BTreeSet<Vec<u8>> = two.diff(&["--only", "contents,size,target"]).into_keys().collect();
        assert!(
            found == expected,
            "only ours:\n{}\nonly diff:\n{}",
            shown(found.difference(&expected)),
            shown(expected.difference(&found))
        );
        paths += expected.len();
        two.finish();
    }
    judged("GNU diff", &format!("{paths} paths"));
}

/// Longer paths than system calls take are there as well.
#[test]
fn an_image_is_the_same_as_its_mount() {
    require!(Judge::Mkfs, Judge::Kernel);
    let seed = Seed::from_environment("an_image_is_the_same_as_its_mount", 20_261_163);
    let shape = Shape { hole_bytes: 4 << 20, ..Shape::of(Names::Any, 300) };
    let tree = RandomTree::new(&mut seed.random(), &shape);
    for [first, second] in
        [[tree.image(), tree.mount.path().to_owned()], [tree.mount.path().to_owned(), tree.image()]]
    {
        let mut command = Command::new(program());
        let found = told(command.args(["--json", "diff", "--also", "ctime"]).args([first, second]));
        assert!(found.is_empty(), "{found:?}");
    }
    judged("kernel", &format!("{} paths", tree.paths.len()));
    tree.finish();
}

/// Flags and projects, which neither judge knows.
#[test]
fn flags_and_projects() {
    require!(Judge::Mkfs, Judge::Kernel, Judge::XfsIo);
    let folder = tempfile::tempdir_in(uxfs_testkit::image::memory_folder()).unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    uxfs_testkit::image::make(&first, 300 << 20, &[]).unwrap();
    let mount = LoopMount::new(&first, Access::ReadWrite).unwrap();
    for name in ["flags", "project", "same"] {
        fs::write(mount.join(name), "text").unwrap();
    }
    mount.unmount().unwrap();
    sparse::copy(&first, &second).unwrap();
    let mount = LoopMount::new(&second, Access::ReadWrite).unwrap();
    for (name, command) in [("flags", "chattr +di"), ("project", "chproj 42")] {
        let status =
            Judge::XfsIo.command().args(["-r", "-c", command]).arg(mount.join(name)).status().unwrap();
        assert!(status.success(), "{command}");
    }
    mount.unmount().unwrap();
    let mut command = Command::new(program());
    let output = command.arg("diff").args([&first, &second]).output().unwrap();
    let lines = "M flags: flags none -> immutable+no_dump\nM project: project 0 -> 42\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), lines);
    assert_eq!((output.status.code(), OsStr::from_bytes(&output.stderr)), (Some(1), OsStr::new("")));
}

//! `uxfs grep`, judged by GNU grep in the kernel's mount of the same image.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::Path,
    time::SystemTime,
};

use tempfile::TempDir;
use uxfs_testkit::{
    image,
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
    seeds::{Random, Seed},
};

use crate::common::random_tree::{Names, RandomTree, Shape, is_late, words};
use crate::common::{succeeds, text, uxfs};

const OPTIONS: [&str; 25] = [
    "-i",
    "-v",
    "-c",
    "-l",
    "-L",
    "-n",
    "-H",
    "-h",
    "-w",
    "-x",
    "-a",
    "-A1",
    "-B2",
    "-C1",
    "-m1",
    "-m3",
    "-s",
    "-z",
    "-Z",
    "--include=*.txt",
    "--exclude=*1*",
    "--exclude-dir=b*",
    "--color=always",
    "-q",
    "-I",
];

/// Patterns with one longest match at each place, so that the order of alternatives does not matter.
const PATTERNS: [&str; 18] = [
    "alpha",
    "be*ta",
    "^gamma",
    "delta$",
    "[a-c]+",
    "x",
    "^$",
    "",
    "a.c",
    "(one|two)",
    "o{2,3}",
    "^[^ ]* [^ ]*$",
    "e",
    "zzz",
    "ALPHA",
    "a?b",
    "[[:digit:]]+",
    "\\.",
];

fn line(random: &mut Random) -> Vec<u8> {
    const WORDS: [&str; 18] = [
        "alpha", "beta", "gamma", "delta", "abc", "one", "two", "foo", "fooo", "x", "zz", "a.c", "Alpha",
        "beeta", "12", "a_b", "word", "e",
    ];
    let count = random.index(7);
    let mut line = Vec::new();
    for index in 0..count {
        if index > 0 {
            line.push(if random.below(9) == 0 { b'-' } else { b' ' });
        }
        line.extend_from_slice(WORDS[random.index(WORDS.len())].as_bytes());
    }
    line
}

fn contents(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    let count = [0, 1, 3, 10, 40, 400][random.index(6)];
    for _ in 0..count {
        text.extend(line(random));
        text.push(if random.below(400) == 0 { 0 } else { b'\n' });
    }
    if random.below(4) == 0 {
        text.extend(line(random));
    }
    if random.below(12) == 0 {
        text.splice(0..0, b"front \0 of it\n".iter().copied());
    }
    text
}

fn combination(random: &mut Random) -> Vec<OsString> {
    let mut options: Vec<OsString> = Vec::new();
    for _ in 0..random.below(6) {
        options.push(OPTIONS[random.index(OPTIONS.len())].into());
    }
    let has = |options: &[OsString], name: &str| options.iter().any(|option| option == name);
    // GNU divides groups that -o does not print.
    if random.below(5) == 0 && !options.iter().any(|option| "ABC".contains(char::from(option.as_bytes()[1])))
    {
        options.push("-o".into());
    }
    // GNU writes an empty line behind such a match.
    if has(&options, "-o") && has(&options, "-x") {
        options.retain(|option| option != "-w");
    }
    // Of lines with both ends the order of files cannot be told.
    if has(&options, "-Z") && !has(&options, "-l") && !has(&options, "-L") {
        options.push("-l".into());
    }
    // A mark of GNU for groups that end with a zero byte; what matches within a line's end.
    if has(&options, "-z") {
        options.retain(|option| !"ABC".contains(char::from(option.as_bytes()[1])));
    }
    if random.below(6) == 0 {
        options.push("-F".into());
    } else {
        options.push("-E".into());
    }
    // GNU takes the longest of several.
    let is_shown = has(&options, "--color=always") || has(&options, "-o");
    let patterns = if is_shown { 1 } else { [1, 1, 1, 2][random.index(4)] };
    for _ in 0..patterns {
        let mut pattern = PATTERNS[random.index(PATTERNS.len())];
        // A shorter match may be a word where the longest is none; GNU tries it.
        if has(&options, "-w") && !pattern.chars().all(char::is_alphanumeric) {
            pattern = "alpha";
        }
        options.extend(["-e".into(), pattern.into()]);
    }
    options
}

/// Lines in an order that does not depend on that of directories: of each file together, as they come.
fn blocks(output: &[u8], has_groups: bool, end: u8) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = output.split(|byte| *byte == end).map(<[u8]>::to_vec).collect();
    if has_groups {
        lines.retain(|line| !line.windows(2).any(|pair| pair == b"--") || line.len() > 16);
    }
    lines.sort();
    lines
}

#[test]
fn gnu_grep_gives_the_same_lines() {
    require!(Judge::Mkfs, Judge::Kernel);
    let seed = Seed::from_environment("gnu_grep_gives_the_same_lines", 20_261_140);
    let mut random = seed.random();
    let began = SystemTime::now();
    let (mut done, mut selected, mut failures) = (0, 0, Vec::new());
    for _ in 0..2 {
        let tree = RandomTree::new(&mut random, &Shape::of(Names::Plain, 90));
        let tree = rewritten(&mut random, tree);
        for _ in 0..200 {
            if is_late(began) {
                break;
            }
            let options = combination(&mut random);
            let operand = operand(&mut random, &tree);
            let ours =
                [words(&["grep"]), options.clone(), vec![tree.image().into()], operand.clone()].concat();
            let theirs = [words(&["-r"]), options, operand].concat();
            let (found, expected) = (tree.ours(&ours), tree.judge("grep", &theirs));
            let has_groups =
                theirs.iter().any(|option| matches!(option.as_bytes(), b"-A1" | b"-B2" | b"-C1"));
            let expected_text = String::from_utf8_lossy(&expected.stdout);
            let messages = String::from_utf8_lossy(&expected.stderr).replace("grep: ", "uxfs: ");
            let has = |words: &[&str]| theirs.iter().any(|option| words.iter().any(|word| option == word));
            // Lists of files end with a zero byte behind each path, counts never, and lines as they do in files.
            let ends_with_zero = match () {
                () if has(&["-l", "-L"]) => has(&["-Z"]),
                () if has(&["-c"]) => false,
                () => has(&["-z"]),
            };
            let end = if ends_with_zero { 0 } else { b'\n' };
            let about = format!("uxfs: {}: ", tree.image().display());
            let said = String::from_utf8_lossy(&found.stderr).replace(&about, "uxfs: ");
            let same = blocks(&found.stdout, has_groups, end) == blocks(&expected.stdout, has_groups, end)
                && blocks(said.as_bytes(), false, b'\n') == blocks(messages.as_bytes(), false, b'\n')
                && found.status.code() == expected.status.code();
            done += 1;
            selected += usize::from(found.status.success());
            if !same {
                failures.push(format!(
                    "{theirs:?}\n--- GNU ({:?})\n{}{messages}--- ours ({:?})\n{}{}",
                    expected.status.code(),
                    expected_text.replace('\x1b', "\\e"),
                    found.status.code(),
                    String::from_utf8_lossy(&found.stdout).replace('\x1b', "\\e"),
                    String::from_utf8_lossy(&found.stderr),
                ));
            }
        }
        tree.finish();
    }
    assert!(
        failures.is_empty(),
        "{} of {done} differ:\n{}",
        failures.len(),
        failures[..failures.len().min(8)].join("\n")
    );
    judged("GNU grep", &format!("{done} combinations of options, {selected} with selected lines"));
}

/// The tree with text in its regular files.
fn rewritten(random: &mut Random, tree: RandomTree) -> RandomTree {
    tree.changed(|mount, made| {
        for path in made {
            let path = mount.join("tree").join(OsStr::from_bytes(path));
            if path.symlink_metadata().unwrap().is_file() {
                fs::write(path, contents(random)).unwrap();
            }
        }
    })
}

/// One directory, or regular files. (GNU waits for pipes of the command line.)
fn operand(random: &mut Random, tree: &RandomTree) -> Vec<OsString> {
    let is_file = |path: &&Vec<u8>| {
        let path = tree.mount.join("tree").join(OsStr::from_bytes(path));
        path.symlink_metadata().unwrap().is_file()
    };
    let files: Vec<&Vec<u8>> = tree.made.iter().filter(is_file).collect();
    let named = |path: &[u8]| OsString::from(OsStr::from_bytes(&[b"tree/", path].concat()));
    match random.below(4) {
        0 => vec!["tree".into()],
        1 => vec![named(&tree.directories[1 + random.index(tree.directories.len() - 1)])],
        2 => vec![named(files[random.index(files.len())])],
        _ => (0..3).map(|_| named(files[random.index(files.len())])).collect(),
    }
}

fn image_of(folder: &Path, fill: impl FnOnce(&Path)) -> String {
    let image = folder.join("image");
    image::make(&image, 320 << 20, &[]).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    fill(mount.path());
    mount.unmount().unwrap();
    text(&image).to_owned()
}

fn holes(root: &Path) {
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"first\n", 0).unwrap();
    sparse.write_all_at(b"needle\nlast\n", 5 << 40).unwrap();
    fs::write(root.join("long"), vec![b'x'; 70 << 20]).unwrap();
    fs::write(root.join("plain"), "one needle\ntwo\n").unwrap();
    fs::write(root.join("bytes"), b"caf\xe9 needle\n").unwrap();
}

#[test]
fn holes_and_long_lines_cost_little() {
    require!(Judge::Mkfs, Judge::Kernel);
    let folder = TempDir::with_prefix_in("uxfs-grep-", image::memory_folder()).unwrap();
    let image = image_of(folder.path(), holes);
    let image = image.as_str();
    let began = SystemTime::now();
    for pattern in ["needle", "first"] {
        let output = uxfs(&["grep", "-n", pattern, image, "sparse"]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
        assert_eq!(output.stderr, b"uxfs: sparse: binary file matches\n");
    }
    assert_eq!(succeeds(&["grep", "-c", "needle", image, "sparse"]), "1\n");
    // Each zero ends a line: first, empty ones, needle, last.
    let empty = (5_u64 << 40) - 6;
    assert_eq!(succeeds(&["grep", "-c", "", image, "sparse"]), format!("{}\n", empty + 3));
    assert_eq!(succeeds(&["grep", "-cv", "needle", image, "sparse"]), format!("{}\n", empty + 2));
    assert_eq!(
        succeeds(&["grep", "-zn", "needle", image, "sparse"]),
        format!("{}:needle\nlast\n\0", empty + 1)
    );
    let output = uxfs(&["grep", "-a", "needle", image, "sparse"]);
    assert_eq!(output.status.code(), Some(2));
    let output = uxfs(&["grep", "needle", image]);
    let said = String::from_utf8_lossy(&output.stderr);
    let expected =
        format!("uxfs: {image}: /long: a line is longer than 64 MiB\nuxfs: /sparse: binary file matches\n");
    assert_eq!(said, expected);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("/plain:one needle\n"));
    let document = succeeds(&["--json", "grep", "needle", image, "/bytes"]);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["text_hex"], "636166e9206e6565646c65");
    assert_eq!((&document["line_number"], &document["offset_bytes"]), (&1.into(), &0.into()));
    assert_eq!(document["submatches"][0]["start"], 5);
    assert!(began.elapsed().unwrap().as_secs() < 15);
}

#[test]
fn exit_codes_are_those_of_grep() {
    let folder = TempDir::new().unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "a needle\n").unwrap();
    succeeds(&["mkfs", "-q", "--size", "300M", "--from", text(&source), text(&image)]);
    let image = text(&image);
    let code = |arguments: &[&str]| uxfs(arguments).status.code().unwrap();
    assert_eq!(code(&["grep", "needle", image]), 0);
    assert_eq!(code(&["grep", "thread", image]), 1);
    assert_eq!(code(&["grep", "(", image]), 2);
    assert_eq!(code(&["grep", "needle", image, "/missing"]), 2);
    assert_eq!(code(&["grep", "-s", "needle", image, "/missing", "/file"]), 2);
    assert_eq!(code(&["grep", "-q", "needle", image, "/missing", "/file"]), 0);
    assert_eq!(code(&["grep", "needle", "/nothing/there"]), 2);
    assert_eq!(code(&["grep", "needle"]), 2);
    assert_eq!(succeeds(&["grep", "-e", "needle", image, "file"]), "a needle\n");
    assert_eq!(succeeds(&["shell", image, "-c", "grep need* f*; grep -c needle file"]), "a needle\n1\n");
    let patterns = folder.path().join("patterns");
    fs::write(&patterns, "thread\nneedle\n").unwrap();
    assert_eq!(succeeds(&["grep", "-Ff", text(&patterns), image]), "/file:a needle\n");
    // In the other dialect of grep this would be found.
    for (words, is_told) in
        [(["-e", r"needle\|x"], true), (["-Fe", r"needle\|x"], false), (["-e", "x|y"], false)]
    {
        let output = uxfs(&["grep", words[0], words[1], image]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.contains("grep -E")), (Some(1), is_told), "{words:?}: {said}");
    }
    // Every line matches the empty pattern, so -v selects none. GNU grep exits before it reads.
    for (options, is_listed) in [("-vc", false), ("-vL", true)] {
        let output = uxfs(&["grep", options, "", image]);
        assert_eq!(output.stdout.is_empty(), !is_listed, "{options}: {output:?}");
        assert!(is_listed || output.status.code() == Some(1), "{options}: {output:?}");
    }
    // A list of patterns that never ends.
    assert_eq!(code(&["grep", "-f", "/dev/zero", image]), 2);
}

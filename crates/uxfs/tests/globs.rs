//! Patterns in paths, judged by bash in the kernel's mount of the same image.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    process::Command,
    time::SystemTime,
};

use tempfile::TempDir;
use uxfs_testkit::{
    judges::{Judge, judged},
    require,
    seeds::{Random, Seed},
};

use crate::common::random_tree::{Names, RandomTree, Shape, is_late};
use crate::common::{succeeds, text, uxfs};

/// What bash expands each pattern to: names with a zero byte behind each, and an empty one behind each pattern.
fn expected(tree: &RandomTree, patterns: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    const SCRIPT: &str = "shopt -s globstar nullglob globskipdots 2>/dev/null || shopt -s globstar nullglob; IFS=; \
        while read -r -d '' pattern; do for path in $pattern; do printf '%s\\0' \"$path\"; done; printf '\\0'; done";
    let mut input: Vec<u8> = Vec::new();
    for pattern in patterns {
        input.extend_from_slice(pattern);
        input.push(0);
    }
    let file = tree.folder.path().join("patterns");
    fs::write(&file, input).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", SCRIPT])
        .env("LC_ALL", "C")
        .current_dir(tree.mount.path())
        .stdin(fs::File::open(file).unwrap());
    let output = bash.output().unwrap().stdout;
    let mut lists = vec![Vec::new()];
    for name in output.split(|byte| *byte == 0) {
        match name {
            b"" => lists.push(Vec::new()),
            name => lists.last_mut().unwrap().push(name.to_vec()),
        }
    }
    // Behind the last zero byte, and behind the last list.
    lists.truncate(patterns.len());
    assert_eq!(lists.len(), patterns.len());
    lists
}

fn pattern(random: &mut Random, tree: &RandomTree) -> Vec<u8> {
    let path = &tree.made[random.index(tree.made.len())];
    let mut names: Vec<Vec<u8>> = path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
    for name in &mut names {
        match random.below(4) {
            0 => {}
            1 => *name = b"*".to_vec(),
            _ => *name = blurred(random, name),
        }
    }
    if random.below(4) == 0 {
        let at = random.index(names.len() + 1);
        names.insert(at, b"**".to_vec());
    }
    let mut pattern = [b"tree/", &names.join(&b'/')[..]].concat();
    if random.below(8) == 0 {
        pattern.push(b'/');
    }
    pattern
}

/// A pattern that may fit a name.
fn blurred(random: &mut Random, name: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::new();
    let mut index = 0;
    while index < name.len() {
        let byte = name[index];
        index += 1;
        match random.below(9) {
            0 => pattern.push(b'?'),
            1 => {
                pattern.push(b'*');
                index += random.index(4);
            }
            2 if byte != b']' && byte != b'\\' => {
                let inside = match random.below(6) {
                    0 => vec![b'!', b'm'],
                    1 => vec![b'^', b'A'],
                    2 if byte.is_ascii_alphanumeric() => vec![byte, b'-', byte],
                    3 => b"a-z".to_vec(),
                    4 => b"[:digit:]".to_vec(),
                    _ if matches!(byte, b'!' | b'^' | b'-' | b'[') => vec![b'z', b'\\', byte],
                    _ => vec![byte, b'b'],
                };
                pattern.push(b'[');
                pattern.extend(inside);
                pattern.push(b']');
            }
            _ if b"*?[]\\".contains(&byte) => pattern.extend([b'\\', byte]),
            _ => pattern.push(byte),
        }
    }
    pattern
}

fn compare(name: &'static str, names: Names, seed: u64) {
    require!(Judge::Mkfs, Judge::Kernel);
    let seed = Seed::from_environment(name, seed);
    let mut random = seed.random();
    let began = SystemTime::now();
    let (mut done, mut found) = (0, 0);
    for _ in 0..2 {
        let tree = RandomTree::new(&mut random, &Shape::of(names, 160));
        let patterns: Vec<Vec<u8>> = (0..250).map(|_| pattern(&mut random, &tree)).collect();
        let lists = expected(&tree, &patterns);
        let mut failures = Vec::new();
        for (pattern, mut list) in patterns.iter().zip(lists) {
            // A file of that very name comes first, and of a text that is no pattern nothing is asked.
            let is_there = tree.mount.join(OsStr::from_bytes(pattern)).symlink_metadata().is_ok();
            let is_plain = list.len() == 1 && list[0] == *pattern;
            // Bash looks for a backslash as it is written, unless it is in front of a character with a meaning, where a component is no
            // pattern.
            let is_plain = is_plain
                || pattern.ends_with(b"\\")
                || pattern.windows(2).any(|pair| pair[0] == b'\\' && !b"*?[]".contains(&pair[1]));
            if is_there || is_plain || is_late(began) {
                continue;
            }
            list.sort();
            list.dedup();
            done += 1;
            found += list.len();
            let ours = ours(&tree, pattern);
            if ours != list {
                let only = |these: &[Vec<u8>], others: &[Vec<u8>]| {
                    let only = these.iter().filter(|path| !others.contains(path));
                    format!("{:?}", only.map(|path| OsStr::from_bytes(path)).take(5).collect::<Vec<_>>())
                };
                failures.push(format!(
                    "{:?}: only bash {} only ours {}",
                    OsStr::from_bytes(pattern),
                    only(&list, &ours),
                    only(&ours, &list),
                ));
            }
        }
        assert!(
            failures.is_empty(),
            "{} of {done} differ:\n{}",
            failures.len(),
            failures[..failures.len().min(12)].join("\n")
        );
        tree.finish();
    }
    judged("bash", &format!("{done} patterns, {found} paths"));
}

/// The paths that a listing of the pattern has, from its documents.
fn ours(tree: &RandomTree, pattern: &[u8]) -> Vec<Vec<u8>> {
    let arguments: [OsString; 6] = [
        "--json".into(),
        "ls".into(),
        "-dU".into(),
        tree.image().into(),
        "--".into(),
        OsStr::from_bytes(pattern).into(),
    ];
    let output = tree.ours(&arguments);
    let words = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(
        code == Some(0) || code == Some(1) && !words.contains("panicked"),
        "{pattern:?}: {code:?} {words}"
    );
    let document = |line: &[u8]| -> Vec<u8> {
        let document: serde_json::Value = serde_json::from_slice(line).unwrap();
        match document["path_hex"].as_str() {
            Some(hex) => {
                let digits: Vec<u8> =
                    hex.bytes().map(|digit| char::from(digit).to_digit(16).unwrap() as u8).collect();
                digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
            }
            None => document["path"].as_str().unwrap().as_bytes().to_vec(),
        }
    };
    output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(document).collect()
}

#[test]
fn bash_finds_the_same_paths() {
    compare("bash_finds_the_same_paths", Names::Plain, 20_261_130);
}

#[test]
fn bash_finds_the_same_paths_of_any_names() {
    compare("bash_finds_the_same_paths_of_any_names", Names::Wild, 20_261_131);
}

#[test]
fn commands_take_patterns_and_the_shell_protects_quoted_ones() {
    let folder = TempDir::new().unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    for name in ["a1", "a2", "a*", "b", ".a3", "12", "q?"] {
        fs::write(source.join(name), name).unwrap();
    }
    succeeds(&["mkfs", "-q", "--size", "300M", "--from", text(&source), text(&image)]);
    let image = text(&image);
    // A name that is there is that file.
    assert_eq!(succeeds(&["cat", image, "a*"]), "a*");
    assert_eq!(succeeds(&["cat", image, "a[0-9]"]), "a1a2");
    assert_eq!(succeeds(&["cat", image, "[0-9]*"]), "12");
    assert_eq!(succeeds(&["cat", image, "q\\?"]), "q?");
    assert_eq!(uxfs(&["cat", image, "x*"]).status.code(), Some(1));
    assert_eq!(uxfs(&["cat", image, "a?", "--no-glob"]).status.code(), Some(1));
    succeeds(&["chmod", image, "600", "a?"]);
    assert!(succeeds(&["stat", image, "a[12]"]).matches("0600").count() == 2);
    succeeds(&["shell", image, "-c", "mkdir d; cp a? d; rm 'a*'; rm d/a\\*; mv a[1] z"]);
    assert_eq!(succeeds(&["ls", image, "d", "z"]), "z\n\nd:\na1\na2\n");
    assert_eq!(succeeds(&["ls", image]), ".a3\n12\na2\nb\nd\nq?\nz\n");
    assert_eq!(uxfs(&["shell", image, "-c", "rm none*"]).status.code(), Some(1));
    succeeds(&["rm", image, "[a-b]*"]);
    assert_eq!(succeeds(&["ls", image]), ".a3\n12\nd\nq?\nz\n");
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    succeeds(&["get", image, "d/a?", text(&out)]);
    assert_eq!(fs::read(out.join("a1")).unwrap(), b"a1");
    assert_eq!(uxfs(&["get", image, "d/x?", text(&out)]).status.code(), Some(1));
    succeeds(&["rm", "-r", image, "*"]);
    assert_eq!(succeeds(&["ls", image]), ".a3\n");
}

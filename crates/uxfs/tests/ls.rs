//! `uxfs ls`, judged by GNU ls in the kernel's mount of the same image.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::SystemTime,
};

use rustix::io::Errno;
use tempfile::TempDir;
use uxfs_testkit::{
    judges::{Judge, judged},
    require,
    seeds::{Random, Seed},
};

use crate::common::random_tree::{Names, RandomTree, Shape, is_late, words};
use crate::common::{program, succeeds, text, uxfs};

const COLORS: &str = "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33:so=01;35:bd=40;33;01:cd=40;33;01:or=40;31;01:mi=00:su=37;41:sg=30;43:\
    ca=00:tw=30;42:ow=34;42:st=37;44:ex=01;32:*.tar=01;31:*.gz=01;31:*.jpg=01;35:*~=00;90";

/// Options that mean the same to both, with arguments.
const OPTIONS: [&str; 34] = [
    "-l",
    "-1",
    "-i",
    "-s",
    "-F",
    "-p",
    "-R",
    "-r",
    "-t",
    "-S",
    "-X",
    "-U",
    "-v",
    "-u",
    "-c",
    "-h",
    "--si",
    "-n",
    "-g",
    "-o",
    "-G",
    "-Z",
    "-d",
    "-a",
    "-l",
    "-l",
    "--full-time",
    "--group-directories-first",
    "--time=atime",
    "--time-style=locale",
    "--time-style=iso",
    "--time-style=+%F %a %e|%j",
    "-C",
    "-x",
];

fn options(random: &mut Random, is_wild: bool) -> Vec<OsString> {
    let mut options = words(&["-w", "90"]);
    for _ in 0..random.below(6) {
        let option = OPTIONS[random.index(OPTIONS.len())];
        // How wide bytes are that are no text is up to each.
        let is_grid = matches!(option, "-C" | "-x");
        // These mean -l to GNU where they stand, and to us behind -C as well.
        let is_long =
            ["-n", "-g", "-o", "--full-time"].iter().any(|long| options.iter().any(|option| option == long));
        let has_style = options.iter().any(|option| option.as_bytes().starts_with(b"--time-style"));
        if option == "--full-time" && has_style {
            continue;
        }
        if !(is_grid && (is_wild || is_long)) {
            options.push(option.into());
        }
    }
    if random.below(5) == 0 {
        options.push("--color=always".into());
        // No mark at the end of lines.
        options[1] = "0".into();
    }
    options
}

/// Paths on the command line; none for the whole image.
fn operands(random: &mut Random, tree: &RandomTree) -> Vec<Vec<u8>> {
    let count = [0, 1, 1, 2, 5][random.index(5)];
    let mut all = [&tree.made[..], &tree.directories[1..]].concat();
    // Above the root of the mount lies a directory of the host.
    let tops = [tree.mount.path(), Path::new("/")].map(|top| fs::canonicalize(top).unwrap());
    all.retain(|path| {
        let path = tree.mount.join("tree").join(OsStr::from_bytes(path));
        // GNU refuses a link that leads to itself; here its line is shown.
        let leads_to_itself = |error: &Errno| *error == Errno::LOOP;
        let found = fs::canonicalize(path).map_err(|error| Errno::from_io_error(&error));
        found
            .map_or_else(|error| !error.as_ref().is_some_and(leads_to_itself), |found| !tops.contains(&found))
    });
    (0..count).map(|_| all[random.index(all.len())].clone()).collect()
}

fn compare(name: &'static str, names: Names, seed: u64, trees: usize, combinations: usize) {
    require!(Judge::Mkfs, Judge::Kernel);
    let seed = Seed::from_environment(name, seed);
    let mut random = seed.random();
    let began = SystemTime::now();
    let (mut done, mut failures) = (0, Vec::new());
    for _ in 0..trees {
        let tree = RandomTree::new(&mut random, &Shape::of(names, 150));
        for _ in 0..combinations {
            if is_late(began) {
                break;
            }
            failures.extend(compare_once(&mut random, &tree, names == Names::Wild));
            done += 1;
        }
        tree.finish();
    }
    assert!(
        failures.is_empty(),
        "{} of {done} differ:\n{}",
        failures.len(),
        failures[..failures.len().min(5)].join("\n")
    );
    judged("GNU ls", &format!("{done} combinations of options"));
}

fn compare_once(random: &mut Random, tree: &RandomTree, is_wild: bool) -> Option<String> {
    let options = options(random, is_wild);
    let operands = operands(random, tree);
    let mut ours = [words(&["ls"]), options.clone(), vec![tree.image().into()]].concat();
    let mut theirs = [words(&["-A", "-T", "0", "--time-style=long-iso"]), options].concat();
    theirs.push("--".into());
    ours.push("--".into());
    for operand in &operands {
        let operand = [b"tree/", &operand[..]].concat();
        ours.push(OsStr::from_bytes(&operand).into());
        theirs.push(OsStr::from_bytes(&operand).into());
    }
    if operands.is_empty() {
        ours.push("tree".into());
        theirs.push("tree".into());
    }
    let color = if random.below(2) == 0 { COLORS } else { "" };
    let run = |mut command: std::process::Command, arguments: &[OsString]| {
        command
            .args(arguments)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("LS_COLORS", color)
            .env_remove("COLUMNS");
        if color.is_empty() {
            command.env_remove("LS_COLORS");
        }
        command.output().unwrap()
    };
    let mut gnu = std::process::Command::new("ls");
    gnu.current_dir(tree.mount.path());
    let expected = run(gnu, &theirs);
    let found = run(std::process::Command::new(program()), &ours);
    let same = expected.stdout == found.stdout;
    let is_done = same && found.status.code() == Some(0);
    if is_done {
        return None;
    }
    Some(format!(
        "{theirs:?}\ncolours: {color}\n--- GNU\n{}\n--- ours ({:?})\n{}\n{}",
        shown(&expected.stdout),
        found.status,
        shown(&found.stdout),
        shown(&found.stderr),
    ))
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\x1b', "\\e")
}

#[test]
fn gnu_ls_gives_the_same_lines() {
    compare("gnu_ls_gives_the_same_lines", Names::Plain, 20_261_128, 3, 200);
}

#[test]
fn gnu_ls_gives_the_same_lines_for_any_names() {
    compare("gnu_ls_gives_the_same_lines_for_any_names", Names::Wild, 20_261_129, 2, 150);
}

/// As scripts had it before there were more options.
#[test]
fn hidden_names_are_shown_and_can_be_left_out() {
    let folder = TempDir::new().unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    for name in [".hidden", "a", "b~"] {
        fs::write(source.join(name), "text").unwrap();
    }
    succeeds(&["mkfs", "-q", "--size", "300M", "--from", text(&source), text(&image)]);
    let image = text(&image);
    assert_eq!(succeeds(&["ls", image]), ".hidden\na\nb~\n");
    assert_eq!(succeeds(&["ls", "-A", image]), ".hidden\na\nb~\n");
    assert_eq!(succeeds(&["ls", "-a", image]), ".\n..\n.hidden\na\nb~\n");
    assert_eq!(succeeds(&["ls", "-I", ".*", "-I", "*~", image]), "a\n");
    assert_eq!(succeeds(&["ls", "-s", "-H", image, "a"]), succeeds(&["ls", "-s", "-h", image, "a"]));
    // The image has no list of users.
    assert!(
        succeeds(&["ls", "-l", image, "/a"]).contains(" 1 0 0 4 "),
        "{}",
        succeeds(&["ls", "-l", image, "/a"])
    );
    assert_eq!(uxfs(&["ls", "--time-style=+%Q", image]).status.code(), Some(2));
    let documents = succeeds(&["--json", "ls", image]);
    assert_eq!(documents.lines().count(), 3, "{documents}");
}

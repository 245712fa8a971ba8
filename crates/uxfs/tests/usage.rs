//! `uxfs du` and `uxfs df` beside those of coreutils in the kernel's mount of the same image.

use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;
use uxfs_testkit::{
    golden::GoldenImage,
    image,
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
    seeds::{Random, Seed},
};

use crate::common::damaged;
use crate::common::program;
use crate::common::random_tree::{Names, RandomTree, Shape, records};

/// Command lines for each tree.
const LINES: usize = 80;
/// Shapes of file system, and a tree for each.
const SHAPES: [&[&str]; 3] =
    [&[], &["-b", "size=1024", "-n", "size=4096"], &["-i", "size=1024", "-m", "reflink=0", "-n", "parent=0"]];

#[test]
fn the_same_sums_as_du_in_the_kernel() {
    require!(Judge::Mkfs, Judge::Kernel);
    let seed = Seed::from_environment("the_same_sums_as_du_in_the_kernel", 20_261_128);
    let mut random = seed.random();
    for shape in SHAPES {
        let tree = RandomTree::new(&mut random, &Shape { options: shape, ..Shape::of(Names::Any, 500) });
        // Since coreutils 9.2 directories have no apparent size there.
        let deep = tree.host("du", &["-sb", "deep"].map(OsString::from));
        let counts_directories = !deep.starts_with(b"0");
        let mut lines = 0;
        for _ in 0..LINES {
            let words = line(&mut random, &tree, counts_directories);
            let (expected, found) = (records(&tree.host("du", &words)), records(&tree.uxfs("du", &words)));
            let difference = expected.iter().zip(&found).find(|(one, other)| one != other);
            assert!(expected == found, "{words:?}: {difference:#?}");
            lines += found.len();
        }
        judged(
            "kernel",
            &format!("{shape:?}: {} paths, {LINES} calls of du, {lines} lines", tree.paths.len()),
        );
    }
}

/// Random options, and paths of a tree.
fn line(random: &mut Random, tree: &RandomTree, counts_directories: bool) -> Vec<OsString> {
    let mut words = vec![OsString::from("-0")];
    let mut some = |random: &mut Random, one_in: u64, choices: &[&str]| {
        let is_chosen = random.below(one_in) == 0;
        if is_chosen {
            words.extend(choices[random.index(choices.len())].split(' ').map(OsString::from));
        }
        is_chosen
    };
    if !some(random, 5, &["-s", "--summarize"]) {
        some(random, 2, &["-a", "--all"]);
        some(random, 4, &["-d 0", "-d 1", "--max-depth=2", "-d3"]);
    }
    some(random, 4, &["-l", "--count-links"]);
    some(random, 4, &["-S", "--separate-dirs"]);
    some(random, 3, &["-c", "--total"]);
    // Behind numbers of inodes du prints the end of some units.
    let units: &[&str] = match some(random, 8, &["--inodes"]) {
        true => &["-h", "--si", "-k", "-m", "-BM", "-B 512"],
        false => {
            if counts_directories {
                some(random, 4, &["-b", "--bytes", "--apparent-size"]);
            }
            &[
                "-h",
                "--si",
                "-k",
                "-m",
                "-B 512",
                "-BK",
                "-BM",
                "-B KB",
                "-B 3MiB",
                "--block-size=1000",
                "-B KiB",
            ]
        }
    };
    some(random, 2, units);
    some(random, 4, &["-t 1K", "-t -8K", "--threshold=10KB", "-t 3", "-t -5"]);
    let mut take = || {
        let path = &tree.paths[random.index(tree.paths.len())];
        if path.as_os_str().len() > 3000 { OsString::from("./etc") } else { path.clone().into_os_string() }
    };
    match words.len() % 3 {
        0 => words.extend([take(), take(), take(), OsString::from("./etc")]),
        1 => words.push(take()),
        _ => words.push(".".into()),
    }
    words
}

#[test]
fn documents_have_all_numbers() {
    require!(Judge::Mkfs, Judge::Kernel);
    let tree = RandomTree::new(&mut Random::new(3), &Shape::of(Names::Any, 100));
    let text = String::from_utf8(tree.uxfs("du", &["-sc", "--json", "."].map(OsString::from))).unwrap();
    let documents: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((documents[0]["path"].as_str(), documents[1]["type"].as_str()), (Some("."), Some("total")));
    for (field, option) in [("disk_bytes", "-B1"), ("inodes", "--inodes")] {
        let judge = String::from_utf8(tree.host("du", &["-s", option, "."].map(OsString::from))).unwrap();
        let expected: u64 = judge.split('\t').next().unwrap().parse().unwrap();
        assert_eq!(documents[0][field].as_u64(), Some(expected), "{field}");
        assert_eq!(documents[0][field], documents[1][field]);
    }
}

fn run(words: &[&str], image: &Path) -> Output {
    let mut uxfs = Command::new(program());
    uxfs.args(words).arg(image).output().unwrap()
}

/// The numbers of the last line, without the name of the device and the mount point.
fn numbers(text: &[u8], behind: usize) -> Vec<String> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let words = text.lines().last().unwrap().split_whitespace().skip(1);
    words.take(behind).map(str::to_owned).collect()
}

#[test]
fn as_full_as_the_kernel_says() {
    require!(Judge::Mkfs, Judge::Kernel);
    let folder = TempDir::with_prefix_in("uxfs-df-", image::memory_folder()).unwrap();
    let image = folder.path().join("image");
    for (size, options, files) in [
        (300, &[][..], 0),
        (400, &["-b", "size=1024", "-i", "maxpct=5"], 900),
        (512, &["-m", "rmapbt=1,reflink=1", "-L", "name"], 3000),
        (1024, &["-m", "rmapbt=0,reflink=0,finobt=0", "-i", "size=1024"], 100),
        (600, &["-i", "maxpct=0", "-d", "agcount=2"], 2000),
    ] {
        image::make(&image, size << 20, options).unwrap();
        let fill = LoopMount::new(&image, Access::ReadWrite).unwrap();
        for number in 0..files {
            fs::write(fill.join(format!("file-{number}")), vec![1; number * 7 % 90_000]).unwrap();
        }
        fill.unmount().unwrap();
        let ours: Vec<(&[&str], Vec<String>)> = [
            &["-k"][..],
            &["-h"],
            &["-H"],
            &["-m"],
            &["-B", "1"],
            &["-BM"],
            &["-i"],
            &["-ih"],
            &["-T"],
            &["-iT"],
            &["-B", "3000"],
        ]
        .into_iter()
        .map(|line| {
            let output = run(&[&["df"], line].concat(), &image);
            assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
            (line, numbers(&output.stdout, 5))
        })
        .collect();
        let document = run(&["df", "--json"], &image).stdout;
        let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
        // Only a mount for writing reserves blocks. This one changes nothing.
        let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
        for (line, ours) in ours {
            let judge = Command::new("df").args(line).arg(mount.path()).env("LC_ALL", "C").output().unwrap();
            assert_eq!(ours, numbers(&judge.stdout, ours.len()), "{options:?} {line:?}");
        }
        let status = rustix::fs::statvfs(mount.path()).unwrap();
        mount.unmount().unwrap();
        assert_eq!(document["size_bytes"].as_u64(), Some(status.f_blocks * status.f_frsize));
        assert_eq!(document["available_bytes"].as_u64(), Some(status.f_bavail * status.f_frsize));
        assert_eq!(document["inodes"].as_u64(), Some(status.f_files));
        judged("kernel", &format!("df: {options:?}"));
    }
    let both =
        Command::new(program()).arg("df").args([&image, &folder.path().join("none")]).output().unwrap();
    assert_eq!((both.status.code(), String::from_utf8(both.stdout).unwrap().lines().count()), (Some(1), 2));
}

#[test]
fn all_shapes_are_as_full_as_the_kernel_says() {
    require!(Judge::Kernel);
    let folder = TempDir::with_prefix_in("uxfs-df-", image::memory_folder()).unwrap();
    let image = folder.path().join("image");
    let mut tried = 0;
    for golden in GoldenImage::all().unwrap() {
        golden.unpack_to(&image).unwrap();
        let before = (golden.name() == GoldenImage::dirty_log().name()).then(|| fs::read(&image).unwrap());
        let output = run(&["df", "-B", "1"], &image);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        if let Some(before) = before {
            assert!(fs::read(&image).unwrap() == before, "a dirty log is replayed in memory");
        }
        // This kernel does not know all features.
        let Ok(mount) = LoopMount::new(&image, Access::ReadWrite) else { continue };
        let judge =
            Command::new("df").args(["-B", "1"]).arg(mount.path()).env("LC_ALL", "C").output().unwrap();
        mount.unmount().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}: {told}", golden.name());
        assert_eq!(numbers(&output.stdout, 4), numbers(&judge.stdout, 4), "{}", golden.name());
        tried += 1;
    }
    assert!(tried > 10);
    judged("kernel", &format!("df: {tried} shapes"));
}

#[test]
fn damage_ends_nothing_but_the_way_into_it() {
    require!(Judge::Mkfs, Judge::Kernel);
    damaged::survives(&["du", "IMAGE", "/"]);
    damaged::survives(&["du", "-ab", "--tolerant", "IMAGE", "/", "/wide"]);
}

#[test]
fn a_directory_that_holds_itself_counts_once() {
    require!(Judge::Mkfs, Judge::Kernel, Judge::XfsDb);
    let looped = damaged::looped();
    for words in [&["du", "--inodes", "IMAGE"][..], &["du", "--inodes", "-l", "IMAGE"]] {
        let output = looped.uxfs(words);
        assert_eq!(output.status.code(), Some(3), "{words:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("a second time"));
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "1\t/outer/inner\n2\t/outer\n3\t/\n",
            "{words:?}"
        );
    }
    let output = looped.uxfs(&["du", "-s", "IMAGE", "/outer", "/outer/inner"]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap().lines().count(),
        1,
        "the second is part of the first"
    );
}

#[test]
fn wrong_options_are_named() {
    require!(Judge::Mkfs, Judge::Kernel);
    let tree = RandomTree::new(&mut Random::new(8), &Shape::of(Names::Any, 5));
    for (words, expected) in [
        (&["du", "-s", "-a"][..], "--all"),
        (&["du", "-s", "-d", "1"], "--max-depth"),
        (&["du", "-B", "x"], "`x`"),
        (&["du", "-B", "0"], "the unit is 0"),
        (&["du", "-t", "-0"], "smaller than 0"),
        (&["df", "-B", "1Q"], "`1Q`"),
    ] {
        let output = run(words, &tree.image());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.contains(expected), "{words:?}: {told}");
    }
}

//! Called through a link as another tool: the same command lines as that tool's, on the same images.

use std::{
    fs,
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::{Judge, are_required},
    mount::{Access, LoopMount},
    require,
    sparse::{self, Contents},
    verdict::repair_is_silent,
};

use crate::common::{program, succeeds, text, uxfs};

const TOOLS: [&str; 8] = [
    "xfs_repair",
    "fsck.uxfs",
    "fsck.xfs",
    "mkfs.xfs",
    "xfs_info",
    "xfs_admin",
    "xfs_metadump",
    "xfs_mdrestore",
];

/// A folder with links to the program, and images.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        for name in TOOLS {
            symlink(program(), folder.path().join(name)).unwrap();
        }
        let sound = folder.path().join("sound");
        succeeds(&["mkfs", "--unsupported", "--size", "64M", "--from", "src", text(&sound)]);
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn call(&self, tool: &str, arguments: &[&str]) -> Output {
        Command::new(self.at(tool)).args(arguments).output().unwrap()
    }

    /// The image in a state, fresh.
    fn image(&self, state: &str) -> PathBuf {
        let image = self.at("image");
        let _ = fs::remove_file(&image);
        let _ = fs::remove_file(self.at("image.uxfs-undo"));
        let sound = || assert!(fs::copy(self.at("sound"), &image).unwrap() > 0);
        let dirty = || GoldenImage::named("dirty-log").unwrap().unpack_to(&image).unwrap();
        match state {
            "sound" => sound(),
            "dirty" => dirty(),
            "damaged" => {
                sound();
                overwrite(&image, 512, 3 * 512, 0);
            }
            "without superblock" => {
                sound();
                overwrite(&image, 0, 512, 0);
            }
            "bad log" => {
                dirty();
                damage_log(&image);
            }
            "not a file system" => fs::write(&image, vec![0; 1 << 20]).unwrap(),
            "empty" => fs::write(&image, b"").unwrap(),
            "missing" => {}
            _ => panic!("{state}"),
        }
        image
    }
}

fn overwrite(image: &Path, offset_bytes: u64, length: usize, byte: u8) {
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    file.write_all_at(&vec![byte; length], offset_bytes).unwrap();
}

/// Overwrites the log but for its ends, so that neither head nor tail can be found.
fn damage_log(image: &Path) {
    let output = uxfs(&["info", "--json", text(image)]);
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success());
    let bytes = fs::read(image).unwrap();
    let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    // sb_blocksize, sb_logstart, sb_agblocks, sb_logblocks, sb_agblklog.
    let (block, start, group_blocks, blocks) = (half(4), word(48), half(84), half(96));
    let shift = bytes[124];
    let place = (start >> shift) * u64::from(group_blocks) + (start & ((1 << shift) - 1));
    let length = usize::try_from(u64::from(blocks) * u64::from(block)).unwrap();
    assert!(info.is_object());
    overwrite(image, place * u64::from(block), length, 0x5a);
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// A state, options, and our exit code where it is another one, with the reason.
type Case = (&'static str, &'static [&'static str], Option<(i32, &'static str)>);

/// States and options, with the exit code where ours is not that of xfs_repair 7.2, and why.
const CASES: [Case; 26] = [
    ("sound", &[], None),
    ("sound", &["-n"], None),
    ("sound", &["-e"], None),
    ("sound", &["-f", "-P", "-v", "-t", "10"], None),
    ("sound", &["-L"], None),
    ("sound", &["-m", "500"], None),
    ("sound", &["-o", "ag_stride=2,bhash=1024"], None),
    ("sound", &["-V"], None),
    ("damaged", &["-n"], None),
    ("damaged", &[], None),
    ("damaged", &["-e"], None),
    ("damaged", &["-nv"], None),
    ("without superblock", &["-n"], None),
    ("without superblock", &["-e"], None),
    ("dirty", &["-L"], None),
    ("dirty", &[], Some((0, "the log is replayed"))),
    ("dirty", &["-e"], Some((0, "the log is replayed, and nothing else is wrong"))),
    ("bad log", &[], None),
    ("bad log", &["-L"], None),
    ("not a file system", &[], None),
    ("not a file system", &["-n"], None),
    ("empty", &["-n"], None),
    ("missing", &[], None),
    ("sound", &["-n", "-e"], None),
    ("sound", &["-Z"], None),
    ("sound", &["-o", "nonsense=1"], None),
];

#[test]
fn exit_codes_are_those_of_xfs_repair() {
    require!(Judge::XfsRepair);
    let bench = Bench::new();
    let mut differences = Vec::new();
    for (state, options, ours) in CASES {
        let image = bench.image(state);
        let theirs = Judge::XfsRepair.command().args(options).arg(&image).output().unwrap();
        let image = bench.image(state);
        let done = bench.call("xfs_repair", &[options, &[text(&image)]].concat());
        let expected = ours.map_or(theirs.status.code(), |(code, _)| Some(code));
        // What is different stays different, or the reason is out of date.
        let is_as_told = ours.is_none() || theirs.status.code() != expected;
        if done.status.code() != expected || !is_as_told {
            let (code, words) = (done.status.code(), words(&done));
            differences
                .push(format!("{state} {options:?}: {:?}, ours {code:?}: {words}", theirs.status.code()));
        }
        let repaired =
            !options.contains(&"-n") && done.status.code() != Some(1) && done.status.code() != Some(2);
        if repaired && !options.contains(&"-V") {
            repair_is_silent(&image).unwrap();
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    for arguments in [&[][..], &["one", "two"]] {
        let theirs = Judge::XfsRepair.command().args(arguments).output().unwrap();
        assert_eq!(bench.call("xfs_repair", arguments).status.code(), theirs.status.code(), "{arguments:?}");
    }
}

#[test]
fn refused_options_are_named_and_nothing_is_written() {
    let bench = Bench::new();
    let image = bench.image("damaged");
    let before = Contents::read(&image).unwrap();
    let refused = [
        (&["-l", "/dev/null"][..], "-l"),
        (&["-r", "/dev/null"], "-r"),
        (&["-c", "lazycount=1"], "-c lazycount=1"),
        (&["-d"], "-d"),
        (&["-o", "bhash=1,noquota"], "-o noquota"),
    ];
    for (options, named) in refused {
        let output = bench.call("xfs_repair", &[options, &[text(&image)]].concat());
        let words = words(&output);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.starts_with("xfs_repair: ") && words.contains(named), "{words}");
    }
    assert!(before == Contents::read(&image).unwrap(), "it was changed");
}

#[test]
fn a_mounted_file_system_is_refused() {
    require!(Judge::Kernel);
    let bench = Bench::new();
    let image = bench.image("sound");
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    for (tool, options, code) in [
        ("xfs_repair", &[][..], 1),
        ("xfs_repair", &["-n"], 1),
        ("fsck.uxfs", &[], 8),
        ("fsck.uxfs", &["-n"], 8),
        // A boot goes on.
        ("fsck.uxfs", &["-a"], 0),
    ] {
        let output = bench.call(tool, &[options, &[text(&image)]].concat());
        let words = words(&output);
        assert_eq!(output.status.code(), Some(code), "{tool} {options:?}: {words}");
        assert!(words.starts_with(tool) && words.contains("it is mounted at"), "{words}");
    }
    mount.unmount().unwrap();
}

#[test]
fn fsck_has_the_exit_codes_of_fsck() {
    let bench = Bench::new();
    let cases: [(&str, &[&str], i32); 21] = [
        ("sound", &[], 0),
        ("sound", &["-n"], 0),
        ("sound", &["-a"], 0),
        ("sound", &["-p"], 0),
        ("sound", &["-y", "-f"], 0),
        ("sound", &["-a", "-C0"], 0),
        ("dirty", &["-a"], 0),
        ("dirty", &["-a", "-f"], 1),
        ("damaged", &["-n"], 4),
        ("damaged", &[], 1),
        ("damaged", &["-y"], 1),
        // A mount refuses nothing here: the rest is for -f.
        ("damaged", &["-a"], 0),
        ("damaged", &["-p", "-f"], 1),
        ("without superblock", &["-a"], 1),
        // To give up a log is no decision for a boot.
        ("bad log", &["-p"], 4),
        ("bad log", &["-a", "-f"], 4),
        ("bad log", &["-y"], 1),
        ("not a file system", &[], 8),
        ("missing", &["-a"], 8),
        ("sound", &["-n", "-y"], 16),
        ("sound", &["-Z"], 16),
    ];
    for (state, options, expected) in cases {
        let image = bench.image(state);
        let output = bench.call("fsck.uxfs", &[options, &[text(&image)]].concat());
        assert_eq!(output.status.code(), Some(expected), "{state} {options:?}: {}", words(&output));
    }
    // A log that cannot be used is told, and kept to the last byte.
    let image = bench.image("bad log");
    let before = Contents::read(&image).unwrap();
    let told = words(&bench.call("fsck.uxfs", &["-a", text(&image)]));
    for expected in ["changes that only it has would be lost", "; uxfs repair ", "fsck.uxfs without -a"] {
        assert!(told.contains(expected), "{told}");
    }
    assert!(before == Contents::read(&image).unwrap(), "it was changed");
    let help = words(&bench.call("fsck.uxfs", &["--help"]));
    assert!(help.contains("fsck $PWD/disk.img") && help.contains("/etc/fstab"), "{help}");
    for tool in ["fsck.uxfs", "fsck.xfs"] {
        assert_eq!(bench.call(tool, &[]).status.code(), Some(16));
    }
    let image = bench.image("damaged");
    assert_eq!(bench.call("fsck.xfs", &[text(&image)]).status.code(), Some(1));
}

/// The wrapper of util-linux sees an XFS file system, finds the link in PATH, and gives its exit code; a table of file systems that names
/// the type uxfs leads it to the other link.
#[test]
fn fsck_of_util_linux_calls_it() {
    let Some(fsck) = ["/usr/sbin/fsck", "/sbin/fsck"].into_iter().find(|path| Path::new(path).exists())
    else {
        assert!(!are_required(), "there is no fsck of util-linux");
        println!("there is no fsck of util-linux");
        return;
    };
    let bench = Bench::new();
    let table = bench.at("fstab");
    for (state, expected) in [("sound", 0), ("damaged", 1)] {
        for file_system in ["xfs", "uxfs"] {
            let image = bench.image(state);
            fs::write(&table, format!("{} /mnt {file_system} loop 0 2\n", image.display())).unwrap();
            let output = Command::new(fsck)
                .args(["-T", text(&image)])
                .env("PATH", bench.folder.path())
                .env("LIBMOUNT_FSTAB", &table)
                .output()
                .unwrap();
            let words = words(&output);
            assert_eq!(output.status.code(), Some(expected), "{file_system} {state}: {words}");
            assert!(words.contains(if expected == 0 { "nothing to repair" } else { "repaired," }), "{words}");
        }
    }
}

/// A tool of xfsprogs.
fn theirs(tool: &str, arguments: &[&str]) -> Output {
    let repair = Judge::XfsRepair.path().unwrap();
    Command::new(repair.with_file_name(tool)).args(arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn geometry_is_shown_as_xfs_info_shows_it() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let bench = Bench::new();
    for image in [bench.image("sound"), bench.image("dirty")] {
        let (ours, theirs) = (bench.call("xfs_info", &[text(&image)]), theirs("xfs_info", &[text(&image)]));
        assert_eq!((ours.status.code(), printed(&ours)), (Some(0), printed(&theirs)));
    }
    let mounted = LoopMount::new(&bench.image("sound"), Access::ReadOnly).unwrap();
    let ours = bench.call("xfs_info", &[text(mounted.path())]);
    assert_eq!(printed(&ours), printed(&theirs("xfs_info", &[text(mounted.path())])), "{}", words(&ours));
    mounted.unmount().unwrap();
    let refused = bench.call("xfs_info", &["/proc"]);
    assert!(refused.status.code() == Some(1) && words(&refused).contains("proc"), "{}", words(&refused));
}

#[test]
fn label_and_uuid_are_changed_as_by_xfs_admin() {
    require!(Judge::XfsRepair);
    let bench = Bench::new();
    let [ours, other] = ["ours", "other"].map(|name| bench.at(name));
    for image in [&ours, &other] {
        sparse::copy(bench.at("sound"), image).unwrap();
    }
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    for options in [
        &["-L", "data"][..],
        &["-l"],
        &["-U", uuid],
        &["-u"],
        &["-l", "-u"],
        &["-L", "--"],
        &["-l"],
        &["-U", "restore"],
        &["-L", "twelve-bytes", "-U", uuid],
    ] {
        let done = bench.call("xfs_admin", &[options, &[text(&ours)]].concat());
        let by_them = theirs("xfs_admin", &[options, &[text(&other)]].concat());
        assert_eq!(done.status.code(), by_them.status.code(), "{options:?}: {}", words(&done));
        // What it does on the way is not told here.
        let is_result = |line: &&str| line.contains(" = ");
        let (done, by_them) = (printed(&done), printed(&by_them));
        let lines = |text: &str| text.lines().filter(is_result).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(&done), lines(&by_them), "{options:?}");
        let identity = |image: &Path| printed(&theirs("xfs_admin", &["-l", "-u", text(image)]));
        assert_eq!(identity(&ours), identity(&other), "{options:?}");
    }
    repair_is_silent(&ours).unwrap();
    for option in [&["-j"][..], &["-c", "0"], &["-O", "bigtime=1"], &["-r", "/dev/null"]] {
        let before = Contents::read(&ours).unwrap();
        let refused = bench.call("xfs_admin", &[option, &[text(&ours)]].concat());
        assert!(refused.status.code() == Some(1) && words(&refused).starts_with("xfs_admin: "), "{option:?}");
        assert!(Contents::read(&ours).unwrap() == before);
    }
}

#[test]
fn dumps_are_made_and_restored() {
    require!(Judge::XfsRepair);
    let bench = Bench::new();
    let image = bench.image("sound");
    let [dump, restored, by_them] = ["dump", "restored", "by them"].map(|name| bench.at(name));
    let done = bench.call("xfs_metadump", &["-a", "-o", "-g", "-w", "-m", "1000", text(&image), text(&dump)]);
    assert_eq!(done.status.code(), Some(0), "{}", words(&done));
    assert_eq!(theirs("xfs_mdrestore", &[text(&dump), text(&by_them)]).status.code(), Some(0));
    for _ in 0..2 {
        // An image that is there is replaced.
        let done = bench.call("xfs_mdrestore", &[text(&dump), text(&restored)]);
        assert_eq!(done.status.code(), Some(0), "{}", words(&done));
        // They write the quota inodes that there are not as -1, where the superblock has 0.
        assert!(fs::read(&restored).unwrap()[512..] == fs::read(&by_them).unwrap()[512..]);
    }
    repair_is_silent(&restored).unwrap();
    let told = bench.call("xfs_mdrestore", &["-i", text(&dump)]);
    assert!(told.status.success() && printed(&told).contains("version 2"));
    for refused in [&["-e"][..], &["-v", "1"], &["-l", "/dev/null"]] {
        let output = bench.call("xfs_metadump", &[refused, &[text(&image), text(&dump)]].concat());
        assert!(output.status.code() == Some(1) && words(&output).contains(refused[0]), "{refused:?}");
    }
}

#[test]
fn versions_and_wrong_command_lines_are_those_of_the_tools() {
    require!(Judge::XfsRepair);
    let bench = Bench::new();
    for tool in ["mkfs.xfs", "xfs_repair", "xfs_info", "xfs_admin", "xfs_metadump", "xfs_mdrestore"] {
        let version = bench.call(tool, &["-V"]);
        assert!(
            version.status.success() && printed(&version).starts_with(&format!("{tool} version 7.")),
            "{tool}"
        );
        for wrong in [&["-z"][..], &["--no-such-option"], &["one", "two", "three", "four"]] {
            let output = bench.call(tool, wrong);
            assert_eq!(output.status.code(), theirs(tool, wrong).status.code(), "{tool} {wrong:?}");
            assert!(words(&output).starts_with(&format!("{tool}: ")), "{tool} {wrong:?}: {}", words(&output));
            assert!(
                !words(&output).contains(&format!("{tool} mkfs")),
                "{tool} {wrong:?}: {}",
                words(&output)
            );
        }
    }
    let help = printed(&bench.call("mkfs.xfs", &["--help"]));
    assert!(help.contains("Usage: mkfs.xfs [OPTIONS] [IMAGE]"), "{help}");
}

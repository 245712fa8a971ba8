//! Random scripts through `uxfs shell` on one image, and through coreutils on a kernel mount of its copy: both hold the same
//! afterwards. Times of now are times of now, whichever they are.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use tempfile::TempDir;
use uxfs_testkit::{
    image,
    judges::{Judge, judged},
    manifest::{self, Header, Manifest, Timestamp},
    mount::{Access, LoopMount},
    require,
    seeds::{Random, Seed},
    sparse, verdict,
};

use super::script::{self, Line};
use crate::common::program;

/// Commands of one script.
const LINES: usize = 120;
/// Shapes of file system, and a script for each.
const SHAPES: [&[&str]; 5] = [
    &[],
    &["-b", "size=1024"],
    &["-m", "reflink=0"],
    &["-i", "exchange=0"],
    &["-i", "size=1024", "-n", "parent=0"],
];

/// Lines at the end of each script, which random ones seldom are: O_TRUNC sets the times of an empty file, too.
const ALWAYS: [(&str, &str); 4] =
    [("touch", "empty"), ("touch", "old"), ("touch", "-d @1234567890 old"), ("cp", "empty old")];

#[test]
fn the_shell_does_what_coreutils_do() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel, Judge::Setfattr);
    let seed = Seed::from_environment("the_shell_does_what_coreutils_do", 20_261_120);
    let mut random = seed.random();
    for shape in SHAPES {
        let is_compared = (0..5).any(|_| {
            let mut lines = script::random(Random::new(random.next_u64()), LINES);
            lines.extend(ALWAYS.map(|(command, rest)| (command, rest.to_owned())));
            compare(shape, &lines)
        });
        assert!(is_compared, "{shape:?}: GNU cp ran away in each of five scripts");
    }
}

/// Runs a script on both sides, and compares them. Returns `false`, without comparing, if `cp -L -r` of GNU met a link to the directory to which
/// it copies: it then copies into itself until paths are too long.
fn compare(shape: &[&str], lines: &[Line]) -> bool {
    let folder = TempDir::with_prefix_in("uxfs-edit-", image::memory_folder()).unwrap();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    image::make(&ours, 96 << 20, shape).unwrap();
    sparse::copy(&ours, &theirs).unwrap();
    let sources = folder.path().join("sources");
    make_sources(&sources);
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed() - 1;

    let text = lines.iter().map(|(command, rest)| match *command {
        "put" => format!("put {}/{rest}\n", sources.display()),
        command => format!("{command} {rest}\n"),
    });
    let text: String = text.collect();
    let mut shell = Command::new(program());
    shell.args(["shell", "-k"]).arg(&ours);
    let told = feed(&mut shell, &text);
    assert!(!told.contains("panicked"), "{shape:?}: {told}\n{text}");

    let kernel = LoopMount::new(&theirs, Access::ReadWrite).unwrap();
    let words = lines.iter().map(|(command, rest)| match *command {
        "put" => format!("cp --sparse=always {}/{rest}\n", sources.display()),
        command => format!("{command} {rest}\n"),
    });
    let words = format!("cd {} || exit 1\numask 022\n{}", kernel.path().display(), words.collect::<String>());
    let refused = feed(&mut Command::new("bash"), &words);
    let deep = Command::new("find").arg(kernel.path()).args(["-mindepth", "50", "-print", "-quit"]).output();
    if !deep.unwrap().stdout.is_empty() {
        return false;
    }
    let expected = comparable(kernel_manifest(&kernel, &theirs), began);
    kernel.unmount().unwrap();

    verdict::repair_is_silent(&ours).unwrap();
    let mount = LoopMount::new(&ours, Access::ReadOnly).unwrap();
    let found = comparable(kernel_manifest(&mount, &ours), began);
    mount.unmount().unwrap();
    verdict::same(&expected, &found).unwrap_or_else(|error| {
        panic!("{shape:?}: {error:#}\n{text}\nuxfs said:\n{told}\ncoreutils said:\n{refused}")
    });
    judged("kernel", &format!("{shape:?}: {} paths after {} commands", expected.entries.len(), lines.len()));
    true
}

/// Runs a command with this input, and gives what it said on standard error.
fn feed(command: &mut Command, input: &str) -> String {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned()
}

fn make_sources(folder: &Path) {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("small"), "a few bytes\n").unwrap();
    let large: Vec<u8> = (0..300_077_u32).map(|index| ((index * 31) >> 3) as u8).collect();
    fs::write(folder.join("large"), large).unwrap();
    let mut sparse = vec![0; 2_000_000];
    sparse[900_000..900_003].copy_from_slice(b"end");
    fs::write(folder.join("sparse"), &sparse).unwrap();
}

fn kernel_manifest(mount: &LoopMount, image: &Path) -> Manifest {
    let header = Header {
        image: image.display().to_string(),
        judge: "kernel".to_owned(),
        made_by: "a test".to_owned(),
    };
    manifest::from_mount(mount.path(), header).unwrap()
}

/// Without what differs between any two runs.
fn comparable(manifest: Manifest, began: i64) -> Manifest {
    let mut manifest = verdict::portable(manifest);
    let now = |time: &mut Option<Timestamp>| {
        if time.is_some_and(|Timestamp(seconds, _)| seconds >= began) {
            *time = Some(Timestamp(i64::MAX, 0));
        }
    };
    for details in manifest.entries.iter_mut().filter_map(|entry| entry.details.as_deref_mut()) {
        now(&mut details.modification_time);
        // Reading changes it, and comparing is reading.
        details.access_time = None;
    }
    manifest
}

//! Files that are made to cost time or memory where their lines are compared.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    time::Duration,
};

use uxfs_testkit::{
    image::memory_folder,
    limits::{Limits, run_limited},
    seeds::Seed,
};

use crate::common::{program, text};

/// The library gives up after five seconds; the rest is for a machine with other work.
const TIME: Duration = Duration::from_secs(60);
const MEMORY_BYTES: u64 = 640 << 20;

fn judge(name: &str, first: &[u8], second: &[u8]) {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let [a, b] = ["a", "b"].map(|side| folder.path().join(side));
    for (root, bytes) in [(&a, first), (&b, second)] {
        fs::create_dir(root).unwrap();
        fs::write(root.join("file"), bytes).unwrap();
    }
    // What is printed, and how, costs the same for all.
    for json in [true, false].into_iter().skip(usize::from(name != "equal lines")) {
        let mut command = Command::new(program());
        command.args(["diff", "-u", "--only", "contents", text(&a), text(&b)]);
        if json {
            command.arg("--json");
        }
        let outcome = run_limited(&mut command, &Limits { time: TIME, ..Limits::default() }).unwrap();
        let seconds = outcome.elapsed.as_secs_f64();
        let told = format!("{name}, json {json}: {seconds:.1} s, {} MiB", outcome.peak_memory_bytes >> 20);
        assert_eq!(outcome.escape(MEMORY_BYTES), None, "{told}");
        assert_eq!(outcome.code, Some(1), "{told}");
        if !json && !first.contains(&0) {
            assert_patched(name, folder.path(), &outcome.stdout);
        }
    }
}

/// The patch is right, too.
fn assert_patched(name: &str, folder: &Path, patch: &[u8]) {
    let path = folder.join("patch");
    fs::write(&path, patch).unwrap();
    let mut command = Command::new("patch");
    command.args(["-p1", "-s", "-d", text(&folder.join("a"))]).stdin(File::open(&path).unwrap());
    assert!(command.status().unwrap().success(), "{name}");
    assert!(fs::read(folder.join("a/file")).unwrap() == fs::read(folder.join("b/file")).unwrap(), "{name}");
}

#[test]
fn time_and_memory_are_bounded() {
    let mut random = Seed::from_environment("time_and_memory_are_bounded", 20_261_167).random();
    let [one, two] = [(); 2].map(|()| {
        let mut text = Vec::new();
        while text.len() < 4 << 20 {
            let length = random.index(8);
            text.extend((0..length).map(|_| b'a' + random.below(8) as u8));
            text.push(b'\n');
        }
        text
    });
    judge("short lines", &one, &two);
    judge("one line", &vec![b'a'; 16 << 20], &[&vec![b'a'; (16 << 20) - 1][..], b"b"].concat());
    judge("equal lines", "\n".repeat(1_000_000).as_bytes(), "\n".repeat(1_000_001).as_bytes());
    let [one, two] = [(); 2].map(|()| {
        let lines = (0..1_900_000).map(|_| format!("{}\n", random.below(8_000_000)));
        lines.collect::<String>().into_bytes()
    });
    judge("different lines", &one, &two);
    let half = &one[..one.len() / 2];
    let mut lines: Vec<&[u8]> = half.split_inclusive(|byte| *byte == b'\n').collect();
    lines.reverse();
    judge("lines turned round", half, &lines.concat());
    judge("zeros", &[0; 16 << 20], &[&[0; (16 << 20) - 1][..], b"b"].concat());
}

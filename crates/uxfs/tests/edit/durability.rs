//! What stays when space runs out, when bad input comes, and when the shell is killed.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use tempfile::TempDir;
use uxfs_testkit::{
    image,
    judges::{Judge, judged},
    require,
    seeds::Seed,
    verdict,
};

use crate::common::{program, succeeds, text, uxfs};

/// Contents of the file that a step of the script puts in.
fn contents(step: usize) -> Vec<u8> {
    format!("file {step}\n").repeat(1 + step * 97 % 5000).into_bytes()
}

/// Each step is three commands. After each tenth the shell makes all durable, and says so.
fn script(folder: &std::path::Path, steps: usize) -> String {
    let mut script = String::new();
    for step in 0..steps {
        let source = folder.join(format!("source-{step}"));
        fs::write(&source, contents(step)).unwrap();
        script += &format!(
            "mkdir d{step:04}\nput {} d{step:04}/new\nmv d{step:04}/new d{step:04}/file\n",
            text(&source)
        );
        if step % 3 == 2 {
            script += &format!("rm -r d{:04}\n", step - 1);
        }
        if step % 10 == 9 {
            script += "sync\npwd\n";
        }
    }
    script
}

#[test]
fn a_killed_shell_leaves_the_beginning_of_its_script() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    const STEPS: usize = 200;
    let mut random = Seed::from_environment("a_killed_shell", 42).random();
    let folder = TempDir::with_prefix_in("uxfs-kill-", image::memory_folder()).unwrap();
    let script = script(folder.path(), STEPS);
    for round in 0..6 {
        let path = folder.path().join("image");
        image::make(&path, 64 << 20, &[]).unwrap();
        let mut shell = Command::new(program());
        shell.arg("shell").arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let words = script.clone();
        // A pipe without a reader ends it.
        let writer = std::thread::spawn(move || drop(input.write_all(words.as_bytes())));
        let mut acknowledged = 0;
        let stop_after = random.below(STEPS as u64 / 10) as usize;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while acknowledged < stop_after && lines.next().is_some() {
            acknowledged += 1;
        }
        std::thread::sleep(std::time::Duration::from_micros(random.below(30_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        writer.join().unwrap();
        succeeds(&["replay", text(&path)]);
        verdict::repair_is_silent(&path).unwrap();
        let done = check_prefix(text(&path), STEPS);
        assert!(done >= acknowledged * 10, "round {round}: {done} steps of {acknowledged} times ten");
        judged(
            "xfs_repair",
            &format!("killed after {acknowledged} acknowledgements: {done} steps were there"),
        );
    }
}

/// Steps that are there whole; all before them are, and of those behind at most a part of one.
fn check_prefix(image: &str, steps: usize) -> usize {
    let mut sizes = BTreeMap::new();
    for line in succeeds(&["--json", "ls", "-lR", image]).lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        sizes.insert(entry["path"].as_str().unwrap().to_owned(), entry["size_bytes"].as_u64().unwrap());
    }
    let has = |path: String| sizes.contains_key(&path);
    // A step's directory is removed by the step behind it, or stays.
    let removes = |step: usize| step % 3 == 2;
    let is_begun = |step: usize| has(format!("/d{step:04}"));
    let last = (0..steps).rev().find(|step| is_begun(*step));
    let Some(last) = last else { return 0 };
    for step in 0..last {
        let is_removed = removes(step + 1) && (step + 1 < last || !is_begun(step));
        if is_removed {
            assert!(!is_begun(step), "step {step} was removed before step {last}");
            continue;
        }
        let is_being_removed = removes(step + 1) && step + 1 == last;
        let size = sizes.get(&format!("/d{step:04}/file"));
        assert!(
            is_being_removed || size == Some(&(contents(step).len() as u64)),
            "step {step} of {last}: {size:?}"
        );
        if size.is_some() {
            let found = uxfs(&["cat", image, &format!("/d{step:04}/file")]).stdout;
            assert!(found == contents(step), "contents of step {step}");
        }
    }
    // Readers see put as one step: the whole file or none.
    for name in ["new", "file"] {
        let size = sizes.get(&format!("/d{last:04}/{name}"));
        assert!(size.is_none_or(|size| *size == contents(last).len() as u64), "step {last}: {size:?}");
    }
    if has(format!("/d{last:04}/file")) { last + 1 } else { last }
}

#[test]
fn a_full_image_loses_nothing() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for shape in [&[][..], &["-i", "exchange=0"], &["-m", "reflink=0", "-i", "exchange=0"]] {
        let folder = TempDir::with_prefix_in("uxfs-full-", image::memory_folder()).unwrap();
        let path = folder.path().join("image");
        image::make(&path, 32 << 20, shape).unwrap();
        let source = |name: &str, length: usize, byte: u8| {
            let path = folder.path().join(name);
            fs::write(&path, vec![byte; length]).unwrap();
            path
        };
        let (old, large) = (source("old", 100_000, 1), source("large", 40 << 20, 2));
        let image = text(&path);
        succeeds(&["put", image, text(&old), "/kept"]);
        let refused = uxfs(&["put", image, text(&large), "/kept"]);
        let words = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{words}");
        assert!(words.contains("/kept: no space left") && words.contains("remove files"), "{words}");
        assert!(uxfs(&["cat", image, "/kept"]).stdout == vec![1; 100_000], "{shape:?}");
        // Nor does an empty file get a part.
        succeeds(&["put", image, text(&source("nothing", 0, 0)), "/empty"]);
        assert_eq!(uxfs(&["put", image, text(&large), "/empty"]).status.code(), Some(1));
        assert!(uxfs(&["cat", image, "/empty"]).stdout.is_empty(), "{shape:?}");
        let refused = uxfs(&["put", image, text(&large), "/new"]);
        assert_eq!(refused.status.code(), Some(1));
        assert_eq!(uxfs(&["stat", image, "/new"]).status.code(), Some(1), "no half of it stays");
        // Filled to the brim by small ones, which go again.
        let small = source("small", 400_000, 3);
        let fill: String = (0..100).map(|number| format!("put {} f{number}\n", text(&small))).collect();
        let filled = uxfs(&["shell", image, "-k", "-c", &fill]);
        assert_eq!(filled.status.code(), Some(1), "at some moment there is no room");
        verdict::repair_is_silent(&path).unwrap();
        let remove: String = (0..100).map(|number| format!("rm -f f{number}\n")).collect();
        succeeds(&["shell", image, "-c", &remove]);
        assert!(uxfs(&["cat", image, "/kept"]).stdout == vec![1; 100_000]);
        verdict::repair_is_silent(&path).unwrap();
        judged("xfs_repair", &format!("{shape:?}: full and emptied"));
    }
}

/// Without exchange intents no more than one transaction may be needed: else a crash could leave a part.
#[test]
fn contents_that_cannot_change_places_at_once_are_not_replaced() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    use std::os::unix::fs::FileExt;
    let folder = TempDir::with_prefix_in("uxfs-places-", image::memory_folder()).unwrap();
    let path = folder.path().join("image");
    image::make(&path, 64 << 20, &["-i", "exchange=0"]).unwrap();
    let image = text(&path);
    let scattered = |name: &str, pieces: u64, byte: u8| {
        let path = folder.path().join(name);
        let file = fs::File::create(&path).unwrap();
        (0..pieces).for_each(|piece| file.write_all_at(&[byte; 4096], piece * 8192).unwrap());
        path
    };
    let (many, few) = (scattered("many", 600, 1), scattered("few", 10, 2));
    let contents = |name| uxfs(&["cat", image, name]).stdout;
    succeeds(&["put", image, text(&many), "/file"]);
    let refused = uxfs(&["put", image, text(&few), "/file"]);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("no exchange intents") && words.contains("move that over this one"), "{words}");
    assert!(contents("/file") == fs::read(&many).unwrap(), "the old contents are still there");
    // As the message says.
    succeeds(&["put", image, text(&few), "/new"]);
    succeeds(&["mv", image, "/new", "/file"]);
    assert!(contents("/file") == fs::read(&few).unwrap());
    // Few enough change places.
    succeeds(&["put", image, text(&scattered("other", 400, 3)), "/file"]);
    assert!(contents("/file") == fs::read(folder.path().join("other")).unwrap());
    verdict::repair_is_silent(&path).unwrap();
    judged("xfs_repair", "replaced where it is one transaction, else refused");
}

//! `uxfs bench` in process: what the workloads leave in an image is sound in the eyes of the judges, and what they print
//! counts right. Never times.

use std::{path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;
use uxfs_testkit::{
    image::memory_folder,
    judges::Judge,
    mount::{Access, LoopMount},
    require, verdict,
};

use crate::common::program;

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("uxfs-bench-").tempdir_in(memory_folder()).unwrap()
}

fn bench(arguments: &[&str], image: &Path) -> Vec<Value> {
    let output = Command::new(program())
        .args(["--json", "bench"])
        .args(arguments)
        .arg("--image")
        .arg(image)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {words}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn many_files_in_an_image() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = folder();
    for (number, mode) in ["delayed", "immediate", "bulk"].iter().enumerate() {
        let image = folder.path().join(mode);
        let workload = [
            "fsmark",
            "--size",
            "400M",
            "--log-mode",
            mode,
            "-d",
            "/a",
            "-d",
            "/b",
            "-t",
            "2",
            "-D",
            "4",
            "-N",
            "20",
            "-n",
            "100",
            "-L",
            "2",
            "-s",
            "0",
            "-S",
            "2",
        ];
        let documents = bench(&[&workload[..], &["-k"]].concat(), &image);
        assert_eq!(documents.len(), 2);
        let run = &documents[0];
        assert_eq!(run["iterations"].as_array().unwrap().len(), 2);
        assert_eq!(run["iterations"][1]["count"], 400);
        assert_eq!(run["iterations"][1]["latencies"]["create"]["count"], 200);
        assert_eq!(run["iterations"][0]["latencies"]["sync"]["count"], 2);
        assert!(run.get("delete").is_none());
        let journal = &run["iterations"][0]["journal"];
        assert_eq!(journal.is_null(), number == 2, "{journal}");
        verdict::repair_is_silent(&image).unwrap();
        let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
        let mut files = 0;
        for directory in ["a/00", "a/01", "a/02", "a/03", "b/00", "b/01", "b/02", "b/03"] {
            let found = std::fs::read_dir(mount.join(directory)).unwrap().count();
            assert!([40, 60].contains(&found), "{directory}: {found}");
            files += found;
        }
        mount.unmount().unwrap();
        assert_eq!(files, 400);
        let other_seed = ["--seed", "7"];
        let documents = bench(&[&workload[..1], &workload[3..], &other_seed].concat(), &image);
        assert_eq!(documents[0]["delete"]["files"], 400);
        verdict::repair_is_silent(&image).unwrap();
    }
}

#[test]
fn files_with_contents_in_an_image() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = folder();
    let image = folder.path().join("image");
    let workload = ["fsmark", "--size", "400M", "-n", "50", "-s", "10000", "-w", "3000", "-S", "6", "-k"];
    let documents = bench(&workload, &image);
    let latencies = &documents[0]["iterations"][0]["latencies"];
    assert_eq!((&latencies["write"]["count"], &latencies["fsync"]["count"]), (&200.into(), &50.into()));
    verdict::repair_is_silent(&image).unwrap();
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    for entry in std::fs::read_dir(mount.path()).unwrap() {
        assert_eq!(std::fs::read(entry.unwrap().path()).unwrap(), vec![0; 10_000]);
    }
    mount.unmount().unwrap();

    // Another file system is made in its place where that was asked for.
    let before = std::fs::read(&image).unwrap();
    let again = ["bench", "fsmark", "--size", "400M", "-n", "5", "-s", "0", "--image"];
    let refused = Command::new(program()).args(again).arg(&image).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("it holds an XFS file system"), "{told}");
    assert!(std::fs::read(&image).unwrap() == before);
    bench(&["fsmark", "--size", "400M", "-n", "5", "-s", "0", "--force"], &image);
}

#[test]
fn attributes_and_names_in_an_image() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = folder();
    let image = folder.path().join("image");
    let documents = bench(&["xattr", "n3000-20-40-100-d25-o10", "--size", "400M", "-k"], &image);
    let phases: Vec<&str> = documents.iter().filter_map(|document| document["phase"].as_str()).collect();
    assert_eq!(phases, ["insert", "delete", "overwrite"]);
    assert_eq!(documents[0]["count"], 3000);
    let left = 3000 - documents[1]["count"].as_u64().unwrap();
    let leaves = Command::new(program())
        .args(["--json", "bench", "leaves"])
        .arg(&image)
        .arg("/attributes")
        .output()
        .unwrap();
    let leaves: Value = serde_json::from_slice(&leaves.stdout).unwrap();
    // The parent pointer is one more.
    assert_eq!(leaves["attributes"].as_u64(), Some(left + 1));
    assert!(leaves["most_of_one_hash"].as_u64().unwrap() <= 2);
    assert!(leaves["used_bytes"].as_u64() < leaves["room_bytes"].as_u64());
    let documents = bench(&["dirsync", "-n", "500", "-d", "/names", "-k"], &image);
    assert_eq!(documents[0]["fsync"]["count"], 5);
    assert_eq!(documents[1]["operation"]["count"], 500);
    assert!(documents[0]["journal"]["checkpoints"].as_u64().unwrap() >= 5);
    verdict::repair_is_silent(&image).unwrap();
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    let names = std::fs::read_dir(mount.join("names/dirsync")).unwrap().count();
    let mut buffer = vec![0_u8; 1 << 16];
    let listed = rustix::fs::llistxattr(mount.join("attributes"), buffer.as_mut_slice()).unwrap_or(0);
    mount.unmount().unwrap();
    assert_eq!(names, 500);
    let names = buffer[..listed].split(|byte| *byte == 0).filter(|name| name.starts_with(b"trusted.name"));
    assert_eq!(names.count() as u64, left);
}

/// The published partial fill: every second attribute goes, then some of them come back with the sizes in turn.
#[test]
fn a_partial_fill_leaves_what_its_name_says() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = folder();
    let image = folder.path().join("image");
    let case = "n3000--s-50-20-255--N-600";
    let documents = bench(&["xattr", case, "--size", "400M", "-k", "--series"], &image);
    let phases: Vec<_> = documents.iter().filter_map(|document| document["phase"].as_str()).collect();
    assert_eq!(phases, ["insert", "delete", "insert"]);
    assert_eq!(documents[2]["count"], 600);
    let leaves: Vec<_> = documents.iter().filter(|document| document["leaf"].is_u64()).collect();
    let whole = documents.iter().find(|document| document["leaf_blocks"].is_u64()).unwrap();
    assert_eq!(whole["leaf_blocks"].as_u64(), Some(leaves.len() as u64));
    let sum = |field: &str| leaves.iter().map(|leaf| leaf[field].as_u64().unwrap()).sum::<u64>();
    // The parent pointer is one more.
    assert_eq!((sum("attributes"), whole["attributes"].as_u64()), (2101, Some(2101)));
    assert_eq!(sum("used_bytes"), whole["used_bytes"].as_u64().unwrap());
    let by_names = whole["hashes_by_names"].as_array().unwrap();
    let attributes: u64 = (1..).zip(by_names).map(|(names, count)| names * count.as_u64().unwrap()).sum();
    assert_eq!(attributes, 2101);
    verdict::repair_is_silent(&image).unwrap();
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    let size = |number: u32| {
        let name = format!("trusted.name{number:011}");
        rustix::fs::getxattr(mount.join("attributes"), name.as_str(), &mut [0_u8; 300][..])
    };
    let sizes = [0, 2, 4, 1, 3].map(|number| size(number).unwrap());
    assert_eq!(sizes, [20, 255, 20, 255, 255], "refilled in turn, the others as at first");
    let gone = [1198, 1200, 2998].map(|number| size(number).is_ok());
    assert_eq!(gone, [true, false, false], "600 of the 1,500 come back");
    mount.unmount().unwrap();
}

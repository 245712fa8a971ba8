//! `uxfs check --memory`: memory that no image can exceed.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    process::Command,
};

use serde_json::Value as Json;
use tempfile::TempDir;
use uxfs_testkit::{
    judges::Judge,
    limits::{Limits, run_limited},
    require,
    xfs_db::XfsDb,
};

use crate::common::{program, succeeds, text};

const LINKS: u64 = 70_000;

/// The extents of a group are sorted in temporary files where they do not fit.
#[test]
fn memory_is_bounded_while_extents_are_compared() {
    require!(Judge::XfsDb);
    let folder = TempDir::new().unwrap();
    let (image, manifest) = (folder.path().join("image"), folder.path().join("manifest"));
    let mut lines = BufWriter::new(File::create(&manifest).unwrap());
    writeln!(lines, "#mtree").unwrap();
    let target = "t".repeat(500);
    for link in 0..LINKS {
        // A target of that length has a block of its own.
        writeln!(lines, "./l{link} type=link link={target}").unwrap();
    }
    lines.into_inner().unwrap();
    succeeds(&[
        "mkfs",
        "--size",
        "1G",
        "-d",
        "agcount=1",
        "--unsupported",
        "--from",
        text(&manifest),
        text(&image),
    ]);
    let commands =
        ["agf 0", "addr rmaproot", "addr ptrs[1]", "addr ptrs[1]", "write -d recs[20].owner 278496"];
    let printed = XfsDb::new(&image).write(&commands).unwrap();
    // On a machine of many processors the buffers of threads are the most of it.
    for (memory, threads) in [(64, 32), (128, 32), (64, 2)] {
        judge(&image, memory, threads, &printed);
    }
}

fn judge(image: &Path, memory_mib: u64, threads: u32, printed: &str) {
    let mut command = Command::new(program());
    command.args(["check", "--json", "--memory", &format!("{memory_mib}M"), "--no-paths"]);
    command.args(["--threads", &threads.to_string(), text(image)]);
    let outcome =
        run_limited(&mut command, &Limits { time: std::time::Duration::from_secs(120), ..Limits::default() });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.escape(memory_mib << 20), None, "{printed}, {threads} threads");
    let found = String::from_utf8(outcome.stdout).unwrap();
    let found: Vec<Json> = found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<_> = found.iter().filter_map(|finding| finding["number"].as_u64()).collect();
    assert!(numbers.contains(&36) && numbers.contains(&37), "{found:?}");
    assert!(found.last().unwrap()["inodes"].as_u64().unwrap() > LINKS, "{found:?}");
}

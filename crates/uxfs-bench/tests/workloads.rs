//! Effects of the workloads on a directory of the machine at hand: counts, columns, remaining files. Never times.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use tempfile::TempDir;
use uxfs_bench::{
    BenchError,
    backend::system::MountedDirectories,
    dirsync,
    fsmark::{self, Options, SyncMethod, report},
    xattr,
};

fn directories(count: usize) -> (TempDir, MountedDirectories) {
    let folder = tempfile::Builder::new().prefix("uxfs-bench-").tempdir().unwrap();
    let roots = (0..count).map(|index| folder.path().join(index.to_string())).collect();
    let backend = MountedDirectories::new(roots).unwrap();
    (folder, backend)
}

fn files_below(path: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let below = files_below(&entry.path());
            found.extend(below.into_iter().map(|(file, size)| (format!("{name}/{file}"), size)));
        } else {
            found.push((name, entry.metadata().unwrap().len()));
        }
    }
    found.sort();
    found
}

#[test]
fn files_come_where_the_options_say() {
    let (folder, backend) = directories(2);
    let options = Options {
        threads: 4,
        files: 30,
        loops: Some(2),
        size_bytes: 1000,
        write_bytes: 300,
        subdirectories: 5,
        files_per_subdirectory: 10,
        keep: true,
        ..Options::default()
    };
    let mut counts = Vec::new();
    let outcome = fsmark::run(&backend, &options, |iteration| counts.push(iteration.count)).unwrap();
    assert_eq!((counts, outcome.delete.is_none()), (vec![120, 240], true));
    let found = files_below(folder.path());
    assert_eq!(found.len(), 240);
    assert!(found.iter().all(|(path, size)| *size == 1000 && path.len() == "0/00/".len() + 40), "{found:?}");
    for iteration in &outcome.iterations {
        let counts = iteration.latencies.each().map(|(name, histogram)| (name, histogram.count()));
        let expected =
            [("create", 120), ("write", 480), ("fsync", 120), ("sync", 0), ("close", 120), ("unlink", 0)];
        assert_eq!(counts, expected);
    }
    // The same seed gives the same names.
    let (again, backend) = directories(2);
    fsmark::run(&backend, &options, |_| {}).unwrap();
    assert_eq!(files_below(again.path()), found);
    let (other, backend) = directories(2);
    fsmark::run(&backend, &Options { seed: 1, ..options }, |_| {}).unwrap();
    assert_ne!(files_below(other.path()), found);
}

#[test]
fn every_sync_method_leaves_nothing_behind() {
    for number in 0..8 {
        let (folder, backend) = directories(1);
        let sync = SyncMethod::from_number(number).unwrap();
        let options =
            Options { threads: 2, files: 20, size_bytes: 0, subdirectories: 3, sync, ..Options::default() };
        let mut told = Vec::new();
        let outcome = fsmark::run(&backend, &options, |iteration| {
            told.push(iteration.latencies.unlink.count());
        })
        .unwrap();
        assert_eq!(told, [40], "the only iteration is told of with its deletes");
        let latencies = &outcome.iterations[0].latencies;
        let fsyncs = match number {
            0 => 0,
            2 => 2,
            _ => 40,
        };
        let syncs = if [2, 4, 6].contains(&number) { 2 } else { 0 };
        assert_eq!((latencies.fsync.count(), latencies.sync.count()), (fsyncs, syncs), "{number}");
        assert_eq!(latencies.write.count(), 0);
        let delete = outcome.delete.unwrap();
        assert_eq!((delete.files, delete.directories), (40, 1));
        assert_eq!(fs::read_dir(folder.path().join("0")).unwrap().count(), 0);
    }
    assert_eq!(SyncMethod::from_number(8), None);
}

#[test]
fn the_columns_are_those_of_fs_mark() {
    let (_folder, backend) = directories(1);
    let options = Options { files: 3, size_bytes: 10, loops: Some(2), ..Options::default() };
    let outcome = fsmark::run(&backend, &options, |_| {}).unwrap();
    let heading = report::heading(&options, 1, false);
    let names = heading.lines().last().unwrap();
    assert_eq!(names, "FSUse%        Count         Size    Files/sec     App Overhead");
    let line = report::line(&outcome.iterations[1], false);
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((cells.len(), cells[1], cells[2]), (5, "6", "10"));
    let heading = report::heading(&options, 1, true);
    for name in ["CREAT", "WRITE", "FSYNC", "SYNC", "CLOSE", "UNLINK"] {
        assert!(heading.contains(&format!("{name} (Min/Avg/Max)")));
    }
    assert_eq!(report::line(&outcome.iterations[1], true).split_whitespace().count(), 5 + 6 * 3);
    let summary = report::summary(&outcome);
    assert!(summary.contains("deleted 6 files and 0 directories"), "{summary}");
    assert!(summary.contains("p99.9"), "{summary}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let (_folder, backend) = directories(2);
    let good = Options { threads: 2, files: 1, ..Options::default() };
    for wrong in [
        Options { threads: 3, ..good },
        Options { threads: 0, ..good },
        Options { files: 0, ..good },
        Options { loops: Some(0), ..good },
        Options { write_bytes: 0, ..good },
        Options { files_per_subdirectory: 4, ..good },
        Options { random_bytes: 35, ..good },
        Options { name_bytes: 256, ..good },
    ] {
        let result = fsmark::run(&backend, &wrong, |_| {});
        assert!(matches!(result, Err(BenchError::Options(_))), "{wrong:?}");
    }
}

#[test]
fn directories_are_made_durable_every_so_often() {
    let (folder, backend) = directories(1);
    let options = dirsync::Options { files: 250, every: 100, keep: true };
    let phases = dirsync::run(&backend, &options).unwrap();
    let found: Vec<_> =
        phases.iter().map(|phase| (phase.name, phase.operation.count(), phase.fsync.count())).collect();
    assert_eq!(found, [("create", 250, 3), ("rename", 250, 3)]);
    let names = files_below(&folder.path().join("0/dirsync"));
    assert!(names.len() == 250 && names.iter().all(|(name, _)| name.starts_with("renamed_")));
    let table = dirsync::table(&phases);
    assert!(table.contains("in fsync s") && table.lines().count() == 9, "{table}");
    fs::remove_dir_all(folder.path().join("0/dirsync")).unwrap();
    dirsync::run(&backend, &dirsync::Options { keep: false, ..options }).unwrap();
    assert_eq!(fs::read_dir(folder.path().join("0")).unwrap().count(), 0);
}

#[test]
fn attributes_come_change_and_go() {
    let (folder, backend) = directories(1);
    let options = |case: &str| xattr::Options {
        case: case.parse().unwrap(),
        step: 8,
        prefix: "user.n".to_owned(),
        file: "file".to_owned(),
        keep: true,
        seed: 5,
        looks_at_leaves: false,
    };
    let steps = xattr::run(&backend, &options("n20-4-8-d50-i3-o100"), |_| {}).map(|outcome| outcome.steps);
    let steps = match steps {
        Err(error @ BenchError::System { call: "setxattr", .. }) => {
            eprintln!("SKIPPED: the temporary files lie where attributes cannot be: {error}");
            return;
        }
        steps => steps.unwrap(),
    };
    let done = |action: &str| {
        let last = steps.iter().rfind(|step| step.action == action);
        last.map_or(0, |step| step.done)
    };
    let inserts: Vec<_> =
        steps.iter().filter(|step| step.action == "insert").map(|step| step.count).collect();
    assert_eq!(inserts, [8, 8, 4, 3]);
    let deleted = done("delete");
    assert!(deleted > 2 && deleted < 18, "{deleted} of 20 are about half");
    assert_eq!(done("overwrite"), 23 - deleted);
    let mut names = vec![0_u8; 4096];
    let length = rustix::fs::llistxattr(folder.path().join("0/file"), names.as_mut_slice()).unwrap();
    let left = names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.n")).count();
    assert_eq!(left as u64, 23 - deleted);
    let again = xattr::run(&backend, &options("n20-4-8-d50-i3-o100"), |_| {}).unwrap();
    assert_eq!(again.steps.len(), steps.len());
    assert!(xattr::table(&steps).contains("s/million"));
}

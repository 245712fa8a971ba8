//! What a stranger's image may cost: sparse images of a few blocks whose superblock claims millions of groups, packed ones that
//! unpack to gigabytes, files that are no images at all, and more damage than a person can read.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::{fs::FileExt, net::UnixListener},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tempfile::TempDir;
use uxfs_format::{field_table::OnDisk, geometry::Geometry, seal::seal, superblock::Superblock};
use uxfs_testkit::limits::{Limits, Outcome, run_limited};

use crate::common::{host, program, succeeds, text};

/// Far more than any of this takes, and far less than it took.
const MOST_MEMORY_BYTES: u64 = 128 << 20;

fn limited(arguments: &[&str]) -> Outcome {
    let mut command = Command::new(program());
    command.args(arguments);
    // Time is only against hanging.
    let limits = Limits { time: Duration::from_secs(60), ..Limits::default() };
    let outcome = run_limited(&mut command, &limits).unwrap();
    assert_eq!(outcome.escape(MOST_MEMORY_BYTES), None, "{arguments:?}");
    outcome
}

fn words(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stderr).into_owned()
}

/// An image of four groups of the smallest size that there is.
fn small_image(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("small");
    succeeds(&["mkfs", "--unsupported", "--size", "64M", "-d", "agcount=4", text(&path)]);
    path
}

/// Lets the superblock claim so many groups. The file gets as long as that takes.
fn claim_groups(path: &Path, count: u32) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut sector = vec![0; 512];
    file.read_exact_at(&mut sector, 0).unwrap();
    let superblock = Superblock::prefix_of_mut(&mut sector).unwrap();
    superblock.ag_count.set(count);
    superblock.data_blocks.set(u64::from(count) * u64::from(superblock.ag_blocks.get()));
    let geometry = Geometry::new(superblock);
    seal(&mut sector, None, &geometry).unwrap();
    file.write_all_at(&sector, 0).unwrap();
    file.set_len(geometry.data_size_bytes()).unwrap();
}

#[test]
fn groups_that_are_not_there_cost_nothing() {
    let folder = TempDir::new().unwrap();
    let path = small_image(&folder);
    // As large as a file of ext4 can be.
    claim_groups(&path, 1_048_000);
    let image = text(&path);
    for reading in [&["info", image][..], &["ls", "-l", image], &["stat", image, "/"]] {
        assert_eq!(limited(reading).code, Some(0), "{reading:?}: {}", words(&limited(reading)));
    }
    let walks = [&["freespace", image][..], &["inodes", "--count", image], &["inodes", "--json", image]];
    for walk in walks {
        let outcome = limited(walk);
        let words = words(&outcome);
        assert_eq!(outcome.code, Some(3), "{words}");
        assert!(words.lines().count() < 110, "{walk:?}: {}", words.lines().count());
        assert!(words.contains("of 1048000 were skipped"), "{walk:?}: {words}");
    }
    let before = fs::metadata(&path).unwrap().len();
    for change in [&["mkdir", image, "/x"][..], &["admin", "--label", "x", image]] {
        let outcome = limited(change);
        assert_eq!(outcome.code, Some(3), "{change:?}: {}", words(&outcome));
        assert_eq!(words(&outcome).lines().count(), 1);
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), before);
}

/// The device ends before the groups that are claimed: a rescue searches for inodes up to its end.
#[test]
fn a_rescue_ends_where_the_device_ends() {
    let folder = TempDir::new().unwrap();
    let path = small_image(&folder);
    let size = fs::metadata(&path).unwrap().len();
    claim_groups(&path, 1_048_000);
    File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
    let tree = folder.path().join("tree");
    let outcome = limited(&["rescue", text(&path), "--to", text(&tree)]);
    assert!(outcome.code.is_some(), "{}", words(&outcome));
}

#[test]
fn of_a_packed_file_that_is_no_image_little_is_unpacked() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("packed");
    let mut encoder = zstd::Encoder::new(File::create(&path).unwrap(), 1).unwrap();
    let piece = vec![1; 1 << 20];
    (0..600).for_each(|_| encoder.write_all(&piece).unwrap());
    encoder.finish().unwrap();
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    // No file of this process may get longer than a mebibyte.
    let script = format!("ulimit -f 1024; TMPDIR={} exec {} ls {}", text(&temporary), program(), text(&path));
    let outcome = run_limited(Command::new("sh").args(["-c", &script]), &Limits::default()).unwrap();
    assert_eq!(outcome.escape(MOST_MEMORY_BYTES), None);
    assert_eq!(outcome.code, Some(1));
    assert!(words(&outcome).contains("not an XFS file system"), "{}", words(&outcome));
}

#[test]
fn what_is_no_image_is_refused_before_it_is_opened() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    host("mkfifo", &[text(&pipe)]);
    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let put = folder.path().join("put");
    fs::write(&put, "x").unwrap();
    for (path, word) in [
        (text(&pipe), "a named pipe"),
        (text(&socket), "a socket"),
        (text(folder.path()), "a directory"),
        ("/dev/zero", "a character device"),
    ] {
        let commands = [
            &["info", path][..],
            &["ls", path],
            &["tree", path],
            &["find", path],
            &["du", path],
            &["df", path],
            &["stat", path, "/"],
            &["cat", path, "/x"],
            &["xattr", path, "/"],
            &["map", path, "/"],
            &["inodes", path],
            &["parents", path, "/"],
            &["freespace", path],
            &["extract", path, "--tar", "-"],
            &["get", path, "/x", "-"],
            &["inspect", path, "sb", "0"],
            &["replay", path],
            &["replay", "--dry-run", path],
            &["put", path, text(&put), "/x"],
            &["mkdir", path, "/x"],
            &["rm", path, "/x"],
            &["mv", path, "/x", "/y"],
            &["cp", path, "/x", "/y"],
            &["ln", path, "/x", "/y"],
            &["chmod", path, "600", "/x"],
            &["chown", path, "1", "/x"],
            &["touch", path, "/x"],
            &["truncate", "-s", "0", path, "/x"],
            &["mkfifo", path, "/x"],
            &["setfattr", "-n", "user.x", path, "/x"],
            &["shell", path, "-c", "ls"],
            &["admin", path],
            &["admin", "--label", "x", path],
        ];
        for command in commands {
            let outcome = limited(command);
            let words = words(&outcome);
            if outcome.code == Some(2) {
                // How the command is called is for other tests.
                panic!("{command:?}: {words}");
            }
            assert_eq!(outcome.code, Some(1), "{command:?}: {words}");
            assert!(words.contains(word), "{command:?}: {words}");
        }
        let outcome = limited(&["mkfs", "--size", "300M", "--from", text(folder.path()), path]);
        assert_eq!(outcome.code, Some(1));
        assert!(words(&outcome).contains("neither a file nor a block device"), "{}", words(&outcome));
    }
}

#[test]
fn of_many_problems_the_first_are_told_and_the_rest_is_counted() {
    let folder = TempDir::new().unwrap();
    let (tree, path) = (folder.path().join("tree"), folder.path().join("image"));
    fs::create_dir_all(tree.join("d")).unwrap();
    (0..500).for_each(|number| fs::write(tree.join(format!("d/file-{number}")), "x").unwrap());
    succeeds(&["mkfs", "--size", "300M", "--from", text(&tree), text(&path)]);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let (mut piece, mut damaged) = (vec![0; 1 << 20], 0);
    for offset in (0..300 << 20).step_by(piece.len()) {
        file.read_exact_at(&mut piece, offset).unwrap();
        let before = damaged;
        for inode in piece.chunks_exact_mut(512).filter(|bytes| bytes.starts_with(&[b'I', b'N', 0x81])) {
            inode[200] ^= 1;
            damaged += 1;
        }
        if damaged > before {
            file.write_all_at(&piece, offset).unwrap();
        }
    }
    assert_eq!(damaged, 500);
    let (image, to) = (text(&path), folder.path().join("to"));
    let commands = [
        &["ls", "-lR", image][..],
        &["ls", "-lR", "--json", image],
        &["inodes", image],
        &["inodes", "--count", image],
        &["extract", image, "--to", text(&to)],
        &["cp", "-r", image, "/d", "/copy"],
        &["chmod", "-R", image, "700", "/"],
        &["rm", "-r", image, "/d"],
    ];
    for command in commands {
        let outcome = limited(command);
        let words = words(&outcome);
        let lines = words.lines().count();
        assert!(outcome.code != Some(0), "{command:?}");
        assert!((100..110).contains(&lines), "{command:?}: {lines} lines: {words}");
        assert!(words.contains("400 more problems like these"), "{command:?}: {words}");
    }
}

/// Names of the threads of a process.
fn thread_names(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let name = |task: std::io::Result<fs::DirEntry>| fs::read_to_string(task.ok()?.path().join("comm")).ok();
    tasks.filter_map(name).map(|name| name.trim().to_owned()).collect()
}

/// Whatever a command opens, its caches shrink while memory is scarce: here commands that wait for their input.
#[test]
fn every_command_that_runs_long_watches_memory() {
    let folder = tempfile::tempdir().unwrap();
    let image = small_image(&folder);
    let new = folder.path().join("new");
    let commands: [&[&str]; 3] = [
        &["shell", text(&image)],
        &["put", text(&image), "-", "/file"],
        &["mkfs", "--size", "300M", "--from", "-", text(&new)],
    ];
    for arguments in commands {
        let mut command = Command::new(program());
        command.args(arguments).stdin(std::process::Stdio::piped());
        let mut child =
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        let begun = std::time::Instant::now();
        while !thread_names(child.id()).iter().any(|name| name == "uxfs-pressure") {
            let is_over = child.try_wait().unwrap();
            assert!(is_over.is_none(), "{arguments:?} did not wait for its input: {is_over:?}");
            assert!(begun.elapsed() < Duration::from_secs(60), "{arguments:?}: memory is not watched");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

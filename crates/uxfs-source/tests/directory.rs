//! Directories of the host as trees: every kind, any number of threads, what cannot be read.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::Mode;
use uxfs_source::{
    content::Content,
    directory::{DirectoryOptions, DirectorySource, FileIdentity},
    entry::{DirectoryId, Kind, Metadata},
    error::{Reason, SourceError},
    tree::{Reading, TreeSource},
};
use uxfs_testkit::{judges::Judge, require};

use crate::common::{bytes_of, every_kind, folder};

fn options(threads: usize) -> DirectoryOptions {
    DirectoryOptions { threads, ..DirectoryOptions::default() }
}

fn open(path: &Path, options: DirectoryOptions) -> DirectorySource {
    DirectorySource::open(path, options, Reading::Everything).unwrap()
}

fn describe(metadata: &Metadata, kind: &Kind) -> String {
    let content = match kind {
        Kind::Regular { size_bytes, .. } if *size_bytes > 1 << 30 => size_bytes.to_string(),
        Kind::Regular { size_bytes, content } => {
            let bytes = bytes_of(*size_bytes, content);
            format!(
                "{size_bytes} {:x}",
                bytes.iter().fold(0_u64, |sum, b| sum.wrapping_mul(31) + u64::from(*b))
            )
        }
        Kind::Symlink { target } => target.escape_ascii().to_string(),
        Kind::CharacterDevice(number) | Kind::BlockDevice(number) => format!("{number:?}"),
        Kind::Directory(id) => format!("{id:?}"),
        _ => String::new(),
    };
    let attributes: Vec<String> = metadata
        .attributes
        .iter()
        .map(|a| format!("{}={}", a.name.escape_ascii(), a.value.escape_ascii()))
        .collect();
    let times = metadata.times;
    let Metadata { mode, user, group, link, .. } = metadata;
    format!(
        "{} {mode:o} {user} {group} {:?} {link:?} {content} {attributes:?}",
        kind.word(),
        times.modification
    )
}

/// Everything that a source tells, batch by batch.
fn tell(source: &mut dyn TreeSource) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(batch) = source.next_batch().unwrap() {
        assert!(batch.entries.len() <= 1024);
        lines.push(format!("{:?} {} {}", batch.directory, batch.path.escape_ascii(), batch.is_last));
        for entry in &batch.entries {
            lines.push(format!("  {} {}", entry.name.escape_ascii(), describe(&entry.metadata, &entry.kind)));
        }
    }
    assert!(source.next_batch().unwrap().is_none());
    lines
}

#[test]
fn every_kind_is_told() {
    let folder = folder();
    every_kind(folder.path());
    let mut source = open(folder.path(), options(2));
    let mut found = BTreeMap::new();
    let mut paths = BTreeMap::from([(DirectoryId::ROOT, PathBuf::new())]);
    while let Some(batch) = source.next_batch().unwrap() {
        assert_eq!(batch.path.escape_ascii().to_string(), paths[&batch.directory].display().to_string());
        for entry in batch.entries {
            use std::os::unix::ffi::OsStrExt;
            let path = paths[&batch.directory].join(std::ffi::OsStr::from_bytes(&entry.name));
            if let Kind::Directory(id) = entry.kind {
                paths.insert(id, path.clone());
            }
            let host = fs::symlink_metadata(folder.path().join(&path)).unwrap();
            let metadata = &entry.metadata;
            assert_eq!(u32::from(metadata.mode), host.mode() & 0o7777, "{path:?}");
            assert_eq!((metadata.user, metadata.group), (host.uid(), host.gid()), "{path:?}");
            let times = metadata.times;
            assert_eq!(times.modification.seconds, host.mtime());
            assert_eq!(i64::from(times.modification.nanoseconds), host.mtime_nsec());
            assert_eq!(times.change.seconds, host.ctime());
            match host.is_symlink() {
                // Reading its target, which comes after its times, changes this one.
                true => assert!(times.access.seconds <= host.atime()),
                false => assert_eq!(times.access.seconds, host.atime()),
            }
            assert_eq!(
                metadata.link.map(|link| (link.inode, link.links)),
                match host.nlink() {
                    2 if !host.is_dir() => Some((host.ino(), 2)),
                    _ => None,
                }
            );
            found.insert(path, entry);
        }
    }
    let kind = |path: &str| &found[Path::new(path)].kind;
    let content = |path: &str| match kind(path) {
        Kind::Regular { size_bytes, content } => (*size_bytes, content),
        other => panic!("{other:?}"),
    };
    assert!(matches!(content("empty"), (0, Content::Hole)));
    assert!(matches!(content("hole"), (0x100_0000_0000, Content::Hole)));
    assert!(matches!(content("hole-small"), (5000, Content::Hole)));
    assert!(matches!(content("small"), (5, Content::Inline(bytes)) if **bytes == *b"small"));
    assert!(matches!(content("limit"), (0x1_0000, Content::Inline(_))));
    for name in ["large", "sparse", "sparse-small"] {
        let (size, content) = content(name);
        assert!(matches!(content, Content::File(_)), "{name}");
        assert_eq!(bytes_of(size, content), fs::read(folder.path().join(name)).unwrap(), "{name}");
    }
    let (_, Content::File(sparse)) = content("sparse") else { panic!("inline") };
    let ranges = sparse.open().unwrap().data_ranges().unwrap();
    assert_eq!(ranges.iter().map(|r| r.offset_bytes).collect::<Vec<_>>(), [1 << 20, 9 << 20]);
    assert!(matches!(kind("link"), Kind::Symlink { target } if **target == *b"../any/where"));
    assert!(matches!(kind("link-long"), Kind::Symlink { target } if target.len() == 4095));
    assert!(matches!(kind("fifo"), Kind::Fifo) && matches!(kind("socket"), Kind::Socket));
    assert_eq!(found[Path::new("small")].metadata.attribute(b"user.b"), Some(b"two".as_slice()));
    assert_eq!(found[Path::new("small")].metadata.attribute(b"user.a"), Some(b"".as_slice()));
    assert_eq!(found[Path::new("large")].metadata.attribute(b"user.large"), Some([b'v'; 4000].as_slice()));
    assert_eq!(found[Path::new("directory")].metadata.attribute(b"user.directory"), Some(b"yes".as_slice()));
    if rustix::process::geteuid().is_root() {
        let number = |major, minor| uxfs_source::entry::DeviceNumber { major, minor };
        assert!(matches!(kind("CharacterDevice"), Kind::CharacterDevice(n) if *n == number(10, 200)));
        assert!(matches!(kind("BlockDevice"), Kind::BlockDevice(n) if *n == number(259, 70_000)));
        assert_eq!(found[Path::new("link")].metadata.user, 4_000_000_000);
        let attribute = found[Path::new("link")].metadata.attribute(b"trusted.on-a-link");
        assert_eq!(attribute, Some(b"\0\x01".as_slice()));
    }
}

/// Directories of all sizes, from nothing to several chunks, made in the order of `order`.
fn many(root: &Path, order: impl Fn(&mut Vec<usize>)) {
    let made = |path: PathBuf| {
        let mut file = File::create(&path).unwrap();
        let size = path.as_os_str().len() % 13 * 100;
        file.write_all(&vec![b'c'; size]).unwrap();
        let when = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_123);
        file.set_modified(when).unwrap();
    };
    let mut numbers: Vec<usize> = (0..60).collect();
    order(&mut numbers);
    for number in numbers {
        let directory = root.join(format!("d{number}")).join(format!("{}", number % 7)).join("x");
        fs::create_dir_all(&directory).unwrap();
        let count = if number == 33 { 5000 } else { number * number % 50 };
        let mut files: Vec<usize> = (0..count).collect();
        order(&mut files);
        for file in files {
            made(directory.join(format!("file-{file}")));
            if file % 97 == 5 {
                fs::create_dir(directory.join(format!("sub-{file}"))).unwrap();
            }
        }
    }
}

/// As [`tell`], without what two trees cannot have in common.
fn tell_alike(path: &Path, options: DirectoryOptions) -> Vec<String> {
    let lines = tell(&mut open(path, options));
    let is_directory = |line: &String| line.contains(" directory ");
    lines
        .into_iter()
        .map(|line| if is_directory(&line) { line.split_once("Timestamp").unwrap().0.into() } else { line })
        .collect()
}

#[test]
fn threads_and_creation_order_change_nothing() {
    let (first, second) = (folder(), folder());
    many(first.path(), |_| {});
    many(second.path(), |numbers| {
        let length = numbers.len();
        (0..length).for_each(|i| numbers.swap(i, (i * 7919 + 13) % length));
    });
    let expected = tell_alike(first.path(), options(1));
    assert!(expected.len() > 6000);
    for threads in [1, 2, 4] {
        assert!(tell_alike(first.path(), options(threads)) == expected, "{threads} threads");
        assert!(tell_alike(second.path(), options(threads)) == expected, "{threads} threads, another order");
        // So little memory that nothing but the head can be read.
        let narrow = DirectoryOptions { ahead_bytes: 0, ..options(threads) };
        assert!(tell_alike(second.path(), narrow) == expected, "{threads} threads, no memory");
        let spilled = DirectoryOptions { names_bytes: 0, ..options(threads) };
        assert!(tell_alike(second.path(), spilled) == expected, "{threads} threads, names in files");
    }
}

#[test]
fn a_second_pass_for_metadata_tells_the_same() {
    let folder = folder();
    every_kind(folder.path());
    let mut source = open(folder.path(), options(2));
    let first = tell(&mut source);
    source.restart(Reading::Metadata).unwrap();
    assert_eq!(tell(&mut source), first);
    source.restart(Reading::Everything).unwrap();
    // Left half way, nothing hangs.
    source.next_batch().unwrap();
    drop(source);
}

#[test]
fn deeper_than_a_path_is_long() {
    let folder = folder();
    let name = "a".repeat(50);
    let mut at = File::open(folder.path()).unwrap();
    for _ in 0..1500 {
        rustix::fs::mkdirat(&at, name.as_str(), Mode::from_raw_mode(0o755)).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        at = rustix::fs::openat(&at, name.as_str(), flags, Mode::empty()).unwrap().into();
    }
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE;
    let mut file = File::from(rustix::fs::openat(&at, "deep", flags, Mode::from_raw_mode(0o600)).unwrap());
    file.write_all(&vec![b'x'; 100_000]).unwrap();
    let mut source = open(folder.path(), options(2));
    let mut last = None;
    let mut count = 0;
    while let Some(batch) = source.next_batch().unwrap() {
        assert_eq!(batch.entries.len(), 1);
        count += 1;
        last = batch.entries.into_iter().next();
    }
    assert_eq!(count, 1501);
    let Kind::Regular { size_bytes, content } = last.unwrap().kind else { panic!("no file") };
    assert_eq!(bytes_of(size_bytes, &content), vec![b'x'; 100_000]);
    // Handles outlive what was kept open, and find their way again.
    source.restart(Reading::Metadata).unwrap();
    let mut handle = None;
    while let Some(batch) = source.next_batch().unwrap() {
        handle = batch.entries.into_iter().next();
    }
    drop(source);
    let Kind::Regular { size_bytes, content } = handle.unwrap().kind else { panic!("no file") };
    assert_eq!(bytes_of(size_bytes, &content), vec![b'x'; 100_000]);
    // `rm -r` of the tests' folder does not go so deep by path.
    Command::new("rm").arg("-rf").arg(folder.path()).status().unwrap();
}

#[test]
fn a_file_that_changes() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, vec![b'a'; 200_000]).unwrap();
    let handle = || {
        let mut source = DirectorySource::open(folder.path(), options(1), Reading::Metadata).unwrap();
        let entry = source.next_batch().unwrap().unwrap().entries.remove(0);
        let Kind::Regular { content: Content::File(file), .. } = entry.kind else { panic!("{entry:?}") };
        file
    };
    let file = handle().open().unwrap();
    assert!(!file.has_changed().unwrap());
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(150_000).unwrap();
    assert!(file.has_changed().unwrap());
    let mut bytes = vec![1; 200_000];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 50_000);
    assert!(bytes[..150_000].iter().all(|b| *b == b'a') && bytes[150_000..].iter().all(|b| *b == 0));
    let file = handle();
    fs::write(folder.path().join("other"), b"other").unwrap();
    fs::rename(folder.path().join("other"), &path).unwrap();
    assert!(matches!(file.open(), Err(SourceError::Replaced { .. })));
    let file = handle();
    fs::remove_file(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    assert!(matches!(file.open(), Err(SourceError::Replaced { .. })));
}

/// The child process of the next test, as a user without permission to read everything.
#[test]
fn as_somebody_else() {
    let Some(path) = std::env::var_os("UXFS_SOURCE_TREE") else { return };
    let path = Path::new(&path);
    let Err(error) = walk(&mut open(path, options(2))) else { panic!("nothing was unreadable") };
    let SourceError::Unreadable(unreadable) = &error else { panic!("{error}") };
    assert_eq!(unreadable.count, 4, "{error}");
    let text = error.to_string();
    for path in ["closed/directory", "secret", "closed-files/a", "closed-files/b"] {
        assert!(text.contains(&format!("\n  {path}: cannot be")), "{path}: {text}");
    }
    let skipping = DirectoryOptions { skip_unreadable: true, ..options(2) };
    let mut source = open(path, skipping);
    let names = walk(&mut source).unwrap();
    assert_eq!(names, ["closed", "closed-files", "open", "closed/directory", "open/file", "open/large"]);
    let problems = source.take_problems();
    assert_eq!(problems.len(), 4);
    assert!(problems.iter().any(|p| matches!(p.reason, Reason::Unlistable(_))));
}

fn walk(source: &mut DirectorySource) -> Result<Vec<String>, SourceError> {
    let mut names = Vec::new();
    while let Some(batch) = source.next_batch()? {
        let at =
            if batch.path.is_empty() { String::new() } else { format!("{}/", batch.path.escape_ascii()) };
        for entry in &batch.entries {
            if let Kind::Regular { size_bytes, content } = &entry.kind {
                bytes_of(*size_bytes, content);
            }
            names.push(format!("{at}{}", entry.name.escape_ascii()));
        }
    }
    Ok(names)
}

#[test]
fn without_root_what_cannot_be_read_is_listed() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become somebody else");
        return;
    }
    let folder = folder();
    let root = folder.path().join("tree");
    let mode =
        |path: &str, mode| fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(root.join("closed/directory")).unwrap();
    fs::create_dir_all(root.join("closed-files")).unwrap();
    fs::create_dir_all(root.join("open")).unwrap();
    fs::write(root.join("closed/directory/x"), b"x").unwrap();
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(root.join("secret"))
        .unwrap()
        .write_all(b"secret")
        .unwrap();
    fs::write(root.join("closed-files/a"), b"a").unwrap();
    fs::write(root.join("closed-files/b"), b"").unwrap();
    // Owned by others, readable by all: O_NOATIME is not allowed here.
    fs::write(root.join("open/file"), b"file").unwrap();
    fs::write(root.join("open/large"), vec![1; 100_000]).unwrap();
    mode("closed/directory", 0o700);
    // Its names can be listed, and no more.
    mode("closed-files", 0o744);
    // The test's own program, from where others may run it.
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut child = Command::new("setpriv");
    child.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    child
        .args(["--exact", "directory::as_somebody_else", "--nocapture"])
        .env("UXFS_SOURCE_TREE", &root)
        .current_dir("/");
    let output = child.output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && words.contains("1 passed"),
        "{words}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn other_file_systems_stay_out_where_told() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can mount");
        return;
    }
    let folder = folder();
    fs::create_dir_all(folder.path().join("here/there")).unwrap();
    let there = folder.path().join("here/there");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "uxfs-source"]).arg(&there).status().unwrap();
    assert!(mounted.success());
    fs::write(there.join("file"), b"x").unwrap();
    let whole = walk(&mut open(folder.path(), options(2)));
    let one = walk(&mut open(folder.path(), DirectoryOptions { one_file_system: true, ..options(2) }));
    assert!(Command::new("umount").arg(&there).status().unwrap().success());
    assert_eq!(whole.unwrap(), ["here", "here/there", "here/there/file"]);
    assert_eq!(one.unwrap(), ["here", "here/there"]);
}

#[test]
fn acls_come_as_attributes() {
    require!(Judge::Setfacl);
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, b"").unwrap();
    let set = Judge::Setfacl.command().args(["-m", "u:1000:rw-,g:7:r--"]).arg(&file).status();
    assert!(set.unwrap().success());
    let mut source = open(folder.path(), options(1));
    let entry = source.next_batch().unwrap().unwrap().entries.remove(0);
    let value = entry.metadata.attribute(b"system.posix_acl_access").unwrap();
    assert_eq!(value.len(), 4 + 6 * 8);
    assert_eq!(value[..4], 2_u32.to_le_bytes());
}

#[test]
fn what_is_no_directory_is_refused() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, b"").unwrap();
    for path in [file, folder.path().join("nothing")] {
        let opened = DirectorySource::open(&path, options(1), Reading::Everything);
        assert!(matches!(opened, Err(SourceError::Io { .. })), "{path:?}");
    }
}

#[test]
fn many_names_of_one_file_are_read_once() {
    let folder = folder();
    fs::write(folder.path().join("name"), vec![b'n'; 50_000]).unwrap();
    for number in 0..1000 {
        fs::hard_link(folder.path().join("name"), folder.path().join(format!("name-{number}"))).unwrap();
    }
    let mut source = open(folder.path(), options(2));
    let batch = source.next_batch().unwrap().unwrap();
    assert_eq!(batch.entries.len(), 1001);
    let first = batch.entries[0].metadata.link.unwrap();
    assert_eq!(first.links, 1001);
    for entry in &batch.entries {
        assert_eq!(entry.metadata.link, Some(first));
        let Kind::Regular { size_bytes: 50_000, content: Content::File(file) } = &entry.kind else {
            panic!("{entry:?}")
        };
        assert!(!file.may_have_holes());
    }
}

#[test]
fn a_tree_that_changes_all_the_time() {
    let folder = folder();
    let root = folder.path().join("tree");
    fs::create_dir(&root).unwrap();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), b"secret").unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let order = std::sync::atomic::Ordering::Relaxed;
            let place =
                |number: usize| root.join(format!("d{}", number % 7)).join(format!("e{}", number % 3));
            let mut number = 0;
            while !is_over.load(order) {
                number += 1;
                // Whether each succeeds depends on what is there.
                let path = place(number);
                let _ = fs::create_dir_all(&path);
                let _ = fs::write(path.join("file"), vec![1; number % 100_000]);
                let _ = symlink(&outside, path.join("way-out"));
                let _ = fs::rename(place(number / 2), root.join(format!("d{}", number % 5)).join("moved"));
                let _ = match number % 4 {
                    0 => fs::remove_dir_all(place(number + 1)),
                    1 => fs::remove_dir_all(place(number + 2))
                        .and_then(|()| symlink(&outside, place(number + 2))),
                    _ => fs::remove_file(place(number + 3)),
                };
            }
        });
        for _ in 0..60 {
            let skipping = DirectoryOptions { skip_unreadable: true, ..options(3) };
            let mut source = open(&root, skipping);
            while let Some(batch) = source.next_batch().unwrap() {
                for entry in &batch.entries {
                    assert_ne!(&*entry.name, b"secret", "left the tree");
                    let Kind::Regular { content: Content::File(file), .. } = &entry.kind else { continue };
                    let Ok(file) = file.open() else { continue };
                    let mut bytes = vec![0; file.size_bytes() as usize];
                    file.read_at(&mut bytes, 0).unwrap();
                }
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn reading_leaves_access_times_alone_where_it_may() {
    let folder = folder();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let times = fs::FileTimes::new().set_accessed(old);
    fs::create_dir(folder.path().join("directory")).unwrap();
    fs::write(folder.path().join("directory/small"), b"small").unwrap();
    fs::write(folder.path().join("large"), vec![1; 100_000]).unwrap();
    let paths = ["directory/small", "large", "directory"].map(|path| folder.path().join(path));
    for path in &paths {
        File::open(path).unwrap().set_times(times).unwrap();
    }
    let names = walk(&mut open(folder.path(), options(2))).unwrap();
    assert_eq!(names.len(), 3);
    for path in &paths {
        assert_eq!(fs::metadata(path).unwrap().accessed().unwrap(), old, "{path:?}");
    }
}

#[test]
fn the_image_itself_is_left_out() {
    let folder = folder();
    let image = File::create(folder.path().join("image")).unwrap();
    fs::hard_link(folder.path().join("image"), folder.path().join("same")).unwrap();
    fs::write(folder.path().join("file"), b"file").unwrap();
    let exclude = vec![FileIdentity::of(&image).unwrap()];
    let mut source = open(folder.path(), DirectoryOptions { exclude, ..options(1) });
    assert_eq!(walk(&mut source).unwrap(), ["file"]);
    let problems = source.take_problems();
    assert!(problems.len() == 2 && problems.iter().all(|problem| !problem.reason.is_loss()), "{problems:?}");
}

#[test]
fn sources_and_contents_go_to_other_threads() {
    fn is_send<T: Send + ?Sized>() {}
    fn is_sync<T: Send + Sync>() {}
    is_send::<dyn TreeSource>();
    is_send::<dyn uxfs_source::stream::StreamSource>();
    is_sync::<Content>();
    is_sync::<uxfs_source::content::OpenFile>();
    is_sync::<uxfs_source::labels::Labels>();
}

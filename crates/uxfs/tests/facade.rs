//! The facade, judged by xfs_repair and the kernel.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use uxfs::{Changes, Device, Editor, EditorOptions, Error, FileType, Image, Maker, Timestamp, replay};
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require, sparse,
    verdict::{holds_the_same, repair_is_silent},
};

/// A tree with a file of each form that the examples speak of.
fn tree(at: &Path) -> Result<()> {
    fs::create_dir_all(at.join("etc/ssh"))?;
    fs::write(at.join("etc/hostname"), "golden\n")?;
    fs::write(at.join("etc/ssh/key"), vec![7; 70_000])?;
    fs::hard_link(at.join("etc/hostname"), at.join("etc/alias"))?;
    symlink("../etc/hostname", at.join("etc/link"))?;
    let mut sparse = fs::File::create(at.join("sparse"))?;
    sparse.seek(SeekFrom::Start(5 << 20))?;
    sparse.write_all(b"end")?;
    for number in 0..700 {
        fs::write(at.join(format!("file-{number:04}")), number.to_string())?;
    }
    Ok(())
}

fn small() -> Maker {
    Maker::new().size(64 << 20).allow_unsupported()
}

#[test]
fn an_image_of_a_tree_is_that_tree_for_the_kernel_and_for_a_walk() {
    require!(Judge::XfsRepair, Judge::Kernel);
    make_and_walk().unwrap();
}

fn make_and_walk() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (source, path) = (folder.path().join("tree"), folder.path().join("disk.img"));
    tree(&source)?;
    // No size: as large as it needs to be.
    let made = Maker::new().source(&source).keep_access_times().make(&path)?;
    assert_eq!(made.files, 703);
    assert_eq!(made.hard_links, 1);
    assert_eq!(fs::metadata(&path)?.len(), made.size_bytes);
    repair_is_silent(&path)?;
    holds_the_same(&path, &source)?;

    let image = Image::open(&path)?;
    let mut walked = BTreeMap::new();
    for entry in image.walk() {
        let entry = entry?;
        walked.insert(String::from_utf8(entry.path().to_vec())?, entry);
    }
    assert_eq!(walked.len(), 3 + 703 + 1 + 1, "directories, files, the link, the further name");
    for (name, entry) in &walked {
        let host = fs::symlink_metadata(source.join(name.trim_start_matches('/')))?;
        let found = entry.metadata();
        assert_eq!(u32::from(found.permissions), host.mode() & 0o7777, "{name}");
        assert_eq!(found.modified.seconds, host.mtime(), "{name}");
        if found.is_file() {
            assert_eq!(found.size_bytes, host.len(), "{name}");
            assert!(entry.read(8 << 20)? == fs::read(source.join(name.trim_start_matches('/')))?, "{name}");
        }
    }
    assert_eq!(walked["/etc/link"].link_target()?, b"../etc/hostname");
    assert_eq!(image.find("/etc/link")?.metadata().inode, walked["/etc/hostname"].metadata().inode);
    assert_eq!(walked["/etc/alias"].paths()?.paths, [b"/etc/alias".to_vec(), b"/etc/hostname".to_vec()]);
    assert_eq!(walked["/etc/alias"].parents()?.len(), 2);
    let sparse = walked["/sparse"].open()?;
    let data = sparse.next_data(0)?.context("it has data")?;
    assert!(data.contains(&(5 << 20)) && data.start > 4 << 20, "{data:?}");
    assert_eq!(sparse.next_data(data.end)?, None);
    Ok(())
}

#[test]
fn equal_sources_give_equal_images() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("tree");
    tree(&source)?;
    let make = |name: &str| -> Result<Vec<u8>> {
        let path = folder.path().join(name);
        Maker::new().source(&source).reproducible().make(&path)?;
        Ok(fs::read(path)?)
    };
    assert!(make("one")? == make("two")?);
    Ok(())
}

#[test]
fn what_an_editor_does_the_kernel_sees() {
    require!(Judge::XfsRepair, Judge::Kernel);
    edit_and_mount().unwrap();
}

fn edit_and_mount() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("disk.img");
    small().make(&path)?;
    let editor = Editor::open(&path)?;
    editor.make_directories("/a/b/c", 0o750)?;
    editor.write("/a/file", b"first contents")?;
    editor.write("/a/file", b"second")?;
    editor.link("/a/file", "/a/b/same")?;
    editor.symbolic_link("b/same", "/a/link")?;
    editor.write("/a/link", b"through the link")?;
    editor.set_attribute("/a/file", "user.key", "value")?;
    editor.make_special("/a/null", FileType::CharacterDevice, Device { major: 1, minor: 3 }, 0o666)?;
    let when = Timestamp { seconds: 1_234_567, nanoseconds: 89 };
    editor.change("/a/file", &Changes::new().permissions(0o640).owner(12, 34).modified(when))?;
    editor.make_directories("/gone/deep/deeper", 0o755)?;
    for number in 0..600 {
        editor.write(format!("/gone/deep/{number}"), b"x")?;
    }
    editor.remove_tree("/gone")?;
    editor.write("/old", b"")?;
    editor.rename("/old", "/new")?;
    editor.write("/other", b"o")?;
    editor.exchange("/new", "/other")?;
    let mut file = editor.create("/long", 0o600)?;
    file.write_all(&vec![3; 3 << 20])?;
    file.seek(SeekFrom::Start(1 << 20))?;
    file.write_all(&[4; 10])?;
    file.set_len(2 << 20)?;
    drop(file);
    assert_eq!(editor.attribute("/a/file", "user.key")?.as_deref(), Some(b"value".as_slice()));
    assert_eq!(editor.attribute("/a/file", "user.none")?, None);
    assert_eq!(editor.names("/a")?.len(), 4);
    editor.close()?;

    repair_is_silent(&path)?;
    let mount = LoopMount::new(&path, Access::ReadOnly)?;
    assert_eq!(fs::read(mount.join("a/file"))?, b"through the link");
    let found = fs::metadata(mount.join("a/b/same"))?;
    assert_eq!((found.mode() & 0o7777, found.uid(), found.gid(), found.nlink()), (0o640, 12, 34, 2));
    assert_eq!((found.mtime(), found.mtime_nsec()), (1_234_567, 89));
    assert_eq!(fs::read_link(mount.join("a/link"))?, Path::new("b/same"));
    assert_eq!(fs::metadata(mount.join("a/null"))?.rdev(), 0x103);
    assert!(!mount.join("gone").exists() && !mount.join("old").exists());
    assert_eq!(fs::read(mount.join("new"))?, b"o");
    let long = fs::read(mount.join("long"))?;
    assert_eq!((long.len(), long[1 << 20], long[(1 << 20) + 10]), (2 << 20, 4, 3));
    mount.unmount()?;
    Ok(())
}

#[test]
fn a_dropped_editor_leaves_a_log_that_readers_see_through() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("disk.img");
    small().make(&path)?;
    let editor = Editor::open(&path)?;
    editor.write("/synced", b"kept")?;
    editor.sync()?;
    drop(editor);
    let before = fs::read(&path)?;
    assert_eq!(Image::open(&path)?.find("/synced")?.read(10)?, b"kept");
    assert!(fs::read(&path)? == before, "reading changed the image");
    assert!(replay(&path)?.is_some_and(|replayed| replayed.records > 0));
    assert_eq!(replay(&path)?, None);
    Ok(())
}

/// Whether a copy of the image as it lies now, as a crash would leave it, has `/a`.
fn a_crash_keeps(path: &Path) -> Result<bool> {
    let copy = path.with_extension("copy");
    sparse::copy(path, &copy)?;
    match Image::open(&copy)?.find("/a") {
        Err(error) if error.is_not_found() => Ok(false),
        found => Ok(found.map(|_| true)?),
    }
}

#[test]
fn changes_go_to_the_log_within_the_checkpoint_interval() -> Result<()> {
    const INTERVAL: Duration = Duration::from_millis(100);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("disk.img");
    small().make(&path)?;
    let editor = EditorOptions::new().checkpoint_interval(None).open(&path)?;
    editor.write("/a", b"")?;
    std::thread::sleep(INTERVAL * 5);
    assert!(!a_crash_keeps(&path)?, "no limit was wanted");
    editor.remove("/a")?;
    editor.close()?;

    let editor = EditorOptions::new().checkpoint_interval(Some(INTERVAL)).open(&path)?;
    editor.write("/a", b"")?;
    let begin = Instant::now();
    while !a_crash_keeps(&path)? {
        assert!(begin.elapsed() < Duration::from_secs(30), "the change never reached the log");
        std::thread::sleep(INTERVAL);
    }
    editor.close()?;
    Ok(())
}

#[test]
fn errors_have_families_numbers_and_subjects() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("disk.img");
    let label = Maker::new().size(64 << 20).label("thirteen byte").make(&path).unwrap_err();
    assert!(matches!(label, Error::Operation { .. }) && label.errno() == 22, "{label}");
    assert!(!path.exists(), "nothing half-made stays");
    let too_small = Maker::new().size(64 << 20).make(&path).unwrap_err();
    assert!(too_small.message().contains("Maker::allow_unsupported()"), "{too_small}");
    small().make(&path)?;
    let refused = small().make(&path).unwrap_err();
    assert!(refused.message().contains("Maker::overwrite()"), "{refused}");
    small().overwrite().make(&path)?;

    let editor = Editor::open(&path)?;
    editor.make_directory("/d", 0o755)?;
    editor.write("/d/f", b"x")?;
    let number = |result: uxfs::Result<()>| result.unwrap_err().errno();
    assert_eq!(number(editor.remove_directory("/d")), 39);
    assert_eq!(number(editor.remove("/d")), 21);
    assert_eq!(number(editor.remove("/none")), 2);
    assert_eq!(number(editor.make_directory("/d", 0o755)), 17);
    assert_eq!(number(editor.rename("/d", "/d/below")), 22);
    assert_eq!(number(editor.write("/d", b"x")), 21);
    let taken = Image::open(&path).unwrap_err();
    assert!(taken.errno() == 16, "{taken:?}");
    editor.close()?;

    let none = Image::open(folder.path().join("missing")).unwrap_err();
    assert!(matches!(none, Error::Io { .. }) && none.errno() == 2, "{none:?}");
    let image = Image::open(&path)?;
    assert_eq!(image.find("/d/f")?.entries().unwrap_err().to_string(), "/d/f: not a directory");
    let mut file = image.find("/d/f")?.open()?;
    assert!(file.seek(SeekFrom::Current(-1)).is_err());
    assert_eq!(file.read(&mut [0; 4])?, 1);
    assert_eq!(std::io::Error::from(image.find("/x").unwrap_err()).kind(), std::io::ErrorKind::NotFound);

    let junk = folder.path().join("junk");
    fs::write(&junk, vec![0; 1 << 20])?;
    assert!(matches!(Image::open(&junk).unwrap_err(), Error::Corrupt { .. }));
    Ok(())
}

#[test]
fn a_walk_over_a_damaged_directory_goes_on_behind_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("disk.img");
    small().make(&path)?;
    let editor = Editor::open(&path)?;
    editor.make_directory("/d", 0o755)?;
    for number in 0..2000 {
        editor.write(format!("/d/a rather long name of a file {number:06}"), b"")?;
    }
    editor.close()?;
    // The second block of the directory: the only place with this magic number and that offset.
    let mut bytes = fs::read(&path)?;
    let blocks: Vec<usize> =
        (0..bytes.len() / 4096).filter(|block| &bytes[block * 4096..][..4] == b"XDD3").collect();
    assert!(blocks.len() > 5);
    bytes[blocks[1] * 4096 + 100] ^= 0xff;
    fs::write(&path, bytes)?;
    let image = Image::open(&path)?;
    let (good, bad): (Vec<_>, Vec<_>) = image.find("/d")?.entries()?.partition(uxfs::Result::is_ok);
    assert_eq!(bad.len(), 1);
    assert!(matches!(bad[0], Err(Error::Corrupt { .. })), "{bad:?}");
    assert!(good.len() > 1800, "{} names", good.len());
    Ok(())
}

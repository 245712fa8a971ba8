//! Making undo files: their names, their durability, and the leftovers where they cannot be made.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use uxfs_format::units::Uuid;
use uxfs_testkit::seeds::Random;

use super::{
    super::{About, CommitError, Existing, UndoFile, apply, apply_without_file, default_path, prepare},
    Fixture, SHAPES, assert_same, bytes_of, device,
    devices::CutDevice,
};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_says_what_it_is_for_and_can_be_opened_again() {
    let fixture = Fixture::new(SHAPES[0], &mut Random::new(1));
    let made = fixture.prepare();
    let path = fixture.about().path;
    let opened = UndoFile::open(&path).unwrap();
    assert_eq!(made.facts(), opened.facts());
    let facts = opened.facts();
    assert_eq!((facts.filesystem_uuid, facts.start_bytes), (Uuid([7; 16]), 1 << 20));
    assert_eq!(facts.device_size_bytes, fixture.old.len() as u64);
    assert_eq!(facts.length_bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(names(fixture.folder.path()), ["image.uxfs-undo"]);
    let about = About { path: path.with_extension("second"), ..fixture.about() };
    let second = prepare(&*device(&fixture.old), &*device(&fixture.new), &fixture.ranges, &about);
    assert_ne!(second.unwrap().unwrap().facts().id, facts.id);
}

#[test]
fn a_file_that_is_there_is_kept_unless_it_may_be_replaced() {
    let fixture = Fixture::new(SHAPES[0], &mut Random::new(2));
    let about = fixture.about();
    fs::write(&about.path, "the way back").unwrap();
    // Left by a kill, or put there by another user.
    let part = about.path.with_extension("uxfs-undo.part");
    symlink(&about.path, &part).unwrap();
    let (old, new) = (device(&fixture.old), device(&fixture.new));
    let refused = prepare(&*old, &*new, &fixture.ranges, &about);
    assert!(matches!(refused, Err(CommitError::Exists(_))), "{refused:?}");
    assert_eq!(fs::read(&about.path).unwrap(), b"the way back");
    let replacing = About { existing: Existing::Replace, ..about.clone() };
    // Of another program.
    fs::remove_file(&part).unwrap();
    fs::write(&part, "a video that is not complete").unwrap();
    let refused = prepare(&*old, &*new, &fixture.ranges, &replacing);
    assert!(matches!(refused, Err(CommitError::File { .. })), "{refused:?}");
    assert_eq!(fs::read(&part).unwrap(), b"a video that is not complete");
    fs::write(&part, [0; 5000]).unwrap();
    let file = prepare(&*old, &*new, &fixture.ranges, &replacing).unwrap().unwrap();
    file.check().unwrap();
    assert_eq!(names(fixture.folder.path()), ["image.uxfs-undo"]);
    apply(&file, &*old).unwrap();
    assert_same(&bytes_of(&*old), &fixture.new, "applied");
    // No difference: no file, and the one that is there stays.
    assert!(prepare(&*old, &*new, &fixture.ranges, &replacing).unwrap().is_none());
    UndoFile::open(&about.path).unwrap().check().unwrap();
    assert_eq!(names(fixture.folder.path()), ["image.uxfs-undo"]);
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let fixture = Fixture::new(SHAPES[0], &mut Random::new(3));
    let old = CutDevice::new(&fixture.old, None, 0);
    let about = About { path: fixture.folder.path().join("none/undo"), ..fixture.about() };
    let error = prepare(&old, &*device(&fixture.new), &fixture.ranges, &about).unwrap_err();
    let CommitError::File { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), ErrorKind::NotFound);
    // The name is taken by a folder: seen when the complete file gets it.
    let path = fixture.about().path;
    fs::create_dir(&path).unwrap();
    let about = About { existing: Existing::Replace, ..fixture.about() };
    let error = prepare(&old, &*device(&fixture.new), &fixture.ranges, &about).unwrap_err();
    assert!(matches!(error, CommitError::File { action: "name", .. }), "{error}");
    assert_eq!(names(fixture.folder.path()), ["image.uxfs-undo"]);
    assert_eq!(old.requests(), 0);
}

#[test]
fn a_full_host_file_system_is_told_and_left_as_it_was() {
    let mut fixture = Fixture::new(SHAPES[0], &mut Random::new(4));
    fixture.old.resize(3 << 20, 1);
    fixture.new.resize(3 << 20, 2);
    fixture.ranges = vec![0..3 << 20];
    let host = fixture.folder.path().join("host");
    fs::create_dir(&host).unwrap();
    let mount = |words: &[&str]| {
        let status = Command::new(words[0]).args(&words[1..]).arg(&host).status();
        status.is_ok_and(|status| status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=1m", "none"]) {
        // Not root: `create` has a test of its own of every place at which space may end.
        eprintln!("no tmpfs can be mounted here");
        return;
    }
    let about = About { path: host.join("undo"), ..fixture.about() };
    let result = prepare(&*device(&fixture.old), &*device(&fixture.new), &fixture.ranges, &about);
    let left = names(&host);
    // Where little of the ranges differs there is room.
    let mut little = fixture.old.clone();
    little[2 << 20] = 3;
    // The file is closed before its file system is unmounted.
    let fits = prepare(&*device(&fixture.old), &*device(&little), &fixture.ranges, &about)
        .map(|file| file.is_some());
    assert!(mount(&["umount"]));
    let error = result.unwrap_err();
    let CommitError::NoRoom { needed_bytes, free_bytes, .. } = error else { panic!("{error}") };
    // Old and new bytes of the sectors that differ: a few of the first ones are the same.
    assert_eq!(free_bytes, 1 << 20);
    assert!((5 << 20..7 << 20).contains(&needed_bytes), "{needed_bytes}");
    assert!(left.is_empty(), "{left:?}");
    assert!(fits.unwrap());
}

#[test]
fn without_a_superblock_nothing_is_marked() {
    let fixture = Fixture::new(SHAPES[0], &mut Random::new(5));
    let none = vec![3; 8192];
    let other = vec![4; 8192];
    let ranges = [0..8192];
    let result = prepare(&*device(&none), &*device(&other), &ranges, &fixture.about());
    assert!(matches!(result, Err(CommitError::NoSuperblock)), "{result:?}");
    let target = CutDevice::new(&none, None, 0);
    let result = apply_without_file(&target, &*device(&other), &ranges, &target);
    assert!(matches!(result, Err(CommitError::NoSuperblock)), "{result:?}");
    // Of two sizes; a range that no device has.
    let result = prepare(&*device(&none), &*device(&fixture.new), &ranges, &fixture.about());
    assert!(matches!(result, Err(CommitError::OtherSize { .. })), "{result:?}");
    let behind = [0..fixture.old.len() as u64 + 1];
    let result = prepare(&*device(&fixture.old), &*device(&fixture.new), &behind, &fixture.about());
    assert!(matches!(result, Err(CommitError::Device(_))), "{result:?}");
    assert_eq!((target.requests(), names(fixture.folder.path()).len()), (0, 0));
}

#[test]
fn the_usual_path_lies_beside_the_image() {
    assert_eq!(default_path(Path::new("a/disk.img")).unwrap(), Path::new("a/disk.img.uxfs-undo"));
}

use uxfs_testkit::manifest::{Entry, Header, Timestamp};

use super::*;

fn details() -> Details {
    Details {
        mode: 0o644,
        user_id: 0,
        group_id: 0,
        size_bytes: Some(5),
        link_count: Some(1),
        sectors: None,
        device: None,
        access_time: None,
        modification_time: Some(Timestamp(7, 0)),
        change_time: None,
        birth_time: None,
        sha256: None,
        extents: None,
        extent_count: None,
        attribute_extents: None,
        target: None,
        attributes: Some(vec![]),
        flags: None,
        entries: None,
    }
}

fn entry(path: &str, inode: u64, kind: FileKind, change: impl FnOnce(&mut Details)) -> Entry {
    let mut details = details();
    change(&mut details);
    Entry { path: path.as_bytes().into(), inode: Some(inode), kind, details: Some(Box::new(details)) }
}

fn directory(path: &str, inode: u64) -> Entry {
    entry(path, inode, FileKind::Directory, |_| ())
}

fn file(path: &str, inode: u64, contents: &str) -> Entry {
    entry(path, inode, FileKind::Regular, |details| details.sha256 = Some(contents.into()))
}

fn tree(entries: Vec<Entry>) -> Tree {
    let header = Header { image: String::new(), judge: String::new(), made_by: String::new() };
    Tree::new(&Manifest { header, entries })
}

fn sound() -> Vec<Entry> {
    vec![
        directory("/", 1),
        directory("/d", 2),
        file("/d/a", 3, "a"),
        file("/d/b", 4, "b"),
        file("/e", 5, "e"),
    ]
}

#[test]
fn the_same_tree_is_lossless() {
    let survival = compare(&tree(sound()), &tree(sound()), &Known::default());
    assert!(survival.is_lossless());
    assert_eq!((survival.entries, survival.intact), (5, 5));
}

#[test]
fn an_empty_orphanage_is_no_loss() {
    let mut found = sound();
    found.push(directory("/lost+found", 9));
    assert!(compare(&tree(sound()), &tree(found), &Known::default()).is_lossless());
}

#[test]
fn entries_below_an_orphan_are_moved() {
    let found = vec![
        directory("/", 1),
        file("/e", 5, "e"),
        directory("/lost+found", 9),
        directory("/lost+found/2", 2),
        file("/lost+found/2/a", 3, "a"),
        // With another inode number.
        file("/lost+found/2/b", 40, "b"),
    ];
    let survival = compare(&tree(sound()), &tree(found), &Known::default());
    let counts = (survival.intact, survival.moved, survival.changed, survival.lost, survival.extra);
    assert_eq!(counts, (2, 3, 0, 0, 0));
    assert!(!survival.is_lossless() && survival.examples.len() == 3);
}

#[test]
fn changes_are_told_apart() {
    let found = vec![
        entry("/", 1, FileKind::Directory, |details| details.modification_time = Some(Timestamp(8, 0))),
        entry("/d", 2, FileKind::Directory, |details| details.mode = 0o700),
        file("/d/a", 3, "other"),
        file("/new", 6, "n"),
    ];
    let survival = compare(&tree(sound()), &tree(found), &Known::default());
    let counts = (survival.intact, survival.changed, survival.wrong_bytes, survival.only_times);
    assert_eq!(counts, (0, 3, 1, 1));
    assert_eq!((survival.lost, survival.extra), (2, 1));
}

#[test]
fn what_cannot_be_read_is_not_wrong_silently() {
    let mut found = sound();
    found[2] = file("/d/a", 3, UNREADABLE);
    let survival = compare(&tree(sound()), &tree(found), &Known::default());
    assert_eq!((survival.changed, survival.unreadable, survival.wrong_bytes), (1, 1, 0));
}

#[test]
fn times_alone_are_told_apart() {
    let mut found = sound();
    found[0] = entry("/", 1, FileKind::Directory, |details| details.modification_time = None);
    let survival = compare(&tree(sound()), &tree(found), &Known::default());
    assert!(!survival.is_lossless() && survival.is_lossless_but_for_times());
}

#[test]
fn links_share_their_details() {
    let link =
        Entry { path: b"/z".as_slice().into(), inode: Some(5), kind: FileKind::Regular, details: None };
    let mut linked = sound();
    linked.push(link);
    let survival = compare(&tree(linked.clone()), &tree(sound()), &Known::default());
    assert_eq!((survival.intact, survival.lost), (5, 1));
    linked[4] = file("/e", 5, "changed");
    let mut truth = sound();
    truth.push(file("/z", 5, "e"));
    assert_eq!(compare(&tree(truth), &tree(linked), &Known::default()).wrong_bytes, 2);
}

#[test]
fn the_largest_directory_has_the_most_directories_below() {
    let tree = tree(vec![
        directory("/", 1),
        directory("/a", 2),
        directory("/a/x", 3),
        directory("/ab", 4),
        directory("/ab/x", 5),
        directory("/ab/x/y", 6),
    ]);
    assert_eq!(tree.largest_directory(), Some(4));
}

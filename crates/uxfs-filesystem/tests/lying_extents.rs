//! Extents that lie with right checksums: `xfs_db` writes the lies. No edit writes to blocks or frees blocks that belong to
//! another file or to metadata, as far as the reverse map, free space, the inode index and the group headers know it.

use std::{fs, sync::Arc};

use uxfs_engine::{bulk::create::NewKind, options::LogOptions};
use uxfs_filesystem::{
    file::{Touch, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::create::NewFile,
};
use uxfs_format::{inode::Fork, units::InodeNumber};
use uxfs_testkit::{image::TestImage, judges::Judge, require};
use uxfs_volume::error::{Error, Result};

/// Bytes of each file: two blocks, the second one half full.
const BYTES: usize = 6_000;

/// Without a reverse map, and with shared extents or without.
const NO_REVERSE_MAP: &[&str] = &["-d", "agcount=2", "-m", "rmapbt=0,reflink=1"];
const NOTHING: &[&str] = &["-d", "agcount=2", "-m", "rmapbt=0,reflink=0"];
const ALL: &[&str] = &["-d", "agcount=2"];

fn mounted(image: &TestImage) -> Arc<FileSystem> {
    image.mount_logged(LogOptions { has_background: false, ..LogOptions::default() })
}

fn open(file_system: &FileSystem, name: &str) -> InodeHandle {
    let root = file_system.open_root().unwrap();
    file_system.find(&root, name.as_bytes()).unwrap()
}

/// `liar` and `other` with contents of their own, and `clone` that shares those of `shared` where that is possible.
fn image_with_files(options: &[&str]) -> TestImage {
    let image = TestImage::new("lying extents", 64, options, 0);
    let file_system = mounted(&image);
    let root = file_system.open_root().unwrap();
    let make = |name: &str, byte: u8| {
        let kind = NewFile::new(NewKind::Regular, 0o600);
        let file = file_system.create(&root, name.as_bytes(), &kind).unwrap();
        file_system.write(&file, 0, &[byte; BYTES][..usize::from(byte > 0) * BYTES], Touch::NOTHING).unwrap();
        file
    };
    make("liar", 1);
    make("other", 2);
    let shared = make("shared", 3);
    if file_system.geometry().features.has_reflink() {
        let clone = make("clone", 0);
        let all = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
        file_system.clone_range(&shared, &clone, &all, Touch::NOTHING).unwrap();
    }
    drop(root);
    file_system.close().unwrap();
    image.must_satisfy_repair();
    image
}

/// The first extent of a file: its inode, and where it lies.
fn place(image: &TestImage, name: &str) -> (InodeNumber, u64) {
    let volume = image.mount();
    let inode = volume.resolve(format!("/{name}").as_bytes(), false).unwrap();
    let map = volume.extent_map(&inode, Fork::Data).unwrap();
    (inode.number, map.first().unwrap().start.get())
}

/// What a file holds, as a fresh mount reads it.
fn contents(image: &TestImage, name: &str) -> Vec<u8> {
    let volume = image.mount();
    let inode = volume.resolve(format!("/{name}").as_bytes(), false).unwrap();
    let mut bytes = vec![0; BYTES];
    volume.read_file(&inode, 0, &mut bytes).unwrap();
    bytes
}

/// Lets `xfs_db` run commands.
fn database(image: &TestImage, commands: &[&str]) -> String {
    let mut judge = Judge::XfsDb.command();
    judge.arg("-x");
    for command in commands {
        judge.args(["-c", command]);
    }
    let output = judge.arg(&image.path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The value of a field.
fn field(image: &TestImage, place: &[&str], name: &str) -> u64 {
    let words = database(image, &[place, &[&format!("print {name}")]].concat());
    let value = words.rsplit('=').next().unwrap_or_default().trim();
    value.parse().unwrap_or_else(|_| panic!("{name}: {words}"))
}

/// From now on the only extent of `liar` begins at a block of the file system.
fn lie(image: &TestImage, start: u64) {
    let (inode, _) = place(image, "liar");
    database(image, &[&format!("inode {inode}"), &format!("write -d u3.bmx[0].startblock {start}")]);
    assert_eq!(place(image, "liar").1, start, "xfs_db writes the lie");
}

/// A way to write to a file in place, or to free its blocks.
type Way = (&'static str, fn(&FileSystem, &InodeHandle) -> Result<()>);

const WRITING: [Way; 2] = [
    ("write", |file_system, file| file_system.write(file, 100, &[9; 300], Touch::NOTHING).map(drop)),
    ("punch", |file_system, file| file_system.punch_range(file, 10, 500, Touch::NOTHING)),
];

const FREEING: [Way; 2] = [
    ("truncate", |file_system, file| {
        file_system.set_size(file, 0, Touch::NOTHING)?;
        file_system.force()
    }),
    ("free", |file_system, file| {
        let size = SizeChange::Keep;
        file_system.punch_range(file, 0, 1 << 20, Touch::NOTHING)?;
        file_system.allocate_range(file, 0, 1 << 14, size, Touch::NOTHING)?;
        file_system.force()
    }),
];

/// The contents of all other files.
fn others(image: &TestImage, name: &str) -> Vec<Vec<u8>> {
    let has_clone = image.mount().geometry().features.has_reflink();
    let others = ["liar", "other", "shared", "clone"].into_iter().filter(|other| *other != name);
    others.filter(|other| has_clone || *other != "clone").map(|other| contents(image, other)).collect()
}

/// All of these ways to change a file are refused as damage. Nothing of the other files changes, and the image can be opened
/// for changes afterwards.
fn is_refused(image: &TestImage, name: &str, ways: &[Way]) {
    let before = others(image, name);
    let bytes = fs::read(&image.path).unwrap();
    for (what, way) in ways {
        let file_system = mounted(image);
        let refused = way(&file_system, &open(&file_system, name));
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{what}: {refused:?}");
        // As by a crash. The next mount recovers, and can be changed.
        drop(file_system);
        let file_system = mounted(image);
        let root = file_system.open_root().unwrap();
        let new = file_system.create(&root, b"new", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
        file_system.write(&new, 0, &[7; 100_000], Touch::NOTHING).unwrap();
        drop((new, root));
        file_system.close().unwrap();
        assert!(others(image, name) == before, "{what}: another file has changed");
        fs::write(&image.path, &bytes).unwrap();
    }
}

/// No way to change a file takes anything from another one, whether it is refused or not.
fn takes_nothing(image: &TestImage, name: &str, ways: &[Way]) {
    let before = others(image, name);
    let bytes = fs::read(&image.path).unwrap();
    for (what, way) in ways {
        let file_system = mounted(image);
        let _ = way(&file_system, &open(&file_system, name));
        drop(file_system);
        let file_system = mounted(image);
        let root = file_system.open_root().unwrap();
        let new = file_system.create(&root, b"new", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
        file_system.write(&new, 0, &[7; 30 << 20], Touch::NOTHING).unwrap();
        drop((new, root));
        file_system.close().unwrap();
        assert!(others(image, name) == before, "{what}: another file has changed");
        fs::write(&image.path, &bytes).unwrap();
    }
}

#[test]
fn the_reverse_map_knows_the_owner_of_blocks() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let image = image_with_files(ALL);
    let (_, other) = place(&image, "other");
    // All of another file, half of it, and free space.
    for start in [other, other + 1, other + 5_000] {
        lie(&image, start);
        is_refused(&image, "liar", &WRITING);
        is_refused(&image, "liar", &FREEING);
    }
}

#[test]
fn without_a_reverse_map_metadata_and_free_space_are_known() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    for options in [NO_REVERSE_MAP, NOTHING] {
        let image = image_with_files(options);
        let (root, log) = (field(&image, &["sb 0"], "rootino"), field(&image, &["sb 0"], "logstart"));
        let chunk = database(&image, &[&format!("convert ino {root} fsblock")]);
        let chunk: u64 = chunk.split(['(', ')']).nth(1).unwrap().parse().unwrap();
        let tree = field(&image, &["agf 0"], "bnoroot");
        let (_, other) = place(&image, "other");
        for (what, start) in
            [("inodes", chunk), ("the log", log + 10), ("a btree", tree), ("free space", other + 5_000)]
        {
            println!("{what}");
            lie(&image, start);
            is_refused(&image, "liar", &WRITING);
            is_refused(&image, "liar", &FREEING);
        }
    }
}

/// The flag that says that a file may share its extents is gone, but the extents are shared.
#[test]
fn shared_blocks_of_a_file_that_denies_it_are_not_written() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    for options in [ALL, NO_REVERSE_MAP] {
        let image = image_with_files(options);
        let (inode, _) = place(&image, "clone");
        let inode = format!("inode {inode}");
        assert_eq!(field(&image, &[&inode], "v3.reflink"), 1);
        database(&image, &[&inode, "write -d v3.reflink 0"]);
        assert_eq!(field(&image, &[&inode], "v3.reflink"), 0, "xfs_db writes the lie");
        is_refused(&image, "clone", &WRITING);
        is_refused(&image, "clone", &FREEING);
    }
}

/// A reference count that lies elsewhere leaves blocks that two files have without one.
#[test]
fn the_reverse_map_knows_blocks_that_are_shared() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let image = image_with_files(ALL);
    let (_, shared) = place(&image, "shared");
    let tree = ["agf 0", "addr refcntroot"];
    assert_eq!(
        field(&image, &tree, "recs[1].startblock"),
        shared,
        "group 0 numbers blocks as the file system does"
    );
    database(&image, &[&tree[..], &[&format!("write -d recs[1].startblock {}", shared + 5_000)]].concat());
    is_refused(&image, "clone", &WRITING);
    takes_nothing(&image, "clone", &FREEING);
}

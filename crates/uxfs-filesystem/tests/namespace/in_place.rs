//! Further names and other names without space: what takes no block is done, what takes one is refused and leaves all as
//! it was.

use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::{
    file::{Touch, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions},
};
use uxfs_lab::crash::geometry::Shape;
use uxfs_testkit::judges;
use uxfs_volume::error::{Error, OperationError, Result};

use super::images::{How, Volume};

/// Directories of each form.
const COUNTS: [u32; 4] = [3, 40, 300, 1500];
const SHAPES: [&str; 4] = ["default", "plain", "no-parent", "block-1k-directory-8k"];
const NOREPLACE: RenameOptions = RenameOptions { no_replace: true, exchange: false, whiteout: None };

fn has_space(result: Result<()>) -> bool {
    match result {
        Ok(()) => true,
        Err(Error::Operation(OperationError::NoSpace)) => false,
        Err(error) => panic!("{error}"),
    }
}

fn numbered(number: u32) -> Vec<u8> {
    format!("file-{number}").into_bytes()
}

fn take_all(fs: &FileSystem, ballast: &InodeHandle) {
    let status = fs.statistics();
    let (mut blocks, mut at) = (status.free_blocks, 0);
    while blocks > 0 {
        let bytes = blocks * u64::from(status.block_size_bytes);
        let is_done = has_space(fs.allocate_range(ballast, at, bytes, SizeChange::Keep, Touch::NOTHING));
        (blocks, at) = if is_done { (blocks, at + bytes) } else { (blocks / 2, at) };
    }
}

struct Full {
    volume: Volume,
    root: InodeHandle,
    ballast: Option<InodeHandle>,
    directories: Vec<InodeHandle>,
}

impl Full {
    /// Directories with files; all the space that files may have is taken.
    fn new(shape: &Shape) -> Self {
        let volume = Volume::new(shape, How::Logged);
        let fs = &*volume.file_system;
        let root = fs.open_root().unwrap();
        let ballast = fs.create(&root, b"ballast", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
        let make = |count: u32| {
            let name = format!("directory-{count}").into_bytes();
            let directory = fs.create(&root, &name, &NewFile::new(NewKind::Directory, 0o755)).unwrap();
            for number in 0..count {
                let file = NewFile::new(NewKind::Regular, 0o644);
                fs.create(&directory, &numbered(number), &file).unwrap();
            }
            directory
        };
        let directories = COUNTS.into_iter().map(make).collect();
        take_all(fs, &ballast);
        Self { root, ballast: Some(ballast), directories, volume }
    }

    fn fs(&self) -> &FileSystem {
        &self.volume.file_system
    }

    fn give_back(&mut self) {
        self.fs().unlink(&self.root, b"ballast").unwrap();
        self.ballast = None;
        self.fs().inactivate_pending().unwrap();
        self.fs().force().unwrap();
        self.fs().complete_pending_frees().unwrap();
    }

    /// Takes half of what is kept, which other names may have, too.
    fn take_half_of_the_reserve(&self) {
        let fs = self.fs();
        let whiteout = RenameOptions { whiteout: Some((0, 0)), ..RenameOptions::default() };
        let last = self.directories.last().unwrap();
        let name = |number: u32| format!("{number:0>240}").into_bytes();
        let mut number = 0;
        fs.rename(last, &numbered(0), last, &name(0), &whiteout).unwrap();
        while has_space(fs.rename(last, &name(number), last, &name(number + 1), &whiteout)) {
            number += 1;
        }
    }
}

fn link_in_place(shape: &Shape) -> (usize, usize) {
    let mut full = Full::new(shape);
    let (mut done, mut refused) = (0, Vec::new());
    let fs = full.fs();
    for (directory, count) in full.directories.iter().zip(COUNTS) {
        // Long names, until there is no room in the directory or in the inode.
        // Until one is refused.
        let is_refused = (0..1000_u32).any(|number| {
            let file = fs.find(directory, &numbered(number % count)).unwrap();
            let name = format!("{number:0>20}").into_bytes();
            let (before, links) = (fs.available_blocks(), fs.stat(&file).unwrap().link_count);
            if has_space(fs.link(&file, directory, &name)) {
                assert_eq!(fs.available_blocks(), before, "{shape}: a link in place took a block");
                assert_eq!(fs.find(directory, &name).unwrap().number(), file.number());
                done += 1;
                return false;
            }
            assert!(fs.find(directory, &name).is_err(), "{shape}: half done");
            assert_eq!(fs.stat(&file).unwrap().link_count, links);
            refused.push((directory.clone(), file, name));
            true
        });
        assert!(is_refused, "{shape}: {count} names and any number of others in one place");
    }
    full.give_back();
    // What was refused would have taken one.
    let fs = full.fs();
    for (directory, file, name) in &refused {
        let before = fs.available_blocks();
        fs.link(file, directory, name).unwrap();
        assert!(fs.available_blocks() < before, "{shape}: a link that needs no block was refused");
    }
    let refused = refused.len();
    let Full { volume, .. } = full;
    volume.judge("link_in_place");
    (done, refused)
}

#[test]
fn links_that_need_no_space_need_none() {
    for shape in SHAPES.map(|name| Shape::named(name).unwrap()) {
        let (done, refused) = link_in_place(&shape);
        assert!(done >= COUNTS.len(), "{shape}: only {done} links");
        let what = format!("{shape}: {done} links on a full file system, {refused} refused");
        judges::judged("xfs_repair and the kernel", &what);
    }
}

fn rename_in_place(shape: &Shape) -> usize {
    let full = Full::new(shape);
    let fs = full.fs();
    full.take_half_of_the_reserve();
    let mut done = 0;
    for (index, (from, count)) in full.directories.iter().zip(COUNTS).enumerate() {
        for to in &full.directories[index..] {
            let old = numbered(count - 1);
            let file = fs.find(from, &old).unwrap();
            // Longer by so much: sooner or later there is no room.
            for length in (1..=240).step_by(30) {
                let new = vec![b'n'; length];
                if has_space(fs.rename(from, &old, to, &new, &NOREPLACE)) {
                    assert!(fs.find(from, &old).is_err());
                    assert_eq!(fs.find(to, &new).unwrap().number(), file.number());
                    fs.rename(to, &new, from, &old, &NOREPLACE).unwrap();
                    done += 1;
                } else {
                    assert!(fs.find(to, &new).is_err(), "{shape}: half done");
                }
                assert_eq!(fs.find(from, &old).unwrap().number(), file.number());
            }
        }
    }
    // Both names are as long as each other: there is always room.
    let exchange = RenameOptions { exchange: true, ..RenameOptions::default() };
    let [first, .., last] = full.directories.as_slice() else { panic!() };
    for (one, other) in [(first, first), (first, last), (last, last)] {
        let (a, b) = (numbered(1), numbered(2));
        let numbers = [fs.find(one, &a).unwrap().number(), fs.find(other, &b).unwrap().number()];
        fs.rename(one, &a, other, &b, &exchange).unwrap();
        assert_eq!([fs.find(other, &b).unwrap().number(), fs.find(one, &a).unwrap().number()], numbers);
    }
    // A file in the place of another, with a name that long: only the parent pointer is another.
    fs.rename(last, &numbered(3), first, &numbered(1), &RenameOptions::default()).unwrap();
    // Directories have a parent of their own.
    let name = |count: u32| format!("directory-{count}").into_bytes();
    fs.rename(&full.root, &name(40), last, &numbered(4), &NOREPLACE).map_or_else(
        |error| assert!(matches!(error, Error::Operation(OperationError::Exists)), "{error}"),
        |()| panic!("{shape}: there was such a name"),
    );
    fs.rename(last, &numbered(5), &full.root, &numbered(5), &NOREPLACE).unwrap();
    fs.rename(&full.root, &name(40), last, &numbered(5), &NOREPLACE).unwrap();
    let Full { volume, .. } = full;
    volume.judge("rename_in_place");
    done
}

#[test]
fn renames_that_need_no_space_need_none() {
    for shape in SHAPES.map(|name| Shape::named(name).unwrap()) {
        let done = rename_in_place(&shape);
        assert!(done >= COUNTS.len(), "{shape}: only {done} renames");
        judges::judged(
            "xfs_repair and the kernel",
            &format!("{shape}: {done} renames on a full file system"),
        );
    }
}

//! Images filled from directories, judged by `xfs_repair`, the kernel and our own reader.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, symlink},
    },
    path::Path,
};

use anyhow::Result;
use common::{empty_image, fill, fill_from, fill_with};
use rustix::fs::{XattrFlags, setxattr};
use tempfile::TempDir;
use uxfs_source::{
    content::{ByteRange, Content},
    entry::{DirectoryId, Entry, Kind, Metadata},
    error::{Problem, SourceError},
    tree::{Batch, LaterContent, Reading, TreeSource},
};
use uxfs_testkit::{
    golden::GoldenImage,
    judges::{self, Judge},
    mount::{Access, LoopMount},
    populate::Recipe,
    seeds::Part,
    sparse::Contents,
    verdict::{holds_the_same, kernel_removes_everything, repair_is_silent},
};

const JUDGES: [Judge; 4] = [Judge::Mkfs, Judge::XfsRepair, Judge::XfsIo, Judge::Kernel];

/// In memory: the disk is slow, and its file system may lack what a tree needs.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("uxfs-populate-").tempdir_in(place).unwrap()
}

/// A tree with every shape that any file system offers.
fn plain_tree(root: &Path) -> Result<()> {
    fs::create_dir(root)?;
    let recipe = Recipe {
        block_size_bytes: 4096,
        directory_block_size_bytes: 4096,
        inode_size_bytes: 512,
        has_reflink: false,
        has_sparse_inodes: false,
        has_bigtime: true,
        is_plain_tree: true,
        many_names: 0,
    };
    recipe.populate(root)
}

/// Options of mkfs.xfs that change what the write engine has to do.
const GEOMETRIES: [(&str, &[&str]); 10] = [
    ("default", &[]),
    ("block-1k", &["-b", "size=1k"]),
    ("block-64k", &["-b", "size=64k"]),
    ("sector-4k", &["-s", "size=4k"]),
    ("inode-2k", &["-i", "size=2048"]),
    ("directory-16k", &["-n", "size=16k"]),
    ("no-parent", &["-n", "parent=0"]),
    ("no-rmapbt", &["-m", "rmapbt=0,reflink=0"]),
    ("no-finobt", &["-m", "finobt=0,inobtcount=0", "-i", "sparse=0,nrext64=0"]),
    ("stripes", &["-d", "su=64k,sw=4"]),
];

#[test]
fn a_tree_of_every_shape_in_every_geometry() {
    if !judges::all_present(&JUDGES, "a_tree_of_every_shape_in_every_geometry") {
        return;
    }
    let directory = directory();
    let source = directory.path().join("source");
    plain_tree(&source).unwrap();
    for (name, arguments) in Part::of_run(2).of(&GEOMETRIES) {
        let image = empty_image(directory.path(), "image", 600, arguments).unwrap();
        fill(&image, &source, 2).unwrap();
        let paths = holds_the_same(&image, &source).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        kernel_removes_everything(&image, 7).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        judges::judged("kernel and xfs_repair", &format!("filled from a tree, {name}: {paths} paths"));
    }
}

#[test]
fn what_linux_made_is_copied_exactly() {
    if !judges::all_present(&JUDGES, "what_linux_made_is_copied_exactly") {
        return;
    }
    let directory = directory();
    let golden = GoldenImage::named("default").unwrap().unpacked().unwrap();
    let mount = LoopMount::new(&golden, Access::ReadOnly).unwrap();
    let image = empty_image(directory.path(), "image", 1024, &[]).unwrap();
    fill(&image, mount.path(), 2).unwrap();
    let paths = holds_the_same(&image, mount.path()).unwrap();
    mount.unmount().unwrap();
    kernel_removes_everything(&image, 11).unwrap();
    judges::judged("kernel and xfs_repair", &format!("filled from a golden image's mount: {paths} paths"));
}

/// Equal input, equal image, bit for bit: whatever the number of threads, the order of names on the host, or the cache.
#[test]
fn the_image_depends_on_the_tree_alone() {
    if !judges::all_present(&[Judge::Mkfs], "the_image_depends_on_the_tree_alone") {
        return;
    }
    let directory = directory();
    let trees: Vec<_> = [0, 1].map(|order| directory.path().join(format!("tree-{order}"))).into();
    for (order, tree) in trees.iter().enumerate() {
        fs::create_dir(tree).unwrap();
        let mut numbers: Vec<u32> = (0..3000).collect();
        if order == 1 {
            numbers.reverse();
        }
        for number in numbers {
            let folder = tree.join(format!("d{}", number % 7));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("file-{number}")), vec![number as u8; number as usize * 7])
                .unwrap();
        }
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
        for entry in walk(tree) {
            File::open(entry)
                .unwrap()
                .set_times(fs::FileTimes::new().set_modified(time).set_accessed(time))
                .unwrap();
        }
    }
    let mut images: Vec<Contents> = Vec::new();
    for (tree, threads, cache) in [(0, 1, None), (0, 2, None), (1, 4, None), (0, 2, Some(1 << 20))] {
        let image = empty_image(directory.path(), "image", 320, &[]).unwrap();
        fill_with(&image, &trees[tree], threads, cache).unwrap();
        images.push(Contents::read(&image).unwrap());
    }
    for image in &images[1..] {
        assert_eq!(images[0].difference(image), None);
    }
}

fn walk(root: &Path) -> Vec<std::path::PathBuf> {
    let mut all = vec![root.to_path_buf()];
    let mut next = 0;
    while next < all.len() {
        if all[next].is_dir() {
            all.extend(fs::read_dir(&all[next]).unwrap().map(|entry| entry.unwrap().path()));
        }
        next += 1;
    }
    all
}

/// The extremes, as large as a test may be; `cargo xtask extremes` has them at full size.
#[test]
fn extremes() {
    if !judges::all_present(&JUDGES, "extremes") {
        return;
    }
    let directory = directory();
    let source = directory.path().join("source");
    make_extremes(&source).unwrap();
    let image = empty_image(directory.path(), "image", 1500, &[]).unwrap();
    fill_with(&image, &source, 2, Some(16 << 20)).unwrap();
    let paths = holds_the_same(&image, &source).unwrap();
    kernel_removes_everything(&image, 3).unwrap();
    judges::judged("kernel and xfs_repair", &format!("filled with extremes: {paths} paths"));
}

fn make_extremes(root: &Path) -> Result<()> {
    fs::create_dir(root)?;
    let many = root.join("many-names");
    fs::create_dir(&many)?;
    for number in 0..40_000 {
        File::create(many.join(format!("name-{number:06}")))?;
    }
    let linked = root.join("linked");
    fs::create_dir(&linked)?;
    fs::write(linked.join("0"), "many names")?;
    for number in 1..5000 {
        fs::hard_link(linked.join("0"), linked.join(format!("{number}")))?;
    }
    let attributes = root.join("attributes");
    File::create(&attributes)?;
    for number in 0..1500 {
        let (name, value) = (format!("user.attribute-{number}"), vec![number as u8; number % 90]);
        setxattr(&attributes, name.as_str(), &value, XattrFlags::empty())?;
    }
    let file = File::create(root.join("one-hole"))?;
    file.set_len(1 << 40)?;
    let file = File::create(root.join("many-extents"))?;
    for number in 0..4000_u64 {
        file.write_all_at(&number.to_le_bytes(), number * 8192)?;
    }
    let mut deep = root.to_path_buf();
    for level in 0..100 {
        deep.push(format!("level-{level}"));
    }
    fs::create_dir_all(&deep)?;
    fs::write(deep.join(OsStr::from_bytes(&[b'n'; 255])), "deep")?;
    fs::write(root.join(OsStr::from_bytes(b"not \xff utf-8 \n")), "odd")?;
    symlink("t".repeat(1023), root.join("long-link"))?;
    Ok(())
}

#[test]
fn a_full_image_fails_with_the_place_and_stays_unfinished() {
    if !judges::all_present(&[Judge::Mkfs], "a_full_image_fails_with_the_place_and_stays_unfinished") {
        return;
    }
    let directory = directory();
    let source = directory.path().join("source");
    fs::create_dir(&source).unwrap();
    for number in 0..40 {
        fs::write(source.join(format!("file-{number}")), vec![1; 10 << 20]).unwrap();
    }
    let image = empty_image(directory.path(), "image", 300, &[]).unwrap();
    let error = fill(&image, &source, 2).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("file-") && text.contains("no space"), "{text}");
}

/// Tells one file, whose content is to come later, and gives another's content or none.
struct Promises {
    batch: Option<Batch>,
    content: Option<LaterContent>,
}

impl TreeSource for Promises {
    fn root(&self) -> Option<&Metadata> {
        None
    }

    fn next_batch(&mut self) -> Result<Option<Batch>, SourceError> {
        Ok(self.batch.take())
    }

    fn next_content(&mut self) -> Result<Option<LaterContent>, SourceError> {
        Ok(self.content.take())
    }

    fn restart(&mut self, _: Reading) -> Result<(), SourceError> {
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        Vec::new()
    }
}

#[test]
fn contents_that_never_come_are_an_error() {
    if !judges::all_present(&[Judge::Mkfs], "contents_that_never_come_are_an_error") {
        return;
    }
    let directory = directory();
    let image = empty_image(directory.path(), "image", 300, &[]).unwrap();
    let fill = |token: Option<u32>| {
        let ranges = [ByteRange { offset_bytes: 0, length_bytes: 9 }];
        let content = Content::Later { token: 7, ranges: ranges.into() };
        let name = format!("file-{token:?}").into_bytes().into();
        let kind = Kind::Regular { size_bytes: 9, content };
        let entries = vec![Entry { name, metadata: Metadata::default(), kind }];
        let batch = Batch { directory: DirectoryId::ROOT, path: Box::default(), is_last: true, entries };
        let content = |token| LaterContent { token, content: Content::Inline((*b"the bytes").into()) };
        let mut source = Promises { batch: Some(batch), content: token.map(content) };
        fill_from(&image, &mut source)
    };
    let words = |token| format!("{:#}", fill(token).unwrap_err());
    assert_eq!(words(None), "the source did not deliver the contents of 1 files");
    assert!(words(Some(8)).contains("no such"), "{}", words(Some(8)));
}

#[test]
fn the_usr_of_this_machine() {
    if !judges::all_present(&JUDGES, "the_usr_of_this_machine") {
        return;
    }
    let source = Path::new("/usr/lib/x86_64-linux-gnu/perl-base");
    let source = if source.is_dir() { source } else { Path::new("/usr/sbin") };
    let directory = directory();
    let image = empty_image(directory.path(), "image", 700, &[]).unwrap();
    fill(&image, source, 2).unwrap();
    repair_is_silent(&image).unwrap();
    let paths = holds_the_same(&image, source).unwrap();
    judges::judged("kernel and xfs_repair", &format!("filled from a part of /usr: {paths} paths"));
}

//! `uxfs mkfs --from` an archive: the image depends on what the archive holds, not on the order in which it does.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use uxfs_testkit::{
    judges::{self, Judge},
    seeds::{Random, Seed},
    sparse::Contents,
    verdict::{holds_the_same_but_for_reading, repair_is_silent},
};

use crate::common::{host, succeeds, text, tree};

const JUDGES: [Judge; 4] = [Judge::GnuTar, Judge::XfsRepair, Judge::XfsIo, Judge::Kernel];

/// More names in one directory than come at a time, links across directories, holes, an attribute too large for an inode.
fn large_tree(root: &Path) {
    tree(root);
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    for number in 0..2500_usize {
        fs::write(root.join(format!("a/b/many-{number}")), vec![3; number % 20 * 1500]).unwrap();
    }
    for number in 0..40 {
        fs::hard_link(root.join("a/b/many-77"), root.join(format!("a/link-{number}"))).unwrap();
    }
    fs::hard_link(root.join("large"), root.join("a/b/c/large")).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(root.join("large"), "user.large", &[7; 3000], flags).unwrap();
    for number in 0..30 {
        rustix::fs::setxattr(root.join("a"), format!("user.{number}"), &[number; 50], flags).unwrap();
    }
    let holes = fs::File::create(root.join("holes")).unwrap();
    for place in 0..200_u64 {
        std::os::unix::fs::FileExt::write_all_at(&holes, b"data between holes", place * 37_111).unwrap();
    }
}

fn listing(root: &Path) -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from(".")];
    let mut next = 0;
    while next < all.len() {
        let place = root.join(&all[next]);
        if place.symlink_metadata().unwrap().is_dir() {
            let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
            let here = all[next].clone();
            all.extend(names.map(|name| here.join(name)));
        }
        next += 1;
    }
    all
}

fn shuffled(mut list: Vec<PathBuf>, random: &mut Random) -> Vec<PathBuf> {
    for last in (1..list.len()).rev() {
        list.swap(last, random.below(last as u64 + 1) as usize);
    }
    list
}

struct Archives<'a> {
    folder: &'a Path,
    source: &'a Path,
}

impl Archives<'_> {
    /// An archive with its members in this order.
    fn make(&self, name: &str, list: &[PathBuf]) -> PathBuf {
        let (names, archive) = (self.folder.join("names"), self.folder.join(name));
        let lines: Vec<&str> = list.iter().map(|path| text(path)).collect();
        fs::write(&names, lines.join("\n") + "\n").unwrap();
        let tar = Judge::GnuTar
            .command()
            .args(["--format=pax", "--sparse", "--xattrs", "--acls", "--numeric-owner", "--no-recursion"])
            .args(["-C", text(self.source), "-cf", text(&archive), "-T", text(&names)])
            .status();
        assert!(tar.unwrap().success());
        archive
    }

    fn image(&self, source: &Path) -> Contents {
        self.image_with(source, &[])
    }

    fn image_with(&self, source: &Path, options: &[&str]) -> Contents {
        let image = self.folder.join("image");
        let mut arguments = vec!["mkfs", "-q", "-f", "--reproducible", "--size", "300M"];
        arguments.extend_from_slice(options);
        arguments.extend_from_slice(&["--from", text(source), text(&image)]);
        succeeds(&arguments);
        Contents::read(image).unwrap()
    }
}

#[test]
fn archives_of_one_tree_in_any_order_and_packing_make_one_image() {
    if !judges::all_present(&JUDGES, "archives_of_one_tree_in_any_order_and_packing_make_one_image") {
        return;
    }
    let seed = Seed::from_environment("archives_of_one_tree_in_any_order_and_packing_make_one_image", 5);
    let mut random = seed.random();
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() };
    let source = folder.path().join("source");
    large_tree(&source);
    let archives = Archives { folder: folder.path(), source: &source };
    let mut list = listing(&source);
    list.sort();
    let sorted = archives.make("sorted.tar", &list);
    let expected = archives.image(&sorted);
    let image = folder.path().join("image");
    let paths = holds_the_same_but_for_reading(&image, &source).unwrap();
    judges::judged("kernel and xfs_repair", &format!("from a sorted archive: {paths} paths"));
    let compare = |path: &Path, options: &[&str]| {
        let found = archives.image_with(path, options);
        assert_eq!(expected.difference(&found), None, "{} {options:?}", path.display());
    };
    let same = |path: &Path| compare(path, &[]);
    // All that is remembered of files lies in temporary files.
    let same_without_memory = |path: &Path| compare(path, &["--source-memory", "0"]);
    list.reverse();
    same(&archives.make("reversed.tar", &list));
    for round in 0..3 {
        list = shuffled(list, &mut random);
        let archive = archives.make(&format!("shuffled-{round}.tar"), &list);
        same(&archive);
        same_without_memory(&archive);
        let packed = archive.with_extension("tar.zst");
        fs::write(&packed, zstd_of(&fs::read(&archive).unwrap())).unwrap();
        same(&packed);
        same_without_memory(&packed);
    }
    host("gzip", &["-kf", text(&sorted)]);
    same(&folder.path().join("sorted.tar.gz"));
    // An archive of a directory is that directory.
    same(&source);
    same_without_memory(&source);
}

/// Layers are merged in memory or in temporary files; a directory of the host among them tells its own hard links.
#[test]
fn layers_make_one_image_with_any_memory() {
    if !judges::all_present(&JUDGES, "layers_make_one_image_with_any_memory") {
        return;
    }
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() };
    let (source, upper) = (folder.path().join("source"), folder.path().join("upper"));
    large_tree(&source);
    fs::create_dir_all(upper.join("a/b/c")).unwrap();
    for path in ["a/.wh.link-3", "a/b/.wh.many-5", "a/b/c/.wh..wh..opq"] {
        fs::write(upper.join(path), "").unwrap();
    }
    for number in 0..1500 {
        fs::write(upper.join(format!("a/b/many-{}", number * 2)), b"from above").unwrap();
    }
    for number in 0..20 {
        fs::hard_link(upper.join("a/b/many-0"), upper.join(format!("a/b/c/{number}"))).unwrap();
    }
    let archives = Archives { folder: folder.path(), source: &source };
    let lowest = archives.make("lowest.tar", &listing(&source));
    let image_with =
        |memory: &str| archives.image_with(&upper, &["--source-memory", memory, "--from", text(&lowest)]);
    let expected = image_with("1G");
    for memory in ["0", "100k", "600k", "1500k"] {
        let found = image_with(memory);
        assert_eq!(expected.difference(&found), None, "--source-memory {memory}");
    }
    repair_is_silent(&folder.path().join("image")).unwrap();
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

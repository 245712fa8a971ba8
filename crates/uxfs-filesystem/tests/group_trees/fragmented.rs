//! Images that the kernel fragments.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
};

use rustix::fs::{FallocateFlags, fallocate, ioctl_ficlone};
use uxfs_testkit::{
    image::TestImage,
    mount::{Access, LoopMount},
};

/// Name, options of mkfs, and levels of the trees of group 0 by block, by length and of owners.
pub const IMAGES: &[(&str, &[&str], &[u32; 3])] = &[
    ("1 KiB blocks", &["-b", "size=1024", "-d", "agcount=2"], &[2, 2, 3]),
    ("4 KiB blocks, 4 KiB sectors", &["-s", "size=4096", "-d", "agcount=1"], &[2, 2, 2]),
    (
        "no sparse inodes, no shared extents",
        &["-b", "size=1024", "-i", "sparse=0", "-m", "reflink=0", "-d", "agcount=2"],
        &[2, 2, 3],
    ),
    (
        "no owners, no free inode tree",
        &["-m", "rmapbt=0,finobt=0,inobtcount=0", "-d", "agcount=1"],
        &[2, 2, 0],
    ),
];

/// Half of the pieces of the fragmented file are punched out again.
const PIECES: u64 = 6000;

/// Makes, fills and unmounts an image.
pub fn make(options: &[&str]) -> TestImage {
    let image = TestImage::new("fragmented", 320, options, 0);
    let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
    fill(mount.path());
    mount.unmount().unwrap();
    image
}

fn fill(root: &Path) {
    let block = rustix::fs::statvfs(root).unwrap().f_bsize;
    let file = File::create_new(root.join("fragmented")).unwrap();
    (&file).write_all(&vec![0x5a; (PIECES * block) as usize]).unwrap();
    file.sync_all().unwrap();
    for piece in (1..PIECES).step_by(2) {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, punch, piece * block, block).unwrap();
    }
    let unwritten = File::create_new(root.join("unwritten")).unwrap();
    fallocate(&unwritten, FallocateFlags::empty(), 0, 100 * block).unwrap();
    for piece in (0..100).step_by(2) {
        unwritten.write_all_at(&vec![1; block as usize], piece * block).unwrap();
    }
    let clone = File::create_new(root.join("clone")).unwrap();
    if ioctl_ficlone(&clone, &file).is_ok() {
        for piece in (0..PIECES / 2).step_by(6) {
            clone.write_all_at(&vec![2; block as usize], piece * block).unwrap();
        }
    }
    // Enough chunks for inode trees of two levels at 1 KiB, a few of them freed and thinned out.
    for directory in 0..4 {
        let folder = root.join(format!("directory-{directory}"));
        fs::create_dir(&folder).unwrap();
        (0..2500).for_each(|number| drop(File::create_new(folder.join(number.to_string())).unwrap()));
        (0..2500)
            .filter(|number| number % 5 < 2)
            .for_each(|number| fs::remove_file(folder.join(number.to_string())).unwrap());
    }
}

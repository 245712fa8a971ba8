//! The headers of groups are lost, and with them the roots of all btrees there. The btrees themselves are still on disk, and tell which
//! inode chunks were freed: Linux leaves the inodes of such a chunk as if in use.

use std::{fs, os::unix::fs::FileExt, path::Path};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::fault::Structure;
use uxfs_testkit::{
    image::{make, memory_folder},
    judges::Judge,
    manifest::{Header, Manifest},
    mount::{Access, LoopMount},
    require, sparse, structures,
    verdict::{repair_is_silent, same},
    walk,
    xfs_db::XfsDb,
};

use crate::common::{repair_image, repair_image_without_log};

/// Files of each directory: they fill several inode chunks, and leave the others of the group to it.
const FILES: usize = 200;
const DIRECTORIES: usize = 6;
const SHAPES: [&[&str]; 4] = [
    &["-m", "rmapbt=0"],
    &["-m", "rmapbt=1"],
    &["-m", "rmapbt=0,finobt=0,reflink=0,inobtcount=0"],
    &["-b", "size=1024", "-m", "rmapbt=0"],
];

/// The kernel makes directories of files, and removes every second one at once or after it was unmounted in between.
fn kernel_makes_and_removes(image: &Path, is_unmounted_between: bool) {
    let mut mount = LoopMount::new(image, Access::ReadWrite).unwrap();
    for directory in 0..DIRECTORIES {
        let path = mount.join(format!("directory-{directory}"));
        fs::create_dir(&path).unwrap();
        for file in 0..FILES {
            fs::write(path.join(format!("file-{file}")), format!("contents of {directory}/{file}")).unwrap();
        }
    }
    if is_unmounted_between {
        mount.unmount().unwrap();
        mount = LoopMount::new(image, Access::ReadWrite).unwrap();
    }
    for directory in (0..DIRECTORIES).step_by(2) {
        fs::remove_dir_all(mount.join(format!("directory-{directory}"))).unwrap();
    }
    if is_unmounted_between {
        mount.unmount().unwrap();
        mount = LoopMount::new(image, Access::ReadWrite).unwrap();
    }
    // Some of these take the place of removed ones.
    for file in 0..FILES / 4 {
        fs::write(mount.join(format!("directory-1/later-{file}")), b"later").unwrap();
    }
    mount.unmount().unwrap();
}

/// Zeros over all headers of a group, or over those of the groups and no superblock.
fn lose_headers(image: &Path, groups: &[u64]) {
    let group_bytes = group_bytes(image);
    let file = fs::File::options().write(true).open(image).unwrap();
    for group in groups {
        file.write_all_at(&[0; 4096], group * group_bytes).unwrap();
    }
}

fn group_bytes(image: &Path) -> u64 {
    let printed = XfsDb::new(image).run(&["sb 0", "print agblocks blocksize"]).unwrap();
    let values = printed.lines().filter_map(|line| line.split_once(" = "));
    values.map(|(_, value)| value.parse::<u64>().unwrap()).product()
}

fn manifest(image: &Path) -> Manifest {
    let header =
        Header { image: image.display().to_string(), judge: "uxfs".into(), made_by: "a test".into() };
    walk::from_image(image, header).unwrap()
}

#[test]
fn files_that_were_removed_stay_removed() {
    require!(Judge::XfsRepair, Judge::Kernel, Judge::Mkfs, Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, before) = (folder.path().join("image"), folder.path().join("before"));
    let mut cases = 0;
    for shape in SHAPES {
        for is_unmounted_between in [false, true] {
            let _ = fs::remove_file(&before);
            make(&before, 320 << 20, shape).unwrap();
            kernel_makes_and_removes(&before, is_unmounted_between);
            let expected = manifest(&before);
            for (groups, with_log) in [(&[0][..], true), (&[1, 3], false), (&[0, 1, 2, 3], false)] {
                sparse::copy(&before, &image).unwrap();
                lose_headers(&image, groups);
                let staged = if with_log { repair_image(&image) } else { repair_image_without_log(&image) };
                let case = format!("{shape:?} {is_unmounted_between} {groups:?} {with_log}");
                assert!(staged.remaining.is_empty(), "{case}: {:#?}", staged.remaining);
                repair_is_silent(&image).unwrap_or_else(|error| panic!("{case}: {error:#}"));
                same(&expected, &manifest(&image)).unwrap_or_else(|error| panic!("{case}: {error:#}"));
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 24);
}

/// The inode btree on disk is older than inodes, and the log that has its changes is lost. Chunks that it lacks hold files.
#[test]
fn chunks_that_came_after_the_btree_stay() {
    require!(Judge::XfsRepair, Judge::Kernel, Judge::Mkfs, Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for shape in SHAPES {
        let _ = fs::remove_file(&image);
        make(&image, 320 << 20, shape).unwrap();
        kernel_makes_and_removes(&image, true);
        let old = inode_btrees(&image);
        let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
        for file in 0..2 * FILES {
            fs::write(mount.join(format!("new-{file}")), b"new").unwrap();
            fs::write(mount.join(format!("directory-3/new-{file}")), b"new").unwrap();
        }
        mount.unmount().unwrap();
        let expected = manifest(&image);
        let file = fs::File::options().write(true).open(&image).unwrap();
        let changed = old.iter().zip(inode_btrees(&image)).filter(|(old, new)| *old != new).count();
        assert!(changed > 0, "{shape:?}");
        old.iter().for_each(|(offset, bytes)| file.write_all_at(bytes, *offset).unwrap());
        lose_headers(&image, &[0, 1, 2, 3]);
        let staged = repair_image_without_log(&image);
        assert!(staged.remaining.is_empty(), "{shape:?}: {:#?}", staged.remaining);
        repair_is_silent(&image).unwrap_or_else(|error| panic!("{shape:?}: {error:#}"));
        same(&expected, &manifest(&image)).unwrap_or_else(|error| panic!("{shape:?}: {error:#}"));
    }
}

/// The blocks of all inode btrees, with their places.
fn inode_btrees(image: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = fs::File::open(image).unwrap();
    let (_, all) = structures::list(&SyncDevice::open_read_only(image, 0).unwrap()).unwrap();
    let of_index = all.iter().filter(|instance| instance.structure == Structure::InodeIndex);
    of_index
        .flat_map(|instance| &instance.pieces)
        .map(|(offset, length)| {
            let mut bytes = vec![0; *length as usize];
            file.read_exact_at(&mut bytes, *offset).unwrap();
            (*offset, bytes)
        })
        .collect()
}

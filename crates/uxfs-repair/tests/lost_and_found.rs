//! The folder of what has no name, on images that have something in its place.

use std::{fs, os::unix::fs::MetadataExt};

use uxfs_testkit::{
    image::{make, memory_folder},
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    verdict::repair_findings,
};

use crate::common::{plant, repair_image_without_log};

const FILES: usize = 5;

#[test]
fn what_users_have_put_into_its_place_stays() {
    require!(Judge::Kernel, Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    make(&image, 300 << 20, &["-n", "parent=0"]).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    let directory = mount.path().join("directory");
    fs::create_dir(&directory).unwrap();
    fs::write(mount.path().join("lost+found"), "a file").unwrap();
    let own = mount.path().join("lost+found.1");
    fs::create_dir(&own).unwrap();
    let mut lost = Vec::new();
    for number in 0..FILES {
        let path = directory.join(number.to_string());
        fs::write(&path, number.to_string()).unwrap();
        lost.push(fs::metadata(&path).unwrap().ino());
    }
    fs::write(own.join(lost[0].to_string()), "mine").unwrap();
    fs::write(own.join(format!("{}.1", lost[0])), "mine, too").unwrap();
    let inode = fs::metadata(&directory).unwrap().ino();
    mount.unmount().unwrap();
    plant(&image, &[&format!("inode {inode}"), "write -d core.magic 0", "write -d core.mode 0"]);

    let staged = repair_image_without_log(&image);
    assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
    // The judge wants no file of this name, on any image; Linux does not mind.
    let judged = repair_findings(&image).unwrap();
    assert!(judged.iter().all(|finding| finding.contains("lost+found")), "{judged:#?}");
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    let read = |path: &str| fs::read_to_string(mount.path().join(path)).unwrap();
    assert_eq!(read("lost+found"), "a file");
    assert_eq!(read(&format!("lost+found.1/{}", lost[0])), "mine");
    assert_eq!(read(&format!("lost+found.1/{}.1", lost[0])), "mine, too");
    for (number, inode) in lost.iter().enumerate() {
        let more = if number == 0 { ".2" } else { "" };
        let found =
            [format!("lost+found.1/{inode}{more}"), format!("directory/{number}")].into_iter().any(|path| {
                fs::read_to_string(mount.path().join(path)).is_ok_and(|text| text == number.to_string())
            });
        assert!(found, "{number}: {:#?}", staged.actions);
    }
    mount.unmount().unwrap();
}

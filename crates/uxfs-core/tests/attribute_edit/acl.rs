//! Access control lists: what `setxattr` is given, we store as the kernel does.

use std::{path::Path, process::Command};

use uxfs_core::{
    attribute::{
        edit::SetMode,
        xattr::{ACL_ACCESS, ACL_DEFAULT},
    },
    error::{Error, OperationError},
    transaction::Transaction,
};
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require, verdict,
};

use crate::fixture::{Image, get};

/// What `setfacl` sets on a file, or with `-d` on a directory; each list once by the kernel and once by us.
const LISTS: [&[&str]; 8] = [
    &["-m", "u:1000:rwx"],
    &["-m", "u:1000:r,u:77:x,g:5:w,o::-"],
    &["-m", "u::rwx,g::-,o::r"],
    &["-m", "g:100:rwx,m::r"],
    &["-m", "m::x"],
    &["-d", "-m", "u:1000:rwx"],
    &["-d", "-m", "u::rx,g::x,o::-"],
    &["-d", "-m", "u:1:r,u:2:w,u:3:x,g:4:r,g:5:w,m::rw"],
];

fn name_of(list: &[&str]) -> &'static [u8] {
    if list.contains(&"-d") { ACL_DEFAULT } else { ACL_ACCESS }
}

fn getfacl(path: &Path) -> String {
    let output = Command::new("getfacl").args(["-n", "-p", "-c"]).arg(path).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn has_tools() -> bool {
    ["getfacl", "setfacl"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok())
}

#[test]
fn lists_are_those_that_the_kernel_would_have_stored() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    // Not a judge of its own: it only prints what the kernel says.
    assert!(has_tools() || !uxfs_testkit::judges::are_required(), "getfacl and setfacl are needed");
    if !has_tools() {
        return;
    }
    let mut image = Image::empty(&["-n", "parent=0"], 320);
    let mut shown = Vec::new();
    image.populate(|root| {
        for (index, list) in LISTS.iter().enumerate() {
            let (theirs, ours) = (root.join(format!("theirs{index}")), root.join(format!("ours{index}")));
            for path in [&theirs, &ours] {
                if list.contains(&"-d") {
                    std::fs::create_dir(path).unwrap();
                } else {
                    std::fs::write(path, "").unwrap();
                }
            }
            let status = Command::new("setfacl").arg("-n").args(*list).arg(&theirs).status().unwrap();
            assert!(status.success());
            shown.push(match rustix::fs::lgetxattr(&theirs, name_of(list), &mut [0_u8; 4096][..]) {
                Ok(_) => get(&theirs, name_of(list)),
                // The mode says it all: as `setfacl` gave it to the kernel.
                Err(_) => [
                    &[2_u8, 0, 0, 0][..],
                    &[1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff],
                    &[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
                    &[0x20, 0, 4, 0, 0xff, 0xff, 0xff, 0xff],
                ]
                .concat(),
            });
        }
    });
    let file_system = image.change();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    for (index, (list, value)) in LISTS.iter().zip(&shown).enumerate() {
        let mut inode = transaction.load_inode(image.files[&format!("ours{index}")]).unwrap();
        // Setting it twice and removing it in between must not matter.
        for _ in 0..2 {
            transaction.set_xattr(&mut inode, name_of(list), value, SetMode::Upsert).unwrap();
        }
        transaction.remove_xattr(&mut inode, name_of(list)).unwrap();
        transaction.remove_xattr(&mut inode, name_of(list)).unwrap();
        transaction.set_xattr(&mut inode, name_of(list), value, SetMode::Upsert).unwrap();
        transaction.store_inode(&mut inode).unwrap();
    }
    let mut file = transaction.load_inode(image.files["ours0"]).unwrap();
    let on_a_file = transaction.set_xattr(&mut file, ACL_DEFAULT, &shown[0], SetMode::Upsert);
    assert!(matches!(on_a_file, Err(Error::Operation(OperationError::NotADirectory))));
    let broken = transaction.set_xattr(&mut file, ACL_ACCESS, &shown[0][..12], SetMode::Upsert);
    assert!(matches!(broken, Err(Error::Operation(OperationError::InvalidAcl(_)))));
    transaction.commit().unwrap();
    drop(transaction);
    file_system.close().unwrap();
    verdict::repair_is_silent(&image.path).unwrap();
    let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
    for (index, list) in LISTS.iter().enumerate() {
        let (theirs, ours) = (mount.join(format!("theirs{index}")), mount.join(format!("ours{index}")));
        assert_eq!(getfacl(&ours), getfacl(&theirs), "{list:?}");
        let stored = |path: &Path| {
            let mut names = vec![0_u8; 4096];
            let length = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap();
            names[..length].to_vec()
        };
        assert_eq!(stored(&ours), stored(&theirs), "{list:?}");
        use std::os::unix::fs::MetadataExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode();
        assert_eq!(mode(&ours), mode(&theirs), "{list:?}");
    }
    mount.unmount().unwrap();
}

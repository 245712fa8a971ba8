//! Access control lists: what `setxattr` is given, we store as the kernel does.

use std::{path::Path, process::Command};

use uxfs_engine::{attribute::SetMode, bulk::create::NewKind, transaction::Transaction};
use uxfs_filesystem::{
    filesystem::FileSystem,
    operations::{create::NewFile, set_attributes::AttributeChanges},
};
use uxfs_format::units::InodeNumber;
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require, verdict,
};
use uxfs_volume::{
    attribute::xattr::{ACL_ACCESS, ACL_DEFAULT},
    error::{Error, OperationError},
    inode::{DeviceNumber, FileType},
};

use super::fixture::{Image, get};

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

#[test]
fn lists_are_those_that_the_kernel_would_have_stored() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel, Judge::Setfacl);
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
            let status = Judge::Setfacl.command().arg("-n").args(*list).arg(&theirs).status().unwrap();
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
            transaction.attributes().set_xattr(&mut inode, name_of(list), value, SetMode::Upsert).unwrap();
        }
        transaction.attributes().remove_xattr(&mut inode, name_of(list)).unwrap();
        transaction.attributes().remove_xattr(&mut inode, name_of(list)).unwrap();
        transaction.attributes().set_xattr(&mut inode, name_of(list), value, SetMode::Upsert).unwrap();
        transaction.store_inode(&mut inode).unwrap();
    }
    let mut file = transaction.load_inode(image.files["ours0"]).unwrap();
    let on_a_file = transaction.attributes().set_xattr(&mut file, ACL_DEFAULT, &shown[0], SetMode::Upsert);
    assert!(matches!(on_a_file, Err(Error::Operation(OperationError::AccessDenied))));
    let broken = transaction.attributes().set_xattr(&mut file, ACL_ACCESS, &shown[0][..12], SetMode::Upsert);
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

/// Default lists of directories, as `setfacl` takes them; the first directory has none.
const DEFAULTS: [&[&str]; 6] = [
    &[],
    &["-d", "-m", "u::rwx,g::rwx,o::rwx"],
    &["-d", "-m", "u::rx,g::x,o::-"],
    &["-d", "-m", "u:1000:rwx"],
    &["-d", "-m", "u:1:r,u:2:w,g:5:w,m::rw"],
    &["-d", "-m", "u::rwx,g::r,m::rwx,o::rx"],
];
const UMASKS: [u16; 3] = [0, 0o022, 0o077];
/// What comes into each directory: name, kind, the mode that the tools ask for, and the mode that it gets later.
const NEW_FILES: [(&str, NewKind<'_>, u16, u16); 4] = [
    ("file", NewKind::Regular, 0o666, 0o6_713),
    ("plain", NewKind::Regular, 0o666, 0),
    ("directory", NewKind::Directory, 0o777, 0o1_275),
    ("fifo", NewKind::Special(FileType::Fifo, DeviceNumber { major: 0, minor: 0 }), 0o666, 0o604),
];

fn fill_by_kernel(directory: &Path, umask: u16) {
    let script = "umask $1; cd \"$2\"; : > file; : > plain; mkdir directory; mkfifo fifo; \
        chmod 6713 file; chmod 1275 directory; chmod 604 fifo";
    let status =
        Command::new("sh").args(["-ec", script, "sh", &format!("{umask:o}")]).arg(directory).status();
    assert!(status.unwrap().success());
}

fn fill_by_us(file_system: &FileSystem, directory: InodeNumber, umask: u16) {
    let directory = file_system.open(directory).unwrap();
    for (name, kind, wanted, later) in NEW_FILES {
        let new = NewFile { umask, ..NewFile::new(kind, wanted) };
        let file = file_system.create(&directory, name.as_bytes(), &new).unwrap();
        if later != 0 {
            let changes = AttributeChanges { permissions: Some(later), ..AttributeChanges::default() };
            file_system.set_attributes(&file, &changes).unwrap();
        }
    }
}

#[test]
fn new_files_inherit_what_the_kernel_would_have_given_them() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel, Judge::Setfacl);
    let mut image = Image::empty(&[], 320);
    let cases: Vec<_> = (0..DEFAULTS.len()).flat_map(|list| UMASKS.map(|umask| (list, umask))).collect();
    image.populate(|root| {
        for (list, umask) in &cases {
            for side in ["theirs", "ours"] {
                let path = root.join(format!("{side}-{list}-{umask}"));
                std::fs::create_dir(&path).unwrap();
                if !DEFAULTS[*list].is_empty() {
                    let status = Judge::Setfacl.command().arg("-n").args(DEFAULTS[*list]).arg(&path).status();
                    assert!(status.unwrap().success());
                }
            }
            fill_by_kernel(&root.join(format!("theirs-{list}-{umask}")), *umask);
        }
    });
    let file_system = image.change();
    for (list, umask) in &cases {
        fill_by_us(&file_system, image.files[&format!("ours-{list}-{umask}")], *umask);
    }
    file_system.close().unwrap();
    verdict::repair_is_silent(&image.path).unwrap();
    let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
    for (list, umask) in &cases {
        for (name, ..) in NEW_FILES {
            let [theirs, ours] =
                ["theirs", "ours"].map(|side| mount.join(format!("{side}-{list}-{umask}")).join(name));
            let case = format!("{name} with {:?} and umask {umask:o}", DEFAULTS[*list]);
            assert_eq!(getfacl(&ours), getfacl(&theirs), "{case}");
            use std::os::unix::fs::MetadataExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().mode();
            assert_eq!(mode(&ours), mode(&theirs), "{case}");
            assert_eq!(super::fixture::list(&ours), super::fixture::list(&theirs), "{case}");
        }
    }
    mount.unmount().unwrap();
}

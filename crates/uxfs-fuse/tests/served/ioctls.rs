//! Ioctls about the file system as a whole, beside the kernel's on the same image.
#![allow(unsafe_code)]

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::{
    io::Errno,
    ioctl::{Getter, Opcode, Setter, ioctl, opcode},
};
use uxfs_testkit::{
    image::TestImage,
    judges::Judge,
    mount::{Access, LoopMount},
    require,
};

use super::{Served, run};

const GEOMETRY_1: Opcode = opcode::read::<[u8; 112]>(b'X', 100);
const GEOMETRY_4: Opcode = opcode::read::<[u8; 112]>(b'X', 124);
const GEOMETRY_5: Opcode = opcode::read::<[u8; 256]>(b'X', 126);
const COUNTS: Opcode = opcode::read::<[u8; 32]>(b'X', 113);
const SHUT_DOWN: Opcode = opcode::read::<u32>(b'X', 125);
const GET_LABEL: Opcode = opcode::read::<[u8; 256]>(0x94, 49);
const SET_LABEL: Opcode = opcode::write::<[u8; 256]>(0x94, 50);

fn ask<const NUMBER: Opcode, const BYTES: usize>(directory: &Path) -> io::Result<Vec<u8>> {
    let directory = File::open(directory)?;
    // SAFETY: the kernel fills as many bytes as the number of the ioctl says: those of the array.
    let bytes: [u8; BYTES] = unsafe { ioctl(&directory, Getter::<NUMBER, _>::new()) }?;
    Ok(bytes.to_vec())
}

fn set_label(directory: &Path, label: &str) -> io::Result<()> {
    let mut bytes = [0; 256];
    bytes[..label.len()].copy_from_slice(label.as_bytes());
    let directory = File::open(directory)?;
    // SAFETY: the kernel reads as many bytes as the number of the ioctl says: those of the array.
    Ok(unsafe { ioctl(&directory, Setter::<SET_LABEL, _>::new(bytes)) }?)
}

/// What both are asked.
fn told(directory: &Path) -> [Vec<u8>; 5] {
    [
        ask::<GEOMETRY_1, 112>(directory).unwrap(),
        ask::<GEOMETRY_4, 112>(directory).unwrap(),
        ask::<GEOMETRY_5, 256>(directory).unwrap(),
        // The kernel leaves the rest as it was.
        ask::<GET_LABEL, 256>(directory).unwrap()[..13].to_vec(),
        // Free inodes, and all: free blocks leave room for what each keeps to itself.
        ask::<COUNTS, 32>(directory).unwrap()[16..].to_vec(),
    ]
}

#[test]
fn geometry_is_told_as_the_kernel_tells_it() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for options in [
        &[][..],
        &["-n", "size=8k", "-L", "hello"],
        &["-s", "size=4096"],
        &["-m", "bigtime=0,inobtcount=0,reflink=0,rmapbt=0", "-i", "nrext64=0"],
        &["-b", "size=1024", "-i", "sparse=0", "-d", "su=64k,sw=4"],
    ] {
        let mut served = Served::new("geometry", 400);
        served.image = TestImage::new("geometry", 400, options, 0);
        let mount = LoopMount::new(&served.image.path, Access::ReadWrite).unwrap();
        let expected = told(mount.path());
        mount.unmount().unwrap();
        served.used("", |root| assert_eq!(told(root), expected, "{options:?}"));
    }
}

#[test]
fn a_label_is_changed() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let served = Served::new("label", 300);
    served.used("", |root| {
        set_label(root, "twelve bytes").unwrap();
        assert_eq!(ask::<GET_LABEL, 256>(root).unwrap()[..13], *b"twelve bytes\0");
        assert_eq!(set_label(root, "thirteen byte").unwrap_err().raw_os_error(), Some(22));
        fs::write(root.join("file"), "contents").unwrap();
    });
    served.image.must_be_sound();
    let mount = LoopMount::new(&served.image.path, Access::ReadWrite).unwrap();
    assert_eq!(ask::<GET_LABEL, 256>(mount.path()).unwrap()[..13], *b"twelve bytes\0");
    mount.unmount().unwrap();
}

#[test]
fn free_space_is_given_back_to_the_host() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let served = Served::new("trim", 300);
    served.used("", |root| {
        let taken_bytes = || fs::metadata(&served.image.path).unwrap().blocks() * 512;
        let write = |name: &str, byte: u8| {
            fs::write(root.join(name), vec![byte; 40 << 20]).unwrap();
            File::open(root.join(name)).unwrap().sync_all().unwrap();
        };
        write("stays", 7);
        write("goes", 8);
        let before = taken_bytes();
        fs::remove_file(root.join("goes")).unwrap();
        File::open(root).unwrap().sync_all().unwrap();
        for _ in 0..100 {
            run("fstrim", &[root.to_str().unwrap()]);
            if taken_bytes() < before - (39 << 20) {
                break;
            }
            // The kernel forgets the file a little later.
            std::thread::sleep(std::time::Duration::from_millis(50));
            File::open(root).unwrap().sync_all().unwrap();
        }
        assert!(taken_bytes() < before - (39 << 20), "{} of {before}", taken_bytes());
        assert!(fs::read(root.join("stays")).unwrap() == vec![7; 40 << 20]);
    });
    served.image.must_be_sound();
}

#[test]
fn a_file_system_that_is_shut_down_changes_nothing() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let served = Served::new("shutdown", 300);
    let closed = served.used_and_closed(
        "log=error",
        |server| server,
        |root| {
            fs::write(root.join("file"), "contents").unwrap();
            File::open(root.join("file")).unwrap().sync_all().unwrap();
            ask::<SHUT_DOWN, 4>(root).unwrap();
            let error = fs::create_dir(root.join("directory")).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
        },
    );
    assert!(closed.unwrap_err().to_string().contains("asked for it"));
    served.used("", |root| {
        assert_eq!(fs::read(root.join("file")).unwrap(), b"contents");
        assert!(!root.join("directory").exists());
    });
    served.image.must_be_sound();
}

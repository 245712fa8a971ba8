//! Images in the hands of Linux: `xfs_repair -n` is silent, the kernel mounts them, fills them, and they are still sound;
//! our own reader finds in them what the kernel does. File systems made to grow are grown by the kernel.

use std::{
    fs::{self, OpenOptions},
    path::Path,
    process::Command,
};

use uxfs_block::engine::{self, Engine};
use uxfs_mkfs::{
    empty,
    identity::Identity,
    layout::{DeviceFacts, Layout},
    options::Options,
};
use uxfs_testkit::{
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require, verdict,
};

use crate::common;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn format(options: &Options, path: &Path, size_bytes: u64) -> Layout {
    common::hole(path, size_bytes);
    let (layout, _) = Layout::resolve(options, &DeviceFacts::file(size_bytes)).unwrap();
    let (identity, _) = Identity::from_environment(None, |_| None::<String>);
    let open = engine::OpenOptions { writable: true, engine: Engine::Sync, ..engine::OpenOptions::default() };
    let device = engine::open(path, &open).unwrap();
    empty::format(&*device, &layout, &identity).unwrap();
    layout
}

/// The kernel makes directories, files and links.
fn fill(mount: &LoopMount) {
    for directory in 0..20 {
        let folder = mount.join(format!("directory-{directory}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..40usize {
            fs::write(folder.join(format!("file-{file}")), vec![7; file * 700]).unwrap();
        }
        std::os::unix::fs::symlink("file-1", folder.join("link")).unwrap();
    }
}

#[test]
fn linux_takes_them() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let cases = [
        (64 * MIB, "--unsupported"),
        (300 * MIB, "-L small"),
        (GIB, ""),
        (GIB, "-b size=1k"),
        (GIB, "-i size=2048 -n size=64k"),
        (GIB, "-d su=64k,sw=4"),
        (GIB, "-l su=256k"),
        (GIB, "-l agnum=0 -d agcount=3"),
        (GIB, "-m rmapbt=0,reflink=0,finobt=0 -n parent=0"),
        (GIB, "-i sparse=0,nrext64=0,exchange=0 -m bigtime=0,inobtcount=0"),
        (2 * GIB, "-d extszinherit=16,projinherit=7,cowextsize=8"),
        (5 << 40, ""),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    for (size_bytes, options) in cases {
        format(&common::options(options).unwrap(), &path, size_bytes);
        verdict::repair_is_silent(&path).unwrap_or_else(|error| panic!("{options}: {error:#}"));
        let mount = LoopMount::new(&path, Access::ReadWrite)
            .unwrap_or_else(|error| panic!("{size_bytes} {options}: {error:#}"));
        fill(&mount);
        mount.unmount().unwrap();
        verdict::repair_is_silent(&path).unwrap_or_else(|error| panic!("{options}, filled: {error:#}"));
        judged("kernel", &format!("{size_bytes} {options}: mounted, filled, sound"));
    }
}

#[test]
fn our_reader_finds_an_empty_root() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    format(&common::options("-n version=ci -b size=2k").unwrap(), &path, GIB);
    let device = engine::open(&path, &engine::OpenOptions::default()).unwrap();
    let filesystem =
        uxfs_filesystem::mount::open_volume(device, &uxfs_engine::options::MountOptions::default()).unwrap();
    let root = filesystem.resolve(b"/", true).unwrap();
    assert_eq!((root.permissions(), root.link_count()), (0o755, 2));
}

/// An image that was not finished is not taken for a file system.
#[test]
fn an_unfinished_image_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    common::hole(&path, GIB);
    let (layout, _) = Layout::resolve(&Options::default(), &DeviceFacts::file(GIB)).unwrap();
    let (identity, _) = Identity::from_environment(None, |_| None::<String>);
    let open = engine::OpenOptions { writable: true, ..engine::OpenOptions::default() };
    let device = engine::open(&path, &open).unwrap();
    let unfinished = empty::begin(&*device, &layout, &identity).unwrap();
    let mount = || {
        let device = engine::open(&path, &engine::OpenOptions::default()).unwrap();
        uxfs_filesystem::mount::open_volume(device, &uxfs_engine::options::MountOptions::default())
    };
    assert!(mount().unwrap_err().to_string().contains("is unfinished"));
    unfinished.finish().unwrap();
    assert!(mount().is_ok());
}

/// Grows a mounted image with the kernel, and gives the number of groups that it has then.
fn grow(path: &Path, size_bytes: u64) -> u32 {
    let growfs = Judge::XfsRepair.path().unwrap().with_file_name("xfs_growfs");
    let mount = LoopMount::new(path, Access::ReadWrite).unwrap();
    fill(&mount);
    OpenOptions::new().write(true).open(path).unwrap().set_len(size_bytes).unwrap();
    let found =
        Command::new("losetup").args(["--noheadings", "-O", "NAME", "-j"]).arg(path).output().unwrap();
    let device = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    assert!(Command::new("losetup").arg("-c").arg(&device).status().unwrap().success());
    let output = Command::new(growfs).arg(mount.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(mount.join("after"), [1; 5000]).unwrap();
    mount.unmount().unwrap();
    verdict::repair_is_silent(path).unwrap();
    let superblock = fs::File::open(path).unwrap();
    let mut count = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(&superblock, &mut count, 88).unwrap();
    u32::from_be_bytes(count)
}

#[test]
fn what_is_made_to_grow_grows_into_few_groups() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    // The groups that a file system made at the later size has, beside those that one has that is simply grown.
    for (now_bytes, later_bytes, groups_now, groups_later) in
        [(400 * MIB, 40 * GIB, 1, 4), (30 * GIB, 40 * GIB, 3, 4), (GIB, 5 << 40, 1, 5)]
    {
        let mut options = Options::default();
        options.grow_to_bytes = Some(later_bytes);
        let layout = format(&options, &path, now_bytes);
        assert_eq!(layout.groups.count, groups_now);
        if groups_now == 1 {
            // Without a second superblock to compare with, xfs_repair wants to be told to go on.
            let mut command = Judge::XfsRepair.command();
            assert!(
                command
                    .args(["-n", "-f", "-o", "force_geometry"])
                    .arg(&path)
                    .output()
                    .unwrap()
                    .status
                    .success()
            );
        } else {
            verdict::repair_is_silent(&path).unwrap();
        }
        assert_eq!(grow(&path, later_bytes), groups_later, "{now_bytes} to {later_bytes}");
        judged("kernel", &format!("{now_bytes} grown to {later_bytes}: {groups_later} groups"));
    }
}

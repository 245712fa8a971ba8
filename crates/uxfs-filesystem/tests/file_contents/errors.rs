//! What Linux refuses we refuse, and the library's own number is the one that the system call gives.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
};

use rustix::{
    fs::{FallocateFlags, SeekFrom, fallocate, ftruncate, readlink, seek, symlink},
    io::Errno,
};
use uxfs_engine::{bulk::create::NewKind, options::LogOptions};
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange, handles::Seek, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::create::NewFile,
};
use uxfs_testkit::{
    image::TestImage,
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
};
use uxfs_volume::error::Result;

#[derive(Debug, Clone, Copy)]
enum Step {
    SeekData(u64),
    SeekHole(u64),
    Truncate(u64),
    Write(u64),
    Allocate(u64, u64),
    Collapse(u64, u64),
    Insert(u64, u64),
    Punch(u64, u64),
    Symlink(usize),
    ReadLink,
}

const SIZE: u64 = 20_000;
const MOST: u64 = i64::MAX as u64;

/// At the edges of what goes. A write that ends behind `loff_t` is refused by the system call itself, whatever the file.
const STEPS: &[Step] = &[
    Step::SeekData(0),
    Step::SeekData(SIZE),
    Step::SeekData(SIZE + 1),
    Step::SeekHole(0),
    Step::SeekHole(SIZE - 1),
    Step::SeekHole(SIZE),
    Step::SeekHole(SIZE + 5),
    Step::Write(MOST - 1),
    Step::Allocate(0, 0),
    Step::Allocate(MOST - 10, 11),
    Step::Collapse(0, 0),
    Step::Collapse(0, 100),
    Step::Collapse(1, 4096),
    Step::Collapse(4096, 1 << 20),
    Step::Insert(0, 0),
    Step::Insert(7, 4096),
    Step::Insert(1 << 20, 4096),
    Step::Insert(4096, MOST & !4095),
    Step::Punch(0, 0),
    Step::Symlink(0),
    Step::Symlink(1023),
    Step::Symlink(1024),
    Step::ReadLink,
    Step::Truncate(MOST),
];

fn by_kernel(file: &File, folder: &Path, step: Step) -> std::result::Result<(), Errno> {
    let change = |flags, offset, length| fallocate(file, flags, offset, length);
    match step {
        Step::SeekData(offset) => seek(file, SeekFrom::Data(offset)).map(drop),
        Step::SeekHole(offset) => seek(file, SeekFrom::Hole(offset)).map(drop),
        Step::Truncate(size) => ftruncate(file, size),
        Step::Write(offset) => {
            let written = file.write_at(b"x", offset).map(drop);
            written.map_err(|error| Errno::from_io_error(&error).unwrap())
        }
        Step::Allocate(offset, length) => change(FallocateFlags::empty(), offset, length),
        Step::Collapse(offset, length) => change(FallocateFlags::COLLAPSE_RANGE, offset, length),
        Step::Insert(offset, length) => change(FallocateFlags::INSERT_RANGE, offset, length),
        Step::Punch(offset, length) => {
            change(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)
        }
        Step::Symlink(length) => symlink("t".repeat(length), folder.join(format!("link-{length}"))),
        Step::ReadLink => readlink(folder.join("file-0"), Vec::new()).map(drop),
    }
}

fn by_us(file_system: &FileSystem, file: &InodeHandle, step: Step) -> Result<()> {
    let touch = Touch::NOTHING;
    match step {
        Step::SeekData(offset) => file_system.seek(file, offset, Seek::Data).map(drop),
        Step::SeekHole(offset) => file_system.seek(file, offset, Seek::Hole).map(drop),
        Step::Truncate(size) => file_system.set_size(file, size, touch),
        Step::Write(offset) => file_system.write(file, offset, b"x", touch).map(drop),
        Step::Allocate(offset, length) => {
            file_system.allocate_range(file, offset, length, SizeChange::Grow, touch)
        }
        Step::Collapse(offset, length) => file_system.collapse_range(file, offset, length, touch),
        Step::Insert(offset, length) => file_system.insert_range(file, offset, length, touch),
        Step::Punch(offset, length) => file_system.punch_range(file, offset, length, touch),
        Step::Symlink(length) => {
            let target = "t".repeat(length);
            let new = NewFile::new(NewKind::Symlink(target.as_bytes()), 0o777);
            let name = format!("link-{length}");
            file_system.create(&file_system.open_root()?, name.as_bytes(), &new).map(drop)
        }
        Step::ReadLink => file_system.read_link(file).map(drop),
    }
}

#[test]
fn numbers_of_errors_are_those_of_linux() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let [ours, theirs] = ["ours", "theirs"].map(|name| TestImage::new(name, 320, &[], 1));
    let file_system = ours.mount_logged(LogOptions::default());
    let root = file_system.open_root().unwrap();
    let handle = file_system.find(&root, b"file-0").unwrap();
    file_system.write(&handle, 0, &[7; SIZE as usize], Touch::NOTHING).unwrap();
    let mount = LoopMount::new(&theirs.path, Access::ReadWrite).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(mount.join("file-0")).unwrap();
    file.write_all_at(&[7; SIZE as usize], 0).unwrap();
    for step in STEPS {
        let expected = by_kernel(&file, mount.path(), *step).map_err(Errno::raw_os_error);
        let found = by_us(&file_system, &handle, *step);
        assert_eq!(
            found.as_ref().map(drop).map_err(|error| error.errno()),
            expected.as_ref().map(drop).map_err(|errno| *errno),
            "{step:?}: {found:?}"
        );
    }
    drop((handle, root, file));
    file_system.close().unwrap();
    mount.unmount().unwrap();
    ours.must_satisfy_repair();
    judged("kernel", &format!("{} answers of system calls", STEPS.len()));
}

/// What `xfs_io` says in words, since these are calls of XFS alone.
fn words_of_kernel(mount: &LoopMount, command: &str) -> String {
    let other = mount.join("file-1");
    let command = command.replace("OTHER", other.to_str().unwrap());
    let output = Judge::XfsIo.command().args(["-c", &command]).arg(mount.join("file-0")).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn without_the_feature_the_number_is_that_of_linux() {
    require!(Judge::Mkfs, Judge::XfsIo, Judge::Kernel);
    let options = ["-m", "reflink=0,rmapbt=0", "-n", "parent=0", "-i", "exchange=0"];
    let [ours, theirs] = ["ours", "theirs"].map(|name| TestImage::new(name, 320, &options, 2));
    let file_system = ours.mount_logged(LogOptions::default());
    let root = file_system.open_root().unwrap();
    let [one, other] = [b"file-0", b"file-1"].map(|name| file_system.find(&root, name).unwrap());
    let mount = LoopMount::new(&theirs.path, Access::ReadWrite).unwrap();
    for file in [&one, &other] {
        file_system.write(file, 0, &[7; 8192], Touch::NOTHING).unwrap();
    }
    for name in ["file-0", "file-1"] {
        std::fs::write(mount.join(name), [7; 8192]).unwrap();
    }
    let clone = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 4096 };
    let range =
        ExchangeRange { first_bytes: 0, second_bytes: 0, length_bytes: 4096, ..ExchangeRange::default() };
    let cases = [
        ("reflink OTHER 0 0 4096", file_system.clone_range(&other, &one, &clone, Touch::NOTHING).map(drop)),
        (
            "exchangerange -s 0 -d 0 -l 4096 OTHER",
            file_system.exchange_files(&one, &other, &range, Touch::NOTHING),
        ),
    ];
    for (command, ours) in cases {
        let number = ours.unwrap_err().errno();
        let error = std::io::Error::from_raw_os_error(number).to_string();
        let words = error.split(" (os error").next().unwrap();
        let theirs = words_of_kernel(&mount, command);
        assert!(theirs.trim_end().ends_with(words), "{command}: {theirs:?}, ours {words:?}");
    }
    drop((one, other, root));
    file_system.close().unwrap();
    mount.unmount().unwrap();
}

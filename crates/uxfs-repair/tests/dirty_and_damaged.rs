//! The kernel stopped in the middle of its work, with files that are unlinked and still open; then something was damaged as well, often the
//! log itself. What the log has of an inode that a repair has freed does not come back.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::{fault::Structure, geometry::Geometry};
use uxfs_testkit::{
    image::{make, memory_folder},
    judges::Judge,
    mount::{Access, LoopMount},
    require, sparse, structures,
    verdict::repair_is_silent,
};

use crate::common::{repair_image, repair_image_without_log, try_all};

const SHAPES: [&[&str]; 5] = [
    &["-m", "rmapbt=1", "-n", "parent=1"],
    &["-m", "rmapbt=1", "-n", "parent=0"],
    &["-m", "rmapbt=0", "-n", "parent=0"],
    &["-m", "rmapbt=0,reflink=0", "-n", "parent=1"],
    &["-b", "size=1024", "-m", "rmapbt=1", "-n", "parent=1"],
];
const GROUPS: u64 = 4;
const FILES: usize = 60;

#[derive(Debug, Clone, Copy)]
enum Damage {
    /// Zeros over the three headers of a group.
    Headers(u64),
    /// Zeros over every so manieth sector of the log.
    Log(u64),
    /// Zeros over every so manieth block of metadata.
    Metadata(usize),
    /// A block of inodes over another one: both numbers count them.
    Misplaced(usize, usize),
}

fn damages() -> Vec<Damage> {
    let headers = (0..GROUPS).map(Damage::Headers);
    let others = [
        Damage::Log(7),
        Damage::Log(50),
        Damage::Metadata(5),
        Damage::Metadata(11),
        Damage::Metadata(29),
        Damage::Metadata(3),
        Damage::Metadata(7),
        Damage::Misplaced(3, 0),
        Damage::Misplaced(1, 2),
    ];
    headers.chain(others).collect()
}

/// An image as the kernel leaves it when it stops: much is only in the log.
fn stopped(shape: &[&str], folder: &Path) -> PathBuf {
    let image = folder.join("stopped");
    let options: Vec<&str> = ["-d", "agcount=4"].iter().chain(shape).copied().collect();
    make(&image, 96 << 20, &options).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    let mut open = Vec::new();
    for directory in 0..4 {
        let path = mount.join(format!("d{directory}"));
        fs::create_dir(&path).unwrap();
        for file in 0..FILES {
            fs::write(path.join(format!("f{file}")), [b'x'; 100]).unwrap();
        }
        for file in (0..FILES).step_by(3) {
            let removed = File::open(path.join(format!("f{file}"))).unwrap();
            for attribute in 0..6 {
                let (name, flags) = (format!("user.{attribute}"), rustix::fs::XattrFlags::empty());
                rustix::fs::fsetxattr(&removed, name, &[b'v'; 900], flags).unwrap();
            }
            open.push(removed);
            fs::remove_file(path.join(format!("f{file}"))).unwrap();
        }
        for _ in 0..5 {
            let flags = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
            let unnamed = File::options().read(true).write(true).custom_flags(flags).open(&path).unwrap();
            unnamed.write_all_at(&[b'y'; 5000], 0).unwrap();
            open.push(unnamed);
        }
    }
    File::create(mount.join("last")).unwrap().sync_all().unwrap();
    let shutdown = Judge::XfsIo.command().args(["-x", "-c", "shutdown -f"]).arg(mount.path()).status();
    assert!(shutdown.unwrap().success());
    drop(open);
    mount.unmount().unwrap();
    image
}

fn plant(image: &Path, damage: Damage) {
    let (geometry, all) = structures::list(&SyncDevice::open_read_only(image, 0).unwrap()).unwrap();
    let file = File::options().read(true).write(true).open(image).unwrap();
    let zero = |offset: u64, length: u64| file.write_all_at(&vec![0; length as usize], offset).unwrap();
    let pieces_of = |is_wanted: &dyn Fn(Structure) -> bool| -> Vec<(u64, u64)> {
        let wanted = all.iter().filter(|instance| is_wanted(instance.structure));
        wanted.flat_map(|instance| instance.pieces.iter().map(|(at, length)| (*at, *length as u64))).collect()
    };
    let block_bytes = u64::from(geometry.block_size_bytes);
    match damage {
        Damage::Headers(group) => {
            let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
            zero(group * group_bytes + 512, 3 * 512);
        }
        Damage::Log(step) => {
            let start =
                Geometry::byte_of_sector(geometry.sector_of_block(geometry.log_start.unwrap()).unwrap());
            let sectors = u64::from(geometry.log_blocks) * block_bytes / 512;
            (0..sectors).step_by(step as usize).for_each(|sector| zero(start + sector * 512, 512));
        }
        Damage::Metadata(step) => {
            let is_block = |structure| {
                !matches!(
                    structure,
                    Structure::Superblock
                        | Structure::FreeSpaceHeader
                        | Structure::InodeHeader
                        | Structure::FreeList
                        | Structure::Inode
                )
            };
            let blocks = pieces_of(&is_block);
            blocks.iter().step_by(step).for_each(|(at, length)| zero(*at, *length));
        }
        Damage::Misplaced(from, to) => {
            let mut blocks: Vec<u64> = pieces_of(&|structure| structure == Structure::Inode)
                .iter()
                .map(|(at, _)| at / block_bytes * block_bytes)
                .collect();
            blocks.dedup();
            let mut bytes = vec![0; block_bytes as usize];
            file.read_exact_at(&mut bytes, blocks[from]).unwrap();
            file.write_all_at(&bytes, blocks[to]).unwrap();
        }
    }
}

#[test]
fn a_repair_of_a_dirty_log_and_damage_comes_to_an_end() {
    require!(Judge::XfsRepair, Judge::Kernel, Judge::Mkfs, Judge::XfsIo);
    let mut count = 0;
    for shape in SHAPES {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let before = stopped(shape, folder.path());
        let cases: Vec<_> =
            damages().into_iter().flat_map(|damage| [(damage, true), (damage, false)]).collect();
        count += cases.len();
        let wrong = try_all(&cases, |(damage, with_log), image| {
            sparse::copy(&before, image).unwrap();
            plant(image, *damage);
            let staged = if *with_log { repair_image(image) } else { repair_image_without_log(image) };
            let left = staged.remaining.iter().take(5).map(ToString::to_string);
            let said = repair_is_silent(image).err().map(|error| format!("{error:#}"));
            let wrong = left.chain(said);
            wrong.map(|words| format!("{shape:?} {damage:?} log copies {with_log}: {words}")).collect()
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    assert_eq!(count, 130);
}

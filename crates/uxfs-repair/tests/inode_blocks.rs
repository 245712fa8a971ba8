//! Blocks of 64 KiB hold two inode chunks. Linux makes both at once, reads both at once, and never frees one: a repair knows all chunks of
//! a block, or none.

use std::{fs, os::unix::fs::FileExt, path::Path};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::fault::Structure;
use uxfs_repair::Finding;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    manifest::{Header, Manifest},
    require, structures,
    verdict::{repair_findings, repair_is_silent, same},
    walk,
};

use crate::common::{findings_of, plant, repair_image, repair_image_without_log, try_all};

const BLOCK_BYTES: u64 = 65536;
/// The block of group 0 whose first chunk holds the root directory, and whose second one has no inode in use.
const ROOT_BLOCK: u64 = 9;

/// What is lost of group 0, or of group 3, whose second block of inodes is in use to its end.
struct Loss {
    group: u64,
    structures: &'static [Structure],
    /// Bytes of blocks of the group that hold something else then.
    overwritten: &'static [(u64, u64)],
    /// Files may be lost with them.
    is_lossy: bool,
}

const INDEXES: &[Structure] = &[Structure::InodeIndex, Structure::FreeInodeIndex];
const WITH_OWNERS: &[Structure] = &[Structure::InodeIndex, Structure::FreeInodeIndex, Structure::ReverseMap];
const HEADERS: &[Structure] = &[
    Structure::FreeSpaceHeader,
    Structure::InodeHeader,
    Structure::InodeIndex,
    Structure::FreeInodeIndex,
    Structure::ReverseMap,
];
const HALF: u64 = BLOCK_BYTES / 2;
const SECOND_HALF: (u64, u64) = (ROOT_BLOCK * BLOCK_BYTES + HALF, HALF);
/// In group 3.
const SECOND_BLOCK: u64 = 36096 / 128;

const LOSSES: &[Loss] = &[
    Loss { group: 0, structures: INDEXES, overwritten: &[], is_lossy: false },
    Loss { group: 0, structures: WITH_OWNERS, overwritten: &[], is_lossy: false },
    Loss { group: 0, structures: HEADERS, overwritten: &[], is_lossy: false },
    Loss { group: 0, structures: WITH_OWNERS, overwritten: &[SECOND_HALF], is_lossy: false },
    Loss { group: 3, structures: WITH_OWNERS, overwritten: &[], is_lossy: false },
    Loss {
        group: 3,
        structures: WITH_OWNERS,
        overwritten: &[(SECOND_BLOCK * BLOCK_BYTES, HALF)],
        is_lossy: true,
    },
    Loss {
        group: 3,
        structures: WITH_OWNERS,
        overwritten: &[(SECOND_BLOCK * BLOCK_BYTES + HALF, HALF)],
        is_lossy: true,
    },
    // Directories in this block have children in other groups.
    Loss {
        group: 3,
        structures: HEADERS,
        overwritten: &[(SECOND_BLOCK * BLOCK_BYTES, BLOCK_BYTES)],
        is_lossy: true,
    },
];

fn lose(image: &Path, loss: &Loss) {
    let (geometry, all) = structures::list(&SyncDevice::open_read_only(image, 0).unwrap()).unwrap();
    let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
    let of_group = loss.group * group_bytes..(loss.group + 1) * group_bytes;
    let file = fs::File::options().write(true).open(image).unwrap();
    for instance in all.iter().filter(|instance| loss.structures.contains(&instance.structure)) {
        let (offset, length) = instance.pieces[0];
        if of_group.contains(&offset) {
            file.write_all_at(&vec![0; length as usize], offset).unwrap();
        }
    }
    for (offset, length) in loss.overwritten {
        file.write_all_at(&vec![0x5a; *length as usize], of_group.start + offset).unwrap();
    }
}

fn manifest(image: &Path) -> Manifest {
    let header =
        Header { image: image.display().to_string(), judge: "uxfs".into(), made_by: "a test".into() };
    walk::from_image(image, header).unwrap()
}

#[test]
fn a_chunk_without_a_record_beside_one_that_has_one_is_found() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::named("block-64k").unwrap().unpack_to(&image).unwrap();
    let sound = manifest(&image);
    let counts: Vec<u64> = plant(&image, &["sb 0", "print icount ifree"])
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    let (inodes, free) =
        (format!("write -d icount {}", counts[0] - 64), format!("write -d ifree {}", counts[1] - 64));
    #[rustfmt::skip]
    plant(&image, &[
        "agi 0", "addr root", "write -d numrecs 1", "agi 0", "addr free_root", "write -d numrecs 1",
        "agi 0", "write -d count 64", "write -d freecount 6", "sb 0", &inodes, &free,
    ]);
    assert_ne!(repair_findings(&image).unwrap(), Vec::<String>::new());
    let findings = findings_of(&image);
    let numbers: Vec<u16> = findings.iter().map(Finding::number).collect();
    assert_eq!(numbers, [38], "{findings:#?}");
    assert!(findings[0].to_string().contains("lacks the inode chunk at inode 1216"), "{}", findings[0]);
    let staged = repair_image(&image);
    assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
    repair_is_silent(&image).unwrap();
    same(&sound, &manifest(&image)).unwrap();
}

#[test]
fn blocks_of_inodes_come_back_whole() {
    require!(Judge::XfsRepair);
    let golden = GoldenImage::named("block-64k").unwrap();
    let sound = manifest(&golden.unpacked().unwrap());
    // Every second one with what the log still holds.
    let cases: Vec<_> = LOSSES.iter().zip([false, true].into_iter().cycle()).collect();
    let wrong = try_all(&cases, |(loss, with_log), image| {
        golden.unpack_to(image).unwrap();
        lose(image, loss);
        let staged = if *with_log { repair_image(image) } else { repair_image_without_log(image) };
        let name =
            format!("{:?} of group {}, {:?}, log {with_log}", loss.structures, loss.group, loss.overwritten);
        let mut wrong = Vec::new();
        if !staged.remaining.is_empty() {
            wrong.push(format!("{name}: left {:#?}", staged.remaining));
        }
        if let Err(error) = repair_is_silent(image) {
            wrong.push(format!("{name}: {error:#}"));
        }
        if !loss.is_lossy
            && let Err(error) = same(&sound, &manifest(image))
        {
            wrong.push(format!("{name}: {error:#}"));
        }
        wrong
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

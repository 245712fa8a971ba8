//! Repairs of golden images with one damage each: afterwards `xfs_repair -n` is silent, and the tree is that of the kernel's manifest.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    sync::Arc,
};

use uxfs_block::{device::BlockDevice, engine::sync::SyncDevice};
use uxfs_format::{inode::Fork, units::InodeNumber};
use uxfs_repair::repair::{RepairOptions, action::Action};
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    manifest::{FileKind, Header, Manifest, differences, report},
    mount::{Access, LoopMount},
    require,
    sparse::{self, Contents},
    verdict::repair_findings,
    walk,
};
use uxfs_volume::volume::{Volume, VolumeOptions};

use crate::common::{plant, repair_image, repair_image_without_log, stage, try_all};

/// A change by `xfs_db` or by hand, that a repair makes good without a loss.
struct Damage {
    name: &'static str,
    image: &'static str,
    commands: &'static [&'static str],
}

const fn damage(name: &'static str, image: &'static str, commands: &'static [&'static str]) -> Damage {
    Damage { name, image, commands }
}

const FILE: &str = "path /link-into-the-deep";
const SHORTFORM: &str = "path /directories/shortform";
const LEAF: &str = "dblock 8388608";

#[rustfmt::skip]
const DAMAGES: &[Damage] = &[
    damage("superblock-icount", "default", &["sb 0", "write -d icount 1"]),
    damage("superblock-checksum", "default", &["sb 0", "write -c icount 1"]),
    damage("superblock-copy", "default", &["sb 1", "write -d logblocks 5000"]),
    damage("agf-freeblks", "default", &["agf 1", "write -d freeblks 6000"]),
    damage("agf-checksum", "default", &["agf 1", "write -c freeblks 6000"]),
    damage("agf-checksum-block-1k", "block-1k", &["agf 0", "write -c freeblks 6000"]),
    damage("agi-checksum", "default", &["agi 0", "write -c count 6000"]),
    damage("agi-checksum-no-rmapbt", "no-rmapbt", &["agi 0", "write -c count 6000"]),
    damage("agi-count", "default", &["agi 0", "write -d count 128"]),
    damage("agi-unlinked", "default", &["agi 0", "write -d unlinked[3] 131"]),
    damage("free-too-short", "default", &["agf 0", "addr bnoroot", "write -d recs[5].blockcount 6"]),
    damage("free-too-long", "default", &["agf 0", "addr bnoroot", "write -d recs[5].blockcount 8"]),
    damage("free-by-length", "default", &["agf 2", "addr cntroot", "write -c recs[1].startblock 3000"]),
    damage("owner", "default", &["agf 2", "addr rmaproot", "addr ptrs[1]", "write -d recs[16].owner 278496"]),
    damage("rmap-block", "default", &["agf 2", "addr rmaproot", "addr ptrs[1]", "write -c recs[16].owner 278496"]),
    damage("reference-count", "default", &["agf 2", "addr refcntroot", "addr ptrs[1]", "write -d recs[1].refcount 9"]),
    damage("reference-count-root", "default", &["agf 2", "addr refcntroot", "write -c numrecs 700"]),
    damage("free-inodes-differ", "default", &["agi 0", "addr free_root", "write -d recs[1].free 0x3"]),
    damage("inode-not-in-use", "default", &["agi 0", "addr root", "write -d recs[1].free 0x0800000000000000", "write -d recs[1].freecount 1"]),
    damage("inode-not-free", "default", &["agi 0", "addr root", "write -d recs[1].free 0x0c00000080000000", "write -d recs[1].freecount 3"]),
    damage("inode-index-root", "default", &["agi 0", "addr root", "write -c numrecs 700"]),
    damage("inode-index-root-no-finobt", "no-finobt", &["agi 1", "addr root", "write -c numrecs 700"]),
    damage("inode-index-root-no-sparse", "no-sparse", &["agi 0", "addr root", "write -c numrecs 700"]),
    damage("inode-index-root-block-64k", "block-64k", &["agi 0", "addr root", "write -c numrecs 700"]),
    damage("inode-index-root-inode-2k", "inode-2k", &["agi 0", "addr root", "write -c numrecs 700"]),
    damage("inode-blocks", "default", &[FILE, "write -d core.nblocks 9"]),
    damage("inode-checksum", "default", &[FILE, "write -c core.gen 9"]),
    damage("mode-of-a-file", "default", &[FILE, "write -d core.mode 0100644", "write -d core.magic 5"]),
    damage("links-of-directory", "default", &["path /directories", "write -d core.nlinkv2 7"]),
    damage("links-of-file", "default", &["path /directories/node/linked", "write -d core.nlinkv2 812"]),
    damage("no-links-and-a-name", "default", &["inode 131202", "write -d core.nlinkv2 0"]),
    damage("entry-of-other-inode", "default", &["path /directories/block", "dblock 0", "write -d bu[2].inumber 131203"]),
    damage("entry-of-no-inode", "default", &["path /directories/block", "dblock 0", "write -d bu[2].inumber 1431655765"]),
    damage("entry-named-as-parent", "default", &[SHORTFORM, "write -d u3.sfdir3.list[0].name \"..\""]),
    damage("entry-type", "default", &["path /directories/block", "dblock 0", "write -d bu[2].filetype 2"]),
    damage("leaf-hash", "default", &["path /directories/leaf", LEAF, "write -d lents[3].hashval 0x647c2950"]),
    damage("leaf-best", "default", &["path /directories/leaf", LEAF, "write -d lbests[1] 0x100"]),
    damage("node-hash", "default", &["path /directories/node", LEAF, "write -d nbtree[1].hashval 0x6fd1750d"]),
    damage("free-index", "default", &["path /directories/node", "dblock 16777216", "write -d fbests[4] 0x5a5a"]),
    damage("free-index-checksum", "default", &["path /directories/node", "dblock 16777216", "write -c fbests[4] 0x5a5a"]),
    damage("directory-block-checksum", "default", &["path /directories/block", "dblock 0", "write -c bu[2].inumber 1431655765"]),
    damage("directory-data-checksum", "default", &["path /directories/leaf", "dblock 0", "write -c du[2].inumber 1431655765"]),
    damage("directory-data-checksum-8k", "block-1k", &["path /directories/leaf", "dblock 0", "write -c du[2].inumber 1431655765"]),
    damage("directory-leaf-checksum", "default", &["path /directories/leaf", LEAF, "write -c lents[3].hashval 1"]),
    damage("dot-dot", "default", &[SHORTFORM, "write -d u3.sfdir3.hdr.parent.i4 128"]),
    damage("name-twice", "default", &[SHORTFORM, "write -d u3.sfdir3.list[0].name \"f1\""]),
    damage("parent-generation", "default", &["path /special/symlinks/of-30-bytes", "write -d a.sfattr.list[0].parent_dir.gen 5"]),
    damage("extent-map-block", "default", &["path /extents/fragmented", "addr u3.bmbt.ptrs[1]", "write -c numrecs 700"]),
    damage("extent-map-block-1k", "block-1k", &["path /extents/fragmented", "addr u3.bmbt.ptrs[1]", "write -c numrecs 700"]),
    damage("parent-directory", "default", &["path /special/symlinks/of-30-bytes", "write -d a.sfattr.list[0].parent_dir.inumber 131"]),
    damage("attribute-first-name", "default", &["path /attributes/leaf", "ablock 0", "write -d hdr.firstused 1000"]),
];

/// What an image holds, without where directories and attributes lie.
fn tree_of(golden: &GoldenImage, image: &Path) -> Manifest {
    let header = Header { judge: "uxfs".into(), ..golden.manifest().unwrap().header };
    without_places(walk::from_image(image, header).unwrap())
}

fn without_places(mut manifest: Manifest) -> Manifest {
    for entry in &mut manifest.entries {
        let is_directory = entry.kind == FileKind::Directory;
        let Some(details) = &mut entry.details else { continue };
        details.attribute_extents = None;
        if is_directory {
            (details.size_bytes, details.sectors, details.extents) = (None, None, None);
            (details.extent_count, details.entries) = (None, None);
        }
    }
    manifest
}

/// Inodes that are lost, by paths: their places are overwritten.
const LOST: &[(&str, &[&str])] = &[
    ("root", &["/"]),
    (
        "directories",
        &["/directories/block", "/directories/leaf", "/directories/node", "/deep/level-0/level-1"],
    ),
    ("root and below", &["/", "/directories", "/deep", "/special"]),
];

/// Moves directories whose names were lost together with the root back from `lost+found`, by their numbers.
fn move_back(found: &mut Manifest, expected: &Manifest) {
    found.entries.retain(|entry| entry.path.0 != b"/lost+found");
    for entry in &mut found.entries {
        let Some(path) = entry.path.0.strip_prefix(b"/lost+found/") else { continue };
        let (number, rest) = path.split_at(path.iter().position(|byte| *byte == b'/').unwrap_or(path.len()));
        let inode = std::str::from_utf8(number).unwrap().parse().ok();
        let name = &expected.entries.iter().find(|entry| entry.inode == inode).unwrap().path.0;
        entry.path.0 = [name.as_slice(), rest].concat();
    }
    found.entries.sort_by(|one, other| one.path.cmp(&other.path));
    // The first path of an inode has its details.
    let mut details = std::collections::HashMap::new();
    for entry in &mut found.entries {
        details.extend(entry.details.take().map(|found| (entry.inode, found)));
    }
    for entry in &mut found.entries {
        entry.details = details.remove(&entry.inode);
    }
}

#[test]
fn lost_directories_come_back_with_all_names() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for name in ["default", "block-1k"] {
        for (lost, paths) in LOST {
            let golden = GoldenImage::lean(name).unwrap();
            golden.unpack_to(&image).unwrap();
            let expected = without_places(golden.manifest().unwrap());
            let inode_of = |path: &&str| {
                let entry = expected.entries.iter().find(|entry| entry.path.0 == path.as_bytes());
                entry.and_then(|entry| entry.inode).unwrap()
            };
            let inodes: Vec<u64> = paths.iter().map(inode_of).collect();
            for inode in &inodes {
                plant(
                    &image,
                    &[
                        &format!("inode {inode}"),
                        "write -d core.nlinkv2 0",
                        "write -d core.magic 0",
                        "write -d core.mode 0",
                    ],
                );
            }
            let staged = repair_image_without_log(&image);
            let shown: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
            let left: Vec<String> = staged.remaining.iter().take(8).map(ToString::to_string).collect();
            assert!(left.is_empty(), "{name} {lost}: {left:#?} after {shown:#?}");
            assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{name} {lost} after {shown:#?}");
            let mut found = tree_of(&golden, &image);
            move_back(&mut found, &expected);
            let mut expected = expected.clone();
            // Mode, owner and times of what was lost are gone with it.
            for entries in [&mut expected.entries, &mut found.entries] {
                for entry in entries.iter_mut().filter(|entry| inodes.contains(&entry.inode.unwrap())) {
                    entry.details = None;
                }
            }
            let differences = report(&differences(&expected, &found), 20);
            assert!(differences.is_none(), "{name} {lost}: {} after {shown:#?}", differences.unwrap());
        }
    }
}

/// Without parent pointers, and in the first image without a reverse map, the names of a directory whose inode is gone are in its blocks
/// alone.
#[test]
fn names_come_back_from_blocks_that_no_map_leads_to() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for name in ["no-feature", "no-parent"] {
        let golden = GoldenImage::lean(name).unwrap();
        golden.unpack_to(&image).unwrap();
        let expected = without_places(golden.manifest().unwrap());
        let lost = ["/directories/block", "/directories/leaf", "/directories/node"];
        let entries =
            expected.entries.iter().filter(|entry| lost.iter().any(|path| entry.path.0 == path.as_bytes()));
        let inodes: Vec<u64> = entries.filter_map(|entry| entry.inode).collect();
        assert_eq!(inodes.len(), lost.len(), "{name}");
        for inode in &inodes {
            let inode = format!("inode {inode}");
            plant(
                &image,
                &[&inode, "write -d core.nlinkv2 0", "write -d core.magic 0", "write -d core.mode 0"],
            );
        }
        let staged = repair_image_without_log(&image);
        let left: Vec<String> = staged.remaining.iter().take(8).map(ToString::to_string).collect();
        assert!(left.is_empty(), "{name}: {left:#?}");
        assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{name}");
        let from_blocks =
            staged.actions.iter().filter(|action| matches!(action, Action::NameFromBlock { .. })).count();
        assert!(name != "no-feature" || from_blocks > 100, "{name}: {from_blocks}");
        let (mut expected, mut found) = (expected, tree_of(&golden, &image));
        // Mode, owner and times of what was lost are gone with it.
        for entries in [&mut expected.entries, &mut found.entries] {
            for entry in entries.iter_mut().filter(|entry| inodes.contains(&entry.inode.unwrap())) {
                entry.details = None;
            }
        }
        let differences = report(&differences(&expected, &found), 20);
        assert!(differences.is_none(), "{name}: {}", differences.unwrap());
    }
}

/// `lost+found` and what is in it are made: no clock and nothing random may show.
#[test]
fn one_damage_gives_the_same_bytes_each_time() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let golden = GoldenImage::lean("default").unwrap();
    golden.unpack_to(&image).unwrap();
    // The name of a directory was in the other, and its parent pointer in itself.
    for path in ["/", "/directories", "/deep"] {
        let entries = golden.manifest().unwrap().entries;
        let inode =
            entries.iter().find(|entry| entry.path.0 == path.as_bytes()).and_then(|entry| entry.inode);
        let inode = format!("inode {}", inode.unwrap());
        plant(&image, &[&inode, "write -d core.nlinkv2 0", "write -d core.magic 0", "write -d core.mode 0"]);
    }
    let options = RepairOptions { ignore_log_copies: true, ..RepairOptions::default() };
    let bytes = [(), ()].map(|()| {
        let staged = stage(&image, &options);
        assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
        assert!(staged.actions.iter().any(|action| matches!(action, Action::LostAndFound { .. })));
        let runs = staged.overlay.runs(0);
        let read = |(start, length): (u64, u64)| {
            let mut bytes = vec![0; length as usize];
            staged.overlay.read(start, &mut bytes).unwrap();
            (start, bytes)
        };
        runs.into_iter().map(read).collect::<Vec<_>>()
    });
    assert!(bytes[0] == bytes[1]);
}

/// Zeros over the log, or garbage: it is replaced, and nothing is lost, because it was clean.
#[test]
fn a_log_that_is_gone_is_replaced() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for (name, byte) in [("default", 0_u8), ("default", 0x5a), ("sector-4k", 0x5a), ("stripes", 0xff)] {
        let golden = GoldenImage::lean(name).unwrap();
        golden.unpack_to(&image).unwrap();
        let device = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
        let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
        let geometry = volume.geometry();
        let start = geometry.sector_of_block(geometry.log_start.unwrap()).unwrap().get() * 512;
        let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
        file.write_all_at(&vec![byte; (geometry.log_blocks as usize) << geometry.block_log], start).unwrap();
        let staged = repair_image(&image);
        let left: Vec<String> = staged.remaining.iter().take(8).map(ToString::to_string).collect();
        assert!(left.is_empty(), "{name} {byte:#x}: {left:#?} after {:?}", staged.actions);
        assert!(staged.actions.iter().any(|action| matches!(action, Action::NewLog { .. })));
        assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{name} {byte:#x}");
        // Linux goes on with it.
        let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
        fs::write(mount.path().join("written after the repair"), b"contents").unwrap();
        mount.unmount().unwrap();
        assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{name} {byte:#x}");
        assert_eq!(repair_image(&image).findings, 0);
    }
}

/// Headers of all groups and the log are gone: extents are read although their blocks are ahead of the empty log, so that no new btree lies
/// over them.
#[test]
fn contents_stay_where_all_headers_and_the_log_are_gone() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for name in ["default", "no-rmapbt"] {
        let golden = GoldenImage::lean(name).unwrap();
        golden.unpack_to(&image).unwrap();
        let expected = without_places(golden.manifest().unwrap());
        let device = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
        let geometry = Volume::open(device, &VolumeOptions::default()).unwrap().geometry().clone();
        let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
        let log = geometry.sector_of_block(geometry.log_start.unwrap()).unwrap().get() * 512;
        file.write_all_at(&vec![0; (geometry.log_blocks as usize) << geometry.block_log], log).unwrap();
        zero_group_headers(&image);
        let staged = repair_image(&image);
        assert!(staged.remaining.is_empty(), "{name}: {:?}", staged.remaining);
        let numbers = staged.actions.iter().filter(|action| matches!(action, Action::InodeLsn { .. }));
        assert_eq!(numbers.count(), 0, "{name}: the log is wrong, and not each inode");
        assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{name}");
        let differences = report(&differences(&expected, &tree_of(&golden, &image)), 20);
        assert!(differences.is_none(), "{name}: {}", differences.unwrap());
    }
}

/// The headers of all groups become zeros; superblocks stay.
fn zero_group_headers(image: &Path) {
    let device = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let geometry = Volume::open(device, &VolumeOptions::default()).unwrap().geometry().clone();
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    for group in geometry.groups() {
        for header in 1..4 {
            let sector = geometry.sector_of_group_header(group, header).unwrap().get() * 512;
            file.write_all_at(&vec![0; geometry.sector_size_bytes as usize], sector).unwrap();
        }
    }
}

/// Blocks of an extent map and of the reverse map are damaged together: what neither knows any more must not read as zeros at its path.
#[test]
fn a_file_is_whole_or_called_partial() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let golden = GoldenImage::lean("default").unwrap();
    let expected = without_places(golden.manifest().unwrap());
    let (mut whole, mut partial) = (0, 0);
    // 0: the roots of all reverse maps, and the headers that lead to them. Groups are rebuilt before their files can be looked at.
    for (of_map, of_owners) in [(1, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (1, 0), (4, 0)] {
        golden.unpack_to(&image).unwrap();
        let map = format!("addr u3.bmbt.ptrs[{of_map}]");
        plant(&image, &["path /extents/fragmented", &map, "write -c level 60", "write -c numrecs 700"]);
        if of_owners == 0 {
            let headers: Vec<String> = (0..4).map(|group| format!("agf {group}")).collect();
            for header in &headers {
                plant(&image, &[header, "addr rmaproot", "write -c level 60", "write -c numrecs 700"]);
            }
            zero_group_headers(&image);
        } else {
            let owners = format!("addr ptrs[{of_owners}]");
            plant(&image, &["agf 1", "addr rmaproot", &owners, "write -c level 60", "write -c numrecs 700"]);
        }
        let staged = repair_image_without_log(&image);
        assert!(staged.remaining.is_empty(), "{of_map} {of_owners}: {:#?}", staged.remaining);
        assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{of_map} {of_owners}");
        let mut found = tree_of(&golden, &image);
        let is_partial =
            |path: &[u8]| path.starts_with(b"/lost+found/") && path.ends_with(b"fragmented.partial");
        if found.entries.iter().any(|entry| is_partial(&entry.path.0)) {
            partial += 1;
            found.entries.retain(|entry| !entry.path.0.starts_with(b"/lost+found"));
            assert!(staged.actions.iter().any(|action| matches!(action, Action::FilePartial { .. })));
        } else {
            whole += 1;
        }
        let mut expected = expected.clone();
        let is_there = |path: &[u8]| found.entries.iter().any(|entry| entry.path.0 == path);
        expected.entries.retain(|entry| !entry.path.0.ends_with(b"/fragmented") || is_there(&entry.path.0));
        expected.entries.iter_mut().for_each(forget_link_count_of_root);
        found.entries.iter_mut().for_each(forget_link_count_of_root);
        let differences = report(&differences(&expected, &found), 20);
        assert!(differences.is_none(), "{of_map} {of_owners}: {}", differences.unwrap());
    }
    eprintln!("{whole} whole, {partial} partial");
    assert!(whole > 0 && partial > 0, "{whole} {partial}");
}

/// The root directory may have got `lost+found`.
fn forget_link_count_of_root(entry: &mut uxfs_testkit::manifest::Entry) {
    if entry.path.0 == b"/" {
        entry.details = None;
    }
}

/// Linux makes files of every type; their inodes are overwritten, and the headers of all groups but one as well: the log has them.
#[test]
fn inodes_that_are_gone_come_back_from_the_log() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (sound, image) = (folder.path().join("sound"), folder.path().join("image"));
    let golden = GoldenImage::lean("default").unwrap();
    golden.unpack_to(&sound).unwrap();
    let mount = LoopMount::new(&sound, Access::ReadWrite).unwrap();
    make_every_type(&mount.path().join("recent"));
    mount.unmount().unwrap();
    let expected = tree_of(&golden, &sound);
    let of_recent = expected.entries.iter().filter(|entry| entry.path.0.starts_with(b"/recent"));
    let inodes: BTreeSet<u64> = of_recent.clone().map(|entry| entry.inode.unwrap()).collect();
    let files = of_recent.filter(|entry| entry.kind != FileKind::Directory);
    let files: BTreeSet<u64> = files.map(|entry| entry.inode.unwrap()).collect();
    assert!(inodes.len() > 60, "{}", inodes.len());
    for (byte, is_without_headers) in [(0_u8, false), (0x5a, false), (0xff, true)] {
        sparse::copy(&sound, &image).unwrap();
        overwrite(&image, &inodes, byte, is_without_headers);
        let staged = repair_image(&image);
        let left: Vec<String> = staged.remaining.iter().take(8).map(ToString::to_string).collect();
        assert!(left.is_empty(), "{byte}: {left:#?}");
        assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{byte}");
        let differences = report(&differences(&expected, &tree_of(&golden, &image)), 20);
        assert!(differences.is_none(), "{byte}: {}", differences.unwrap());
        let again = repair_image(&image);
        assert_eq!((again.findings, again.actions.len()), (0, 0), "{byte}: {:?}", again.actions);
        // Without the log, entries and the reverse map still know names and contents of files.
        sparse::copy(&sound, &image).unwrap();
        overwrite(&image, &files, byte, is_without_headers);
        let staged = repair_image_without_log(&image);
        assert!(staged.remaining.is_empty(), "{byte}: {:#?}", staged.remaining);
        assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{byte}");
        if !is_without_headers {
            let mount = LoopMount::new(&image, Access::ReadOnlyNoRecovery).unwrap();
            let recent = mount.path().join("recent");
            assert_eq!(fs::read(recent.join("file")).unwrap(), CONTENTS);
            assert_eq!(fs::read_link(recent.join("long-link")).unwrap().as_os_str().len(), 300);
            assert_eq!(fs::read_dir(recent.join("directory")).unwrap().count(), 60);
            let empty = fs::metadata(recent.join("empty")).unwrap();
            assert_eq!((empty.len(), empty.mode() & 0o7777), (0, 0o600));
            mount.unmount().unwrap();
        }
    }
}

/// A file's only extent is changed to that of another file, on a file system that knows sharing: the reverse map tells whose it is.
#[test]
fn blocks_of_another_file_are_given_back() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for name in ["default", "block-1k", "no-reflink"] {
        let golden = GoldenImage::lean(name).unwrap();
        golden.unpack_to(&image).unwrap();
        let device = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
        let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
        let mut single = Vec::new();
        for entry in golden.manifest().unwrap().entries.iter().filter(|entry| entry.kind == FileKind::Regular)
        {
            let inode = volume.inode(InodeNumber::new(entry.inode.unwrap())).unwrap();
            let map = volume.extent_map(&inode, Fork::Data).unwrap();
            if let [extent] = map.iter().collect::<Vec<_>>()[..]
                && extent.length_blocks == 1
                && single.iter().all(|(known, _)| *known != inode.number)
            {
                single.push((inode.number, extent.start));
            }
        }
        assert!(single.len() >= 4, "{name}: {single:?}");
        for ((_, start), (inode, _)) in single.iter().zip(single.iter().skip(1)).step_by(2).take(3) {
            golden.unpack_to(&image).unwrap();
            plant(&image, &[&format!("inode {inode}"), &format!("write -d u3.bmx[0].startblock {start}")]);
            let staged = repair_image(&image);
            assert!(staged.findings > 0 && staged.remaining.is_empty(), "{name}: {:#?}", staged.remaining);
            assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{name} {inode}: {:?}", staged.actions);
            let (expected, found) = (without_places(golden.manifest().unwrap()), tree_of(&golden, &image));
            let differences = report(&differences(&expected, &found), 20);
            assert!(differences.is_none(), "{name} {inode}: {}", differences.unwrap());
        }
    }
}

/// All superblocks are overwritten, and then the headers of all groups as well: the log has a superblock.
#[test]
fn an_image_without_any_superblock_comes_back() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for (name, sectors) in [("default", 1), ("default", 4), ("sector-4k", 1), ("block-1k", 4)] {
        let golden = GoldenImage::lean(name).unwrap();
        golden.unpack_to(&image).unwrap();
        let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
        fs::write(mount.path().join("recent"), CONTENTS).unwrap();
        mount.unmount().unwrap();
        let expected = tree_of(&golden, &image);
        let device = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
        let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
        let geometry = volume.geometry();
        let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
        for group in geometry.groups() {
            let start = geometry.sector_of_group_header(group, 0).unwrap().get() * 512;
            file.write_all_at(&vec![0x5a; sectors * geometry.sector_size_bytes as usize], start).unwrap();
        }
        let staged = repair_image(&image);
        let left: Vec<String> = staged.remaining.iter().take(8).map(ToString::to_string).collect();
        assert!(left.is_empty(), "{name} {sectors}: {left:#?}");
        assert!(staged.actions.contains(&Action::SuperblockFromLog));
        assert_eq!(repair_findings(&image).unwrap(), [""; 0], "{name} {sectors}");
        let differences = report(&differences(&expected, &tree_of(&golden, &image)), 20);
        assert!(differences.is_none(), "{name} {sectors}: {}", differences.unwrap());
        assert_eq!(repair_image(&image).findings, 0);
    }
}

const CONTENTS: &[u8] = b"contents of a file";

fn make_every_type(folder: &Path) {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    fs::create_dir(folder).unwrap();
    fs::create_dir(folder.join("short")).unwrap();
    fs::create_dir(folder.join("directory")).unwrap();
    for number in 0..60 {
        fs::write(folder.join(format!("directory/a name that is not short {number}")), CONTENTS).unwrap();
    }
    fs::write(folder.join("file"), CONTENTS).unwrap();
    fs::set_permissions(folder.join("file"), fs::Permissions::from_mode(0o4751)).unwrap();
    chown(folder.join("file"), Some(1001), Some(1002)).unwrap();
    fs::hard_link(folder.join("file"), folder.join("short/linked")).unwrap();
    fs::write(folder.join("empty"), b"").unwrap();
    symlink("target", folder.join("link")).unwrap();
    symlink("t".repeat(300), folder.join("long-link")).unwrap();
    for (name, kind) in [("fifo", "p"), ("device", "c")] {
        let mut command = std::process::Command::new("mknod");
        command.arg(folder.join(name)).arg(kind);
        command.args(if kind == "c" { &["5", "300"][..] } else { &[] });
        assert!(command.status().unwrap().success());
    }
}

/// Overwrites inodes, and headers of the groups but the first.
fn overwrite(image: &Path, inodes: &BTreeSet<u64>, byte: u8, with_headers: bool) {
    let device = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
    let geometry = volume.geometry();
    let mut places = Vec::new();
    for inode in inodes {
        let place = geometry.inode_place(InodeNumber::new(*inode)).unwrap();
        let sector = geometry.sector_of_group_block(place.group, place.block).unwrap();
        places.push((sector.get() * 512 + u64::from(place.offset_bytes), geometry.inode_size()));
    }
    for group in geometry.groups().filter(|group| with_headers && group.get() > 0) {
        let sector = geometry.sector_of_group_header(group, 1).unwrap();
        places.push((sector.get() * 512, 3 * geometry.sector_size_bytes as usize));
    }
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    for (offset, length) in places {
        file.write_all_at(&vec![byte; length], offset).unwrap();
    }
}

#[test]
fn single_damages_are_repaired_without_loss() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let wrong =
        try_all(DAMAGES, |damage, image| repaired_without_loss(damage, image).err().into_iter().collect());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn repaired_without_loss(damage: &Damage, image: &Path) -> Result<(), String> {
    let golden = GoldenImage::lean(damage.image).unwrap();
    golden.unpack_to(image).unwrap();
    plant(image, damage.commands);
    let damaged = Contents::read(image).unwrap();
    let staged = repair_image(image);
    let shown: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
    if !staged.remaining.is_empty() || staged.findings == 0 || Contents::read(image).unwrap() == damaged {
        let left: Vec<String> = staged.remaining.iter().take(8).map(ToString::to_string).collect();
        return Err(format!(
            "{}: {} findings, then {left:#?} after {shown:#?}",
            damage.name, staged.findings
        ));
    }
    let judged = repair_findings(image).unwrap();
    if !judged.is_empty() {
        return Err(format!("{}: xfs_repair says {judged:#?} after {shown:#?}", damage.name));
    }
    let (expected, found) = (without_places(golden.manifest().unwrap()), tree_of(&golden, image));
    if let Some(differences) = report(&differences(&expected, &found), 20) {
        return Err(format!("{}: {differences} after {shown:#?}", damage.name));
    }
    // A second repair finds nothing to do.
    let again = repair_image(image);
    match (again.findings, again.actions.len()) {
        (0, 0) => Ok(()),
        _ => Err(format!("{}: again {:?}", damage.name, again.actions)),
    }
}

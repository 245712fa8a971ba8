//! Structures that are not repaired: a realtime section, with or without groups, zones, quotas. Images of every such option of `mkfs.xfs` have
//! no findings. A repair of damage elsewhere leaves each byte of them as it is: their inodes, and all blocks of these.

use std::{collections::BTreeSet, ops::Range, os::unix::fs::FileExt, path::Path, sync::Arc};

use uxfs_block::{device::BlockDevice, engine::sync::SyncDevice};
use uxfs_format::{
    geometry::Geometry,
    inode::{Fork, InodeFlags2},
    units::{FsBlock, InodeNumber},
};
use uxfs_repair::Finding;
use uxfs_testkit::{image::memory_folder, judges::Judge, require, verdict::findings_in};
use uxfs_volume::{
    inode::scan::{ScanEvent, ScanOptions, ScannedInode},
    volume::{Volume, VolumeOptions},
};

use crate::common::{findings_of, in_order, plant, quota_image, repair_image, stage};

/// Name, options; `REALTIME` stands for a device of its own.
const IMAGES: &[(&str, &str)] = &[
    ("realtime", "-r rtdev=REALTIME"),
    ("realtime-in-extents", "-b size=1024 -r rtdev=REALTIME,extsize=64k"),
    ("realtime-groups", "-m metadir=1 -r rtdev=REALTIME"),
    (
        "realtime-groups-and-quotas",
        "-m metadir=1,uquota,gquota,pquota -b size=1024 -r rtdev=REALTIME,rgsize=64m",
    ),
    ("realtime-groups-without-owners", "-m metadir=1,rmapbt=0,reflink=0 -b size=65536 -r rtdev=REALTIME"),
    ("zones", "-r zoned=1,size=2g"),
];

/// Damage to group 0 and the root directory, which lie beside all of it. `free` makes a free extent shorter.
fn damage(free: &'static str) -> [&'static str; 10] {
    let group = ["agf 0", "write -d longest 17", "addr bnoroot", free, "agi 0", "write -d freecount 3"];
    let names = ["path /", "write -d core.nlinkv2 77", "sb 1", "write -d logblocks 77"];
    let mut all = [""; 10];
    all.iter_mut().zip(group.into_iter().chain(names)).for_each(|(place, command)| *place = command);
    all
}

#[test]
fn realtime_sections_and_quotas_stay_as_they_are() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, realtime) = (folder.path().join("image"), folder.path().join("realtime"));
    for (name, options) in IMAGES {
        let has_device = make(&image, &realtime, options);
        judge(name, &image, has_device.then_some(&realtime));
        must_stay(name, &image, "write -d recs[1].blockcount 1");
        judge(name, &image, has_device.then_some(&realtime));
    }
    quota_image::make(&image);
    must_stay("quotas", &image, "write -d recs[5].blockcount 6");
    judge("quotas", &image, None);
}

/// The blocks of a realtime btree with several levels are not known: a group that may have them is not rebuilt.
#[test]
fn nothing_is_repaired_beside_blocks_that_are_not_known() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, realtime) = (folder.path().join("image"), folder.path().join("realtime"));
    make(&image, &realtime, "-m metadir=1 -r rtdev=REALTIME");
    plant(
        &image,
        &["path -m /rtgroups/0.rmap", "write -d u3.rtrmapbt.level 1", "agf 0", "write -d longest 17"],
    );
    let staged = repair_image(&image);
    assert!(!staged.remaining.is_empty(), "{:#?}", staged.actions);
}

/// What files of realtime groups held is not made up: Linux would not mount without them.
#[test]
fn nothing_is_repaired_without_the_files_of_realtime_groups() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, realtime) = (folder.path().join("image"), folder.path().join("realtime"));
    make(&image, &realtime, "-m metadir=1 -r rtdev=REALTIME");
    let printed = plant(&image, &["path -m /rtgroups", "daddr"]);
    let sector = printed.split("daddr is ").nth(1).unwrap().trim().parse::<u64>().unwrap();
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 16384], sector * 512).unwrap();
    let staged = stage(&image, &in_order());
    let left: BTreeSet<u16> = staged.remaining.iter().map(Finding::number).collect();
    assert!(left.contains(&96), "{:#?}, left {:#?}", staged.actions, staged.remaining);
}

/// Gives whether the realtime section has a device of its own.
fn make(image: &Path, realtime: &Path, options: &str) -> bool {
    for path in [image, realtime] {
        std::fs::File::create(path).unwrap().set_len(4 << 30).unwrap();
    }
    let options = options.replace("REALTIME", realtime.to_str().unwrap());
    let output =
        Judge::Mkfs.command().args(["-q", "-f"]).args(options.split(' ')).arg(image).output().unwrap();
    assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
    options.contains("rtdev")
}

/// Both checks find nothing.
fn judge(name: &str, image: &Path, realtime: Option<&std::path::PathBuf>) {
    let found: Vec<String> = findings_of(image).iter().map(Finding::to_string).collect();
    assert_eq!(found, Vec::<String>::new(), "{name}");
    let mut command = Judge::XfsRepair.command();
    command.args(["-n", "-f"]);
    if let Some(realtime) = realtime {
        command.arg("-r").arg(realtime);
    }
    let output = command.arg(image).output().unwrap();
    let said = findings_in(&[output.stdout, output.stderr].concat());
    assert!(output.status.success() && said.is_empty(), "{name}: {said:#?}");
}

fn must_stay(name: &str, image: &Path, free: &'static str) {
    let places = places(image);
    assert!(places.len() >= 2, "{name}: {places:?}");
    plant(image, &damage(free));
    let numbers: BTreeSet<u16> = findings_of(image).iter().map(Finding::number).collect();
    assert!(BTreeSet::from([10, 20, 32, 70]).is_subset(&numbers), "{name}: {numbers:?}");
    let device = SyncDevice::open_read_only(image, 0).unwrap();
    let before: Vec<Vec<u8>> = places.iter().map(|place| read(&device, place)).collect();
    let staged = repair_image(image);
    let left: Vec<String> = staged.remaining.iter().map(ToString::to_string).collect();
    assert_eq!(left, Vec::<String>::new(), "{name}: {:#?}", staged.actions);
    assert!(staged.actions.len() >= 3, "{name}: {:#?}", staged.actions);
    for (place, before) in places.iter().zip(&before) {
        assert!(read(&device, place) == *before, "{name}: {place:?} has changed: {:#?}", staged.actions);
    }
}

fn read(device: &dyn BlockDevice, place: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (place.end - place.start) as usize];
    device.read(place.start, &mut bytes).unwrap();
    bytes
}

/// Where the inodes of the realtime section and of quotas lie, and all their blocks.
fn places(image: &Path) -> Vec<Range<u64>> {
    let device: Arc<dyn BlockDevice> = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
    let superblock = volume.superblock();
    let named = [
        superblock.realtime_bitmap_inode.get(),
        superblock.realtime_summary_inode.get(),
        superblock.user_quota_inode.get(),
        superblock.group_quota_inode.get(),
        superblock.project_quota_inode.get(),
    ];
    let (_, found) = volume.scan_inodes(&ScanOptions::in_order(), Vec::new, |found, event| {
        if let ScanEvent::Inode(ScannedInode { number, core: Ok(core), .. }) = event
            && (named.contains(&number.get()) || core.flags2().contains(InodeFlags2::METADATA))
        {
            found.push(number);
        }
        std::ops::ControlFlow::Continue(())
    });
    found.into_iter().flatten().flat_map(|inode| places_of(&volume, inode)).collect()
}

fn places_of(volume: &Volume, number: InodeNumber) -> Vec<Range<u64>> {
    let geometry = volume.geometry();
    let place = geometry.inode_place(number).unwrap();
    let sector = geometry.sector_of_group_block(place.group, place.block).unwrap();
    let start = Geometry::byte_of_sector(sector) + u64::from(place.offset_bytes);
    let mut places = Vec::new();
    places.push(start..start + geometry.inode_size() as u64);
    let inode = volume.inode(number).unwrap();
    let Ok(map) = volume.extent_map(&inode, Fork::Data) else { return places };
    for extent in map.iter().filter(|_| inode.has_extents(Fork::Data)) {
        for index in 0..extent.length_blocks {
            let block = FsBlock::new(extent.start.get() + index);
            let start = Geometry::byte_of_sector(geometry.sector_of_block(block).unwrap());
            places.push(start..start + u64::from(geometry.block_size_bytes));
        }
    }
    places
}
